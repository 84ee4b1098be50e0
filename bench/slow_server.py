# SPDX-License-Identifier: Apache-2.0
"""
A server that takes its time: how many events a second still reach it, and whether any is lost.

Three cases, each in a process of its own, at 20,000 events a second: 250 ms a request with the defaults; the same
with one batch a request (``batch_coalesce`` off, 8 senders); and 1 s a request with a queue of 50,000, where nothing
may be lost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from dataclasses import dataclass, field
from typing import Any, Final

from bench.harness import bind_ids, log_order, make_logger, pace, parser, report, structbatch_url, target, warn_of_rate
from bench.sink import ROOT, Sink


DRAIN_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Case:
    """
    Args:
        name: Its key in the result.

        latency: Seconds that the server takes for each request.

        seconds: How long events come.

        settings: Of the pipeline.

        least: Events a second that must be delivered, or None where all must be.
    """

    name: str
    latency: float
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)
    least: float | None = None


CASES: Final = {
    case.name: case
    for case in (
        Case("defaults_250ms", 0.25, 6.0, {}, 8_000),
        Case("single_batches_250ms", 0.25, 6.0, {"batch_coalesce": False, "max_senders": 8}, 3_000),
        Case("queue_50000_1s", 1.0, 10.0, {"queue_max_records": 50_000}),
    )
}


def child(case: Case, url: str, rate: float) -> dict[str, Any]:
    """
    Log at *rate* for the time of *case*, then drain.
    """
    from structbatch.config import from_url
    from structbatch.structlog import Shipper

    bind_ids()
    pipeline = from_url(structbatch_url(url), **case.settings)
    logger = make_logger(Shipper(pipeline))
    waiting: list[int] = []
    senders: list[int] = []

    def look() -> None:
        stats = pipeline.stats()
        waiting.append(stats.waiting)
        senders.append(stats.senders)

    start = time.perf_counter()
    cpu = time.process_time()
    paced = pace(lambda number: log_order(logger, number), rate, case.seconds, look)
    at_end = pipeline.stats()
    pipeline.close(DRAIN_SECONDS)
    total = time.perf_counter() - start
    stats = pipeline.stats()
    return {
        "offered": paced.calls,
        "offered_per_s": round(paced.calls / paced.seconds),
        "worst_call_ms": round(paced.worst_ms, 2),
        "delivered_while_logging": at_end.delivered,
        "waiting_at_end": at_end.waiting,
        "waiting_max": max(waiting, default=0),
        "senders_max": max(senders, default=0),
        "active_seconds": round(total, 2),
        "drain_seconds": round(total - paced.seconds, 2),
        "cpu_us_per_event": round((time.process_time() - cpu) / paced.calls * 1e6, 2),
        "requests": stats.requests,
        "delivered": stats.delivered,
        "dropped": stats.dropped,
        "dead": stats.dead,
        "waiting": stats.waiting,
        "account_closes": stats.emitted + stats.loaded
        == stats.delivered + stats.dropped + stats.dead + stats.spooled + stats.waiting,
    }


def run_case(case: Case, rate: float) -> dict[str, Any]:
    """
    Run *case* in a child process against a fresh sink.
    """
    with Sink(case.latency) as sink:
        command = [sys.executable, "-m", "bench.slow_server", "--child", case.name]
        command += ["--url", sink.url("/in"), "--rate", str(rate)]
        output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        arrived = sink.arrived("/in")
    figures: dict[str, Any] = json.loads(output)
    warn_of_rate(case.name, figures["offered_per_s"], rate)
    figures["arrived"] = arrived["unique"]
    figures["repeated"] = arrived["events"] - arrived["unique"]
    figures["lost"] = figures["offered"] - arrived["unique"]
    figures["delivered_per_s"] = round(arrived["unique"] / figures["active_seconds"])
    figures["lag_ms"] = arrived["lag_ms"]
    return figures


def judge(cases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """
    Targets, and events whose fate nobody knows.
    """
    targets, problems = {}, []
    for name, figures in cases.items():
        least = CASES[name].least
        if least is None:
            targets[f"{name}_lost"] = target(figures["lost"], at_most=0)
        else:
            targets[f"{name}_delivered_per_s"] = target(figures["delivered_per_s"], at_least=least)
        unsaid = figures["lost"] - figures["dropped"] - figures["dead"] - figures["waiting"]
        if unsaid > 0 or not figures["account_closes"] or not figures["arrived"]:
            problems.append(f"{name}: {unsaid} events did not arrive, unsaid")
    return {"targets": targets, "problems": problems}


def main() -> None:
    """
    The command.
    """
    arguments = parser("slow_server", __doc__)
    arguments.add_argument("--rate", type=float, default=20_000.0, help="events a second")
    arguments.add_argument("--case", action="append", choices=CASES)
    arguments.add_argument("--child", choices=CASES, help="used by the benchmark itself")
    arguments.add_argument("--url", help="used by the benchmark itself")
    options = arguments.parse_args()
    if options.child:
        print(json.dumps(child(CASES[options.child], options.url, options.rate)))
        return
    cases = {name: run_case(CASES[name], options.rate) for name in options.case or CASES}
    columns = (
        "offered_per_s",
        "delivered_per_s",
        "lost",
        "waiting_max",
        "drain_seconds",
        "requests",
        "senders_max",
        "worst_call_ms",
        "cpu_us_per_event",
    )
    rows = [(name, *(figures[column] for column in columns)) for name, figures in cases.items()]
    report({"cases": cases, **judge(cases)}, "A slow server", ("case", *columns), rows, as_json=options.json)


if __name__ == "__main__":
    main()
