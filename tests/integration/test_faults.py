# SPDX-License-Identifier: Apache-2.0
"""
What servers answer and what breaks inside: events are kept, delivered after recovery, and told about without secrets.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import threading
import time

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from structbatch.core.http import Request, Response
from structbatch.engine import sender as sender_module
from structbatch.engine.selflog import ProblemKind
from structbatch.errors import Fault, TransportError
from structbatch.structlog import Shipper
from structbatch.vendors.ndjson import Ndjson
from tests.support.pipelines import FakeTransport, Problems, Sink, closes, offline, once, pipeline_to, read_lines
from tests.support.server import Answer, MisbehavingServer


TOKEN = "s3cr3t-t0ken-0123456789"


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """
    Whether *condition* came true within *seconds*.
    """
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


class TestAnswers:
    """
    End to end, with small settings.
    """

    @pytest.mark.parametrize(
        "answer",
        [
            Answer(429),
            Answer(429, headers={"Retry-After": "0"}),
            Answer(500),
            Answer(502),
            Answer(503),
            Answer(504),
            Answer(408),
            Answer.closed(),
            Answer.reset_after(),
            Answer.reset_before(),
            Answer.half_line(),
            Answer.short(),
        ],
        ids=lambda answer: f"{answer.status}-{answer.cut}-{answer.reset}-{len(answer.headers)}",
    )
    def test_a_passing_trouble(self, answer: Answer) -> None:
        """
        Tried again until it comes through, without a drop.
        """
        sink = Sink([answer] * 6)
        problems = Problems()
        with MisbehavingServer(sink) as server, pipeline_to(server.url, on_problem=problems) as pipeline:
            for n in range(10):
                pipeline.emit({"event": "x", "n": n})
            flushed = pipeline.flush(20)
            stats = pipeline.stats()

        assert flushed
        assert set(range(10)) == set(sink.count())
        assert (10, 0, 0) == (stats.delivered, stats.dropped, stats.dead)
        assert {ProblemKind.BROKEN, ProblemKind.RECOVERED} >= set(problems.kinds)

    @pytest.mark.parametrize("status", [401, 403, 404, 405, 407, 415, 501, 505, 301, 302, 307])
    def test_a_person_must_fix_it(self, status: int, capfd: pytest.CaptureFixture[str]) -> None:
        """
        Kept, probed slowly, said once on stderr without the secret, delivered after the repair; never followed.
        """
        headers = {"Location": f"http://127.0.0.1:1/elsewhere?token={TOKEN}"} if status // 100 == 3 else {}
        repaired = threading.Event()
        sink = Sink(choose=lambda request: Answer() if repaired.is_set() else Answer(status, TOKEN.encode(), headers))
        with MisbehavingServer(sink) as server:
            pipeline = pipeline_to(server.url, token=TOKEN, name="shop")
            for n in range(10):
                pipeline.emit({"event": "x", "n": n})
            held = wait_until(lambda: pipeline.stats().state == "held")
            before = len(server.requests)
            time.sleep(0.3)
            probes = len(server.requests) - before
            waiting = pipeline.stats().waiting
            repaired.set()
            flushed = pipeline.flush(10)
            pipeline.close()

        err = capfd.readouterr().err
        assert held
        assert 10 == waiting
        assert probes <= 4
        assert flushed
        assert once(range(10)) == sink.count()
        assert 1 == err.count("] held:")
        assert str(status) in err
        assert TOKEN not in err
        assert TOKEN not in repr(pipeline) + repr(pipeline.stats()) + repr(pipeline.vendor)

    def test_too_large_is_split(self) -> None:
        """
        413 halves until it fits; nothing is lost.
        """
        sink = Sink(choose=lambda request: Answer(413 if len(request.body.splitlines()) > 3 else 200))
        with MisbehavingServer(sink) as server, pipeline_to(server.url, on_problem=Problems()) as pipeline:
            for n in range(50):
                pipeline.emit({"event": "x", "n": n})
            flushed = pipeline.flush(20)

        assert flushed
        assert once(range(50)) == sink.count()

    def test_one_poison_and_its_neighbours(self) -> None:
        """
        The culprit is dead and counted, everybody else is delivered.
        """

        def poisoned(request: Any) -> Answer:
            bad = any(event["n"] == 13 for event in read_lines(request.body))
            return Answer(400, b"bad record") if bad else Answer()

        sink = Sink(choose=poisoned)
        problems = Problems()
        with MisbehavingServer(sink) as server, pipeline_to(server.url, on_problem=problems) as pipeline:
            for n in range(100):
                pipeline.emit({"event": "x", "n": n})
            flushed = pipeline.flush(20)
            stats = pipeline.stats()

        assert flushed
        assert once(n for n in range(100) if n != 13) == sink.count()
        assert (99, 1) == (stats.delivered, stats.dead)
        assert ProblemKind.DEAD in problems.kinds

    def test_the_token_travels_in_its_header_only(self, capfd: pytest.CaptureFixture[str]) -> None:
        """
        And a rotated one is asked for at every attempt.
        """
        tokens = itertools.chain(["old"], itertools.repeat(TOKEN))

        def choose(request: Any) -> Answer:
            return Answer(200 if request.headers["authorization"] == f"Bearer {TOKEN}" else 401)

        sink = Sink(choose=choose)
        with MisbehavingServer(sink) as server, pipeline_to(server.url, token=lambda: next(tokens)) as pipeline:
            pipeline.emit({"event": "x", "n": 1})
            flushed = pipeline.flush(5)

        assert flushed
        assert once([1]) == sink.count()
        assert TOKEN not in capfd.readouterr().err
        assert all(TOKEN not in request.target for request in server.requests)


@dataclass(frozen=True, slots=True)
class Clumsy:
    """
    A vendor that breaks where it is told to.
    """

    broken: Any
    inner: Ndjson = Ndjson("http://127.0.0.1/in")

    name = "clumsy"
    limits = Ndjson.limits
    encodings = Ndjson.encodings
    reserved = Ndjson.reserved
    secret_required = False

    def request(self, view: Any, now_ns: int) -> Iterator[None]:
        """
        As the other, or not.
        """
        self.broken("request")
        return self.inner.request(view, now_ns)

    def authorize(self, request: Request, secret: str | None, now_ns: int) -> Request:
        """
        As the other, or not.
        """
        self.broken("authorize")
        return self.inner.authorize(request, secret, now_ns)

    def verdict(self, response: Response, request: Request) -> Any:
        """
        As the other, or not.
        """
        self.broken("verdict")
        return self.inner.verdict(response, request)


POINTS = ("request", "compress", "authorize", "secret", "transport", "send", "verdict", "settle")
ERRORS = (RuntimeError, MemoryError, RecursionError, OSError, KeyError, StopIteration, SystemExit, KeyboardInterrupt)


class TestInside:
    """
    Whatever breaks in a sender: it goes on, and the account closes.
    """

    @pytest.mark.parametrize("kind", ERRORS)
    @pytest.mark.parametrize("point", POINTS)
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_an_exception_at_a_point(
        self, point: str, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Three times, then it works: every event is delivered, at least once, and nothing is lost.
        """
        left = [3]

        def broken(here: str) -> None:
            if here == point and left[0]:
                left[0] -= 1
                raise kind

        def compress(*arguments: Any) -> Any:
            broken("compress")
            return real_compress(*arguments)

        def settle(*arguments: Any) -> Any:
            broken("settle")
            return real_settle(*arguments)

        def send(_: Request) -> Response:
            broken("send")
            return Response(200)

        def secret() -> None:
            broken("secret")

        def transport() -> FakeTransport:
            broken("transport")
            return fake

        real_compress, real_settle = sender_module.compress, sender_module.settle
        monkeypatch.setattr(sender_module, "compress", compress)
        monkeypatch.setattr(sender_module, "settle", settle)
        fake = FakeTransport(send)
        pipeline, _ = offline(
            vendor=Clumsy(broken), transport=transport, secret=secret, compression=None, on_problem=Problems()
        )
        pipeline.emit({"event": "x", "n": 1})
        flushed = pipeline.flush(10)
        pipeline.emit({"event": "canary", "n": 2})
        closed = pipeline.close(10)
        stats = pipeline.stats()

        assert [0] == left
        assert flushed
        assert closed
        assert (2, 0) == (stats.delivered, stats.dropped)
        assert closes(stats)

    @pytest.mark.parametrize("moment", ["idle", "sending"])
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_killed_sender_is_replaced(self, moment: str) -> None:
        """
        An asynchronous SystemExit ends its thread wherever it is: another one goes on, without an event more.
        """
        entered, leave = threading.Event(), threading.Event()

        def send(_: Request) -> Response:
            if moment == "sending" and not leave.is_set():
                entered.set()
                while not leave.is_set():
                    time.sleep(0.001)
            return Response(200)

        pipeline, transport = offline(send, on_problem=Problems())
        pipeline.emit({"event": "x", "n": 1})
        if moment == "sending":
            assert entered.wait(5)
        else:
            pipeline.flush(5)
        (victim,) = pipeline._senders
        assert victim._thread is not None
        ident = ctypes.c_ulong(victim._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(SystemExit))
        if moment == "idle":
            pipeline.emit({"event": "canary", "n": 2})
        victim._thread.join(5)
        leave.set()
        delivered = wait_until(lambda: pipeline.stats().waiting == 0)
        pipeline.close(5)

        assert delivered
        assert set(range(1, 3 if moment == "idle" else 2)) == {event["n"] for event in transport.events}
        assert closes(pipeline.stats())

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_an_abort_that_raises_stops_no_watch(self) -> None:
        """
        Nor does a transport that cannot even be closed.
        """

        class Stubborn(FakeTransport):
            def abort(self) -> None:
                self.aborted.set()
                raise RuntimeError

            def close(self) -> None:
                raise RuntimeError

        def send(_: Request) -> Response:
            if fake.aborted.wait(5) and len(fake.requests) < 3:
                fake.aborted.clear()
                raise TransportError(Fault.TIMEOUT)
            return Response(200)

        fake = Stubborn(send)
        pipeline, _ = offline(transport=lambda: fake, timeout=0.05, on_problem=Problems())
        pipeline.emit({"event": "x", "n": 1})
        flushed = pipeline.flush(10)
        pipeline.close(1)

        assert flushed
        assert [1] == [event["n"] for event in fake.events]

    def test_the_core_breaks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        An exception out of the machine itself costs a pause, not the sender.
        """
        pipeline, transport = offline(on_problem=Problems())
        real, left = pipeline._delivery.next_send, [3]

        def next_send(now: float) -> Any:
            if left[0]:
                left[0] -= 1
                raise MemoryError
            return real(now)

        monkeypatch.setattr(pipeline._delivery, "next_send", next_send)
        pipeline.emit({"event": "x", "n": 1})
        flushed = pipeline.flush(10)
        pipeline.close()

        assert flushed
        assert [1] == [event["n"] for event in transport.events]


class TestLogging:
    """
    The library beside logging and its own HTTP library.
    """

    def test_the_http_library_does_not_feed_the_pipeline(self) -> None:
        """
        With the root logger at DEBUG one event of the application makes at most two requests; what the application
        itself does with the same library is shipped.
        """
        sink = Sink()
        root = logging.getLogger()
        level, handlers = root.level, list(root.handlers)
        with MisbehavingServer(sink) as server:
            pipeline = pipeline_to(server.url)
            formatter = structlog.stdlib.ProcessorFormatter(processors=[Shipper(pipeline)])
            handler = logging.Handler()
            handler.emit = lambda record: formatter.format(record) and None  # type: ignore[method-assign]
            root.handlers[:], root.level = [handler], logging.DEBUG
            logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
            try:
                logging.getLogger("shop").info("paid")
                pipeline.flush(5)
                time.sleep(0.5)
                requests = len(server.requests)
                logging.getLogger("urllib3.connectionpool").debug("of the application")
                pipeline.close(5)
            finally:
                root.handlers[:], root.level = handlers, level
                logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]

        messages = [event["message"] for event in sink.events]
        assert requests <= 2
        assert ["paid", "of the application"] == [m for m in messages if m in ("paid", "of the application")]
        assert 2 == len(messages)

    def test_our_own_voice_does_not_feed_the_pipeline(self, capfd: pytest.CaptureFixture[str]) -> None:
        """
        Problems go to stderr and nowhere else, though the root logger ships.
        """
        sink = Sink([Answer(404)] * 3)
        with MisbehavingServer(sink) as server, pipeline_to(server.url, retry_hold=0.01) as pipeline:
            pipeline.emit({"event": "x", "n": 1})
            flushed = pipeline.flush(5)

        assert flushed
        assert 1 == len(sink.events)
        assert "held: 404" in capfd.readouterr().err
