# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import urllib.request

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from structbatch.cli import demo
from structbatch.cli.demo import Options, run, settings_for
from structbatch.core.settings import Settings, settings_from


class Silent:
    """
    A watcher that remembers the phases.
    """

    def __init__(self) -> None:
        self.phases: list[str] = []

    def logged(self, events: int) -> None:
        pass

    def phase(self, words: str) -> None:
        self.phases.append(words)


class InMemory:
    """
    A pipeline that keeps all events and posts them at the flush; *lose* and *repeat* are ids that it treats badly.
    """

    def __init__(self, lose: int = -1, repeat: int = -1, interrupt: bool = False) -> None:
        self.url = ""
        self.settings: dict[str, object] = {}
        self.events: list[bytes] = []
        self._lose = lose
        self._repeat = repeat
        self._interrupt = interrupt

    def __call__(self, url: str, **settings: object) -> InMemory:
        self.url, self.settings = url, settings
        return self

    def emit(self, event: dict[str, Any], method_name: str = "") -> bool:
        line = orjson.dumps(event) + b"\n"
        number = event["demo_id"]
        self.events += [line] * (2 if number == self._repeat else 0 if number == self._lose else 1)
        return True

    def flush(self, timeout: float | None = None) -> None:
        if self._interrupt:
            raise KeyboardInterrupt
        if self.url.startswith("ndjson+http://127.0.0.1"):
            url = self.url.removeprefix("ndjson+")
            urllib.request.urlopen(url, b"".join(self.events)).close()  # noqa: S310

    def close(self, timeout: float | None = None) -> None:
        pass

    def stats(self) -> SimpleNamespace:
        count = len(self.events)
        return SimpleNamespace(
            **dict.fromkeys(("dropped", "dead", "spooled", "loaded", "waiting", "bytes_plain", "bytes_wire"), 0),
            **dict.fromkeys(("emitted", "delivered", "requests"), count),
            dropped_by_reason={"queue_full": {"info": 2, "error": 1}},
            dead_by_reason={},
        )


class TestRun:
    def test_receiver_is_the_judge(self) -> None:
        """
        What was lost and what came twice is what the receiver saw, whatever the pipeline says of itself.
        """
        account = run(Options(events=500, rate=0, outage=0), Silent(), InMemory(lose=7, repeat=9))

        assert (500, 499, 1, 1) == (account.events, account.received, account.lost, account.duplicated)
        assert 1 == account.exit_status

    def test_all_well(self) -> None:
        """
        Everything arrived, in one request, with its lag and its seconds; reasons are summed over severities.
        """
        account = run(Options(events=500, rate=0, outage=0), Silent(), InMemory())

        assert (0, 500, 0, 0, 1) == (
            account.exit_status,
            account.received,
            account.lost,
            account.duplicated,
            account.requests,
        )
        assert {"queue_full": 3} == account.dropped_by_reason
        assert account.lag_ms is not None
        assert account.lag_ms["max"] is not None
        assert (500, 500) == tuple(sum(row[key] for row in account.per_second) for key in ("in", "out"))

    def test_outage(self) -> None:
        """
        The outage begins while the application logs: a pipeline that gives up in it loses what it had.
        """
        watcher = Silent()

        with pytest.raises(OSError, match="503"):
            run(Options(events=500, rate=2000, outage=30), watcher, InMemory())

        assert ["logging", "outage", "flushing"] == watcher.phases

    def test_interrupted(self) -> None:
        """
        Ctrl-C ends it with the account so far.
        """
        account = run(Options(events=500, rate=0, outage=0), Silent(), InMemory(interrupt=True))

        assert (130, True, 500) == (account.exit_status, account.interrupted, account.lost)

    def test_own_endpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        With a URL there is no receiver: what arrived is not known, and settings in the URL stand.
        """
        monkeypatch.setattr(demo, "ReceiverProcess", None)
        pipeline = InMemory()
        url = "ndjson+https://logs.example.com/?queue_max_records=500"
        account = run(Options(events=100, rate=10_000, outage=0, url=url), Silent(), pipeline)

        assert (None, None, None) == (account.received, account.lost, account.duplicated)
        assert (url, {"queue_max_bytes"}) == (pipeline.url, set(pipeline.settings))
        assert (0, 100) == (account.exit_status, sum(row["out"] for row in account.per_second))


class TestSettingsFor:
    def test_flat_out(self) -> None:
        """
        Flat out, the application waits for room in a queue of the default size.
        """
        settings = settings_from(settings_for(Options(rate=0)))

        assert ("block", Settings().queue_max_records) == (settings.overflow.value, settings.queue_max_records)

    def test_queue_covers_the_outage(self) -> None:
        """
        At a rate, the queue holds what is logged in the outage and in the longest delay after it.
        """
        settings = settings_from(settings_for(Options(events=10**6, rate=20_000, outage=2)))

        assert settings.queue_max_records >= 20_000 * (2 + settings.retry_max_delay)

    def test_queue_is_never_below_the_default(self) -> None:
        """
        A short run has the default queue.
        """
        settings = settings_from(settings_for(Options(events=10, rate=1, outage=0)))

        assert (Settings().queue_max_records, Settings().queue_max_bytes) == (
            settings.queue_max_records,
            settings.queue_max_bytes,
        )
