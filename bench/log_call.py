# SPDX-License-Identifier: Apache-2.0
"""
What a logging call costs its thread: through structbatch, beside structlog that prints the same event as JSON to
/dev/null, and structlog into OpenTelemetry's batch processor with OTLP over HTTP.
"""

from __future__ import annotations

import statistics

from typing import Any

import orjson
import structlog

from bench.harness import (
    Side,
    bind_ids,
    dumps_line,
    log_orders,
    make_logger,
    median_ratio,
    parser,
    report,
    structbatch_url,
    take_rounds,
    target,
)
from bench.sink import Sink


QUEUE = 20_000
"""
Records that the two queues may hold: more than a block, so that neither refuses while the other is measured.
"""


def printing() -> Side:
    """
    structlog, orjson, BytesLogger, /dev/null.
    """
    file = open("/dev/null", "wb")  # noqa: SIM115
    logger = make_logger(
        structlog.processors.JSONRenderer(serializer=orjson.dumps), structlog.BytesLoggerFactory(file=file)
    )
    return Side("print", lambda first, count: log_orders(logger, first, count), close=file.close)


def opentelemetry(sink: Sink) -> Side:
    """
    structlog whose last processor emits to the OpenTelemetry SDK.
    """
    from opentelemetry._logs import SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(
        BatchLogRecordProcessor(OTLPLogExporter(endpoint=sink.url("/v1/logs")), max_queue_size=QUEUE)
    )
    emit = provider.get_logger("shop.checkout").emit
    severities = {"info": SeverityNumber.INFO}

    def last(_: Any, name: str, event: dict[str, Any]) -> Any:
        message, level = event.pop("event"), event.pop("level")
        emit(severity_number=severities[name], severity_text=level, body=message, attributes=event)
        raise structlog.DropEvent

    logger = make_logger(last)
    return Side(
        "otel",
        lambda first, count: log_orders(logger, first, count),
        flush=lambda: provider.force_flush(30_000),
        close=provider.shutdown,
    )


def shipping(sink: Sink, path: str = "/ours") -> Side:
    """
    structlog with Shipper as the last processor.
    """
    from structbatch.config import from_url
    from structbatch.structlog import Shipper

    pipeline = from_url(structbatch_url(sink.url(path)), queue_max_records=QUEUE)
    logger = make_logger(Shipper(pipeline))
    return Side(
        "structbatch",
        lambda first, count: log_orders(logger, first, count),
        flush=lambda: pipeline.flush(30.0),
        close=lambda: pipeline.close(30.0),
    )


def measure(rounds: int, calls: int) -> dict[str, Any]:
    """
    Take the rounds and check that all events arrived.
    """
    bind_ids()
    with Sink() as sink:
        sides = [shipping(sink), printing(), opentelemetry(sink)]
        taken = take_rounds(sides, rounds, calls)
        for side in sides:
            side.close()
        arrived = {"structbatch": sink.arrived("/ours")["unique"], "otel": sink.arrived("/v1/logs")["events"]}
    return _result(taken, arrived, rounds, calls)


def _result(taken: dict[str, Any], arrived: dict[str, int], rounds: int, calls: int) -> dict[str, Any]:
    ours = taken["structbatch"]
    ratio = {
        (name, clock): round(median_ratio(ours[clock], taken[name][clock]), 3)
        for name in ("print", "otel")
        for clock in ("thread", "process")
    }
    sent = (rounds + 1) * calls
    return {
        "vs_print": ratio["print", "thread"],
        "vs_otel": ratio["otel", "thread"],
        "process_vs_print": ratio["print", "process"],
        "process_vs_otel": ratio["otel", "process"],
        "us_per_call": medians(taken, "thread"),
        "process_us_per_event": medians(taken, "process"),
        "rounds": rounds,
        "calls_per_round": calls,
        "event_bytes": _event_bytes(),
        "sent": sent,
        "arrived": arrived,
        "targets": {
            "vs_print": target(ratio["print", "thread"], at_most=0.85),
            "vs_otel": target(ratio["otel", "thread"], at_most=0.3),
            "process_vs_otel": target(ratio["otel", "process"], at_most=0.15),
        },
        "problems": [f"{name}: {count} of {sent} events arrived" for name, count in arrived.items() if count != sent],
    }


def medians(taken: dict[str, Any], clock: str) -> dict[str, float]:
    """
    Median by side, in microseconds.
    """
    return {name: round(statistics.median(times[clock]), 2) for name, times in taken.items()}


def _event_bytes() -> int:
    """
    Size of the event as it is printed, measured.
    """
    sizes: list[int] = []

    def last(_: Any, __: str, event: Any) -> Any:
        sizes.append(len(dumps_line(event)))
        raise structlog.DropEvent

    log_orders(make_logger(last), 0, 1)
    return sizes[0]


def main() -> None:
    """
    The command.
    """
    arguments = parser("log_call", __doc__)
    arguments.add_argument("--rounds", type=int, default=31)
    arguments.add_argument("--calls", type=int, default=4000, help="per side and round")
    arguments.add_argument("--profile", action="store_true", help="what our share consists of")
    options = arguments.parse_args()
    if options.profile:
        from bench.log_call_profile import profile

        profile(options.rounds, options.calls, as_json=options.json)
        return
    result = measure(options.rounds, options.calls)
    rows = [
        (
            name,
            us,
            result["process_us_per_event"][name],
            us / result["us_per_call"]["print"],
            result["arrived"].get(name),
        )
        for name, us in result["us_per_call"].items()
    ]
    title = f"CPU per event of {result['event_bytes']} bytes, median of {options.rounds} rounds"
    report(result, title, ("side", "caller us", "process us", "caller / print", "arrived"), rows, as_json=options.json)


if __name__ == "__main__":
    main()
