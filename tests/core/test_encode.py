# SPDX-License-Identifier: Apache-2.0
"""
What becomes of each kind of value, on the fast path and on the slow one.
"""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import datetime as dt
import enum
import json
import pathlib
import time
import types
import uuid

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import attrs
import numpy as np
import orjson
import pydantic
import pytest

from structbatch.core.encode import _encode_slowly, encode, plain
from structbatch.core.record import RESERVED, RESERVED_KEYS, TYPED


ROOM = 100_000


def strict(payload: bytes) -> dict[str, Any]:
    """
    *payload* read by a parser that takes no NaN and no invalid UTF-8.
    """
    parsed = json.loads(payload.decode("utf-8", "strict"), parse_constant=pytest.fail)
    assert isinstance(parsed, dict)
    return parsed


def encoded(value: object) -> Any:
    """
    What a plain JSON vendor sees of *value*, whose neighbours must survive.
    """
    payload, _ = encode({"message": "before", "value": value, "canary": "after"}, ROOM)
    fields = strict(payload)
    assert ("before", "after") == (fields["message"], fields["canary"])
    return plain(payload)["value"]


def kind_of(value: object) -> str:
    """
    A test's name: the ``repr`` of some values is no name.
    """
    return type(value).__name__


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Real(float):
    pass


class Color(enum.Enum):
    RED = "r"


class Level(enum.IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    left: int
    right: list[int]


@dataclasses.dataclass
class Point:
    x: int
    y: float
    _secret: str = "s"
    scale: dataclasses.InitVar[int] = 1


@dataclasses.dataclass(slots=True)
class Slotted:
    x: int


@attrs.define
class Order:
    id: int
    _note: str = "n"


class User(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    name: str
    password: pydantic.SecretStr
    internal: int = pydantic.Field(1, exclude=True)


class LegacyUser:
    """
    Shaped like a model of pydantic 1, whose package Python 3.14 no longer takes.
    """

    __fields__ = {"name": types.SimpleNamespace(field_info=None)}
    __fields_set__ = frozenset[str]()

    def __init__(self) -> None:
        self.name = "ann"
        self.extra = 2


class Proxy:
    def __structlog__(self) -> object:
        return {"wrapped": 1}


class WithText:
    def __str__(self) -> str:
        return "my text"


NATIVE = [
    "text \x00\x1b\x7f\u2028 é 😀",
    0,
    -(2**63),
    2**64 - 1,
    2**53 + 1,
    1.5,
    -0.0,
    5e-324,
    1e300,
    True,
    None,
    dt.datetime(2026, 1, 2, 3, 4, 5, 678),  # noqa: DTZ001 -- naive on purpose
    dt.datetime(2026, 7, 2, tzinfo=dt.UTC),
    dt.datetime(1800, 7, 2, tzinfo=ZoneInfo("America/New_York")),
    dt.datetime(2026, 7, 2, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30, seconds=7))),
    dt.date(1, 1, 1),
    dt.time(1, 2, 3, 4),
    uuid.UUID(int=5),
    Color.RED,
    Level.HIGH,
    Text("t"),
    Whole(4),
    Point(1, 2.5),
    Slotted(1),
    {"a": {"b": [1, (2, "x")]}},
    collections.OrderedDict(a=1),
]


@pytest.mark.parametrize("value", NATIVE, ids=kind_of)
def test_both_paths_agree(value: object) -> None:
    """
    What orjson writes by itself has the same bytes from `encode` and from the slow path.
    """
    fields = {"message": "m", "value": value, "nested": [value, {"k": value}]}

    assert orjson.dumps(fields) == encode(fields, ROOM)[0] == _encode_slowly(fields, ROOM, 0)[0]


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("1E+400", Decimal("1e400")),
        ("NaN", Decimal("NaN")),
        ("0.10", Decimal("0.10")),
        ("1/3", Fraction(1, 3)),
        ("(1+2j)", 1 + 2j),
        ([1, 2, 10], {10, 1, 2}),
        (["a", "b"], frozenset({"b", "a"})),
        (["a", 1, [2], None], {None, "a", (2,), 1}),
        (86403.5, dt.timedelta(days=1, seconds=3, milliseconds=500)),
        ("01:00:00+00:00", dt.time(1, tzinfo=dt.UTC)),
        ("/var/log", pathlib.PurePosixPath("/var/log")),
        ({"left": 1, "right": [2]}, Pair(1, [2])),
        ([1970, 1, 1, 0, 0, 0, 3, 1, 0], time.gmtime(0)),
        ({"id": 1}, Order(1)),
        ({"name": "ann", "password": "**********", "more": 3}, User(name="ann", password="p", more=3)),  # type: ignore[call-arg,arg-type]
        ({"name": "ann", "extra": 2}, LegacyUser()),
        ({"wrapped": 1}, Proxy()),
        ("my text", WithText()),
        ("<builtins.object object>", object()),
        ("<class 'int'>", int),
        ("ValueError: bad", ValueError("bad")),
        ("ValueError", ValueError()),
        (2.5, Real(2.5)),
        ("us", collections.UserString("us")),
        ({"a": 1}, collections.UserDict(a=1)),
        ({"a": 1}, types.MappingProxyType({"a": 1})),
        ({"a": 1}, collections.ChainMap({"a": 1})),
        ([1], collections.UserList([1])),
        ([1], collections.deque([1])),
        ([1, 2], array.array("i", [1, 2])),
        ([0, 1, 2], range(3)),
        (["b", "a"], {"b": 1, "a": 2}.keys()),
        ([["b", 1]], {"b": 1}.items()),
    ],
    ids=kind_of,
)
def test_types_orjson_refuses(expected: object, value: object) -> None:
    """
    Types of the standard library and of common packages have one documented form.
    """
    assert expected == encoded(value)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (1, np.int8(1)),
        (2**64 - 1, np.uint64(2**64 - 1)),
        (0.1, np.float32(0.1)),
        (0.5, np.float16(0.5)),
        (0.1, np.float64(0.1)),
        (None, np.float32("nan")),
        (None, np.float64("-inf")),
        (True, np.bool_(True)),
        ("2026-01-02T00:00:00", np.datetime64("2026-01-02")),
        (3.0, np.timedelta64(3, "s")),
        ("s", np.str_("s")),
        (5, np.array(5)),
        ([0, 2, 4], np.arange(6)[::2]),
        ([[0, 1], [2, 3]], np.arange(4).reshape(2, 2)),
        ([0.1, None], np.array([0.1, float("nan")], "f4")),
        ([0.1, None], np.array([0.1, float("inf")])),
        (["a", None], np.array(["a", None], object)),
        ([[], []], np.zeros((2, 0))),
    ],
    ids=kind_of,
)
def test_numpy(expected: object, value: object) -> None:
    """
    numpy's scalars and arrays become what they hold, in the shortest digits of their own width.
    """
    assert expected == encoded(value)


def test_generators_are_not_consumed() -> None:
    """
    Logging an iterator takes nothing out of it.
    """
    items = iter([1, 2])
    numbers = (number for number in (1, 2))

    assert "<builtins.list_iterator object>" == encoded(items)
    assert encoded(numbers).startswith("<generator object")
    assert [1, 2] == list(items) == list(numbers)


def test_keys_become_text_and_keep_their_values() -> None:
    """
    Every key is coerced to text; of two that become equal, both values survive.
    """
    key = uuid.UUID(int=1)
    odd = {key: 1, Color.RED: 2, b"k": 3, (1, 2): 4, None: 5, True: 6, 2: 7, "2": 8, Text("s"): 9, 2.5: 10}
    expected = {str(key): 1, "r": 2, "k": 3, "[1,2]": 4, "null": 5, "true": 6, "2": 7, "2_2": 8, "s": 9, "2.5": 10}

    assert expected == encoded(odd)
    assert expected == strict(encode(odd, ROOM)[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "key"),
    [
        ("NaN", float("nan")),
        ("-Infinity", float("-inf")),
        ("18446744073709551616", 2**64),
        ("<int of 16610 bits>", 10**5000),
        ("\\xff", b"\xff"),
        ("a�", "a\ud83d"),
        ("2026-01-02", dt.date(2026, 1, 2)),
        ("<builtins.object object>", object()),
    ],
    ids=kind_of,
)
def test_odd_keys(expected: str, key: object) -> None:
    """
    A key that JSON cannot carry has the text that its value would have; nothing is tagged for it.
    """
    payload, flags = encode({"message": "m", "value": {key: 1}}, ROOM)

    assert {expected: 1} == strict(payload)["value"]
    assert 0 == flags


def test_many_equal_keys_take_linear_time() -> None:
    """
    Thousands of keys that become the same text are numbered without starting over for each.
    """

    class Same:
        def __str__(self) -> str:
            return "same"

    value = encoded({Same(): number for number in range(5000)})

    assert (0, 1, 4999) == (value["same"], value["same_2"], value["same_5000"])


@pytest.mark.parametrize(
    ("expected", "text"),
    [("a�", "a\ud83d"), ("�.txt", "\udcff.txt"), ("ok 😀", "ok 😀"), ("😀", "\ud83d\ude00"), ("��", "\ude00\ud83d")],
    ids=ascii,
)
def test_lone_surrogates_are_replaced(expected: str, text: str) -> None:
    """
    Half a character becomes U+FFFD in values and in keys; whole ones stay.
    """
    assert expected == encoded(text)
    assert {expected: expected} == encoded({text: text})


@pytest.mark.parametrize("key", sorted(RESERVED_KEYS))
def test_reserved_keys_set_the_flag(key: str) -> None:
    """
    A reserved key, as text or as something that becomes it, says that splicing is unsafe; nested ones do not matter.
    """
    odd: dict[Any, object] = {"message": "m", key.encode(): 1}

    assert RESERVED == encode({"message": "m", key: 1}, ROOM)[1]
    assert RESERVED == encode(odd, ROOM)[1]
    assert RESERVED | TYPED == encode({"message": b"m", key: 1}, ROOM)[1]
    assert 0 == encode({"message": "m", "nested": {key: 1}}, ROOM)[1]


def test_control_characters_are_escaped() -> None:
    """
    NUL, escape sequences and header-like text stay, escaped as JSON wants it.
    """
    text = "a\x00b\x1b[31m\x7f\r\n\r\n"

    assert text == encoded(text)
    assert b"\\u0000b\\u001b[31m\x7f\\r\\n\\r\\n" in encode({"message": text}, ROOM)[0]


def test_nothing_is_changed_and_nothing_is_kept() -> None:
    """
    The caller's event is as before, and what is done to it afterwards does not reach the payload.
    """
    fields: dict[str, Any] = {"message": "m", "list": [1, {"nan": float("inf")}], "set": {1}, "big": "x" * 5000}
    before, ids = copy.deepcopy(fields), {key: id(value) for key, value in fields.items()}
    payload, _ = encode(fields, 1024)
    fields["list"][1]["later"] = 2

    assert before == {**fields, "list": [1, {"nan": float("inf")}]}
    assert ids == {key: id(value) for key, value in fields.items()}
    assert b"later" not in payload


def test_any_mapping_will_do() -> None:
    """
    *fields* may be any mapping.
    """
    fields = types.MappingProxyType({"message": "m", "a": 1})

    assert (b'{"message":"m","a":1}', 0) == encode(fields, ROOM)
