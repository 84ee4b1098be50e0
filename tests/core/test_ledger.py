# SPDX-License-Identifier: Apache-2.0
"""
The account's books.
"""

from __future__ import annotations

from structbatch.core.ledger import DeadReason, DropReason, Ledger, add


def test_losses_at_the_door_and_later_are_one_loss() -> None:
    """
    By reason, both kinds in one count.
    """
    ledger = Ledger()
    ledger.refuse(DropReason.QUEUE_FULL, 3)
    ledger.refuse(DropReason.QUEUE_FULL, 3)
    ledger.drop(DropReason.QUEUE_FULL, (1, 0, 0, 0, 0, 0, 0))
    ledger.drop(DropReason.UNDELIVERED, (0, 0, 0, 0, 0, 0, 1))

    assert 2 == ledger.refused_total()
    assert {
        "queue_full": (1, 0, 0, 2, 0, 0, 0),
        "undelivered": (0, 0, 0, 0, 0, 0, 1),
    } == ledger.dropped_by_reason()


def test_the_dead_add_up() -> None:
    """
    By reason and severity.
    """
    ledger = Ledger()
    ledger.bury(DeadReason.REJECTED, (0, 0, 0, 1, 0, 0, 0))
    ledger.bury(DeadReason.REJECTED, (0, 0, 0, 1, 0, 2, 0))

    assert {DeadReason.REJECTED: (0, 0, 0, 2, 0, 2, 0)} == ledger.dead
    assert (1, 3) == add((1, 1), (0, 2))


def test_reasons_are_frozen() -> None:
    """
    Users' dashboards count by these words.
    """
    assert {"queue_full", "closed", "filtered", "reentrant", "not_encoded", "undelivered", "expired", "evicted"} == {
        reason.value for reason in DropReason
    }
    assert {"rejected", "rejected_unnamed", "too_large", "unresolved", "repeated_failure"} == {
        reason.value for reason in DeadReason
    }
