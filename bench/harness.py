# SPDX-License-Identifier: Apache-2.0
"""
What the benchmarks share: the event, rounds in which the sides take turns, ratios, pacing, and the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog


Processor = Callable[[Any, str, Any], Any]

_BURST: Final = 1000

REQUEST_ID: Final = "0af7651916cd43dd8448eb211c80319c"
SESSION_ID: Final = "b7ad6b7169203331"


def chain() -> list[Processor]:
    """
    The processors that stand before every side's last one.
    """
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def bind_ids() -> None:
    """
    Bind the event's two ids in the context of this thread.
    """
    structlog.contextvars.bind_contextvars(request_id=REQUEST_ID, session_id=SESSION_ID)


def make_logger(last: Processor, factory: Callable[..., Any] | None = None) -> Any:
    """
    A bound logger, resolved once, whose chain ends with *last*.

    Nothing is configured globally, so that several can run side by side.
    """
    return structlog.wrap_logger(
        factory() if factory else None,
        processors=[*chain(), last],
        wrapper_class=structlog.make_filtering_bound_logger(20),
        cache_logger_on_first_use=True,
    ).bind(logger="shop.checkout")


def log_orders(logger: Any, first: int, count: int) -> None:
    """
    Log *count* events of about 325 bytes, each with its own number from *first* on.
    """
    info = logger.info
    for number in range(first, first + count):
        info(
            "order.paid",
            order_id=number,
            customer="customer-018273-northern-eu",
            amount=149.95,
            currency="EUR",
            payment_method="card",
            duration_ms=12.75,
        )


def log_order(logger: Any, number: int) -> None:
    """
    Log one event of the same size that also carries its time, for the lag that the server measures.
    """
    logger.info(
        "order.paid",
        order_id=number,
        sent_ns=time.time_ns(),
        customer="customer-018273-northern-eu",
        amount=149.95,
        currency="EUR",
        duration_ms=12.75,
    )


def dumps_line(event: Mapping[str, Any]) -> bytes:
    """
    *event* as one line of JSON.
    """
    return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)


def structbatch_url(url: str) -> str:
    """
    *url* as structbatch spells it; a plain HTTP URL takes NDJSON.
    """
    return f"ndjson+{url}" if url.startswith(("http://", "https://")) else url


@dataclass
class Side:
    """
    One of the things that are compared.

    Args:
        name: Its key in the result.

        run: Does the work for events *first* to *first + count*.

        flush: Called after each block, outside the logging thread's time, inside the process's.

        close: Called at the end.
    """

    name: str
    run: Callable[[int, int], None]
    flush: Callable[[], object] = lambda: None
    close: Callable[[], object] = lambda: None


def take_rounds(sides: Sequence[Side], rounds: int, calls: int) -> dict[str, dict[str, list[float]]]:
    """
    Let the *sides* take turns, *calls* events each, in an order that rotates; one warming round is not counted.

    Returns:
        By side: ``thread`` and ``process``, microseconds of CPU per event in each round. ``thread`` is the logging
        thread's alone, ``process`` includes all threads until the flush is over.
    """
    taken: dict[str, dict[str, list[float]]] = {side.name: {"thread": [], "process": []} for side in sides}
    for number in range(-1, rounds):
        shift = number % len(sides)
        for side in [*sides[shift:], *sides[:shift]]:
            thread, process = _time_block(side, (number + 1) * calls, calls)
            if number >= 0:
                taken[side.name]["thread"].append(thread)
                taken[side.name]["process"].append(process)
    return taken


def _time_block(side: Side, first: int, calls: int) -> tuple[float, float]:
    process = time.process_time_ns()
    thread = time.thread_time_ns()
    side.run(first, calls)
    thread = time.thread_time_ns() - thread
    side.flush()
    process = time.process_time_ns() - process
    return thread / calls / 1000, process / calls / 1000


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """
    Median of the ratios of what was taken in the same round.
    """
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def warn_of_rate(name: str, offered: float, wanted: float) -> None:
    """
    Say on stderr that a case was not what it should have been.
    """
    if offered < 0.95 * wanted:
        message = f"{name}: only {offered:,.0f} of {wanted:,.0f} events a second were offered: the machine is busy"
        print(message, file=sys.stderr)


@dataclass
class Paced:
    """
    What `pace` saw: calls made, seconds taken, and the slowest call in milliseconds.
    """

    calls: int
    seconds: float
    worst_ms: float


def pace(
    call: Callable[[int], object], rate: float, seconds: float, tick: Callable[[], object] = lambda: None
) -> Paced:
    """
    Call *call* with 0, 1, 2, ... at *rate* a second for *seconds*; *tick* runs every 100 ms.

    The schedule is fixed: a call that blocks is followed by those it delayed, without a pause. On a machine that cannot
    keep the rate there are fewer calls, not more seconds.
    """
    clock = time.perf_counter
    start = clock()
    done, worst, next_tick = 0, 0.0, 0.1
    total = int(rate * seconds)
    while done < total and clock() - start < seconds + 1.0:
        due = min(total, int((clock() - start) * rate) + 1)
        for number in range(done, min(due, done + _BURST)):
            before = clock()
            call(number)
            worst = max(worst, clock() - before)
            done += 1
        if clock() - start >= next_tick:
            tick()
            next_tick += 0.1
        time.sleep(0.001)
    return Paced(done, clock() - start, worst * 1000)


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """
    The arguments that every benchmark takes.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m bench.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", action="store_true", help="print exactly one JSON object instead of the table")
    return made


def machine() -> dict[str, Any]:
    """
    Where this ran, for whoever reads the figures later.
    """
    return {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}


def report(
    result: Mapping[str, Any], title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, as_json: bool
) -> None:
    """
    Print *result* as JSON, or the table; then end the process with 1 if events that had to arrive did not.
    """
    if as_json:
        print(json.dumps({**result, **machine()}))
    else:
        print(title)
        print(format_table(header, rows))
        for name, target in result.get("targets", {}).items():
            print(f"{name}: {target['value']} (target {target['target']}){'' if target['met'] else '  NOT MET'}")
    problems = result.get("problems", [])
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)


def target(value: float | None, *, at_most: float | None = None, at_least: float | None = None) -> dict[str, Any]:
    """
    *value* beside what it should be.
    """
    if at_most is not None:
        return {"value": value, "target": f"<= {at_most:g}", "met": value is not None and value <= at_most}
    return {"value": value, "target": f">= {at_least:g}", "met": value is not None and value >= (at_least or 0)}


def format_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """
    *rows* under *header*, in columns; numbers to the right.
    """
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)
