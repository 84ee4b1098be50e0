# SPDX-License-Identifier: Apache-2.0
"""
The search for poison, step by step; the property tests hold the rules.
"""

from __future__ import annotations

import pytest

from structbatch.core.poison import Search, halve, merge, subtract
from structbatch.core.vendor import Part
from tests.core.deliveries import batch_of


BATCH, OTHER = batch_of(1, *range(200)), batch_of(2, 200, 201)


def search_for(poison: int, count: int) -> tuple[int, list[tuple[int, ...] | None]]:
    """
    Search *poison* among *count* records. Returns the number of requests and whom it convicts.
    """
    search = Search([Part(BATCH, tuple(range(count)))])
    requests, culprits, done = 0, [], False
    while not done:
        requests += 1
        sent = {ordinal for part in search.next() for ordinal in part.ordinals or ()}
        finding = search.refused() if poison in sent else search.passed()
        culprits += [part.ordinals for part in finding.culprit]
        done = finding.done
    return requests, culprits


@pytest.mark.parametrize("poison", [0, 1, 99, 100, 198, 199])
def test_one_among_two_hundred_costs_nine_requests(poison: int) -> None:
    """
    Or one more where it stands at the very start, and no neighbour has passed.
    """
    requests, culprits = search_for(poison, 200)

    assert [(poison,)] == culprits
    assert requests <= 9 + (poison == 0)


def test_batches_are_divided_before_they_are_cut() -> None:
    """
    A whole batch is cheaper to keep track of.
    """
    left, right = halve([Part(BATCH), Part(OTHER)])

    assert ((Part(BATCH),), (Part(OTHER),)) == (left, right)
    assert ((Part(OTHER, (0,)),), (Part(OTHER, (1,)),)) == halve([Part(OTHER)])


def test_one_record_cannot_be_halved() -> None:
    """
    Whoever tries has a bug.
    """
    with pytest.raises(ValueError, match="cannot be halved"):
        halve([Part(OTHER, (1,))])


def test_pieces_of_a_batch_become_one_again() -> None:
    """
    In the order of first appearance; all of it is written as None.
    """
    assert (Part(OTHER), Part(BATCH, (3, 7))) == merge(
        [Part(OTHER, (1,)), Part(BATCH, (7,)), Part(OTHER, (0,)), Part(BATCH, (3,))]
    )
    assert (Part(BATCH, (7,)),) == subtract([Part(BATCH, (3, 7)), Part(OTHER)], [Part(OTHER), Part(BATCH, (3,))])


def test_both_ends_refused_and_nothing_passed() -> None:
    """
    It is not the records: nobody is convicted.
    """
    search = Search([Part(BATCH, (0, 1, 2, 3))])
    findings = [search.refused() for _ in range(3)]

    assert [False, False, True] == [finding.systemic for finding in findings]
    assert not any(finding.culprit for finding in findings)
    assert (Part(BATCH, (0, 1, 2, 3)),) == findings[-1].undecided
