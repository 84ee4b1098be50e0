# SPDX-License-Identifier: Apache-2.0
"""
The account: ``emitted + loaded == delivered + dropped + dead + spooled + waiting``, at any instant.

`Ledger` holds what is over; what waits is counted from the batches themselves by
:mod:`structbatch.core.delivery`. Everything is counted by severity band, every loss by reason as well.
"""

from __future__ import annotations

import enum

from dataclasses import dataclass, field

from structbatch.core.batch import NO_BANDS, Bands


class DropReason(enum.Enum):
    """
    Why an event was not shipped.
    """

    QUEUE_FULL = "queue_full"
    """No room in memory; the newest event is refused."""

    CLOSED = "closed"
    """Emitted after an explicit close."""

    FILTERED = "filtered"
    """``before`` returned None."""

    REENTRANT = "reentrant"
    """Emitted inside our own lock (signal handler, finalizer) more often than the side list holds."""

    NOT_ENCODED = "not_encoded"
    """The event could not be turned into a record; memory ran out, most likely."""

    UNDELIVERED = "undelivered"
    """Still in memory when close ran out of time, and no disk took it."""

    EXPIRED = "expired"
    """Older than the vendor takes."""

    EVICTED = "evicted"
    """Pushed out of the spool by newer ones."""


class DeadReason(enum.Enum):
    """
    Why a vendor will never take a record.
    """

    REJECTED = "rejected"
    """Refused, and found to be the culprit."""

    UNNAMED = "rejected_unnamed"
    """Refused by a vendor that gives only a number."""

    TOO_LARGE = "too_large"
    """Refused for its size, even cut."""

    UNRESOLVED = "unresolved"
    """Its batch was refused again and again, and no search found out why."""

    REPEATED_FAILURE = "repeated_failure"
    """Its request failed again and again while others came through."""


def add(left: Bands, right: Bands) -> Bands:
    """
    The sum of two counts by band.
    """
    return tuple(a + b for a, b in zip(left, right, strict=True))


@dataclass(slots=True)
class Ledger:
    """
    Counts by severity band of all that is over, and what came in from the spool.
    """

    accepted: Bands = NO_BANDS
    """Of sealed batches; the open one counts itself."""

    loaded: Bands = NO_BANDS
    delivered: Bands = NO_BANDS
    spooled: Bands = NO_BANDS
    refused: dict[DropReason, list[int]] = field(default_factory=dict)
    """Dropped at the door, before they were part of a batch: emitted and dropped at once."""

    dropped: dict[DropReason, Bands] = field(default_factory=dict)
    dead: dict[DeadReason, Bands] = field(default_factory=dict)

    def refuse(self, reason: DropReason, band: int) -> None:
        """
        An event was refused at the door.
        """
        counts = self.refused.get(reason)
        if counts is None:
            counts = self.refused[reason] = [0] * len(NO_BANDS)
        counts[band] += 1

    def drop(self, reason: DropReason, bands: Bands) -> None:
        """
        Records that had been accepted are lost.
        """
        self.dropped[reason] = add(self.dropped.get(reason, NO_BANDS), bands)

    def bury(self, reason: DeadReason, bands: Bands) -> None:
        """
        Records will never be taken.
        """
        self.dead[reason] = add(self.dead.get(reason, NO_BANDS), bands)

    def dropped_by_reason(self) -> dict[str, Bands]:
        """
        All losses, those at the door included.
        """
        by_reason = {reason.value: tuple(counts) for reason, counts in self.refused.items()}
        for reason, bands in self.dropped.items():
            by_reason[reason.value] = add(by_reason.get(reason.value, NO_BANDS), bands)
        return by_reason

    def refused_total(self) -> int:
        """
        Events refused at the door.
        """
        return sum(map(sum, self.refused.values()))
