# SPDX-License-Identifier: Apache-2.0
"""
Any value at all into dicts, lists, text, numbers, bool and None, all of them exact and finite: the slow path.

Bounds, over one event: `MAX_ITEMS` members of dicts and lists, `MAX_DEPTH` levels, and `TEXT_BYTES` of text more than
fits. Code of the application that runs here (``__str__``, ``__iter__``, properties) may raise any `Exception`: a marker
takes the value's place, its neighbours stay. What is no `Exception`, as `KeyboardInterrupt`, passes through.
"""

from __future__ import annotations

import operator

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from typing import Any, Final

import orjson

from structbatch.core.foreign import field_names, is_numpy, numpy_parts, sequence_of
from structbatch.core.shorten import free_name
from structbatch.core.tags import MAX_INT_BITS, looks_tagged, tag_bytes, tag_float, tag_int


MAX_DEPTH: Final = 32
"""
Levels of nesting that a payload keeps; stores that index nested objects stop at 20.

Source: https://www.elastic.co/guide/en/elasticsearch/reference/current/mapping-settings-limit.html
"""

MAX_ITEMS: Final = 20_000
"""
Members and items that one event keeps: what 256 KiB hold at 13 bytes each, and a fraction of a second of work where
each of them is an object with code of its own.
"""

TEXT_BYTES: Final = 4_000_000
"""
Text that is looked at beyond twice the largest payload: so much can be cut fairly, the longest strings first. What
comes after more than that is cut to 64 characters at once, for one string may stand in a list ten thousand times.
"""

CYCLE: Final = "<cycle>"
TOO_DEEP: Final = "<too deep>"
CHANGING: Final = "<changing>"
_MARK: Final = "…"
_MIN_TEXT: Final = 64
_SNAPSHOTS: Final = 4
_RESERVE: Final = 64

_type_name: Final[Callable[[type], str]] = type.__dict__["__name__"].__get__


def clean(text: str) -> str:
    """
    *text* with each lone surrogate replaced by U+FFFD; a pair of them is the character that they mean.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class _ChangingError(Exception):
    """
    A container was changed by another thread, again and again, while we looked.
    """


class Simplifier:
    """
    Simplifies the fields of one event; not to be used twice.

    Args:
        max_bytes: Of the payload; no string longer than this is looked at beyond it.
    """

    __slots__ = ("_items", "_max_text", "_path", "_reserve", "_text", "lost", "typed")

    def __init__(self, max_bytes: int) -> None:
        self.typed = False
        """Whether a tag was written."""
        self.lost = 0
        """At least so many bytes of JSON were not looked at; 0: everything is there."""
        self._max_text = max_bytes
        self._text = 2 * max_bytes + TEXT_BYTES
        self._items = MAX_ITEMS
        self._reserve = 0
        self._path: set[int] = set()

    def fields(self, fields: Mapping[str, object]) -> dict[str, Any]:
        """
        The members of the payload. Their order is that of *fields*.
        """
        self._path.add(id(fields))
        try:
            pairs, more = self._take(self._pairs(fields), fields)
        except Exception:  # noqa: BLE001 -- a mapping of the application's own
            return {"message": _marker(fields)}
        return self._members(self._reserving(pairs), more, 0)

    def _reserving(self, pairs: list[Any]) -> Iterator[Any]:
        """
        *pairs*, one after the other, none of which gets the items that those after it may need.
        """
        for count, pair in enumerate(pairs, 1):
            self._reserve = min(_RESERVE * (len(pairs) - count), max(self._items, 0) // 2)
            yield pair

    def value(self, value: Any, depth: int) -> Any:
        """
        *value*, which stands so many levels below the payload's own object.
        """
        kind = type(value)
        if kind is str:
            return self._cleaned(value)
        if value is None or kind is bool:
            return value
        if kind is float:
            return self._float(value)
        if kind is int:
            return self._int(value)
        try:
            if kind is dict or kind is list or kind is tuple:
                return self._nested(value, kind, depth)
            return self._other(value, kind, depth)
        except _ChangingError:
            return CHANGING
        except Exception:  # noqa: BLE001 -- code of the application, no memory, or no stack
            return _marker(value)

    def _float(self, value: float) -> Any:
        if value - value == 0.0:
            return value
        self.typed = True
        return tag_float(value)

    def _int(self, value: int) -> Any:
        if -(2**63) <= value < 2**64:
            return value
        if value.bit_length() > MAX_INT_BITS:
            return f"<{'-' if value < 0 else ''}int of {value.bit_length()} bits>"
        self.typed = True
        return tag_int(value)

    def _cleaned(self, text: str) -> str:
        """
        *text*, valid, and no longer than the room for text allows.
        """
        room = min(self._max_text, max(self._text, _MIN_TEXT))
        if len(text) > room + 2:  # the mark takes three bytes for one character
            self.lost += len(text) - room - 2
            text = text[: room - 1] + _MARK
        self._text -= len(text)
        return clean(text)

    def _bytes(self, value: bytes | bytearray | memoryview) -> Any:
        room = min(self._max_text, max(self._text, _MIN_TEXT))
        if type(value) is memoryview:
            size = value.nbytes
            if size > room:
                self.lost += size
                return f"<memoryview of {size} bytes>"
            data = value.tobytes()
        else:
            size = len(memoryview(value))
            data = bytes(memoryview(value)[:room])
        self.lost += size - len(data)
        self._text -= len(data)
        self.typed = True
        return tag_bytes(data)

    def _other(self, value: Any, kind: type, depth: int) -> Any:
        """
        A value of none of JSON's own types.
        """
        for base, simplify in _KINDS:
            if issubclass(kind, base):
                return simplify(self, value, depth)
        if is_numpy(kind):
            value = numpy_parts(value)
            return self._nested(value, kind, depth) if sequence_of(value, kind) else self._again(value, depth)
        if hasattr(kind, "__structlog__"):
            return self._again(value.__structlog__(), depth)
        return self._nested(value, kind, depth)

    def _again(self, value: Any, depth: int) -> Any:
        """
        What another value stands for: one level deeper, so that it ends.
        """
        return TOO_DEEP if depth > MAX_DEPTH else self.value(value, depth + 1)

    def _nested(self, value: Any, kind: type, depth: int) -> Any:
        """
        A value that may hold others, itself among them.
        """
        if id(value) in self._path:
            return CYCLE
        if depth > MAX_DEPTH:
            return TOO_DEEP
        self._path.add(id(value))
        try:
            return self._contents(value, kind, depth)
        finally:
            self._path.discard(id(value))

    def _contents(self, value: Any, kind: type, depth: int) -> Any:
        names = field_names(value, kind)
        if names is not None:
            pairs, more = self._take(lambda: _attributes(value, names), value)
            return self._escaped(self._members(pairs, more, depth))
        if issubclass(kind, Mapping):
            pairs, more = self._take(self._pairs(value), value)
            return self._escaped(self._members(pairs, more, depth))
        source = sequence_of(value, kind)
        if source is not None:
            items, more = self._take(source, value)
            simple = [self.value(item, depth + 1) for item in items]
            if issubclass(kind, (set, frozenset)):
                simple = _sorted(simple)
            return [*simple, f"<{more}>"] if more else simple
        return self._cleaned(_text_of(value, kind))

    def _escaped(self, members: dict[str, Any]) -> dict[str, Any]:
        if not looks_tagged(members):
            return members
        self.typed = True
        return {"$dict": members}

    def _members(self, pairs: Iterable[Any], more: str, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for key, value in pairs:
            name = self._cleaned(key) if type(key) is str else self._key(key, depth)
            members[free_name(name, members, counts)] = self.value(value, depth + 1)
        if more:
            members[free_name(_MARK, members)] = f"<{more}>"
        return members

    def _key(self, key: Any, depth: int) -> str:
        """
        The text of a *key* that is none: bytes as UTF-8, everything else as the JSON of what a value becomes.
        """
        if issubclass(type(key), bytes):
            return self._cleaned(str(memoryview(key)[: self._max_text], "utf-8", "backslashreplace"))
        typed = self.typed
        simple = self.value(key, depth + 1)
        self.typed = typed
        if isinstance(simple, dict) and looks_tagged(simple):
            simple = next(iter(simple.values()))
        return simple if isinstance(simple, str) else orjson.dumps(simple).decode()

    def _pairs(self, mapping: Any) -> Callable[[], Iterable[Any]]:
        if issubclass(type(mapping), dict):
            return lambda: dict.items(mapping)
        return lambda: ((key, self._member(mapping, key)) for key in iter(mapping))

    def _member(self, mapping: Any, key: Any) -> Any:
        try:
            return mapping[key]
        except Exception:  # noqa: BLE001 -- its keys may lie
            return _marker(mapping)

    def _take(self, source: Callable[[], Iterable[Any]], whole: Any) -> tuple[list[Any], str]:
        """
        What *source* gives, as far as there is room, and how many more there are: ``""`` for none.

        A container that another thread changes meanwhile is looked at again, a few times.
        """
        room = max(self._items - self._reserve, 0)
        for _ in range(_SNAPSHOTS):
            try:
                taken = list(islice(source(), room + 1))
            except RuntimeError as error:
                if "during iteration" not in str(error):
                    raise
            else:
                break
        else:
            raise _ChangingError
        self._items -= min(len(taken), room)
        if len(taken) <= room:
            return taken, ""
        count = _length_of(whole) - room
        self.lost += 2 * max(count, 1)
        return taken[:room], f"{count} more" if count > 0 else "more"


_KINDS: Final[tuple[tuple[Any, Callable[[Simplifier, Any, int], Any]], ...]] = (
    (Enum, lambda self, value, depth: self._again(value.value, depth)),
    (str, lambda self, value, _: self._cleaned(str.__str__(value))),
    (int, lambda self, value, _: self._int(int.__int__(value))),
    (float, lambda self, value, _: self._float(float.__float__(value))),
    ((bytes, bytearray, memoryview), lambda self, value, _: self._bytes(value)),
    ((date, time), lambda self, value, _: self._cleaned(_iso(value))),
    (timedelta, lambda _, value, __: timedelta.total_seconds(value)),
    (Decimal, lambda self, value, _: self._cleaned(Decimal.__str__(value))),
    (type, lambda self, value, _: self._cleaned(_text_of(value, type(value)))),
)
"""
What becomes of the standard library's values. The order matters: many types are of several kinds.
"""


def _attributes(value: Any, names: Iterable[str]) -> Iterable[tuple[str, Any]]:
    """
    The attributes *names* of *value*; those that are not set are left out, those that fail are marked.
    """
    for name in names:
        try:
            yield name, getattr(value, name)
        except AttributeError:
            continue
        except Exception:  # noqa: BLE001 -- a property of the application
            yield name, _marker(value)


def _iso(value: Any) -> str:
    """
    A date or a time as orjson writes it, where it can.
    """
    try:
        return str(orjson.loads(orjson.dumps(value)))
    except TypeError:
        return str.__str__(value.isoformat())


def _length_of(whole: Any) -> int:
    try:
        return operator.length_hint(whole, 0)
    except Exception:  # noqa: BLE001 -- a length of the application's own
        return 0


def _sorted(items: list[Any]) -> list[Any]:
    """
    *items* in an order that depends on them alone: numbers and text by value, a mixture by its JSON.
    """
    kinds = set(map(type, items))
    if kinds <= {int, float} or kinds == {str}:
        return sorted(items)
    return sorted(items, key=orjson.dumps)


def _text_of(value: Any, kind: type) -> str:
    """
    The text of an object that has no other form. An address in memory would differ from run to run: left out.
    """
    if issubclass(kind, BaseException):
        text = str(value)
        return f"{_type_name(kind)}: {text}" if text else _type_name(kind)
    if hasattr(kind, "__fspath__"):
        path = value.__fspath__()
        return path if isinstance(path, str) else bytes.decode(path, "utf-8", "replace")
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return f"<{kind.__module__}.{kind.__qualname__} object>"
    return str.__str__(str(value))


def _marker(value: object) -> str:
    """
    What stands for a *value* whose own code failed.
    """
    return f"<{clean(_type_name(type(value))[:_MIN_TEXT])}>"
