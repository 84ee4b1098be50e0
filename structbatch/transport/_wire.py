# SPDX-License-Identifier: Apache-2.0
"""
Connections that another thread can cut, and the pools that hold them.

Rules:

1. A `Wire` carries one request at a time: only between `begin` and `end` does `abort` touch a socket.
2. Every connection has a *handle*, a duplicate of its socket: the TLS layer takes the socket itself away during the
   handshake, and http.client gives it up before the body of a ``Connection: close`` answer is read. Shutting down the
   duplicate ends both directions at any moment, and wakes whoever waits.
3. A handle is used and closed under the lock, so that its number never means somebody else's file.
4. A process that did not open a connection closes its files and nothing else: a shutdown, and a goodbye of TLS, would
   reach the peer in the name of the parent.
"""

from __future__ import annotations

import http.client
import os
import queue
import socket
import threading

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.connection import allowed_gai_family

from structbatch.transport._faults import Phase
from structbatch.transport._upload import upload


class AbortedError(Exception):
    """
    The request was aborted while it had no socket yet.
    """


_ABANDONED: Final[list[Connection]] = []


class Wire:
    """
    The request in progress, if there is one, and the connections of one sender thread.

    Args:
        clock: Monotonic seconds.

        idle_limit: Seconds without a request after which a connection is not used again.

        max_age: Seconds after which a connection is not used again, however busy.
    """

    def __init__(self, clock: Callable[[], float], idle_limit: float, max_age: float) -> None:
        self._clock = clock
        self._idle_limit = idle_limit
        self._max_age = max_age
        # Re-entrant: the garbage collector may close a connection while this thread holds it.
        self._lock = threading.RLock()
        self._active = False
        self._aborted = False
        self._deadline = 0.0
        self._open: set[Connection] = set()
        self.connection: Connection | None = None
        self.phase = Phase.RESOLVE
        self.reused = False
        self.upload_cut = False

    # -- the request in progress --

    def begin(self, deadline: float) -> None:
        """
        A request starts: from now on `abort` means it.
        """
        with self._lock:
            self._active, self._aborted, self._deadline = True, False, deadline
            self.connection = None
        self.phase, self.reused, self.upload_cut = Phase.RESOLVE, False, False

    def end(self) -> bool:
        """
        The request is over. Was it aborted? Its connection is closed then.
        """
        with self._lock:
            self._active, aborted = False, self._aborted
        if self.connection is not None:
            if aborted:
                self.connection.close()
            self.connection.used_at = self._clock()
            self.settle(self.connection)
        return aborted

    def abort(self) -> None:
        """
        Any thread: shut the socket of the request in progress down.
        """
        with self._lock:
            if not self._active:
                return
            self._aborted = True
            if self.connection is not None:
                self.connection.cut()

    @property
    def aborted(self) -> bool:
        """
        Was the request in progress aborted?
        """
        return self._aborted

    def left(self) -> float:
        """
        Seconds until the deadline.

        Raises:
            TimeoutError: There are none.
        """
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        return left

    # -- its connection --

    def adopt(self, connection: Connection) -> None:
        """
        The request goes over *connection*, unless that has become too old: then over a new one.
        """
        now = self._clock()
        if connection.sock is not None and (
            now - connection.used_at > self._idle_limit or now - connection.opened_at > self._max_age
        ):
            connection.close()
        with self._lock:
            previous, self.connection = self.connection, connection
            if self._aborted:
                connection.cut()
        if previous is not None:
            self.settle(previous)
        self.reused = connection.sock is not None
        self.phase = Phase.UPLOAD if self.reused else Phase.RESOLVE
        self.upload_cut = False

    def dial(self, connection: Connection) -> socket.socket:
        """
        A connected socket for *connection*.

        All addresses together get the time that is left, each an equal share of it, so that a dead first one leaves
        some for the second.

        Raises:
            OSError: The name was not found, or the last address could not be reached.
        """
        self.reused, self.phase = False, Phase.RESOLVE
        # The name as given: a dot at its end means that no search domain is tried.
        name = connection._dns_host.strip("[]")  # noqa: SLF001
        addresses = socket.getaddrinfo(name, connection.port, allowed_gai_family(), socket.SOCK_STREAM)
        self.phase = Phase.CONNECT
        failed: OSError = OSError("the name has no address")
        for position, (family, kind, protocol, _, address) in enumerate(addresses):
            share = self.left() / (len(addresses) - position)
            try:
                sock = self._connect(connection, socket.socket(family, kind, protocol), address, share)
            except OSError as error:
                failed = error
            else:
                self.phase = Phase.HANDSHAKE
                return sock
        try:
            raise failed
        finally:
            del failed

    def _connect(
        self,
        connection: Connection,
        sock: socket.socket,
        address: Any,
        timeout: float,
    ) -> socket.socket:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.settimeout(timeout)
            self._hold(connection, sock.dup())
            sock.connect(address)
            # An abort that came before there was anything to connect has ended nothing.
            self._stop_if_aborted()
            sock.settimeout(self.left())
        except BaseException:
            sock.close()
            raise
        return sock

    def _stop_if_aborted(self) -> None:
        with self._lock:
            if self._aborted:
                raise AbortedError

    def _hold(self, connection: Connection, handle: socket.socket) -> None:
        with self._lock:
            connection.drop_handle()
            connection.handle = handle
            self._open.add(connection)
            if self._aborted:
                raise AbortedError

    def settle(self, connection: Connection) -> None:
        """
        *connection* may have been closed: its handle goes too, unless the request in progress still reads from it.
        """
        with self._lock:
            if connection.sock is None and not (self._active and self.connection is connection):
                connection.drop_handle()
                self._open.discard(connection)

    def close(self) -> None:
        """
        Close all connections. Not while a request is in progress.
        """
        for connection in tuple(self._open):
            connection.close()

    def abandon(self) -> None:
        """
        In a forked child: close the parent's files. Nothing is sent, nobody waits for a lock.
        """
        self._lock = threading.RLock()
        for connection in self._open:
            connection.abandon()
        # Never destroyed: that would ask for the lock of a reader that a thread of the parent may hold.
        _ABANDONED.extend(self._open)


class Connection(HTTPConnection):
    """
    One connection of a `Wire`.
    """

    wire: Wire
    handle: socket.socket | None = None
    opened_at: float = 0.0
    used_at: float = 0.0

    def _new_conn(self) -> socket.socket:
        return self.wire.dial(self)

    def connect(self) -> None:
        """
        Connect, and note when: connections have a highest age.
        """
        super().connect()
        self.wire.phase = Phase.UPLOAD
        self.opened_at = self.used_at = self.wire._clock()  # noqa: SLF001

    def send(self, data: Any) -> None:
        """
        Write *data*. Where that fails in a request, the answer may be there all the same.
        """
        if self.sock is None:
            self.connect()
        try:
            upload(self.sock, data, self.wire.left)
        except OSError as error:
            if self.wire.phase is not Phase.UPLOAD or isinstance(error, TimeoutError):
                raise
            self.wire.upload_cut = True
            # After this one urllib3 looks for an answer.
            raise BrokenPipeError(error.errno, "upload cut") from error

    def getresponse(self) -> Any:
        """
        The answer, from its status line on; interim answers are passed over.
        """
        if not self.wire.upload_cut:
            self.wire.phase = Phase.ANSWER
        if self._response_options is not None:
            # urllib3 warns about malformed headers with the URL, and a token may be part of that.
            self._response_options = self._response_options._replace(request_url="/")
        return super().getresponse()

    def close(self) -> None:
        """
        Close it. `Wire.end` closes the handle when somebody still reads.
        """
        super().close()
        self.wire.settle(self)

    def cut(self) -> None:
        """
        End both directions. Only under the wire's lock.
        """
        if self.handle is not None:
            # Not connected yet, or no longer: then there is nothing to end.
            with suppress(OSError):
                self.handle.shutdown(socket.SHUT_RDWR)

    def drop_handle(self) -> None:
        """
        Close the handle. Only under the wire's lock.
        """
        if self.handle is not None:
            self.handle.close()
            self.handle = None

    def abandon(self) -> None:
        """
        Close both files without a byte to the peer, and without the response's reader, whose lock a thread of the
        parent may hold for ever.
        """
        if self.handle is not None:
            self.handle.close()
            self.handle = None
        sock = self.sock
        while sock is not None and not hasattr(sock, "detach"):
            sock = getattr(sock, "socket", None)  # TLS within TLS
        if sock is not None:
            number = sock.detach()
            if number >= 0:
                os.close(number)


class TLSConnection(Connection, HTTPSConnection):
    """
    The same with TLS.
    """


_MAX_INTERIM: Final = 16


class _FinalResponse(http.client.HTTPResponse):
    """
    http.client passes over 100 alone; 102 and 103 would pass for final answers.
    """

    def begin(self) -> None:
        super().begin()
        for _ in range(_MAX_INTERIM):
            if not 100 < self.status < 200 or self.status == http.client.SWITCHING_PROTOCOLS:
                return
            self.headers = self.msg = None  # type: ignore[assignment]
            super().begin()
        raise http.client.HTTPException


Connection.response_class = _FinalResponse


class _Places:
    """
    What a pool keeps its connections in: as `queue.LifoQueue`, without its lock, for one thread uses it.

    urllib3 empties every pool when the interpreter ends, also in a child that was forked while the parent's thread
    held that lock: there it waited for ever. In a child nothing is in here.
    """

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._items: list[Any] = []
        self._pid = os.getpid()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._items or self._pid != os.getpid():
            raise queue.Empty
        return self._items.pop()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if len(self._items) >= self._maxsize:
            raise queue.Full
        self._items.append(item)

    def qsize(self) -> int:
        return len(self._items)


class _Pool(HTTPConnectionPool):
    wire: Wire
    ConnectionCls = Connection
    QueueCls: Any = _Places

    def _new_conn(self) -> Any:
        connection = super()._new_conn()
        connection.wire = self.wire  # type: ignore[attr-defined]
        return connection

    def _get_conn(self, timeout: float | None = None) -> Any:
        connection: Any = super()._get_conn(timeout)
        self.wire.adopt(connection)
        return connection


class _TLSPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = TLSConnection


POOLS: Final[dict[str, type[HTTPConnectionPool]]] = {"http": _Pool, "https": _TLSPool}
"""
For `urllib3.PoolManager.pool_classes_by_scheme`.
"""
