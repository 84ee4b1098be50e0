# SPDX-License-Identifier: Apache-2.0
"""
What is in memory after it left the queue: batches with what they still owe, and the bundles that wait to carry them.

Every owed record of a batch here is in exactly one place: a waiting bundle, a request in flight, or parked for the
disk. All of it is touched under the pipeline's lock only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from structbatch.core.batch import NO_BANDS, Bands, Batch, bands_of
from structbatch.core.bundle import Bundle, count_of
from structbatch.core.ledger import Ledger, add
from structbatch.core.poison import Parts, merge
from structbatch.core.settlement import Settlement
from structbatch.core.vendor import Part


class Cargo:
    """
    A batch with its owed records counted by band, and its frame if it has one on disk.
    """

    __slots__ = ("batch", "frame", "owed")

    def __init__(self, batch: Batch, owed: Bands, frame: Any) -> None:
        self.batch = batch
        self.owed = owed
        self.frame = frame


class Stock:
    """
    Args:
        ledger: Told what is settled.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._cargo: dict[bytes, Cargo] = {}
        self.owed: Bands = NO_BANDS
        self.bytes = 0
        self.retry: deque[Bundle] = deque()
        """Waiting for their next attempt, oldest first."""

        self.exhausted: deque[Bundle] = deque()
        """Have used up their attempts, or a search's budget: they take turns with the others."""

        self.replay: deque[Bundle] = deque()
        """Loaded from the spool, not yet sent."""

        self.parked: dict[bytes, list[Part]] = {}
        """On their way to the disk, by batch id; complete when every owed record is there."""

        self.acks: deque[Any] = deque()
        """Frames of which nothing is owed any more."""

    def board(self, batch: Batch, ordinals: tuple[int, ...] | None = None, frame: Any = None) -> Part:
        """
        Take in *batch*, of which *ordinals* are owed.
        """
        owed = bands_of(batch, ordinals)
        self._cargo[batch.id] = Cargo(batch, owed, frame)
        self.owed = add(self.owed, owed)
        self.bytes += len(batch.records)
        return Part(batch, ordinals)

    def discard(self, batch_id: bytes) -> Bands:
        """
        Let go of a batch; what it owed is the caller's to count.
        """
        cargo = self._cargo.pop(batch_id)
        self.owed = _minus(self.owed, cargo.owed)
        self.bytes -= len(cargo.batch.records)
        return cargo.owed

    def cargo(self, batch_id: bytes) -> Cargo | None:
        """
        The batch of that id, while it owes anything.
        """
        return self._cargo.get(batch_id)

    def has_frame(self, bundle: Bundle) -> bool:
        """
        Whether *bundle* was loaded from the disk, where its frame still is.
        """
        return self._cargo[bundle.parts[0].batch.id].frame is not None

    def cargos(self) -> tuple[Cargo, ...]:
        """
        All batches in here.
        """
        return tuple(self._cargo.values())

    def oldest_sequence(self) -> int | None:
        """
        The lowest sequence number that a batch without a frame begins with.
        """
        return min((c.batch.first_sequence for c in self._cargo.values() if c.frame is None), default=None)

    def book(self, settlement: Settlement) -> None:
        """
        Count what *settlement* says is over.
        """
        ledger = self._ledger
        ledger.delivered = add(ledger.delivered, settlement.delivered)
        for drop_reason, bands in settlement.dropped.items():
            ledger.drop(drop_reason, bands)
        for dead_reason, bands in settlement.dead.items():
            ledger.bury(dead_reason, bands)
        self._settle(settlement.by_batch)

    def _settle(self, by_batch: Mapping[bytes, Bands]) -> None:
        for batch_id, bands in by_batch.items():
            cargo = self._cargo[batch_id]
            cargo.owed = _minus(cargo.owed, bands)
            self.owed = _minus(self.owed, bands)
            if not any(cargo.owed):
                self.discard(batch_id)
                if cargo.frame is not None:
                    self.acks.append(cargo.frame)

    def put_back(self, bundle: Bundle, *, last: bool = False) -> None:
        """
        *bundle* waits for another attempt: in its place by age, or after all others (*last*).

        Parts of a batch that is on its way to the disk go with it.
        """
        if self.parked:
            keep = [part for part in bundle.parts if part.batch.id not in self.parked]
            if len(keep) < len(bundle.parts):
                for part in bundle.parts:
                    if part.batch.id in self.parked:
                        self.parked[part.batch.id].append(part)
                if not keep:
                    return
                bundle = bundle.with_parts(keep)
        if last:
            self.exhausted.append(bundle)
            return
        position = bundle.position
        index = 0
        for other in self.retry:
            if other.position > position:
                break
            index += 1
        self.retry.insert(index, bundle)

    def park(self, parts: Iterable[Part]) -> None:
        """
        Send the batches of *parts* to the disk, with whatever else of them waits here.
        """
        ids = []
        for part in parts:
            ids.append(part.batch.id)
            self.parked.setdefault(part.batch.id, []).append(part)
        self._gather(frozenset(ids))

    def park_one(self) -> None:
        """
        A bundle that waits here goes to the disk: what waits longest for its turn.
        """
        for waiting in (self.exhausted, self.retry, self.replay):
            if waiting:
                self.park(waiting.popleft().parts)
                return

    def park_all(self) -> None:
        """
        Everything that waits here goes to the disk.
        """
        for waiting in (self.retry, self.exhausted, self.replay):
            while waiting:
                self.park(waiting.popleft().parts)

    def parked_whole(self) -> tuple[Cargo, Parts] | None:
        """
        A parked batch of which every owed record is there, with those records; it stays parked.
        """
        for batch_id, parts in self.parked.items():
            cargo = self._cargo[batch_id]
            if count_of(parts) == sum(cargo.owed):
                return cargo, merge(parts)
        return None

    def unpark(self, batch_id: bytes) -> Parts:
        """
        The disk did not take it: its parts are the caller's again.
        """
        return merge(self.parked.pop(batch_id))

    def waiting(self) -> bool:
        """
        Whether a bundle waits to be sent.
        """
        return bool(self.retry or self.exhausted or self.replay)

    def clear(self) -> None:
        """
        Forget all bundles; the batches stay to be counted.
        """
        self.retry.clear()
        self.exhausted.clear()
        self.replay.clear()
        self.parked.clear()

    def _gather(self, batch_ids: frozenset[bytes]) -> None:
        for waiting in (self.retry, self.exhausted, self.replay):
            for _ in range(len(waiting)):
                bundle = waiting.popleft()
                keep = [part for part in bundle.parts if part.batch.id not in batch_ids]
                for part in bundle.parts:
                    if part.batch.id in batch_ids:
                        self.parked[part.batch.id].append(part)
                if len(keep) == len(bundle.parts):
                    waiting.append(bundle)
                elif keep:
                    waiting.append(bundle.with_parts(keep))


def _minus(left: Bands, right: Bands) -> Bands:
    return tuple(a - b for a, b in zip(left, right, strict=True))
