# SPDX-License-Identifier: Apache-2.0
"""
``python -m bench.log_call --profile``: what structbatch's share of a logging call consists of.

*Layers* are the whole call, cut off at several depths; what one adds to the one before is its share. *Pieces* are the
functions behind them, one by one in a loop, without the rest: their sum is less than the call, for a call also
misses caches.
"""

from __future__ import annotations

import threading
import time

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from structlog import DropEvent

from bench.harness import Side, bind_ids, log_orders, make_logger, median_ratio, report, take_rounds
from bench.log_call import medians, printing, shipping
from bench.sink import Sink
from structbatch.core.encode import encode
from structbatch.core.event import read_event
from structbatch.core.http import Request, Response
from structbatch.core.intake import Intake
from structbatch.core.ledger import Ledger
from structbatch.core.settings import Settings
from structbatch.engine.pipeline import Pipeline
from structbatch.engine.plain import read_plain
from structbatch.errors import Fault, TransportError
from structbatch.structlog import Shipper
from structbatch.vendors.ndjson import Ndjson


MAX_BYTES: Final = 256 * 1024
PIECE_CALLS: Final = 1000
PIECE_LOOPS: Final = 40
MANY: Final = 10_000_000
URL: Final = "http://127.0.0.1:9/in"


class Stuck:
    """
    A transport whose requests never end: events are taken and nothing leaves.
    """

    def __init__(self) -> None:
        self._aborted = threading.Event()

    def send(self, request: Request, timeout: float) -> Response:
        """
        Wait for `abort`.
        """
        self._aborted.wait()
        raise TransportError(Fault.ABORTED)

    def abort(self) -> None:
        """
        End the request.
        """
        self._aborted.set()

    def close(self) -> None:
        """
        Nothing to do.
        """


class Encoding:
    """
    In place of a pipeline: encodes and throws away.
    """

    name = "encoding"

    def emit(self, event: Mapping[str, object], method_name: str = "") -> bool:
        """
        What `Pipeline.emit` does before its lock.
        """
        return read_plain(event, method_name, MAX_BYTES) is not None


class Deaf:
    """
    In place of a pipeline: does nothing.
    """

    name = "deaf"

    def emit(self, event: Mapping[str, object], method_name: str = "") -> bool:
        """
        True.
        """
        return True


def _drop(_: Any, __: str, ___: Any) -> Any:
    raise DropEvent


def _stuck(queue_max_records: int) -> Pipeline:
    settings = Settings(timeout=3600.0, max_senders=1, queue_max_bytes=1 << 30, queue_max_records=queue_max_records)
    return Pipeline(Ndjson(URL), settings, transport=Stuck, on_problem=lambda _: None)


def layers(sink: Sink) -> Iterator[Side]:
    """
    The call, deeper and deeper.
    """
    refusing, keeping = _stuck(1), _stuck(MANY)
    yield _side("floor", _drop)
    yield _side("shipper", Shipper(Deaf()))  # type: ignore[arg-type]
    yield _side("encoded", Shipper(Encoding()))  # type: ignore[arg-type]
    yield _side("refused", Shipper(refusing), lambda: refusing.close(0.0))
    yield _side("kept", Shipper(keeping), lambda: keeping.close(0.0))
    yield shipping(sink)
    yield printing()


def _side(name: str, last: Any, close: Callable[[], object] = lambda: None) -> Side:
    logger = make_logger(last)
    return Side(name, lambda first, count: log_orders(logger, first, count), close=close)


def pieces() -> dict[str, float]:
    """
    Microseconds of each piece alone.
    """
    caught: list[dict[str, Any]] = []

    def catch(_: Any, __: str, event: dict[str, Any]) -> Any:
        caught.append(event)
        raise DropEvent

    log_orders(make_logger(catch), 0, 1)
    event = caught[0]
    read = read_plain(event, "info", MAX_BYTES)
    assert read is not None, "the event of the benchmarks takes the careful way"
    record = read[0]
    fields = read_event(event, "info")[0]
    lock = threading.RLock()
    intake = Intake(Settings(queue_max_records=MANY, queue_max_bytes=1 << 31), bytes(10), b"{}", Ledger())

    def locked() -> None:
        with lock:
            pass

    def raised() -> None:
        try:
            raise DropEvent  # noqa: TRY301
        except DropEvent:
            pass

    return {
        "read_plain": _time(lambda: read_plain(event, "info", MAX_BYTES)),
        "  orjson.dumps alone": _time(lambda: orjson.dumps(fields)),
        "  dict.copy alone": _time(fields.copy),
        "the careful way instead": _time(lambda: encode(read_event(event, "info")[0], MAX_BYTES)),
        "Intake.offer, sealing": _time(lambda: intake.offer(record, 9, 0.0)),
        "RLock": _time(locked),
        "time.time_ns + time.monotonic": _time(lambda: (time.time_ns(), time.monotonic())),
        "DropEvent raised and caught": _time(raised),
    }


def _time(call: Callable[[], object]) -> float:
    """
    Fastest of many short loops, less an empty call's fastest: what a busy machine adds is left out.
    """
    return max(0.0, min(_loop(call) for _ in range(PIECE_LOOPS)) - min(_loop(lambda: None) for _ in range(PIECE_LOOPS)))


def _loop(call: Callable[[], object]) -> float:
    start = time.thread_time_ns()
    for _ in range(PIECE_CALLS):
        call()
    return (time.thread_time_ns() - start) / PIECE_CALLS / 1000


def profile(rounds: int, calls: int, *, as_json: bool) -> None:
    """
    Measure and print.
    """
    bind_ids()
    with Sink() as sink:
        sides = list(layers(sink))
        taken = take_rounds(sides, rounds, calls)
        for side in sides:
            side.close()
        arrived = sink.arrived("/ours")["unique"]
    us = medians(taken, "thread")
    printed = taken["print"]["thread"]
    ratio = {name: round(median_ratio(times["thread"], printed), 3) for name, times in taken.items()}
    alone = {name: round(value, 3) for name, value in pieces().items()}
    sent = (rounds + 1) * calls
    result = {
        "us_per_call": us,
        "vs_print": ratio,
        "pieces_us": alone,
        "arrived": arrived,
        "problems": [] if arrived == sent else [f"structbatch: {arrived} of {sent} events arrived"],
    }
    rows: list[tuple[Any, ...]] = []
    before = 0.0
    for name, value in us.items():
        rows.append((name, value, None if name == "print" else value - before, ratio[name]))
        before = value
    rows += [("", "", "", ""), *((name, value, None, value / us["print"]) for name, value in alone.items())]
    report(result, "What a call consists of", ("layer or piece", "us", "adds", "/ print"), rows, as_json=as_json)
