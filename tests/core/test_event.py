# SPDX-License-Identifier: Apache-2.0
"""
What is taken out of an event, and what stays a field.
"""

from __future__ import annotations

import types

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from structbatch.core.event import read_event, to_time_ns
from structbatch.core.record import NO_SPAN, NO_TRACE


MOMENT_NS = 1768472430_123456000
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def fields_of(event: dict[str, Any], method_name: str = "") -> dict[str, Any]:
    """
    The fields that are left of *event*.
    """
    return read_event(event, method_name)[0]


class Hostile:
    """
    A level that raises wherever it is looked at.
    """

    def __hash__(self) -> int:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


def test_an_event_comes_apart() -> None:
    """
    Message, severity, time and trace are shipped once: none of them is a field any more. The event is not changed.
    """
    event = {
        "event": "paid",
        "level": "warning",
        "timestamp": "2026-01-15T10:20:30.123456Z",
        "trace_id": TRACE,
        "span_id": SPAN,
        "trace_flags": 1,
        "n": 7,
    }
    before = dict(event)

    fields, severity, time_ns, trace_id, span_id, flags = read_event(event, "")

    assert {"message": "paid", "n": 7} == fields
    assert (13, MOMENT_NS, 1) == (severity, time_ns, flags)
    assert (TRACE, SPAN) == (trace_id.hex(), span_id.hex())
    assert before == event


def test_the_message_has_two_names() -> None:
    """
    ``event`` wins; a ``message`` beside it keeps a name of its own, and no name that is taken.
    """
    assert {"message": "a"} == fields_of({"message": "a"})
    assert {"message": "a", "message_2": "b"} == fields_of({"event": "a", "message": "b"})
    assert {"message": "a", "message_2_": "b", "message_2": "c"} == fields_of(
        {"event": "a", "message": "b", "message_2": "c"}
    )
    assert {"message": None, "n": 1} == fields_of({"n": 1})


@pytest.mark.parametrize(
    ("severity", "level", "method_name"),
    [
        (9, "info", "error"),
        (9, 20, ""),
        (13, "WARN", ""),
        (17, None, "error"),
        (0, None, "nothing"),
        (17, "odd", "error"),
    ],
)
def test_the_level_decides_before_the_method(severity: int, level: Any, method_name: str) -> None:
    """
    A level that we know; else the method's name; else unknown.
    """
    assert severity == read_event({"event": "x", "level": level}, method_name)[1]


@pytest.mark.parametrize("level", ["odd", None, 3, [], Hostile()], ids=["odd", "none", "low", "list", "hostile"])
def test_a_level_that_says_nothing_stays(level: Any) -> None:
    """
    What we do not understand is the application's own.
    """
    assert level is fields_of({"event": "x", "level": level})["level"]


def test_any_mapping_is_an_event() -> None:
    """
    structlog allows other mappings than dict.
    """
    assert {"message": "x"} == read_event(types.MappingProxyType({"event": "x"}), "")[0]


@pytest.mark.parametrize(
    ("time_ns", "stamp"),
    [
        (MOMENT_NS, "2026-01-15T10:20:30.123456Z"),
        (MOMENT_NS + 789, "2026-01-15T10:20:30.123456789Z"),
        (MOMENT_NS, "2026-01-15T12:20:30.123456+02:00"),
        (MOMENT_NS - 123456000, "2026-01-15T10:20:30Z"),
        (MOMENT_NS - 123456000 + 500_000_000, "2026-01-15T10:20:30.5Z"),
        (MOMENT_NS, datetime(2026, 1, 15, 10, 20, 30, 123456, UTC)),
        (MOMENT_NS, datetime(2026, 1, 15, 8, 20, 30, 123456, timezone(timedelta(hours=-2)))),
        (MOMENT_NS, 1768472430.123456),
        (1768472430_000_000_000, 1768472430),
        (1768472430_123_000_000, 1768472430_123),
        (MOMENT_NS, 1768472430_123456),
        (MOMENT_NS + 789, 1768472430_123456789),
        (-1_000_000_000, -1),
        (None, True),
        (None, None),
        (None, "now"),
        (None, "2026"),
        (None, "2026-13-45T10:20:30.123456Z"),
        (None, "2026-01-15T10:20:30.12345xZ"),
        (None, "2026-01-15T10:20:30.١٢٣٤٥٦Z"),
        (None, float("nan")),
        (None, float("inf")),
        (None, 10**30),
        (None, 1e300),
        (None, "9999-01-01T00:00:00+00:00"),
        (None, [2026]),
    ],
)
def test_time(time_ns: int | None, stamp: object) -> None:
    """
    ISO 8601, epoch numbers in four units and datetimes, exact to what they say; all else is no time.
    """
    assert time_ns == to_time_ns(stamp)
    # The second before is remembered: asked again, the answer is the same.
    assert time_ns == to_time_ns(stamp)


def test_a_second_of_another_text_is_not_taken_for_this_one() -> None:
    """
    The remembered second helps only the same second.
    """
    assert MOMENT_NS == to_time_ns("2026-01-15T10:20:30.123456Z")
    assert MOMENT_NS + 1_000_000_000 == to_time_ns("2026-01-15T10:20:31.123456Z")
    assert to_time_ns("2026-01-15T10:20:31.12345 Z") is None


def test_a_time_that_says_nothing_stays() -> None:
    """
    And the pipeline uses its own clock.
    """
    fields, _, time_ns, *_ = read_event({"event": "x", "timestamp": "yesterday"}, "")

    assert {"message": "x", "timestamp": "yesterday"} == fields
    assert time_ns is None


@pytest.mark.parametrize(
    ("trace_id", "span_id", "flags", "left"),
    [
        (TRACE, SPAN, "01", {}),
        (int(TRACE, 16), int(SPAN, 16), 1, {}),
        (TRACE, None, None, {"span_id": None, "trace_flags": None}),
        (TRACE, "short", 256, {"span_id": "short", "trace_flags": 256}),
    ],
)
def test_trace_ids_of_any_spelling(trace_id: object, span_id: object, flags: object, left: dict[str, Any]) -> None:
    """
    Hexadecimal or a number; what is neither stays a field.
    """
    event = {"event": "x", "trace_id": trace_id, "span_id": span_id, "trace_flags": flags}

    fields, _, _, found_trace, found_span, found_flags = read_event(event, "")

    assert {"message": "x", **left} == fields
    assert TRACE == found_trace.hex()
    assert (NO_SPAN.hex() if "span_id" in left else SPAN) == found_span.hex()
    assert (0 if "trace_flags" in left else 1) == found_flags


@pytest.mark.parametrize("trace_id", ["", "x" * 32, 0, -1, True, 2**200, None, 1.5])
def test_what_is_no_trace_id_stays(trace_id: object) -> None:
    """
    With its span id.
    """
    fields, _, _, found, span, _ = read_event({"event": "x", "trace_id": trace_id, "span_id": SPAN}, "")

    assert {"message": "x", "trace_id": trace_id, "span_id": SPAN} == fields
    assert (NO_TRACE, NO_SPAN) == (found, span)


def test_arguments_of_a_stdlib_call_are_put_in() -> None:
    """
    Unless they do not fit: then they stay beside the message.
    """
    assert {"message": "a 1"} == fields_of({"event": "a %d", "positional_args": (1,)})
    assert {"message": "a %d", "positional_args": ("x",)} == fields_of({"event": "a %d", "positional_args": ("x",)})
    assert {"message": "a", "positional_args": 5} == fields_of({"event": "a", "positional_args": 5})


@pytest.mark.parametrize("stamp", ["2263-01-01T00:00:00.000000Z", "1600-01-01T00:00:00.000000Z", 10**19, -(10**19)])
def test_a_time_that_a_record_cannot_hold_stays_a_field(stamp: Any) -> None:
    """
    A record's time has 64 bits of nanoseconds, from 1677 to 2262: the event is shipped with the present time.
    """
    fields, _, time_ns, *_ = read_event({"event": "x", "timestamp": stamp}, "info")

    assert time_ns is None
    assert stamp == fields["timestamp"]
