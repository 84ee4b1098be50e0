# SPDX-License-Identifier: Apache-2.0
"""
The disk side of delivery: what to spill, when to load, what to acknowledge or give back.

One spooler drives it. A spill writes one batch with what it still owes; while that is under way the batch is neither
sent nor dropped. A frame that was loaded is acknowledged when nothing of it is owed any more, or released: given back
with what is.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from structbatch.core.batch import NO_BANDS, Bands, Batch
from structbatch.core.bundle import Bundle
from structbatch.core.gate import Gate, GateState, backoff_ceiling
from structbatch.core.intake import Intake
from structbatch.core.ledger import DropReason, Ledger, add
from structbatch.core.settings import Order, Settings
from structbatch.core.stock import Cargo, Stock
from structbatch.core.vendor import Part


COOL_DOWN_INITIAL: Final = 1.0
COOL_DOWN_MAX: Final = 60.0
"""
After a failed write the disk is left alone for so many seconds, doubling: without, thousands of futile tries.
"""

HISTORY_MAX: Final = 100
"""
Batches whose failures are remembered while they are on disk.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Spill:
    """
    Do: write *part* as one frame. Report with `DiskSide.on_spilled`.
    """

    part: Part


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """
    Do: read the oldest frame that nobody holds. Report with `DiskSide.on_loaded`.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Acknowledge:
    """
    Do: forget *frame*, of which nothing is owed. There is nothing to report: a lost one only repeats.
    """

    frame: Any


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """
    Do: give *frame* back, of which only *part* is owed now. Report with `DiskSide.on_released`.

    Args:
        last: It keeps failing: behind all others.
    """

    frame: Any
    part: Part = field(repr=False)
    last: bool = False


class DiskSide:
    """
    Args:
        enabled: Whether there is a spool.
    """

    def __init__(
        self, intake: Intake, stock: Stock, gate: Gate, ledger: Ledger, settings: Settings, *, enabled: bool
    ) -> None:
        self._intake = intake
        self._stock = stock
        self._gate = gate
        self._ledger = ledger
        self._settings = settings
        self._ordered = settings.order is Order.OLDEST_FIRST
        self.enabled = enabled
        self.frames = 0
        """Frames that may be loaded, as far as known."""

        self.rescue = False
        """Everything goes to the disk now: flush or close runs out of time."""

        self._under_way: Spill | Load | Release | None = None
        self._not_before = float("-inf")
        self._failures = 0
        self._history: OrderedDict[bytes, Bundle] = OrderedDict()

    def takes(self) -> bool:
        """
        Whether what has used up its attempts may go to the disk.
        """
        return self.enabled and self._failures == 0

    def holds_order(self) -> bool:
        """
        Whether batches on disk come before any in the queue: ``oldest_first`` with frames left.
        """
        return self._ordered and self.takes() and bool(self.frames or self._under_way or self._stock.parked)

    def next(
        self, now: float, inflight: int, *, closing: bool, abandoned: bool
    ) -> Spill | Load | Acknowledge | Release | None:
        """
        The next thing to do, while *inflight* requests are under way; None where there is none for now.
        """
        if not self.enabled:
            return None
        if self._stock.acks:
            return Acknowledge(self._stock.acks.popleft())
        if abandoned or self._under_way is not None or now < self._not_before:
            return None
        if self.rescue:
            self._stock.park_all()
        action = self._parked() or self._spill(inflight) or self._load(now, closing=closing)
        self._under_way = action
        return action

    def wake_at(self, now: float, due: float | None) -> float | None:
        """
        When to ask again, if nothing else happens.
        """
        times = [due] if due is not None else []
        if now < self._not_before:
            times.append(self._not_before)
        if self.frames and now < self._gate.not_before:
            times.append(self._gate.not_before)
        return min(times, default=None)

    def on_spilled(self, spill: Spill, frame: Any, now: float, *, abandoned: bool = False) -> None:
        """
        *spill* is on disk as *frame*, or failed (None).
        """
        self._under_way = None
        batch_id = spill.part.batch.id
        self._stock.parked.pop(batch_id, None)
        if frame is not None:
            self._failures = 0
            self.frames += 1
            self._ledger.spooled = add(self._ledger.spooled, self._stock.discard(batch_id))
            return
        self._failures += 1
        self._not_before = now + backoff_ceiling(self._failures, COOL_DOWN_INITIAL, COOL_DOWN_MAX)
        if abandoned:
            self._ledger.drop(DropReason.UNDELIVERED, self._stock.discard(batch_id))
            return
        # The disk is out of order for a while: back to the network with all that was meant for it.
        self._stock.put_back(Bundle([spill.part]))
        for parked_id in list(self._stock.parked):
            self._stock.put_back(Bundle(self._stock.unpark(parked_id)), last=not self._ordered)

    def on_loaded(
        self,
        load: Load,
        frame: Any,
        batch: Batch | None,
        ordinals: tuple[int, ...] | None,
        *,
        abandoned: bool = False,
    ) -> None:
        """
        *frame* with *batch* was read, of which *ordinals* are owed (None: all); or there is none (*batch* is None).
        """
        del load
        self._under_way = None
        if batch is None:
            self.frames = 0
            return
        if abandoned:
            # It was never ours: the frame stays where it is.
            return
        self.frames = max(0, self.frames - 1)
        part = self._stock.board(batch, ordinals, frame)
        cargo = self._stock.cargo(batch.id)
        self._ledger.loaded = add(self._ledger.loaded, cargo.owed if cargo else NO_BANDS)
        bundle = Bundle([part], replayed=True)
        known = self._history.pop(batch.id, None)
        if known is not None:
            bundle.rounds, bundle.strikes, bundle.success_mark = known.rounds, known.strikes, known.success_mark
            bundle.exhausted = known.exhausted
        self._stock.replay.append(bundle)

    def on_released(self, release: Release) -> None:
        """
        *release* was done, or failed: then the frame stays as it was, and a repetition is the price.
        """
        self._under_way = None
        self._stock.parked.pop(release.part.batch.id, None)
        self.frames += 1
        self._ledger.spooled = add(self._ledger.spooled, self._stock.discard(release.part.batch.id))

    def remember(self, bundle: Bundle) -> None:
        """
        Keep the failures of *bundle* for when its batches are loaded again.
        """
        # Without its records: they would stay in memory.
        failures = bundle.with_parts(())
        failures.exhausted = bundle.exhausted
        for part in bundle.parts:
            self._history[part.batch.id] = failures
        while len(self._history) > HISTORY_MAX:
            self._history.popitem(last=False)

    def abandon(self) -> Bands:
        """
        Forget what is in memory; what has a frame is on disk. Returns the rest, by band.
        """
        lost = NO_BANDS
        writing = self._under_way.part.batch.id if isinstance(self._under_way, (Spill, Release)) else None
        for cargo in self._stock.cargos():
            if cargo.batch.id == writing:
                continue
            owed = self._stock.discard(cargo.batch.id)
            if cargo.frame is None:
                lost = add(lost, owed)
            else:
                self._ledger.spooled = add(self._ledger.spooled, owed)
        return lost

    def _parked(self) -> Spill | Release | None:
        whole = self._stock.parked_whole()
        if whole is None:
            return None
        cargo, (part,) = whole
        return self._to_disk(cargo, part)

    def _to_disk(self, cargo: Cargo, part: Part) -> Spill | Release:
        if cargo.frame is None:
            return Spill(part)
        history = self._history.get(part.batch.id)
        return Release(cargo.frame, part, last=not self._ordered and history is not None and history.exhausted)

    def _spill(self, inflight: int) -> Spill | Release | None:
        intake, settings = self._intake, self._settings
        if not intake.sealed:
            return None
        pressed = (
            intake.sealed_records * 2 >= settings.queue_max_records
            or intake.sealed_bytes * 2 >= settings.queue_max_bytes
        )
        # In order, everything passes through the disk until it is empty.
        behind = self._ordered and self.frames > 0
        if not (pressed or behind or self.rescue or self._gate.state is GateState.BROKEN):
            return None
        if self._ordered and any(cargo.frame is None for cargo in self._stock.cargos()):
            # They are older than what is in the queue: they go first, and one in a request has to come home.
            if inflight:
                return None
            self._stock.park_all()
            return self._parked()
        if self._stock.bytes > settings.inflight_max_bytes:
            # What the disk did not take is still here: it goes first, or failing writes would drain the queue in here.
            self._stock.park_one()
            return self._parked()
        part = self._stock.board(intake.take())
        self._stock.parked[part.batch.id] = [part]
        return Spill(part)

    def _load(self, now: float, *, closing: bool) -> Load | None:
        if closing or self.rescue or not self.frames or self._stock.replay or now < self._gate.not_before:
            return None
        if self._stock.bytes * 2 > self._settings.inflight_max_bytes and len(self._stock.cargos()) > 1:
            # One may be so large, and in its way: then the next has to pass it.
            return None
        return Load()
