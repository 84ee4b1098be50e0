# SPDX-License-Identifier: Apache-2.0
"""
What an event says besides its fields: severity, time, trace. Taken out, so that nothing is shipped twice.

Works on a copy; what it does not understand stays a field.
"""

from __future__ import annotations

import math

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from structbatch.core.record import NO_SPAN, NO_TRACE
from structbatch.core.severity import BY_NAME, from_level


_MAX_NS: Final = 2**63 - 1
_POWERS: Final[tuple[int, ...]] = tuple(10 ** (9 - digits) for digits in range(10))
_NS: Final = 1_000_000_000

Reading = tuple[dict[Any, Any], int, int | None, bytes, bytes, int]
"""
Fields (``message`` among them), severity, time in nanoseconds (None: the event does not say), trace id, span id, trace
flags. A plain tuple: a named one costs a quarter of the whole reading.
"""


def read_event(event: Mapping[Any, Any], method_name: str) -> Reading:
    """
    Take *event* apart. Runs on the logging thread.

    Args:
        event: As structlog has it; ``event`` or ``message`` is the message.

        method_name: The severity where there is no ``level`` that we know.
    """
    # A copy and some pops cost a sixth of unpacking into a new display.
    fields = event.copy() if event.__class__ is dict else dict(event)
    if "message" in fields or "positional_args" in fields or "event" not in fields:
        _read_message(fields)
    else:
        fields["message"] = fields.pop("event")
    level = fields.pop("level", method_name)
    try:
        severity = BY_NAME[level]
    except Exception:  # noqa: BLE001, an unknown level, or one of a class whose hash raises
        severity = _read_level(fields, level, method_name)
    stamp = fields.pop("timestamp", None)
    if stamp is None:
        time_ns = None
    else:
        time_ns = to_time_ns(stamp)
        if time_ns is None:
            fields["timestamp"] = stamp
    if "trace_id" in fields:
        return (fields, severity, time_ns, *_take_trace(fields))
    return fields, severity, time_ns, NO_TRACE, NO_SPAN, 0


def _read_message(fields: dict[Any, Any]) -> None:
    """
    The message where it is not simply ``event``.
    """
    if "event" in fields:
        text = fields.pop("event")
        if "message" in fields:
            fields[_free(fields, "message_2")] = fields["message"]
        fields["message"] = text
    elif "message" not in fields:
        fields["message"] = None
    if "positional_args" in fields:
        _format(fields)


def _read_level(fields: dict[Any, Any], level: object, method_name: str) -> int:
    """
    The severity of a *level* that is no name we know as it stands; it stays a field where it is none at all.
    """
    try:
        severity = from_level(level)
    except Exception:  # noqa: BLE001, the application's own class
        severity = 0
    if severity:
        return severity
    if level is not method_name:
        fields["level"] = level
    return BY_NAME.get(method_name, 0)


def to_time_ns(stamp: object) -> int | None:
    """
    Nanoseconds since the epoch of an ISO 8601 string, an epoch number or a datetime; None where it is neither.

    A number is seconds, unless so large that it can only be milliseconds, microseconds or nanoseconds. What has no
    time zone is local time.
    """
    try:
        if stamp.__class__ is str:
            return _from_iso(str(stamp))
        if isinstance(stamp, datetime):
            return _in_range(_from_datetime(stamp))
        if isinstance(stamp, bool):
            return None
        if isinstance(stamp, int):
            return _in_range(_from_epoch(stamp))
        if isinstance(stamp, float) and math.isfinite(stamp):
            seconds, fraction = divmod(stamp, 1.0)
            return _in_range(int(seconds) * _NS + round(fraction * 1e6) * 1000)
        if isinstance(stamp, str):
            return _from_iso(str(stamp))
    except (ValueError, OverflowError, OSError, TypeError):
        pass
    return None


def parse_second(text: str) -> int | None:
    """
    Nanoseconds since the epoch of ``2026-01-15T10:20:30.``, in UTC; None where it is no such text, or where a record's
    64 bits do not reach the end of that second.
    """
    try:
        if text[-1:] != ".":
            return None
        second = int(datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC).timestamp()) * _NS
        return second if abs(second) + _NS <= _MAX_NS else None
    except (ValueError, OverflowError, OSError):
        return None


def _from_iso(text: str) -> int:
    """
    Any ISO 8601; up to nine digits of a second where it is UTC and ends with Z.
    """
    if text[-1:] == "Z" and text[19:20] == ".":
        digits = text[20:-1]
        second = parse_second(text[:20])
        if second is not None and digits.isdigit() and digits.isascii() and len(digits) <= 9:
            fraction: int = int(digits) * _POWERS[len(digits)]
            return second + fraction
    if len(text) < 10:
        msg = "too short for a date"
        raise ValueError(msg)
    result = _in_range(_from_datetime(datetime.fromisoformat(text)))
    if result is None:
        msg = "out of range"
        raise ValueError(msg)
    return result


def _from_datetime(moment: datetime) -> int:
    # Whole seconds and microseconds apart: a float of seconds loses the last digits.
    return int(moment.replace(microsecond=0).timestamp()) * _NS + moment.microsecond * 1000


def _from_epoch(number: int) -> int:
    size = abs(number)
    if size < 10**11:
        return number * _NS
    if size < 10**14:
        return number * 1_000_000
    if size < 10**17:
        return number * 1000
    return number


def _in_range(time_ns: int) -> int | None:
    return time_ns if -_MAX_NS <= time_ns <= _MAX_NS else None


def _take_trace(fields: dict[Any, Any]) -> tuple[bytes, bytes, int]:
    trace_id = _to_id(fields["trace_id"], 16)
    if trace_id is None:
        return NO_TRACE, NO_SPAN, 0
    del fields["trace_id"]
    span_id = _to_id(fields.get("span_id"), 8)
    if span_id is not None:
        del fields["span_id"]
    flags = _to_flags(fields.get("trace_flags"))
    if flags is not None:
        del fields["trace_flags"]
    return trace_id, span_id or NO_SPAN, flags or 0


def _to_id(value: object, size: int) -> bytes | None:
    try:
        if isinstance(value, str) and len(value) == 2 * size:
            return bytes.fromhex(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value.to_bytes(size, "big")
    except (ValueError, OverflowError):
        pass
    return None


def _to_flags(value: object) -> int | None:
    if isinstance(value, int) and 0 <= value <= 0xFF:
        return int(value)
    if isinstance(value, str) and len(value) == 2:
        try:
            return int(value, 16) & 0xFF
        except ValueError:
            return None
    return None


def _format(fields: dict[Any, Any]) -> None:
    """
    ``%`` arguments of a stdlib-style call that nobody has put into the message yet.
    """
    arguments = fields["positional_args"]
    if isinstance(arguments, tuple) and isinstance(fields["message"], str):
        try:
            fields["message"] = fields["message"] % arguments
        except Exception:  # noqa: BLE001, the application's own objects format themselves here
            return
        del fields["positional_args"]


def _free(fields: Mapping[Any, Any], name: str) -> str:
    while name in fields:
        name += "_"
    return name
