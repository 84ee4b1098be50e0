# SPDX-License-Identifier: Apache-2.0
"""
Values without an end: how much work, memory and room they may take.
"""

from __future__ import annotations

import collections.abc
import enum
import gc
import json
import tracemalloc

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from structbatch.core.encode import encode
from structbatch.core.simplify import MAX_ITEMS


ROOM = 256 * 1024


class Endless(collections.abc.Sequence[object]):
    def __getitem__(self, index: Any) -> Any:
        return Endless()

    def __len__(self) -> int:
        return 10**9


class EndlessKeys(collections.abc.Mapping[object, object]):
    def __getitem__(self, key: object) -> object:
        return EndlessKeys()

    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> Iterator[object]:
        while True:
            yield 1


class EndlessStructlog:
    def __structlog__(self) -> object:
        return [EndlessStructlog(), 1]


class EndlessEnum(enum.Enum):
    ONE = 1

    @property
    def value(self) -> Any:
        return EndlessEnum.ONE


class Long:
    def __repr__(self) -> str:
        return "r" * 20_000_000


def laughs(wrap: Callable[[Any], Any]) -> Any:
    """
    A small graph that doubles at each of its 60 levels.
    """
    value = wrap(0)
    for _ in range(60):
        value = wrap(value)
    gc.collect()
    return value


ENDLESS: dict[str, Callable[[], object]] = {
    "sequence": Endless,
    "mapping": EndlessKeys,
    "hook": EndlessStructlog,
    "enum": lambda: EndlessEnum.ONE,
    "repr": Long,
}

LARGE: dict[str, Callable[[], object]] = {
    "lists": lambda: laughs(lambda value: [value, value]),
    "tuples": lambda: laughs(lambda value: (value, value)),
    "dicts": lambda: laughs(lambda value: {"a": value, "b": value}),
    "frozensets": lambda: laughs(lambda value: frozenset({value, 1})),
    "range": lambda: range(10**15),
    "list": lambda: [0] * 10**6,
    "dict": lambda: dict.fromkeys(range(10**5), 1),
    "texts": lambda: ["x" * 10**6] * 10**4,
    "keys": lambda: [{"k" * 10**6: 1}] * 10**4,
    "bytes": lambda: [b"x" * 10**6] * 10**4,
    "view": lambda: memoryview(b"x" * 10**6),
    "array": lambda: np.zeros(10**6),
    "cube": lambda: np.zeros((100, 100, 100), "i1"),
}


def size_between_neighbours(value: object) -> int:
    """
    Size of the payload of an event with *value*, whose neighbours must survive.
    """
    payload, _ = encode({"message": "before", "value": value, "canary": "after"}, ROOM)
    fields = json.loads(payload.decode("utf-8", "strict"), parse_constant=pytest.fail)
    assert ("before", "after") == (fields["message"], fields["canary"])
    return len(payload)


@pytest.mark.parametrize("make", ENDLESS.values(), ids=ENDLESS.keys())
def test_work_is_bounded(make: Callable[[], object]) -> None:
    """
    An object whose code would go on for ever is left after a bounded number of steps.
    """
    assert ROOM >= size_between_neighbours(make())


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE.keys())
def test_memory_is_bounded(make: Callable[[], object]) -> None:
    """
    However large a value is once it is written out, the memory on the way is bounded.
    """
    value = make()
    tracemalloc.start()
    try:
        size = size_between_neighbours(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert ROOM >= size
    assert 64_000_000 > peak


def test_items_beyond_the_budget_are_counted() -> None:
    """
    A list that is cut for its length says how many items are missing, and the event says that it was cut.
    """
    payload, _ = encode({"message": "m", "value": [1] * 100_000}, ROOM)
    fields = json.loads(payload)

    assert f"<{100_000 - (MAX_ITEMS - 2)} more>" == fields["value"][-1]
    assert fields["structbatch.truncated"] is True
    assert fields["structbatch.original_bytes"] > 100_000


@pytest.mark.parametrize("value", [[[0] * 300] * 300, Endless(), [1] * 10**6, ["x" * 10**6] * 10])
def test_a_huge_field_leaves_room_for_the_next(value: object) -> None:
    """
    One field that uses up the budget does not starve the small ones after it.
    """
    payload, _ = encode({"message": "m", "value": value, "after": ["x", {"y": [2, 3]}], "last": "z" * 60}, ROOM)
    fields = json.loads(payload)

    assert ("m", ["x", {"y": [2, 3]}], "z" * 60) == (fields["message"], fields["after"], fields["last"])
