# SPDX-License-Identifier: Apache-2.0
"""
What came of a run: our own account beside what the other end saw.
"""

from __future__ import annotations

import dataclasses

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from structbatch.cli.series import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """
    The figures of one run.

    Args:
        events: How many the application logged.

        emitted: So many the pipeline was handed, and so on: its own account.

        received:
            Different ids among the application's that the receiver saw; None where the endpoint is not ours to ask.
            *lost* are those that it did not see, *duplicated* how often it saw one again.

        requests: As the receiver counted them, and so the bytes; as the pipeline did where there is no receiver.

        lag_ms: From the log call to the complete request at the receiver, first arrivals only.

        seconds: From the first log call until all was settled.

        interrupted: By Ctrl-C.

        asked: How many events were asked for.
    """

    asked: int
    events: int
    emitted: int
    delivered: int
    dropped: int
    dropped_by_reason: Mapping[str, int] = field(default_factory=dict)
    dead: int
    dead_by_reason: Mapping[str, int] = field(default_factory=dict)
    spooled: int
    loaded: int
    waiting: int
    received: int | None
    lost: int | None
    duplicated: int | None
    requests: int
    bytes_plain: int
    bytes_wire: int
    lag_ms: Mapping[str, float | None] | None
    seconds: float
    per_second: list[Row]
    interrupted: bool = False

    @property
    def events_per_second(self) -> float:
        """
        Events that arrived (delivered, where only the pipeline can tell) by the whole time.
        """
        arrived = self.delivered if self.received is None else self.received
        return round(arrived / self.seconds, 1) if self.seconds > 0 else 0.0

    @property
    def exit_status(self) -> int:
        """
        0 only when all was logged and nothing was lost; 130 after Ctrl-C.
        """
        if self.interrupted:
            return 130
        if self.events < self.asked:
            return 1
        lost = self.dropped + self.dead + self.waiting if self.lost is None else self.lost
        return 1 if lost else 0

    def as_json(self) -> dict[str, Any]:
        """
        For ``--json``.
        """
        values = {name: getattr(self, name) for name in self._names() if name != "asked"}
        return {**values, "seconds": round(self.seconds, 3), "events_per_second": self.events_per_second}

    def _names(self) -> list[str]:
        return [item.name for item in dataclasses.fields(self)]

    def verdict(self) -> str:
        """
        One line: was anything lost, or did it come twice?
        """
        if self.lost is None or self.duplicated is None:
            return self._own_verdict()
        stopped = "Stopped. " if self.interrupted else ""
        lost = f"{self.lost:,} lost" if self.lost else "nothing lost"
        again = f"{self.duplicated:,} came more than once" if self.duplicated else "nothing came twice"
        return f"{stopped}Of {self.events:,} events {lost}, {again}: the receiver saw {self.received:,} of their ids."

    def _own_verdict(self) -> str:
        kept = self.dropped + self.dead + self.waiting
        own = f"{kept:,} events not delivered" if kept else "Nothing dropped, dead or waiting"
        return f"{own}, by our own account; only your endpoint knows what arrived (received and lost are not known)."


def print_account(account: Account, console: Console) -> None:
    """
    For people.
    """
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for name, value, note in _lines(account):
        table.add_row(name, value, escape(note))
    console.print(table)
    bad = account.exit_status not in (0, 130)
    console.print(account.verdict(), style="bold red" if bad else "bold green", highlight=False, soft_wrap=True)


def _lines(account: Account) -> list[tuple[str, str, str]]:
    ratio = account.bytes_plain / account.bytes_wire if account.bytes_wire else 0.0
    lines = [
        ("emitted", f"{account.emitted:,}", "events handed to the pipeline"),
        ("loaded", f"{account.loaded:,}", "taken back from the spool"),
        ("delivered", f"{account.delivered:,}", "taken by the endpoint"),
        ("dropped", f"{account.dropped:,}", _reasons(account.dropped_by_reason)),
        ("dead", f"{account.dead:,}", _reasons(account.dead_by_reason)),
        ("spooled", f"{account.spooled:,}", "on disk"),
        ("waiting", f"{account.waiting:,}", "in memory"),
        ("requests", f"{account.requests:,}", ""),
        ("bytes", f"{account.bytes_plain:,}", "before compression"),
        ("", f"{account.bytes_wire:,}", f"after, {ratio:.1f} times smaller" if ratio else "after"),
    ]
    if account.lag_ms is not None and account.lag_ms["max"] is not None:
        p50, p99, worst = (_milliseconds(account.lag_ms[key]) for key in ("p50", "p99", "max"))
        lines.append(("ingest lag", p50, f"median; p99 {p99}, max {worst}"))
    lines.append(("time", f"{account.seconds:.2f} s", f"{account.events_per_second:,.0f} events a second"))
    return lines


def _milliseconds(value: float | None) -> str:
    return "?" if value is None else f"{value:,.1f} ms"


def _reasons(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in sorted(reasons.items()) if count)
