# SPDX-License-Identifier: Apache-2.0
"""
How large a request may be.
"""

from __future__ import annotations

from structbatch.core.ceiling import MAX_BODY_BYTES, MIN_BODY_BYTES, Ceiling
from structbatch.core.vendor import Limits


LIMITS = Limits(max_records=1000, max_bytes=1_000_000)


def test_it_starts_at_the_vendors_limits() -> None:
    """
    But no body is above 8 MB, whatever a vendor allows.
    """
    assert (1000, 1_000_000) == (Ceiling(LIMITS, 200).records, Ceiling(LIMITS, 200).body_bytes)
    assert MAX_BODY_BYTES == Ceiling(Limits(max_bytes=10**9), 200).body_bytes


def test_it_halves_and_grows_back() -> None:
    """
    Half of what proved too large; each success gives back the smaller of a batch and a tenth, up to the limits.
    """
    ceiling = Ceiling(LIMITS, 20)

    ceiling.shrink(600, 500_000)
    assert (300, 250_000) == (ceiling.records, ceiling.body_bytes)
    ceiling.grow()
    assert (320, 275_000) == (ceiling.records, ceiling.body_bytes)
    for _ in range(100):
        ceiling.grow()
    assert (1000, 1_000_000) == (ceiling.records, ceiling.body_bytes)


def test_it_never_rises_by_shrinking() -> None:
    """
    A late answer for a large request does not undo what a smaller one taught; and something always fits.
    """
    ceiling = Ceiling(LIMITS, 20)

    ceiling.shrink(100, 100_000)
    ceiling.shrink(900, 900_000)
    assert (50, 50_000) == (ceiling.records, ceiling.body_bytes)
    for _ in range(100):
        ceiling.shrink(1, 1)
    assert (1, MIN_BODY_BYTES) == (ceiling.records, ceiling.body_bytes)
    ceiling.grow()
    assert 2 == ceiling.records


def test_bodies_are_foreseen_by_the_last_ratio() -> None:
    """
    What the vendor's body will measure is known only after it was built once.
    """
    ceiling = Ceiling(LIMITS, 20)

    assert ceiling.fits(1000, 800_000)
    assert not ceiling.fits(1001, 1)
    assert not ceiling.measured(400_000, 1_200_000)
    assert not ceiling.fits(1, 400_000)
    assert ceiling.fits(1, 333_333)
