# SPDX-License-Identifier: Apache-2.0
"""
Views for tests of vendors: the reference events, and batches of any records.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

import orjson

from structbatch.core.batch import Batch, count_bands
from structbatch.core.http import Request
from structbatch.core.record import NO_SPAN, NO_TRACE, RESERVED, RESERVED_KEYS, pack_record
from structbatch.core.severity import BAND_OF
from structbatch.core.vendor import Part, View


NOW_NS = 1768472432_000_000_000
SOURCE = b'{"resource":{"host.name":"web-1","service.name":"shop-api"}}'
TRACE_ID = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")
BATCH_ID = bytes(range(16))


def record_of(
    payload: dict[str, object] | bytes,
    time_ns: int = 1768472430_123456789,
    severity: int = 9,
    trace_flags: int = 1,
    flags: int | None = None,
    trace_id: bytes = NO_TRACE,
    span_id: bytes = NO_SPAN,
) -> tuple[bytes, int]:
    """
    A record's bytes and its severity; without *flags*, ``reserved`` is set as the encoder sets it.
    """
    if flags is None:
        flags = RESERVED if isinstance(payload, dict) and not RESERVED_KEYS.isdisjoint(payload) else 0
    body = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    return pack_record(body, time_ns, severity, trace_flags, flags, trace_id, span_id), severity


def batch_of(records: Iterable[tuple[bytes, int]], source: bytes = SOURCE, batch_id: bytes = BATCH_ID) -> Batch:
    """
    A sealed batch of *records*.
    """
    records = list(records)
    bands = bytes(BAND_OF[severity] for _, severity in records)
    return Batch(
        id=batch_id,
        records=memoryview(b"".join(record for record, _ in records)),
        bands_by_record=bands,
        bands=count_bands(bands),
        sources=(source,),
        first_sequence=0,
        first_time_ns=0,
        last_time_ns=0,
    )


def view_of(*records: tuple[bytes, int], source: bytes = SOURCE, ordinals: Sequence[int] | None = None) -> View:
    """
    A view of one batch.
    """
    return View([Part(batch_of(records, source), None if ordinals is None else tuple(ordinals))])


def reference_view() -> View:
    """
    Two events as an application would say them.
    """
    accepted: dict[str, object] = {"message": "order accepted", "logger": "shop.orders", "order_id": "A-1001"}
    failed: dict[str, object] = {"message": "payment failed", "logger": "shop.payments", "order_id": "A-1002"}
    spans = bytes.fromhex("00f067aa0ba902b7"), bytes.fromhex("b7ad6b7169203331")
    return view_of(
        record_of(accepted, 1768472430_123456789, 9, trace_id=TRACE_ID, span_id=spans[0]),
        record_of(failed, 1768472431_000250000, 17, trace_id=TRACE_ID, span_id=spans[1]),
    )


def finish(steps: Generator[None, None, Request]) -> Request:
    """
    The request that *steps* ends with.
    """
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            request: Request = stop.value
            return request


def as_text(request: Request) -> bytes:
    """
    *request* as golden files hold it: one line, the headers, an empty line, the body.
    """
    headers = "".join(f"{name}: {value}\n" for name, value in request.headers.items())
    return f"{request.method} {request.url}\n{headers}\n".encode() + request.body


def objects_of(request: Request) -> list[dict[str, object]]:
    """
    The objects of *request*, whether it is an array or lines.
    """
    if request.headers["Content-Type"] == "application/json":
        array: list[dict[str, object]] = orjson.loads(request.body)
        return array
    assert request.body.endswith(b"\n")
    return [orjson.loads(line) for line in request.body.split(b"\n")[:-1]]
