# SPDX-License-Identifier: Apache-2.0
"""
Books of our own about what a delivery machine owes, kept from the outside, and the rules that it must obey.

Rules, not a replay: nothing private is read, and nothing here knows how the machine decides.
"""

from __future__ import annotations

import enum

from collections import Counter
from collections.abc import Iterable, Sequence

from property_tests.world import WRITER, Frame, Kind, Known, number_in, numbers_of
from structbatch.core.actions import Send
from structbatch.core.answers import ROUNDS
from structbatch.core.batch import Bands
from structbatch.core.bundle import STRIKES
from structbatch.core.delivery import Delivery
from structbatch.core.gate import Gate, GateState
from structbatch.core.ledger import DeadReason, DropReason
from structbatch.core.settings import Order, Settings
from structbatch.core.settlement import Letter
from structbatch.core.severity import BANDS
from structbatch.core.vendor import Limits, Part, View
from structbatch.core.verdict import Delivered, Hold, Partial, Reject, Retry, Split, Verdict


class Place(enum.Enum):
    """
    Where a record is.
    """

    MEMORY = "memory"
    DISK = "disk"
    DELIVERED = "delivered"
    DEAD = "dead"
    LOST = "lost"


OPEN_PLACES = (Place.MEMORY, Place.DISK)


class Oracle:
    """
    Args:
        settings: The machine's.

        limits: The machine's.

        known: All records by number.
    """

    def __init__(self, settings: Settings, limits: Limits, known: dict[int, Known]) -> None:
        self.settings = settings
        self.limits = limits
        self.known = known
        self.ordered = settings.order is Order.OLDEST_FIRST
        self.place: dict[int, Place] = {}
        """Where each record is."""

        self.ids: dict[int, tuple[bytes, int]] = {}
        self.flying: dict[Send, list[int]] = {}
        self.counts = {name: Counter[int]() for name in ("emitted", "loaded", "delivered", "spooled")}
        self.dropped: dict[DropReason, Counter[int]] = {}
        self.dead: dict[DeadReason, Counter[int]] = {}
        self.refused = Counter[int]()
        self.failed = Counter[int]()
        self.split_alone: set[int] = set()
        self.refusing_server = False
        self.order_excused = False
        self.stale: set[int] = set()
        self.shut = False
        self.most = 1 if self.ordered else settings.max_senders
        self.window = self.most
        self.not_before = float("-inf")
        self.failures = 0
        self.rank: dict[int, int] = {}
        self.since: dict[int, float] = {}
        self.writing: set[int] = set()
        self.batches: dict[bytes, tuple[int, list[int]]] = {}
        self.torn: set[int] = set()

    # What happened.

    def accepted(self, number: int) -> None:
        """
        The machine took the record.
        """
        self.counts["emitted"][self.known[number].band] += 1
        self.place[number] = Place.MEMORY

    def queued(self, number: int, now: float) -> None:
        """
        The record stands in the queue, behind all that stand there.
        """
        self.rank[number] = len(self.rank)
        self.since.setdefault(number, now)

    def refused_at_the_door(self, number: int, reason: DropReason) -> None:
        """
        The machine said no.
        """
        self.counts["emitted"][self.known[number].band] += 1
        self.drop(number, reason)

    def drop(self, number: int, reason: DropReason) -> None:
        """
        The record is lost, under *reason*.
        """
        self.dropped.setdefault(reason, Counter())[self.known[number].band] += 1
        self.place[number] = Place.LOST

    def loaded(self, numbers: Iterable[int]) -> None:
        """
        Records came from disk into memory; their frame stays.
        """
        for number in numbers:
            self.counts["loaded"][self.known[number].band] += 1
            self.place[number] = Place.MEMORY

    def spooled(self, numbers: Iterable[int]) -> None:
        """
        Records went from memory to disk.
        """
        for number in numbers:
            self.counts["spooled"][self.known[number].band] += 1
            self.place[number] = Place.DISK

    def sent(self, send: Send, now: float, *, excused: bool = False) -> None:
        """
        The machine wants to send: every rule about that.
        """
        numbers = numbers_of(send.parts)
        flying = {number for others in self.flying.values() for number in others}
        assert numbers
        assert len(numbers) == len(set(numbers)), "a record twice in one request"
        assert not flying & set(numbers), "a record in two requests at the same time"
        assert all(self.place[number] is Place.MEMORY for number in numbers), "sent what is settled or on disk"
        assert now >= self.not_before, "sent while the gate is shut"
        assert not self.writing & set(numbers), "sent while it is written to disk"
        assert len(self.flying) < self.window, "more requests than senders, or than the gate lets through"
        assert len(numbers) <= self.limits.max_records or len(numbers) == 1
        assert len(send.parts) <= ((self.limits.max_batches or len(numbers)) if self.settings.batch_coalesce else 1)
        self.same_ids(send.parts)
        if self.ordered and not (excused or self.order_excused):
            self._oldest(numbers)
        self.flying[send] = numbers

    def _oldest(self, numbers: Sequence[int]) -> None:
        """
        The oldest unsettled record goes next, unless it was refused, or has failed past all patience.
        """
        waiting = [number for number in self.rank if self.place[number] in OPEN_PLACES]
        oldest = min(waiting, key=self.rank.__getitem__)
        patience = self.settings.retry_max_retries + 1 + STRIKES
        blocked = self.refused[oldest] or self.failed[oldest] >= patience
        assert oldest in numbers or blocked, f"{numbers[0]} overtakes {oldest}"

    def same_ids(self, parts: Sequence[Part]) -> None:
        """
        A record keeps its batch's id and its ordinal for ever.
        """
        for batch, record, ordinal in View(parts).with_ordinals():
            number = number_in(record.payload)
            assert (batch.id, ordinal) == self.ids.setdefault(number, (batch.id, ordinal))
            assert batch.sources[record.source] == self.known[number].source or number in self.torn
            if batch.id not in self.batches:
                self.batches[batch.id] = len(batch.records), numbers_of([Part(batch)])
        for part in parts:
            if not part.batch.id.startswith(WRITER):
                continue
            assert part.batch.count <= self.settings.batch_max_records
            assert len(part.batch.records) <= self.settings.batch_max_bytes

    def measured(self, send: Send, body_bytes: int, *, fits: bool) -> None:
        """
        The machine was told how large the body is.
        """
        if not fits:
            del self.flying[send]
            assert len(numbers_of(send.parts)) > 1
        elif len(numbers_of(send.parts)) > 1:
            assert body_bytes <= self.limits.max_bytes

    def answered(self, send: Send, verdict: Verdict, refused: dict[int, str], now: float, u: float) -> None:
        """
        The verdict for *send* is about to be told.
        """
        numbers = self.flying.pop(send)
        for position, number in enumerate(numbers):
            self.refused[number] += isinstance(verdict, Reject)
            self.failed[number] += isinstance(verdict, (Retry, Reject))
            self._settle(position, number, verdict, refused)
        if isinstance(verdict, Split) and send.truncate is not None and len(numbers) == 1:
            self.split_alone.add(numbers[0])
        if isinstance(verdict, Partial):
            self._bury_unnamed(numbers, verdict, refused)
        if send.epoch not in self.stale:
            self._gate(send, verdict, refused, now, u)

    def _settle(self, position: int, number: int, verdict: Verdict, refused: dict[int, str]) -> None:
        if position in refused:
            if refused[position] == "expired":
                self.drop(number, DropReason.EXPIRED)
            return
        named = isinstance(verdict, Partial) and (position in verdict.retry or position in verdict.reject)
        if isinstance(verdict, (Delivered, Partial)) and not named:
            self.place[number] = Place.DELIVERED
            self.counts["delivered"][self.known[number].band] += 1

    def _bury_unnamed(self, numbers: Sequence[int], verdict: Partial, refused: dict[int, str]) -> None:
        """
        So many more were rejected: nobody knows which, and the lowest severities are assumed.
        """
        gone = verdict.retry | verdict.reject.keys() | refused.keys()
        taken = [number for position, number in enumerate(numbers) if position not in gone]
        for number in sorted(taken, key=lambda number: self.known[number].band)[: verdict.unnamed]:
            band = self.known[number].band
            self.counts["delivered"][band] -= 1
            self.dead.setdefault(DeadReason.UNNAMED, Counter())[band] += 1

    def _gate(self, send: Send, verdict: Verdict, refused: dict[int, str], now: float, u: float) -> None:
        """
        A verdict of the present epoch: what may not be sent before when.
        """
        if isinstance(verdict, Retry) or (isinstance(verdict, Partial) and verdict.retry - refused.keys()):
            self.failures += 1
            ceiling = min(self.settings.retry_max_delay, self.settings.retry_initial * 2 ** min(self.failures - 1, 60))
            after = verdict.after if isinstance(verdict, Retry) else None
            self._shut(send, now + max(u * ceiling, after or 0.0))
        elif isinstance(verdict, Hold):
            self._shut(send, now + self.settings.retry_hold)
        elif not isinstance(verdict, (Reject, Split)):
            self.opened(send)

    def _shut(self, send: Send, until: float) -> None:
        self.shut = True
        self.window = 1
        self.stale.add(send.epoch)
        self.not_before = max(self.not_before, until)

    def opened(self, send: Send) -> None:
        """
        Something of the present epoch came through.
        """
        if self.shut:
            self.stale.add(send.epoch)
        self.window = min(self.most, 2 if self.shut else self.window * 2)
        self.shut = False
        self.failures = 0
        self.not_before = float("-inf")

    def refusal(self, send: Send, gate: Gate, epoch: int, now: float) -> None:
        """
        After a refusal the gate is open, for the server is there; or held, for it refuses everything.

        Args:
            epoch: The gate's before the refusal.
        """
        if gate.state is GateState.HELD and gate.epoch != epoch:
            poison = sum(known.kind is Kind.POISON for known in self.known.values())
            assert self.refusing_server or poison > 1, "held, although few were refused"
            self.stale |= set(range(gate.epoch))
            self._shut(send, now + self.settings.retry_hold)
        elif gate.state is GateState.OPEN and send.epoch not in self.stale:
            self.opened(send)

    def buried(self, letters: Iterable[Letter]) -> None:
        """
        Dead letters: each for a record that the server really refused, and under the right reason.
        """
        for letter in letters:
            (number,) = numbers_of([Part(letter.batch, (letter.ordinal,))])
            assert self.place[number] is Place.MEMORY
            self._lawful(number, letter.reason)
            self.place[number] = Place.DEAD
            self.dead.setdefault(letter.reason, Counter())[self.known[number].band] += 1

    def _lawful(self, number: int, reason: DeadReason) -> None:
        kind = self.known[number].kind
        match reason:
            case DeadReason.REJECTED:
                assert kind in (Kind.POISON, Kind.EMPTY) or (self.refusing_server and self.refused[number])
            case DeadReason.TOO_LARGE:
                assert number in self.split_alone
            case DeadReason.UNRESOLVED:
                assert self.failed[number] >= ROUNDS
            case DeadReason.REPEATED_FAILURE:
                assert self.failed[number] > self.settings.retry_max_retries
            case _:
                raise AssertionError(reason)

    def acknowledged(self, frame: Frame) -> None:
        """
        Nothing of *frame* is owed any more.
        """
        assert all(self.place[number] not in OPEN_PLACES for number in frame.numbers())

    def abandoned(self, safe: set[int], lost: Bands) -> None:
        """
        What was in memory is lost and counted, but for what is on disk (*safe*).
        """
        gone = Counter[int]()
        for number, place in self.place.items():
            if place is not Place.MEMORY:
                continue
            if number in safe:
                self.counts["spooled"][self.known[number].band] += 1
                self.place[number] = Place.DISK
            else:
                gone[self.known[number].band] += 1
                self.drop(number, DropReason.UNDELIVERED)
        assert bands(gone) == lost
        self.flying.clear()

    # What must hold between any two calls.

    def bytes_outside(self) -> int:
        """
        Bytes of the batches that have left the queue and owe something in memory.
        """
        return sum(
            size
            for size, numbers in self.batches.values()
            if any(self.place.get(number) is Place.MEMORY for number in numbers)
        )

    def account_closes(self, delivery: Delivery) -> None:
        """
        The machine's account closes, and every number in it is ours.
        """
        account, ledger = delivery.account(), delivery.ledger
        assert account.closes(), account
        assert account.emitted == self.counts["emitted"].total()
        assert bands(self.counts["loaded"]) == ledger.loaded
        assert bands(self.counts["delivered"]) == ledger.delivered
        assert bands(self.counts["spooled"]) == ledger.spooled
        dropped = {reason.value: bands(count) for reason, count in self.dropped.items()}
        assert dropped == {reason: count for reason, count in ledger.dropped_by_reason().items() if any(count)}
        dead = {reason: bands(count) for reason, count in self.dead.items()}
        assert {r: c for r, c in dead.items() if any(c)} == {r: c for r, c in ledger.dead.items() if any(c)}
        assert account.waiting == sum(place is Place.MEMORY for place in self.place.values())


def bands(counter: Counter[int]) -> Bands:
    """
    *counter* as the ledger writes it.
    """
    return tuple(counter[band] for band in range(len(BANDS)))

