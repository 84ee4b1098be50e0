# SPDX-License-Identifier: Apache-2.0
"""
Logging from signal handlers and finalizers, wherever they interrupt.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.pipelines import NIGHTLY, ROOT, Sink, once, run_program
from tests.support.server import Answer, MisbehavingServer


SECONDS = 20.0 if NIGHTLY else 1.0


@pytest.mark.timeout(4 * SECONDS + 120)
def test_every_event_once_whatever_interrupts_it() -> None:
    """
    A handler every millisecond and finalizers at every allocation, with and without an exception out of the handler:
    every accepted event arrives exactly once, nothing is raised, and the account closes.
    """
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "integration" / "reentry.py"), "--seconds", str(SECONDS)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=4 * SECONDS + 110,
        check=False,
    )

    assert "every event once, the account closes" in done.stdout, done.stdout + done.stderr[-3000:]
    assert 0 == done.returncode


def test_a_handler_that_exits_out_of_a_log_call() -> None:
    """
    The usual SIGTERM handler: `sys.exit` in the middle of anything; what was accepted before is delivered at exit.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        for _ in range(2):
            done = run_program(
                """
                import signal, threading, random, os, time
                ship(queue_max_records=1_000_000, queue_max_bytes=2**30, close_timeout=20)
                signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
                threading.Timer(random.uniform(0.05, 0.2), lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
                n = 0
                try:
                    while True:
                        log.info("x", n=(os.getpid(), n))
                        n += 1
                finally:
                    print(os.getpid(), n, flush=True)
                """,
                server.url,
            )

            assert 7 == done.returncode, done.stderr
            pid, count = map(int, done.stdout.split())
            came = sorted(event["n"][1] for event in sink.events if event["n"][0] == pid)
            # The call that was interrupted may have been taken or not.
            assert list(range(count)) == came[:count]
            assert len(came) - count in (0, 1)


def test_the_default_of_sigterm_is_left_alone() -> None:
    """
    Without a handler of the application the process dies by the signal, at once.
    """
    with MisbehavingServer(Sink([Answer.silent()])) as server:
        start = time.monotonic()
        done = run_program(
            """
            import os, signal
            ship()
            log.info("x")
            os.kill(os.getpid(), signal.SIGTERM)
            """,
            server.url,
        )

    assert -signal.SIGTERM == done.returncode
    assert time.monotonic() - start < 20


def test_fork_inside_a_signal_handler() -> None:
    """
    Wherever the parent was interrupted, the child logs and exits, and every event comes once.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import os, signal, time
            pipeline = ship(queue_max_records=1_000_000, queue_max_bytes=2**30)
            children = []
            def fork(number, frame):
                if len(children) >= 20:
                    return
                pid = os.fork()
                if not pid:
                    log.info("child", n=f"child-{len(children)}")
                    code = 0 if pipeline.close(10) else 1
                    os._exit(code)
                children.append(pid)
                signal.setitimer(signal.ITIMER_REAL, 0.01)
            signal.signal(signal.SIGALRM, fork)
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            n = 0
            while len(children) < 20:
                log.info("parent", n=f"parent-{n}")
                n += 1
            codes = [os.waitpid(pid, 0)[1] for pid in children]
            print(n, sum(codes))
            """,
            server.url,
            timeout=40,
        )

    assert 0 == done.returncode, done.stderr
    count, failed = map(int, done.stdout.split())
    assert 0 == failed
    assert once([f"parent-{n}" for n in range(count)] + [f"child-{n}" for n in range(20)]) == sink.count()


def test_sigkill_leaves_what_was_delivered() -> None:
    """
    What flush said is delivered is delivered; no handler helps what still waits, and none is promised.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import os, signal
            pipeline = ship(batch_linger=60)
            log.info("x", n=1)
            assert pipeline.flush(5)
            log.info("x", n=2)
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            server.url,
        )

    assert -signal.SIGKILL == done.returncode
    assert once([1]) == sink.count()
