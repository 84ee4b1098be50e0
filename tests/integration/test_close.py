# SPDX-License-Identifier: Apache-2.0
"""
Deadlines against a server that keeps none: attempts, flush and close end in time.
"""

from __future__ import annotations

import threading
import time

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.pipelines import Problems, Sink, closes, once, pipeline_to
from tests.support.server import Answer, MisbehavingServer, Welcome, unused_port


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """
    What is inside ends in time, measured without the queueing of a busy machine's processors.
    """
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


TRICKLES = {
    "head": Answer(200, b"ok", head_pace=0.1),
    "body": Answer(200, b"x" * 1000, body_pace=0.1),
    "silence": Answer.silent(),
    "deaf": Answer.deaf(),
}


@pytest.mark.parametrize("how", TRICKLES)
def test_an_attempt_ends_within_its_timeout(how: str) -> None:
    """
    However slowly the server trickles: the next attempt comes within ``timeout`` and half a second.
    """
    with MisbehavingServer([TRICKLES[how]]) as server, pipeline_to(server.url, timeout=0.5) as pipeline:
        pipeline.emit({"event": "x"})
        first, second = server.wait_for(2, 10)
        flushed = pipeline.flush(5)

    assert 0.4 <= second.at - first.at < 1.1
    assert flushed


@pytest.mark.parametrize("how", TRICKLES)
def test_close_keeps_its_time(how: str) -> None:
    """
    ``close(0.5)`` returns within a second more, whatever the request in flight does.
    """
    with MisbehavingServer([TRICKLES[how]]) as server:
        pipeline = pipeline_to(server.url, timeout=60.0, on_problem=Problems())
        pipeline.emit({"event": "x"})
        server.wait_for(1)
        with at_most(1.5):
            result = pipeline.close(0.5)

    assert not result
    assert 1 == result.dropped == pipeline.stats().dropped
    assert closes(pipeline.stats())


def test_close_within_a_long_backoff() -> None:
    """
    Every wait of a sender ends with the pipeline.
    """
    with MisbehavingServer([Answer(503, headers={"Retry-After": "60"})]) as server:
        pipeline = pipeline_to(server.url, on_problem=Problems())
        pipeline.emit({"event": "x"})
        server.wait_for(1)
        with at_most(1.3):
            pipeline.close(0.3)

    assert 1 == len(server.requests)
    assert 1 == pipeline.stats().dropped


def test_close_while_connecting_to_nobody() -> None:
    """
    A listener that never speaks TLS nor HTTP.
    """
    with MisbehavingServer(welcome=lambda number: Welcome.SILENT) as server:
        pipeline = pipeline_to(server.url, timeout=60.0, on_problem=Problems())
        pipeline.emit({"event": "x"})
        with at_most(1.5):
            pipeline.close(0.5)

    assert 1 == pipeline.stats().dropped


def test_close_and_flush_from_many_threads_with_a_dead_server() -> None:
    """
    All of them return, and the account closes.
    """
    pipeline = pipeline_to(f"http://127.0.0.1:{unused_port()}", on_problem=Problems())
    for n in range(100):
        pipeline.emit({"event": "x", "n": n})
    threads = [threading.Thread(target=pipeline.flush, args=(0.5,)) for _ in range(4)]
    threads += [threading.Thread(target=pipeline.close, args=(0.5,)) for _ in range(4)]
    with at_most(3.0):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    assert not any(thread.is_alive() for thread in threads)
    assert 100 == pipeline.stats().dropped
    assert closes(pipeline.stats())


def test_as_a_context_manager() -> None:
    """
    The end of the block delivers what waits, and an exception goes on its way.
    """
    sink = Sink()
    with (
        MisbehavingServer(sink) as server,
        pytest.raises(ZeroDivisionError),
        pipeline_to(server.url, batch_linger=60) as pipeline,
    ):
        pipeline.emit({"event": "x", "n": 1 // pipeline.emit({"event": "x", "n": 1}) // 0})

    assert once([1]) == sink.count()
    assert "closed" == pipeline.stats().state


def test_no_thread_is_left_after_close() -> None:
    """
    Neither senders nor the watch.
    """
    # Other tests' pipelines may still be about.
    others = set(threading.enumerate())
    with MisbehavingServer() as server:
        pipeline = pipeline_to(server.url)
        pipeline.emit({"event": "x"})
        pipeline.close()
        names = _own_threads(others, until=time.monotonic() + 5)

    assert [] == names


def _own_threads(others: set[threading.Thread], until: float) -> list[str]:
    names = ["not looked"]
    while names and time.monotonic() < until:
        new = set(threading.enumerate()) - others
        names = [thread.name for thread in new if thread.name.startswith("structbatch-")]
        time.sleep(0.01)
    return names


def test_a_late_answer_changes_nothing() -> None:
    """
    What was counted as lost at close stays counted so, though the server took it: never both.
    """
    sink = Sink([Answer(200, delay=1.0)])
    with MisbehavingServer(sink) as server:
        pipeline = pipeline_to(server.url, on_problem=Problems())
        pipeline.emit({"event": "x", "n": 1})
        server.wait_for(1)
        pipeline.close(0.2)
        time.sleep(1.2)
        stats = pipeline.stats()

    assert (0, 1, 0) == (stats.delivered, stats.dropped, stats.waiting)
    assert closes(stats)


def test_idle_makes_no_request() -> None:
    """
    Nothing is sent when there is nothing, and nobody wakes for it.
    """
    with MisbehavingServer() as server, pipeline_to(server.url, batch_linger=0.01) as pipeline:
        pipeline.emit({"event": "x"})
        pipeline.flush()
        time.sleep(0.5)
        pipeline.flush()
        count = len(server.requests)

    assert 1 == count == len(server.requests)
