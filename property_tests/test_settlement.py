# SPDX-License-Identifier: Apache-2.0
"""
What an answer settles: every record of the request exactly once, whatever positions a vendor names.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from structbatch.core.batch import NO_BANDS, Bands, OpenBatch, bands_of, batch_id
from structbatch.core.http import Request
from structbatch.core.ledger import DeadReason, DropReason, add
from structbatch.core.record import pack_record
from structbatch.core.settlement import Settlement, bury, settle
from structbatch.core.severity import BAND_OF
from structbatch.core.vendor import Part, View
from structbatch.core.verdict import Delivered, Hold, Partial, Reject, Retry, Split, Verdict


POSITIONS = st.integers(-2, 30)
VERDICTS = st.one_of(
    st.sampled_from([Delivered(), Retry(1.0, "503"), Split(), Hold("401"), Reject("400")]),
    st.builds(
        Partial,
        st.frozensets(POSITIONS, max_size=8),
        st.dictionaries(POSITIONS, st.sampled_from(["bad", "worse"]), max_size=8),
        st.integers(-1, 12),
    ),
)


@st.composite
def parts(draw: st.DrawFn) -> tuple[Part, ...]:
    """
    Some of one to three batches.
    """
    drawn = []
    batches = draw(st.lists(st.lists(st.integers(0, 24), min_size=1, max_size=9), max_size=3))
    for number, severities in enumerate(batches):
        batch = OpenBatch(batch_id(b"writer-001", number), b"{}", 0)
        for severity in severities:
            batch.arena += pack_record(b"{}", 0, severity)
        batch.recount()
        sealed = batch.seal()
        owed = sorted(draw(st.sets(st.integers(0, sealed.count - 1), min_size=1)))
        drawn.append(Part(sealed, None if len(owed) == sealed.count else tuple(owed)))
    return tuple(drawn)


def total(counts: list[Bands]) -> Bands:
    """
    The sum of *counts*.
    """
    result = NO_BANDS
    for bands in counts:
        result = add(result, bands)
    return result


def records(some: tuple[Part, ...]) -> list[tuple[bytes, int, int]]:
    """
    Batch, ordinal and severity band of each record.
    """
    return [(batch.id, ordinal, BAND_OF[record.severity]) for batch, record, ordinal in View(some).with_ordinals()]


def request_of(refused: dict[int, str], count: int) -> Request:
    """
    The request that a vendor built, with what it cannot take.
    """
    return Request("http://127.0.0.1/", b"", refused={p: word for p, word in refused.items() if 0 <= p < count})


@given(some=parts(), verdict=VERDICTS, refused=st.dictionaries(POSITIONS, st.sampled_from(["expired", "empty"])))
def test_every_record_is_settled_once_or_remains(
    some: tuple[Part, ...], verdict: Verdict, refused: dict[int, str]
) -> None:
    """
    Delivered, dropped, dead and remaining add up, by severity and by batch; every death but the unnamed has a letter.
    """
    settlement = settle(some, verdict, request_of(refused, len(records(some))))

    over = total([settlement.delivered, *settlement.dropped.values(), *settlement.dead.values()])
    left = total([bands_of(part.batch, part.ordinals) for part in settlement.remain])
    assert total([bands_of(part.batch, part.ordinals) for part in some]) == add(over, left)
    assert over == total(list(settlement.by_batch.values()))
    for part in some:
        rest = total([bands_of(p.batch, p.ordinals) for p in settlement.remain if p.batch.id == part.batch.id])
        gone = settlement.by_batch.get(part.batch.id, NO_BANDS)
        assert bands_of(part.batch, part.ordinals) == add(rest, gone)
    letters = Counter(letter.reason for letter in settlement.letters)
    named = {reason: sum(bands) for reason, bands in settlement.dead.items() if reason is not DeadReason.UNNAMED}
    assert letters == named


@given(some=parts(), verdict=VERDICTS, refused=st.dictionaries(POSITIONS, st.sampled_from(["expired", "empty"])))
def test_each_position_is_the_record_that_was_meant(
    some: tuple[Part, ...], verdict: Verdict, refused: dict[int, str]
) -> None:
    """
    Positions count over all parts; a refusal of our own comes first, then a rejection, then a request to send again;
    what is named nowhere is delivered, or remains where nothing was.
    """
    sent = records(some)
    request = request_of(refused, len(sent))
    names = verdict if isinstance(verdict, Partial) else Partial()
    passed = isinstance(verdict, (Delivered, Partial))

    settlement = settle(some, verdict, request)

    dead, remain, expired = [], [], 0
    for position, (batch, ordinal, _) in enumerate(sent):
        if request.refused.get(position) == "expired":
            expired += 1
        elif position in request.refused or position in names.reject:
            dead.append((batch, ordinal, request.refused.get(position) or names.reject[position]))
        elif position in names.retry or not passed:
            remain.append((batch, ordinal))
    assert dead == [(letter.batch.id, letter.ordinal, letter.detail) for letter in settlement.letters]
    assert remain == [(batch, ordinal) for batch, ordinal, _ in records(settlement.remain)]
    assert expired == sum(settlement.dropped.get(DropReason.EXPIRED, NO_BANDS))
    unnamed = min(max(names.unnamed, 0), len(sent) - len(dead) - len(remain) - expired)
    assert unnamed == sum(settlement.dead.get(DeadReason.UNNAMED, NO_BANDS))
    assert all((part.ordinals is None) == (part.count == part.batch.count) for part in settlement.remain)


@given(some=parts(), unnamed=st.integers(0, 30))
def test_the_least_severe_are_assumed_dead(some: tuple[Part, ...], unnamed: int) -> None:
    """
    Whom a vendor meant that gives only a number cannot be known.
    """
    settlement = settle(some, Partial(unnamed=unnamed))

    bands = sorted(band for _, _, band in records(some))
    dead = Counter(bands[:unnamed])
    assert [dead[band] for band in range(len(NO_BANDS))] == list(settlement.dead.get(DeadReason.UNNAMED, NO_BANDS))


@given(some=parts(), reason=st.sampled_from(DeadReason))
def test_burial_is_for_all(some: tuple[Part, ...], reason: DeadReason) -> None:
    """
    One letter for each record, in order, and nothing remains.
    """
    settlement: Settlement = bury(some, reason, "why")

    assert () == settlement.remain
    assert [(batch, ordinal, reason) for batch, ordinal, _ in records(some)] == [
        (letter.batch.id, letter.ordinal, letter.reason) for letter in settlement.letters
    ]
    assert len(records(some)) == sum(settlement.dead[reason])
    assert settlement.dead[reason] == total(list(settlement.by_batch.values()))
