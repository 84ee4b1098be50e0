# SPDX-License-Identifier: Apache-2.0
"""
What one request carries, and its history.
"""

from __future__ import annotations

from structbatch.core.batch import Batch, OpenBatch, batch_id
from structbatch.core.bundle import Bundle, bytes_of, count_of
from structbatch.core.record import HEADER_BYTES, pack_record
from structbatch.core.vendor import Part


def batch_of(count: int, first_sequence: int = 0) -> Batch:
    """
    A batch of *count* records of 50 bytes.
    """
    batch = OpenBatch(batch_id(b"writer-001", first_sequence), b"{}", first_sequence)
    for _ in range(count):
        batch.arena += pack_record(b"x" * (50 - HEADER_BYTES), 0)
    batch.recount()
    return batch.seal()


def test_counts_are_those_of_its_parts() -> None:
    """
    Of a batch in part the bytes are its share by count.
    """
    parts = (Part(batch_of(4)), Part(batch_of(3, 4), (0, 2)))

    assert (6, 300) == (count_of(parts), bytes_of(parts))
    assert (6, 300) == (Bundle(parts).count, Bundle(parts).bytes)


def test_position_is_its_oldest_record() -> None:
    """
    By which bundles wait in order.
    """
    assert 10 == Bundle([Part(batch_of(4, 10))]).position
    assert 12 == Bundle([Part(batch_of(4, 10), (2, 3))]).position


def test_what_is_left_inherits_failures_but_no_attempts() -> None:
    """
    Attempts belong to a bundle; strikes, rounds and what it counts from belong to its records.
    """
    bundle = Bundle([Part(batch_of(4))], replayed=True)
    bundle.attempts, bundle.strikes, bundle.rounds, bundle.success_mark = 3, 2, 1, 9

    left = bundle.with_parts([Part(bundle.parts[0].batch, (3,))])

    assert (0, 2, 1, 9, True) == (left.attempts, left.strikes, left.rounds, left.success_mark, left.replayed)
    assert (1, 50) == (left.count, left.bytes)


def test_narrow_keeps_everything_but_the_parts() -> None:
    """
    A partial answer leaves the same bundle, smaller.
    """
    bundle = Bundle([Part(batch_of(4))])
    bundle.attempts = 2

    bundle.narrow([Part(bundle.parts[0].batch, (1,))])

    assert (2, 1, 50) == (bundle.attempts, bundle.count, bundle.bytes)
