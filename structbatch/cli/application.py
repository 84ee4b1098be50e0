# SPDX-License-Identifier: Apache-2.0
"""
The application of the demo: threads of a small shop that log through structlog, at a given rate or flat out.
"""

from __future__ import annotations

import random
import threading
import time

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

import structlog

from structbatch.cli.series import SLOT_NS


_TICK: Final = 0.004
_BURST: Final = 50
_REQUEST_EVENTS: Final = 25
_VARIANTS: Final = 512

_KINDS: Final = (
    ("info", "order.created", "shop.orders", "POST", "/api/v1/orders", 201),
    ("info", "payment.captured", "shop.payments", "POST", "/api/v1/payments/capture", 200),
    ("info", "cart.updated", "shop.cart", "PUT", "/api/v1/cart/items", 200),
    ("info", "order.viewed", "shop.orders", "GET", "/api/v1/orders/recent", 200),
    ("debug", "cache.looked_up", "shop.cache", "GET", "/api/v1/products/search", 200),
    ("info", "shipment.scheduled", "shop.shipping", "POST", "/api/v1/shipments", 202),
    ("warning", "payment.slow", "shop.payments", "POST", "/api/v1/payments/capture", 200),
    ("error", "payment.refused", "shop.payments", "POST", "/api/v1/payments/capture", 402),
)
_WEIGHTS: Final = (20, 15, 15, 20, 12, 10, 5, 3)
_REGIONS: Final = ("eu-central-1", "eu-west-1", "us-east-1")


Call = tuple[Callable[..., Any], str, Mapping[str, object]]


def configure(ship: Callable[..., Any]) -> None:
    """
    Configure structlog as an application does, with *ship* as its last processor. It stamps the time itself.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            ship,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(10),
        cache_logger_on_first_use=True,
    )


class Application:
    """
    *threads* threads that log *events* events, each with its own ``demo_id`` from 0 on, and ``demo_ns``, its time.

    Args:
        events: How many in all.

        rate: Events a second over all threads, by a schedule that catches up; 0: as fast as they can.

        threads: How many threads share the work.
    """

    def __init__(self, events: int, rate: float, threads: int) -> None:
        borders = [events * i // threads for i in range(threads + 1)]
        self._stop = threading.Event()
        self._workers = [_Worker(range(first, last), rate / threads, self._stop) for first, last in pairwise(borders)]
        self._threads = [
            threading.Thread(target=worker.work, name=f"shop-{i}", daemon=True)
            for i, worker in enumerate(self._workers)
        ]

    def start(self) -> None:
        """
        Start all threads.
        """
        for thread in self._threads:
            thread.start()

    def stop(self, wait: float) -> None:
        """
        Make the threads end after the event that each is at, and wait for that, at most *wait* seconds.
        """
        self._stop.set()
        self.running(wait)

    def running(self, wait: float) -> bool:
        """
        Whether any thread still logs, after at most *wait* seconds.
        """
        deadline = time.monotonic() + wait
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        return any(thread.is_alive() for thread in self._threads)

    @property
    def logged(self) -> int:
        """
        Events logged so far. Any thread may ask.
        """
        return sum(worker.done for worker in self._workers)

    def ids(self) -> list[range]:
        """
        The ids used so far.
        """
        return [worker.ids[: worker.done] for worker in self._workers if worker.done]

    def slots(self) -> Counter[int]:
        """
        Events by the tenth of a second in which they were logged. After the end only.
        """
        total: Counter[int] = Counter()
        for worker in self._workers:
            total.update(worker.slots)
        return total


class _Worker:
    """
    One thread's share: *done* counts up burst by burst.
    """

    def __init__(self, ids: range, rate: float, stop: threading.Event) -> None:
        self.ids = ids
        self.done = 0
        self.slots: Counter[int] = Counter()
        self._rate = rate
        self._stop = stop
        self._dice = random.Random(ids.start)  # noqa: S311

    def work(self) -> None:
        """
        Log all of it. Bursts of some milliseconds: a sleep per event would be the slowest part.
        """
        calls = _calls(self._dice)
        start = time.monotonic()
        while self.done < len(self.ids) and not self._stop.is_set():
            burst = min(self._due(time.monotonic() - start) - self.done, _BURST)
            if burst <= 0:
                self._stop.wait(_TICK)
                continue
            self._log(calls, self.ids[self.done : self.done + burst])

    def _due(self, elapsed: float) -> int:
        return min(len(self.ids), int(elapsed * self._rate) + 1) if self._rate else len(self.ids)

    def _log(self, calls: list[Call], ids: range) -> None:
        now_ns, stopped, done = time.time_ns, self._stop.is_set, 0
        # Counted beforehand: an event must not arrive before it was logged.
        slot = now_ns() // SLOT_NS
        self.slots[slot] += len(ids)
        for number in ids:
            # Asked at each event, for each can wait for room in a full queue.
            if stopped():
                break
            if number % _REQUEST_EVENTS == 0:
                self._begin_request()
            log, name, fields = calls[number % _VARIANTS]
            log(name, demo_id=number, demo_ns=now_ns(), **fields)
            done += 1
        self.done += done
        self.slots[slot] -= len(ids) - done

    def _begin_request(self) -> None:
        request, customer = self._dice.getrandbits(128), self._dice.randrange(100_000)
        structlog.contextvars.bind_contextvars(request_id=f"{request:032x}", customer_id=f"c-{customer:05}")


def _calls(dice: random.Random) -> list[Call]:
    """
    `_VARIANTS` log calls with their values made up beforehand, so that the demo measures logging and not its dice.
    """
    calls: list[Call] = []
    for level, name, logger, method, path, status in dice.choices(_KINDS, _WEIGHTS, k=_VARIANTS):
        log = structlog.get_logger().bind(logger=logger)
        fields = {
            "method": method,
            "path": path,
            "status_code": status,
            "duration_ms": round(dice.lognormvariate(2.5, 0.8), 3),
            "region": dice.choice(_REGIONS),
            "amount_cents": dice.randrange(100, 50_000),
        }
        calls.append((getattr(log, level), name, fields))
    return calls
