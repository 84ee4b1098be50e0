# SPDX-License-Identifier: Apache-2.0
"""
The search for poison against a server that refuses what is poisonous, and says no more than that.
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from structbatch.core.batch import Batch, OpenBatch, batch_id
from structbatch.core.poison import Parts, Search, halve, merge, ordinals_of, subtract
from structbatch.core.record import pack_record
from structbatch.core.vendor import Part


Name = tuple[bytes, int]


def batch_of(number: int, count: int) -> Batch:
    """
    A batch of *count* records.
    """
    batch = OpenBatch(batch_id(b"writer-001", number), b"{}", 0)
    for _ in range(count):
        batch.arena += pack_record(b"{}", 0)
    batch.recount()
    return batch.seal()


@st.composite
def parts(draw: st.DrawFn, least: int = 1) -> Parts:
    """
    Some of one to four batches.
    """
    drawn = []
    for number, count in enumerate(draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))):
        batch = batch_of(number, count)
        owed = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1)))
        drawn.append(Part(batch, None if draw(st.booleans()) else tuple(owed)))
    assume(sum(part.count for part in drawn) >= least)
    return tuple(drawn)


def names(some: Parts) -> list[Name]:
    """
    The records of *some* parts, by batch and ordinal.
    """
    return [(part.batch.id, ordinal) for part in some for ordinal in ordinals_of(part)]


class Searched:
    """
    A whole search in *some* parts, of which *poison* is refused.
    """

    def __init__(self, some: Parts, poison: set[Name]) -> None:
        search = Search(some)
        self.budget = search.budget
        self.requests = 0
        self.delivered: list[Name] = []
        self.culprits: list[Name] = []
        self.undecided: list[Name] = []
        self.systemic = False
        done = False
        while not done:
            assert sorted(names(some)) == sorted(self.delivered + self.culprits + names(search.left()))
            sent = names(search.next())
            self.requests += 1
            assert sent
            refused = not poison.isdisjoint(sent)
            finding = search.refused() if refused else search.passed()
            if not refused:
                self.delivered += sent
            self.culprits += names(finding.culprit)
            self.undecided += names(finding.undecided)
            self.systemic, done = finding.systemic, finding.done


@given(some=parts(least=2), data=st.data())
def test_every_record_meets_its_fate_once(some: Parts, data: st.DataObject) -> None:
    """
    Delivered, culprit or undecided: each record is exactly one of them, no poison is delivered, and no good record
    convicted.
    """
    poison = data.draw(st.sets(st.sampled_from(names(some)), min_size=1))

    found = Searched(some, poison)

    assert sorted(names(some)) == sorted(found.delivered + found.culprits + found.undecided)
    assert poison.isdisjoint(found.delivered)
    assert poison.issuperset(found.culprits)


@given(some=parts(least=2), data=st.data())
def test_the_budget_bounds_the_search(some: Parts, data: st.DataObject) -> None:
    """
    Twice the binary logarithm, rounded up, whatever is poisonous.
    """
    poison = data.draw(st.sets(st.sampled_from(names(some)), min_size=1))

    found = Searched(some, poison)

    assert 2 * (len(names(some)) - 1).bit_length() == found.budget
    assert found.budget >= found.requests


@given(some=parts(least=2), data=st.data())
def test_one_culprit_is_found(some: Parts, data: st.DataObject) -> None:
    """
    One poison record is found within one budget, and all its neighbours are delivered, in order but for one.
    """
    culprit = data.draw(st.sampled_from(names(some)))

    found = Searched(some, {culprit})

    place = {name: position for position, name in enumerate(names(some))}
    steps = [place[name] for name in found.delivered]
    assert [culprit] == found.culprits
    assert [] == found.undecided
    assert not found.systemic
    # One record may have gone before its turn, to tell poison from a server that refuses everything.
    assert any(sorted(rest) == rest for rest in (steps, *(steps[:n] + steps[n + 1 :] for n in range(len(steps)))))


@given(some=parts(least=2))
def test_a_server_that_refuses_everything_is_recognised(some: Parts) -> None:
    """
    Single records from both ends refused, nothing passed: nobody is convicted.
    """
    found = Searched(some, set(names(some)))

    assert found.systemic or found.requests == found.budget
    assert [] == found.culprits
    assert sorted(names(some)) == sorted(found.undecided)


@given(some=parts(least=2))
def test_halves_are_the_whole(some: Parts) -> None:
    """
    Neither half is empty, nothing is lost, the order stays, and no batch is cut while there are several.
    """
    left, right = halve(some)

    assert left
    assert right
    assert names(some) == names(left) + names(right)
    assert len(some) == 1 or len(some) == len(left) + len(right)


@given(some=parts(), data=st.data())
def test_merge_undoes_cuts(some: Parts, data: st.DataObject) -> None:
    """
    Whatever pieces a batch is cut into, merged they are its records, ascending, and all of them is None.
    """
    pieces = [Part(part.batch, (ordinal,)) for part in some for ordinal in ordinals_of(part)]
    shuffled = data.draw(st.permutations(pieces))

    merged = merge(shuffled)

    assert sorted(names(some)) == sorted(names(merged))
    assert len(merged) == len({part.batch.id for part in merged})
    for part in merged:
        assert part.ordinals is None or list(part.ordinals) == sorted(part.ordinals)
        assert (part.count == part.batch.count) == (part.ordinals is None) or len(pieces) == len(some)


@given(some=parts(), data=st.data())
def test_subtract_takes_away_what_is_named(some: Parts, data: st.DataObject) -> None:
    """
    Nothing more, nothing less, and no empty part stays.
    """
    gone = data.draw(st.sets(st.sampled_from(names(some))))
    by_id = {part.batch.id: part.batch for part in some}

    left = subtract(some, [Part(by_id[batch], (ordinal,)) for batch, ordinal in gone])

    assert [name for name in names(some) if name not in gone] == names(left)
    assert all(part.count for part in left)
