# SPDX-License-Identifier: Apache-2.0
"""
Bodies to events: a table from path to dialect.

msgspec checks the grammar of the whole body and keeps two numbers of each event: a fifth of the time that full
parsing with orjson takes, which would make the receiver, not the library, the slowest part of a demo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from structbatch.receiver.refusal import Refusal


class Event(msgspec.Struct, gc=False, frozen=True):
    """
    What the receiver keeps of an event.

    Args:
        demo_id: The number that the application gave it, unique; None where it gave none.

        demo_ns: When the application logged it, nanoseconds since 1970; 0 where it does not say.
    """

    demo_id: int | None = None
    demo_ns: int = 0


Parser = Callable[[bytes, str], list[Event]]
"""
Body and content type to events; raises `Refusal`.
"""

_one = msgspec.json.Decoder(Event)
_many = msgspec.json.Decoder(list[Event])


def parse_ndjson(body: bytes, content_type: str = "") -> list[Event]:  # noqa: ARG001
    """
    One JSON object per line, each line ended by ``\\n``, none empty.

    The decoder takes any whitespace between objects. Lines are told by ``}\\n{``, which can stand nowhere inside a
    JSON value: as many of these as there are events less one, and no other newline, is one object per line exactly.
    """
    _require_utf8(body)
    try:
        events = _one.decode_lines(body)
    except msgspec.MsgspecError as error:
        raise Refusal(400, f"not newline-delimited JSON objects: {_place(error)}") from error
    if not events:
        raise Refusal(400, "no event in the body")
    if not body.endswith(b"}\n"):
        raise Refusal(400, "the last line does not end with a newline")
    if not len(events) == body.count(b"\n") == body.count(b"}\n{") + 1:
        raise Refusal(400, "not exactly one JSON object on each line")
    return events


def parse_json(body: bytes, content_type: str = "") -> list[Event]:  # noqa: ARG001
    """
    A JSON array of objects, or one object.
    """
    _require_utf8(body)
    try:
        events = [_one.decode(body)] if body.lstrip()[:1] == b"{" else _many.decode(body)
    except msgspec.MsgspecError as error:
        raise Refusal(400, f"neither a JSON object nor an array of them: {_place(error)}") from error
    if not events:
        raise Refusal(400, "no event in the body")
    return events


def parse_by_type(body: bytes, content_type: str) -> list[Event]:
    """
    As the content type says; without a telling one, a body that starts with ``[`` is an array.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _BY_TYPE:
        return _BY_TYPE[kind](body, kind)
    return parse_json(body) if body.lstrip()[:1] == b"[" else parse_ndjson(body)


_BY_TYPE: Final[Mapping[str, Parser]] = {
    "application/json": parse_json,
    "application/x-ndjson": parse_ndjson,
    "application/ndjson": parse_ndjson,
    "application/jsonl": parse_ndjson,
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """
    How one path speaks.

    Args:
        parse: Body to events.

        status: The answer when all of them were taken.
    """

    parse: Parser
    status: int = 200


DIALECTS: Final[Mapping[str, Dialect]] = {
    "/ingest": Dialect(parse_by_type),
    # https://docs.datadoghq.com/api/latest/logs/#send-logs
    "/api/v2/logs": Dialect(parse_json, status=202),
}
"""
Path to dialect.
"""

ANY: Final = Dialect(parse_by_type)
"""
What every other path speaks.
"""


def _require_utf8(body: bytes) -> None:
    if body.isascii():
        return
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(400, f"not UTF-8 at byte {error.start}") from error


def _place(error: msgspec.MsgspecError) -> str:
    return str(error)[:200]
