# SPDX-License-Identifier: Apache-2.0
"""
The pipeline without a network: what it takes, what it counts, what it says, how it ends.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import threading
import time

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from structbatch.core.http import Request, Response
from structbatch.core.settings import Overflow
from structbatch.engine import sender
from structbatch.engine.selflog import Problem, ProblemKind
from tests.support.pipelines import FakeTransport, Problems, closes, offline, once


def numbers(transport: FakeTransport) -> list[int]:
    """
    What came through, in order.
    """
    return [event["n"] for event in transport.events if "n" in event]


class TestEmit:
    """
    One event.
    """

    def test_an_event_arrives_with_its_parts(self) -> None:
        """
        Message, severity, time and trace come from where structlog puts them; the rest are fields.
        """
        pipeline, transport = offline()
        with pipeline:
            accepted = pipeline.emit(
                {
                    "event": "order.paid",
                    "level": "warning",
                    "timestamp": "2026-01-15T10:20:30.123456Z",
                    "trace_id": "0af7651916cd43dd8448eb211c80319c",
                    "span_id": "b7ad6b7169203331",
                    "order_id": 7,
                }
            )

        (event,) = transport.events
        assert accepted
        assert "order.paid" == event["message"]
        assert 7 == event["order_id"]
        assert "2026-01-15T10:20:30.123456" == event["timestamp"][:26]
        assert "0af7651916cd43dd8448eb211c80319c" == event["trace_id"]
        assert "b7ad6b7169203331" == event["span_id"]
        assert "warn" in event["level"].lower()

    def test_the_event_is_not_changed(self) -> None:
        """
        The processors behind, and the tee, see what they would see without us.
        """
        pipeline, _ = offline()
        event: dict[str, Any] = {"event": "x", "level": "info", "timestamp": 1.5, "exc_info": ValueError("v"), "n": [1]}
        original = copy.copy(event)
        with pipeline:
            pipeline.emit(event)

        assert original == event

    def test_what_changes_later_is_shipped_as_it_was(self) -> None:
        """
        Encoded on the logging thread, at once.
        """
        pipeline, transport = offline()
        with pipeline:
            basket = [1]
            pipeline.emit({"event": "x", "basket": basket})
            basket.append(2)

        assert [1] == transport.events[0]["basket"]

    def test_an_exception_becomes_fields(self) -> None:
        """
        With OpenTelemetry's names.
        """
        pipeline, transport = offline()
        with pipeline:
            try:
                1 / 0  # noqa: B018
            except ZeroDivisionError:
                pipeline.emit({"event": "x", "exc_info": True})

        (event,) = transport.events
        assert "ZeroDivisionError" == event["exception.type"]
        assert "1 / 0" in event["exception.stacktrace"]
        assert "exc_info" not in event

    def test_nothing_happens_without_an_event(self) -> None:
        """
        No thread, no transport, no request at construction, flush and close.
        """
        threads = set(threading.enumerate())
        made = []
        pipeline, _ = offline(transport=lambda: made.append(1))

        assert pipeline.flush()
        assert pipeline.close()
        assert [] == made
        assert set() == set(threading.enumerate()) - threads

    def test_the_full_queue_refuses_the_newest(self) -> None:
        """
        Counted under its reason and severity, and `emit` says so.
        """
        open_gate = threading.Event()

        def wait(_: Request) -> Response:
            open_gate.wait(10)
            return Response(200)

        pipeline, transport = offline(
            wait, queue_max_records=5, batch_max_records=5, max_senders=1, on_problem=Problems(), batch_linger=60
        )
        with pipeline:
            accepted = [pipeline.emit({"event": "x", "n": n, "level": "error"}) for n in range(30)]
            stats = pipeline.stats()
            open_gate.set()

        assert closes(stats)
        assert {"queue_full": {"error": accepted.count(False)}} == stats.dropped_by_reason
        assert [n for n, kept in enumerate(accepted) if kept] == numbers(transport)
        assert 5 <= accepted.count(True) <= 10


class TestReentry:
    """
    A handler or a finalizer that logs while its own thread is inside the pipeline.
    """

    def test_an_event_from_inside_the_lock_is_delivered_by_close(self) -> None:
        """
        What `emit` accepted is not dropped because nobody logged after it.
        """
        pipeline, transport = offline()
        with pipeline._lock:
            accepted = pipeline.emit({"event": "x", "n": 1})
        result = pipeline.close()

        assert accepted
        assert [1] == numbers(transport)
        assert result
        assert 0 == pipeline.stats().dropped

    def test_an_event_from_inside_the_lock_is_delivered_by_flush(self) -> None:
        """
        As any that was accepted before it.
        """
        pipeline, transport = offline()
        with pipeline._lock:
            pipeline.emit({"event": "x", "n": 1})

        assert pipeline.flush()
        assert [1] == numbers(transport)
        pipeline.close()

    def test_an_event_from_inside_the_lock_needs_no_other_event(self) -> None:
        """
        A sender that sleeps is woken for it.
        """
        came = threading.Event()

        def look(request: Request) -> Response:
            if b'"n":2' in bytes(request.body):
                came.set()
            return Response(200)

        pipeline, transport = offline(look)
        with pipeline:
            pipeline.emit({"event": "x", "n": 1})
            pipeline.flush()
            with pipeline._lock:
                pipeline.emit({"event": "x", "n": 2})

            assert came.wait(5)
        assert [1, 2] == numbers(transport)

    def test_the_side_list_is_bounded(self) -> None:
        """
        A handler that runs wild is counted, not kept.
        """
        pipeline, transport = offline()
        with pipeline._lock:
            accepted = [pipeline.emit({"event": "x", "n": n}) for n in range(1500)]
        pipeline.close()
        stats = pipeline.stats()

        assert 1000 == accepted.count(True) == len(numbers(transport))
        assert {"reentrant": {"unspecified": 500}} == stats.dropped_by_reason or 500 == stats.dropped
        assert closes(stats)

    def test_flush_and_close_inside_the_lock_return_at_once(self) -> None:
        """
        They would wait for themselves.
        """
        pipeline, _ = offline()
        pipeline.emit({"event": "x"})
        with pipeline._lock:
            flushed = pipeline.flush(60)
            pipeline.close(60)

        assert not flushed or pipeline.stats().waiting == 0
        pipeline.close()


class TestBefore:
    """
    The application's hook for every event.
    """

    def test_it_changes_what_is_shipped_and_only_that(self) -> None:
        """
        A hook that works in place does not reach the application's own dict.
        """

        def redact(event: Any) -> Any:
            event.pop("password")
            return event

        event = {"event": "x", "password": "hunter2"}
        pipeline, transport = offline(before=redact)
        with pipeline:
            pipeline.emit(event)

        assert "password" not in transport.events[0]
        assert {"event": "x", "password": "hunter2"} == event

    def test_none_filters_out(self) -> None:
        """
        Counted as filtered, no problem at all.
        """
        problems = Problems()
        pipeline, transport = offline(before=lambda event: None, on_problem=problems)
        with pipeline:
            accepted = pipeline.emit({"event": "x"})

        assert not accepted
        assert [] == transport.events
        assert 1 == sum(pipeline.stats().dropped_by_reason["filtered"].values())
        assert closes(pipeline.stats())

    @pytest.mark.parametrize(
        "hook",
        [
            lambda event: 1 / 0,
            lambda event: 5,
            lambda event: "text",
            lambda event: [event],
        ],
    )
    def test_a_broken_hook_drops_nothing_and_leaks_nothing(self, hook: Any) -> None:
        """
        The event goes as its keys alone, said once.
        """
        problems = Problems()
        pipeline, transport = offline(before=hook, on_problem=problems)
        with pipeline:
            for _ in range(3):
                assert pipeline.emit({"event": "secret text", "level": "error", "password": "hunter2"})

        assert 3 == len(transport.events)
        assert ["event", "level", "password"] == sorted(transport.events[0]["structbatch.keys"])
        assert b"hunter2" not in transport.bodies[0]
        assert b"secret text" not in transport.bodies[0]
        assert "error" in transport.events[0]["level"].lower()
        assert [ProblemKind.BEFORE] == problems.kinds

    def test_it_may_log_through_the_pipeline(self) -> None:
        """
        As long as it comes to an end.
        """
        inside = []

        def hook(event: Mapping[str, Any]) -> Mapping[str, Any]:
            if not inside:
                inside.append(1)
                pipeline.emit({"event": "from the hook", "n": 2})
            return event

        pipeline, transport = offline(before=hook)
        with pipeline:
            pipeline.emit({"event": "x", "n": 1})

        assert [1, 2] == sorted(numbers(transport))


class TestProblems:
    """
    The callback.
    """

    def test_one_that_raises_stops_nothing(self) -> None:
        """
        Nobody is left to tell.
        """

        def broken(_: Problem) -> None:
            raise RuntimeError

        answers = iter([Response(403), Response(403)])
        pipeline, transport = offline(lambda request: next(answers, Response(200)), on_problem=broken, retry_hold=0.01)
        with pipeline:
            pipeline.emit({"event": "x", "n": 1})

        assert [1] == numbers(transport)

    def test_one_that_logs_through_the_pipeline_does_not_recurse(self) -> None:
        """
        Its event is one like any other.
        """
        answers = iter([Response(403)])

        def tell(problem: Problem) -> None:
            pipeline.emit({"event": problem.message, "n": 2})

        pipeline, transport = offline(lambda request: next(answers, Response(200)), on_problem=tell, retry_hold=0.01)
        with pipeline:
            pipeline.emit({"event": "x", "n": 1})
            pipeline.flush()
            pipeline.flush()

        assert once([1, 2, 2]) - once([2]) == once(numbers(transport)) or once([1, 2, 2]) == once(numbers(transport))

    def test_held_is_said_once_and_its_end_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        One line for a change of state, not for each probe.
        """
        answers = iter([Response(403)] * 5)
        pipeline, _ = offline(lambda request: next(answers, Response(200)), retry_hold=0.001, name="shop")
        with pipeline:
            pipeline.emit({"event": "x"})
            pipeline.flush()

        lines = capsys.readouterr().err.splitlines()
        assert 2 == len(lines)
        assert lines[0].startswith("structbatch [shop] held: 403")
        assert "structbatch [shop] recovered: delivery goes on" == lines[1]


class TestFlush:
    """
    Everything emitted so far.
    """

    def test_it_tells_what_was_delivered(self) -> None:
        """
        True when nothing waits.
        """
        pipeline, _ = offline(batch_linger=60)
        with pipeline:
            for n in range(5):
                pipeline.emit({"event": "x", "n": n})
            result = pipeline.flush()

        assert result
        assert (5, 0, 0, 0) == (result.delivered, result.spooled, result.dropped, result.waiting)

    def test_it_gives_up_in_time_and_says_what_waits(self) -> None:
        """
        The gate is never bypassed.
        """
        pipeline, transport = offline(lambda request: Response(403), retry_hold=60, on_problem=Problems())
        pipeline.emit({"event": "x"})
        result = pipeline.flush(0.2)
        pipeline.close(0)

        assert not result
        assert 1 == result.waiting
        assert 1 == len(transport.requests)

    def test_it_makes_no_request_without_events(self) -> None:
        """
        Idle is silent.
        """
        pipeline, transport = offline()
        with pipeline:
            pipeline.emit({"event": "x"})
            pipeline.flush()
            for _ in range(10):
                assert pipeline.flush()

        assert 1 == len(transport.requests)

    def test_the_same_for_asyncio(self) -> None:
        """
        The loop goes on meanwhile.
        """
        pipeline, transport = offline(batch_linger=60)

        async def main() -> bool:
            pipeline.emit({"event": "x", "n": 1})
            return bool(await pipeline.aflush(5))

        with pipeline:
            assert asyncio.run(main())
        assert [1] == numbers(transport)


class TestClose:
    """
    The end.
    """

    def test_it_delivers_what_waits(self) -> None:
        """
        The open batch too.
        """
        pipeline, transport = offline(batch_linger=60)
        for n in range(3):
            pipeline.emit({"event": "x", "n": n})
        result = pipeline.close()

        assert result
        assert [0, 1, 2] == numbers(transport)
        assert "closed" == pipeline.stats().state
        assert 1 == transport.closed

    def test_what_it_cannot_deliver_is_counted(self) -> None:
        """
        Under a reason, and the result is false.
        """
        pipeline, _ = offline(lambda request: Response(503), on_problem=Problems())
        for n in range(3):
            pipeline.emit({"event": "x", "n": n})
        result = pipeline.close(0.05)
        stats = pipeline.stats()

        assert not result
        assert 3 == result.dropped
        assert ["undelivered"] == list(stats.dropped_by_reason)
        assert closes(stats)

    def test_events_after_it_are_counted_and_said_once(self) -> None:
        """
        No request, no thread, no recursion.
        """
        problems = Problems()
        pipeline, transport = offline(on_problem=problems)
        pipeline.close()
        # Threads of other tests may end meanwhile.
        threads = set(threading.enumerate())
        accepted = [pipeline.emit({"event": "x"}) for _ in range(1000)]

        assert 0 == accepted.count(True)
        assert [ProblemKind.CLOSED] == problems.kinds
        assert 1000 == sum(pipeline.stats().dropped_by_reason["closed"].values())
        assert [] == transport.requests
        assert set() == set(threading.enumerate()) - threads

    def test_twice_and_flush_after_it(self) -> None:
        """
        Both return at once.
        """
        pipeline, transport = offline()
        pipeline.emit({"event": "x", "n": 1})

        assert pipeline.close()
        assert pipeline.close(60)
        assert pipeline.flush(60)
        assert [1] == numbers(transport)

    def test_from_several_threads(self) -> None:
        """
        One of them does it, all of them return, and nothing is counted twice.
        """
        pipeline, _ = offline(lambda request: Response(503), on_problem=Problems())
        for n in range(10):
            pipeline.emit({"event": "x", "n": n})
        threads = [threading.Thread(target=pipeline.close, args=(limit,)) for limit in (0.05, 0.05, 60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

        assert not any(thread.is_alive() for thread in threads)
        assert 10 == pipeline.stats().dropped
        assert closes(pipeline.stats())

    def test_while_a_sender_is_being_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Another thread's first event may be at that very moment.
        """
        real, errors = threading.Thread.start, []

        def start(thread: threading.Thread) -> None:
            if thread.name == "structbatch-sender":
                try:
                    pipeline.close(0.01)
                except RuntimeError as error:
                    errors.append(error)
            real(thread)

        monkeypatch.setattr(threading.Thread, "start", start)
        pipeline, _ = offline(on_problem=Problems())
        pipeline.emit({"event": "x"})

        assert [] == errors
        assert closes(pipeline.stats())
        assert "closed" == pipeline.stats().state

    def test_from_its_own_problem_callback(self) -> None:
        """
        A sender that closes its own pipeline does not wait for itself for ever.
        """
        closed = threading.Event()

        def tell(_: Problem) -> None:
            pipeline.close(0.05)
            closed.set()

        pipeline, _ = offline(lambda request: Response(403), on_problem=tell)
        pipeline.emit({"event": "x"})

        assert closed.wait(10)
        assert "closed" == pipeline.stats().state


class TestBlocking:
    """
    ``overflow=block``.
    """

    def test_it_waits_for_room_and_drops_nothing(self) -> None:
        """
        However many threads want the same room.
        """
        pipeline, transport = offline(
            overflow=Overflow.BLOCK, queue_max_records=4, batch_max_records=2, overflow_timeout=60.0, batch_linger=0.001
        )

        def work(start: int) -> None:
            for n in range(start, start + 100):
                pipeline.emit({"event": "x", "n": n})

        with pipeline:
            threads = [threading.Thread(target=work, args=(100 * index,)) for index in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)

        assert once(range(800)) == once(numbers(transport))
        assert 0 == pipeline.stats().dropped

    def test_the_wait_has_an_end(self) -> None:
        """
        A dead backend does not stop the job.
        """
        pipeline, _ = offline(
            lambda request: Response(403),
            overflow=Overflow.BLOCK,
            queue_max_records=1,
            overflow_timeout=0.05,
            on_problem=Problems(),
            retry_hold=60,
        )
        accepted = [pipeline.emit({"event": "x"}) for _ in range(5)]
        pipeline.close(0)

        assert accepted[0]
        assert not accepted[-1]
        assert closes(pipeline.stats())

    def test_never_on_the_thread_of_an_event_loop(self) -> None:
        """
        There it refuses, as by default.
        """
        pipeline, _ = offline(
            lambda request: Response(403),
            overflow=Overflow.BLOCK,
            queue_max_records=1,
            overflow_timeout=600.0,
            on_problem=Problems(),
            retry_hold=60,
        )

        async def main() -> list[bool]:
            return [pipeline.emit({"event": "x"}) for _ in range(20)]

        accepted = asyncio.run(main())
        pipeline.close(0)

        assert not accepted[-1]


class TestIdentity:
    """
    Names, copies, representations.
    """

    def test_a_copy_is_itself(self) -> None:
        """
        Bound loggers are deep-copied with their processors.
        """
        pipeline, _ = offline()

        assert pipeline is copy.copy(pipeline)
        assert pipeline is copy.deepcopy(pipeline)

    def test_its_representation_is_its_name(self) -> None:
        """
        Neither URL nor token.
        """
        pipeline, _ = offline(name="shop", secret=lambda: "s3cr3t")

        assert "<Pipeline shop>" == repr(pipeline)

    def test_the_name_is_the_vendors_by_default(self) -> None:
        """
        For problems and statistics.
        """
        pipeline, _ = offline()

        assert "ndjson" == pipeline.name


class TestStats:
    """
    One reading.
    """

    def test_requests_retries_and_bytes(self) -> None:
        """
        They count what went over the wire.
        """
        answers = iter([Response(503)])
        pipeline, transport = offline(lambda request: next(answers, Response(200)), on_problem=Problems())
        with pipeline:
            pipeline.emit({"event": "x"})
        stats = pipeline.stats()

        assert (2, 1) == (stats.requests, stats.retries)
        assert stats.bytes_wire == stats.bytes_plain == sum(len(request.body) for request in transport.requests)
        assert (1, 0, 0) == (stats.delivered, stats.waiting, stats.inflight)

    def test_a_refused_coding_is_two_requests(self) -> None:
        """
        Once more without compression, and remembered.
        """

        def picky(request: Request) -> Response:
            return Response(415 if "Content-Encoding" in request.headers else 200)

        problems = Problems()
        pipeline, transport = offline(picky, compression=None, on_problem=problems)
        with pipeline:
            pipeline.emit({"event": "x", "n": 1})
            pipeline.flush()
            pipeline.emit({"event": "x", "n": 2})

        assert [1, 2] == numbers(transport)
        assert 3 == len(transport.requests) == pipeline.stats().requests
        assert [ProblemKind.COMPRESSION] == problems.kinds


class TestSenders:
    """
    The threads behind it.
    """

    def test_one_of_several_idle_senders_keeps_the_time(self) -> None:
        """
        The batch of an event that comes while two senders sleep is sent when its linger is over, not seconds later.
        """
        both, arrived = threading.Barrier(2), threading.Event()
        first = itertools.count()

        def answer(_: Request) -> Response:
            if next(first) < 2:
                both.wait(10)
            else:
                arrived.set()
            return Response(200)

        pipeline, _ = offline(answer, batch_max_records=1, batch_coalesce=False)
        for _ in range(2):
            pipeline.emit({"event": "x"})
        pipeline.flush(10)
        deadline = time.monotonic() + 0.8
        while len(pipeline._sleepers._waiting) < 2 and time.monotonic() < deadline:
            pass
        pipeline._intake._max_records = 100
        pipeline.emit({"event": "x"})
        begun = time.monotonic()
        in_time = arrived.wait(10) and time.monotonic() - begun < 0.5
        senders = pipeline.stats().senders
        pipeline.close()

        assert in_time
        assert 2 == senders

    @pytest.mark.parametrize(("step", "expected"), [(0.0, 0), (1.0, 101)])
    def test_the_interpreter_is_given_up_by_time_spent(
        self, monkeypatch: pytest.MonkeyPatch, step: float, expected: int
    ) -> None:
        """
        A sender that builds a request of many small batches gives up the interpreter when it had it for a while, not
        at every batch: busy threads would stretch each to many milliseconds.
        """
        ticks, given_up, hold = itertools.count(0.0, step), [], threading.Event()
        clock = SimpleNamespace(
            monotonic=time.monotonic, time_ns=time.time_ns, sleep=given_up.append, perf_counter=lambda: next(ticks)
        )
        monkeypatch.setattr(sender, "time", clock)

        def answer(_: Request) -> Response:
            hold.wait(10)
            return Response(200)

        pipeline, transport = offline(answer, batch_max_records=1, batch_linger=0.0, max_senders=1)
        for n in range(101):
            pipeline.emit({"event": "x", "n": n})
        hold.set()
        pipeline.close()

        assert once(range(101)) == once(numbers(transport))
        assert expected == len(given_up)
