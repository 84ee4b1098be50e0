# SPDX-License-Identifier: Apache-2.0
"""
The server that every benchmark sends to: answers at once, or after a set latency, and counts what arrived.

It runs in a process of its own (``python -m bench.sink``) and shares the machine with what is measured, so it is
built to cost little: one asyncio protocol, and a body is counted by a few calls that run in C. It counts by path, and
for each path lines, distinct events (by their ``order_id``), requests and bytes, and samples how old events are
(``sent_ns``) when their request is complete.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import zstandard


ROOT: Final = Path(__file__).resolve().parent.parent

_ORDER: Final = re.compile(rb'"order_id":(\d+)')
_SENT: Final = re.compile(rb'"sent_ns":(\d+)')
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ENCODING: Final = re.compile(rb"\r\ncontent-encoding: *(\w+)", re.IGNORECASE)
_LAGS_PER_REQUEST: Final = 64
_OTLP_PATH: Final = "/v1/logs"


@dataclass
class Tally:
    """
    What arrived at one path.
    """

    requests: int = 0
    events: int = 0
    unique: int = 0
    wire_bytes: int = 0
    seen: bytearray = field(default_factory=bytearray)
    lags_us: list[tuple[int, int]] = field(default_factory=list)

    def take_lines(self, body: bytes, now_ns: int) -> None:
        """
        Count an NDJSON *body*, complete at *now_ns* since the epoch.
        """
        self.events += body.count(b"\n") + (not body.endswith(b"\n"))
        self._mark(_ORDER.findall(body))
        sent = _SENT.findall(body)
        step = len(sent) // _LAGS_PER_REQUEST + 1
        for number in range(0, len(sent), step):
            self.lags_us.append(((now_ns - int(sent[number])) // 1000, min(step, len(sent) - number)))

    def take_otlp(self, body: bytes) -> None:
        """
        Count an OTLP *body* in protobuf.
        """
        # Here, for most benchmarks do without the OpenTelemetry packages.
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        request = ExportLogsServiceRequest.FromString(body)
        for resource in request.resource_logs:
            for scope in resource.scope_logs:
                self.events += len(scope.log_records)
        self.unique = self.events

    def _mark(self, orders: list[bytes]) -> None:
        """
        Note which *orders* arrived; a run of consecutive ones, the usual case, takes four calls.
        """
        if not orders:
            return
        first, last = int(orders[0]), int(orders[-1])
        numbers = range(first, last + 1)
        consecutive = last - first + 1 == len(orders)
        highest = last if consecutive else max(map(int, orders))
        if highest >= len(self.seen):
            self.seen += bytes(highest + 1 - len(self.seen) + 100_000)
        if consecutive:
            self.unique += self.seen.count(0, first, last + 1)
            self.seen[first : last + 1] = b"\1" * len(numbers)
            return
        for number in map(int, orders):
            self.unique += not self.seen[number]
            self.seen[number] = 1

    def summary(self) -> dict[str, Any]:
        """
        The counts and the lags, in milliseconds.
        """
        return {
            "requests": self.requests,
            "events": self.events,
            "unique": self.unique,
            "wire_bytes": self.wire_bytes,
            "lag_ms": summarize_lags(self.lags_us),
        }


def summarize_lags(lags_us: list[tuple[int, int]]) -> dict[str, float]:
    """
    Average, 90th and 99th percentile and maximum of weighted *lags_us*, in milliseconds; empty without any.
    """
    if not lags_us:
        return {}
    ordered = sorted(lags_us)
    total = sum(weight for _, weight in ordered)
    wanted = {"p90": 0.9 * total, "p99": 0.99 * total}
    result = {"avg": sum(lag * weight for lag, weight in ordered) / total / 1000}
    passed = 0
    for lag, weight in ordered:
        passed += weight
        for name in [name for name, rank in wanted.items() if passed >= rank]:
            result[name] = lag / 1000
            del wanted[name]
    result["max"] = ordered[-1][0] / 1000
    return {name: round(value, 2) for name, value in result.items()}


class Counter:
    """
    The state that all connections share.
    """

    def __init__(self) -> None:
        self.latency = 0.0
        self.hang_after = -1
        self.tallies: dict[str, Tally] = {}

    def take(self, path: str, encoding: bytes, body: bytes) -> None:
        """
        Count one request.
        """
        now_ns = time.time_ns()
        tally = self.tallies.setdefault(path, Tally())
        tally.requests += 1
        tally.wire_bytes += len(body)
        plain = _inflate(encoding, body)
        if path == _OTLP_PATH:
            tally.take_otlp(plain)
        else:
            tally.take_lines(plain, now_ns)

    def control(self, path: str, query: dict[str, list[str]]) -> bytes:
        """
        Answer a request of the benchmark itself.
        """
        if "latency" in query:
            self.latency = float(query["latency"][0])
        if "hang_after" in query:
            self.hang_after = int(query["hang_after"][0])
        if "forget" in query:
            self.tallies.clear()
        return json.dumps({path: tally.summary() for path, tally in self.tallies.items()}).encode()


def _inflate(encoding: bytes, body: bytes) -> bytes:
    match encoding.lower():
        case b"gzip":
            return zlib.decompress(body, 31)
        case b"deflate":
            return zlib.decompress(body)
        case b"zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(body)
        case _:
            return body


class Connection(asyncio.Protocol):
    """
    One keep-alive connection: HTTP/1.1 with Content-Length, one request at a time.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._buffer = bytearray()
        self._needed = 0
        self._body_at = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """
        Keep *transport* for the answers.
        """
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """
        Take what came; answer every request that is complete.
        """
        buffer = self._buffer
        buffer += data
        while True:
            if not self._needed:
                end = buffer.find(b"\r\n\r\n")
                if end < 0:
                    return
                length = _LENGTH.search(buffer, 0, end)
                self._body_at = end + 4
                self._needed = self._body_at + (int(length[1]) if length else 0)
            if len(buffer) < self._needed:
                return
            head, body = bytes(buffer[: self._body_at]), bytes(buffer[self._body_at : self._needed])
            del buffer[: self._needed]
            self._needed = 0
            self._handle(head, body)

    def _handle(self, head: bytes, body: bytes) -> None:
        target = urlsplit(head.split(b" ", 2)[1].decode())
        counter = self._counter
        if target.path == "/_":
            self._answer(counter.control(target.path, parse_qs(target.query)))
            return
        if counter.hang_after == 0:
            self._transport.pause_reading()
            return
        counter.hang_after -= counter.hang_after > 0
        encoding = _ENCODING.search(head)
        counter.take(target.path, encoding[1] if encoding else b"", body)
        if counter.latency:
            asyncio.get_running_loop().call_later(counter.latency, self._answer, b"")
        else:
            self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


class Sink:
    """
    A running sink, as the benchmark sees it; a context manager.

    Args:
        latency: Seconds between a request's last byte and its answer.

        hang_after: After so many requests it takes no more and answers none; -1: never.
    """

    def __init__(self, latency: float = 0.0, hang_after: int = -1) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.sink"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.control(latency=latency, hang_after=hang_after)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def url(self, path: str) -> str:
        """
        Where to POST events that are counted under *path*.
        """
        return f"http://127.0.0.1:{self.port}{path}"

    def control(self, **changes: float) -> dict[str, Any]:
        """
        Set latency, hang_after, or forget what was counted (``forget=1``); returns the counts by path.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        query = "&".join(f"{name}={value}" for name, value in changes.items())
        connection.request("GET", f"/_?{query}")
        counts: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return counts

    def arrived(self, path: str) -> dict[str, Any]:
        """
        What arrived at *path* so far.
        """
        return {**Tally().summary(), **self.control().get(path, {})}

    def freeze(self) -> None:
        """
        Stop the whole process, as a server hangs: the kernel still accepts, nobody answers.
        """
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """
        Let it run on.
        """
        self._process.send_signal(signal.SIGCONT)


async def _serve(port: int) -> None:
    counter = Counter()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(counter), "127.0.0.1", port, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """
    Serve until killed; the first line on stdout is the port.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.sink", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
