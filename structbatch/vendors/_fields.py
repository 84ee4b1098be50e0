# SPDX-License-Identifier: Apache-2.0
"""
What the vendors that take JSON objects share: their own members in front of the bytes of a record's payload.

A payload without a reserved key and without tagged values is never parsed: the members are spliced in front of it.
Everything else is parsed and renamed, by four rules:

1. What the record itself carries (time, severity, trace, id) wins; an event's key of the same name becomes
   ``fields.<key>``, or ``fields.<key>.2`` and so on where that exists too.
2. What the resource says (service, host, ...) is the default: an event's own text of the same name replaces it.
3. No key is lost and none is written twice.
4. What cannot be parsed travels as the text of ``message``: nothing here raises or refuses.
"""

from __future__ import annotations

import itertools
import re

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from structbatch.core.batch import Batch
from structbatch.core.encode import plain
from structbatch.core.record import HEADER, HEADER_BYTES, NO_SPAN, NO_TRACE, RESERVED, RESERVED_KEYS, TYPED, Record
from structbatch.core.severity import BAND_OF, BANDS
from structbatch.core.vendor import CHUNK_RECORDS, View, record_id


Fields = dict[str, Any]
Shortcut = Callable[[bytes], bytes | None]

ISO_NAMES: Final = tuple("" if band == "unknown" else band.upper() for band in (BANDS[b] for b in BAND_OF))
"""
Severity number to ``TRACE`` ... ``FATAL``; empty for unknown. Source:
https://opentelemetry.io/docs/specs/otel/logs/data-model/#displaying-severity
"""

RECORD_ID: Final = "structbatch.id"
NO_MESSAGE: Final = "(no message)"
LONG_AGO_NS: Final = -(2**63)
_UNSAFE: Final = RESERVED | TYPED
_MESSAGE: Final = b'"message":"'
_ODD_MESSAGE: Final = re.compile(rb'"message":(?:[^"]|"")')
_SECOND_NS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(32)
def _flag_texts(name: str) -> tuple[str, ...]:
    """
    What closes the trace's members, for each of the 256 trace flags: format specifications are slow.
    """
    return tuple(f'","{name}":"{flags:02x}"' if name else '"' for flags in range(256))


_second: tuple[int, str] = (0, '"1970-01-01T00:00:00.')
"""
The last second that was written: consecutive records mostly share it.
"""


def iso(time_ns: int) -> str:
    """
    *time_ns* as JSON text: ISO 8601 with nanoseconds and ``Z``.
    """
    global _second  # noqa: PLW0603, one assignment of a tuple: in a race between senders the loser writes it again
    second, rest = divmod(time_ns, _SECOND_NS)
    known, text = _second
    if second != known:
        text = f'"{(_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")}.'
        _second = (second, text)
    return f'{text}{rest:09d}Z"'


def milliseconds(time_ns: int) -> str:
    """
    *time_ns* as JSON text: whole milliseconds since the epoch.
    """
    return str(time_ns // 1_000_000)


@dataclass(frozen=True, slots=True)
class Dialect:
    """
    How a vendor names what a record carries. An empty name leaves the member out.

    Args:
        resource: Resource and scope attributes to the members that they become, in order.

        timestamp: Time in nanoseconds to JSON text.

        time: Name of the time's member.

        level: Name of the severity's member.

        levels: Text for each of the severities 0 to 24; empty text leaves it out.

        trace_id: Name of the trace id's member, lower-case hex.

        span_id: Name of the span id's member, lower-case hex.

        trace_flags: Name of the trace flags' member, two hex digits.

        shadows: Keys that the vendor would read as one of its own: always renamed.

        needles:
            Bytes that send a payload to the slow path wherever they stand in it, each with a shortcut that rewrites
            the payload as bytes or returns None.

        adapt:
            Called where a field's name is one of *adapted* or of a member, with the members, the event's fields, and
            the resource: changes the first two.

        adapted: Names of the fields that *adapt* looks for.

        needs_message: Send a record without a message, or whose message is empty or no text, down the slow path.
    """

    resource: Callable[[Fields, Fields], Fields]
    timestamp: Callable[[int], str] = iso
    time: str = "timestamp"
    level: str = "level"
    levels: tuple[str, ...] = ISO_NAMES
    trace_id: str = "trace_id"
    span_id: str = "span_id"
    trace_flags: str = "trace_flags"
    shadows: frozenset[str] = frozenset()
    needles: Mapping[bytes, Shortcut | None] = field(default_factory=dict)
    adapt: Callable[[Fields, Fields, Fields], None] | None = None
    adapted: frozenset[str] = frozenset()
    needs_message: bool = False

    @property
    def own(self) -> frozenset[str]:
        """
        Names of the members that come from the record.
        """
        names = {self.time, self.level, self.trace_id, self.span_id, self.trace_flags, RECORD_ID, *self.shadows}
        return frozenset(names - {""})


class _Constant(NamedTuple):
    """
    What all records of one source and severity share.
    """

    text: str
    needles: tuple[bytes, ...]
    is_plain: bool
    guarded: frozenset[str]
    defaults: frozenset[str]
    resource: Fields


class Splice:
    """
    Writes the records of one view into `body`, one JSON object each. For one request, on one thread.

    Args:
        dialect: The vendor's names.

        start: What precedes the first object.

        end: What follows each object.

        with_id: Write each record's id as ``structbatch.id``.

        oldest_ns: Records from before are refused as ``expired``.
    """

    def __init__(
        self, dialect: Dialect, start: bytes, end: bytes, *, with_id: bool = False, oldest_ns: int = LONG_AGO_NS
    ) -> None:
        self.body = bytearray(start)
        self.refused: dict[int, str] = {}
        self._dialect = dialect
        self._end = end
        self._with_id = with_id
        self._oldest_ns = oldest_ns
        self._position = 0
        self._batch: Batch | None = None
        self._haystack = b""
        self._odd_messages = False
        self._constants: dict[int, _Constant] = {}

    def write(self, view: View) -> Generator[None, None, None]:
        """
        Write all of *view*; yields after each chunk.
        """
        for part in view.parts:
            if part.ordinals is None and view.truncate is None and not self._with_id:
                self._enter(part.batch)
                yield from self._write_batch(part.batch)
            else:
                for chunk in View((part,), view.truncate).chunks():
                    for _, record, ordinal in chunk:
                        self._write_record(part.batch, record, ordinal)
                    yield

    def _write_batch(self, batch: Batch) -> Generator[None, None, None]:
        """
        All of *batch*. The plain record, nearly every one, is written here in one line; the others go the long way.
        """
        records, constants, end, oldest_ns = batch.records, self._constants, self._end, self._oldest_ns
        names, stamp, plain_messages = self._dialect, self._dialect.timestamp, not self._odd_messages
        start = f'{{"{names.time}":'
        unpack, offset, ordinal, total = HEADER.unpack_from, 0, 0, len(records)
        objects: list[bytes | memoryview] = []
        while offset < total:
            length, time_ns, severity, trace_flags, flags, source, trace_id, span_id = unpack(records, offset)
            begin = offset + HEADER_BYTES
            offset = begin + length
            constant = constants.get(source << 8 | severity) or self._constant(batch, source, severity)
            if not flags & _UNSAFE and plain_messages and constant.is_plain and length > 2 and time_ns >= oldest_ns:
                ids = "" if trace_id == NO_TRACE and span_id == NO_SPAN else self._ids(trace_id, span_id, trace_flags)
                objects += (f"{start}{stamp(time_ns)}{constant.text}{ids},".encode(), records[begin + 1 : offset], end)
                self._position += 1
            else:
                self.body += b"".join(objects)
                objects.clear()
                payload = records[begin:offset]
                record = Record(time_ns, severity, trace_flags, flags, source, trace_id, span_id, payload)
                self._write_record(batch, record, ordinal)
            ordinal += 1
            if ordinal % CHUNK_RECORDS == 0:
                yield
        self.body += b"".join(objects)
        yield

    def _write_record(self, batch: Batch, record: Record, ordinal: int) -> None:
        """
        Any record at all.
        """
        if batch is not self._batch:
            self._enter(batch)
        position = self._position
        self._position += 1
        if record.time_ns < self._oldest_ns:
            self.refused[position] = "expired"
            return
        names = self._dialect
        constant = self._constants.get(record.source << 8 | record.severity) or self._constant(
            batch, record.source, record.severity
        )
        ids = self._ids(record.trace_id, record.span_id, record.trace_flags)
        text = f'{{"{names.time}":{names.timestamp(record.time_ns)}{constant.text}{ids}'
        if self._with_id:
            text = f'{text},"{RECORD_ID}":"{record_id(batch, ordinal)}"'
        payload = bytes(record.payload)
        if record.flags & _UNSAFE or len(payload) < 3 or (self._odd_messages and _has_odd_message(payload)):
            self.body += self._rewrite(text, constant, payload)
        elif constant.needles:
            self.body += self._sift(text, constant, payload)
        else:
            self.body += b"%b,%b" % (text.encode(), payload[1:])
        self.body += self._end

    def _ids(self, trace_id: bytes, span_id: bytes, trace_flags: int) -> str:
        """
        The members of the trace, each after a comma.
        """
        names = self._dialect
        span = f',"{names.span_id}":"{span_id.hex()}' if span_id != NO_SPAN else ""
        if trace_id == NO_TRACE:
            return f'{span}"' if span else ""
        opening = f',"{names.trace_id}":"{trace_id.hex()}'
        middle = f'"{span}' if span else ""
        return f"{opening}{middle}{_flag_texts(names.trace_flags)[trace_flags]}"

    def array(self) -> bytearray:
        """
        `body` as one JSON array, where it starts with a bracket and each object ends with a comma.
        """
        self.body[-1:] = b"]" if len(self.body) > 1 else b"[]"
        return self.body

    @property
    def rows(self) -> Sequence[int] | None:
        """
        Position in the body to position in the view; None where nothing was left out.
        """
        if not self.refused:
            return None
        return [position for position in range(self._position) if position not in self.refused]

    def _enter(self, batch: Batch) -> None:
        self._batch = batch
        self._haystack = b""
        self._constants.clear()
        if self._dialect.needs_message:
            # Two searches of the whole batch spare two of each record.
            self._haystack = bytes(batch.records)
            missing = self._haystack.count(_MESSAGE) < batch.count
            self._odd_messages = missing or _ODD_MESSAGE.search(self._haystack) is not None

    def _constant(self, batch: Batch, source: int, severity: int) -> _Constant:
        """
        The members of *source* and *severity*, kept for the rest of the batch.

        Needles that stand nowhere in the batch are sought in no record of it.
        """
        names = self._dialect
        resource, scope = parse_source(batch.sources[source] if source < len(batch.sources) else b"")
        defaults = names.resource(resource, scope)
        level = names.levels[min(severity, 24)]
        members = {names.level: level, **defaults} if level else defaults
        needles = (*names.needles, *(orjson.dumps(name) + b":" for name in defaults if name not in RESERVED_KEYS))
        if needles and not self._haystack:
            self._haystack = bytes(batch.records)
        present = tuple(needle for needle in needles if needle in self._haystack)
        constant = self._constants[source << 8 | severity] = _Constant(
            f",{orjson.dumps(members).decode()[1:-1]}" if members else "",
            present,
            not present,
            names.own.union(defaults, names.adapted),
            frozenset(defaults),
            resource,
        )
        return constant

    def _sift(self, text: str, constant: _Constant, payload: bytes) -> bytes:
        """
        The object of a payload that may hold a needle.
        """
        hits = [needle for needle in constant.needles if needle in payload]
        if not hits:
            return b"%b,%b" % (text.encode(), payload[1:])
        if len(hits) == 1 and (shortcut := self._dialect.needles.get(hits[0])) and (short := shortcut(payload)):
            return b"%b,%b" % (text.encode(), short[1:])
        return self._rewrite(text, constant, payload)

    def _rewrite(self, text: str, constant: _Constant, payload: bytes) -> bytes:
        """
        The object of a payload that must be parsed.
        """
        try:
            fields = plain(payload)
            message = fields.get("message")
            if message and isinstance(message, str) and constant.guarded.isdisjoint(fields):
                return b"%b,%b" % (text.encode(), orjson.dumps(fields)[1:])
            return orjson.dumps(self._merge(orjson.loads(f"{text}}}"), constant, fields))
        except (ValueError, TypeError, RecursionError):
            fields = {"message": payload.decode("utf-8", "replace") or NO_MESSAGE}
            return b"%b,%b" % (text.encode(), orjson.dumps(fields)[1:])

    def _merge(self, members: Fields, constant: _Constant, fields: Fields) -> Fields:
        names = self._dialect
        if names.adapt is not None:
            names.adapt(members, fields, constant.resource)
        written = frozenset(members) | names.shadows
        for name, value in fields.items():
            if name not in written or (name in constant.defaults and isinstance(value, str) and value):
                members[name] = value
            else:
                members[free_name(f"fields.{name}", members, fields)] = value
        return members


def _has_odd_message(payload: bytes) -> bool:
    return _MESSAGE not in payload or _ODD_MESSAGE.search(payload) is not None


def free_name(name: str, *taken: Mapping[str, object]) -> str:
    """
    *name*, or the first of ``name.2``, ``name.3`` and so on, that stands in none of *taken*.
    """
    candidates = itertools.chain((name,), (f"{name}.{number}" for number in itertools.count(2)))
    return next(candidate for candidate in candidates if not any(candidate in names for names in taken))


def parse_source(source: bytes) -> tuple[Fields, Fields]:
    """
    The resource and the scope of *source*; empty where it has none or cannot be read.
    """
    try:
        parsed = orjson.loads(source)
    except ValueError:
        return {}, {}
    if not isinstance(parsed, dict):
        return {}, {}
    resource, scope = parsed.get("resource"), parsed.get("scope")
    return resource if isinstance(resource, dict) else {}, scope if isinstance(scope, dict) else {}


def named(attributes: Fields, names: Mapping[str, str], own: frozenset[str]) -> Fields:
    """
    *attributes* under the vendor's *names*, those first and in their order; others keep their own.

    One that would hide a member of the record (*own*, or ``message``) becomes ``resource.<name>``.
    """
    members: Fields = {}
    rest = dict(attributes)
    for attribute, name in names.items():
        if attribute in rest and name not in members:
            members[name] = rest.pop(attribute)
    for attribute, value in rest.items():
        if attribute in own or attribute in members or attribute == "message":
            attribute = free_name(f"resource.{attribute}", members, rest)  # noqa: PLW2901
        members[attribute] = value
    return members


def fields_of_scope(scope: Fields) -> Fields:
    """
    A scope's attributes as fields: its name is the logger, the others are prefixed.
    """
    return {"logger" if name == "name" else f"scope.{name}": value for name, value in scope.items()}
