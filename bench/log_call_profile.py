# SPDX-License-Identifier: Apache-2.0
"""
``python -m bench.log_call --profile``: what structbatch's share of a logging call consists of.

*Layers* are the whole call, cut off at several depths; what one adds to the one before is its share. *Pieces* are the
functions behind them, one by one in a loop, without the rest: their sum is less than the call, for a call also
misses caches.
"""

from __future__ import annotations

import statistics
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
from structbatch.core.record import pack_record
from structbatch.core.settings import Settings
from structbatch.engine.pipeline import Pipeline
from structbatch.errors import Fault, TransportError
from structbatch.structlog import Shipper
from structbatch.vendors.ndjson import Ndjson


MAX_BYTES: Final = 256 * 1024
PIECE_CALLS: Final = 20_000
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
        fields, severity, time_ns, trace_id, span_id, trace_flags = read_event(event, method_name, time.time_ns())
        payload, flags = encode(fields, MAX_BYTES)
        pack_record(payload, time_ns, severity, trace_flags, flags, trace_id, span_id)
        return True


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


def _settings(**changes: int) -> Settings:
    return Settings(timeout=3600.0, max_senders=1, queue_max_bytes=1 << 30, **changes)


def layers(sink: Sink) -> Iterator[Side]:
    """
    The call, deeper and deeper.
    """
    refusing = Pipeline(Ndjson(URL), _settings(queue_max_records=1), transport=Stuck)
    keeping = Pipeline(Ndjson(URL), _settings(queue_max_records=MANY), transport=Stuck)
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
    fields = read_event(event, "info", 0).fields
    payload, _flags = encode(fields, MAX_BYTES)
    record = pack_record(payload, 0)
    lock = threading.RLock()
    intake = Intake(Settings(queue_max_records=MANY, queue_max_bytes=1 << 31), bytes(10), b"{}", Ledger())

    def locked() -> None:
        with lock:
            pass

    def raised() -> None:
        try:
            raise DropEvent
        except DropEvent:
            pass

    return {
        "read_event": _time(lambda: read_event(event, "info", 0)),
        "encode": _time(lambda: encode(fields, MAX_BYTES)),
        "  orjson.dumps alone": _time(lambda: orjson.dumps(fields)),
        "pack_record": _time(lambda: pack_record(payload, 0)),
        "Intake.offer, sealing": _time(lambda: intake.offer(record, 9, 0.0)),
        "RLock": _time(locked),
        "time.time_ns + time.monotonic": _time(lambda: (time.time_ns(), time.monotonic())),
        "DropEvent raised and caught": _time(raised),
    }


def _time(call: Callable[[], object]) -> float:
    """
    Median of five, less an empty call.
    """
    return max(0.0, statistics.median(_loop(call) - _loop(lambda: None) for _ in range(5)))


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
