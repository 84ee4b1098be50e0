# SPDX-License-Identifier: Apache-2.0
"""
The delivery machine in short stories: each is a rule of the design, or a bug that was found and must not come back.
"""

from __future__ import annotations

import pytest

from structbatch.core.actions import DONE, Send, Wait
from structbatch.core.gate import GateState
from structbatch.core.ledger import DeadReason, DropReason
from structbatch.core.settings import Order
from structbatch.core.settlement import settle
from structbatch.core.vendor import Limits
from structbatch.core.verdict import Hold, Partial, Retry, Split
from tests.core.deliveries import BROKEN, BUSY, DONE_WELL, REFUSED, Story, numbers, record


def test_an_event_is_delivered() -> None:
    """
    Sealed, sent, settled, and the account closes.
    """
    story = Story()
    story.offer(1, 2)

    assert [1, 2] == story.exchange(DONE_WELL)
    assert (2, 0, 2, 0, 0, 0, 0) == story.delivery.account()


def test_an_open_batch_is_sent_when_it_is_due() -> None:
    """
    Not before its linger, and whoever asks is told when.
    """
    story = Story(batch_linger=1.0)
    story.offer(1)

    assert Wait(1.0) == story.delivery.next_send(0.5)
    story.now = 1.0
    assert [1] == story.exchange(DONE_WELL)


def test_batches_that_wait_share_a_request() -> None:
    """
    A slow endpoint gets larger requests; a vendor that dedupes whole requests gets one batch at a time.
    """
    story, single, off = Story(), Story(limits=Limits(max_batches=1)), Story(batch_coalesce=False)
    for each in (story, single, off):
        each.offer(1, 2, 3, 4)

    assert [1, 2, 3, 4] == numbers(story.send())
    assert [1, 2] == numbers(single.send())
    assert [1, 2] == numbers(off.send())


def test_a_retried_bundle_stays_as_it_was() -> None:
    """
    The same records in the same order, without those that came later; attempts count.
    """
    story = Story()
    story.offer(1, 2)
    story.exchange(BUSY)
    story.offer(3, 4)

    again = story.send()

    assert ([1, 2], 2) == (numbers(again), again.attempt)


def test_retry_after_shuts_the_gate() -> None:
    """
    Nobody sends before what the server asked for.
    """
    story = Story()
    story.offer(1, 2, 3, 4)
    story.exchange(Retry(30.0, "429", brownout=True))

    assert Wait(30.0) == story.delivery.next_send(29.9)
    assert isinstance(story.delivery.next_send(30.0), Send)


def test_an_answer_counts_once() -> None:
    """
    A second report for the same request changes nothing.
    """
    story = Story()
    story.offer(1, 2)
    send = story.send()
    story.answer(send, DONE_WELL)

    assert () == story.delivery.on_verdict(send, settle(send.parts, REFUSED), 0.0, 0.0)
    assert 2 == story.delivery.account().delivered


def test_a_body_that_measures_too_much_is_cut_before_it_is_sent() -> None:
    """
    What a vendor makes of a record is known only when the body is built.
    """
    story = Story(batch=4, limits=Limits(max_bytes=1000))
    story.offer(1, 2, 3, 4)

    assert not story.delivery.on_measured(story.send(), 1001)
    half = story.send()
    assert [1, 2] == numbers(half)
    assert story.delivery.on_measured(half, 500)


def test_too_large_is_halved_then_cut_then_dead() -> None:
    """
    413: smaller requests; a single record is truncated once.
    """
    story = Story()
    story.offer(1, 2)

    assert [1, 2] == story.exchange(Split())
    assert [1] == story.exchange(Split())
    cut = story.send()
    letters = story.answer(cut, Split())

    assert cut.truncate is not None
    assert [(0, DeadReason.TOO_LARGE)] == [(letter.ordinal, letter.reason) for letter in letters]
    assert [2] == story.exchange(DONE_WELL)


def test_the_culprit_dies_alone() -> None:
    """
    400 without a word why: the search delivers all neighbours.
    """
    story = Story(batch=8, batch_coalesce=False)
    story.offer(*range(8))
    delivered: list[int] = []
    letters = []
    while isinstance(send := story.delivery.next_send(0.0), Send):
        bad = 5 in numbers(send)
        letters += story.answer(send, REFUSED if bad else DONE_WELL)
        delivered += [] if bad else numbers(send)

    assert [0, 1, 2, 3, 4, 6, 7] == sorted(delivered)
    assert [(5, DeadReason.REJECTED)] == [(letter.ordinal, letter.reason) for letter in letters]


def test_a_server_that_refuses_everything_is_held() -> None:
    """
    Not the records: kept, probed slowly, and as soon as something passes all goes on.
    """
    story = Story(batch=4, batch_coalesce=False)
    story.offer(*range(12))
    for _ in range(12):
        if isinstance(send := story.delivery.next_send(0.0), Send):
            story.answer(send, REFUSED)

    assert GateState.HELD is story.delivery.gate.state
    assert (12, 0) == (story.delivery.account().waiting, story.delivery.account().dead)
    for turn in range(1, 60):
        story.now = turn * 61.0
        if isinstance(send := story.delivery.next_send(story.now), Send):
            story.answer(send, DONE_WELL)
    assert 12 == story.delivery.account().delivered


def test_a_hold_probes_slowly() -> None:
    """
    401: nothing is lost, one probe each ``retry_hold``.
    """
    story = Story()
    story.offer(1, 2, 3, 4)
    story.exchange(Hold("401"))

    assert Wait(60.0) == story.delivery.next_send(59.9)
    assert isinstance(story.delivery.next_send(60.0), Send)
    assert Wait(None) == story.delivery.next_send(60.0)


def test_a_bundle_that_keeps_failing_is_searched() -> None:
    """
    While others come through: the culprit is dead ``repeated_failure``, its neighbour is delivered.
    """
    story = Story(retry_max_retries=0, batch_coalesce=False)
    story.offer(1, 2)
    letters = []
    for turn in range(40):
        story.offer(100 + 2 * turn, 101 + 2 * turn)
        for _ in range(2):
            if isinstance(send := story.delivery.next_send(0.0), Send):
                letters += story.answer(send, BROKEN if 2 in numbers(send) else DONE_WELL)

    assert [(1, DeadReason.REPEATED_FAILURE)] == [(letter.ordinal, letter.reason) for letter in letters]
    assert 1 == story.delivery.account().dead


def test_a_brownout_is_no_poison() -> None:
    """
    503 says nothing about the records, however often and whoever else comes through.
    """
    story = Story(retry_max_retries=0, batch_coalesce=False)
    story.offer(1, 2)
    for turn in range(40):
        story.offer(100 + 2 * turn, 101 + 2 * turn)
        for _ in range(2):
            if isinstance(send := story.delivery.next_send(0.0), Send):
                story.answer(send, BUSY if 2 in numbers(send) else DONE_WELL)

    assert 0 == story.delivery.account().dead


def test_partly_accepted_is_no_success_where_nothing_was() -> None:
    """
    A busy cluster that answers 200 and asks for every item again proves nothing about other bundles.
    """
    story = Story(retry_max_retries=0, batch_coalesce=False)
    story.offer(1, 2, 3, 4)
    for _ in range(40):
        if isinstance(send := story.delivery.next_send(0.0), Send):
            story.answer(send, BROKEN if 1 in numbers(send) else Partial(frozenset({0, 1})))

    assert (0, 4) == (story.delivery.account().dead, story.delivery.account().waiting)


def test_partly_accepted_sends_only_the_rest() -> None:
    """
    What was named is sent again, under the same id.
    """
    story = Story(batch=3)
    story.offer(1, 2, 3)
    story.exchange(Partial(frozenset({1}), {2: "bad"}))

    assert [2] == story.exchange(DONE_WELL)
    assert (3, 0, 2, 0, 1, 0, 0) == story.delivery.account()


def test_probes_of_a_broken_gate_alternate() -> None:
    """
    The newest live batch and what failed: one of them may be what the server chokes on.
    """
    story = Story(retry_max_retries=0, batch_coalesce=False)
    story.offer(1, 2, 3, 4, 5, 6)
    story.exchange(BUSY)

    assert {(1, 2), (5, 6)} == {tuple(story.exchange(BUSY)) for _ in range(2)}


def test_memory_in_flight_is_bounded() -> None:
    """
    Beyond ``inflight_max_bytes`` a sender waits; one batch is always excepted.
    """
    story = Story(batch=4, inflight_max_bytes=4096, batch_max_bytes=4096, max_event_bytes=1024, batch_coalesce=False)
    story.offer(*range(8), size=700)
    first = story.send()

    assert Wait(None) == story.delivery.next_send(0.0)
    story.answer(first, DONE_WELL)
    assert isinstance(story.delivery.next_send(0.0), Send)


def test_in_order_nothing_overtakes() -> None:
    """
    One request at a time, and the oldest until it is settled.
    """
    story = Story(order=Order.OLDEST_FIRST, batch_coalesce=False)
    story.offer(1, 2, 3, 4)
    send = story.send()

    assert isinstance(story.delivery.next_send(0.0), Wait)
    story.answer(send, BUSY)
    assert [1, 2] == story.exchange(DONE_WELL)
    assert [3, 4] == story.exchange(DONE_WELL)


def test_in_order_a_bundle_that_never_passes_is_passed() -> None:
    """
    After its patience others may probe past it, even while it is being searched: it blocks nobody for ever.
    """
    story = Story(order=Order.OLDEST_FIRST, retry_max_retries=0, batch_coalesce=False)
    story.offer(*range(40))
    for _ in range(200):
        if isinstance(send := story.delivery.next_send(0.0), Send):
            story.answer(send, BROKEN if 0 in numbers(send) else DONE_WELL)

    assert (39, 1) == (story.delivery.account().delivered, story.delivery.account().dead)


def test_flush_marks_everything_before_it() -> None:
    """
    The side list included; what comes later does not count.
    """
    story = Story()
    story.offer(1)
    story.delivery.defer(record(2), 9)
    mark = story.delivery.flush()
    story.offer(3)

    assert not story.delivery.settled(mark)
    assert [1, 2] == story.exchange(DONE_WELL)
    assert story.delivery.settled(mark)


def test_close_ends_when_all_is_settled() -> None:
    """
    Senders end, late events are refused, what was on the side list before is not.
    """
    story = Story()
    story.delivery.defer(record(1), 9)
    story.delivery.close()
    story.offer(2)

    assert [1] == story.exchange(DONE_WELL)
    assert DONE is story.delivery.next_send(0.0)
    assert {"closed"} == story.delivery.ledger.dropped_by_reason().keys()


def test_abandon_counts_what_is_lost() -> None:
    """
    In the queue, in a request or waiting: nothing is in memory any more, and a late answer changes nothing.
    """
    story = Story(batch_coalesce=False)
    story.offer(1, 2, 3, 4, 5)
    send = story.send()

    lost = story.delivery.abandon()
    story.answer(send, DONE_WELL)

    assert (0, 0, 0, 5, 0, 0, 0) == lost
    assert (5, 0, 0, 5, 0, 0, 0) == story.delivery.account()
    assert {DropReason.UNDELIVERED: lost} == story.delivery.ledger.dropped
    assert DONE is story.delivery.next_send(0.0)


def test_disowned_requests_wait_again() -> None:
    """
    Their answers are ignored: a repetition is the price.
    """
    story = Story()
    story.offer(1, 2)
    send = story.send()

    story.delivery.disown()
    story.answer(send, DONE_WELL)

    assert [1, 2] == story.exchange(DONE_WELL)
    assert 2 == story.delivery.account().delivered


def test_a_sender_that_breaks_down_loses_nothing() -> None:
    """
    Its records wait for another attempt.
    """
    story = Story()
    story.offer(1, 2)

    story.delivery.on_failed(story.send(), 0.0, 0.0)

    assert [1, 2] == story.exchange(DONE_WELL)


@pytest.mark.parametrize("verdict", [BUSY, BROKEN, Hold("401"), REFUSED, Split(), Partial(frozenset({0})), DONE_WELL])
def test_the_account_closes_after_every_verdict(verdict: object) -> None:
    """
    Between any two calls.
    """
    story = Story(batch=4)
    story.offer(*range(10))

    story.answer(story.send(), verdict)  # type: ignore[arg-type]

    assert story.delivery.account().closes()
    assert 10 == story.delivery.account().emitted


def test_bundles_that_fail_do_not_fill_memory_for_ever() -> None:
    """
    Nothing else fits beside them, so nothing can come through and prove that it is the records: they are divided, and
    what is good of them passes.
    """
    story = Story(
        batch=4, batch_coalesce=False, retry_max_retries=0, batch_max_bytes=4096, inflight_max_bytes=4096,
        max_event_bytes=1024,
    )
    story.offer(*range(8), size=900)
    for turn in range(200):
        story.now = 100.0 * turn
        if turn % 3 == 0:
            story.offer(100 + turn)
            story.delivery.flush()
        if isinstance(send := story.delivery.next_send(story.now), Send):
            story.answer(send, BROKEN if 2 in numbers(send) else DONE_WELL)

    assert 1 == story.delivery.account().dead
    assert story.delivery.account().waiting <= 1
