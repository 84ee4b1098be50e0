# SPDX-License-Identifier: Apache-2.0
"""
Values that JSON cannot carry: their tags, and what each kind of reader makes of them.
"""

from __future__ import annotations

import base64
import dataclasses
import json

import numpy as np
import orjson
import pytest

from structbatch.core.encode import encode, plain, typed
from structbatch.core.record import TYPED


ROOM = 100_000


def strict(payload: bytes) -> object:
    """
    *payload* read by a parser that takes no NaN and no invalid UTF-8.
    """
    return json.loads(payload.decode("utf-8", "strict"), parse_constant=pytest.fail)


def kind_of(value: object) -> str:
    """
    A test's name: the ``repr`` of some values is no name.
    """
    return type(value).__name__


@dataclasses.dataclass
class Point:
    x: int
    y: float


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**600 // 7])
def test_large_integers_stay_exact(value: int) -> None:
    """
    An integer beyond 64 bits is decimal text for JSON vendors and itself for the others, never a rounded float.
    """
    payload, flags = encode({"message": "m", "value": value}, ROOM)

    assert TYPED == flags
    assert value == int(plain(payload)["value"]) == typed(payload)["value"]


def test_huge_integers_are_marked() -> None:
    """
    An integer with more digits than Python converts is described, without a ValueError.
    """
    payload, flags = encode({"message": 10**5000, "value": -(10**5000)}, ROOM)

    assert {"message": "<int of 16610 bits>", "value": "<-int of 16610 bits>"} == strict(payload)
    assert 0 == flags


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), np.float64("nan")])
def test_no_number_that_is_not_finite_gets_lost(value: float) -> None:
    """
    Wherever it hides, NaN or an infinity makes the record typed; JSON vendors see null.
    """
    for hidden in (value, [value], {"k": (1, [value])}, Point(1, value), {value: value}):
        payload, flags = encode({"message": "m", "value": hidden}, ROOM)
        strict(payload)

        assert TYPED == flags
        assert b"null" in orjson.dumps(plain(payload))
        assert repr(float(value)) in repr(typed(payload))


def test_null_is_no_number() -> None:
    """
    None, and text that says null, leave the record untyped.
    """
    assert (b'{"message":null,"a":"null","b":[null]}', 0) == encode({"message": None, "a": "null", "b": [None]}, ROOM)


@pytest.mark.parametrize("data", [b"\xff\x00abc", bytearray(b"\xff\x00abc"), memoryview(b"\xff\x00abc")], ids=kind_of)
def test_bytes(data: bytes) -> None:
    """
    Bytes are base64 text for JSON vendors, bytes for the others.
    """
    payload, flags = encode({"message": "m", "value": data}, ROOM)

    assert TYPED == flags
    assert base64.b64encode(data).decode() == plain(payload)["value"]
    assert b"\xff\x00abc" == typed(payload)["value"]


@pytest.mark.parametrize("name", ["$float", "$bytes", "$int", "$dict"])
@pytest.mark.parametrize("inner", ["NaN", "x", {"$float": "NaN"}, {"$dict": {}}, 5, {}, b"x"], ids=kind_of)
def test_a_dict_that_looks_tagged_comes_back(name: str, inner: object) -> None:
    """
    A user's own dict is never read as a tag, however it looks.
    """
    for value in ({name: inner}, {"k": [{name: inner}]}, {name: inner, "other": 1}):
        payload, _ = encode({"message": "m", "value": value}, ROOM)

        assert value == typed(payload)["value"]


def test_a_tag_that_cannot_be_read_stays() -> None:
    """
    What stands under a tag's name and is no tag is passed on as it is.
    """
    payload = b'{"a":{"$float":5},"b":{"$float":"x"},"c":{"$bytes":"!"},"d":{"$int":"x"},"$int":"5"}'
    expected = {"a": {"$float": 5}, "b": {"$float": "x"}, "c": "!", "d": "x", "$int": "5"}

    assert expected == plain(memoryview(payload))
    assert expected == typed(payload)


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b'{"a":NaN}', b'{"a":"\xff"}'])
def test_plain_refuses_what_is_no_object(payload: bytes) -> None:
    """
    A payload that is not one JSON object is a ValueError, whatever is wrong with it.
    """
    for read in (plain, typed):
        with pytest.raises(ValueError, match=r".+"):
            read(payload)
