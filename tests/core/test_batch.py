# SPDX-License-Identifier: Apache-2.0
"""
The open batch and the batch that it becomes.
"""

from __future__ import annotations

from structbatch.core.batch import NO_BANDS, OpenBatch, bands_of, batch_id, count_bands
from structbatch.core.record import iter_records, pack_record


OURS, OTHER = b'{"resource":{}}', b'{"resource":{"service.name":"x"}}'


def open_batch(*severities: int) -> OpenBatch:
    """
    An open batch with a record of each of *severities*.
    """
    batch = OpenBatch(batch_id(b"writer-001", 7), OURS, 100)
    for number, severity in enumerate(severities):
        batch.arena += pack_record(b'{"message":"x"}', number, severity)
    batch.recount()
    return batch


def test_ids_are_the_writers_and_count() -> None:
    """
    Ten bytes that no other process has, six that count.
    """
    assert b"writer-001\x00\x00\x00\x00\x00\x07" == batch_id(b"writer-001", 7)


def test_a_sealed_batch_keeps_the_arena() -> None:
    """
    Nothing is copied, and nothing can be changed any more.
    """
    batch = open_batch(9, 17, 0)

    sealed = batch.seal()

    assert sealed.records.obj is batch.arena
    assert sealed.records.readonly
    assert (3, 100, 0, 2) == (sealed.count, sealed.first_sequence, sealed.first_time_ns, sealed.last_time_ns)
    assert (1, 0, 0, 1, 0, 1, 0) == sealed.bands


def test_recount_knows_everything_from_the_arena() -> None:
    """
    Whatever else an exception left half done.
    """
    batch = open_batch(9, 17)
    batch.bands_by_record = bytearray(b"\x06")
    batch.last_offset = 0

    batch.recount()

    assert bytes([3, 5]) == bytes(batch.bands_by_record)
    assert len(batch.arena) // 2 == batch.last_offset


def test_a_source_is_named_in_its_record() -> None:
    """
    One entry in the table for each source, 0 for the pipeline's own.
    """
    batch = open_batch(9, 9, 9)
    size = len(batch.arena) // 3

    for position, source in enumerate((OTHER, OURS, OTHER)):
        assert batch.takes_source(source)
        batch.name_source(position * size, source)
    sealed = batch.seal()

    assert (OURS, OTHER) == sealed.sources
    assert [1, 0, 1] == [record.source for record in iter_records(sealed.records)]


def test_the_table_of_sources_is_bounded() -> None:
    """
    Two bytes count it: a source too many is not taken, one that is known still is.
    """
    batch = open_batch(9)
    for number in range(0xFFFE):
        batch.name_source(0, b"%d" % number)

    assert not batch.takes_source(b"one more")
    assert batch.takes_source(b"17")


def test_bands_are_counted() -> None:
    """
    Of all records, or of those that are named.
    """
    sealed = open_batch(9, 17, 9, 21).seal()

    assert NO_BANDS == count_bands(b"")
    assert (0, 0, 0, 2, 0, 1, 1) == bands_of(sealed, None)
    assert (0, 0, 0, 1, 0, 0, 1) == bands_of(sealed, (2, 3))
    assert NO_BANDS == bands_of(sealed, ())
