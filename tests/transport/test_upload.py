# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
import threading

from collections.abc import Iterator

import pytest

from structbatch.transport._upload import WATCHED_BYTES, EarlyAnswerError, upload


SIZE = 4_000_000


@pytest.fixture(name="pair")
def _pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    theirs.settimeout(5)
    with ours, theirs:
        yield ours, theirs


def receive(sock: socket.socket, size: int, into: bytearray) -> None:
    """
    Read *size* bytes.
    """
    while len(into) < size:
        into += sock.recv(65536)


@pytest.mark.parametrize("size", [1, WATCHED_BYTES, WATCHED_BYTES + 1, SIZE])
@pytest.mark.parametrize("waiting", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_all_arrives(pair: tuple[socket.socket, socket.socket], size: int, waiting: bytes) -> None:
    """
    Every byte arrives once and in order, whatever its size, and an interim answer does not stop it.
    """
    ours, theirs = pair
    theirs.sendall(waiting)
    data, got = os.urandom(size), bytearray()
    thread = threading.Thread(target=receive, args=(theirs, size, got))
    thread.start()
    upload(ours, data, lambda: 5.0)
    thread.join()

    assert data == bytes(got)


@pytest.mark.parametrize("waiting", [b"HTTP/1.1 413 Too Large\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"garbage"])
def test_answer_stops_it(pair: tuple[socket.socket, socket.socket], waiting: bytes) -> None:
    """
    A final answer ends the upload, and is left to be read.
    """
    ours, theirs = pair
    theirs.sendall(waiting)

    with pytest.raises(EarlyAnswerError):
        upload(ours, bytes(SIZE), lambda: 5.0)

    assert waiting == ours.recv(100)


def test_closed_by_the_peer(pair: tuple[socket.socket, socket.socket]) -> None:
    """
    A peer that has closed ends the upload at once, not after the timeout: the end is all that there is to read.
    """
    ours, theirs = pair
    theirs.close()

    with pytest.raises(EarlyAnswerError):
        upload(ours, bytes(SIZE), lambda: 5.0)

    assert b"" == ours.recv(1)


def test_deadline(pair: tuple[socket.socket, socket.socket]) -> None:
    """
    A peer that does not read is left when the time is up.
    """
    ours, _ = pair
    times = iter([0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01])

    def left() -> float:
        try:
            return next(times)
        except StopIteration:
            raise TimeoutError from None

    with pytest.raises(TimeoutError):
        upload(ours, bytes(SIZE), left)

    assert [] == list(times)
