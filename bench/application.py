# SPDX-License-Identifier: Apache-2.0
"""
The application that `bench.stock_vs_batch` starts again and again: it works, logs each operation, closes, and says
in one line of JSON what it did. Its log leaves by one of three ways, which all block when they are full.

``stock``: one POST per event, in the caller. ``queue``: the same behind a queue of 256 with one worker thread.
``structbatch``: Shipper.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import threading
import time

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson
import requests
import structlog

from bench.harness import Processor, bind_ids, dumps_line, log_order, make_logger, structbatch_url


CLOSE_SECONDS: Final = 60.0
TIMEOUT_SECONDS: Final = 10.0
QUEUE_EVENTS: Final = 256
ORDER: Final = b'{"customer":"customer-018273","lines":[{"sku":"a-1","price":49.95},{"sku":"b-7","price":100}]}'


@dataclass
class Door:
    """
    Where the application's events leave.

    Args:
        last: Last processor of the chain.

        close: Returns when everything was handed over, or given up.

        account: What it knows of its own events.
    """

    last: Processor
    close: Callable[[], object]
    account: Callable[[], dict[str, Any]]


class Poster:
    """
    One POST per event, over keep-alive.
    """

    def __init__(self, url: str) -> None:
        self._url = url.removeprefix("ndjson+")
        self._session = requests.Session()
        self.delivered = 0
        self.failed = 0

    def post(self, body: bytes) -> None:
        """
        Send one event; a failure is counted, and the event is gone.
        """
        try:
            response = self._session.post(
                self._url, body, headers={"Content-Type": "application/x-ndjson"}, timeout=TIMEOUT_SECONDS
            )
        except requests.RequestException:
            self.failed += 1
        else:
            self.delivered += response.ok
            self.failed += not response.ok

    def account(self) -> dict[str, Any]:
        """
        Answers by kind.
        """
        return {"delivered": self.delivered, "failed": self.failed}


def stock(url: str) -> Door:
    """
    One POST per event, in the caller.
    """
    poster = Poster(url)

    def last(_: Any, __: str, event: Any) -> Any:
        poster.post(dumps_line(event))
        raise structlog.DropEvent

    return Door(last, lambda: None, poster.account)


def queued(url: str) -> Door:
    """
    A bounded queue and one thread that posts.
    """
    poster = Poster(url)
    waiting: queue.Queue[bytes | None] = queue.Queue(QUEUE_EVENTS)

    def work() -> None:
        while (body := waiting.get()) is not None:
            poster.post(body)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()

    def last(_: Any, __: str, event: Any) -> Any:
        waiting.put(dumps_line(event))
        raise structlog.DropEvent

    def close() -> None:
        waiting.put(None)
        worker.join(CLOSE_SECONDS)

    return Door(last, close, poster.account)


def structbatch(url: str) -> Door:
    """
    Shipper, with the defaults but for *overflow*.
    """
    from structbatch.config import from_url
    from structbatch.structlog import Shipper

    pipeline = from_url(structbatch_url(url), overflow="block", overflow_timeout=CLOSE_SECONDS)

    def account() -> dict[str, Any]:
        stats = pipeline.stats()
        return {
            "delivered": stats.delivered,
            "failed": stats.dropped + stats.dead,
            "waiting": stats.waiting,
            "requests": stats.requests,
            "dropped_by_reason": {str(reason): count for reason, count in stats.dropped_by_reason.items()},
        }

    return Door(Shipper(pipeline), lambda: pipeline.close(CLOSE_SECONDS), account)


DOORS: Final[dict[str, Callable[[str], Door]]] = {"stock": stock, "queue": queued, "structbatch": structbatch}


def work(number: int) -> str:
    """
    A small piece of application work: parse an order, sign it, render an answer.
    """
    order = orjson.loads(ORDER)
    total = sum(line["price"] for line in order["lines"])
    signature = hashlib.sha256(f"{number}:{total}".encode()).hexdigest()
    return f"<p>{order['customer']} pays {total:.2f} ({signature[:8]})</p>"


def operate(logger: Any, first: int, seconds: float) -> tuple[int, float, float]:
    """
    Work and log for so many *seconds*.

    Returns:
        Operations, seconds taken, and the slowest log call in milliseconds.
    """
    clock = time.perf_counter
    start = clock()
    end, worst, number = start + seconds, 0.0, first
    while (before := clock()) < end:
        work(number)
        log_order(logger, number)
        number += 1
        worst = max(worst, clock() - before)
    return number - first, clock() - start, worst * 1000


def main() -> None:
    """
    The child process.
    """
    arguments = argparse.ArgumentParser(prog="python -m bench.application", description=__doc__)
    arguments.add_argument("--door", choices=DOORS, required=True)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--seconds", type=float, required=True)
    arguments.add_argument("--first", type=int, default=0, help="number of the first event")
    options = arguments.parse_args()
    bind_ids()
    cpu = time.process_time()
    door = DOORS[options.door](options.url)
    logger = make_logger(door.last)
    start = time.perf_counter()
    operations, seconds, worst_ms = operate(logger, options.first, options.seconds)
    door.close()
    active = time.perf_counter() - start
    result = {"operations": operations, "seconds": seconds, "active_seconds": active, "worst_ms": worst_ms}
    print(json.dumps({**result, "cpu_seconds": time.process_time() - cpu, **door.account()}))


if __name__ == "__main__":
    main()
