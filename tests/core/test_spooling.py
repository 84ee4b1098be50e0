# SPDX-License-Identifier: Apache-2.0
"""
The disk side of delivery in short stories: each is a rule of the design, or a bug that was found and must not come
back.
"""

from __future__ import annotations

from structbatch.core.actions import DONE, Send, Wait
from structbatch.core.settings import Order
from structbatch.core.spooling import Acknowledge, Load, Release, Spill
from structbatch.core.verdict import Split
from tests.core.deliveries import BROKEN, BUSY, DONE_WELL, Story, batch_of, numbers, numbers_in


def test_what_used_up_its_attempts_goes_to_the_disk() -> None:
    """
    Never a drop while the disk works; then it is loaded, sent and acknowledged.
    """
    story = Story(spool=True, retry_max_retries=0)
    story.offer(1, 2)
    story.exchange(BUSY)

    assert [1, 2] == story.spill("frame")
    assert (2, 0, 0, 0, 0, 2, 0) == story.delivery.account()
    story.load(batch_of(1, 1, 2))
    assert [1, 2] == story.exchange(DONE_WELL)
    assert (2, 2, 2, 0, 0, 2, 0) == story.delivery.account()
    assert isinstance(story.delivery.next_spool(0.0), Acknowledge)


def test_a_half_full_queue_is_spilled_oldest_first() -> None:
    """
    And not before it is half full.
    """
    story = Story(spool=True, queue_max_records=8)
    story.offer(1, 2)
    assert isinstance(story.delivery.next_spool(0.0), Wait)
    story.offer(3, 4)

    assert [1, 2] == story.spill("frame")


def test_a_frame_that_fails_is_given_back() -> None:
    """
    With what is still owed of it; it is spooled again.
    """
    story = Story(spool=True, retry_max_retries=0)
    story.delivery.disk.frames = 1
    story.load(batch_of(1, 1, 2))
    story.exchange(BUSY)

    release = story.delivery.next_spool(0.0)

    assert isinstance(release, Release)
    assert [1, 2] == numbers_in([release.part])
    story.delivery.on_released(release)
    assert (0, 2, 0, 0, 0, 2, 0) == story.delivery.account()


def test_a_failing_disk_is_left_alone_for_a_while() -> None:
    """
    Back to the network meanwhile, with doubling pauses between tries.
    """
    story = Story(spool=True, retry_max_retries=0, queue_max_records=8)
    story.offer(1, 2)
    story.exchange(BUSY)

    story.spill(None)

    assert [1, 2] == numbers(story.send())
    story.offer(3, 4, 5, 6)
    assert Wait(1.0) == story.delivery.next_spool(0.5)
    assert isinstance(story.delivery.next_spool(1.0), Spill)


def test_failing_writes_do_not_drain_the_queue_into_memory_without_bound() -> None:
    """
    A batch that the disk did not take goes first the next time: dead server and dead disk, for hours.
    """
    story = Story(
        spool=True, batch_coalesce=False, inflight_max_bytes=4096, batch_max_bytes=4096, max_event_bytes=1024, batch=4,
        queue_max_records=16, retry_max_retries=0,
    )
    for turn in range(200):
        story.offer(*range(4 * turn, 4 * turn + 4), size=900)
        story.now += 100.0
        if isinstance(send := story.delivery.next_send(story.now), Send):
            story.answer(send, BUSY)
        action = story.delivery.next_spool(story.now)
        if isinstance(action, Spill):
            story.delivery.on_spilled(action, None, story.now)

    queued = story.delivery.intake.sealed_records
    assert story.delivery.account().waiting - queued <= 8


def test_failures_are_remembered_without_the_records() -> None:
    """
    A hundred batches on disk, whose failures count, are not a hundred batches in memory.
    """
    story = Story(spool=True, retry_max_retries=0)
    story.offer(1, 2)
    story.exchange(BROKEN)
    story.spill("frame")

    assert [()] == [failures.parts for failures in story.delivery.disk._history.values()]


def test_a_search_is_not_interrupted_by_a_detour_to_the_disk() -> None:
    """
    Else a frame with a record that always fails is loaded, searched and given back for ever.
    """
    story = Story(spool=True, retry_max_retries=0, batch_coalesce=False)
    frames = [batch_of(1, *range(1, 9))]
    story.delivery.disk.frames = 1
    letters = []
    for turn in range(200):
        if turn % 4 == 0:
            story.offer(100 + turn, 101 + turn)
        match action := story.delivery.next_spool(0.0):
            case Load():
                batch = frames.pop(0) if frames else None
                story.delivery.on_loaded(action, batch, batch, None)
            case Spill(part):
                frames.append(part.batch)
                story.delivery.on_spilled(action, part.batch, 0.0)
            case Release(batch):
                frames.append(batch)
                story.delivery.on_released(action)
        if isinstance(send := story.delivery.next_send(0.0), Send):
            letters += story.answer(send, BROKEN if 1 in numbers(send) else DONE_WELL)

    assert [0] == [letter.ordinal for letter in letters]


def test_the_spooler_does_not_end_before_the_queue_is_empty() -> None:
    """
    Sealed batches wait, no request is under way, and the pipeline closes: they may have to go to the disk.
    """
    story = Story(spool=True)
    story.offer(1, 2)
    story.delivery.close()

    assert DONE is not story.delivery.next_spool(0.0)
    story.delivery.disk.rescue = True
    assert [1, 2] == story.spill("frame")
    assert DONE is story.delivery.next_spool(0.0)


def test_in_order_everything_passes_through_the_disk() -> None:
    """
    While frames remain, what is newer is not sent past them.
    """
    story = Story(spool=True, order=Order.OLDEST_FIRST)
    story.delivery.disk.frames = 1
    story.offer(3, 4)

    assert isinstance(story.delivery.next_send(0.0), Wait)
    assert [3, 4] == story.spill("frame")


def test_in_order_what_waits_for_the_disk_is_not_overtaken() -> None:
    """
    Between the last attempt and the write, too.
    """
    story = Story(spool=True, order=Order.OLDEST_FIRST, retry_max_retries=0, batch_coalesce=False)
    story.offer(1, 2, 3, 4)
    story.exchange(BUSY)

    assert isinstance(story.delivery.next_send(0.0), Wait)
    assert [1, 2] == story.spill("frame")
    assert isinstance(story.delivery.next_send(0.0), Wait)


def test_in_order_the_queue_is_not_written_before_what_is_older() -> None:
    """
    A half-full queue waits until the request under way comes home; then the oldest is written first.
    """
    story = Story(spool=True, order=Order.OLDEST_FIRST, queue_max_records=8, batch_coalesce=False)
    story.offer(1, 2)
    send = story.send()
    story.offer(3, 4, 5, 6)
    assert isinstance(story.delivery.next_spool(0.0), Wait)
    story.answer(send, BUSY)

    assert [1, 2] == story.spill("frame")
    assert [3, 4] == story.spill("frame")


def test_in_order_a_frame_that_fails_keeps_its_place() -> None:
    """
    An outage is no reason to send the oldest frame behind all others.
    """
    story = Story(spool=True, order=Order.OLDEST_FIRST, retry_max_retries=0)
    story.delivery.disk.frames = 2
    story.load(batch_of(1, 1, 2))
    for _ in range(3):
        assert [1, 2] == story.exchange(BUSY)
        assert not isinstance(story.delivery.next_spool(0.0), Release)


def test_rescue_brings_everything_to_the_disk() -> None:
    """
    Time runs out: what waits in memory and what is in the queue.
    """
    story = Story(spool=True, batch_coalesce=False)
    story.offer(1, 2, 3, 4, 5)
    story.send()
    story.delivery.close()
    story.delivery.disown()
    story.delivery.disk.rescue = True

    assert [1, 2, 3, 4, 5] == story.spill("a") + story.spill("b") + story.spill("c")
    assert DONE is story.delivery.next_spool(0.0)
    assert (0,) * 7 == story.delivery.abandon()
    assert 5 == story.delivery.account().spooled


def test_abandon_leaves_what_is_on_disk_there() -> None:
    """
    A loaded frame is not lost, and a write under way counts by its end.
    """
    story = Story(spool=True, queue_max_records=4)
    story.delivery.disk.frames = 1
    story.load(batch_of(1, 1, 2))
    story.offer(3, 4)
    spill = story.delivery.next_spool(0.0)
    assert isinstance(spill, Spill)

    assert (0,) * 7 == story.delivery.abandon()
    story.delivery.on_spilled(spill, None, 0.0)

    assert (2, 2, 0, 2, 0, 2, 0) == story.delivery.account()
    assert DONE is story.delivery.next_spool(0.0)


def test_a_batch_is_written_only_when_all_of_it_is_there() -> None:
    """
    Half of it waits for the disk while the other half is in a request: one batch is one frame.
    """
    story = Story(batch=4, spool=True, retry_max_retries=0)
    story.offer(1, 2, 3, 4)
    story.exchange(Split())
    first, second = story.send(), story.send()
    story.answer(first, BUSY)

    assert isinstance(story.delivery.next_spool(0.0), Wait)
    story.answer(second, DONE_WELL)
    assert [1, 2] == story.spill("frame")


def test_what_comes_back_of_a_batch_that_waits_for_the_disk_joins_it() -> None:
    """
    It is not sent again meanwhile.
    """
    story = Story(batch=4, spool=True, retry_max_retries=0)
    story.offer(1, 2, 3, 4)
    story.exchange(Split())
    first, second = story.send(), story.send()
    story.answer(first, BUSY)
    story.answer(second, Split())

    assert isinstance(story.delivery.next_send(0.0), Wait)
    assert [1, 2, 3, 4] == story.spill("frame")


def test_one_thing_at_a_time() -> None:
    """
    While a write is under way there is nothing else to do for the disk.
    """
    story = Story(spool=True, queue_max_records=4)
    story.offer(1, 2, 3, 4)
    assert isinstance(story.delivery.next_spool(0.0), Spill)

    assert isinstance(story.delivery.next_spool(0.0), Wait)


def test_a_load_that_comes_after_the_end_changes_nothing() -> None:
    """
    The frame was never ours: it stays where it is.
    """
    story = Story(spool=True)
    story.delivery.disk.frames = 1
    load = story.delivery.next_spool(0.0)
    assert isinstance(load, Load)
    story.delivery.abandon()

    story.delivery.on_loaded(load, "frame", batch_of(1, 1, 2), None)

    assert (0,) * 7 == story.delivery.account()
