# SPDX-License-Identifier: Apache-2.0
"""
What an answer settles, worked out before the lock is taken: which records are over, and what is still owed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from structbatch.core.batch import NO_BANDS, Bands, Batch, bands_of
from structbatch.core.http import Request
from structbatch.core.ledger import DeadReason, DropReason, add
from structbatch.core.vendor import Part
from structbatch.core.verdict import Delivered, Partial, Reject, Verdict


_Reason = TypeVar("_Reason", DropReason, DeadReason)

EXPIRED = "expired"
"""
The reason that a vendor gives in ``Request.refused`` for a record older than it takes; all others are dead.
"""


class Letter(NamedTuple):
    """
    A dead letter: a record the vendor will never take, with the reason in our word and in the vendor's.
    """

    batch: Batch
    ordinal: int
    reason: DeadReason
    detail: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """
    Args:
        verdict: What it was derived from.

        remain: What is still owed of the parts that were sent, in order.

        delivered: Counts by band.

        dropped: Counts by band and reason.

        dead: Counts by band and reason.

        by_batch: What is over of each batch, by its id.

        letters: The dead, one by one.
    """

    verdict: Verdict
    remain: tuple[Part, ...]
    delivered: Bands = NO_BANDS
    dropped: Mapping[DropReason, Bands] = field(default_factory=dict)
    dead: Mapping[DeadReason, Bands] = field(default_factory=dict)
    by_batch: Mapping[bytes, Bands] = field(default_factory=dict)
    letters: tuple[Letter, ...] = ()


def settle(parts: Sequence[Part], verdict: Verdict, request: Request | None = None) -> Settlement:
    """
    What *verdict* settles of *parts*, which *request* carried.

    Runs on a sender's thread without the lock; walks the records only where the verdict names some.
    """
    refused = dict(request.refused) if request is not None else {}
    if isinstance(verdict, Delivered) and not refused:
        return Settlement(verdict, (), _total(parts), by_batch=_per_batch(parts))
    if isinstance(verdict, Partial):
        return _settle_partial(parts, verdict, refused)
    if not refused:
        return Settlement(verdict, tuple(parts))
    return _settle_named(parts, verdict, {}, refused, all_else_delivered=isinstance(verdict, Delivered))


def _settle_partial(parts: Sequence[Part], verdict: Partial, refused: Mapping[int, str]) -> Settlement:
    count = sum(part.count for part in parts)
    named = {position: reason for position, reason in verdict.reject.items() if 0 <= position < count}
    again = {position for position in verdict.retry if 0 <= position < count}
    settled = _settle_named(parts, verdict, named, refused, all_else_delivered=True, again=frozenset(again))
    unnamed = min(max(verdict.unnamed, 0), sum(settled.delivered))
    if not unnamed:
        return settled
    buried = _first_of(settled.delivered, unnamed)
    delivered = tuple(a - b for a, b in zip(settled.delivered, buried, strict=True))
    dead = {**settled.dead, DeadReason.UNNAMED: buried}
    return Settlement(verdict, settled.remain, delivered, settled.dropped, dead, settled.by_batch, settled.letters)


def _settle_named(
    parts: Sequence[Part],
    verdict: Verdict,
    rejected: Mapping[int, str],
    refused: Mapping[int, str],
    *,
    all_else_delivered: bool,
    again: frozenset[int] = frozenset(),
) -> Settlement:
    delivered, dropped, dead = NO_BANDS, dict[DropReason, Bands](), dict[DeadReason, Bands]()
    by_batch: dict[bytes, Bands] = {}
    remain: list[Part] = []
    letters: list[Letter] = []
    start = 0
    for part in parts:
        left, over, passed = [], [], []
        for position in range(start, start + part.count):
            ordinal = part.ordinal(position - start)
            detail = refused.get(position) or rejected.get(position)
            if detail is None and (position in again or not all_else_delivered):
                left.append(ordinal)
                continue
            over.append(ordinal)
            if detail is None:
                passed.append(ordinal)
            elif detail == EXPIRED and position in refused:
                _count(dropped, DropReason.EXPIRED, bands_of(part.batch, [ordinal]))
            else:
                _count(dead, DeadReason.REJECTED, bands_of(part.batch, [ordinal]))
                letters.append(Letter(part.batch, ordinal, DeadReason.REJECTED, detail))
        start += part.count
        delivered = add(delivered, bands_of(part.batch, passed))
        if over:
            by_batch[part.batch.id] = add(by_batch.get(part.batch.id, NO_BANDS), bands_of(part.batch, over))
        if left:
            remain.append(Part(part.batch, None if len(left) == part.batch.count else tuple(left)))
    return Settlement(verdict, tuple(remain), delivered, dropped, dead, by_batch, tuple(letters))


def bury(parts: Sequence[Part], reason: DeadReason, detail: str) -> Settlement:
    """
    All of *parts* is dead for *reason*.
    """
    letters = tuple(
        Letter(part.batch, part.ordinal(position), reason, detail) for part in parts for position in range(part.count)
    )
    return Settlement(Reject(detail), (), dead={reason: _total(parts)}, by_batch=_per_batch(parts), letters=letters)


def _total(parts: Sequence[Part]) -> Bands:
    total = NO_BANDS
    for part in parts:
        total = add(total, bands_of(part.batch, part.ordinals))
    return total


def _per_batch(parts: Sequence[Part]) -> dict[bytes, Bands]:
    by_batch: dict[bytes, Bands] = {}
    for part in parts:
        bands = bands_of(part.batch, part.ordinals)
        known = by_batch.get(part.batch.id)
        by_batch[part.batch.id] = bands if known is None else add(known, bands)
    return by_batch


def _count(counts: dict[_Reason, Bands], reason: _Reason, bands: Bands) -> None:
    counts[reason] = add(counts.get(reason, NO_BANDS), bands)


def _first_of(bands: Bands, number: int) -> Bands:
    """
    *number* out of *bands*, the lowest severities first: whom the vendor meant cannot be known.
    """
    taken = []
    for count in bands:
        take = min(count, number)
        number -= take
        taken.append(take)
    return tuple(taken)
