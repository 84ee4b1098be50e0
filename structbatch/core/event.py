# SPDX-License-Identifier: Apache-2.0
"""
What an event says besides its fields: severity, time, trace. Taken out, so that nothing is shipped twice.

Works on a copy; what it does not understand stays a field.
"""

from __future__ import annotations

import math

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from structbatch.core.record import NO_SPAN, NO_TRACE
from structbatch.core.severity import BY_NAME, from_level


class Reading(NamedTuple):
    """
    An event, taken apart.

    Args:
        fields: ``message`` first, then all that is left.
    """

    fields: dict[Any, Any]
    severity: int
    time_ns: int
    trace_id: bytes
    span_id: bytes
    trace_flags: int


_PRIVATE: Final = ("_record", "_from_structlog", "_logger", "_name")
_MAX_NS: Final = 2**63 - 1
_POWERS: Final = tuple(10 ** (9 - digits) for digits in range(10))
_NS: Final = 1_000_000_000


def read_event(event: Mapping[Any, Any], method_name: str, now_ns: int) -> Reading:
    """
    Take *event* apart.

    Args:
        event: As structlog has it; ``event`` or ``message`` is the message.

        method_name: The severity where there is no ``level`` that we know.

        now_ns: The time where there is no ``timestamp`` that we know.
    """
    fields = {"message": None, **event}
    if "event" in fields:
        text = fields.pop("event")
        if fields["message"] is not None:
            fields[_free(fields, "message_2")] = fields["message"]
        fields["message"] = text
    severity = BY_NAME.get(method_name, 0)
    if "level" in fields:
        level = fields["level"]
        known = BY_NAME.get(level, 0) if level.__class__ is str else 0
        known = known or from_level(level)
        if known:
            severity = known
            del fields["level"]
    time_ns = now_ns
    if "timestamp" in fields:
        stamp = to_time_ns(fields["timestamp"])
        if stamp is not None:
            time_ns = stamp
            del fields["timestamp"]
    trace_id, span_id, flags = NO_TRACE, NO_SPAN, 0
    if "trace_id" in fields:
        trace_id, span_id, flags = _take_trace(fields)
    if "positional_args" in fields:
        _format(fields)
    if "_record" in fields or "_logger" in fields or "_from_structlog" in fields:
        for key in _PRIVATE:
            fields.pop(key, None)
    return Reading(fields, severity, time_ns, trace_id, span_id, flags)


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


class _Second:
    """
    The last second that was parsed: consecutive events mostly share it.
    """

    known: tuple[str, int] = ("", 0)


def _from_iso(text: str) -> int:
    """
    The structlog way, ``2026-01-15T10:20:30.123456Z``, without a detour; any other by the standard library.
    """
    if text[-1:] == "Z" and text[19:20] == ".":
        digits = text[20:-1]
        if digits.isdigit() and digits.isascii() and len(digits) <= 9:  # noqa: PLR2004
            second = text[:19]
            known, epoch = _Second.known
            if known != second:
                epoch = int(datetime.fromisoformat(second).replace(tzinfo=UTC).timestamp())
                _Second.known = (second, epoch)
            return epoch * _NS + int(digits) * _POWERS[len(digits)]
    if len(text) < 10:  # noqa: PLR2004
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
    if isinstance(value, int) and 0 <= value <= 0xFF:  # noqa: PLR2004
        return int(value)
    if isinstance(value, str) and len(value) == 2:  # noqa: PLR2004
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
