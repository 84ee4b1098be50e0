# SPDX-License-Identifier: Apache-2.0
"""
The byte layout of records and packed batches, which is frozen: segments on disk hold the same bytes.
"""

from __future__ import annotations

import pytest

from structbatch.core.record import (
    HEADER_BYTES,
    OTEL,
    TYPED,
    iter_records,
    pack_batch,
    pack_record,
    record_offsets,
    unpack_batch,
    unpack_record,
)


GOLDEN = bytes.fromhex(
    "10000000"  # 16 bytes of payload
    "0100000000000000"  # one nanosecond
    "09"  # INFO
    "01"  # sampled
    "0500"  # typed, otel
    "0000"  # the pipeline's own source
    "000102030405060708090a0b0c0d0e0f"
    "1011121314151617"
) + b'{"message":"hi"}'


def test_layout_is_frozen() -> None:
    """
    These bytes are on disks.
    """
    packed = pack_record(b'{"message":"hi"}', 1, 9, 1, TYPED | OTEL, bytes(range(16)), bytes(range(16, 24)))

    assert 42 == HEADER_BYTES
    assert GOLDEN == packed


def test_unpack_gives_every_field() -> None:
    """
    A record comes apart into what it was made of; its payload is a read-only view.
    """
    record = unpack_record(memoryview(GOLDEN))

    assert (1, 9, 1, TYPED | OTEL, 0) == record[:5]
    assert (bytes(range(16)), bytes(range(16, 24))) == (record.trace_id, record.span_id)
    assert b'{"message":"hi"}' == bytes(record.payload)
    assert record.payload.readonly


@pytest.mark.parametrize("cut", [1, 41, 42, 57])
def test_a_record_cut_short_is_a_value_error(cut: int) -> None:
    """
    In its header or in its payload, alone or behind another.
    """
    with pytest.raises(ValueError, match="cut short"):
        unpack_record(memoryview(GOLDEN[:cut]))
    with pytest.raises(ValueError, match="cut short"):
        list(iter_records(memoryview(GOLDEN + GOLDEN[:cut])))


def test_offsets_are_where_records_start() -> None:
    """
    One offset for each record, none for no record.
    """
    assert [0, len(GOLDEN)] == record_offsets(memoryview(GOLDEN * 2))
    assert [] == record_offsets(memoryview(b""))


def test_packed_batch_is_frozen() -> None:
    """
    The table of sources, then the records, without anything between them.
    """
    packed = pack_batch([b"{}", b'{"resource":{}}'], GOLDEN)

    assert bytes.fromhex("020002000000") + b"{}" + bytes.fromhex("0f000000") + b'{"resource":{}}' + GOLDEN == packed
    assert ((b"{}", b'{"resource":{}}'), GOLDEN) == (unpack_batch(packed)[0], bytes(unpack_batch(packed)[1]))


@pytest.mark.parametrize("packed", [b"", b"\x01", b"\x01\x00", b"\x01\x00\x02\x00\x00\x00{", b"\xff\xff"])
def test_a_table_cut_short_is_a_value_error(packed: bytes) -> None:
    """
    Wherever it ends.
    """
    with pytest.raises(ValueError, match="table of sources is cut short"):
        unpack_batch(packed)
