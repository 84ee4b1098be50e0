# SPDX-License-Identifier: Apache-2.0
"""
Drives a delivery machine as threads would, one step at a time, and tells the oracle what it sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from property_tests.interrupt import interrupt
from property_tests.oracle import OPEN_PLACES, Oracle, Place
from property_tests.world import SOURCES, WRITER, Disk, Kind, Known, Server, number_in, numbers_of, record_of
from structbatch.core.actions import DONE, Done, Send, Wait
from structbatch.core.batch import OpenBatch, batch_id
from structbatch.core.delivery import Delivery
from structbatch.core.ledger import DropReason
from structbatch.core.record import iter_records
from structbatch.core.settings import Settings
from structbatch.core.settlement import settle
from structbatch.core.spooling import Acknowledge, Load, Release, Spill
from structbatch.core.vendor import Limits, Part
from structbatch.core.verdict import Reject, Retry, Split


class Driver:
    """
    Args:
        expansion: Bytes of a body for each byte of payload.

        earlier: Of how many records each the batches are that an earlier process left on disk.
    """

    def __init__(
        self, settings: Settings, limits: Limits, *, spool: bool, expansion: float = 1.0, earlier: Sequence[int] = ()
    ) -> None:
        self.settings = settings
        self.known: dict[int, Known] = {}
        self.server = Server(self.known)
        self.disk = Disk()
        self.oracle = Oracle(settings, limits, self.known)
        self.delivery = Delivery(settings, limits, WRITER, SOURCES[0], spool=spool)
        self.expansion = expansion
        self.now = 0.0
        self.u = 0.5
        self.aside: list[int] = []
        self.side: list[int] = []
        self.sends: list[tuple[Send, int]] = []
        self.spooling: Spill | Load | Release | None = None
        self.marks: list[tuple[int, list[int]]] = []
        self._sealed: dict[bytes, list[int]] = {}
        self.closed = False
        self.abandoned = False
        self._inherit(earlier)

    def _inherit(self, earlier: Sequence[int]) -> None:
        for index, count in enumerate(earlier):
            batch = OpenBatch(batch_id(b"writer-000", index), SOURCES[0], 1000 + 10 * index)
            for number in range(len(self.known), len(self.known) + count):
                known = self.known[number] = Known(Kind.GOOD, 9, 40)
                batch.arena += record_of(number, known)
                self.oracle.place[number] = Place.DISK
                self.oracle.queued(number, 0.0)
            batch.recount()
            self.disk.write(Part(batch.seal()))
        self.delivery.disk.frames = len(self.disk.frames)

    # Events come in.

    def offer(self, known: Known, *, interrupted_at: int | None = None) -> None:
        """
        One event, as `Pipeline.emit` does it.
        """
        number = len(self.known)
        self.known[number] = known
        record = record_of(number, known)
        source = None if known.source == SOURCES[0] else known.source
        emitted = self.delivery.account().emitted

        if self._goes_to_the_front(record, known, source):
            self.delivery.intake.front.append(record)
            self.oracle.accepted(number)
            self.oracle.since[number] = self.now
            self.aside.append(number)
            return

        def emit() -> None:
            self.delivery.intake.drain(self.now)
            self.delivery.offer(record, known.severity, self.now, source)
            self.delivery.intake.drain(self.now)

        if interrupted_at is None:
            emit()
        elif interrupt(emit, interrupted_at):
            self.delivery.recount()
            self.oracle.torn |= {number, *self.side}
        self._look_aside(before=number)
        if number in self._inside():
            assert not self.closed
            self.oracle.accepted(number)
            self.oracle.queued(number, self.now)
        elif self.delivery.account().emitted > emitted:
            assert self.closed or not self._has_room(len(record))
            self.oracle.refused_at_the_door(number, DropReason.CLOSED if self.closed else DropReason.QUEUE_FULL)
        else:
            assert interrupted_at is not None
        self._look_aside()

    def _goes_to_the_front(self, record: bytes, known: Known, source: bytes | None) -> bool:
        """
        Whether `Pipeline.emit` hands the record over without the lock.
        """
        intake = self.delivery.intake
        urgent = self.settings.batch_urgent_severity or 25
        plain = source is None and known.severity < urgent and len(record) <= intake.front_bytes
        return plain and len(intake.front) < intake.front_room

    def defer(self, known: Known) -> None:
        """
        One event of a handler or a finalizer that runs inside the lock.
        """
        number = len(self.known)
        self.known[number] = known
        source = None if known.source == SOURCES[0] else known.source
        if self.delivery.defer(record_of(number, known), known.severity, source) is None:
            self.oracle.accepted(number)
            self.side.append(number)
        else:
            assert self.closed
            self.oracle.refused_at_the_door(number, DropReason.CLOSED)

    def _has_room(self, size: int) -> bool:
        intake = self.delivery.intake
        records = sum(batch.count for batch in intake.sealed) + len(list(_numbers_in(intake.open))) + len(self.aside)
        length = sum(len(batch.records) for batch in intake.sealed) + len(intake.open.arena)
        length += sum(len(record_of(number, self.known[number])) for number in self.aside)
        return records < self.settings.queue_max_records and length + size <= self.settings.queue_max_bytes

    def _inside(self) -> dict[int, None]:
        """
        The records in the queue, in order.
        """
        intake = self.delivery.intake
        inside = dict[int, None]()
        for batch in intake.sealed:
            if batch.id not in self._sealed:
                self._sealed[batch.id] = numbers_of([Part(batch)])
            inside.update(dict.fromkeys(self._sealed[batch.id]))
        inside.update(dict.fromkeys(_numbers_in(intake.open)))
        return inside

    def _look_aside(self, sent: Iterable[int] = (), before: int | None = None) -> None:
        """
        What was in front or on the side list is in the queue now, or was refused; as far as it stands *before* one.
        """
        if len(self.aside) + len(self.side) == self.delivery.intake.deferred:
            return
        inside = [*sent, *self._inside()]
        if before in inside:
            inside = inside[: inside.index(before)]
        waiting = {*self.aside, *self.side}
        for number in inside:
            if number in waiting:
                self.oracle.queued(number, self.now)
        self.aside = [number for number in self.aside if number not in self.oracle.rank]
        self.side = [number for number in self.side if number not in self.oracle.rank]
        if before is None:
            # Of the side list only: what went to the front found room.
            for _ in range(len(self.aside) + len(self.side) - self.delivery.intake.deferred):
                self.oracle.drop(self.side.pop(0), DropReason.CLOSED if self.closed else DropReason.QUEUE_FULL)

    # Senders.

    def send(self) -> Send | Wait | Done:
        """
        A sender asks what to do, builds the request and starts it.
        """
        excused = self.delivery.disk.rescue
        action = self.delivery.next_send(self.now)
        taken = [Part(part.batch) for part in action.parts] if isinstance(action, Send) else []
        self._look_aside(numbers_of(taken))
        if isinstance(action, Send):
            assert not self.abandoned
            self.oracle.sent(action, self.now, excused=excused)
            numbers = self.oracle.flying[action]
            body_bytes = 20 + int(sum(self.known[number].size for number in numbers) * self.expansion)
            fits = self.delivery.on_measured(action, body_bytes)
            self.oracle.measured(action, body_bytes, fits=fits)
            if fits:
                self.sends.append((action, body_bytes))
        elif isinstance(action, Done):
            assert self.closed
            waiting = [number for number, place in self.oracle.place.items() if place is Place.MEMORY]
            assert not waiting or self.abandoned
        self._nothing_is_overdue()
        return action

    def answer(self, index: int) -> None:
        """
        The server answers one of the requests under way.
        """
        send, body_bytes = self.sends.pop(index % len(self.sends))
        self.oracle.refusing_server |= self.server.mood.word == "refuses"
        verdict, request = self.server.answer(send, body_bytes)
        known = send in self.oracle.flying
        if known:
            self.oracle.answered(send, verdict, dict(request.refused), self.now, self.u)
        epoch = self.delivery.gate.epoch
        letters = self.delivery.on_verdict(send, settle(send.parts, verdict, request), self.now, self.u)
        assert known or not letters
        self.oracle.buried(letters)
        if known and isinstance(verdict, (Reject, Split)):
            self.oracle.refusal(send, self.delivery.gate, epoch, self.now)

    def fail(self, index: int) -> None:
        """
        A sender breaks down over its request.
        """
        send, _ = self.sends.pop(index % len(self.sends))
        if send in self.oracle.flying:
            self.oracle.answered(send, Retry(None, "internal error"), {}, self.now, self.u)
        self.delivery.on_failed(send, self.now, self.u)

    # The spooler.

    def spool(self) -> Spill | Load | Acknowledge | Release | Wait | Done:
        """
        The spooler asks what to do, and starts it. It is one thread.
        """
        assert self.spooling is None
        if not self.delivery.disk.enabled:
            return DONE
        action = self.delivery.next_spool(self.now)
        self._look_aside(numbers_of([action.part]) if isinstance(action, Spill) else ())
        match action:
            case Acknowledge(frame):
                self.oracle.acknowledged(frame)
                self.disk.forget(frame)
            case Spill(part) | Release(_, part):
                self._starts_writing(part)
                self.spooling = action
            case Load():
                self.spooling = action
            case Done():
                assert self.closed
                assert self.abandoned or not self.oracle_waits()
        self._nothing_is_overdue()
        return action

    def _starts_writing(self, part: Part) -> None:
        """
        All that its batch owes is written, and none of it is in a request.
        """
        self.oracle.same_ids([part])
        numbers = set(numbers_of([part]))
        _, whole = self.oracle.batches[part.batch.id]
        assert numbers == {number for number in whole if self.oracle.place.get(number) is Place.MEMORY}
        assert not numbers & {number for others in self.oracle.flying.values() for number in others}
        self.oracle.writing = numbers

    def spooled(self) -> None:
        """
        What the spooler started is done, or failed.
        """
        action, self.spooling = self.spooling, None
        self.oracle.writing = set()
        match action:
            case Spill(part):
                self._spilled(action, part)
            case Release(frame, part, last):
                self.disk.give_back(frame, part, last=last)
                self.delivery.on_released(action)
                self.oracle.spooled(numbers_of([part]))
            case Load():
                self._loaded(action)

    def _spilled(self, spill: Spill, part: Part) -> None:
        frame = self.disk.write(part)
        self.delivery.on_spilled(spill, frame, self.now)
        numbers = numbers_of([part])
        if frame is not None:
            self.oracle.spooled(numbers)
            return
        self.oracle.order_excused = True
        if self.abandoned:
            for number in numbers:
                self.oracle.drop(number, DropReason.UNDELIVERED)

    def _loaded(self, load: Load) -> None:
        frame = self.disk.oldest()
        if frame is None:
            self.delivery.on_loaded(load, None, None, None)
            return
        part = Part(frame.batch, None if len(frame.owed) == frame.batch.count else frame.owed)
        self.delivery.on_loaded(load, frame, part.batch, part.ordinals)
        if self.abandoned:
            frame.held = False
            return
        self.oracle.same_ids([part])
        self.oracle.loaded(frame.numbers())

    # Flush and close.

    def flush(self) -> None:
        """
        Somebody waits for all that was emitted so far.
        """
        mark = self.delivery.flush()
        self._look_aside()
        self._note(mark)

    def _note(self, mark: int) -> None:
        self.marks.append((mark, [number for number, place in self.oracle.place.items() if place in OPEN_PLACES]))
        del self.marks[:-3]

    def close(self) -> None:
        """
        The application is done.
        """
        self._look_aside()
        mark = self.delivery.close()
        self._look_aside()
        self.closed = True
        self._note(mark)

    def disown(self) -> None:
        """
        Time runs out: requests under way are given up.
        """
        self.delivery.disown()
        self.oracle.flying.clear()

    def abandon(self) -> None:
        """
        Time is up.
        """
        self.close()
        framed = self._framed()
        if isinstance(self.spooling, (Spill, Release)):
            framed -= self.oracle.writing
        lost = self.delivery.abandon()
        self.abandoned = True
        kept = {number: self.oracle.place.pop(number) for number in self.oracle.writing}
        self.oracle.abandoned(framed, lost)
        self.oracle.place.update(kept)

    def tick(self, seconds: float) -> None:
        """
        Time passes.
        """
        self.now += seconds

    # What must hold between any two calls.

    def check(self) -> None:
        """
        Every rule about a state.
        """
        self.oracle.account_closes(self.delivery)
        intake = self.delivery.intake
        inside = self._inside()
        assert len(inside) + len(self.aside) <= self.settings.queue_max_records
        assert len(inside) == intake.sealed_records + len(intake.open.bands_by_record)
        assert len(self.aside) + len(self.side) == intake.deferred
        assert intake.sealed_bytes + len(intake.open.arena) <= self.settings.queue_max_bytes
        assert self.oracle.bytes_outside() <= self.settings.inflight_max_bytes + self.settings.batch_max_bytes
        assert len(self.oracle.flying) == self.delivery.inflight
        if not any(place in OPEN_PLACES for place in self.oracle.place.values()):
            self.oracle.order_excused = False
        self._marks_are_right()

    def _marks_are_right(self) -> None:
        framed = self._framed()
        for mark, numbers in self.marks:
            waits = [n for n in numbers if self.oracle.place[n] is Place.MEMORY and n not in framed]
            assert self.delivery.settled(mark) == (not waits)

    def _framed(self) -> set[int]:
        """
        Records in memory that have a frame.
        """
        return {number for frame in self.disk.frames if frame.held for number in frame.numbers()}

    def oracle_waits(self) -> bool:
        """
        Whether anything is in memory.
        """
        return any(place is Place.MEMORY for place in self.oracle.place.values())

    def _nothing_is_overdue(self) -> None:
        """
        After somebody asked, no record stands in the open batch for longer than its linger.
        """
        for number in _numbers_in(self.delivery.intake.open):
            assert self.now < self.oracle.since[number] + self.settings.batch_linger or self.abandoned


def _numbers_in(batch: OpenBatch) -> Iterable[int]:
    """
    The records in an open batch.
    """
    for record in iter_records(memoryview(bytes(batch.arena))):
        yield number_in(record.payload)
