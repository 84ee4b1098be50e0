# SPDX-License-Identifier: Apache-2.0
"""
What an answer settles; the property tests hold that nothing is lost or counted twice.
"""

from __future__ import annotations

from structbatch.core.http import Request
from structbatch.core.ledger import DeadReason, DropReason
from structbatch.core.settlement import Letter, bury, settle
from structbatch.core.vendor import Part
from structbatch.core.verdict import Delivered, Partial, Retry
from tests.core.deliveries import batch_of


FIRST, SECOND = batch_of(1, 0, 1, 2), batch_of(2, 3, 4, 5)


def request_of(**refused: str) -> Request:
    """
    A request whose vendor refuses positions, written ``p0="expired"``.
    """
    return Request("http://127.0.0.1/", b"", refused={int(name[1:]): why for name, why in refused.items()})


def test_delivered_is_all_of_it() -> None:
    """
    Counted by band and by batch, without a walk.
    """
    settlement = settle([Part(FIRST), Part(SECOND, (1,))], Delivered())

    assert (0, 0, 0, 4, 0, 0, 0) == settlement.delivered
    assert {FIRST.id: (0, 0, 0, 3, 0, 0, 0), SECOND.id: (0, 0, 0, 1, 0, 0, 0)} == settlement.by_batch
    assert () == settlement.remain


def test_positions_map_back_to_ordinals() -> None:
    """
    They count over all parts; a part in part has its own ordinals.
    """
    settlement = settle([Part(FIRST, (0, 2)), Part(SECOND)], Partial(frozenset({1, 4}), {2: "bad"}))

    assert (Part(FIRST, (2,)), Part(SECOND, (2,))) == settlement.remain
    assert (Letter(SECOND, 0, DeadReason.REJECTED, "bad"),) == settlement.letters
    assert 2 == sum(settlement.delivered)


def test_nothing_settled_remains_as_it_was() -> None:
    """
    The very parts: a retry is the same request.
    """
    parts = (Part(FIRST, (0, 2)), Part(SECOND))

    assert parts == settle(parts, Retry(None, "503")).remain


def test_what_our_side_refused_is_over_whatever_the_server_says() -> None:
    """
    It was never in the request. Too old is dropped, all else is dead.
    """
    parts, request = (Part(FIRST),), request_of(p0="expired", p1="empty")

    for verdict, left in ((Retry(None, "503"), (Part(FIRST, (2,)),)), (Delivered(), ())):
        settlement = settle(parts, verdict, request)
        assert left == settlement.remain
        assert {DropReason.EXPIRED: (0, 0, 0, 1, 0, 0, 0)} == settlement.dropped
        assert (Letter(FIRST, 1, DeadReason.REJECTED, "empty"),) == settlement.letters


def test_a_vendors_word_expired_is_only_a_word() -> None:
    """
    A server that says so has rejected the record: that is a dead letter.
    """
    settlement = settle([Part(FIRST)], Partial(reject={0: "expired"}))

    assert {} == settlement.dropped
    assert (Letter(FIRST, 0, DeadReason.REJECTED, "expired"),) == settlement.letters


def test_nonsense_from_a_server_is_harmless() -> None:
    """
    Positions that do not exist, the same one in both lists, more rejected than sent.
    """
    settlement = settle([Part(FIRST)], Partial(frozenset({-1, 0, 99}), {0: "bad", 77: "bad"}, 1000))

    assert () == settlement.remain
    assert (1, 2) == (len(settlement.letters), sum(settlement.dead[DeadReason.UNNAMED]))
    assert 0 == sum(settlement.delivered)


def test_burial() -> None:
    """
    A letter for each.
    """
    settlement = bury([Part(FIRST, (1,)), Part(SECOND)], DeadReason.UNRESOLVED, "why")

    assert [1, 0, 1, 2] == [letter.ordinal for letter in settlement.letters]
    assert {DeadReason.UNRESOLVED: (0, 0, 0, 4, 0, 0, 0)} == settlement.dead
