# SPDX-License-Identifier: Apache-2.0
"""
Rules about the source itself that no other tool checks.
"""

from __future__ import annotations

import ast
import importlib.util

from collections.abc import Iterator
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "structbatch"
FOLDERS = ("structbatch", "tests", "property_tests", "examples", "bench", "docs")
LONGEST_FILE = 450
IMPURE = {
    "asyncio",
    "concurrent",
    "http",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "requests",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "urllib3",
    "uuid",
}
PURE_AFTER_ALL = {"urllib.parse"}


def sources(*folders: str) -> list[Path]:
    """
    Every Python file below *folders*.
    """
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    """
    *path* as a message shows it.
    """
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    """
    The syntax tree of *path*.
    """
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_settings_page_is_up_to_date() -> None:
    """
    docs/settings.md says what the code says: `make docs` was run after the last change of a setting.
    """
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)

    assert generate.settings_page() == (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sources(*FOLDERS), ids=relative)
def test_source_names_its_licence(path: Path) -> None:
    """
    Every source file opens with its SPDX line; a script may say first how it is run.
    """
    text = path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines()[:2] if not line.startswith("#!")]

    assert not text or lines[0] == "# SPDX-License-Identifier: Apache-2.0"


def test_files_of_the_package_hold_one_idea() -> None:
    """
    No file of the package is above 450 lines: a file of that size usually holds two ideas.
    """
    lengths = {relative(path): path.read_text(encoding="utf-8").count("\n") for path in sources("structbatch")}

    assert {} == {name: length for name, length in lengths.items() if length > LONGEST_FILE}


def test_every_test_says_what_it_defends() -> None:
    """
    Every test says in its docstring which rule it defends.
    """
    silent = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in sources("tests", "property_tests")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test")
        and not ast.get_docstring(node)
    ]

    assert [] == silent


def sleeps(path: Path) -> Iterator[str]:
    """
    Where *path* calls or imports ``time.sleep``.
    """
    for node in ast.walk(parse(path)):
        named = isinstance(node, ast.Attribute) and node.attr == "sleep"
        of_time = named and isinstance(node.value, ast.Name) and node.value.id == "time"  # type: ignore[attr-defined]
        imported = (
            isinstance(node, ast.ImportFrom)
            and node.module == "time"
            and any(alias.name == "sleep" for alias in node.names)
        )
        if of_time or imported:
            yield f"{relative(path)}:{node.lineno}"  # type: ignore[attr-defined]


def test_no_test_sleeps() -> None:
    """
    Only tests in tests/integration, where real threads and sockets run, may sleep.
    """
    calm = [path for path in sources("tests", "property_tests") if "integration" not in path.relative_to(ROOT).parts]

    assert [] == [place for path in calm for place in sleeps(path)]


def impurities(path: Path) -> Iterator[str]:
    """
    The imports of *path* that know a clock, dice, a thread, a file or a socket.
    """
    for node in ast.walk(parse(path)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [node.module or ""] if node.module in PURE_AFTER_ALL else names
        for name in names:
            if name.split(".")[0] in IMPURE and name not in PURE_AFTER_ALL:
                yield f"{relative(path)}:{node.lineno} {name}"


def clocks(path: Path) -> Iterator[str]:
    """
    Where *path* asks the calendar for the time.
    """
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            value = node.value
            if isinstance(value, ast.Name) and value.id in {"datetime", "date"}:
                yield f"{relative(path)}:{node.lineno} {node.attr}"


def test_core_and_vendors_are_pure() -> None:
    """
    Core and vendors know no clock, dice, thread, file, socket or log: time and dice are arguments.
    """
    files = sources("structbatch/core", "structbatch/vendors")
    found = [place for path in files for look in (impurities, clocks) for place in look(path)]

    assert files
    assert [] == found
