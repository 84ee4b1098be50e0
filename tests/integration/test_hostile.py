# SPDX-License-Identifier: Apache-2.0
"""
What an application may log: anything. Nothing is raised into it, and no neighbour is lost.
"""

from __future__ import annotations

import random

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from structbatch.structlog import Shipper
from tests.support.pipelines import Sink, closes, once, pipeline_to
from tests.support.server import MisbehavingServer


class Evil:
    """
    Nothing about it works.
    """

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("iter")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("getattr")


class EvilKey:
    """
    A key without a text.
    """

    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__


class EvilText(str):
    """
    A text that will not be a text.
    """

    __slots__ = ()

    def encode(self, *args: object) -> bytes:  # type: ignore[override]
        """
        Never.
        """
        raise RuntimeError("encode")

    def __str__(self) -> str:
        raise RuntimeError("str")


class EvilDict(dict[Any, Any]):
    """
    A dict that cannot be walked.
    """

    def items(self) -> Any:
        """
        Never.
        """
        raise RuntimeError("items")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("iter")

    keys = values = items


class EvilError(Exception):
    """
    An exception whose message is one more exception.
    """

    def __str__(self) -> str:
        raise RuntimeError("str")


class LyingRepr:
    """
    A text that is none.
    """

    def __str__(self) -> str:
        return 5  # type: ignore[return-value]

    __repr__ = __str__


def deep(levels: int) -> Any:
    """
    Lists in dicts in lists.
    """
    value: Any = "end"
    for _ in range(levels):
        value = [{"a": value}]
    return value


def cycle() -> Any:
    """
    A dict that holds itself, by a list.
    """
    ring: dict[str, Any] = {}
    ring["self"] = [ring, ring]
    return ring


def wide() -> Any:
    """
    Few objects, endless when written out.
    """
    level: Any = ["x" * 10]
    for _ in range(40):
        level = [level] * 10
    return level


def raise_it() -> Iterator[int]:
    """
    A generator that fails.
    """
    yield 1
    raise RuntimeError("generator")


HOSTILE: list[Callable[[random.Random], dict[Any, Any]]] = [
    lambda dice: {"v": Evil()},
    lambda dice: {"v": [Evil(), {"k": Evil()}]},
    lambda dice: {"v": {EvilKey(): 1}},
    lambda dice: {"v": {1: 1, None: 2, False: 3, (1, 2): 4, 1.5: 5, b"b": 6, frozenset(): 7}},
    lambda dice: {"v": EvilText("text")},
    lambda dice: {"v": EvilDict(a=1)},
    lambda dice: {"v": EvilError()},
    lambda dice: {"v": LyingRepr()},
    lambda dice: {"v": deep(10)},
    lambda dice: {"v": "\ud800" + chr(dice.randrange(0xD800, 0xE000)) + "ok"},
    lambda dice: {"\udfff": 1, "\x00": 2, "": 3, "a.b": 4, "\n": 5},
    lambda dice: {"v": "x" * dice.choice([1000, 100_000])},
    lambda dice: {"v": [dice.random() for _ in range(dice.choice([1, 2000]))]},
    lambda dice: {"v": [float("nan"), float("inf"), -float("inf")]},
    lambda dice: {"v": 10 ** dice.choice([19, 100, 5000]), "w": -(2**63) - 1},
    lambda dice: {"v": bytes(dice.randrange(256) for _ in range(50)), "w": bytearray(b"x"), "m": memoryview(b"y")},
    lambda dice: {"v": raise_it(), "w": object(), "t": type, "f": lambda: None},
    lambda dice: {"v": {1, "a", None}, "e": frozenset({Ellipsis, NotImplemented})},
    lambda dice: {"level": Evil(), "timestamp": Evil(), "trace_id": Evil(), "span_id": Evil()},
    lambda dice: {"level": "LOUD", "timestamp": "tomorrow", "trace_id": "xyz", "trace_flags": -5},
    lambda dice: {"timestamp": float("nan"), "trace_id": 2**200, "level": 2**70},
    lambda dice: {"timestamp": 10 ** dice.choice([0, 11, 14, 17, 30, 400])},
    lambda dice: {"exc_info": True},
    lambda dice: {"exc_info": Evil()},
    lambda dice: {"exc_info": EvilError()},
    lambda dice: {"exc_info": (1, 2, 3), "stack_info": Evil()},
    lambda dice: {"positional_args": (Evil(),), "message": "%s %d"},
    lambda dice: {"message": Evil(), "_record": None},
    lambda dice: {f"k{index}": index for index in range(dice.choice([100, 3000]))},
    lambda dice: {"k" * 100_000: 1},
]

EXPENSIVE: list[Callable[[random.Random], dict[Any, Any]]] = [
    lambda dice: {"v": cycle()},
    lambda dice: {"v": deep(dice.choice([300, 5000]))},
    lambda dice: {"v": wide()},
]
"""
Milliseconds each: one in a hundred.
"""


def test_hostile_events_between_canaries() -> None:
    """
    Ten thousand hostile events raise nothing into the application, and every ordinary event among them arrives.
    """
    dice = random.Random(8)
    sink = Sink()
    with MisbehavingServer(sink) as server:
        pipeline = pipeline_to(server.url, queue_max_records=100_000, queue_max_bytes=2**30)
        structlog.configure(processors=[structlog.processors.add_log_level, Shipper(pipeline)])
        log = structlog.get_logger()
        for number in range(10_000):
            kinds = HOSTILE if number % 100 else EXPENSIVE
            make = kinds[number // (1 if number % 100 else 100) % len(kinds)]
            fields = make(dice)
            if "_record" in fields:
                pipeline.emit(fields, "info")
            else:
                log.info("hostile", **{str(key): value for key, value in fields.items() if key != "event"})
            if number % 10 == 0:
                log.info("canary", n=number)
        result = pipeline.close(30)
        stats = pipeline.stats()

    assert once(range(0, 10_000, 10)) == sink.count()
    assert result
    assert closes(stats)
    assert 11_000 == stats.emitted == stats.delivered


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: 5,
        lambda: "text",
        list,
        lambda: [("event", 1)],
        Evil,
        lambda: EvilDict(event="x"),
        lambda: {EvilKey(): 1},
    ],
)
def test_an_event_that_is_no_event(make: Callable[[], Any]) -> None:
    """
    `emit` is a door for anybody: what is no mapping is refused and counted, never raised.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server, pipeline_to(server.url) as pipeline:
        accepted = pipeline.emit(make())
        pipeline.emit({"event": "canary", "n": 1})
        pipeline.flush()
        stats = pipeline.stats()

    assert once([1]) == sink.count()
    assert accepted is (stats.dropped == 0)
    assert closes(stats)


def test_a_log_call_at_the_end_of_the_stack() -> None:
    """
    Where the interpreter has no frame left, the call may fail as any call does there; the pipeline goes on.
    """
    sink = Sink()
    with MisbehavingServer(sink) as server, pipeline_to(server.url) as pipeline:

        def dive(number: int) -> None:
            try:
                pipeline.emit({"event": "deep", "number": number})
            finally:
                dive(number + 1)

        for _ in range(20):
            with pytest.raises(RecursionError):
                dive(0)
        pipeline.emit({"event": "canary", "n": 1})
        flushed = pipeline.flush(10)
        stats = pipeline.stats()

    assert flushed
    assert once([1]) == sink.count()
    assert closes(stats)
