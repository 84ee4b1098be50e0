# SPDX-License-Identifier: Apache-2.0
"""
Counts over time: tenths of a second to seconds, what went in, what came out, what lay between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


SLOT_NS: Final = 100_000_000
"""
Length of a slot in nanoseconds; a slot is its time since 1970 divided by this.
"""

_SLOTS: Final = 10


Row = dict[str, int]
"""
One second: ``in`` events logged, ``out`` arrived for the first time, ``backlog`` logged but not arrived at its end.
"""


def per_second(logged: Mapping[int, int], arrived: Mapping[int, int]) -> list[Row]:
    """
    Rows from the first slot in which anything was *logged* to the last of either.
    """
    if not logged:
        return []
    first = min(logged)
    last = max([*logged, *(slot for slot in arrived if slot >= first)])
    rows, backlog = [], 0
    for start in range(first, last + 1, _SLOTS):
        slots = range(start, start + _SLOTS)
        came, went = (sum(counts.get(slot, 0) for slot in slots) for counts in (logged, arrived))
        backlog += came - went
        rows.append({"in": came, "out": went, "backlog": backlog})
    return rows
