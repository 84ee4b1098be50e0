# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json

from dataclasses import replace

import pytest

from rich.console import Console

from structbatch.cli.account import Account, print_account


ALL_WELL = Account(
    asked=1000,
    events=1000,
    emitted=1000,
    delivered=1000,
    dropped=0,
    dead=0,
    spooled=0,
    loaded=0,
    waiting=0,
    received=1000,
    lost=0,
    duplicated=0,
    requests=5,
    bytes_plain=300_000,
    bytes_wire=60_000,
    lag_ms={"p50": 1.0, "p99": 2.0, "max": 3.0},
    seconds=0.5,
    per_second=[{"in": 1000, "out": 1000, "backlog": 0}],
)
OWN_ENDPOINT = replace(ALL_WELL, received=None, lost=None, duplicated=None, lag_ms=None)


class TestAccount:
    @pytest.mark.parametrize(
        ("expected", "account"),
        [
            (0, ALL_WELL),
            (0, replace(ALL_WELL, duplicated=7)),
            (1, replace(ALL_WELL, lost=1)),
            (1, replace(ALL_WELL, events=999)),
            (130, replace(ALL_WELL, interrupted=True)),
            (0, OWN_ENDPOINT),
            (0, replace(OWN_ENDPOINT, delivered=900, spooled=100)),
            (1, replace(OWN_ENDPOINT, dropped=1)),
            (1, replace(OWN_ENDPOINT, dead=1)),
            (1, replace(OWN_ENDPOINT, waiting=1)),
        ],
    )
    def test_exit_status(self, expected: int, account: Account) -> None:
        """
        0 only when all was logged and nothing was lost: by the receiver's word where there is one.
        """
        assert expected == account.exit_status

    def test_as_json(self) -> None:
        """
        The object has the names that scripts rely on, and JSON can carry it.
        """
        values = json.loads(json.dumps(ALL_WELL.as_json()))

        assert {
            *("events", "emitted", "delivered", "dropped", "dead", "spooled", "loaded", "waiting"),
            *("received", "lost", "duplicated", "requests", "bytes_plain", "bytes_wire", "lag_ms"),
            *("seconds", "events_per_second", "per_second"),
        } <= set(values)
        assert 2000.0 == values["events_per_second"]

    @pytest.mark.parametrize(
        ("expected", "account"),
        [
            ("Of 1,000 events nothing lost, nothing came twice: the receiver saw 1,000 of their ids.", ALL_WELL),
            (
                "Of 1,000 events 12 lost, 3 came more than once: the receiver saw 988 of their ids.",
                replace(ALL_WELL, lost=12, duplicated=3, received=988),
            ),
        ],
    )
    def test_verdict(self, expected: str, account: Account) -> None:
        """
        One line says what was lost and what came twice.
        """
        assert expected == account.verdict()

    def test_verdict_without_receiver(self) -> None:
        """
        Where only the endpoint knows, the line says so.
        """
        assert "only your endpoint knows what arrived" in OWN_ENDPOINT.verdict()

    def test_no_time(self) -> None:
        """
        A run without a duration has no rate.
        """
        assert 0.0 == replace(ALL_WELL, seconds=0.0).events_per_second


class TestPrintAccount:
    def test_lines(self) -> None:
        """
        Every figure of the account, the reasons, the bytes and the lag are shown.
        """
        out = io.StringIO()
        print_account(replace(ALL_WELL, dropped=4, dropped_by_reason={"queue_full": 4}), Console(file=out, width=100))

        shown = out.getvalue()

        assert "queue_full 4" in shown
        assert "5.0 times smaller" in shown
        assert "p99 2.0 ms, max 3.0 ms" in shown
        assert "nothing lost" in shown

    def test_without_receiver(self) -> None:
        """
        Without a receiver there is no lag to show.
        """
        out = io.StringIO()
        print_account(replace(OWN_ENDPOINT, bytes_wire=0), Console(file=out, width=200))

        assert "ingest lag" not in out.getvalue()
