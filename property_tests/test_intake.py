# SPDX-License-Identifier: Apache-2.0
"""
Where batches end, and whom the queue refuses: exactly where the settings say, not one record later.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from property_tests.interrupt import interrupt
from structbatch.core.batch import Batch
from structbatch.core.intake import SIDE_LIST_MAX, Intake
from structbatch.core.ledger import DropReason, Ledger
from structbatch.core.record import HEADER_BYTES, iter_records, pack_record
from structbatch.core.settings import Settings
from structbatch.core.severity import BAND_OF


OURS, OTHER = b'{"resource":{}}', b'{"resource":{"service.name":"x"}}'


class Said(NamedTuple):
    """
    An event: seconds after the one before, size of its record, severity, source.
    """

    after: float
    size: int
    severity: int
    source: bytes | None


SAID = st.builds(
    Said,
    st.sampled_from([0.0, 0.0, 0.0, 0.25, 0.5, 1.0, 9.0]),
    st.one_of(st.integers(HEADER_BYTES, 1066), st.sampled_from([1024, 1024, 1024, 1025, 512, 50])),
    st.integers(0, 24),
    st.sampled_from([None, None, OTHER]),
)
SETTINGS = st.builds(
    Settings,
    batch_max_records=st.integers(1, 8),
    batch_max_bytes=st.sampled_from([4096, 5000]),
    batch_linger=st.sampled_from([0.0, 0.5, 1.0]),
    batch_urgent_severity=st.sampled_from([0, 1, 17, 24]),
    queue_max_records=st.integers(1, 20),
    queue_max_bytes=st.sampled_from([5000, 10240]),
    max_event_bytes=st.just(1024),
)


def records_in(batch: Batch) -> list[int]:
    """
    The events of *batch*, by number.
    """
    return [record.time_ns for record in iter_records(batch.records)]


class Model:
    """
    The rules, written down once more: which events share a batch, and which are refused.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.batches: list[list[int]] = []
        self.refused: list[int] = []
        self.open: list[int] = []
        self.open_bytes = 0
        self.sealed_bytes = 0
        self.deadline = 0.0

    def seal(self) -> None:
        """
        The open batch is done.
        """
        if self.open:
            self.batches.append(self.open)
            self.sealed_bytes += self.open_bytes
            self.open, self.open_bytes = [], 0

    def say(self, number: int, said: Said, now: float) -> None:
        """
        One event arrives.
        """
        settings = self.settings
        if self.open and (now >= self.deadline or self.open_bytes + said.size > settings.batch_max_bytes):
            self.seal()
        records = sum(map(len, self.batches)) + len(self.open)
        if (
            records == settings.queue_max_records
            or self.sealed_bytes + self.open_bytes + said.size > settings.queue_max_bytes
        ):
            self.refused.append(number)
            return
        if not self.open:
            self.deadline = now + settings.batch_linger
        self.open.append(number)
        self.open_bytes += said.size
        full = len(self.open) == settings.batch_max_records or self.open_bytes == settings.batch_max_bytes
        if full or said.severity >= (settings.batch_urgent_severity or 25):
            self.seal()


@given(settings=SETTINGS, events=st.lists(SAID, max_size=40))
def test_batches_end_where_the_settings_say(settings: Settings, events: list[Said]) -> None:
    """
    Sealed at exactly the record, the byte, the moment or the severity; refused at exactly the queue's limits.
    """
    ledger = Ledger()
    intake = Intake(settings, b"writer-001", OURS, ledger)
    model, now = Model(settings), 0.0

    refused = []
    for number, said in enumerate(events):
        now += said.after
        record = pack_record(b"x" * (said.size - HEADER_BYTES), number, said.severity)
        if intake.offer(record, said.severity, now, said.source) is not None:
            refused.append(number)
        model.say(number, said, now)

    assert model.batches == [records_in(batch) for batch in intake.sealed]
    assert model.open == [record.time_ns for record in iter_records(memoryview(bytes(intake.open.arena)))]
    assert model.refused == refused
    assert len(refused) == ledger.refused_total()
    assert not model.open or model.deadline == intake.open.deadline


@given(settings=SETTINGS, events=st.lists(SAID, max_size=40))
def test_a_batch_tells_the_truth_about_its_records(settings: Settings, events: list[Said]) -> None:
    """
    Ids differ, sequence numbers have no gap, bands, times and sources are those of the records.
    """
    intake = Intake(settings, b"writer-001", OURS, Ledger())
    for number, said in enumerate(events):
        record = pack_record(b"x" * (said.size - HEADER_BYTES), number, said.severity)
        intake.offer(record, said.severity, 0.0, said.source)
    intake.seal()

    position = 0
    for batch in intake.sealed:
        numbers = records_in(batch)
        assert position == batch.first_sequence
        assert [BAND_OF[events[number].severity] for number in numbers] == list(batch.bands_by_record)
        assert (numbers[0], numbers[-1]) == (batch.first_time_ns, batch.last_time_ns)
        assert [events[number].source or OURS for number in numbers] == [
            batch.sources[record.source] for record in iter_records(batch.records)
        ]
        assert sum(batch.bands) == batch.count
        position += batch.count
    assert len(intake.sealed) == len({batch.id for batch in intake.sealed})


@given(settings=SETTINGS, events=st.lists(SAID, max_size=30), later=st.sampled_from([0.0, 0.4999, 0.5, 1.0]))
def test_a_batch_is_due_exactly_after_its_linger(settings: Settings, events: list[Said], later: float) -> None:
    """
    `seal_if_due` seals at the deadline and not before it.
    """
    intake = Intake(settings, b"writer-001", OURS, Ledger())
    for number, said in enumerate(events):
        record = pack_record(b"x" * (said.size - HEADER_BYTES), number, said.severity)
        intake.offer(record, said.severity, 0.0)
    waits = bool(intake.open.arena)

    intake.seal_if_due(later)

    assert (waits and later < settings.batch_linger) == bool(intake.open.arena)


@given(count=st.integers(0, SIDE_LIST_MAX + 5))
def test_the_side_list_is_bounded(count: int) -> None:
    """
    What a handler says more often than the side list holds is refused and counted.
    """
    ledger = Ledger()
    intake = Intake(Settings(), b"writer-001", OURS, ledger)

    reasons = [intake.defer(pack_record(b"{}", 0), 9) for _ in range(count)]

    assert [None] * min(count, SIDE_LIST_MAX) == reasons[:SIDE_LIST_MAX]
    assert all(reason is DropReason.REENTRANT for reason in reasons[SIDE_LIST_MAX:])
    assert max(0, count - SIDE_LIST_MAX) == ledger.refused_total()


@given(settings=SETTINGS, before=st.lists(SAID, max_size=8), last=SAID, deferred=st.integers(0, 2))
def test_an_exception_between_any_two_lines_loses_nothing(
    settings: Settings, before: list[Said], last: Said, deferred: int
) -> None:
    """
    After `recount` every record that was accepted is there once, every number is that of the batches, and no batch
    becomes too large by it.
    """
    interrupted, at = True, 0
    while interrupted:
        ledger = Ledger()
        intake = Intake(settings, b"writer-001", OURS, ledger)
        for number, said in enumerate(before):
            record = pack_record(b"x" * (said.size - HEADER_BYTES), number, said.severity)
            intake.offer(record, said.severity, 0.0, said.source)
        for number in range(100, 100 + deferred):
            intake.defer(pack_record(b"{}", number, 9), 9)

        def emit(intake: Intake = intake) -> None:
            intake.drain(last.after)
            record = pack_record(b"x" * (last.size - HEADER_BYTES), 99, last.severity)
            intake.offer(record, last.severity, last.after, last.source)

        interrupted = interrupt(emit, at)
        if interrupted:
            intake.recount()
        at += 1
        intake.drain(last.after)
        batches = [*map(records_in, intake.sealed)]
        waiting = [record.time_ns for record in iter_records(memoryview(bytes(intake.open.arena)))]
        there = [number for batch in [*batches, waiting] for number in batch]

        assert len(there) == len(set(there))
        assert sum(map(len, batches)) == sum(ledger.accepted) == intake.sealed_records
        assert sum(len(batch.records) for batch in intake.sealed) == intake.sealed_bytes
        assert len(waiting) == len(intake.open.bands_by_record)
        assert sum(map(len, batches)) == intake.open.first_sequence
        emitted = len(there) + ledger.refused_total()
        said = len(before) + deferred
        assert emitted == said + 1 or (interrupted and emitted == said)
        assert all(len(batch) <= settings.batch_max_records for batch in batches)
        assert len({batch.id for batch in intake.sealed} | {intake.open.id}) == len(intake.sealed) + 1
