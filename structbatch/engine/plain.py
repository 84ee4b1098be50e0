# SPDX-License-Identifier: Apache-2.0
"""
The short way for the common event: text, numbers and truth values under ordinary keys.

`read_plain` gives the very bytes that the careful way (`structbatch.core.event.read_event`, then
`structbatch.core.encode.encode`, then `structbatch.core.record.pack_record`) gives, in one function, because calls and
tuples between three of them cost as much as the work: a property test holds one against the other. Everything it does
not know by its type it leaves to the careful way.
"""

from __future__ import annotations

import struct
import time

from typing import Any, Final

import orjson

from structbatch.core.event import parse_second
from structbatch.core.record import RESERVED_KEYS
from structbatch.core.severity import BY_NAME


_UNCOMMON: Final = RESERVED_KEYS | {"exc_info", "positional_args"}
"""
Keys that mean something; ``level`` and ``timestamp`` are taken out before the look.
"""

_has_no_uncommon_key = _UNCOMMON.isdisjoint
_dumps = orjson.dumps
_pack = struct.Struct("<IqB29x").pack
_time_ns = time.time_ns

_second: tuple[str, int] = ("", 0)
"""
The last second that was parsed, ``2026-01-15T10:20:30.``, and its nanoseconds: consecutive events mostly share it.
"""


def read_plain(event: Any, method_name: str, max_bytes: int) -> tuple[bytes, int] | None:  # noqa: C901, one straight line
    """
    The record of *event* and its severity; None where it takes the careful way.

    Raises:
        Exception: As little as a mapping's own methods do; *event* is a dict with structlog.
    """
    if type(event) is not dict or "message" in event or "event" not in event:
        return None
    fields = event.copy()
    fields["message"] = fields.pop("event")
    level = fields.pop("level", method_name)
    stamp = fields.pop("timestamp", None)
    if type(level) is not str or level not in BY_NAME or not _has_no_uncommon_key(fields):
        return None
    if stamp is None:
        time_ns = _time_ns()
    elif type(stamp) is str and stamp[26:] == "Z":
        # As structlog writes it: 27 characters, six digits of a second.
        second, time_ns = _second
        if stamp[:20] != second:
            return read_plain(event, method_name, max_bytes) if _learn(stamp) else None
        digits = stamp[20:26]
        if not (digits.isdigit() and digits.isascii()):
            return None
        time_ns += int(digits) * 1000
    else:
        return None
    for value in fields.values():
        kind = type(value)
        if kind is str or kind is int or kind is bool or value is None:
            continue
        if kind is float and value - value == 0.0:
            continue
        return None
    try:
        payload = _dumps(fields)
    except orjson.JSONEncodeError:
        # A lone surrogate, an integer beyond 64 bits, a key that is no text.
        return None
    if len(payload) > max_bytes:
        return None
    severity = BY_NAME[level]
    return _pack(len(payload), time_ns, severity) + payload, severity


def _learn(stamp: str) -> bool:
    """
    Remember the second of *stamp*; False where it is none.
    """
    global _second  # noqa: PLW0603, one assignment of a tuple: in a race between threads the loser parses again
    second = parse_second(stamp[:20])
    if second is None:
        return False
    _second = (stamp[:20], second)
    return True
