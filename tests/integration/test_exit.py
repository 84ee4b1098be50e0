# SPDX-License-Identifier: Apache-2.0
"""
The end of the interpreter: what waits is delivered, and a dead backend does not hold the process.
"""

from __future__ import annotations

import time

import pytest

from tests.support.pipelines import Sink, once, run_program
from tests.support.server import Answer, MisbehavingServer, unused_port


STARTUP = 10.0
"""
Seconds that a busy machine may need for a Python with its imports.
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise RuntimeError('boom')"])
def test_a_normal_exit_delivers_what_waits(end: str) -> None:
    """
    However the main module ends.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            f"""
            ship(batch_linger=60)
            for n in range(500):
                log.info("x", n=n)
            {end}
            """,
            server.url,
        )

    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(end, 1)
    assert once(range(500)) == sink.count()
    assert "structbatch [" not in done.stderr


@pytest.mark.parametrize("backend", ["refused", "silent", "trickling"])
def test_a_dead_backend_does_not_hold_the_process(backend: str) -> None:
    """
    It ends within ``close_timeout`` and a second, and says how many events were lost.
    """
    answers = {"silent": Answer.silent(), "trickling": Answer(200, b"x" * 1000, head_pace=0.05, body_pace=0.05)}
    with MisbehavingServer(Sink(choose=lambda request: answers[backend])) as server:
        url = f"http://127.0.0.1:{unused_port()}" if backend == "refused" else server.url
        done = run_program(
            """
            import time, atexit
            start = [0.0]
            atexit.register(lambda: print("exit took", time.monotonic() - start[0], flush=True))
            import structbatch.engine.process as process
            # Registered later, so it runs before ours; the one above was registered after ours as well.
            pipeline = ship(close_timeout=1.0, batch_linger=0.001)
            for n in range(1000):
                log.info("x", n=n)
            time.sleep(0.3)
            begin = time.monotonic()
            process._close_all()
            print("closed", time.monotonic() - begin, pipeline.stats().dropped, flush=True)
            """,
            url,
        )

    assert 0 == done.returncode, done.stderr
    word, seconds, dropped = done.stdout.splitlines()[0].split()
    assert "closed" == word
    assert float(seconds) < 2.0
    assert 1000 == int(dropped)
    assert "1000 events dropped" in done.stderr


def test_the_whole_process_ends_in_time() -> None:
    """
    The same measured from outside, over all of the interpreter's end.
    """
    start = time.monotonic()
    done = run_program(
        """
        ship(close_timeout=0.5)
        for n in range(10_000):
            log.info("x", n=n)
        """,
        f"http://127.0.0.1:{unused_port()}",
    )

    assert 0 == done.returncode, done.stderr
    assert time.monotonic() - start < STARTUP + 1.5


def test_events_of_exit_handlers() -> None:
    """
    Handlers that run before ours still deliver; what comes after the close is counted, with one notice.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import atexit
            def last():
                # Registered before structbatch was imported would run here: after our own hook.
                for _ in range(100):
                    log.info("late", n=3)
                print(pipeline.stats().dropped_by_reason, flush=True)
            from structbatch.engine import process
            atexit.unregister(process._close_all)
            atexit.register(last)
            atexit.register(process._close_all)
            pipeline = ship()
            atexit.register(lambda: log.info("early", n=2))
            log.info("x", n=1)
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert once([1, 2]) == sink.count()
    assert "{'closed': {'info': 100}}" == done.stdout.strip()
    assert 1 == done.stderr.count("structbatch [")


def test_the_first_event_of_all_comes_from_an_exit_handler() -> None:
    """
    Newer Pythons start no thread by then: the exiting thread sends itself.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import atexit
            ship()
            atexit.register(lambda: log.info("x", n=1))
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert once([1]) == sink.count()


def test_without_any_thread() -> None:
    """
    Where none can be started, ever, close sends on its own thread.
    """
    sink = Sink([Answer(503)])
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import threading
            def start(self):
                raise RuntimeError("can't start new thread at interpreter shutdown")
            threading.Thread.start = start
            pipeline = ship()
            for n in range(300):
                log.info("x", n=n)
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert once(range(300)) == sink.count()
    assert "threads: no thread can be started: RuntimeError" in done.stderr


def test_threads_that_cannot_be_started_for_a_while() -> None:
    """
    Nothing is raised into the application, and all is delivered afterwards.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import threading, time
            from structbatch.engine import crew as module
            module._START_AGAIN = 0.02
            real, left = threading.Thread.start, [5]
            def start(self):
                if left[0]:
                    left[0] -= 1
                    raise RuntimeError("can't start new thread")
                real(self)
            threading.Thread.start = start
            pipeline = ship()
            for n in range(100):
                log.info("x", n=n)
                time.sleep(0.003)
            assert left == [0]
            assert pipeline.flush(10)
            os._exit(0)
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert once(range(100)) == sink.count()


def test_threads_that_still_log_while_the_interpreter_ends() -> None:
    """
    Daemons of the application go on until they are frozen: no traceback, no hang.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import threading, time
            ship()
            def work():
                while True:
                    log.info("x")
            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(0.2)
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert "Traceback" not in done.stderr
