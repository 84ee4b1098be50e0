# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

from collections.abc import Iterator, MutableMapping
from typing import Any, NoReturn

import pytest
import structlog

from structbatch.cli.application import Application, configure


@pytest.fixture(name="shipped")
def _shipped() -> Iterator[list[MutableMapping[str, Any]]]:
    """
    The events that reached the end of the chain.
    """
    shipped: list[MutableMapping[str, Any]] = []

    def ship(_logger: object, _method: str, event: MutableMapping[str, Any]) -> NoReturn:
        shipped.append(event)
        raise structlog.DropEvent

    configure(ship)
    yield shipped
    structlog.reset_defaults()


def run(application: Application) -> float:
    """
    Seconds until all is logged.
    """
    start = time.monotonic()
    application.start()
    while application.running(1.0):
        pass
    return time.monotonic() - start


class TestApplication:
    def test_every_id_once(self, shipped: list[MutableMapping[str, Any]]) -> None:
        """
        All ids from 0 on, each exactly once, however the threads share them.
        """
        application = Application(1003, 0, 4)
        run(application)

        assert list(range(1003)) == sorted(event["demo_id"] for event in shipped)
        assert 1003 == application.logged == sum(map(len, application.ids())) == application.slots().total()

    def test_realistic(self, shipped: list[MutableMapping[str, Any]]) -> None:
        """
        An event has a name, a level, a logger, six fields, two bound ids, its id and its time.
        """
        run(Application(2000, 0, 2))

        assert {
            *("event", "level", "logger", "demo_id", "demo_ns", "request_id", "customer_id"),
            *("method", "path", "status_code", "duration_ms", "region", "amount_cents"),
        } == set(shipped[0])
        assert {"debug", "info", "warning", "error"} == {event["level"] for event in shipped}
        assert len({event["request_id"] for event in shipped}) > 50

    def test_paced(self, shipped: list[MutableMapping[str, Any]]) -> None:
        """
        At a given rate it takes the time that it must.
        """
        seconds = run(Application(200, 1000, 4))

        assert 0.15 < seconds < 5
        assert 200 == len(shipped)

    def test_more_threads_than_events(self, shipped: list[MutableMapping[str, Any]]) -> None:
        """
        Threads without a share do nothing.
        """
        application = Application(2, 0, 5)
        run(application)

        assert 2 == len(shipped) == application.logged

    def test_stop(self, shipped: list[MutableMapping[str, Any]]) -> None:
        """
        Stopped early, it knows exactly which ids it used.
        """
        application = Application(1_000_000, 100, 2)
        application.start()
        application.stop(10.0)

        assert sorted(i for ids in application.ids() for i in ids) == sorted(event["demo_id"] for event in shipped)

    def test_stop_before_start(self) -> None:
        """
        Stopping what never started does nothing.
        """
        application = Application(10, 0, 2)
        application.stop(10.0)

        assert [] == application.ids()
