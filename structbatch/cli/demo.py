# SPDX-License-Identifier: Apache-2.0
"""
``structbatch demo``: a receiver in another process, an application that logs, an outage in the middle, the account.
"""

from __future__ import annotations

import math
import threading
import time

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

import structlog

from structbatch.cli.account import Account
from structbatch.cli.application import Application, configure
from structbatch.cli.series import SLOT_NS, per_second
from structbatch.config import from_url
from structbatch.core.settings import Settings
from structbatch.engine.pipeline import Pipeline
from structbatch.receiver.process import ReceiverProcess
from structbatch.structlog import Shipper


_POLL: Final = 0.02
_MARGIN: Final = 5.0
_RECORD_BYTES: Final = 1024
_GRACE: Final = 2.0
_FLUSH: Final = 60.0
_FLUSH_INTERRUPTED: Final = 5.0
_SAMPLE: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """
    What to do.

    Args:
        events: How many events to log.

        rate: Events a second; 0: as fast as it goes, with ``overflow=block``.

        outage: Seconds in the middle during which the receiver refuses everything.

        threads: How many threads log.

        url: The user's own endpoint, as `structbatch.from_url` takes it; None: a receiver of our own.
    """

    events: int = 100_000
    rate: float = 20_000.0
    outage: float = 2.0
    threads: int = 4
    url: str | None = None


class Watcher(Protocol):
    """
    **Protocol**: told how far the run is.
    """

    def logged(self, events: int) -> None:
        """
        So many events have been logged.
        """
        ...

    def phase(self, words: str) -> None:
        """
        A new phase began.
        """
        ...


def settings_for(options: Options) -> dict[str, object]:
    """
    The pipeline's settings for a run: as they are by default, except for its queue.

    At a given rate the queue must hold what is logged during the outage and the longest delay after it; flat out, the
    application waits for room instead.
    """
    if not options.rate:
        return {"overflow": "block", "overflow_timeout": options.outage + 2 * Settings().retry_max_delay + _MARGIN}
    held = options.rate * (options.outage + Settings().retry_max_delay + _MARGIN)
    records = max(Settings().queue_max_records, min(options.events, math.ceil(held)))
    return {
        "queue_max_records": records,
        "queue_max_bytes": max(Settings().queue_max_bytes, records * _RECORD_BYTES),
    }


def run(options: Options, watcher: Watcher, make: Callable[..., Pipeline] = from_url) -> Account:
    """
    Run the demo.

    Ctrl-C ends it early, with the account so far.

    Args:
        make: Makes the pipeline from a URL and settings.

    Raises:
        ConfigError: *url* is wrong.
        ReceiverError: The receiver did not start, or does not answer.
    """
    with ExitStack() as stack:
        receiver = None if options.url else stack.enter_context(ReceiverProcess())
        pipeline = _make(make, options, receiver)
        stack.callback(pipeline.close, 0.0)
        configure(Shipper(pipeline))
        stack.callback(structlog.reset_defaults)
        return _Run(options, watcher, pipeline, receiver).account()


def _make(make: Callable[..., Pipeline], options: Options, receiver: ReceiverProcess | None) -> Pipeline:
    settings = settings_for(options)
    if receiver is not None:
        # On this machine: a proxy from the environment has no business in between.
        return make(f"ndjson+{receiver.url}/ingest", proxy=None, **settings)
    url = options.url or ""
    # What the user wrote into the URL stands.
    said = {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    return make(url, **{name: value for name, value in settings.items() if name not in said})


class _Run:
    """
    One run, from the first event to the account.
    """

    def __init__(
        self, options: Options, watcher: Watcher, pipeline: Pipeline, receiver: ReceiverProcess | None
    ) -> None:
        self._options = options
        self._watcher = watcher
        self._pipeline = pipeline
        self._receiver = receiver
        self._application = Application(options.events, options.rate, options.threads)
        self._sampler = _Sampler(pipeline)
        self._outage_left = options.outage > 0

    def account(self) -> Account:
        if self._receiver is None:
            self._sampler.start()
        start = time.monotonic()
        interrupted = not self._until_interrupted(self._log)
        self._application.stop(_GRACE)
        patience = _FLUSH_INTERRUPTED if interrupted else _FLUSH + self._options.outage
        interrupted |= not self._until_interrupted(lambda: self._flush(patience))
        seconds = time.monotonic() - start
        self._pipeline.close()
        # Closing lets go of those that waited for room.
        self._application.stop(_GRACE)
        self._sampler.stop()
        return self._summary(seconds, interrupted=interrupted)

    @staticmethod
    def _until_interrupted(step: Callable[[], object]) -> bool:
        try:
            step()
        except KeyboardInterrupt:
            return False
        return True

    def _log(self) -> None:
        self._watcher.phase("logging")
        self._application.start()
        while self._application.running(_POLL):
            logged = self._application.logged
            self._watcher.logged(logged)
            if 2 * logged >= self._options.events:
                self._begin_outage()
        self._begin_outage()
        self._watcher.logged(self._application.logged)

    def _begin_outage(self) -> None:
        if self._outage_left and self._receiver is not None:
            self._outage_left = False
            self._receiver.control(mode="status", status=503, duration=self._options.outage)
            self._watcher.phase("outage")

    def _flush(self, patience: float) -> None:
        self._watcher.phase("flushing")
        self._pipeline.flush(patience)

    def _summary(self, seconds: float, *, interrupted: bool) -> Account:
        stats = self._pipeline.stats()
        seen = self._seen()
        return Account(
            asked=self._options.events,
            events=self._application.logged,
            emitted=stats.emitted,
            delivered=stats.delivered,
            dropped=stats.dropped,
            dropped_by_reason=_totals(stats.dropped_by_reason),
            dead=stats.dead,
            dead_by_reason=_totals(stats.dead_by_reason),
            spooled=stats.spooled,
            loaded=stats.loaded,
            waiting=stats.waiting,
            received=seen.get("expected_seen"),
            lost=seen.get("missing"),
            duplicated=seen.get("duplicated"),
            requests=seen.get("requests", stats.requests),
            bytes_plain=seen.get("bytes_plain", stats.bytes_plain),
            bytes_wire=seen.get("bytes_wire", stats.bytes_wire),
            lag_ms=seen.get("lag_ms"),
            seconds=seconds,
            per_second=per_second(self._application.slots(), self._arrivals(seen)),
            interrupted=interrupted,
        )

    def _seen(self) -> dict[str, Any]:
        return {} if self._receiver is None else self._receiver.stats(self._application.ids())

    def _arrivals(self, seen: Mapping[str, Any]) -> Mapping[int, int]:
        return dict(seen["arrivals"]) if seen else self._sampler.slots


def _totals(reasons: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {reason: sum(bands.values()) for reason, bands in reasons.items()}


class _Sampler:
    """
    Watches our own count of delivered events, where there is no receiver to ask.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.slots: Counter[int] = Counter()
        self._pipeline = pipeline
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sampler", daemon=True)
        self._delivered = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """
        Take the last sample.
        """
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._sample()

    def _work(self) -> None:
        while not self._stop.wait(_SAMPLE):
            self._sample()

    def _sample(self) -> None:
        delivered = self._pipeline.stats().delivered
        self.slots[time.time_ns() // SLOT_NS] += delivered - self._delivered
        self._delivered = delivered
