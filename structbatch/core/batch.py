# SPDX-License-Identifier: Apache-2.0
"""
The open batch with its triggers, and the sealed batch that never changes again.

Rules:

1. No batch is ever above ``batch_max_records`` or ``batch_max_bytes``.
2. A batch is sealed at the exact limit by the thread that reaches it; a worker that cuts would come late.
3. ``deadline`` is ``batch_linger`` after the first record and nothing moves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from structbatch.core.record import HEADER_BYTES, SEVERITY_OFFSET, SOURCE_INDEX, SOURCE_OFFSET
from structbatch.core.severity import BAND_OF, BANDS


Bands = tuple[int, ...]
"""
Seven counts, one for each of `structbatch.core.severity.BANDS`.
"""

NO_BANDS: Final[Bands] = (0,) * len(BANDS)

WRITER_ID_BYTES: Final = 10
_BATCH_NUMBER_BYTES: Final = 6
_TIME_OFFSET: Final = 4
_TIME_BYTES: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """
    Records that travel together, immutable, under one id for ever.

    Args:
        id: 16 bytes: 10 that no other process has, 6 that count this one's batches.

        records: The records' bytes, without anything between them.

        bands_by_record: One byte for each record: its severity's position in `BANDS`.

        bands: How many records of each severity band.

        sources: The table that the records' source indexes point into; 0 is the pipeline's own.

        first_sequence: Position of the first record among all that this process ever accepted.

        first_time_ns: Time of the first record, for ages and loss reports.

        last_time_ns: Time of the last record.
    """

    id: bytes
    records: memoryview = field(repr=False)
    bands_by_record: bytes = field(repr=False)
    bands: Bands = field(repr=False)
    sources: tuple[bytes, ...] = field(repr=False)
    first_sequence: int
    first_time_ns: int
    last_time_ns: int

    @property
    def count(self) -> int:
        """
        How many records.
        """
        return len(self.bands_by_record)


def count_bands(bands_by_record: bytes | bytearray) -> Bands:
    """
    How many records of each severity band.
    """
    return tuple(map(bands_by_record.count, range(len(BANDS))))


def bands_of(batch: Batch, ordinals: Sequence[int] | None) -> Bands:
    """
    How many of *ordinals* (None: all) lie in each severity band.
    """
    if ordinals is None or len(ordinals) == batch.count:
        return batch.bands
    by_record = batch.bands_by_record
    return count_bands(bytes([by_record[ordinal] for ordinal in ordinals]))


class OpenBatch:
    """
    The batch that takes records now. Its records lie in one arena; keeping each encoder's result costs more than
    encoding it.

    Mutable, touched under the pipeline's lock only. The arena is always right: whatever else an exception left half
    done, `recount` derives from it.

    Args:
        id: The id that the sealed batch will have.

        source: The pipeline's own source, index 0.

        first_sequence: Sequence number of the first record to come.
    """

    __slots__ = ("_indexes", "arena", "bands_by_record", "deadline", "first_sequence", "id", "last_offset")

    def __init__(self, batch_id: bytes, source: bytes, first_sequence: int) -> None:
        self.id = batch_id
        self.arena = bytearray()
        self.bands_by_record = bytearray()
        self.deadline = 0.0
        self.first_sequence = first_sequence
        self.last_offset = 0
        self._indexes = {source: 0}

    def name_source(self, offset: int, source: bytes) -> None:
        """
        Write the index of *source* into the record at *offset*.
        """
        index = self._indexes.setdefault(source, len(self._indexes))
        SOURCE_INDEX.pack_into(self.arena, offset + SOURCE_OFFSET, index)

    def takes_source(self, source: bytes) -> bool:
        """
        Whether *source* still fits into the table.
        """
        return source in self._indexes or len(self._indexes) < 0xFFFF

    def recount(self) -> None:
        """
        Derive the counts from the arena, after an exception came between two statements.
        """
        bands = bytearray()
        offset, end = 0, len(self.arena)
        while offset < end:
            bands.append(BAND_OF[self.arena[offset + SEVERITY_OFFSET]])
            self.last_offset = offset
            offset += HEADER_BYTES + int.from_bytes(self.arena[offset : offset + 4], "little")
        self.bands_by_record = bands

    def seal(self) -> Batch:
        """
        The batch of what was taken. Nothing is copied: the arena becomes the batch's.
        """
        arena = self.arena
        return Batch(
            id=self.id,
            records=memoryview(arena).toreadonly(),
            bands_by_record=bytes(self.bands_by_record),
            bands=count_bands(self.bands_by_record),
            sources=tuple(self._indexes),
            first_sequence=self.first_sequence,
            first_time_ns=_time_at(arena, 0),
            last_time_ns=_time_at(arena, self.last_offset),
        )


def _time_at(arena: bytearray, offset: int) -> int:
    start = offset + _TIME_OFFSET
    return int.from_bytes(arena[start : start + _TIME_BYTES], "little", signed=True)


def batch_id(writer_id: bytes, number: int) -> bytes:
    """
    The id of the batch *number* of the process that drew *writer_id*.
    """
    return writer_id + number.to_bytes(_BATCH_NUMBER_BYTES, "big")
