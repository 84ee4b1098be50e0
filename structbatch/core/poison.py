# SPDX-License-Identifier: Apache-2.0
"""
Which records to try next when a vendor refuses a request and does not say why.

Only the left half of a range known to be bad is sent: if it passes, the right half is bad without sending. Untested
halves pool into one later request, so that one poison record among 200 costs 9 requests. A budget of
``2 * ceil(log2 n)`` bounds the search; what is undecided then goes back.

Single records refused from both ends, while nothing passed, say that it is not the records.
"""

from __future__ import annotations

import enum

from collections.abc import Sequence
from dataclasses import dataclass

from structbatch.core.vendor import Part


Parts = tuple[Part, ...]


def halve(parts: Sequence[Part]) -> tuple[Parts, Parts]:
    """
    *parts* in two: between batches while there are several, else within the one. Neither is empty.

    Raises:
        ValueError: There is but one record.
    """
    if len(parts) > 1:
        middle = len(parts) // 2
        return tuple(parts[:middle]), tuple(parts[middle:])
    (part,) = parts
    ordinals = ordinals_of(part)
    if len(ordinals) < 2:
        msg = "one record cannot be halved"
        raise ValueError(msg)
    middle = (len(ordinals) + 1) // 2
    return (Part(part.batch, ordinals[:middle]),), (Part(part.batch, ordinals[middle:]),)


def ordinals_of(part: Part) -> tuple[int, ...]:
    """
    The ordinals of *part*, spelled out.
    """
    return tuple(range(part.batch.count)) if part.ordinals is None else part.ordinals


def merge(parts: Sequence[Part]) -> Parts:
    """
    *parts* in the order of their batches' first appearance, what belongs to one batch together and ascending.
    """
    if len({part.batch.id for part in parts}) == len(parts):
        return tuple(part for part in parts if part.count)
    by_batch: dict[bytes, tuple[Part, set[int]]] = {}
    for part in parts:
        by_batch.setdefault(part.batch.id, (part, set()))[1].update(ordinals_of(part))
    return tuple(
        Part(first.batch, None if len(ordinals) == first.batch.count else tuple(sorted(ordinals)))
        for first, ordinals in by_batch.values()
        if ordinals
    )


def subtract(parts: Sequence[Part], minus: Sequence[Part]) -> Parts:
    """
    *parts* without the records of *minus*.
    """
    gone: dict[bytes, set[int]] = {}
    for part in minus:
        gone.setdefault(part.batch.id, set()).update(ordinals_of(part))
    left = []
    for part in parts:
        taken = gone.get(part.batch.id)
        if taken is None:
            left.append(part)
            continue
        rest = tuple(ordinal for ordinal in ordinals_of(part) if ordinal not in taken)
        if rest:
            left.append(Part(part.batch, rest))
    return tuple(left)


class Step(enum.Enum):
    """
    What the request under way tests.
    """

    LEFT = "left"
    POOL = "pool"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Finding:
    """
    What an answer tells.

    Args:
        culprit: Records that will never be taken; their fate is decided.

        undecided: The budget is used up, or it is not the records: these go back. Empty while the search goes on.

        systemic: Single records from both ends were refused and nothing passed: it is not the records.

        done: Nothing is left to try.
    """

    culprit: Parts = ()
    undecided: Parts = ()
    systemic: bool = False
    done: bool = False


class Search:
    """
    A search in *parts*, which were just refused as a whole.

    Ask `next`, send exactly that, report `passed` or `refused`. At least two records.
    """

    __slots__ = ("_passed_any", "_pool", "_step", "_suspects", "budget")

    def __init__(self, parts: Sequence[Part]) -> None:
        count = sum(part.count for part in parts)
        self.budget = 2 * max(1, (count - 1).bit_length())
        self._suspects: Parts = tuple(parts)
        self._pool: Parts = ()
        self._step = Step.LEFT
        self._passed_any = False

    def next(self) -> Parts:
        """
        The records to send now.
        """
        match self._step:
            case Step.LEFT:
                return halve(self._suspects)[0]
            case Step.POOL:
                return self._pool
            case Step.OTHER:
                last = self._pool[-1]
                return (Part(last.batch, ordinals_of(last)[-1:]),)

    def passed(self) -> Finding:
        """
        What `next` gave was delivered.
        """
        self.budget -= 1
        self._passed_any = True
        match self._step:
            case Step.LEFT:
                self._suspects = halve(self._suspects)[1]
                return self._narrowed()
            case Step.POOL:
                return Finding(done=True)
            case Step.OTHER:
                self._pool = _without_last(self._pool)
                return self._convict()

    def refused(self) -> Finding:
        """
        What `next` gave was refused.
        """
        self.budget -= 1
        match self._step:
            case Step.LEFT:
                self._suspects, right = halve(self._suspects)
                self._pool = merge((*right, *self._pool))
                return self._narrowed()
            case Step.POOL:
                self._suspects, self._pool = self._pool, ()
                self._step = Step.LEFT
                return self._narrowed()
            case Step.OTHER:
                return Finding(undecided=merge((*self._suspects, *self._pool)), systemic=True, done=True)

    def left(self) -> Parts:
        """
        Everything whose fate is open.
        """
        return merge((*self._suspects, *self._pool))

    def _narrowed(self) -> Finding:
        if sum(part.count for part in self._suspects) > 1:
            return self._unless_spent(Finding())
        if not self._passed_any and self._pool:
            self._step = Step.OTHER
            return self._unless_spent(Finding())
        return self._convict()

    def _convict(self) -> Finding:
        culprit, self._suspects = self._suspects, ()
        if not self._pool:
            return Finding(culprit=culprit, done=True)
        self._step = Step.POOL
        return self._unless_spent(Finding(culprit=culprit))

    def _unless_spent(self, finding: Finding) -> Finding:
        if self.budget > 0:
            return finding
        return Finding(culprit=finding.culprit, undecided=self.left(), done=True)


def _without_last(pool: Parts) -> Parts:
    last = pool[-1]
    rest = ordinals_of(last)[:-1]
    return (*pool[:-1], Part(last.batch, rest)) if rest else pool[:-1]
