# SPDX-License-Identifier: Apache-2.0
"""
Logging from everywhere at once: threads, a signal handler every millisecond, finalizers under a nervous collector.

``python -m tests.integration.reentry --seconds 20`` runs it against a server of its own in another process and exits
with 0 if every event arrived exactly once and the account closed. ``--each`` does so with every Python at hand, in
virtual environments that are made below ``.venv-reentry`` and kept.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import http.server
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any


ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
REQUIREMENTS = (
    "structlog>=24.1",
    "opentelemetry-api>=1.25",
    "requests>=2.32.3",
    "zstandard>=0.23",
    "orjson>=3.10.7",
    "platformdirs>=4.0",
)


class _Keeper(http.server.BaseHTTPRequestHandler):
    """
    Takes newline-delimited JSON and counts the member ``n``; a GET gives how often each came.
    """

    protocol_version = "HTTP/1.1"
    seen: Counter[str] = Counter()

    def do_POST(self) -> None:
        """
        Keep.
        """
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.update(json.loads(line)["n"] for line in body.splitlines())
        self._answer(b"")

    def do_GET(self) -> None:
        """
        Tell.
        """
        self._answer(json.dumps(self.seen).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """
        Nothing.
        """

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve() -> None:
    """
    Write the port to stdout, and serve until stdin ends.
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Keeper)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


class Finalized:
    """
    Logs when it dies. In a cycle, so that the collector does it, wherever that happens to run.
    """

    def __init__(self, tell: Any) -> None:
        self._tell = tell
        self._self = self

    def __del__(self) -> None:
        self._tell()


class HandlerError(Exception):
    """
    What the signal handler raises into the main thread.
    """


class Load:
    """
    The threads, the handler and the finalizers; counts what the pipeline accepted.

    Args:
        emit: The door.

        raising: The handler also raises, now and then.
    """

    def __init__(self, emit: Any, *, raising: bool = False) -> None:
        self._emit = emit
        self._raising = raising
        self._names = itertools.count()
        self._ticks = itertools.count(1)
        self._accepted: list[str] = []
        self._over = threading.Event()
        self.errors: list[BaseException] = []
        self.interrupted = 0

    def accepted(self) -> Counter[str]:
        """
        The events that must arrive.
        """
        return Counter(self._accepted)

    def run(self, seconds: float, threads: int = 3) -> None:
        """
        Log for so long.
        """
        workers = [threading.Thread(target=self._work, args=("thread",)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        signal.signal(signal.SIGALRM, self._on_signal)
        # What a finalizer lets out is written to stderr: here it is the handler's own error, a thousand times.
        sys.unraisablehook = self._on_unraisable
        thresholds = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            self._main(time.monotonic() + seconds)
        finally:
            self._stop()
            gc.set_threshold(*thresholds)
            self._over.set()
            sys.unraisablehook = sys.__unraisablehook__
        for worker in workers:
            worker.join()
        gc.collect()

    def _main(self, until: float) -> None:
        while time.monotonic() < until:
            try:
                self._work("main", 50)
            except HandlerError:
                self.interrupted += 1

    def _stop(self) -> None:
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, signal.SIG_IGN)
            except HandlerError:
                continue
            return

    def _work(self, who: str, most: int | None = None) -> None:
        for _ in itertools.count() if most is None else range(most):
            if self._over.is_set():
                return
            try:
                self._log(who)
                Finalized(lambda: self._log("finalizer"))
            except HandlerError:
                raise
            except BaseException as error:  # noqa: BLE001
                self.errors.append(error)
            # The queue should not be what is tested.
            time.sleep(0.0002)

    def _log(self, who: str) -> None:
        name = f"{who}-{next(self._names)}"
        if self._emit({"event": "x", "n": name}):
            self._accepted.append(name)

    def _on_unraisable(self, unraisable: Any) -> None:
        if not self._raising:
            self.errors.append(unraisable.exc_value)

    def _on_signal(self, number: int, frame: Any) -> None:
        self._log("signal")
        if self._raising and next(self._ticks) % 7 == 0:
            raise HandlerError


def check(url: str, seconds: float, *, raising: bool = False) -> list[str]:
    """
    Run the load against *url* and say what went wrong.
    """
    import structbatch

    problems: list[Any] = []
    pipeline = structbatch.from_url(
        f"ndjson+{url}/in",
        proxy=None,
        compression="identity",
        batch_linger=0.01,
        queue_max_records=100_000,
        on_problem=problems.append,
    )
    load = Load(pipeline.emit, raising=raising)
    load.run(seconds)
    flushed = pipeline.flush(20)
    pipeline.emit({"event": "canary", "n": "canary"})
    closed = pipeline.close(20)
    stats = pipeline.stats()
    came = Counter(json.loads(_get(url)))
    expected = load.accepted() + Counter(["canary"])
    return list(_wrong(expected, came, raising=raising)) + [
        text
        for bad, text in (
            (load.errors, f"raised into the application: {load.errors[:3]!r}"),
            (not flushed or not closed, f"not all was delivered: {flushed} {closed}"),
            (stats.emitted + stats.loaded != stats.delivered + stats.dropped + stats.dead, f"no account: {stats}"),
            (stats.waiting, f"something waits after close: {stats}"),
            # What a handler raises while an event is being encoded counts as the event's own fault.
            (problems and not raising, f"problems: {problems[:3]}"),
            (raising and not load.interrupted, "the handler never raised"),
            (not any(name.startswith("signal") for name in expected), "the handler never logged"),
            (not any(name.startswith("finalizer") for name in expected), "no finalizer logged"),
        )
        if bad
    ]


def _wrong(expected: Counter[str], came: Counter[str], *, raising: bool) -> Iterable[str]:
    if twice := [name for name, count in came.items() if count > 1]:
        yield f"{len(twice)} came more than once: {twice[:3]}"
    if missing := list(expected - came):
        yield f"{len(missing)} of {len(expected)} did not come: {missing[:3]}"
    # A handler that raises out of `emit` hides whether the event was taken: it may come all the same.
    if not raising and (strangers := list(came - expected)):
        yield f"{len(strangers)} came that were refused: {strangers[:3]}"


def _get(url: str) -> bytes:
    import urllib.request

    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        return bytes(answer.read())


def one(seconds: float, *, raising: bool) -> list[str]:
    """
    A server in another process, and `check`.
    """
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        return check(f"http://127.0.0.1:{int(server.stdout.readline())}", seconds, raising=raising)
    finally:
        server.stdin.close()
        server.wait(10)
        server.stdout.close()


def each(seconds: float) -> int:
    """
    Every Python at hand, in a virtual environment of its own.
    """
    failed = 0
    for name in PYTHONS:
        python = environment(name)
        if python is None:
            print(f"{name}: not here", flush=True)
            continue
        failed += subprocess.run([python, __file__, "--seconds", str(seconds)], check=False).returncode != 0
    return failed


def environment(name: str) -> str | None:
    """
    The interpreter of a virtual environment of *name* with what structbatch needs; None if there is none to be had.
    """
    found = shutil.which(name)
    folder = ROOT / ".venv-reentry" / name
    python = folder / "bin" / "python"
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        return None
    if not (folder / "ready").exists():
        subprocess.run([found, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        (folder / "ready").touch()
    return str(python)


def main() -> int:
    """
    The command line.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--each", action="store_true", help="with every Python at hand")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    if options.each:
        return each(options.seconds)
    faulthandler.enable()
    faulthandler.dump_traceback_later(2 * options.seconds + 90, exit=True)
    wrong = [
        *one(options.seconds, raising=False),
        *(f"with a raising handler: {text}" for text in one(options.seconds, raising=True)),
    ]
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"Python {version}, {options.seconds:g} s: {'; '.join(wrong) or 'every event once, the account closes'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.pop("STRUCTBATCH_URL", None)
    sys.exit(main())
