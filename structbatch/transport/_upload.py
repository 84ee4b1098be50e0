# SPDX-License-Identifier: Apache-2.0
"""
Write a body with an eye on the answer: a server that refuses a large one need not read it.
"""

from __future__ import annotations

import selectors
import socket
import ssl

from collections.abc import Callable
from typing import Final


WATCHED_BYTES: Final = 65536
"""
More than this is written piece by piece. Less fits into the buffers of the system.
"""

_PIECE_BYTES: Final = 262144


class EarlyAnswerError(OSError):
    """
    The server answers already: what is left of the body need not be written.
    """


def upload(sock: socket.socket, data: bytes | bytearray, left: Callable[[], float]) -> None:
    """
    Write all of *data*.

    Args:
        sock: Connected, with a timeout.

        data: A head, or a body.

        left: Gives the seconds that are left, or raises TimeoutError.

    Raises:
        EarlyAnswerError: The server has answered, or closed. Not with TLS, where what can be read may be a ticket.

        OSError: It cannot be written.
    """
    if len(data) <= WATCHED_BYTES or not _is_plain(sock):
        sock.sendall(data)
        return
    rest, watching = memoryview(data), True
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while rest:
            ready = selector.select(left())
            events = ready[0][1] if ready else 0
            if watching and events & selectors.EVENT_READ:
                if not _is_interim(sock):
                    raise EarlyAnswerError
                watching = False
                selector.modify(sock, selectors.EVENT_WRITE)
            if events & selectors.EVENT_WRITE:
                rest = rest[sock.send(rest[:_PIECE_BYTES]) :]


def _is_plain(sock: object) -> bool:
    # TLS within TLS is no socket at all.
    return isinstance(sock, socket.socket) and not isinstance(sock, ssl.SSLSocket)


def _is_interim(sock: socket.socket) -> bool:
    """
    Does what waits to be read begin like a 1xx answer?
    """
    return sock.recv(10, socket.MSG_PEEK)[9:10] == b"1"
