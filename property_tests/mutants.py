# SPDX-License-Identifier: Apache-2.0
"""
Seeded bugs in the core, each of which the tests have to find: ``python -m property_tests.mutants``.

Each mutant is one line changed in a copy of the package; then the suite runs on the copy, without shrinking. A mutant
that survives is a rule that nobody wrote down, or code that does nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple


if TYPE_CHECKING:
    import pytest


ROOT: Final = Path(__file__).parent.parent
SUITE: Final = (
    *(f"tests/core/test_{name}.py" for name in ("intake", "delivery", "spooling", "settlement", "poison", "gate", "batch")),
    *(f"property_tests/test_{name}.py" for name in ("settlement", "poison", "gate", "intake", "front", "delivery")),
)
OPTIONS: Final = (
    *("-p", "property_tests.mutants", "-p", "no:cacheprovider", "-p", "no:randomly"),
    *("-x", "-q", "--tb=line", "-o", "addopts=--import-mode=importlib -rf", "-o", "timeout=0"),
)
EXAMPLES: Final = 150
LEAST_KILLED: Final = 0.95


class Mutant(NamedTuple):
    """
    One bug: *old*, some lines that stand in the core exactly once, become *new*.
    """

    name: str
    old: str
    new: str


def read_mutants(text: str) -> list[Mutant]:
    """
    The mutants of a list as ``mutants.diff`` is.
    """
    mutants = []
    for block in text.split("\n@ ")[1:]:
        name, *lines = block.splitlines()
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line.startswith(sign)) for sign in "-+")
        mutants.append(Mutant(name, old, new))
    return mutants


@dataclass
class Outcome:
    """
    What became of one mutant: ``killed``, ``survived``, ``timeout`` (which counts as killed: it never ended) or
    ``broken``: the suite did not even run.
    """

    name: str
    verdict: str
    seconds: float
    by: str = ""


def pytest_configure(config: pytest.Config) -> None:
    """
    On a copy this module is a plugin of pytest: many examples, no shrinking, the same in every run.
    """
    del config
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        max_examples=EXAMPLES,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")


def place_of(mutant: Mutant, core: Path) -> Path:
    """
    The file that *mutant* changes.

    Raises:
        SystemExit: Its lines are not there exactly once: the code has changed, and the mutant has to follow.
    """
    places = [path for path in sorted(core.glob("*.py")) for _ in range(path.read_text().count(mutant.old))]
    if len(places) != 1:
        sys.exit(f"mutants.diff: {mutant.name!r}: its lines stand {len(places)} times in the core")
    return places[0]


def mutate(core: Path, mutant: Mutant) -> None:
    """
    Write the bug into the copy.
    """
    path = place_of(mutant, core)
    path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")


def run(mutant: Mutant | None, limit: float) -> Outcome:
    """
    Apply *mutant* (None: leave it as it is) to a copy and run the suite on it, at most *limit* seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("structbatch", "tests", "property_tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if mutant is not None:
            mutate(copy / "structbatch" / "core", mutant)
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", *OPTIONS, *SUITE]
        name = mutant.name if mutant is not None else "no mutant at all"
        start = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, timeout=limit, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return Outcome(name, "timeout", limit)
    seconds = time.monotonic() - start
    if done.returncode > 1:
        return Outcome(name, "broken", seconds, f"pytest ended with {done.returncode}: {done.stdout[-500:]}")
    by = next((line.split("::")[0].split("/")[-1] for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
    return Outcome(name, "killed" if done.returncode else "survived", seconds, by)


def show(outcome: Outcome) -> None:
    """
    One line of the table.
    """
    print(f"{outcome.verdict:9} {outcome.seconds:5.1f} s  {outcome.name:38} {outcome.by}", flush=True)


def main() -> int:
    """
    Run all mutants. Returns 1 where too many survive.
    """
    parser = argparse.ArgumentParser(prog="python -m property_tests.mutants", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each (120, or four times what the clean suite takes)")
    parser.add_argument("--only", default="", help="those with this in their name")
    options = parser.parse_args()
    mutants = read_mutants((Path(__file__).parent / "mutants.diff").read_text(encoding="utf-8"))
    chosen = [mutant for mutant in mutants if options.only in mutant.name]
    for mutant in chosen:
        place_of(mutant, ROOT / "structbatch" / "core")
    clean = run(None, options.limit * 3)
    if clean.verdict != "survived":
        print(f"the suite fails without a mutant ({clean.verdict}): {clean.by}", file=sys.stderr)
        return 1
    # A slow machine is no reason to call a survivor endless.
    limit = max(options.limit, 4 * clean.seconds)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = []
        for outcome in pool.map(lambda mutant: run(mutant, limit), chosen):
            outcomes.append(outcome)
            if not options.json:
                show(outcome)
    killed = sum(outcome.verdict in ("killed", "timeout") for outcome in outcomes)
    if options.json:
        print(json.dumps({"killed": killed, "mutants": [asdict(outcome) for outcome in outcomes]}, indent=2))
    else:
        print(f"{killed} of {len(outcomes)} killed; the clean suite took {clean.seconds:.0f} s")
    return 0 if killed >= LEAST_KILLED * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
