# SPDX-License-Identifier: Apache-2.0
"""
An HTTP server on loopback that misbehaves on demand and remembers every request::

    with MisbehavingServer([Answer(503), Answer.silent(), Answer(200, b"ok")]) as server:
        ...                                      # talk to server.url
        assert [1, 1, 2] == [request.connection for request in server.requests]

The *script* says what happens: a sequence of `Answer`, one for each request, after which there is a plain 200 for
all; or a function from the `Recorded` request to an `Answer`. What a sequence holds is known before the body is read,
so its answers can come early or cut the upload; a function sees the whole body first, unless *early* gave an answer
for the head.

Written for raw sockets, for every library between a test and the wire would behave.
"""

from __future__ import annotations

import enum
import gzip
import http
import queue
import socket
import ssl
import struct
import threading
import time

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import zstandard


@dataclass(frozen=True, slots=True)
class Recorded:
    """
    A request as it came over the wire.

    Args:
        method: As written.

        target: Path and query, or what else stands in the request line.

        headers: Lower-case names; of a repeated header the last value.

        head: The request line and all headers, raw.

        raw: The body as sent, as much of it as was read.

        peer_port: Tells connections apart, and processes.

        connection: The number of its connection, from 1.

        at: `time.monotonic` when its head had come.

        complete: Did all of the body come?
    """

    method: str
    target: str
    headers: Mapping[str, str]
    head: bytes
    raw: bytes
    peer_port: int
    connection: int
    at: float
    complete: bool = False

    @property
    def body(self) -> bytes:
        """
        The body, decompressed.
        """
        match self.headers.get("content-encoding", "identity"):
            case "gzip":
                return gzip.decompress(self.raw)
            case "zstd":
                return zstandard.ZstdDecompressor().decompressobj().decompress(self.raw)
            case _:
                return self.raw

    def header_values(self, name: str) -> list[str]:
        """
        All values of the header *name*, in their order.
        """
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        return [value.strip() for key, _, value in pairs if key.lower() == name.lower()]


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What the server does with one request.

    Args:
        status: Of the status line.

        body: Sent with a Content-Length, unless *headers* has one or it is *chunked*.

        headers: In addition; one named here replaces ours.

        delay: Seconds before the first byte.

        head_pace: Seconds before each byte of the head.

        body_pace: Seconds before each byte of the body.

        interim: Statuses of 1xx answers that go first.

        version: Of the status line. After ``HTTP/1.0`` the connection is closed.

        chunked: Send the body in chunks.

        close: Say ``Connection: close``, and do.

        vanish: Close after the answer without a word.

        cut: Send so many bytes of the answer, then close. None sends all.

        linger: Seconds between the answer and the end of the connection, without a byte read.

        reset: Where a connection is closed, do it with a reset.

        read: Read so many bytes of the body, then answer, without the rest. None reads all.

        hang: Send nothing, until the client or the test is done.

        raw: Send these bytes instead of an answer.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    head_pace: float = 0.0
    body_pace: float = 0.0
    interim: tuple[int, ...] = ()
    version: str = "HTTP/1.1"
    chunked: bool = False
    close: bool = False
    vanish: bool = False
    cut: int | None = None
    linger: float = 0.0
    reset: bool = False
    read: int | None = None
    hang: bool = False
    raw: bytes | None = None

    @classmethod
    def silent(cls) -> Self:
        """
        Read the request, never answer.
        """
        return cls(hang=True)

    @classmethod
    def deaf(cls) -> Self:
        """
        Never read the body, never answer.
        """
        return cls(read=0, hang=True)

    @classmethod
    def closed(cls) -> Self:
        """
        Read the request, close without an answer.
        """
        return cls(cut=0)

    @classmethod
    def reset_before(cls) -> Self:
        """
        Reset before the body is read.
        """
        return cls(read=0, cut=0, reset=True)

    @classmethod
    def reset_within(cls, read: int) -> Self:
        """
        Reset after *read* bytes of the body.
        """
        return cls(read=read, cut=0, reset=True)

    @classmethod
    def reset_after(cls) -> Self:
        """
        Read the request, reset without an answer.
        """
        return cls(cut=0, reset=True)

    @classmethod
    def half_line(cls) -> Self:
        """
        Half a status line, then the end.
        """
        return cls(cut=7)

    @classmethod
    def short(cls, body: bytes = b"abc") -> Self:
        """
        A Content-Length that is larger than what comes.
        """
        return cls(200, body, {"Content-Length": str(len(body) + 10)}, close=True)

    @classmethod
    def early(cls, status: int = 413, read: int = 65536) -> Self:
        """
        Answer with *status* after *read* bytes of the body, then close.
        """
        return cls(status, read=read, close=True)


class Welcome(enum.Enum):
    """
    What happens to a connection when it is accepted.
    """

    SERVE = "serve"
    SILENT = "silent"
    """Neither TLS nor HTTP: nothing is read, nothing is sent."""

    CLOSE = "close"
    RESET = "reset"


Script = Sequence[Answer] | Callable[[Recorded], Answer]


class MisbehavingServer:
    """
    Context manager; threads run between enter and exit.

    Args:
        script: What happens to requests, see above.

        early: Asked with the head alone; an `Answer` from it goes before the *script*.

        welcome: From the number of a connection to its `Welcome`.

        tls: Speak TLS with this context.

        idle: Close a connection that waits longer than so many seconds for its next request.

        host: Loopback address to listen on.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        early: Callable[[Recorded], Answer | None] | None = None,
        welcome: Callable[[int], Welcome] | None = None,
        tls: ssl.SSLContext | None = None,
        idle: float | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.script = script
        self.requests: list[Recorded] = []
        self.errors: list[BaseException] = []
        self.connections = 0
        self._early = early
        self._welcome = welcome
        self._tls = tls
        self._idle = idle
        self._host = host
        self._taken = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._arrived: queue.SimpleQueue[Recorded] = queue.SimpleQueue()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server((self._host, 0), backlog=128)
        self._listener.settimeout(0.5)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        with suppress(OSError):
            # On Linux this wakes the thread that waits for a connection; elsewhere its timeout does.
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._listener.close()
        if self.errors and error is None:
            raise self.errors[0]

    @property
    def url(self) -> str:
        """
        Scheme, host and port.
        """
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    def wait_for(self, count: int, timeout: float = 5.0) -> list[Recorded]:
        """
        The first *count* requests, once they have come.

        Raises:
            TimeoutError: Fewer came within *timeout* seconds.
        """
        deadline = time.monotonic() + timeout
        while len(self.requests) < count:
            try:
                self._arrived.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                msg = f"{len(self.requests)} of {count} requests after {timeout} s"
                raise TimeoutError(msg) from None
        return self.requests[:count]

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name="misbehaving-server", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                sock, address = self._listener.accept()
            except OSError:
                continue
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                self._open.add(sock)
            self._start(self._serve, sock, address[1], self.connections)

    def _serve(self, sock: socket.socket, peer_port: int, number: int) -> None:
        welcome = self._welcome(number) if self._welcome else Welcome.SERVE
        try:
            if welcome is Welcome.SILENT:
                self._over.wait()
            elif welcome is Welcome.SERVE:
                _Conversation(self, self._secure(sock), peer_port, number).run()
            elif welcome is Welcome.RESET:
                _close_with_reset(sock)
        except (OSError, _Gone):
            pass  # the client's doing, or the end of the test
        except BaseException as error:  # noqa: BLE001 - a broken script must fail the test, not this thread
            self.errors.append(error)
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()

    def _secure(self, sock: socket.socket) -> socket.socket:
        if self._tls is None:
            return sock
        secured = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.discard(sock)
            self._open.add(secured)
        try:
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured

    def _choose(self, request: Recorded) -> Answer | None:
        """
        What is known from the head alone.
        """
        if self._early is not None:
            answer = self._early(request)
            if answer is not None:
                return answer
        if callable(self.script):
            return None
        with self._lock:
            self._taken += 1
            return self.script[self._taken - 1] if self._taken <= len(self.script) else Answer()

    def _answer(self, request: Recorded) -> Answer:
        return self.script(request) if callable(self.script) else Answer()

    def _record(self, request: Recorded) -> None:
        with self._lock:
            self.requests.append(request)
        self._arrived.put(request)


class _Gone(Exception):  # noqa: N818
    """
    The conversation is over.
    """


class _Conversation:
    """
    The requests of one connection.
    """

    def __init__(self, server: MisbehavingServer, sock: socket.socket, peer_port: int, number: int) -> None:
        self._server = server
        self._sock = sock
        self._peer_port = peer_port
        self._number = number
        self._buffer = b""

    def run(self) -> None:
        """
        Until somebody closes.
        """
        try:
            while self._one():
                pass
        finally:
            # The socket that TLS took over is not the one that the server knows.
            self._sock.close()

    def _one(self) -> bool:
        request = self._read_head()
        answer = self._server._choose(request)
        length = int(request.headers.get("content-length", "0"))
        limit = length if answer is None or answer.read is None else min(answer.read, length)
        raw = self._read_body(limit)
        request = replace(request, raw=raw, complete=len(raw) == length)
        self._server._record(request)
        if answer is None:
            answer = self._server._answer(request)
        return self._give(answer, request)

    def _read_head(self) -> Recorded:
        self._sock.settimeout(self._server._idle)
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        self._sock.settimeout(None)
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, target, *_ = [*lines[0].split(" "), "", ""]
        headers = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
        return Recorded(method, target, headers, head, b"", self._peer_port, self._number, time.monotonic())

    def _read_body(self, length: int) -> bytes:
        with suppress(OSError, _Gone):
            while len(self._buffer) < length:
                self._receive()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return body

    def _receive(self) -> None:
        data = self._sock.recv(65536)
        if not data:
            raise _Gone
        self._buffer += data

    def _give(self, answer: Answer, request: Recorded) -> bool:
        """
        Carry *answer* out. Does the connection go on?
        """
        if answer.hang:
            self._server._over.wait()
            return False
        self._pause(answer.delay)
        for status in answer.interim:
            self._sock.sendall(f"HTTP/1.1 {status} Interim\r\nX-Interim: yes\r\n\r\n".encode())
        head, body = _encode(answer)
        if answer.cut is not None:
            head, body = head[: answer.cut], body[: max(answer.cut - len(head), 0)]
        self._send(head, answer.head_pace)
        self._send(body, answer.body_pace)
        ends = answer.close or answer.vanish or answer.cut is not None or answer.version == "HTTP/1.0"
        if not ends and request.complete and answer.raw is None:
            return True
        self._pause(answer.linger)
        if answer.reset:
            _close_with_reset(self._sock)
        return False

    def _send(self, data: bytes, pace: float) -> None:
        if not pace:
            self._sock.sendall(data)
            return
        for position in range(len(data)):
            self._pause(pace)
            self._sock.sendall(data[position : position + 1])

    def _pause(self, seconds: float) -> None:
        if seconds and self._server._over.wait(seconds):
            raise _Gone


def _encode(answer: Answer) -> tuple[bytes, bytes]:
    """
    Head and body as bytes.
    """
    if answer.raw is not None:
        return answer.raw, b""
    headers = {"Content-Length": str(len(answer.body))}
    body = answer.body
    if answer.chunked:
        headers = {"Transfer-Encoding": "chunked"}
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in _chunks(answer.body)) + b"0\r\n\r\n"
    if answer.version == "HTTP/1.0":
        headers = {}
    if answer.close:
        headers["Connection"] = "close"
    headers.update(answer.headers)
    try:
        reason = http.HTTPStatus(answer.status).phrase
    except ValueError:
        reason = "Odd"
    lines = [f"{answer.version} {answer.status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), body


def _chunks(body: bytes) -> list[bytes]:
    return [body[start : start + 1000] for start in range(0, len(body), 1000)]


def _close_with_reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def unused_port(host: str = "127.0.0.1") -> int:
    """
    A port on which nobody listens: connections are refused.
    """
    with socket.create_server((host, 0)) as listener:
        return int(listener.getsockname()[1])
