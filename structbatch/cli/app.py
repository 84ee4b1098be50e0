# SPDX-License-Identifier: Apache-2.0
"""
The commands and their options.
"""

from __future__ import annotations

import json
import sys

from types import TracebackType
from typing import Self

import click

from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from structbatch.cli.account import print_account
from structbatch.cli.demo import Options, run
from structbatch.cli.duration import Duration
from structbatch.errors import ConfigError, StructbatchError


_MAX_EVENTS = 100_000_000
_MAX_RATE = 10_000_000
_MAX_THREADS = 256


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Ship structured logs in compressed batches over HTTP."""


@cli.command(short_help="Log through an outage and settle the account.")
@click.option(
    "--events", type=click.IntRange(1, _MAX_EVENTS), default=100_000, show_default=True, help="Events to log."
)
@click.option(
    "--rate",
    type=click.FloatRange(0, _MAX_RATE),
    default=20_000,
    show_default=True,
    help="Events a second; 0: as fast as it goes, and the application waits for room.",
)
@click.option(
    "--outage", type=Duration(), default="2s", show_default=True, help="How long the receiver refuses, at half time."
)
@click.option("--threads", type=click.IntRange(1, _MAX_THREADS), default=4, show_default=True, help="Threads that log.")
@click.option("--url", help="Ship to this endpoint (ndjson+https://...) instead of a receiver of our own.")
@click.option("--json", "as_json", is_flag=True, help="Print the account as one JSON object.")
@click.pass_context
def demo(
    ctx: click.Context, events: int, rate: float, outage: float, threads: int, url: str | None, as_json: bool
) -> None:
    """
    Log through structlog to a receiver in another process, cut it off at half time, and settle the account.

    Exit status: 0 only when nothing was lost.
    """
    if url is not None:
        if outage and ctx.get_parameter_source("outage") is not ParameterSource.DEFAULT:
            msg = "--outage needs our own receiver: leave out --url, or say --outage 0s"
            raise click.UsageError(msg)
        outage = 0.0
    options = Options(events=events, rate=rate, outage=outage, threads=threads, url=url)
    show = sys.stderr.isatty() and not as_json
    try:
        with _Bar(events, show=show) as bar:
            account = run(options, bar)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    except StructbatchError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        ctx.exit(130)
    if as_json:
        click.echo(json.dumps(account.as_json()))
    else:
        print_account(account, Console())
    ctx.exit(account.exit_status)


class _Bar:
    """
    A progress bar on stderr, or nothing.
    """

    def __init__(self, total: int, *, show: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not show,
        )
        self._task = self._progress.add_task("starting", total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def logged(self, events: int) -> None:
        self._progress.update(self._task, completed=events)

    def phase(self, words: str) -> None:
        self._progress.update(self._task, description=words)
