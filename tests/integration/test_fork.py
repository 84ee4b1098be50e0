# SPDX-License-Identifier: Apache-2.0
"""
Fork: the parent's events are sent once, by the parent; a child's own events once, by the child.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.pipelines import NIGHTLY, Sink, once, run_program
from tests.support.server import Answer, MisbehavingServer


CHILDREN = 200 if NIGHTLY else 30


def pids_by_connection(sink: Sink) -> list[int]:
    """
    How many processes each connection served.
    """
    return [len({event["pid"] for event in events}) for events in sink.by_connection.values()]


@pytest.mark.parametrize("end", ["return", "sys.exit(0)", "pipeline.close(10); os._exit(0)"])
def test_each_process_sends_its_own_events_once(end: str) -> None:
    """
    Events wait in the parent while it forks; the child has none of them, and its own ones before its end.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            f"""
            pipeline = ship(batch_linger=60)
            def child(index):
                for n in range(10):
                    log.info("child", n=f"{{index}}-{{n}}", pid=os.getpid())
                {end}
            for n in range(100):
                log.info("parent", n=f"parent-{{n}}", pid=os.getpid())
            children = []
            for index in range(4):
                pid = os.fork()
                if not pid:
                    child(index)
                    sys.exit(0)
                children.append(pid)
            for pid in children:
                assert os.waitpid(pid, 0)[1] == 0
            log.info("parent", n="parent-last", pid=os.getpid())
            """,
            server.url,
        )

    expected = [f"parent-{n}" for n in [*range(100), "last"]] + [f"{i}-{n}" for i in range(4) for n in range(10)]
    assert 0 == done.returncode, done.stderr
    assert once(expected) == sink.count()
    assert {1} == set(pids_by_connection(sink))


def test_a_child_opens_connections_of_its_own() -> None:
    """
    Also where the parent's connection was in use, and is used again afterwards.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            pipeline = ship()
            for index in range(5):
                log.info("parent", n=f"before-{index}", pid=os.getpid())
                assert pipeline.flush(5)
                pid = os.fork()
                log.info("both", n=f"{'parent' if pid else 'child'}-{index}", pid=os.getpid())
                assert pipeline.flush(5)
                if not pid:
                    sys.exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert once(f"{who}-{i}" for who in ("before", "parent", "child") for i in range(5)) == sink.count()
    assert {1} == set(pids_by_connection(sink))


def test_a_child_that_ends_without_a_word_loses_its_own_events_only() -> None:
    """
    ``os._exit`` runs no handler; what the child did not flush is lost, as documented, and nothing else.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            pipeline = ship(batch_linger=60)
            log.info("parent", n=1)
            pid = os.fork()
            if not pid:
                log.info("child", n=2)
                pipeline.flush(5)
                log.info("child", n=3)
                os._exit(0)
            os.waitpid(pid, 0)
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert once([1, 2]) == sink.count()


@pytest.mark.timeout(180)
def test_threads_log_while_the_main_thread_forks() -> None:
    """
    Whatever lock another thread holds at the moment of a fork, the child logs and exits.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            f"""
            import threading, time
            pipeline = ship(queue_max_records=1_000_000, queue_max_bytes=2**30)
            over, counts = threading.Event(), []
            def work(index):
                n = 0
                while not over.is_set():
                    log.info("thread", n=f"thread-{{index}}-{{n}}")
                    n += 1
                    time.sleep(0.002)
                counts.append((index, n))
            threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
            for thread in threads:
                thread.start()
            children, slowest = [], 0.0
            for index in range({CHILDREN}):
                before = time.monotonic()
                pid = os.fork()
                if not pid:
                    log.info("child", n=f"child-{{index}}")
                    sys.exit(0)
                slowest = max(slowest, time.monotonic() - before)
                children.append(pid)
                if len(children) >= 10:
                    assert os.waitpid(children.pop(0), 0)[1] == 0
            for pid in children:
                assert os.waitpid(pid, 0)[1] == 0
            over.set()
            for thread in threads:
                thread.join()
            assert pipeline.close(20)
            print(*(f"{{index}}:{{n}}" for index, n in counts), slowest)
            """,
            server.url,
            timeout=60,
        )

    assert 0 == done.returncode, done.stderr
    *counts, _ = done.stdout.split()
    expected = [f"child-{index}" for index in range(CHILDREN)]
    for index, count in (map(int, pair.split(":")) for pair in counts):
        expected += [f"thread-{index}-{n}" for n in range(count)]
    assert once(expected) == sink.count()


def test_flush_and_close_in_a_child_of_a_busy_parent() -> None:
    """
    The parent has a request under way and a full queue; the child has neither, and returns in time.
    """
    first = Answer(200, delay=2.0)

    def choose(request: Any) -> Answer:
        return first if request.connection == 1 else Answer()

    sink = Sink(choose=choose)
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import time
            pipeline = ship(max_senders=1)
            log.info("parent", n=0)
            time.sleep(0.3)
            for n in range(1, 100):
                log.info("parent", n=n)
            begin = time.monotonic()
            pid = os.fork()
            if not pid:
                forked = time.monotonic() - begin
                empty = pipeline.flush(1)
                stats = pipeline.stats()
                log.info("child", n="child")
                full = pipeline.flush(1)
                closed = pipeline.close(1)
                took = time.monotonic() - begin
                print(bool(empty and full and closed), stats.emitted, forked, took, flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
            assert pipeline.close(20)
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    fine, emitted, forked, took = done.stdout.split()
    assert ("True", "0") == (fine, emitted)
    assert float(forked) < 0.5
    assert float(took) < 2.0
    assert once([*range(100), "child"]) == sink.count()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, tmp_path: Any) -> None:
    """
    Its children skip exit handlers; what they logged is delivered all the same, for every way to start one.
    """
    sink = Sink()
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import multiprocessing, os, sys, time
import structlog, structbatch
from concurrent.futures import ProcessPoolExecutor
from structbatch.structlog import Shipper

pipeline = structbatch.from_url("ndjson+" + sys.argv[1] + "/in", proxy=None, batch_linger=60)
structlog.configure(processors=[structlog.processors.add_log_level, Shipper(pipeline)])
log = structlog.get_logger()

def work(index):
    log.info("child", n=index)
    return index

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    log.info("parent", n="parent")
    processes = [context.Process(target=work, args=(index,)) for index in range(1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        assert list(executor.map(work, range(10, 20))) == list(range(10, 20))
    pool = context.Pool(1)
    assert pool.map(work, range(20, 30)) == list(range(20, 30))
    pool.close()
    pool.join()
""",
        encoding="utf-8",
    )
    with MisbehavingServer(sink) as server:
        done = run_program(
            f"import runpy; sys.argv[0] = {str(program)!r}; runpy.run_path({str(program)!r}, run_name='__main__')"
            if method == "fork"
            else f"import subprocess; sys.exit(subprocess.run([sys.executable, {str(program)!r}, URL]).returncode)",
            server.url,
            timeout=60,
        )

    assert 0 == done.returncode, done.stderr
    assert once(["parent", 0, *range(10, 30)]) == sink.count()


def test_closed_pipelines_leave_nothing_behind() -> None:
    """
    One hook for all pipelines: two hundred that came and went cost a fork nothing.
    """
    done = run_program(
        """
        import gc, multiprocessing.util
        from structbatch.engine import process
        for _ in range(200):
            structbatch.from_url("ndjson+" + URL + "/in", proxy=None).close()
        gc.collect()
        assert not list(process._pipelines), len(process._pipelines)
        pid = os.fork()
        if not pid:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """,
        "http://127.0.0.1:9",
    )

    assert 0 == done.returncode, done.stderr
    assert "" == done.stderr


def test_hooks_are_registered_once() -> None:
    """
    However often senders come and go, multiprocessing is told once.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            import multiprocessing.util as util
            pipeline = ship()
            for n in range(20):
                log.info("x", n=n)
                assert pipeline.flush(5)
                for sender in list(pipeline._senders):
                    pipeline._senders.discard(sender)
            print(len(util._afterfork_registry))
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert int(done.stdout) <= 2


def test_a_lock_of_the_http_library_at_the_moment_of_fork() -> None:
    """
    urllib3 empties its pools at exit, in a child too, where the parent's thread may have left a pool's queue locked.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server:
        done = run_program(
            """
            pipeline = ship()
            log.info("parent", n=1)
            assert pipeline.flush(5)
            (sender,) = pipeline._senders
            (route,) = sender._transport._routes.values()
            held = getattr(route.pool.pool, "mutex", None)
            if held is not None:
                held.acquire()
            pid = os.fork()
            if not pid:
                sys.exit(0)
            if held is not None:
                held.release()
            assert os.waitpid(pid, 0)[1] == 0
            log.info("parent", n=2)
            """,
            server.url,
        )

    assert 0 == done.returncode, done.stderr
    assert once([1, 2]) == sink.count()
