# SPDX-License-Identifier: Apache-2.0
"""
Compression: any receiver can read it, and the same body is the same bytes.
"""

from __future__ import annotations

import gzip

import pytest
import zstandard

from structbatch.core.compress import Compression, compress


BODY = b'{"message":"hello"}\n' * 500


def restore(body: bytes, compression: Compression) -> bytes:
    """
    *body* as a receiver reads it.
    """
    match compression:
        case Compression.GZIP:
            return gzip.decompress(body)
        case Compression.ZSTD:
            return zstandard.ZstdDecompressor().decompress(body)
        case Compression.IDENTITY:
            return body


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("body", [b"", b"x", BODY, bytearray(BODY)], ids=["empty", "one", "many", "bytearray"])
def test_a_receiver_reads_it(compression: Compression, body: bytes) -> None:
    """
    Every coding is undone by the standard tools, the frame tells its length, and it is made anew in the same way.
    """
    packed = bytes(compress(body, compression))

    assert bytes(body) == restore(packed, compression)
    assert packed == bytes(compress(body, compression))


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
def test_it_is_worth_it(compression: Compression) -> None:
    """
    Repetitive bodies, as logs are, shrink at least tenfold.
    """
    assert len(compress(BODY, compression)) * 10 < len(BODY)


def test_gzip_tells_no_time() -> None:
    """
    The time stamp in the header is zero: a body that is sent again is the same bytes.
    """
    assert bytes(4) == bytes(compress(BODY, Compression.GZIP)[4:8])


def test_the_value_is_the_header() -> None:
    """
    ``Content-Encoding`` is taken from the value.
    """
    assert ["gzip", "zstd", "identity"] == [compression.value for compression in Compression]
