# SPDX-License-Identifier: Apache-2.0
"""
What one POST over keep-alive costs its thread in CPU: through RequestsTransport, beside `requests.Session.post`, a
prepared request through `requests.adapters.HTTPAdapter`, and `http.client`. The body is 200 events, gzipped.
"""

from __future__ import annotations

import http.client
import random
import zlib

from collections.abc import Callable
from typing import Any, Final

import requests

from requests.adapters import HTTPAdapter

from bench.harness import Side, dumps_line, median_ratio, parser, report, take_rounds, target
from bench.log_call import medians
from bench.sink import Sink


EVENTS: Final = 200
HEADERS: Final = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
LIMIT_US: Final = 450.0


def make_body() -> bytes:
    """
    A request's body of 200 events.
    """
    dice = random.Random(7)
    lines = b"".join(
        dumps_line(
            {
                "message": "order.paid",
                "level": "info",
                "logger": "shop.checkout",
                "order_id": number,
                "request_id": f"{dice.getrandbits(128):032x}",
                "customer": f"customer-{dice.randrange(100_000):06d}",
                "amount": dice.randrange(100, 99_999) / 100,
                "duration_ms": round(dice.uniform(1, 50), 2),
            }
        )
        for number in range(EVENTS)
    )
    deflater = zlib.compressobj(1, zlib.DEFLATED, 31)
    return deflater.compress(lines) + deflater.flush()


def repeat(name: str, send: Callable[[], int], close: Callable[[], object]) -> Side:
    """
    A side that calls *send*, which returns the status, once for each event of a block.
    """

    def run(_: int, count: int) -> None:
        for _number in range(count):
            status = send()
            if status != 200:
                msg = f"{name}: status {status}"
                raise RuntimeError(msg)

    return Side(name, run, close=close)


def structbatch(url: str, body: bytes) -> Side:
    """
    RequestsTransport.
    """
    from structbatch.core.http import Request
    from structbatch.transport.requests import RequestsTransport

    transport = RequestsTransport()
    request = Request(url, body, HEADERS)
    return repeat("structbatch", lambda: transport.send(request, 10.0).status, transport.close)


def session_post(url: str, body: bytes) -> Side:
    """
    `requests.Session.post`, as one writes it.
    """
    session = requests.Session()
    return repeat(
        "session_post", lambda: session.post(url, body, headers=HEADERS, timeout=10.0).status_code, session.close
    )


def adapter_send(url: str, body: bytes) -> Side:
    """
    One prepared request again and again through the adapter.
    """
    adapter = HTTPAdapter()
    prepared = requests.Request("POST", url, data=body, headers=HEADERS).prepare()

    def send() -> int:
        response = adapter.send(prepared, timeout=10.0)
        assert response.content == b""
        return response.status_code

    return repeat("adapter_send", send, adapter.close)


def http_client(url: str, body: bytes) -> Side:
    """
    `http.client`, the floor.
    """
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=10.0)

    def send() -> int:
        connection.request("POST", f"/{path}", body, HEADERS)
        response = connection.getresponse()
        response.read()
        return response.status

    return repeat("http_client", send, connection.close)


SIDES: Final = {
    "structbatch": structbatch,
    "session_post": session_post,
    "adapter_send": adapter_send,
    "http_client": http_client,
}


def measure(rounds: int, posts: int) -> dict[str, Any]:
    """
    Take the rounds and check that all requests arrived.
    """
    body = make_body()
    with Sink() as sink:
        sides = [make(sink.url(f"/{name}"), body) for name, make in SIDES.items()]
        taken = take_rounds(sides, rounds, posts)
        for side in sides:
            side.close()
        arrived = {side.name: sink.arrived(f"/{side.name}") for side in sides}
    us = medians(taken, "thread")
    ours = taken["structbatch"]["thread"]
    sent = (rounds + 1) * posts
    return {
        "us_per_post": us,
        "process_us_per_post": medians(taken, "process"),
        "ratio": {name: round(median_ratio(ours, times["thread"]), 3) for name, times in taken.items()},
        "body_bytes": len(body),
        "sent": sent,
        "arrived": {name: counts["requests"] for name, counts in arrived.items()},
        "targets": {"us_per_post": target(us["structbatch"], at_most=LIMIT_US)},
        "problems": [
            f"{name}: {counts['events']} of {sent * EVENTS} events arrived"
            for name, counts in arrived.items()
            if counts["events"] != sent * EVENTS
        ],
    }


def main() -> None:
    """
    The command.
    """
    arguments = parser("transport", __doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--posts", type=int, default=200, help="per side and round")
    options = arguments.parse_args()
    result = measure(options.rounds, options.posts)
    rows = [
        (name, us, result["process_us_per_post"][name], 1 / result["ratio"][name], result["arrived"][name])
        for name, us in result["us_per_post"].items()
    ]
    header = ("side", "caller us", "process us", "/ structbatch", "requests arrived")
    report(result, f"CPU per POST of {result['body_bytes']:,} bytes", header, rows, as_json=options.json)


if __name__ == "__main__":
    main()
