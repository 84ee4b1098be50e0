# SPDX-License-Identifier: Apache-2.0
"""
What a pipeline tells about itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stats:
    """
    One reading of a pipeline, in records unless said otherwise.

    ``emitted + loaded == delivered + dropped + dead + spooled + waiting`` holds in every reading.

    Args:
        emitted: Events handed to `emit`, those refused at the door included.

        loaded: Taken from the spool by this process.

        delivered: Taken by the vendor.

        dropped: Lost, by our decision.

        dead: Refused by the vendor for ever.

        spooled: Written to the spool by this process, or given back.

        waiting: In memory: open, sealed, in flight, between attempts.

        dropped_by_reason: *dropped* by reason and severity band.

        dead_by_reason: *dead* by reason and severity band.

        queue_records: Of *waiting*, what counts against ``queue_max_records``.

        requests: HTTP requests made.

        retries: Of these, how many repeated an earlier one.

        bytes_plain: Body bytes before compression.

        bytes_wire: Body bytes sent.

        inflight: Requests under way.

        senders: Sender threads.

        state: ``open``, ``backoff``, ``held``, ``broken`` or ``closed``.

        reason: Why it is not open.
    """

    emitted: int
    loaded: int
    delivered: int
    dropped: int
    dead: int
    spooled: int
    waiting: int
    dropped_by_reason: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    dead_by_reason: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    queue_records: int = 0
    requests: int = 0
    retries: int = 0
    bytes_plain: int = 0
    bytes_wire: int = 0
    inflight: int = 0
    senders: int = 0
    state: str = "open"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FlushResult:
    """
    What became of the records that were accepted before a flush or close. True when none of them waits any more.

    Args:
        delivered: How many the vendor took meanwhile.

        spooled: How many went to disk meanwhile.

        dropped: How many were lost meanwhile: at close, what time did not suffice for.

        waiting: How many still wait.
    """

    delivered: int
    spooled: int
    dropped: int
    waiting: int

    def __bool__(self) -> bool:
        return self.waiting == 0 and self.dropped == 0
