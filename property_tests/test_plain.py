# SPDX-License-Identifier: Apache-2.0
"""
The short way for the common event against the careful one.
"""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from structbatch.core.encode import encode
from structbatch.core.event import read_event
from structbatch.core.record import pack_record, unpack_record
from structbatch.core.severity import BY_NAME
from structbatch.engine.plain import read_plain


MAX_BYTES = 2048

keys = st.sampled_from(["a", "order_id", "status", "service", "exc_info", "level", "", "é"]) | st.text(
    string.ascii_lowercase, min_size=1, max_size=6
)
values = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(max_size=40)
    | st.text(st.characters(), max_size=10)
    | st.binary(max_size=5)
    | st.lists(st.integers(), max_size=3)
)
stamps = (
    st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds") + "Z")
    | st.sampled_from(
        [
            "2026-01-15T10:20:30.123456Z",
            "2026-01-15T10:20:30.123456+02:00",
            "2263-01-01T00:00:00.000000Z",
            "1600-01-01T00:00:00.000000Z",
            "2026-13-45T99:99:99.000000Z",
            "2026-01-15T10:20:30.١٢٣٤٥٦Z",
            "2026-01-15 10:20:30.123456Z",
            "yesterday, or the day before",
        ]
    )
    | st.text(max_size=30)
)
events = st.builds(
    lambda fields, reserved: {**fields, **reserved},
    st.dictionaries(keys, values, max_size=8),
    st.fixed_dictionaries(
        {},
        optional={
            "event": st.text(max_size=20) | st.none(),
            "message": st.text(max_size=5),
            "level": st.sampled_from([*BY_NAME, "INFO", "odd"]) | st.integers(0, 60),
            "timestamp": stamps,
            "trace_id": st.just("4bf92f3577b34da6a3ce929d0e0e4736"),
        },
    ),
)


@given(events, st.sampled_from(["info", "warning", "msg", "nonsense", ""]))
def test_short_way_gives_the_careful_ways_bytes(event: dict[str, object], method_name: str) -> None:
    """
    Where the short way answers at all, it answers with the bytes of the careful one, and leaves the event alone.
    """
    before = repr(event)
    record = read_plain(event, method_name, MAX_BYTES)

    assert before == repr(event)
    if record is None:
        return
    plain, severity = record
    fields, expected_severity, time_ns, trace_id, span_id, trace_flags = read_event(event, method_name)
    payload, flags = encode(fields, MAX_BYTES)
    # Without a timestamp each of them looks at the clock.
    stamp = unpack_record(memoryview(plain)).time_ns if time_ns is None else time_ns

    assert expected_severity == severity
    assert pack_record(payload, stamp, severity, trace_flags, flags, trace_id, span_id) == plain


@given(st.dictionaries(st.from_regex(r"key_[a-z]{1,8}", fullmatch=True), st.integers(0, 9), max_size=8))
def test_common_event_takes_the_short_way(fields: dict[str, object]) -> None:
    """
    An event of plain values with a level and structlog's time stamp does not need the careful way.
    """
    event = {**fields, "event": "order accepted", "level": "info", "timestamp": "2026-01-15T10:20:30.123456Z"}

    assert read_plain(event, "info", MAX_BYTES) is not None
