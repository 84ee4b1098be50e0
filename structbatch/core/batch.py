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

from structbatch.core.record import (
    HEADER,
    HEADER_BYTES,
    SOURCE_INDEX,
    SOURCE_OFFSET,
    record_offsets,
)
from structbatch.core.severity import BAND_OF, BANDS


Bands = tuple[int, ...]
"""
Seven counts, one for each of `structbatch.core.severity.BANDS`.
"""

NO_BANDS: Bands = (0,) * len(BANDS)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """
    Records that travel together, immutable, under one id for ever.

    Args:
        id: 16 bytes: 10 that no other process has, 6 that count this one's batches.

        records: The records' bytes, without anything between them.

        count: How many records.

        sources: The table that the records' source indexes point into; 0 is the pipeline's own.

        bands: How many records of each severity band.

        first_sequence: Position of the first record among all that this process ever accepted.

        first_time_ns: Time of the first record, for ages and loss reports.

        last_time_ns: Time of the last record.
    """

    id: bytes
    records: memoryview = field(repr=False)
    count: int
    sources: tuple[bytes, ...] = field(repr=False)
    bands: Bands = field(repr=False)
    first_sequence: int
    first_time_ns: int
    last_time_ns: int

    @property
    def bytes(self) -> int:
        """
        Bytes of all records, headers included.
        """
        return len(self.records)


def bands_of(batch: Batch, ordinals: Sequence[int] | None) -> Bands:
    """
    How many of *ordinals* (None: all) lie in each severity band. Walks the batch: not for under the lock.
    """
    if ordinals is None or len(ordinals) == batch.count:
        return batch.bands
    bands = [0] * len(BANDS)
    offsets = record_offsets(batch.records)
    for ordinal in ordinals:
        bands[BAND_OF[min(HEADER.unpack_from(batch.records, offsets[ordinal])[2], 24)]] += 1
    return tuple(bands)
