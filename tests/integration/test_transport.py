# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import gzip
import logging
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from opentelemetry import context as otel_context

from structbatch.core.http import Request, Response
from structbatch.errors import ConfigError, Fault, TransportError
from structbatch.transport._trust import CA_VARIABLES
from structbatch.transport._wire import Wire
from structbatch.transport.requests import RequestsTransport
from tests.support.certificates import Authority
from tests.support.server import Answer, MisbehavingServer, Recorded, Welcome, unused_port


class Clock:
    """
    Monotonic seconds that can be moved on.
    """

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.offset


@pytest.fixture(name="transport")
def _transport() -> Iterator[RequestsTransport]:
    with closing(RequestsTransport(proxy=None)) as transport:
        yield transport


@pytest.fixture(name="authority", scope="module")
def _authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def _no_certificates_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def post(url: str, body: bytes = b"{}", **headers: str) -> Request:
    """
    A request as a vendor makes it.
    """
    return Request(url, body, {"Content-Type": "application/json", **headers})


def fault_of(transport: RequestsTransport, request: Request, timeout: float = 2.0) -> TransportError:
    """
    The error that *request* ends in.
    """
    with pytest.raises(TransportError) as caught:
        transport.send(request, timeout)
    return caught.value


@contextmanager
def aborted_after(transport: RequestsTransport, seconds: float) -> Iterator[None]:
    """
    As the engine's watch does it.
    """
    timer = threading.Timer(seconds, transport.abort)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


class TestAnswers:
    def test_request_on_the_wire(self, transport: RequestsTransport) -> None:
        """
        The bytes of a request: exact Content-Length, our User-Agent, nothing chunked, no Expect, no Cookie.
        """
        body = gzip.compress(b'{"message":"hi"}')
        with MisbehavingServer([Answer(202, b"ok", {"X-Thing": "1"})]) as server:
            response = transport.send(
                post(server.url + "/in/gest?a=b%20c", body, **{"Content-Encoding": "gzip", "DD-API-KEY": "k"}), 5
            )
            got = server.requests[0]

        assert (202, b"ok", "1") == (response.status, response.body, response.headers["x-thing"])
        assert ("POST", "/in/gest?a=b%20c", b'{"message":"hi"}') == (got.method, got.target, got.body)
        assert [str(len(body))] == got.header_values("content-length")
        assert "k" == got.headers["dd-api-key"]
        assert "identity" == got.headers["accept-encoding"]
        assert got.headers["user-agent"].startswith("structbatch/")
        assert f"127.0.0.1:{server.port}" == got.headers["host"]
        assert not {"transfer-encoding", "expect", "cookie", "authorization"} & set(got.headers)

    def test_vendor_headers_win(self, transport: RequestsTransport) -> None:
        """
        A vendor's own User-Agent replaces ours; what frames the message stays ours.
        """
        headers = {
            "user-agent": "mine",
            "Transfer-Encoding": "chunked",
            "Content-Length": "7",
            "Expect": "100-continue",
        }
        with MisbehavingServer() as server:
            transport.send(Request(server.url, b"12345", headers), 5)
            got = server.requests[0]

        assert ["mine"] == got.header_values("user-agent")
        assert ["5"] == got.header_values("content-length")
        assert [] == got.header_values("expect") + got.header_values("transfer-encoding")

    def test_headers_and_body_vary(self, transport: RequestsTransport) -> None:
        """
        What is prepared once does not leak into the next request.
        """
        with MisbehavingServer() as server:
            transport.send(post(server.url, b"a" * 10, **{"X-One": "1"}), 5)
            transport.send(post(server.url, bytearray(b"bb"), **{"X-Two": "2"}), 5)  # type: ignore[arg-type]
            transport.send(Request(server.url, b"", method="PUT"), 5)
            first, second, third = server.requests

        assert ("1", None) == (first.headers.get("x-one"), first.headers.get("x-two"))
        assert (None, "2", b"bb") == (second.headers.get("x-one"), second.headers.get("x-two"), second.body)
        assert ("PUT", b"", "0") == (third.method, third.body, third.headers["content-length"])

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirects_are_answers(self, transport: RequestsTransport, status: int) -> None:
        """
        No redirect is followed: it could turn a POST into an empty GET, or carry a token elsewhere.
        """
        with MisbehavingServer([Answer(status, headers={"Location": "/elsewhere"})]) as server:
            response = transport.send(post(server.url), 5)

        assert (status, "/elsewhere") == (response.status, response.headers["location"])
        assert 1 == len(server.requests)

    def test_no_cookies_no_netrc(
        self, transport: RequestsTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Cookies are not kept, and ``.netrc`` is not asked for credentials.
        """
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password secret\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        with MisbehavingServer(lambda _: Answer(headers={"Set-Cookie": "a=1; Path=/"})) as server:
            for _ in range(3):
                transport.send(post(server.url), 5)

        assert [] == [r for r in server.requests if {"cookie", "authorization"} & set(r.headers)]

    @pytest.mark.parametrize("interim", [(100,), (102, 103), (100, 103, 100)])
    def test_interim_answers(self, transport: RequestsTransport, interim: tuple[int, ...]) -> None:
        """
        1xx answers are passed over, and the connection stays in step.
        """
        with MisbehavingServer(lambda _: Answer(201, b"done", interim=interim)) as server:
            statuses = [transport.send(post(server.url), 5).status for _ in range(2)]

        assert [201, 201] == statuses
        assert 1 == server.connections

    def test_endless_interim_answers(self, transport: RequestsTransport) -> None:
        """
        A server that never comes to its final answer is none.
        """
        with MisbehavingServer([Answer(interim=(103,) * 50)]) as server:
            error = fault_of(transport, post(server.url))

        assert Fault.PROTOCOL is error.fault

    @pytest.mark.parametrize("answer", [Answer(200, b"x" * 5000), Answer(200, b"x" * 5000, chunked=True), Answer(204)])
    def test_drained_and_reused(self, transport: RequestsTransport, answer: Answer) -> None:
        """
        An answer is read to its end, so that the connection serves again.
        """
        with MisbehavingServer(lambda _: answer) as server:
            bodies = [transport.send(post(server.url), 5).body for _ in range(10)]

        assert [answer.body] * 10 == bodies
        assert 1 == server.connections

    def test_huge_answer(self, transport: RequestsTransport) -> None:
        """
        At most 64 KiB of an answer is read; the connection with the rest is given up.
        """
        with MisbehavingServer([Answer(200, b"x" * 20_000_000), Answer(200, b"y" * 65536)]) as server:
            first = transport.send(post(server.url), 5)
            second = transport.send(post(server.url), 5)

        assert (b"x" * 65536, b"y" * 65536) == (first.body, second.body)
        assert [1, 2] == [r.connection for r in server.requests]

    def test_bomb(self, transport: RequestsTransport) -> None:
        """
        The limit counts decoded bytes, though nobody asked for an encoding.
        """
        bomb = gzip.compress(b"\0" * 20_000_000)
        with MisbehavingServer([Answer(200, bomb, {"Content-Encoding": "gzip"})]) as server:
            response = transport.send(post(server.url), 5)

        assert b"\0" * 65536 == response.body

    @pytest.mark.parametrize("answer", [Answer(200, b"ok", version="HTTP/1.0"), Answer(200, b"ok", close=True)])
    def test_connection_close(self, transport: RequestsTransport, answer: Answer) -> None:
        """
        HTTP/1.0 and ``Connection: close``: a new connection each time, no errors.
        """
        with MisbehavingServer(lambda _: answer) as server:
            bodies = [transport.send(post(server.url), 5).body for _ in range(3)]

        assert [b"ok"] * 3 == bodies
        assert [1, 2, 3] == [r.connection for r in server.requests]

    @pytest.mark.parametrize("size", [300_000, 5_000_000])
    @pytest.mark.parametrize("linger", [0.0, 3.0])
    def test_early_answer(self, transport: RequestsTransport, size: int, linger: float) -> None:
        """
        A refusal in the middle of the upload is the answer, not a broken pipe; a server that keeps the
        connection open without reading does not hold us up.
        """
        started = time.monotonic()
        early = Answer(413, b"too large", read=65536, close=True, linger=linger)
        with MisbehavingServer([early]) as server:
            response = transport.send(post(server.url, os.urandom(size)), 5)
            took = time.monotonic() - started
            transport.send(post(server.url), 5)

        assert (413, b"too large") == (response.status, response.body)
        assert took < 2
        assert [1, 2] == [r.connection for r in server.requests]

    @pytest.mark.parametrize("linger", [0.0, 3.0])
    def test_early_success(self, transport: RequestsTransport, linger: float) -> None:
        """
        A 200 in the middle of the upload delivers nothing: the server cannot have what it did not read.
        """
        with MisbehavingServer([Answer(200, read=65536, close=True, linger=linger)]) as server:
            error = fault_of(transport, post(server.url, os.urandom(5_000_000)))

        assert Fault.UPLOAD_RESET is error.fault

    def test_early_answer_tls(self, authority: Authority) -> None:
        """
        The same under TLS, where the connection must break first.
        """
        with (
            MisbehavingServer([Answer.early(401)], tls=authority.server_context()) as server,
            closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport,
        ):
            response = transport.send(post(server.url, os.urandom(5_000_000)), 5)

        assert 401 == response.status

    def test_large_upload(self, transport: RequestsTransport) -> None:
        """
        A body that is written piece by piece arrives whole, also when an interim answer comes meanwhile.
        """
        body = os.urandom(5_000_000)

        def interim(request: Recorded) -> Answer:
            return Answer(200, request.body[-3:], interim=(100,))

        with MisbehavingServer(interim) as server:
            response = transport.send(post(server.url, body), 5)
            got = server.requests[0].raw

        assert body == got
        assert body[-3:] == response.body


class TestFaults:
    @pytest.mark.parametrize(
        ("answer", "fault"),
        [
            (Answer.closed(), Fault.RESET),
            (Answer.reset_after(), Fault.RESET),
            (Answer.half_line(), Fault.PROTOCOL),
            (Answer.short(), Fault.PROTOCOL),
            (Answer(raw=b"220 smtp.example.com ESMTP\r\n"), Fault.PROTOCOL),
            (Answer(200, b"not gzip", {"Content-Encoding": "gzip"}), Fault.PROTOCOL),
            (Answer(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), Fault.PROTOCOL),
            (Answer(200, b"x" * 100, cut=60, reset=True), Fault.RESET),
        ],
    )
    def test_broken_answers(self, transport: RequestsTransport, answer: Answer, fault: Fault) -> None:
        """
        Every way in which an answer fails has its word, and the next request goes through.
        """
        with MisbehavingServer([answer]) as server:
            error = fault_of(transport, post(server.url))
            after = transport.send(post(server.url), 5)

        assert (fault, 200) == (error.fault, after.status)
        assert [1, 2] == [r.connection for r in server.requests]

    @pytest.mark.parametrize("tls", [False, True])
    @pytest.mark.parametrize("answer", [Answer.reset_within(100_000), Answer(read=100_000, cut=0)])
    def test_upload_reset(self, authority: Authority, answer: Answer, *, tls: bool) -> None:
        """
        An upload that breaks is told from an answer that does not come: a smaller one may pass.
        """
        context = authority.server_context() if tls else None
        with (
            MisbehavingServer([answer], tls=context) as server,
            closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport,
        ):
            error = fault_of(transport, post(server.url, os.urandom(20_000_000)))

        assert Fault.UPLOAD_RESET is error.fault

    def test_refused(self, transport: RequestsTransport) -> None:
        """
        Nobody listens.
        """
        error = fault_of(transport, post(f"http://127.0.0.1:{unused_port()}/"))

        assert (Fault.CONNECT, os.strerror(errno.ECONNREFUSED)) == (error.fault, error.detail)

    @pytest.mark.parametrize(
        "problem",
        [
            socket.gaierror(socket.EAI_NONAME, "x"),
            socket.gaierror(socket.EAI_AGAIN, "x"),
            UnicodeError("label too long"),
        ],
    )
    def test_dns(self, transport: RequestsTransport, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
        """
        A name that cannot be looked up, now or ever, is not remembered.
        """

        def fail(*_: object) -> None:
            raise problem

        with MisbehavingServer() as server:
            url = f"http://localhost:{server.port}/"
            with monkeypatch.context() as patch:
                patch.setattr(socket, "getaddrinfo", fail)
                error = fault_of(transport, post(url))
            after = transport.send(post(url), 5)

        assert (Fault.DNS, 200) == (error.fault, after.status)

    def test_next_address(self, transport: RequestsTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A dead first address leaves time for the second, within the timeout of the request.
        """
        with MisbehavingServer() as server, black_hole() as dead:
            resolve_to(monkeypatch, dead, server.port)
            started = time.monotonic()
            response = transport.send(post("http://somewhere.test/"), 1)
            took = time.monotonic() - started

        assert 200 == response.status
        assert 0.4 < took < 0.95

    def test_no_address_answers(self, transport: RequestsTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        All addresses together get the timeout once.
        """
        with black_hole() as dead:
            resolve_to(monkeypatch, dead, dead, dead)
            started = time.monotonic()
            error = fault_of(transport, post("http://somewhere.test/"), timeout=0.6)
            took = time.monotonic() - started

        assert Fault.CONNECT is error.fault
        assert 0.5 < took < 1.0

    @pytest.mark.parametrize("url", ["", "nonsense", "http://", "http://h:port/", "ftp://127.0.0.1/", "http://*/"])
    def test_bad_url(self, transport: RequestsTransport, url: str) -> None:
        """
        A URL that cannot be asked is an error like any other, not a surprise for the sender.
        """
        error = fault_of(transport, post(url))

        assert Fault.PROTOCOL is error.fault

    def test_bad_header(self, transport: RequestsTransport) -> None:
        """
        A token with a newline breaks no request apart, and is not shown.
        """
        with MisbehavingServer() as server:
            error = fault_of(transport, post(server.url, Authorization="Bearer s3cr3t\r\nX-Evil: 1"))

        assert (Fault.PROTOCOL, 0) == (error.fault, len(server.requests))
        assert "authorization" in str(error)
        assert "s3cr3t" not in str(error)


@contextmanager
def black_hole() -> Iterator[int]:
    """
    A port where connections neither succeed nor fail.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        time.sleep(0.05)
        try:
            yield port
        finally:
            for filler in fillers:
                filler.close()


def resolve_to(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """
    Every name has these ports of loopback for addresses.
    """
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)


BIG = 20_000_000


class TestAbort:
    @pytest.mark.parametrize(
        ("answer", "size"),
        [
            (Answer.silent(), 10),
            (Answer.deaf(), BIG),
            (Answer(200, b"x" * 100, head_pace=0.05), 10),
            (Answer(200, b"x" * 100, body_pace=0.05), 10),
            (Answer(200, b"x" * 100, body_pace=0.05, close=True), 10),
            (Answer(200, b"x" * 100, body_pace=0.05, version="HTTP/1.0"), 10),
            (Answer(200, b"x" * 100, body_pace=0.05, chunked=True), 10),
        ],
    )
    @pytest.mark.parametrize("tls", [False, True])
    @pytest.mark.parametrize(("timeout", "fault"), [(0.15, Fault.TIMEOUT), (30, Fault.ABORTED)])
    def test_at_any_moment(
        self, authority: Authority, answer: Answer, size: int, timeout: float, fault: Fault, *, tls: bool
    ) -> None:
        """
        An abort ends the request at once, whatever it is doing; the next one goes through.
        """
        context = authority.server_context() if tls else None
        with (
            MisbehavingServer([answer], tls=context) as server,
            closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport,
        ):
            request = post(server.url, bytes(size))
            started = time.monotonic()
            with aborted_after(transport, 0.15):
                error = fault_of(transport, request, timeout)
            took = time.monotonic() - started
            after = transport.send(post(server.url), 5)

        assert (fault, 200) == (error.fault, after.status)
        assert took < 1.5

    @pytest.mark.parametrize(("timeout", "fault"), [(0.15, Fault.CONNECT), (30, Fault.ABORTED)])
    def test_during_handshake(self, authority: Authority, timeout: float, fault: Fault) -> None:
        """
        During the TLS handshake too; past the deadline that is a connection that did not come about.
        """
        welcome: Callable[[int], Welcome] = lambda number: Welcome.SILENT if number == 1 else Welcome.SERVE  # noqa: E731
        with (
            MisbehavingServer(welcome=welcome, tls=authority.server_context()) as server,
            closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport,
        ):
            with aborted_after(transport, 0.15):
                error = fault_of(transport, post(server.url), timeout)
            after = transport.send(post(server.url), 5)

        assert (fault, 200) == (error.fault, after.status)

    def test_during_connect(self, transport: RequestsTransport) -> None:
        """
        While connecting.
        """
        started = time.monotonic()
        with black_hole() as port, aborted_after(transport, 0.15):
            error = fault_of(transport, post(f"http://127.0.0.1:{port}/"), 30)

        assert Fault.ABORTED is error.fault
        assert time.monotonic() - started < 1.5

    def test_between_socket_and_connect(self, transport: RequestsTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        One that comes when there is a socket but nothing to shut down yet is not forgotten.
        """
        hold = Wire._hold

        def hold_and_abort(wire: Wire, *held: Any) -> None:
            hold(wire, *held)
            transport.abort()

        monkeypatch.setattr(Wire, "_hold", hold_and_abort)
        started = time.monotonic()
        with MisbehavingServer([Answer.silent()]) as server:
            error = fault_of(transport, post(server.url), 30)
            took = time.monotonic() - started

        assert Fault.ABORTED is error.fault
        assert took < 5

    def test_during_lookup(self, transport: RequestsTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A look-up cannot be interrupted, but nothing is connected after it.
        """
        with MisbehavingServer() as server:
            found = socket.getaddrinfo("127.0.0.1", server.port, type=socket.SOCK_STREAM)

            def slow(*_: object) -> object:
                transport.abort()
                return found

            monkeypatch.setattr(socket, "getaddrinfo", slow)
            error = fault_of(transport, post("http://somewhere.test/"), 30)

        assert (Fault.ABORTED, 0) == (error.fault, server.connections)

    def test_between_requests(self, transport: RequestsTransport) -> None:
        """
        An abort that comes late hits nobody: neither the next request nor the idle connection.
        """
        with MisbehavingServer() as server:
            transport.abort()
            statuses = []
            for _ in range(3):
                statuses.append(transport.send(post(server.url), 5).status)
                transport.abort()

        assert [200, 200, 200] == statuses
        assert 1 == server.connections

    def test_storm(self, transport: RequestsTransport) -> None:
        """
        Aborts at random moments: each request succeeds or raises ABORTED, none hangs, none is cut by an old abort.
        """
        over = threading.Event()

        def storm() -> None:
            while not over.wait(0.0007):
                transport.abort()

        outcomes = set()
        with MisbehavingServer() as server:
            thread = threading.Thread(target=storm)
            thread.start()
            for _ in range(300):
                try:
                    outcomes.add(transport.send(post(server.url), 5).status)
                except TransportError as error:
                    outcomes.add(error.fault)
            over.set()
            thread.join()
            last = transport.send(post(server.url), 5)

        assert outcomes <= {200, Fault.ABORTED}
        assert 200 == last.status

    @pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts files where Linux lists them")
    def test_files_do_not_leak(self, transport: RequestsTransport) -> None:
        """
        Every way out closes the socket and its duplicate.
        """
        answers = [Answer.closed(), Answer.half_line(), Answer(503), Answer(close=True), Answer.short(), Answer()]
        with MisbehavingServer(answers * 5) as server:
            before = sockets()
            for _ in range(30):
                with suppress(TransportError):
                    transport.send(post(server.url), 5)
            transport.close()
            # The server, in this very process, needs a moment to see it.
            wait_until(lambda: sockets() <= before)
            left = sockets() - before

        assert set() == left


def sockets() -> set[str]:
    """
    This process's sockets.
    """
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return {name for name in found if name.startswith("socket:")}


def wait_until(condition: Callable[[], bool], timeout: float = 3.0) -> None:
    """
    Until *condition* holds, or *timeout* seconds are over.
    """
    deadline = time.monotonic() + timeout
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


class TestTimeout:
    @pytest.mark.parametrize(("answer", "size"), [(Answer.silent(), 10), (Answer.deaf(), BIG)])
    @pytest.mark.parametrize("tls", [False, True])
    def test_without_watch(self, authority: Authority, answer: Answer, size: int, *, tls: bool) -> None:
        """
        A server that stalls is left by the socket's own timeout, should nobody call abort.
        """
        context = authority.server_context() if tls else None
        with (
            MisbehavingServer([answer], tls=context) as server,
            closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport,
        ):
            started = time.monotonic()
            error = fault_of(transport, post(server.url, bytes(size)), 0.4)
            took = time.monotonic() - started

        assert Fault.TIMEOUT is error.fault
        assert took < 1.5


class TestReuse:
    def test_stale(self, transport: RequestsTransport) -> None:
        """
        A connection that the server closed meanwhile is replaced without an error.
        """
        with MisbehavingServer(idle=0.1) as server:
            statuses = []
            for _ in range(4):
                statuses.append(transport.send(post(server.url), 5).status)
                time.sleep(0.25)

        assert [200] * 4 == statuses
        assert 4 == len(server.requests)

    @pytest.mark.parametrize("answer", [Answer.closed(), Answer.reset_after(), Answer.reset_before()])
    def test_stale_race(self, transport: RequestsTransport, answer: Answer) -> None:
        """
        One that dies just as it is used again is replaced at once, once.
        """
        with MisbehavingServer([Answer(), answer]) as server:
            statuses = [transport.send(post(server.url), 5).status for _ in range(2)]

        assert [200, 200] == statuses
        assert [1, 1, 2] == [r.connection for r in server.requests]

    def test_stale_once_only(self, transport: RequestsTransport) -> None:
        """
        The second connection's failure is an error, and so is that of a first one.
        """
        with MisbehavingServer([Answer(), Answer.closed(), Answer.closed(), Answer.closed()]) as server:
            transport.send(post(server.url), 5)
            faults = [fault_of(transport, post(server.url)).fault for _ in range(2)]

        assert [Fault.RESET, Fault.RESET] == faults
        assert [1, 1, 2, 3] == [r.connection for r in server.requests]

    def test_begun_answer_is_not_repeated(self, transport: RequestsTransport) -> None:
        """
        Once an answer has begun, a broken connection is not stale.
        """
        with MisbehavingServer([Answer(), Answer(200, b"x" * 100, cut=60, reset=True)]) as server:
            transport.send(post(server.url), 5)
            error = fault_of(transport, post(server.url))

        assert (Fault.RESET, 2) == (error.fault, len(server.requests))

    @pytest.mark.parametrize(("seconds", "connections"), [(50, [1, 1]), (56, [1, 2])])
    def test_idle_limit(self, seconds: float, connections: list[int]) -> None:
        """
        A connection that was idle for 55 s is not trusted: somewhere a table may have forgotten it.
        """
        clock = Clock()
        with MisbehavingServer() as server, closing(RequestsTransport(proxy=None, clock=clock)) as transport:
            transport.send(post(server.url), 5)
            clock.offset += seconds
            transport.send(post(server.url), 5)

        assert connections == [r.connection for r in server.requests]

    def test_max_age(self) -> None:
        """
        A busy connection is replaced after 300 s, so that the name is looked up again.
        """
        clock = Clock()
        with MisbehavingServer() as server, closing(RequestsTransport(proxy=None, clock=clock)) as transport:
            for _ in range(8):
                transport.send(post(server.url), 5)
                clock.offset += 50

        assert [1] * 6 + [2] * 2 == [r.connection for r in server.requests]

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_sick_backend(self, transport: RequestsTransport, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
        """
        After a 5xx or 429 the name is looked up again: the next server may be well.
        """
        with MisbehavingServer(lambda _: Answer(status, b"busy")) as sick, MisbehavingServer() as well:
            resolve_to(monkeypatch, sick.port)
            first = transport.send(post("http://somewhere.test/"), 5)
            resolve_to(monkeypatch, well.port)
            second = transport.send(post("http://somewhere.test/"), 5)

        assert (status, b"busy", 200) == (first.status, first.body, second.status)

    def test_socket_options(self, transport: RequestsTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        TCP keep-alive is on, and small packets are not held back.
        """
        options = []
        original = socket.socket.connect

        def connect(self: socket.socket, address: object) -> None:
            options.append(
                (
                    bool(self.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)),
                    bool(self.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)),
                )
            )
            original(self, address)  # type: ignore[arg-type]

        monkeypatch.setattr(socket.socket, "connect", connect)
        with MisbehavingServer() as server:
            transport.send(post(server.url), 5)

        assert [(True, True)] == options

    def test_many_urls(self, transport: RequestsTransport) -> None:
        """
        URLs that differ in their query share a connection, however many there are.
        """
        with MisbehavingServer() as server:
            for number in range(40):
                transport.send(post(f"{server.url}/?dedup={number}"), 5)

        assert [f"/?dedup={number}" for number in range(40)] == [r.target for r in server.requests]
        assert 1 == server.connections

    def test_send_after_close(self, transport: RequestsTransport) -> None:
        """
        A closed transport opens new connections.
        """
        with MisbehavingServer() as server:
            transport.send(post(server.url), 5)
            transport.close()
            transport.close()
            response = transport.send(post(server.url), 5)

        assert (200, 2) == (response.status, server.connections)


class TestTLS:
    def test_explicit_bundle_beats_environment(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """
        *ca_bundle* wins over ``REQUESTS_CA_BUNDLE``, in both directions; a refused certificate is a fault of its own.
        """
        stranger = Authority(tmp_path, "stranger")
        with MisbehavingServer(tls=authority.server_context()) as server:
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", stranger.ca_bundle)
            with closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport:
                response = transport.send(post(server.url), 5)
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", authority.ca_bundle)
            with closing(RequestsTransport(ca_bundle=stranger.ca_bundle, proxy=None)) as transport:
                error = fault_of(transport, post(server.url))

        assert (200, Fault.CERTIFICATE) == (response.status, error.fault)
        assert "unable to get local issuer certificate" in error.detail

    @pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
    def test_environment(self, authority: Authority, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        """
        Without *ca_bundle* the environment decides whom to trust; without either a private authority is refused.
        """
        with MisbehavingServer(tls=authority.server_context()) as server:
            with closing(RequestsTransport(proxy=None)) as transport:
                error = fault_of(transport, post(server.url))
            monkeypatch.setenv(variable, authority.ca_bundle)
            with closing(RequestsTransport(proxy=None)) as transport:
                response = transport.send(post(server.url), 5)

        assert (Fault.CERTIFICATE, 200) == (error.fault, response.status)

    def test_environment_names_nothing(self, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A variable that names a missing file says so at the first TLS connection, and does not disturb plain HTTP.
        """
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
        with (
            MisbehavingServer() as plain,
            MisbehavingServer(tls=authority.server_context()) as secure,
            closing(RequestsTransport(proxy=None)) as transport,
        ):
            response = transport.send(post(plain.url), 5)
            error = fault_of(transport, post(secure.url))

        assert (200, Fault.CERTIFICATE) == (response.status, error.fault)
        assert "REQUESTS_CA_BUNDLE" in error.detail

    def test_wrong_name_and_expired(self, authority: Authority) -> None:
        """
        The name in the certificate is checked.
        """
        with (
            MisbehavingServer(tls=authority.server_context("other.test")) as server,
            closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport,
        ):
            error = fault_of(transport, post(server.url))

        assert Fault.CERTIFICATE is error.fault

    def test_client_certificate(self, authority: Authority) -> None:
        """
        A server that asks for a certificate gets ours; one that refuses what it gets is a matter of certificates.
        """
        ours = authority.issue("client.test")
        context = authority.server_context(client_ca=authority)
        with MisbehavingServer(tls=context) as server:
            with closing(
                RequestsTransport(ca_bundle=authority.ca_bundle, client_cert=(ours.cert, ours.key), proxy=None)
            ) as transport:
                response = transport.send(post(server.url), 5)
            with closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport:
                error = fault_of(transport, post(server.url))

        assert (200, Fault.CERTIFICATE) == (response.status, error.fault)

    def test_replaced_bundle(self, authority: Authority, tmp_path: Path) -> None:
        """
        After a refused certificate the files are read again: a person may have mended them.
        """
        bundle = tmp_path / "ca.pem"
        bundle.write_bytes(Path(Authority(tmp_path, "old").ca_bundle).read_bytes())
        with (
            MisbehavingServer(tls=authority.server_context()) as server,
            closing(RequestsTransport(ca_bundle=str(bundle), proxy=None)) as transport,
        ):
            error = fault_of(transport, post(server.url))
            bundle.write_bytes(Path(authority.ca_bundle).read_bytes())
            response = transport.send(post(server.url), 5)

        assert (Fault.CERTIFICATE, 200) == (error.fault, response.status)

    def test_plain_port(self, authority: Authority) -> None:
        """
        TLS to a port that speaks plain HTTP is no certificate's fault.
        """
        with (
            MisbehavingServer(early=lambda _: Answer(400)) as server,
            closing(RequestsTransport(ca_bundle=authority.ca_bundle, proxy=None)) as transport,
        ):
            error = fault_of(transport, post(server.url.replace("http://", "https://")), timeout=0.5)

        assert error.fault in {Fault.PROTOCOL, Fault.CONNECT}


class TestProxy:
    def test_forward(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Plain HTTP goes to the proxy as a whole URL, with its credentials and without a detour of the environment.
        """
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        with MisbehavingServer() as server:
            proxy = server.url.replace("http://", "http://me:pr0xy@")
            with closing(RequestsTransport(proxy=proxy)) as transport:
                response = transport.send(post("http://target.test/in?x=1"), 5)
            got = server.requests[0]

        assert (200, "http://target.test/in?x=1") == (response.status, got.target)
        assert "Basic bWU6cHIweHk=" == got.headers["proxy-authorization"]

    @pytest.mark.parametrize(
        ("no_proxy", "direct"),
        [
            ("127.0.0.1", True),
            ("127.0.0.0/8", True),
            ("*", True),
            ("localhost", False),
            (".example", False),
            ("", False),
        ],
    )
    def test_environment(self, monkeypatch: pytest.MonkeyPatch, no_proxy: str, *, direct: bool) -> None:
        """
        By default the environment decides, exceptions included.
        """
        with MisbehavingServer() as sink, MisbehavingServer() as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.setenv("NO_PROXY", no_proxy)
            monkeypatch.setenv("no_proxy", no_proxy)
            with closing(RequestsTransport()) as transport:
                transport.send(post(sink.url), 5)

        assert (direct, not direct) == (bool(sink.requests), bool(proxy.requests))

    def test_none_ignores_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        ``proxy=None`` goes straight.
        """
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        with MisbehavingServer() as sink, closing(RequestsTransport(proxy=None)) as transport:
            response = transport.send(post(sink.url), 5)

        assert 200 == response.status

    @pytest.mark.parametrize(("status", "outcome"), [(407, 407), (502, Fault.CONNECT)])
    def test_refused_tunnel(self, authority: Authority, status: int, outcome: object) -> None:
        """
        A proxy that wants credentials says so as an answer; any other refusal is a connection that failed.
        """
        words = ""
        with MisbehavingServer([Answer(status, close=True)]) as server:
            proxy = server.url.replace("http://", "http://me:pr0xy@")
            with closing(RequestsTransport(proxy=proxy, ca_bundle=authority.ca_bundle)) as transport:
                try:
                    found: object = transport.send(post("https://target.test/t0ken"), 5).status
                except TransportError as error:
                    found, words = error.fault, str(error)

        assert outcome == found
        assert "pr0xy" not in words
        assert ("CONNECT", "target.test:443") == (server.requests[0].method, server.requests[0].target)

    def test_tunnel(self, authority: Authority) -> None:
        """
        TLS goes through a tunnel, and the proxy sees neither path nor headers.
        """
        with (
            MisbehavingServer(tls=authority.server_context()) as sink,
            tunnel(sink.port) as (proxy, heads),
            closing(RequestsTransport(proxy=proxy, ca_bundle=authority.ca_bundle)) as transport,
        ):
            statuses = [transport.send(post(sink.url + "/t0ken", Authorization="k"), 5).status for _ in range(2)]

        assert [200, 200] == statuses
        assert 1 == len(heads)
        assert b"t0ken" not in heads[0]
        assert b"Authorization: k" not in heads[0]


@contextmanager
def tunnel(port: int) -> Iterator[tuple[str, list[bytes]]]:
    """
    A proxy that opens one tunnel, to *port*; its URL, and the heads of the requests that it got.
    """
    heads: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        client, _ = listener.accept()
        with client, socket.create_connection(("127.0.0.1", port)) as sink:
            heads.append(client.recv(65536))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            other = threading.Thread(target=pump, args=(sink, client), daemon=True)
            other.start()
            pump(client, sink)
            other.join(5)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heads
    finally:
        thread.join(5)
        listener.close()


TOKEN = "t0kent0kent0kent0kent0ken"


class TestSecrets:
    @pytest.mark.parametrize("path", [f"/inputs/{TOKEN}", f"/in?api_key={TOKEN}"])
    def test_refused_connection(self, path: str, caplog: pytest.LogCaptureFixture) -> None:
        """
        Neither the error, nor what it was made from, nor a warning of a library shows a token.
        """
        caplog.set_level(logging.INFO)
        port = unused_port()
        request = post(f"http://me:{TOKEN}@127.0.0.1:{port}{path}", Authorization=f"Bearer {TOKEN}")
        with closing(RequestsTransport(proxy=f"http://u:{TOKEN}@127.0.0.1:{port}")) as transport:
            error = fault_of(transport, request)

        assert (None, None) == (error.__cause__, error.__context__)
        assert "t0ken" not in f"{error} {error!r} {error.args} {transport!r} {request!r} {caplog.text}"

    def test_malformed_headers(self, transport: RequestsTransport, caplog: pytest.LogCaptureFixture) -> None:
        """
        urllib3 warns about odd headers of an answer: without the URL.
        """
        answer = Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nno colon here\r\n\r\n")
        caplog.set_level(logging.INFO)
        with MisbehavingServer([answer]) as server:
            response = transport.send(post(server.url + f"/{TOKEN}"), 5)

        assert 200 == response.status
        assert "t0ken" not in caplog.text

    def test_debug_log(self, transport: RequestsTransport) -> None:
        """
        It works just as well while urllib3 logs all it can.
        """
        logger = logging.getLogger("urllib3")
        level = logger.level
        logger.setLevel(logging.DEBUG)
        try:
            with MisbehavingServer([Answer(), Answer.closed()]) as server:
                statuses = [transport.send(post(server.url), 5).status for _ in range(2)]
        finally:
            logger.setLevel(level)

        assert [200, 200] == statuses


class TestInstrumentation:
    def test_suppressed_within_only(self, transport: RequestsTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        HTTP instrumentations see the key that stops them while we send, and nobody sees it afterwards.
        """
        keys = ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY")
        seen = []
        original = socket.socket.connect

        def connect(self: socket.socket, address: object) -> None:
            seen.extend(otel_context.get_value(getattr(otel_context, key)) for key in keys)
            original(self, address)  # type: ignore[arg-type]

        monkeypatch.setattr(socket.socket, "connect", connect)
        with MisbehavingServer() as server:
            transport.send(post(server.url), 5)

        assert [True, True] == seen
        assert [None, None] == [otel_context.get_value(getattr(otel_context, key)) for key in keys]


FORKS = """
    import os, sys
    from structbatch.core.http import Request
    from structbatch.transport.requests import RequestsTransport

    url, ca_bundle = sys.argv[1:]
    transport = RequestsTransport(ca_bundle=ca_bundle or None, proxy=None)

    def post(path):
        request = Request(url + path, b"{}", {"X-Pid": str(os.getpid())})
        assert transport.send(request, 10).status == 200

    post("/")
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            transport.abort()
            for _ in range(20):
                post("/")
            transport.close()
            os._exit(0)
        children.append(pid)
    for _ in range(20):
        post("/")
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    pid = os.fork()
    if pid == 0:
        transport.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    post("/last")
"""


class TestFork:
    @pytest.mark.parametrize("tls", [False, True])
    def test_children_open_their_own(self, authority: Authority, *, tls: bool) -> None:
        """
        No connection carries two processes, all requests arrive, and the parent's connection serves to the end,
        whatever its children close or abort.
        """
        context = authority.server_context() if tls else None
        with MisbehavingServer(tls=context) as server:
            done = subprocess.run(
                [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(FORKS), server.url, authority.ca_bundle],
                check=False,
                capture_output=True,
                text=True,
                timeout=30,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
            requests = list(server.requests)

        pids: dict[int, set[str]] = {}
        for request in requests:
            pids.setdefault(request.connection, set()).add(request.headers["x-pid"])
        assert (0, "") == (done.returncode, done.stderr)
        assert 1 + 5 * 20 + 1 == len(requests)
        assert [1] * 5 == [len(found) for found in pids.values()]
        assert 1 == next(r.connection for r in requests if r.target == "/last")

    def test_in_the_middle_of_a_request(self) -> None:
        """
        A child of a process that waits for an answer can send and end at once, and the answer still comes.
        """
        script = """
            import gc, os, sys, threading
            from structbatch.core.http import Request
            from structbatch.transport.requests import RequestsTransport

            transport = RequestsTransport(proxy=None)
            statuses = []
            thread = threading.Thread(
                target=lambda: statuses.append(transport.send(Request(sys.argv[1], b"{}"), 10).status)
            )
            thread.start()
            sys.stdin.readline()
            pid = os.fork()
            if pid == 0:
                transport.abort()
                assert transport.send(Request(sys.argv[1], b"{}"), 10).status == 200
                transport.close()
                gc.collect()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            thread.join()
            assert statuses == [200], statuses
        """
        with MisbehavingServer([Answer(body=b"x" * 20, body_pace=0.05)]) as server:
            child = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(script), server.url],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
            server.wait_for(1)
            _, errors = child.communicate("go\n", timeout=20)

        assert (0, "") == (child.returncode, errors)
        assert [1, 2] == [r.connection for r in server.requests]


class TestThreads:
    def test_one_transport_each(self) -> None:
        """
        Eight threads with a transport each, cookies and closed connections on every answer: all is delivered.
        """

        def answer(request: Recorded) -> Answer:
            return Answer(headers={"Set-Cookie": f"a={request.peer_port}"}, close=len(request.head) % 3 == 0)

        statuses: list[int] = []

        def work(url: str) -> None:
            with closing(RequestsTransport(proxy=None)) as transport:
                statuses.extend(transport.send(post(url, X=str(n)), 10).status for n in range(25))

        with MisbehavingServer(answer) as server:
            threads = [threading.Thread(target=work, args=(server.url,)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        assert [200] * 200 == statuses
        assert [] == [r for r in server.requests if "cookie" in r.headers]


def test_config_errors_do_not_wait(tmp_path: Path) -> None:
    """
    What cannot work is refused while configuring, by the name of its setting.
    """
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    found = []
    for setting in (
        {"ca_bundle": "/nowhere/ca.pem"},
        {"ca_bundle": str(garbage)},
        {"client_cert": "/nowhere/client.pem"},
        {"client_cert": str(garbage)},
        {"proxy": "socks5://u:s3cr3t@host:1"},
        {"proxy": "http://"},
    ):
        with pytest.raises(ConfigError) as caught:
            RequestsTransport(**setting)  # type: ignore[arg-type]
        found.append(str(caught.value))
        assert next(iter(setting)) in found[-1]

    assert 6 == len(found)
    assert "s3cr3t" not in "".join(found)


def test_response_repr_is_silent() -> None:
    """
    What a server writes may hold secrets: an answer shows its status alone.
    """
    assert "Response(status=200)" == repr(Response(200, {"a": "secret"}, b"secret"))
