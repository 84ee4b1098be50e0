# SPDX-License-Identifier: Apache-2.0
"""
The receiver's ASGI application.

``POST /control`` sets the mood, ``GET /stats`` tells the counts, ``POST`` to any other path takes events.
"""

from __future__ import annotations

import asyncio
import time

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from structbatch.receiver.decode import MAX_PLAIN_BYTES, decode
from structbatch.receiver.mood import Mood, Temper, read_mood
from structbatch.receiver.parse import ANY, DIALECTS
from structbatch.receiver.refusal import Refusal
from structbatch.receiver.tally import MAX_ID, SLOT_NS, Tally


MAX_WIRE_BYTES: Final = 32 * 1024 * 1024
"""
Most bytes that a request's body may have on the wire.
"""

Abort = Callable[[tuple[str, int] | None], None]
"""
Tears down the connection of the client with this address.
"""


class Receiver:
    """
    The counts, the mood and the handlers.

    Args:
        abort: How to tear down a connection: the server knows, ASGI does not.

        max_plain_bytes: Most bytes that a body may have once decoded.
    """

    def __init__(self, abort: Abort | None = None, max_plain_bytes: int = MAX_PLAIN_BYTES) -> None:
        self.abort: Abort = abort or (lambda _: None)
        self.tally = Tally()
        self.temper = Temper()
        self.requests = 0
        self.answers: dict[int, int] = {}
        self.bytes_wire = 0
        self.bytes_plain = 0
        self._max_plain_bytes = max_plain_bytes

        self._rest = Starlette(
            routes=[
                Route("/control", self.control, methods=["POST"]),
                Route("/stats", self.stats, methods=["GET"]),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        The ASGI application. Events go past router and middleware, which cost as much as 100 events.
        """
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] != "/control":
            response = await self.ingest(Request(scope, receive))
            await response(scope, receive, send)
        else:
            await self._rest(scope, receive, send)

    async def control(self, request: Request) -> Response:
        """
        Set the mood: the body is a `structbatch.receiver.mood.Mood`.
        """
        try:
            mood = read_mood(await _read_body(request, 4096))
        except Refusal as refusal:
            return _refuse(refusal)
        self.temper.set(mood, time.monotonic())
        return _json(mood)

    async def stats(self, request: Request) -> Response:
        """
        All counts. ``?expect=0-99,200-299`` names the ids that should have come, and adds what is missing of them.
        """
        try:
            expected = _read_ranges(request.query_params.get("expect", ""))
        except Refusal as refusal:
            return _refuse(refusal)
        tally = self.tally
        missing, gaps = tally.missing(expected)
        return _json(
            {
                "requests": self.requests,
                "answers": self.answers,
                "events": tally.events,
                "without_id": tally.without_id,
                "distinct": tally.distinct,
                "duplicated": tally.duplicated,
                "expected_seen": sum(map(len, expected)) - missing,
                "missing": missing,
                "missing_ranges": gaps,
                "bytes_wire": self.bytes_wire,
                "bytes_plain": self.bytes_plain,
                "lag_ms": tally.lag_ms(),
                "slot_ns": SLOT_NS,
                "arrivals": sorted(tally.arrivals.items()),
            }
        )

    async def ingest(self, request: Request) -> Response:
        """
        Take events as the mood allows. What is answered with 2xx is counted, and nothing else but `lost_answer`.
        """
        self.requests += 1
        try:
            wire = await _read_body(request, MAX_WIRE_BYTES)
            # The mood at the end of the body: an outage that begins during an upload hits it.
            mood = self.temper.at(time.monotonic())
            response = self._answer(request, wire, mood)
        except Refusal as refusal:
            mood, response = Mood(), _refuse(refusal)
        if mood.delay:
            await asyncio.sleep(mood.delay)
        if mood.mode in ("reset", "lost_answer"):
            self.abort(request.client)
        self.answers[response.status_code] = self.answers.get(response.status_code, 0) + 1
        return response

    def _answer(self, request: Request, wire: bytes, mood: Mood) -> Response:
        if mood.mode == "status":
            return Response(status_code=mood.status, headers=_retry_after(mood))
        if mood.mode == "reset":
            return Response(status_code=503)
        return self._take(request.url.path, request.headers, wire)

    def _take(self, path: str, headers: Mapping[str, str], wire: bytes) -> Response:
        dialect = DIALECTS.get(path, ANY)
        now_ns = time.time_ns()
        plain = decode(wire, headers.get("content-encoding", ""), self._max_plain_bytes)
        self.tally.add(dialect.parse(plain, headers.get("content-type", "")), now_ns)
        self.bytes_wire += len(wire)
        self.bytes_plain += len(plain)
        return Response(b"{}", status_code=dialect.status, media_type="application/json")


async def _read_body(request: Request, max_bytes: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > max_bytes:
            raise Refusal(413, f"more than {max_bytes} bytes")
        parts.append(part)
    return b"".join(parts)


def _read_ranges(text: str) -> list[range]:
    """
    ``0-99,200-299`` as ranges, both ends included.
    """
    ranges = []
    for word in text.split(",") if text else ():
        first, _, last = word.partition("-")
        if not (_is_id(first) and _is_id(last)):
            raise Refusal(400, "expect is a list of ranges such as 0-99,200-299")
        ranges.append(range(int(first), int(last) + 1))
    return ranges


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ID)) and int(text) <= MAX_ID


def _retry_after(mood: Mood) -> dict[str, str] | None:
    return None if mood.retry_after is None else {"retry-after": f"{mood.retry_after:g}"}


def _refuse(refusal: Refusal) -> Response:
    return _json({"error": refusal.reason}, refusal.status)


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")
