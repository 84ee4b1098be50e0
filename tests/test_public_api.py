# SPDX-License-Identifier: Apache-2.0
"""
The public face: a name that appears, disappears or takes other arguments is a decision, written into
``tests/public_api.txt``.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import subprocess
import sys

from collections.abc import Iterator
from pathlib import Path

import structbatch
import structbatch.structlog


APPROVED = Path(__file__).parent / "public_api.txt"
MODULES = (structbatch, structbatch.structlog)


def _names(module: object) -> list[str]:
    names = getattr(module, "__all__", None)
    own = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == getattr(module, "__name__", "")
    ]
    return sorted(names if names is not None else own)


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in kind)
        return
    if issubclass(kind, BaseException):
        yield f"({', '.join(base.__name__ for base in kind.__bases__)})"
        return
    yield from (f"__init__{line}" for line in _signature(kind))
    for name, member in sorted(vars(kind).items()):
        if not name.startswith("_") and inspect.isfunction(member):
            prefix = "async " if inspect.iscoroutinefunction(member) else ""
            yield from (f"{prefix}{name}{line}" for line in _signature(member))
    if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        yield "frozen"


def _signature(thing: object) -> list[str]:
    signature = inspect.signature(thing)  # type: ignore[arg-type]
    parameters = [
        # Settings have their own page of defaults.
        p if p.default is p.empty else p.replace(default=...)
        for p in signature.parameters.values()
        if p.name != "self"
    ]
    text = str(signature.replace(parameters=parameters))
    return [text.replace("Ellipsis", "...").replace("'", "")]


def public_api() -> str:
    """
    Every public name with its arguments, one a line.
    """
    lines = []
    for module in MODULES:
        for name in _names(module):
            thing = getattr(module, name)
            path = f"{module.__name__}.{name}"
            members = _members(thing) if inspect.isclass(thing) else _signature(thing)
            lines += [f"{path} {member}" for member in members]
    return "\n".join(sorted(lines)) + "\n"


def test_the_public_face_is_the_approved_one() -> None:
    """
    After a change that is meant: ``python tests/test_public_api.py``.
    """
    assert APPROVED.read_text(encoding="utf-8") == public_api()


def test_all_names_are_sorted_and_there() -> None:
    """
    `__all__` is what `from structbatch import *` gives.
    """
    names = structbatch.__all__

    assert sorted(names) == names
    assert all(hasattr(structbatch, name) for name in names)


def test_importing_starts_nothing() -> None:
    """
    No thread, no output, and nothing of what the command line needs.
    """
    program = (
        "import threading, sys; import structbatch, structbatch.structlog; "
        "print(threading.active_count(), [m for m in ('click', 'starlette', 'uvicorn', 'opentelemetry.sdk',"
        " 'multiprocessing') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd())

    assert "1 []" == done.stdout.strip()
    assert "" == done.stderr


if __name__ == "__main__":
    APPROVED.write_text(public_api(), encoding="utf-8")
