# SPDX-License-Identifier: Apache-2.0
"""
How much memory an outage takes: 20,000 events a second against a server that refuses connections, and against one
that takes 8 requests and then hangs. RSS of the logging process, against its RSS after the first event was delivered
or failed once.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

from pathlib import Path
from typing import Any, Final

from bench.harness import bind_ids, log_order, make_logger, pace, parser, report, structbatch_url, target, warn_of_rate
from bench.sink import ROOT, Sink


MIB: Final = 1024 * 1024
LIMIT_MIB: Final = 64
CASES: Final = ("refused", "hangs")


def read_rss() -> int:
    """
    Resident bytes of this process.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    msg = "/proc/self/status has no VmRSS: this benchmark needs Linux"
    raise RuntimeError(msg)


def child(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """
    Log at *rate* for *seconds* and look at the memory ten times a second.
    """
    from structbatch.config import from_url
    from structbatch.structlog import Shipper

    bind_ids()
    pipeline = from_url(structbatch_url(url))
    logger = make_logger(Shipper(pipeline))
    log_order(logger, 0)
    pipeline.flush(1.0)
    start = read_rss()
    samples = [start]
    paced = pace(lambda number: log_order(logger, number + 1), rate, seconds, lambda: samples.append(read_rss()))
    samples.append(read_rss())
    during = pipeline.stats()
    begin = time.perf_counter()
    pipeline.close(2.0)
    stats = pipeline.stats()
    return {
        "start_mib": round(start / MIB, 1),
        "max_mib": round(max(samples) / MIB, 1),
        "growth_mib": round((max(samples) - start) / MIB, 1),
        "half_way_mib": round(samples[len(samples) // 2] / MIB, 1),
        "events": paced.calls + 1,
        "events_per_s": round(paced.calls / paced.seconds),
        "worst_call_ms": round(paced.worst_ms, 2),
        "waiting": during.waiting,
        "state": str(during.state),
        "senders": during.senders,
        "requests": stats.requests,
        "close_seconds": round(time.perf_counter() - begin, 2),
        "emitted": stats.emitted,
        "delivered": stats.delivered,
        "dropped": stats.dropped,
        "dropped_by_reason": {str(reason): count for reason, count in stats.dropped_by_reason.items()},
        "waiting_after_close": stats.waiting,
        "spooled": stats.spooled,
        "account_closes": stats.emitted + stats.loaded
        == stats.delivered + stats.dropped + stats.dead + stats.spooled + stats.waiting,
    }


def run_child(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """
    The same in a process of its own.
    """
    command = [sys.executable, "-m", "bench.memory", "--child", url, "--rate", str(rate), "--seconds", str(seconds)]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    figures: dict[str, Any] = json.loads(output)
    return figures


def run_case(name: str, rate: float, seconds: float) -> dict[str, Any]:
    """
    One of `CASES`; ``arrived`` is what the server counted.
    """
    if name == "hangs":
        with Sink(hang_after=8) as sink:
            figures = run_child(sink.url("/in"), rate, seconds)
            arrived = sink.arrived("/in")
            return {**figures, "arrived": arrived["unique"], "arrived_requests": arrived["requests"]}
    # Bound and never listening: the port refuses and nobody else can take it meanwhile.
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/in"
        return {**run_child(url, rate, seconds), "arrived": 0, "arrived_requests": 0}


def judge(cases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """
    Targets, and accounts that do not close.
    """
    targets, problems = {}, []
    for name, figures in cases.items():
        targets[f"{name}_growth_mib"] = target(figures["growth_mib"], at_most=LIMIT_MIB)
        if not figures["account_closes"] or figures["emitted"] != figures["events"]:
            problems.append(f"{name}: the account does not close over {figures['events']} events")
        if figures["delivered"] != figures["arrived"]:
            problems.append(f"{name}: {figures['delivered']} delivered, but {figures['arrived']} arrived")
    if "hangs" in cases and not cases["hangs"]["arrived"]:
        problems.append("hangs: nothing arrived at all")
    return {"targets": targets, "problems": problems}


def main() -> None:
    """
    The command.
    """
    arguments = parser("memory", __doc__)
    arguments.add_argument("--quick", action="store_true", help="15 seconds instead of 60")
    arguments.add_argument("--seconds", type=float)
    arguments.add_argument("--rate", type=float, default=20_000.0, help="events a second")
    arguments.add_argument("--case", action="append", choices=CASES)
    arguments.add_argument("--child", metavar="URL", help="used by the benchmark itself")
    options = arguments.parse_args()
    seconds = options.seconds or (15.0 if options.quick else 60.0)
    if options.child:
        print(json.dumps(child(options.child, options.rate, seconds)))
        return
    cases = {name: run_case(name, options.rate, seconds) for name in options.case or CASES}
    for name, figures in cases.items():
        warn_of_rate(name, figures["events_per_s"], options.rate)
    columns = ("start_mib", "max_mib", "growth_mib", "events_per_s", "waiting", "dropped", "arrived", "worst_call_ms")
    rows = [(name, *(figures[column] for column in columns)) for name, figures in cases.items()]
    report(
        {"cases": cases, "seconds": seconds, **judge(cases)},
        "Memory in an outage",
        ("case", *columns),
        rows,
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
