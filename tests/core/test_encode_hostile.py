# SPDX-License-Identifier: Apache-2.0
"""
Values that raise, lie, never end, contain themselves, or change while they are read.
"""

from __future__ import annotations

import collections.abc
import json
import threading

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from structbatch.core.encode import encode
from structbatch.core.simplify import MAX_DEPTH


ROOM = 256 * 1024


def encoded(value: object, max_bytes: int = ROOM) -> Any:
    """
    The value as it arrives; its neighbours must survive.
    """
    payload, _ = encode({"message": "before", "value": value, "canary": "after"}, max_bytes)
    fields = json.loads(payload.decode("utf-8", "strict"), parse_constant=pytest.fail)
    assert len(payload) <= max_bytes
    assert ("before", "after") == (fields["message"], fields["canary"])
    return fields["value"]


def fail(*_: object) -> NoReturn:
    msg = "user code"
    raise RuntimeError(msg)


class BadText:
    __str__ = __repr__ = fail


class NotText:
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class BadType(type):
    def __getattr__(cls, name: str) -> NoReturn:
        fail()


class BadEverything(metaclass=BadType):
    __getattribute__ = __str__ = __repr__ = __eq__ = __hash__ = __iter__ = __len__ = fail
    __class__ = property(fail)


class BadDict(dict[str, object]):
    keys = items = values = __iter__ = __getitem__ = __len__ = fail


class BadList(list[object]):
    __iter__ = __getitem__ = __len__ = fail


class BadWord(str):
    __slots__ = ()
    __str__ = __repr__ = encode = isascii = __len__ = fail  # type: ignore[assignment]


class BadNumber(float):
    __float__ = __sub__ = __eq__ = __repr__ = fail


class BadStructlog:
    __structlog__ = fail


class BadIter(collections.abc.Sequence[object]):
    __iter__ = __getitem__ = __len__ = fail


class Exhausted:
    def __str__(self) -> str:
        raise MemoryError


class Bottomless:
    def __str__(self) -> str:
        return str(self) + "x"


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("<BadText>", BadText()),
        ("<NotText>", NotText()),
        ("<BadEverything>", BadEverything()),
        ({"a": 1}, BadDict(a=1)),
        ([1], BadList([1])),
        ("word", BadWord("word")),
        (1.5, BadNumber(1.5)),
        ("<BadStructlog>", BadStructlog()),
        ("<Exhausted>", Exhausted()),
        ("<Bottomless>", Bottomless()),
        (f"<class '{__name__}.BadEverything'>", BadEverything),
        ("<BadIter>", BadIter()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_user_code_that_raises(expected: object, value: object) -> None:
    """
    Where an object's own code fails, its class's name stands for it; subclasses are read past their own code.
    """
    assert expected == encoded(value)
    assert [expected, 1] == encoded([value, 1])


def test_a_property_that_raises() -> None:
    """
    One attribute that fails does not take the others with it; one that is missing is left out.
    """

    class Model:
        __attrs_attrs__ = tuple(type("A", (), {"name": name}) for name in ("good", "bad", "missing"))
        good = 1
        bad = property(fail)

    assert {"good": 1, "bad": "<Model>"} == encoded(Model())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_control_flow_is_not_swallowed(error: type[BaseException]) -> None:
    """
    What is no `Exception` is meant for the application, not for us.
    """

    class Interrupting:
        def __str__(self) -> str:
            raise error

    with pytest.raises(error):
        encode({"message": "m", "value": Interrupting()}, ROOM)

    assert {"message": "m"} == json.loads(encode({"message": "m"}, ROOM)[0])


def test_a_mapping_that_lies() -> None:
    """
    Keys without values are marked; a length that is none does no harm.
    """

    class Liar(collections.abc.Mapping[object, object]):
        def __getitem__(self, key: object) -> NoReturn:
            raise KeyError(key)

        def __len__(self) -> int:
            return -1

        def __iter__(self) -> Iterator[object]:
            return iter(["a", 2, BadText()])

    assert {"a": "<Liar>", "2": "<Liar>", "<BadText>": "<Liar>"} == encoded(Liar())
    assert {"a": "<Liar>", "2": "<Liar>", "<BadText>": "<Liar>"} == json.loads(encode(Liar(), ROOM)[0])  # type: ignore[arg-type]


def test_cycles_are_marked_and_shared_values_are_kept() -> None:
    """
    What contains itself is cut at the repetition; what merely stands in two places is written twice.
    """
    knot: dict[str, Any] = {"a": 1}
    knot["self"] = knot
    ring: list[Any] = [1]
    ring.append(ring)
    shared = [1]

    assert [{"a": 1, "self": "<cycle>"}, [1, "<cycle>"], [1], [1]] == encoded([knot, ring, shared, shared])


def test_an_event_in_its_own_fields() -> None:
    """
    Even the event itself may be one of its values.
    """
    fields: dict[str, Any] = {"message": "m"}
    fields["event"] = fields

    assert {"message": "m", "event": "<cycle>"} == json.loads(encode(fields, ROOM)[0])


@pytest.mark.parametrize("leaf", [1, float("nan"), 1 + 1j])
def test_depth_is_bounded(leaf: object) -> None:
    """
    The deepest level that is kept is the same on both paths; below it stands a marker.
    """

    def nested(levels: int) -> object:
        value: object = [leaf]
        for _ in range(levels - 1):
            value = [value]
        return value

    deep = json.dumps(encoded(nested(MAX_DEPTH)))
    deeper = json.dumps(encoded(nested(MAX_DEPTH + 1)))

    assert "too deep" not in deep or isinstance(leaf, complex)
    assert "[" * MAX_DEPTH + '"<too deep>"' + "]" * MAX_DEPTH == deeper


def test_thousands_of_levels() -> None:
    """
    A structure far deeper than the interpreter's stack is cut, not an error.
    """
    value: Any = []
    for _ in range(100_000):
        value = [value]

    assert '"<too deep>"' in json.dumps(encoded(value))
    while value:  # taken apart by hand: its destructor would be as deep
        value = value.pop()


def test_little_stack_left() -> None:
    """
    A log call near the recursion limit yields an event or the application's own RecursionError, nothing else.
    """
    results: list[bytes] = []

    def descend() -> None:
        results.append(encode({"message": "m", "value": [{1: float("nan")}]}, ROOM)[0])
        descend()

    with pytest.raises(RecursionError):
        descend()

    assert {"message"} <= set.intersection(*(set(json.loads(payload)) for payload in set(results)))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", [dict, list, set])
def test_another_thread_changes_it(kind: type) -> None:
    """
    A value that grows and shrinks meanwhile yields a snapshot or a marker, never an exception or a lost event.
    """
    stop = threading.Event()
    value: Any = kind() if kind is not dict else {}

    def change() -> None:
        number = 0
        while not stop.is_set():
            number = (number + 1) % 5000
            if kind is dict:
                value[number % 97] = number
                value.pop((number * 7) % 97, None)
            elif kind is set:
                value.add(number % 97)
                value.discard((number * 7) % 97)
            else:
                value.append(number)
                del value[: len(value) - 50]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        results = [encoded(value) for _ in range(200)]
    finally:
        stop.set()
        thread.join()

    assert 200 == len(results)
    assert {dict, list, str} >= {type(result) for result in results}


def test_a_container_that_never_rests_is_marked() -> None:
    """
    After a few tries at a container that changes under the reader, a marker takes its place.
    """

    class Restless(dict[Any, Any]):
        pass

    restless = Restless()

    class Key:
        def __init__(self, number: int) -> None:
            self.number = number

    class Moving(collections.abc.Mapping[Any, Any]):
        def __getitem__(self, key: object) -> object:
            return 1

        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[Any]:
            for key in restless:
                restless[Key(len(restless))] = 1
                yield key

    restless[Key(0)] = 1

    assert "<changing>" == encoded(Moving())


def test_a_released_view() -> None:
    """
    A memory view whose buffer is gone is marked.
    """
    view = memoryview(b"abc")
    view.release()

    assert "<memoryview>" == encoded(view)
