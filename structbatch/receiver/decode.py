# SPDX-License-Identifier: Apache-2.0
"""
Undo a content coding, within bounds: a small body must not become a large one.
"""

from __future__ import annotations

import zlib

from typing import Final

import zstandard

from structbatch.receiver.refusal import Refusal


MAX_PLAIN_BYTES: Final = 64 * 1024 * 1024
"""
Most bytes that one body may have once decoded.
"""

_GZIP_WINDOW: Final = 31
_ZSTD_MAX_WINDOW: Final = 8 * 1024 * 1024
_ZSTD_UNKNOWN: Final = (-1, 2**64 - 1)

# A block of 4 bytes can stand for 128 KiB: so little input at a time keeps one step below 8 MiB.
_ZSTD_STEP_BYTES: Final = 256


def decode(body: bytes, encoding: str, max_bytes: int = MAX_PLAIN_BYTES) -> bytes:
    """
    *body* without its content coding.

    Args:
        encoding: The ``Content-Encoding`` header; empty means identity.

        max_bytes: Most bytes that may come out.

    Raises:
        Refusal: 413 beyond *max_bytes*, 415 for an unknown coding, 400 for what is damaged or cut short.
    """
    match encoding.strip().lower():
        case "" | "identity":
            plain = body
        case "gzip" | "x-gzip":
            plain = _gunzip(body, max_bytes)
        case "zstd":
            plain = _unzstd(body, max_bytes)
        case _:
            raise Refusal(415, "content encoding not known: gzip, zstd or identity")
    if len(plain) > max_bytes:
        raise _too_large(max_bytes)
    return plain


def _too_large(max_bytes: int) -> Refusal:
    return Refusal(413, f"more than {max_bytes} bytes once decoded")


def _gunzip(body: bytes, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = inflater.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise Refusal(400, "gzip body is damaged") from error
    if len(plain) > max_bytes:
        raise _too_large(max_bytes)
    if not inflater.eof:
        raise Refusal(400, "gzip body is cut short")
    if inflater.unused_data:
        raise Refusal(400, "gzip body has bytes after its end")
    return plain


def _unzstd(body: bytes, max_bytes: int) -> bytes:
    try:
        size = zstandard.get_frame_parameters(body).content_size
        if size in _ZSTD_UNKNOWN:
            return _unzstd_stepwise(body, max_bytes)
        if size > max_bytes:
            raise _too_large(max_bytes)
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
        return decompressor.decompress(body, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Refusal(400, "zstd body is damaged or cut short") from error


def _unzstd_stepwise(body: bytes, max_bytes: int) -> bytes:
    """
    A frame that does not say how long it is.
    """
    inflater = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW).decompressobj()
    plain = bytearray()
    for start in range(0, len(body), _ZSTD_STEP_BYTES):
        if inflater.eof:
            raise Refusal(400, "zstd body has bytes after its end")
        plain += inflater.decompress(body[start : start + _ZSTD_STEP_BYTES])
        if len(plain) > max_bytes:
            raise _too_large(max_bytes)
    if not inflater.eof:
        raise Refusal(400, "zstd body is damaged or cut short")
    if inflater.unused_data:
        raise Refusal(400, "zstd body has bytes after its end")
    return bytes(plain)
