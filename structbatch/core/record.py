# SPDX-License-Identifier: Apache-2.0
r"""
One event, encoded once, into bytes that stay as they are in memory, on disk and at replay.

A record is a fixed header and one compact JSON object in UTF-8 (little endian, no padding)::

    offset  bytes  what
         0      4  length of the payload in bytes, unsigned
         4      8  time in nanoseconds since the Unix epoch, signed
        12      1  severity, OpenTelemetry's 0 to 24
        13      1  W3C trace flags
        14      2  record flags: 1 typed, 2 reserved, 4 otel
        16      2  index of the record's source in the batch's table
        18     16  trace id, zeros for none
        34      8  span id, zeros for none
        42      n  payload: ``{...,"message":...,...}``

A *packed batch* is the table of sources and then the records, without anything between them::

    2 bytes  number of sources, unsigned
    each     4 bytes length, then the source: one compact JSON object
    rest     the records

A source says who speaks: ``{"resource":{...},"scope":{...}}``, both members flat attribute maps, both optional.

This layout is frozen: segments on disk hold the same bytes.
"""

from __future__ import annotations

import struct

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple


HEADER: Final = struct.Struct("<IqBBHH16s8s")
HEADER_BYTES: Final = HEADER.size
SEVERITY_OFFSET: Final = 12
SOURCE_OFFSET: Final = 16
SOURCE_INDEX: Final = struct.Struct("<H")

TYPED: Final = 1
"""
The payload holds tagged values that JSON cannot carry; see :mod:`structbatch.core.encode`.
"""

RESERVED: Final = 2
"""
A top-level key is in `RESERVED_KEYS`: splicing keys around the payload is unsafe.
"""

OTEL: Final = 4
"""
One reserved member carries what only OpenTelemetry has: event name, observed time and the like.
"""

NO_TRACE: Final = bytes(16)
NO_SPAN: Final = bytes(8)

RESERVED_KEYS: Final = frozenset(
    {
        "timestamp",
        "@timestamp",
        "time",
        "level",
        "severity",
        "status",
        "trace_id",
        "span_id",
        "trace_flags",
        "dd.trace_id",
        "dd.span_id",
        "ddsource",
        "ddtags",
        "service",
        "service.name",
        "service.version",
        "version",
        "host",
        "host.name",
        "hostname",
        "environment",
        "env",
        "deployment.environment.name",
        "structbatch.id",
        "structbatch.otel",
    }
)
"""
The union of the top-level keys that the vendors write themselves.

A vendor may splice its keys around the bytes of a payload that has none of these. A test holds every vendor's own
``reserved`` against this set; `message` is the record's own member and never here.
"""


class Record(NamedTuple):
    """
    A record, taken apart. *payload* is a read-only view into the batch: copy it if it must outlive the batch.
    """

    time_ns: int
    severity: int
    trace_flags: int
    flags: int
    source: int
    trace_id: bytes
    span_id: bytes
    payload: memoryview


def pack_record(
    payload: bytes,
    time_ns: int,
    severity: int = 0,
    trace_flags: int = 0,
    flags: int = 0,
    trace_id: bytes = NO_TRACE,
    span_id: bytes = NO_SPAN,
) -> bytes:
    """
    The bytes of one record. Its source index is 0, the pipeline's own; an open batch writes another in place.
    """
    return HEADER.pack(len(payload), time_ns, severity, trace_flags, flags, 0, trace_id, span_id) + payload


def unpack_record(records: memoryview, offset: int = 0) -> Record:
    """
    The record that starts at *offset*.

    Raises:
        ValueError: *records* ends before the record does.
    """
    try:
        length, time_ns, severity, trace_flags, flags, source, trace_id, span_id = HEADER.unpack_from(records, offset)
    except struct.error as error:
        msg = f"a record's header is cut short at byte {offset}"
        raise ValueError(msg) from error
    start = offset + HEADER_BYTES
    if start + length > len(records):
        msg = f"a record's payload is cut short: {length} bytes announced at byte {offset}"
        raise ValueError(msg)
    return Record(time_ns, severity, trace_flags, flags, source, trace_id, span_id, records[start : start + length])


def iter_records(records: memoryview) -> Iterator[Record]:
    """
    Every record of *records*, in order.

    Raises:
        ValueError: The last record is cut short.
    """
    unpack = HEADER.unpack_from
    offset, end = 0, len(records)
    while offset < end:
        if offset + HEADER_BYTES > end:
            msg = f"a record's header is cut short at byte {offset}"
            raise ValueError(msg)
        length, time_ns, severity, trace_flags, flags, source, trace_id, span_id = unpack(records, offset)
        start = offset + HEADER_BYTES
        offset = start + length
        if offset > end:
            msg = f"a record's payload is cut short at byte {start}"
            raise ValueError(msg)
        yield Record(time_ns, severity, trace_flags, flags, source, trace_id, span_id, records[start:offset])


def record_offsets(records: memoryview) -> list[int]:
    """
    Where each record of *records* starts.
    """
    offsets = []
    offset, end = 0, len(records)
    unpack = HEADER.unpack_from
    while offset < end:
        offsets.append(offset)
        offset += HEADER_BYTES + unpack(records, offset)[0]
    return offsets


_COUNT = struct.Struct("<H")
_LENGTH = struct.Struct("<I")


def pack_batch(sources: Sequence[bytes], records: bytes | bytearray | memoryview) -> bytes:
    """
    The packed batch of *sources* and *records*.
    """
    table = b"".join(_LENGTH.pack(len(source)) + source for source in sources)
    return b"".join((_COUNT.pack(len(sources)), table, records))


def unpack_batch(packed: bytes) -> tuple[tuple[bytes, ...], memoryview]:
    """
    The sources and the records of a packed batch.

    Raises:
        ValueError: The table is cut short.
    """
    view = memoryview(packed).toreadonly()
    try:
        (count,) = _COUNT.unpack_from(view)
        offset = _COUNT.size
        sources = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(view, offset)
            offset += _LENGTH.size
            if offset + length > len(view):
                msg = "the table of sources is cut short"
                raise ValueError(msg)
            sources.append(bytes(view[offset : offset + length]))
            offset += length
    except struct.error as error:
        msg = "the table of sources is cut short"
        raise ValueError(msg) from error
    return tuple(sources), view[offset:]
