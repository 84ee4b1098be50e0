# SPDX-License-Identifier: Apache-2.0
"""
Where records come in; the property tests hold the rules about limits.
"""

from __future__ import annotations

from collections import deque

import pytest

from structbatch.core.batch import Batch
from structbatch.core.intake import Intake
from structbatch.core.ledger import DropReason, Ledger
from structbatch.core.record import HEADER_BYTES, iter_records, pack_record
from structbatch.core.settings import Settings


OURS = b'{"resource":{}}'


def intake_of(**settings: int) -> tuple[Intake, Ledger]:
    """
    An intake with *settings*, and its ledger.
    """
    ledger = Ledger()
    return Intake(Settings(batch_linger=1.0, **settings), b"writer-001", OURS, ledger), ledger


def record(number: int = 0) -> bytes:
    """
    A small record.
    """
    return pack_record(b'{"message":"x"}', number, 9)


def numbers(batch: Batch) -> list[int]:
    """
    The records of *batch*.
    """
    return [each.time_ns for each in iter_records(batch.records)]


def test_a_worker_is_told_only_what_became_possible() -> None:
    """
    The first record of a batch and a sealed batch are news; a record in between is not.
    """
    intake, _ = intake_of(batch_max_records=3)

    told = []
    for number in range(4):
        intake.possible = False
        intake.offer(record(number), 9, 0.0)
        told.append(intake.possible)

    assert [True, False, True, True] == told


def test_after_close_every_door_is_shut() -> None:
    """
    For events inside the lock too: nobody would drain the side list.
    """
    intake, ledger = intake_of()
    intake.shut()

    assert DropReason.CLOSED is intake.offer(record(), 9, 0.0)
    assert DropReason.CLOSED is intake.defer(record(), 9)
    assert {"closed": (0, 0, 0, 2, 0, 0, 0)} == ledger.dropped_by_reason()
    assert 0 == intake.deferred


def test_room_is_what_offer_would_find() -> None:
    """
    `has_room` says what `offer` will say.
    """
    intake, _ = intake_of(queue_max_records=1)

    assert intake.has_room(len(record()))
    intake.offer(record(), 9, 0.0)
    assert not intake.has_room(len(record()))
    intake.seal()
    intake.take()
    assert intake.has_room(len(record()))


def test_the_side_list_is_drained_in_order() -> None:
    """
    What a handler said follows what it interrupted.
    """
    intake, _ = intake_of()
    intake.offer(record(1), 9, 0.0)
    intake.defer(record(2), 9)
    intake.defer(record(3), 9)

    intake.drain(0.5)
    intake.seal()

    assert [1, 2, 3] == numbers(intake.take())
    assert 0 == intake.deferred


def test_recount_seals_a_full_batch_at_the_next_occasion() -> None:
    """
    An exception may have come between the record and the statement that seals: no batch becomes larger by that.
    """
    intake, _ = intake_of(batch_max_records=2)
    intake.offer(record(1), 9, 0.0)
    intake.open.arena += record(2)

    intake.recount()
    intake.offer(record(3), 9, 0.1)

    assert [1, 2] == numbers(intake.sealed[0])
    assert 1 == len(intake.open.bands_by_record)


def test_recount_undoes_half_a_seal() -> None:
    """
    The batch was appended and the open one not yet replaced: no record stands in both.
    """
    intake, ledger = intake_of()
    intake.offer(record(1), 9, 0.0)
    intake.sealed.append(intake.open.seal())

    intake.recount()
    intake.offer(record(2), 9, 0.0)
    intake.seal()

    assert [[1], [2]] == [numbers(batch) for batch in intake.sealed]
    assert [0, 1] == [batch.first_sequence for batch in intake.sealed]
    assert (2, 2) == (sum(ledger.accepted), intake.sealed_records)
    assert 2 == len({batch.id for batch in intake.sealed})


def test_recount_tells_an_event_from_its_twin() -> None:
    """
    Two equal events on the side list are two events: the one whose offer was interrupted comes back.
    """
    intake, _ = intake_of()
    intake.defer(record(1), 9)
    intake.defer(record(1), 9)

    class Interrupted(BaseException):
        pass

    def interrupted(*_: object) -> None:
        raise Interrupted

    offer, intake.offer = intake.offer, interrupted  # type: ignore[method-assign,assignment]
    try:
        intake.drain(0.0)
    except Interrupted:
        intake.offer = offer  # type: ignore[method-assign]
    intake.recount()

    assert 2 == intake.deferred


def test_recount_loses_nothing_that_was_on_its_way_from_the_front() -> None:
    """
    An exception while records are popped, before any of them is in a batch: they are still in hand.
    """

    class Interrupted(BaseException):
        pass

    class Torn(deque[bytes]):
        def popleft(self) -> bytes:
            if len(self) == 1:
                raise Interrupted
            return super().popleft()

    intake, _ = intake_of()
    intake.offer(record(1), 9, 0.0)
    intake.front = Torn([record(2), record(3), record(4)])
    with pytest.raises(Interrupted):
        intake.drain(0.1)
    intake.front = deque(intake.front)
    intake.recount()

    assert (3, 0) == (intake.deferred, intake.front_room)
    intake.drain(0.2)
    intake.seal()
    assert [[1, 2, 3, 4]] == [numbers(batch) for batch in intake.sealed]


def test_a_batch_is_not_one_byte_too_large() -> None:
    """
    The record that does not fit opens the next batch; one that fits exactly fills this one.
    """
    for last, batches in ((1024, [[0, 1, 2, 3]]), (1025, [[0, 1, 2]])):
        intake, _ = intake_of(batch_max_bytes=4096, max_event_bytes=2000)
        for number in range(4):
            size = 1024 if number < 3 else last
            intake.offer(pack_record(b"x" * (size - HEADER_BYTES), number, 9), 9, 0.0)

        assert batches == [numbers(batch) for batch in intake.sealed]


def test_no_later_record_moves_the_deadline() -> None:
    """
    Of another source neither: the first record of a batch does not wait for longer than its linger.
    """
    intake, _ = intake_of()
    intake.offer(record(1), 9, 0.0)
    intake.offer(record(2), 9, 0.5)
    intake.offer(record(3), 9, 0.75, b'{"resource":{"service.name":"x"}}')

    assert 1.0 == intake.open.deadline
