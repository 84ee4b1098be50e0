# SPDX-License-Identifier: Apache-2.0
"""
Count events by the application's own ids: what came, what came twice, how late, and what is missing.

One byte per id. Pure: the time is an argument.
"""

from __future__ import annotations

import math
import re

from collections.abc import Iterable, Sequence
from typing import Final

from structbatch.receiver.parse import Event
from structbatch.receiver.refusal import Refusal


MAX_ID: Final = 2**28 - 1
"""
Highest id that is counted: one byte each, so at most 256 MiB.
"""

SLOT_NS: Final = 100_000_000
"""
Arrivals are counted by tenths of a second.
"""

MAX_RANGES: Final = 20
"""
Most ranges of missing ids that a report names.
"""

_LAG_STEP_NS: Final = 100_000
_SATURATED: Final = 255
_GAP: Final = re.compile(rb"\x00+")


class Tally:
    """
    The counts. Not thread-safe: it belongs to the event loop.
    """

    def __init__(self) -> None:
        self.events = 0
        """Events taken, repetitions and those without an id included."""

        self.distinct = 0
        """Ids seen at least once."""

        self.duplicated = 0
        """Events whose id had been seen before."""

        self.without_id = 0
        """Events without an id."""

        self.arrivals: dict[int, int] = {}
        """Slot (of `SLOT_NS` since 1970) to how many ids were first seen in it."""

        self._counts = bytearray()
        self._lag: dict[int, int] = {}
        self._max_lag_ns = 0

    def add(self, events: Sequence[Event], now_ns: int) -> None:
        """
        Count *events*, all or none.

        Args:
            now_ns: When their body was complete, nanoseconds since 1970.

        Raises:
            Refusal: 400 for an id that is negative or above `MAX_ID`.
        """
        ids = [event.demo_id for event in events if event.demo_id is not None]
        if ids:
            self._grow(min(ids), max(ids))
        distinct = self.distinct
        self._count(events, now_ns)
        first = self.distinct - distinct
        self.events += len(events)
        self.without_id += len(events) - len(ids)
        self.duplicated += len(ids) - first
        slot = now_ns // SLOT_NS
        self.arrivals[slot] = self.arrivals.get(slot, 0) + first

    def _grow(self, lowest: int, highest: int) -> None:
        if lowest < 0 or highest > MAX_ID:
            raise Refusal(400, f"demo_id is not within 0 and {MAX_ID}")
        if highest >= len(self._counts):
            self._counts.extend(bytes(max(highest + 1, 2 * len(self._counts)) - len(self._counts)))

    def _count(self, events: Sequence[Event], now_ns: int) -> None:
        """
        The loop that every event goes through: local names only.
        """
        counts, lag, get = self._counts, self._lag, self._lag.get
        first, oldest = 0, now_ns
        for event in events:
            number = event.demo_id
            if number is None:
                continue
            seen = counts[number]
            if seen:
                counts[number] = min(seen + 1, _SATURATED)
                continue
            counts[number] = 1
            first += 1
            at = event.demo_ns
            if at:
                step = (now_ns - at) // _LAG_STEP_NS
                lag[step] = get(step, 0) + 1
                oldest = min(oldest, at)
        self.distinct += first
        self._max_lag_ns = max(self._max_lag_ns, now_ns - oldest)

    def lag_ms(self) -> dict[str, float | None]:
        """
        Percentiles of arrival less application's time, over first arrivals, in milliseconds; None without any.

        Rounded up to 0.1 ms, except the maximum.
        """
        total = sum(self._lag.values())
        if not total:
            return {"p50": None, "p99": None, "max": None}
        return {
            "p50": self._percentile(total, 0.50),
            "p99": self._percentile(total, 0.99),
            "max": round(self._max_lag_ns / 1e6, 3),
        }

    def _percentile(self, total: int, share: float) -> float:
        rank, below = math.ceil(total * share), 0
        for step in sorted(self._lag):
            below += self._lag[step]
            if below >= rank:
                break
        return max(0.0, round(min((step + 1) * _LAG_STEP_NS, self._max_lag_ns) / 1e6, 3))

    def missing(self, expected: Iterable[range]) -> tuple[int, list[tuple[int, int]]]:
        """
        How many of the *expected* ids were never seen, and the first `MAX_RANGES` gaps as (first, last).
        """
        missing, gaps = 0, []
        for ids in expected:
            part = bytes(self._counts[ids.start : ids.stop]).ljust(len(ids), b"\x00")
            for gap in _GAP.finditer(part):
                missing += len(gap[0])
                gaps.append((ids.start + gap.start(), ids.start + gap.end() - 1))
        return missing, gaps[:MAX_RANGES]

    def seen(self, expected: Iterable[range]) -> int:
        """
        How many of the *expected* ids were seen.
        """
        ranges = list(expected)
        return sum(map(len, ranges)) - self.missing(ranges)[0]
