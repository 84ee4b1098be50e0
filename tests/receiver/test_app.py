# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import gzip
import json

from typing import Any

import pytest

from structbatch.receiver.app import Receiver


@pytest.fixture(name="receiver")
def _receiver() -> Receiver:
    return Receiver(max_plain_bytes=10_000)


def call(
    receiver: Receiver, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], Any]:
    """
    One request through ASGI: status, headers, body as JSON.
    """
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        "client": ("192.0.2.1", 4711),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }
    parts = [body[:7], body[7:]]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(receiver(scope, receive, send))
    answer = b"".join(message.get("body", b"") for message in sent)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, json.loads(answer) if answer.startswith((b"{", b"[")) else answer


def lines(*ids: int) -> bytes:
    """
    NDJSON with these ids.
    """
    return b"".join(b'{"message":"a","demo_id":%d}\n' % number for number in ids)


class TestIngest:
    @pytest.mark.parametrize("path", ["/ingest", "/any/other/path", "/"])
    def test_counts(self, receiver: Receiver, path: str) -> None:
        """
        Every path takes events, and the counts tell ids, repetitions and bytes.
        """
        body = gzip.compress(lines(0, 1, 1))
        status, _, _ = call(receiver, "POST", path, body, content_encoding="gzip")
        _, _, stats = call(receiver, "GET", "/stats?expect=0-2")

        assert 200 == status
        assert {
            "requests": 1,
            "answers": {"200": 1},
            "events": 3,
            "distinct": 2,
            "duplicated": 1,
            "without_id": 0,
            "expected_seen": 2,
            "missing": 1,
            "missing_ranges": [[2, 2]],
            "bytes_wire": len(body),
            "bytes_plain": len(lines(0, 1, 1)),
        }.items() <= stats.items()

    def test_datadog(self, receiver: Receiver) -> None:
        """
        Datadog's path takes its array and answers as Datadog does.
        """
        status, _, answer = call(receiver, "POST", "/api/v2/logs", b'[{"demo_id":1}]', content_type="application/json")

        assert (202, {}) == (status, answer)

    @pytest.mark.parametrize(
        ("expected", "body", "encoding"),
        [
            (400, b"not JSON\n", ""),
            (400, lines(-1), ""),
            (400, b"not gzip", "gzip"),
            (415, lines(1), "br"),
            (413, gzip.compress(bytes(20_000)), "gzip"),
        ],
    )
    def test_refused(self, receiver: Receiver, expected: int, body: bytes, encoding: str) -> None:
        """
        What is refused is not counted, and the answer says why.
        """
        status, _, answer = call(receiver, "POST", "/ingest", body, content_encoding=encoding)

        assert expected == status
        assert answer["error"]
        assert (0, 1, 0) == (receiver.tally.events, receiver.requests, receiver.bytes_wire)

    @pytest.mark.parametrize(
        ("expected", "method", "path"), [(405, "GET", "/control"), (404, "GET", "/ingest"), (404, "PUT", "/")]
    )
    def test_methods(self, receiver: Receiver, expected: int, method: str, path: str) -> None:
        """
        Events are posted.
        """
        status, _, _ = call(receiver, method, path)

        assert expected == status


class TestControl:
    def test_status(self, receiver: Receiver) -> None:
        """
        While told to refuse, nothing is counted and Retry-After is sent.
        """
        call(receiver, "POST", "/control", b'{"mode":"status","status":429,"retry_after":1.5}')
        status, headers, _ = call(receiver, "POST", "/ingest", lines(1))

        assert (429, "1.5", 0) == (status, headers["retry-after"], receiver.tally.events)

    def test_outage_ends(self, receiver: Receiver) -> None:
        """
        An outage of no length is over at once.
        """
        call(receiver, "POST", "/control", b'{"mode":"status","for":0}')
        status, _, _ = call(receiver, "POST", "/ingest", lines(1))

        assert 200 == status

    def test_delay(self, receiver: Receiver) -> None:
        """
        A late answer still counts.
        """
        call(receiver, "POST", "/control", b'{"delay":0.001}')
        status, _, _ = call(receiver, "POST", "/ingest", lines(1))

        assert (200, 1) == (status, receiver.tally.events)

    @pytest.mark.parametrize(("expected", "mode"), [(0, "reset"), (1, "lost_answer")])
    def test_torn_down(self, receiver: Receiver, expected: int, mode: str) -> None:
        """
        A connection is torn down without counting, or after it.
        """
        torn: list[object] = []
        receiver.abort = torn.append
        call(receiver, "POST", "/control", json.dumps({"mode": mode}).encode())
        call(receiver, "POST", "/ingest", lines(1))

        assert ([("192.0.2.1", 4711)], expected) == (torn, receiver.tally.events)

    def test_wrong(self, receiver: Receiver) -> None:
        """
        A wrong mood is refused, and the old one stays.
        """
        status, _, _ = call(receiver, "POST", "/control", b'{"mode":"angry"}')
        after, _, _ = call(receiver, "POST", "/ingest", lines(1))

        assert (400, 200) == (status, after)


class TestStats:
    @pytest.mark.parametrize("expect", ["1", "a-b", "1-2,", "0-99999999999", "-1-2"])
    def test_wrong_ranges(self, receiver: Receiver, expect: str) -> None:
        """
        Ranges that cannot be read are 400.
        """
        status, _, _ = call(receiver, "GET", f"/stats?expect={expect}")

        assert 400 == status
