# SPDX-License-Identifier: Apache-2.0
"""
How large a request may be: starts at the vendor's limit, halves when a request proves too large, grows back slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from structbatch.core.vendor import Limits


MAX_BODY_BYTES: Final = 8_000_000
"""
No request's body is larger, whatever the vendor allows: memory is bounded, and a failed upload costs that much again.
"""

MIN_BODY_BYTES: Final = 1024


@dataclass(slots=True)
class Ceiling:
    """
    Records and uncompressed body bytes that one request may carry. May fall below one batch.

    Args:
        limits: The vendor's, never exceeded.

        batch_records: ``batch_max_records``: the most that one success adds.
    """

    limits: Limits
    batch_records: int
    records: int = 0
    body_bytes: int = 0
    ratio: float = 1.25
    """Body bytes for each record byte, as last measured."""

    def __post_init__(self) -> None:
        self.records = self.limits.max_records
        self.body_bytes = min(self.limits.max_bytes, MAX_BODY_BYTES)

    def fits(self, records: int, record_bytes: int) -> bool:
        """
        Whether so much may go into one request, by the ratio last measured.
        """
        return records <= self.records and record_bytes * self.ratio <= self.body_bytes

    def measured(self, record_bytes: int, body_bytes: int) -> bool:
        """
        Remember what a body measured. Returns whether it is within the ceiling.
        """
        if record_bytes:
            self.ratio = body_bytes / record_bytes
        return body_bytes <= self.body_bytes

    def shrink(self, records: int, body_bytes: int) -> None:
        """
        A request of so many records and body bytes was too large: from now on at most half of it.
        """
        self.records = max(1, min(self.records, records // 2))
        if body_bytes:
            self.body_bytes = max(MIN_BODY_BYTES, min(self.body_bytes, body_bytes // 2))

    def grow(self) -> None:
        """
        A request came through: the smaller of a batch and a tenth more.
        """
        if self.records < self.limits.max_records:
            more = max(1, min(self.batch_records, self.records // 10))
            self.records = min(self.limits.max_records, self.records + more)
        highest = min(self.limits.max_bytes, MAX_BODY_BYTES)
        if self.body_bytes < highest:
            self.body_bytes = min(highest, self.body_bytes + max(MIN_BODY_BYTES, self.body_bytes // 10))
