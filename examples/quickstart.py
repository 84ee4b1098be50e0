# SPDX-License-Identifier: Apache-2.0
"""
Say a few events, ship them, show the account.

``python -m structbatch.receiver --port 8080`` in one terminal, ``python examples/quickstart.py`` in another; or give
the URL of a server of your own: ``python examples/quickstart.py ndjson+https://logs.example.com/ingest``.
"""

from __future__ import annotations

import sys

import structlog

import structbatch

from structbatch.structlog import Shipper


def main(arguments: list[str]) -> int:
    """
    Run it.

    Returns:
        The exit status: 0 where everything was delivered.
    """
    url = arguments[0] if arguments else "ndjson+http://127.0.0.1:8080/ingest"
    pipeline = structbatch.from_url(url, service="shop", version="1.0")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structbatch.add_trace_context,
            Shipper(pipeline, tee=structlog.dev.ConsoleRenderer()),  # ships, and prints as well
        ]
    )
    log = structlog.get_logger()
    with structlog.contextvars.bound_contextvars(request_id="3f2a"):
        log.info("order.received", order_id=7)
        log.warning("stock.low", article="teapot", left=2)
        log.info("order.paid", order_id=7, total=12.5)

    result = pipeline.close(timeout=5.0)
    stats = pipeline.stats()
    print(f"{stats.emitted} emitted, {stats.delivered} delivered, {stats.dropped} dropped, {stats.requests} request(s)")
    return 0 if result and stats.delivered == stats.emitted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
