# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import zlib

import pytest
import zstandard

from structbatch.core.compress import Compression, compress
from structbatch.receiver.decode import decode
from structbatch.receiver.refusal import Refusal


PLAIN = b'{"message":"a"}\n' * 1000


def zstd_without_size(plain: bytes) -> bytes:
    """
    A frame whose header does not tell how long it is.
    """
    return zstandard.ZstdCompressor(write_content_size=False).compress(plain)


class TestDecode:
    @pytest.mark.parametrize("compression", list(Compression))
    def test_undoes_what_we_write(self, compression: Compression) -> None:
        """
        Every coding that a pipeline can write comes back byte for byte.
        """
        body = bytes(compress(PLAIN, compression))

        assert PLAIN == decode(body, compression.value)

    @pytest.mark.parametrize("encoding", ["", "identity", " GZIP ", "x-gzip"])
    def test_names(self, encoding: str) -> None:
        """
        Names of codings ignore case, and no name means identity.
        """
        body = gzip.compress(PLAIN) if "gzip" in encoding.lower() else PLAIN

        assert PLAIN == decode(body, encoding)

    def test_zstd_without_size(self) -> None:
        """
        A zstd frame need not tell its length.
        """
        assert PLAIN == decode(zstd_without_size(PLAIN), "zstd")

    @pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "deflate"])
    def test_unknown(self, encoding: str) -> None:
        """
        A coding that is not known is 415, never taken for plain.
        """
        with pytest.raises(Refusal) as caught:
            decode(PLAIN, encoding)

        assert 415 == caught.value.status

    @pytest.mark.parametrize(
        ("encoding", "bomb"),
        [
            ("", bytes(1001)),
            ("gzip", gzip.compress(bytes(10_000_000))),
            ("zstd", zstandard.ZstdCompressor().compress(bytes(10_000_000))),
            ("zstd", zstd_without_size(bytes(10_000_000))),
        ],
    )
    def test_bomb(self, encoding: str, bomb: bytes) -> None:
        """
        More than allowed is 413, whether the header admits it or not.
        """
        with pytest.raises(Refusal) as caught:
            decode(bomb, encoding, max_bytes=1000)

        assert 413 == caught.value.status

    @pytest.mark.parametrize("encode", [gzip.compress, zstandard.ZstdCompressor().compress, zstd_without_size])
    def test_exactly_the_limit(self, encode) -> None:
        """
        The limit itself is allowed.
        """
        encoding = "gzip" if encode is gzip.compress else "zstd"

        assert PLAIN == decode(encode(PLAIN), encoding, max_bytes=len(PLAIN))

    @pytest.mark.parametrize("encode", [gzip.compress, zstandard.ZstdCompressor().compress, zstd_without_size])
    @pytest.mark.parametrize(
        "damage", [lambda b: b[:-3], lambda b: b + b"more", lambda _: b"", lambda _: b"plain text"]
    )
    def test_damaged(self, encode, damage) -> None:
        """
        A body that is cut short, has a tail, or is no such thing is 400.
        """
        encoding = "gzip" if encode is gzip.compress else "zstd"

        with pytest.raises(Refusal) as caught:
            decode(damage(encode(PLAIN)), encoding)

        assert 400 == caught.value.status

    def test_raw_deflate_is_no_gzip(self) -> None:
        """
        zlib's own format under the name gzip is 400.
        """
        with pytest.raises(Refusal) as caught:
            decode(zlib.compress(PLAIN), "gzip")

        assert 400 == caught.value.status
