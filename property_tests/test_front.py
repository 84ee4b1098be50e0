# SPDX-License-Identifier: Apache-2.0
"""
The front of the intake, which any thread appends to without the lock.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from structbatch.core.intake import Intake
from structbatch.core.ledger import Ledger
from structbatch.core.record import iter_records, pack_record
from structbatch.core.settings import Settings


MAX_BYTES = 4096
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["emit", "emit", "emit", "race", "drain", "offer", "take", "recount", "tick"]),
        st.integers(0, 900),
    ),
    max_size=60,
)


def record(number: int, size: int) -> bytes:
    """
    A record whose time is *number*, with a payload of at least *size* bytes.
    """
    return pack_record(b'{"message":"%b"}' % (b"x" * size), number, 9)


class World:
    """
    An intake as the pipeline drives it: to the front while there is room, else under the lock.
    """

    def __init__(self, records: int, queue: int) -> None:
        self.settings = Settings(
            batch_max_records=records, batch_max_bytes=MAX_BYTES, max_event_bytes=1024, queue_max_records=queue
        )
        self.intake = Intake(self.settings, bytes(10), b"{}", Ledger())
        self.now = 0.0
        self.number = 0
        self.accepted: list[int] = []
        self.taken: list[int] = []

    def emit(self, size: int, *, raced: bool = False) -> None:
        """
        One event. *raced*: its thread looked at the room just before another one filled it.
        """
        intake, one = self.intake, record(self.number, size)
        room = intake.front_room + (1 if raced and intake.front_room else 0)
        if len(intake.front) < room and len(one) <= intake.front_bytes:
            intake.front.append(one)
            self.accepted.append(self.number)
        else:
            intake.drain(self.now)
            if intake.offer(one, 9, self.now) is None:
                self.accepted.append(self.number)
        self.number += 1

    def take(self) -> None:
        """
        A sender takes the oldest sealed batch.
        """
        if self.intake.sealed:
            batch = self.intake.take()

            assert self.settings.batch_max_records >= batch.count
            assert MAX_BYTES >= len(batch.records)
            assert len(self.taken) == batch.first_sequence
            self.taken += [one.time_ns for one in iter_records(batch.records)]


@given(st.integers(1, 12), st.integers(1, 40), STEPS)
def test_every_accepted_record_is_in_one_batch(records: int, queue: int, steps: list[tuple[str, int]]) -> None:
    """
    Whatever comes between: each accepted record is in exactly one batch, in order, within both limits; the queue is
    passed by as many as raced at most.
    """
    world = World(records, queue)
    raced = 0
    for what, size in steps:
        match what:
            case "emit" | "offer":
                world.emit(size if what == "offer" else size % 100)
            case "race":
                raced += 1
                world.emit(size % 100, raced=True)
            case "drain":
                world.intake.drain(world.now)
            case "take":
                world.take()
            case "recount":
                world.intake.recount()
            case "tick":
                world.now += size / 100
                world.intake.drain(world.now)
                world.intake.seal_if_due(world.now)
        waiting = len(world.accepted) - len(world.taken)

        assert waiting == world.intake.sealed_records + len(world.intake.open.bands_by_record) + world.intake.deferred
        assert waiting <= queue + raced
    world.intake.drain(world.now)
    world.intake.seal()
    while world.intake.sealed:
        world.take()

    assert world.accepted == world.taken


@given(st.integers(2, 12), st.integers(0, 11))
def test_what_came_while_the_door_was_shut_is_refused(records: int, late: int) -> None:
    """
    A record that a thread appends just after the intake was shut is counted as refused, not kept for ever.
    """
    world = World(records, 1000)
    world.emit(10)
    world.intake.shut()
    world.intake.front.extend(record(number, 10) for number in range(late))
    world.intake.drain(world.now)

    assert world.intake.deferred == 0
    assert late == world.intake._ledger.refused_total()
