# SPDX-License-Identifier: Apache-2.0
"""
What carries a request. The engine gives one instance to every sender thread.
"""

from __future__ import annotations

from typing import Protocol

from structbatch.core.http import Request, Response


class Transport(Protocol):
    """
    **Protocol:** carries one request at a time.

    *send* and *close* are called by the sender thread that owns the instance, *abort* by any thread at any moment.
    """

    def send(self, request: Request, timeout: float) -> Response:
        """
        Carry *request* and wait for the whole answer, whatever its status.

        Args:
            request: Headers come without Content-Length.

            timeout: Seconds for all of it, from the name's look-up to the last byte of the answer.

        Raises:
            structbatch.errors.TransportError: There was no usable answer.
        """
        ...

    def abort(self) -> None:
        """
        End the request in progress now: its *send* then raises. Between two requests it does nothing.
        """
        ...

    def close(self) -> None:
        """
        Give up all connections. A later *send* opens new ones.
        """
        ...
