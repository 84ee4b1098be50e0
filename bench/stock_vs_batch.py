# SPDX-License-Identifier: Apache-2.0
"""
One application, three ways out for its log: a POST per event in the caller, the same behind a bounded queue, and
structbatch. All block when they are full. Measured while all is well (steady), while the process is restarted again
and again (churn), and while the server hangs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bench.harness import median_ratio, parser, report, target
from bench.sink import ROOT, Sink


DOORS: Final = ("stock", "queue", "structbatch")
LATENCIES: Final = (0.0, 0.005, 0.05)
EVENTS_PER_CHILD: Final = 1_000_000
TARGET: Final = 134.0


@dataclass(frozen=True)
class Scenario:
    """
    Args:
        name: Its key in the result.

        children: How many processes, one after the other.

        seconds: How long each works.

        hang: How long the server hangs, from a quarter of the first child's time on.
    """

    name: str
    children: int
    seconds: float
    hang: float = 0.0


FULL: Final = (
    Scenario("steady_60s", 1, 60.0),
    Scenario("steady_300s", 1, 300.0),
    Scenario("churn", 15, 2.0),
    Scenario("hang_30s", 1, 60.0, 30.0),
)
QUICK: Final = (Scenario("steady_3s", 1, 3.0), Scenario("churn", 2, 2.0), Scenario("hang_3s", 1, 8.0, 3.0))


def run_children(door: str, url: str, scenario: Scenario, on_start: Callable[[], object]) -> list[dict[str, Any]]:
    """
    Run the application *scenario.children* times, one after the other.
    """
    outcomes = []
    for number in range(scenario.children):
        command = [sys.executable, "-m", "bench.application", "--door", door, "--url", url]
        command += ["--seconds", str(scenario.seconds), "--first", str(number * EVENTS_PER_CHILD)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        on_start()
        output, _ = child.communicate()
        if child.returncode:
            msg = f"the application ({door}) ended with {child.returncode}"
            raise RuntimeError(msg)
        outcomes.append(json.loads(output))
    return outcomes


def add_up(outcomes: list[dict[str, Any]], arrived: dict[str, Any]) -> dict[str, Any]:
    """
    One door's figures of one scenario; *arrived* is the server's count, empty where it cannot be asked.
    """
    operations = sum(outcome["operations"] for outcome in outcomes)
    delivered = arrived["unique"] if arrived else sum(outcome["delivered"] for outcome in outcomes)
    return {
        "app_throughput": operations / sum(outcome["seconds"] for outcome in outcomes),
        "delivered_per_s": delivered / sum(outcome["active_seconds"] for outcome in outcomes),
        "operations": operations,
        "delivered": delivered,
        "repeated": arrived["events"] - arrived["unique"] if arrived else None,
        "said_lost": sum(outcome["failed"] for outcome in outcomes),
        "waiting": sum(outcome.get("waiting", 0) for outcome in outcomes),
        "worst_call_ms": max(outcome["worst_ms"] for outcome in outcomes),
        "cpu_us_per_event": sum(outcome["cpu_seconds"] for outcome in outcomes) / max(operations, 1) * 1e6,
        "lag_ms": arrived["lag_ms"] if arrived else {},
    }


def run_against_sink(latency: float, scenario: Scenario, door: str) -> dict[str, Any]:
    """
    One door, one scenario, a fresh sink.
    """
    with Sink(latency) as sink:
        timers: list[threading.Timer] = []

        def hang() -> None:
            if scenario.hang and not timers:
                begin = scenario.seconds / 4 + 0.5
                timers.append(threading.Timer(begin, sink.freeze))
                timers.append(threading.Timer(begin + scenario.hang, sink.thaw))
                for timer in timers:
                    timer.start()

        outcomes = run_children(door, sink.url("/in"), scenario, hang)
        for timer in timers:
            timer.join()
        return add_up(outcomes, sink.arrived("/in"))


def run_against_url(url: str, scenario: Scenario, door: str) -> dict[str, Any]:
    """
    One door, one scenario, somebody's own endpoint: what arrived is what the sender's account says.
    """
    return add_up(run_children(door, url, scenario, lambda: None), {})


def compare(taken: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """
    The doors beside each other: medians, and medians of the ratios of each round.
    """

    def middle(door: str, key: str) -> float:
        values: list[float] = [figures[key] for figures in taken[door]]
        return round(statistics.median(values), 1)

    def ratio(key: str, below: str) -> float | None:
        if below not in taken:
            return None
        ours, theirs = ([float(figures[key]) for figures in taken[door]] for door in ("structbatch", below))
        return round(median_ratio(ours, theirs), 1)

    app = {door: middle(door, "app_throughput") for door in taken}
    delivered = {door: middle(door, "delivered_per_s") for door in taken}
    return {
        "app_throughput": {**app, "ratio_vs_stock": ratio("app_throughput", "stock")},
        "delivered": {**delivered, "ratio_vs_queue": ratio("delivered_per_s", "queue")},
        "lag": {door: figures[-1]["lag_ms"] for door, figures in taken.items()},
        "details": taken,
    }


def take(doors: tuple[str, ...], run: Callable[[str], dict[str, Any]], rounds: int) -> dict[str, Any]:
    """
    Let the *doors* take turns.
    """
    taken: dict[str, list[dict[str, Any]]] = {door: [] for door in doors}
    for number in range(rounds):
        for door in doors if number % 2 == 0 else reversed(doors):
            taken[door].append(run(door))
    return compare(taken)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """
    All latencies and scenarios; the figures of the first scenario stand directly under the latency.
    """
    scenarios = [s for s in (QUICK if options.quick else FULL) if not options.scenario or s.name in options.scenario]
    latencies = {}
    for name, doors, run in plans(options):
        results = {}
        for scenario in scenarios:
            if not (options.url and scenario.hang):
                print(f"{name} {scenario.name} ...", file=sys.stderr)
                results[scenario.name] = take(doors, partial(run, scenario), options.rounds)
        latencies[name] = {**next(iter(results.values())), "scenarios": results}
    return {"latencies": latencies, "rounds": options.rounds, **judge(latencies, own_sink=not options.url)}


Run = Callable[[Scenario, str], dict[str, Any]]


def plans(options: argparse.Namespace) -> Iterator[tuple[str, tuple[str, ...], Run]]:
    """
    What to run: a name, the doors, and how one door runs one scenario.
    """
    if options.url:
        # Only an endpoint that takes plain lines takes them one by one as well.
        plain = options.url.startswith(("http://", "https://", "ndjson+"))
        yield "url", DOORS if plain else ("structbatch",), partial(run_against_url, options.url)
        return
    for latency in options.latency or LATENCIES:
        yield f"{latency * 1000:g}ms", DOORS, partial(run_against_sink, latency)


def judge(latencies: dict[str, Any], *, own_sink: bool) -> dict[str, Any]:
    """
    Targets, and events that did not arrive although nobody said so.
    """
    targets, problems = {}, []
    for name, figures in latencies.items():
        if name not in {"0ms", "url"}:
            targets[f"app_throughput_{name}"] = target(figures["app_throughput"]["ratio_vs_stock"], at_least=TARGET)
            targets[f"delivered_{name}"] = target(figures["delivered"]["ratio_vs_queue"], at_least=TARGET)
        for scenario, result in figures["scenarios"].items():
            for door, rounds in result["details"].items():
                for taken in rounds:
                    missing = taken["operations"] - taken["delivered"] - taken["said_lost"] - taken["waiting"]
                    if missing > 0 or (own_sink and not taken["delivered"]):
                        problems.append(f"{name} {scenario} {door}: {missing} events did not arrive, unsaid")
    return {"targets": targets, "problems": problems}


def rows_of(result: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """
    One row for each latency, scenario and door.
    """
    for latency, figures in result["latencies"].items():
        for scenario, compared in figures["scenarios"].items():
            app, delivered, lags = compared["app_throughput"], compared["delivered"], compared["lag"]
            for door, rounds in compared["details"].items():
                lag = [lags[door].get(name) for name in ("avg", "p90", "p99", "max")]
                against = {"structbatch": (app["ratio_vs_stock"], delivered["ratio_vs_queue"])}.get(door, (None, None))
                lost = sum(taken["operations"] - taken["delivered"] for taken in rounds)
                yield (f"{latency} {scenario} {door}", app[door], against[0], delivered[door], against[1], lost, *lag)


def main() -> None:
    """
    The command.
    """
    arguments = parser("stock_vs_batch", __doc__)
    arguments.add_argument("--quick", action="store_true", help="some seconds each instead of minutes")
    arguments.add_argument("--url", help="your own endpoint (a structbatch URL or http://...) instead of our sink")
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--latency", type=float, action="append", help="seconds; default 0, 0.005 and 0.05")
    arguments.add_argument("--scenario", action="append", help=", ".join(s.name for s in (*FULL, *QUICK)))
    options = arguments.parse_args()
    result = measure(options)
    header = (
        "latency, scenario, door",
        "ops/s",
        "/ stock",
        "delivered/s",
        "/ queue",
        "lost",
        "lag avg",
        "p90",
        "p99",
        "max ms",
    )
    report(result, "Application throughput and delivery", header, rows_of(result), as_json=options.json)


if __name__ == "__main__":
    main()
