# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from dataclasses import replace
from typing import Any

import pytest

from click.testing import CliRunner

from structbatch.cli import app
from structbatch.cli.demo import Options
from structbatch.errors import ConfigError
from structbatch.receiver.process import ReceiverError
from tests.cli.test_account import ALL_WELL


@pytest.fixture(name="asked")
def _asked(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """
    The options of each run; the run itself is left out.
    """
    asked: list[Options] = []

    def run(options: Options, _watcher: object) -> object:
        asked.append(options)
        return replace(ALL_WELL, lost=options.threads - 4)

    monkeypatch.setattr(app, "run", run)
    return asked


def invoke(*arguments: str) -> Any:
    """
    The result of ``structbatch demo`` with *arguments*.
    """
    return CliRunner().invoke(app.cli, ["demo", *arguments])


class TestDemo:
    def test_defaults(self, asked: list[Options]) -> None:
        """
        Without options: 100,000 events at 20,000 a second from 4 threads, 2 s of outage.
        """
        result = invoke()

        assert 0 == result.exit_code
        assert [Options(events=100_000, rate=20_000, outage=2.0, threads=4, url=None)] == asked
        assert "nothing lost" in result.stdout

    def test_options(self, asked: list[Options]) -> None:
        """
        Every option reaches the run.
        """
        invoke("--events", "10", "--rate", "0", "--outage", "500ms", "--threads", "2")

        assert [Options(events=10, rate=0, outage=0.5, threads=2, url=None)] == asked

    def test_json(self, asked: list[Options]) -> None:
        """
        One JSON object on stdout and nothing else.
        """
        result = invoke("--json")

        assert (1000, "") == (json.loads(result.stdout)["received"], result.stderr)

    def test_lost(self, asked: list[Options]) -> None:
        """
        The account decides the exit status.
        """
        assert 1 == invoke("--threads", "5").exit_code

    def test_url(self, asked: list[Options]) -> None:
        """
        With a URL there is no outage by default.
        """
        invoke("--url", "ndjson+http://localhost")

        assert 0.0 == asked[0].outage

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--events", "0"),
            ("--events", "many"),
            ("--rate", "-1"),
            ("--outage", "soon"),
            ("--threads", "0"),
            ("--evnets", "1"),
            ("--url", "ndjson+http://localhost", "--outage", "2s"),
        ],
    )
    def test_wrong(self, asked: list[Options], arguments: tuple[str, ...]) -> None:
        """
        Wrong arguments are a message that names the option, status 2, and no run.
        """
        result = invoke(*arguments)

        assert (2, []) == (result.exit_code, asked)
        assert arguments[-2] in result.stderr

    @pytest.mark.parametrize(
        ("expected", "error"),
        [(2, ConfigError("'ndjsn' is no vendor")), (1, ReceiverError("the receiver did not start"))],
    )
    def test_errors(self, monkeypatch: pytest.MonkeyPatch, expected: int, error: Exception) -> None:
        """
        Our own errors are a sentence, never a traceback: 2 where the arguments are to blame.
        """

        def run(*_: object) -> object:
            raise error

        monkeypatch.setattr(app, "run", run)
        result = invoke()

        assert expected == result.exit_code
        assert str(error) in result.stderr
        assert "Traceback" not in result.output
