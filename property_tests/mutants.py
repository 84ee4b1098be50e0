# SPDX-License-Identifier: Apache-2.0
"""
Seeded bugs in the core, each of which the property tests have to find: ``python -m property_tests.mutants``.

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

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple


if TYPE_CHECKING:
    import pytest


ROOT: Final = Path(__file__).parent.parent
SUITE: Final = ("settlement", "poison", "gate", "intake", "delivery")
OPTIONS: Final = (
    *("-p", "property_tests.mutants", "-p", "no:cacheprovider", "-p", "no:randomly"),
    *("-x", "-q", "--tb=line", "-o", "addopts=--import-mode=importlib -rf", "-o", "timeout=0"),
)
EXAMPLES: Final = 250
LEAST_KILLED: Final = 0.95


class Mutant(NamedTuple):
    """
    One bug: in *file* of the core, *old* (there exactly once) becomes *new*.
    """

    name: str
    file: str
    old: str
    new: str


MUTANTS: Final = (
    # Where records come in.
    Mutant("queue holds one more record", "intake", "self.sealed_records + count >= self._queue_max_records\n", "self.sealed_records + count > self._queue_max_records\n"),
    Mutant("queue bytes forget the sealed", "intake", "or self.sealed_bytes + size > self._queue_max_bytes", "or size > self._queue_max_bytes"),
    Mutant("batch holds one more record", "intake", "if count + 1 >= self._max_records or", "if count >= self._max_records or"),
    Mutant("batch bytes one over", "intake", "if offset and (size > self._max_bytes or", "if offset and (size > self._max_bytes + 1 or"),
    Mutant("linger counts from the last record", "intake", "        if not offset:\n            batch.deadline = now + self._linger\n            self.possible = True\n        arena += record", "        if True:\n            batch.deadline = now + self._linger\n            self.possible = True\n        arena += record"),
    Mutant("linger only after its end", "intake", "if self.open.arena and now >= self.open.deadline:", "if self.open.arena and now > self.open.deadline:"),
    Mutant("urgent only above", "intake", "severity >= self._urgent:\n            self.seal()", "severity > self._urgent:\n            self.seal()"),
    Mutant("recount does not unseal", "intake", "        if self.sealed and self.sealed[-1].id == self.open.id:", "        if False:"),
    Mutant("recount forgets a full batch", "intake", '        self.open.deadline = float("-inf")\n', ""),
    Mutant("recount loses the side list", "intake", "            if untouched and not", "            if False and not"),
    Mutant("recount keeps the bytes", "intake", "        self.sealed_bytes = sum(len(batch.records) for batch in self.sealed)\n", ""),
    Mutant("sequence numbers repeat", "intake", "batch.first_sequence + len(batch.bands_by_record),", "batch.first_sequence,"),
    Mutant("the wrong batch is taken", "intake", "batch = self.sealed.pop() if newest else self.sealed.popleft()", "batch = self.sealed.pop()"),
    Mutant("times of the wrong record", "batch", "last_time_ns=_time_at(arena, self.last_offset)", "last_time_ns=_time_at(arena, 0)"),
    # What an answer settles.
    Mutant("retry outranks reject", "settlement", "            detail = refused.get(position) or rejected.get(position)\n            if detail is None and (", "            detail = refused.get(position) or rejected.get(position)\n            if (detail is None or position in again) and ("),
    Mutant("positions start anew in each batch", "settlement", "        start += part.count\n", ""),
    Mutant("unnamed also delivered", "settlement", "delivered = tuple(a - b for a, b in zip(settled.delivered, buried, strict=True))", "delivered = settled.delivered"),
    Mutant("expired is dead", "settlement", "elif detail == EXPIRED and position in refused:", "elif detail == EXPIRED and position in rejected:"),
    # The search.
    Mutant("culprit without a proof", "poison", "if not self._passed_any and self._pool:", "if False:"),
    Mutant("right half forgotten", "poison", "self._pool = merge((*right, *self._pool))", "self._pool = right"),
    Mutant("pool in the wrong order", "poison", "self._pool = merge((*right, *self._pool))", "self._pool = merge((*self._pool, *right))"),
    Mutant("budget never ends", "poison", "        self.budget -= 1\n        match self._step:\n            case Step.LEFT:\n                self._suspects, right", "        match self._step:\n            case Step.LEFT:\n                self._suspects, right"),
    Mutant("budget ends one late", "poison", "if self.budget > 0:", "if self.budget >= 0:"),
    # When.
    Mutant("a stale failure counts", "gate", "        if epoch != self.epoch:\n            return False\n        self.failures += 1", "        self.failures += 1"),
    Mutant("a stale success opens", "gate", "        if epoch != self.epoch:\n            return False\n        self.window", "        self.window"),
    Mutant("Retry-After is ignored", "gate", "now + max(delay, after or 0.0)", "now + delay"),
    Mutant("a shorter wait wins", "gate", "self.not_before = max(self.not_before, now + self.hold_interval)", "self.not_before = now"),
    Mutant("backoff stays after success", "gate", '        self._enter(GateState.OPEN, "")\n        self.failures = 0', '        self._enter(GateState.OPEN, "")'),
    Mutant("all senders probe", "gate", "            self.window = 1\n", "            self.window = self.max_senders\n"),
    # In memory.
    Mutant("settled frames are not acknowledged", "stock", "                if cargo.frame is not None:\n                    self.acks.append(cargo.frame)", "                if False:\n                    self.acks.append(cargo.frame)"),
    Mutant("retries in any order", "stock", "            if other.position > position:", "            if other.position < position:"),
    Mutant("half a batch is written", "stock", "            if count_of(parts) == sum(cargo.owed):", "            if parts:"),
    Mutant("bytes stay booked", "stock", "        self.bytes -= len(cargo.batch.records)\n", ""),
    Mutant("parked parts are sent too", "stock", "            keep = [part for part in bundle.parts if part.batch.id not in self.parked]\n            if len(keep)", "            keep = list(bundle.parts)\n            if len(keep)"),
    # The disk.
    Mutant("spilled counted twice", "spooling", "            self.frames += 1\n            self._ledger.spooled = add(self._ledger.spooled, self._stock.discard(batch_id))", "            self.frames += 1\n            self._ledger.spooled = add(self._ledger.spooled, self._stock.discard(batch_id))\n            self._ledger.spooled = add(self._ledger.spooled, self._ledger.spooled)"),
    Mutant("failed writes are lost", "spooling", "        self._stock.put_back(Bundle([spill.part]))\n", ""),
    Mutant("an old load counts after the end", "spooling", "        if abandoned:\n            # It was never ours", "        if False:\n            # It was never ours"),
    Mutant("two writes at once", "spooling", "if abandoned or self._under_way is not None or now < self._not_before:", "if abandoned or now < self._not_before:"),
    Mutant("parked do not hold the order", "spooling", "bool(self.frames or self._under_way or self._stock.parked)", "bool(self.frames or self._under_way)"),
    Mutant("what is being written is lost", "spooling", "            if cargo.batch.id == writing:\n                continue\n", ""),
    # Delivery.
    Mutant("an answer counts twice", "delivery", "        self._inflight.discard(send)\n        return self._answers.judge", "        return self._answers.judge"),
    Mutant("more in flight than fits", "picking", "self._stock.bytes + record_bytes <= self._settings.inflight_max_bytes", "record_bytes <= self._settings.inflight_max_bytes"),
    Mutant("two at once in order", "picking", "return None if inflight else self._pick_oldest()", "return self._pick_oldest()"),
    Mutant("order ignores the disk", "picking", "self._pop_older() or (None if self._disk.holds_order() else self._take_sealed())", "self._pop_older() or self._take_sealed()"),
    Mutant("never done after close", "delivery", "return DONE if self._closing and self._idle() else Wait(self._due())", "return Wait(self._due())"),
    Mutant("done with batches in the queue", "delivery", "self._inflight or intake.sealed or intake.open.arena", "self._inflight or intake.open.arena"),
    Mutant("flush leaves the side list", "delivery", "        self.intake.drain(self.intake.open.deadline)\n        self.intake.seal()\n        return", "        self.intake.seal()\n        return"),
    Mutant("settled too early", "delivery", "        return oldest is None or oldest >= mark", "        return oldest is None or oldest >= mark - 1"),
    Mutant("ids lost by a split", "answers", "for half in halve(bundle.parts):", "for half in halve(bundle.parts)[:1]:"),
    Mutant("unresolved at once", "answers", "        if again.rounds >= ROUNDS:", "        if again.rounds >= 1:"),
    Mutant("too large without a second try", "answers", "            if bundle.truncate:\n", "            if True:\n"),
    Mutant("a search is interrupted for ever", "answers", "if bundle.search is not None and bundle.strikes >= STRIKES and self._half_empty():", "if False:"),
    Mutant("abandon drops nothing", "delivery", "        self.ledger.drop(DropReason.UNDELIVERED, lost)\n", ""),
    Mutant("disowned answers count", "delivery", "        for send in self._inflight:\n", "        for send in list(self._inflight)[:1]:\n"),
)


@dataclass
class Outcome:
    """
    What became of one mutant: ``killed``, ``survived`` or ``timeout`` (which counts as killed: it never ended).
    """

    name: str
    file: str
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


def mutate(package: Path, mutant: Mutant) -> None:
    """
    Write the bug into the copy.

    Raises:
        SystemExit: Its line is not there exactly once: the code has changed, and the mutant has to follow.
    """
    path = package / "core" / f"{mutant.file}.py"
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        sys.exit(f"mutant {mutant.name!r}: its line stands {text.count(mutant.old)} times in {mutant.file}.py")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def run(mutant: Mutant | None, limit: float) -> Outcome:
    """
    Apply *mutant* (None: leave it as it is) to a copy and run the suite on it, at most *limit* seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("structbatch", "property_tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if mutant is not None:
            mutate(copy / "structbatch", mutant)
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", *OPTIONS, *(f"property_tests/test_{name}.py" for name in SUITE)]
        start = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, timeout=limit, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return Outcome(*_named(mutant), "timeout", limit)
    by = next((line.split("::")[0].split("/")[-1] for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
    if done.returncode > 1:
        by = f"pytest ended with {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"
    return Outcome(*_named(mutant), "killed" if done.returncode else "survived", time.monotonic() - start, by)


def _named(mutant: Mutant | None) -> tuple[str, str]:
    return (mutant.name, mutant.file) if mutant is not None else ("no mutant at all", "")


def show(outcomes: Sequence[Outcome]) -> None:
    """
    The table.
    """
    for outcome in outcomes:
        print(f"{outcome.verdict:9} {outcome.seconds:5.1f} s  {outcome.file:11} {outcome.name:38} {outcome.by}")


def main() -> int:
    """
    Run all mutants. Returns 1 where too many survive.
    """
    parser = argparse.ArgumentParser(prog="python -m property_tests.mutants", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each (120)")
    parser.add_argument("--only", default="", help="those with this in their name or file")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in f"{mutant.file}: {mutant.name}"]
    clean = run(None, options.limit * 3)
    if clean.verdict != "survived":
        print(f"the suite fails without a mutant ({clean.verdict}): {clean.by}", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda mutant: run(mutant, options.limit), chosen))
    killed = sum(outcome.verdict != "survived" for outcome in outcomes)
    if options.json:
        print(json.dumps({"killed": killed, "mutants": [asdict(outcome) for outcome in outcomes]}, indent=2))
    else:
        show(outcomes)
        print(f"{killed} of {len(outcomes)} killed; the clean suite took {clean.seconds:.0f} s")
    return 0 if killed >= LEAST_KILLED * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
