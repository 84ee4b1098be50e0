# SPDX-License-Identifier: Apache-2.0
"""
Pipelines for tests: one that ends in a server of ours, one without a network, and one in a process of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

import structbatch

from structbatch.core.compress import Compression
from structbatch.core.http import Request, Response
from structbatch.engine.pipeline import Pipeline
from structbatch.engine.selflog import Problem, ProblemKind
from structbatch.transport.base import Transport
from structbatch.vendors.ndjson import Ndjson
from tests.support.server import Answer, Recorded


ROOT = Path(__file__).parent.parent.parent

NIGHTLY = bool(os.environ.get("STRUCTBATCH_TEST_NIGHTLY"))
"""
Whether this run has the night: ``STRUCTBATCH_TEST_NIGHTLY=1``.
"""

QUICK: dict[str, Any] = {"batch_linger": 0.02, "retry_initial": 0.01, "retry_max_delay": 0.05, "retry_hold": 0.2}
"""
Settings with which nothing takes long.
"""

PREAMBLE = """
import os, sys
import structlog, structbatch
from structbatch.structlog import Shipper
URL = sys.argv[1]
def ship(**settings):
    settings = {"batch_linger": 0.02, "retry_initial": 0.01, "retry_max_delay": 0.05, "proxy": None, **settings}
    pipeline = structbatch.from_url("ndjson+" + URL + "/in", **settings)
    structlog.configure(processors=[structlog.processors.add_log_level, Shipper(pipeline)])
    return pipeline
log = structlog.get_logger()
"""
"""
What every program of `run_program` begins with: the way to a pipeline.
"""


class Sink:
    """
    A script for `tests.support.server.MisbehavingServer`: gives *answers* in turn, then 200, and keeps the events of
    every request that it took.

    Args:
        answers: The first answers; those that are no success keep nothing.

        choose: Instead of *answers*: from the request to its answer.
    """

    def __init__(self, answers: Iterable[Answer] = (), choose: Callable[[Recorded], Answer] | None = None) -> None:
        self._answers = iter(answers)
        self._choose = choose
        self._lock = threading.Lock()
        self.events: list[dict[str, Any]] = []
        self.by_connection: dict[int, list[dict[str, Any]]] = {}

    def __call__(self, request: Recorded) -> Answer:
        """
        The answer to *request*.
        """
        with self._lock:
            answer = self._choose(request) if self._choose is not None else next(self._answers, Answer())
            if answer.status // 100 == 2 and not answer.hang and request.complete:
                events = read_lines(request.body)
                self.events += events
                self.by_connection.setdefault(request.connection, []).extend(events)
        return answer

    def count(self, key: str = "n") -> Counter[Any]:
        """
        How often each value of *key* came.
        """
        return Counter(event[key] for event in self.events if key in event)


def read_lines(body: bytes | bytearray) -> list[dict[str, Any]]:
    """
    The events of a body of newline-delimited JSON.
    """
    return [orjson.loads(line) for line in bytes(body).splitlines()]


def once(numbers: Iterable[Any]) -> Counter[Any]:
    """
    Every one of *numbers* exactly once.
    """
    return Counter(numbers)


def pipeline_to(url: str, **arguments: Any) -> Pipeline:
    """
    A pipeline that sends newline-delimited JSON to *url*, with settings with which nothing takes long.
    """
    return structbatch.from_url(f"ndjson+{url}/in", **{"proxy": None, **QUICK, **arguments})


class FakeTransport:
    """
    Carries no request anywhere: *answer* says what comes back, or raises.

    Args:
        answer: From a request to its response; by default 200.
    """

    def __init__(self, answer: Callable[[Request], Response] | None = None) -> None:
        self._answer = answer or (lambda request: Response(200))
        self.bodies: list[bytes] = []
        self.requests: list[Request] = []
        self.aborted = threading.Event()
        self.closed = 0

    def send(self, request: Request, timeout: float) -> Response:
        """
        Remembers what came through.
        """
        self.requests.append(request)
        response = self._answer(request)
        if response.status // 100 == 2:
            self.bodies.append(bytes(request.body))
        return response

    def abort(self) -> None:
        """
        Only noted.
        """
        self.aborted.set()

    def close(self) -> None:
        """
        Only counted.
        """
        self.closed += 1

    @property
    def events(self) -> list[dict[str, Any]]:
        """
        What came through.
        """
        return [event for body in self.bodies for event in read_lines(body)]


def offline(
    answer: Callable[[Request], Response] | None = None, *, vendor: Any = None, **arguments: Any
) -> tuple[Pipeline, FakeTransport]:
    """
    A pipeline without a network, and the transport that all its senders share. Arguments that are settings are.
    """
    transport = FakeTransport(answer)
    own = {
        name: arguments.pop(name) for name in ("secret", "before", "on_problem", "name", "recipe") if name in arguments
    }
    make: Callable[[], Transport] = arguments.pop("transport", lambda: transport)
    settings = structbatch.Settings(**{**QUICK, "compression": Compression.IDENTITY, **arguments})
    return Pipeline(vendor or Ndjson("http://127.0.0.1/in"), settings, transport=make, **own), transport


class Problems(list[Problem]):
    """
    An *on_problem* that remembers.
    """

    def __call__(self, problem: Problem) -> None:
        """
        Remember *problem*.
        """
        self.append(problem)

    @property
    def kinds(self) -> list[ProblemKind]:
        """
        What they were about, in their order.
        """
        return [problem.kind for problem in self]


def run_program(
    source: str, *arguments: str, timeout: float = 30.0, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """
    Run *source* after `PREAMBLE` in a process of its own.

    *arguments* begin with the server's URL. What runs longer than *timeout* seconds is killed, its children too, and
    the stacks of all its threads are in the error.

    Raises:
        AssertionError: It took too long.
    """
    program = PREAMBLE + textwrap.dedent(source)
    environ = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    command = [python, "-X", "faulthandler", "-c", program, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environ, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            # faulthandler's own timer is no help: a forked child waits for its thread for ever.
            os.killpg(process.pid, signal.SIGABRT)
            out, err = process.communicate()
            msg = f"still running after {timeout} s\n{out}\n{err}"
            raise AssertionError(msg) from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def closes(stats: structbatch.Stats) -> bool:
    """
    Whether the account of *stats* closes.
    """
    out = stats.delivered + stats.dropped + stats.dead + stats.spooled + stats.waiting
    return stats.emitted + stats.loaded == out
