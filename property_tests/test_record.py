# SPDX-License-Identifier: Apache-2.0
"""
Records and packed batches: what goes in comes out, and nothing else than `ValueError` comes of broken bytes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from structbatch.core.record import (
    HEADER_BYTES,
    Record,
    iter_records,
    pack_batch,
    pack_record,
    record_offsets,
    unpack_batch,
    unpack_record,
)


RECORDS = st.builds(
    dict,
    payload=st.binary(max_size=60),
    time_ns=st.integers(-(2**63), 2**63 - 1),
    severity=st.integers(0, 24),
    trace_flags=st.integers(0, 255),
    flags=st.integers(0, 7),
    trace_id=st.binary(min_size=16, max_size=16),
    span_id=st.binary(min_size=8, max_size=8),
)


def told(record: Record) -> dict[str, Any]:
    """
    *record* as `pack_record` takes it.
    """
    fields = record._asdict()
    assert fields.pop("source") == 0
    return {**fields, "payload": bytes(record.payload)}


@given(records=st.lists(RECORDS, max_size=8))
def test_records_come_out_as_they_went_in(records: list[dict[str, Any]]) -> None:
    """
    One by one, in order, each where its offset says.
    """
    packed = memoryview(b"".join(pack_record(**record) for record in records))

    assert records == [told(record) for record in iter_records(packed)]
    assert records == [told(unpack_record(packed, offset)) for offset in record_offsets(packed)]


@given(records=st.lists(RECORDS, min_size=1, max_size=5), data=st.data())
def test_a_cut_gives_a_prefix_or_an_error(records: list[dict[str, Any]], data: st.DataObject) -> None:
    """
    Cut anywhere: whole records before the cut, and a `ValueError` if the cut goes through one.
    """
    pieces = [pack_record(**record) for record in records]
    packed = b"".join(pieces)
    cut = data.draw(st.integers(0, len(packed) - 1))
    borders = [sum(map(len, pieces[:number])) for number in range(len(pieces) + 1)]

    found: list[dict[str, Any]] = []
    error = None
    try:
        found.extend(map(told, iter_records(memoryview(packed[:cut]))))
    except ValueError as caught:
        error = caught

    assert records[: sum(border <= cut for border in borders) - 1] == found
    assert (cut not in borders) == (error is not None)


@given(junk=st.binary(max_size=200), offset=st.integers(0, 250))
def test_junk_is_a_value_error(junk: bytes, offset: int) -> None:
    """
    Any bytes at all are records, or a `ValueError`; never another exception, and never a payload from outside.
    """
    for read in (lambda: list(iter_records(memoryview(junk))), lambda: [unpack_record(memoryview(junk), offset)]):
        try:
            records = read()
        except ValueError:
            continue
        assert sum(HEADER_BYTES + len(record.payload) for record in records) <= len(junk)


@given(sources=st.lists(st.binary(max_size=40), max_size=6), records=st.binary(max_size=80))
def test_a_packed_batch_comes_apart_as_it_was(sources: list[bytes], records: bytes) -> None:
    """
    The table and the records, byte by byte.
    """
    found_sources, found_records = unpack_batch(pack_batch(sources, records))

    assert tuple(sources) == found_sources
    assert records == bytes(found_records)


@given(sources=st.lists(st.binary(max_size=20), min_size=1, max_size=4), data=st.data())
def test_a_table_cut_short_is_a_value_error(sources: list[bytes], data: st.DataObject) -> None:
    """
    Cut anywhere in the table of sources.
    """
    packed = pack_batch(sources, b"")
    cut = data.draw(st.integers(0, len(packed) - 1))

    try:
        unpack_batch(packed[:cut])
    except ValueError:
        cut = -1

    assert -1 == cut


@given(junk=st.binary(max_size=100))
def test_junk_is_no_batch(junk: bytes) -> None:
    """
    Any bytes at all are a packed batch, or a `ValueError`; what comes out is never more than went in.
    """
    try:
        sources, records = unpack_batch(junk)
    except ValueError:
        return

    assert pack_batch(sources, records) == junk
