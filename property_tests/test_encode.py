# SPDX-License-Identifier: Apache-2.0
"""
Whatever an event holds: it is encoded, bounded, valid, and the same again.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime as dt
import json
import math
import uuid

from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

import numpy as np
import orjson

from hypothesis import assume, example, given
from hypothesis import strategies as st

from structbatch.core.encode import _encode_slowly, encode, plain, truncate_payload, typed
from structbatch.core.record import RESERVED, RESERVED_KEYS, TYPED


ROOM = 256 * 1024


def refuse(constant: str) -> NoReturn:
    raise AssertionError(constant)


def strict(payload: bytes) -> dict[str, Any]:
    """
    *payload* read by a strict parser.
    """
    parsed = json.loads(payload.decode("utf-8", "strict"), parse_constant=refuse)
    assert isinstance(parsed, dict)
    return parsed


@dataclasses.dataclass
class Data:
    first: object
    second: object


class Named(NamedTuple):
    left: object
    right: object


class Hostile:
    """
    Its code does one of several bad things.
    """

    def __init__(self, how: str) -> None:
        self.how = how

    def __str__(self) -> str:
        match self.how:
            case "raise":
                raise ValueError
            case "number":
                return 5  # type: ignore[return-value]
            case "memory":
                raise MemoryError
            case "stack":
                return str(self)
            case "surrogate":
                return "\udc80" * 3
            case _:
                return "long" * 100_000

    def __repr__(self) -> str:
        return f"Hostile({self.how!r})"


class Many(list[object]):
    """
    The same thing, three hundred times.
    """

    def __init__(self, item: object) -> None:
        super().__init__([item] * 300)

    def __repr__(self) -> str:
        return f"Many({self[0]!r})"


class Loop(list[object]):
    """
    A list that holds itself.
    """

    def __init__(self, item: object) -> None:
        super().__init__([item, self])


any_text = st.text(st.characters(), max_size=20)  # surrogates too
text = st.text(max_size=20)
native_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.dates()
    | st.times()
    | st.uuids()
)
natives = st.recursive(
    native_leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(text | st.sampled_from(["$float", "$int"]), inner, max_size=4)
        | st.tuples(inner, inner)
        | st.builds(Data, inner, inner)
    ),
    max_leaves=12,
)
tagged_leaves = st.none() | st.integers() | st.floats() | text | st.binary(max_size=30)
tagged = st.recursive(
    tagged_leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(text, inner, max_size=4)
        | st.dictionaries(st.sampled_from(["$float", "$bytes", "$int", "$dict"]), inner, max_size=2)
    ),
    max_leaves=12,
)
keys = any_text | st.integers() | st.floats() | st.none() | st.booleans() | st.binary(max_size=5) | st.uuids()
hostiles = st.builds(Hostile, st.sampled_from(["raise", "number", "memory", "stack", "surrogate", "long"]))
anything = st.recursive(
    native_leaves
    | tagged_leaves
    | any_text
    | hostiles
    | st.decimals()
    | st.fractions()
    | st.complex_numbers()
    | st.timedeltas()
    | st.builds(object)
    | st.builds(np.float32, st.floats(width=32))
    | st.builds(np.array, st.lists(st.floats(), max_size=3))
    | st.sampled_from([1 << 3000, -(1 << 3000), Decimal("sNaN"), ValueError, ValueError("v"), np.datetime64("NaT")]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.frozensets(keys, max_size=4)
        | st.builds(Data, inner, inner)
        | st.builds(Named, inner, inner)
        | st.builds(Loop, inner)
        | st.builds(collections.deque, st.lists(inner, max_size=3))
        | st.builds(Many, inner)
        | st.builds(lambda item: (item, item), inner)
    ),
    max_leaves=10,
)
events = st.builds(
    lambda message, fields: {"message": message, **fields}, anything, st.dictionaries(keys, anything, max_size=6)
)
rooms = st.integers(1024, 4096) | st.just(ROOM)


@given(events, rooms)
def test_every_event_becomes_a_bounded_valid_payload(event: dict[Any, Any], room: int) -> None:
    """
    No event raises or grows beyond the limit; the JSON is strict, and JSON vendors and OTLP can read it.
    """
    payload, flags = encode(event, room)
    fields = strict(payload)

    assert len(payload) <= room
    assert "message" in fields
    assert payload == orjson.dumps(orjson.loads(payload))
    assert list(fields) == list(plain(payload)) == list(typed(payload))
    assert (plain(payload) == fields) or flags & TYPED
    assert RESERVED_KEYS.isdisjoint(fields) or flags & RESERVED


@given(events, rooms)
def test_the_same_event_gives_the_same_bytes(event: dict[Any, Any], room: int) -> None:
    """
    Encoding has no memory and no dice, and leaves the event as it was.
    """
    first = encode(event, room)
    shallow = dict(event)

    assert first == encode(event, room)
    assert all(one is other for one, other in zip(shallow.values(), event.values(), strict=True))


@given(anything)
def test_neighbours_of_a_hostile_value_survive(value: object) -> None:
    """
    Small fields before and after whatever it is arrive as they are.
    """
    payload, _ = encode({"message": "m", "before": 1, "value": value, "after": ["x", {"y": 2}]}, ROOM)
    fields = strict(payload)

    assert ("m", 1, ["x", {"y": 2}]) == (fields["message"], fields["before"], fields["after"])


@given(st.dictionaries(text, natives, max_size=5))
def test_both_paths_agree(fields: dict[str, object]) -> None:
    """
    Where orjson knows every type, both paths write what it writes.
    """
    event = {"message": "m", **fields}
    fast, slow = encode(event, ROOM), _encode_slowly(event, ROOM, 0)

    assert fast == slow
    assert fast[1] & TYPED or orjson.dumps(event) == fast[0]


def same(left: Any, right: Any) -> bool:
    """
    Equality under which NaN is NaN, and 1 is neither 1.0 nor True.
    """
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


@given(tagged)
@example({"$float": "NaN"})
@example({"$dict": {"$dict": {"$bytes": b""}}})
def test_typed_is_the_inverse_of_encode(value: object) -> None:
    """
    What JSON cannot carry comes back as it was, dicts that look like tags included.
    """
    event = {"message": "m", "value": value}
    payload, flags = encode(event, ROOM)

    assert same(event, typed(payload))
    assert flags & TYPED or same(event, plain(payload))


@given(tagged)
def test_plain_is_json_without_tags(value: object) -> None:
    """
    JSON vendors get null, base64 and decimal text, and nothing that is not JSON.
    """
    got = plain(encode({"message": "m", "value": value}, ROOM)[0])

    assert same(got, orjson.loads(orjson.dumps(got)))


@given(tagged, st.text('aé€😀\x00"', max_size=9000), rooms, rooms)
def test_truncating(value: object, long: str, room: int, smaller: int) -> None:
    """
    A cut payload is valid, bounded, readable by all, and stays as it is when cut again to the same size.
    """
    payload, _ = encode({"message": long, "value": [value, long[:500]] * 3}, 10**7)
    once = truncate_payload(payload, room)
    twice = truncate_payload(once, min(room, smaller))
    fields = strict(twice)

    assert len(once) <= room
    assert len(twice) <= min(room, smaller)
    assert once == truncate_payload(once, room) == truncate_payload(payload, room)
    assert "message" in fields
    assert len(twice) == len(payload) or len(payload) == fields["structbatch.original_bytes"]
    assert list(plain(twice)) == list(typed(twice))


@given(st.binary(max_size=3000) | st.binary(min_size=1025, max_size=3000))
def test_truncating_anything(payload: bytes) -> None:
    """
    Bytes that are no payload never raise.
    """
    got = truncate_payload(payload, 1024)

    assert len(got) <= 1024
    assert got is payload or "message" in strict(got)


@given(st.dictionaries(text, natives, max_size=5))
def test_the_event_is_not_changed(fields: dict[str, Any]) -> None:
    """
    Not even something deep inside it.
    """
    assume(all(value == value for value in fields.values()))  # noqa: PLR0124
    event = {"message": "m" * 2000, **fields}
    before = copy.deepcopy(event)
    encode(event, 1024)

    assert before == event


def test_examples_of_time_and_ids() -> None:
    """
    The strategies above do draw what the fast path takes natively.
    """
    event = {"message": "m", "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "id": uuid.UUID(int=1)}

    assert orjson.dumps(event) == encode(event, ROOM)[0]
