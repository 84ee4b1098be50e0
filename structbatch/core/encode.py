# SPDX-License-Identifier: Apache-2.0
"""
One event's fields into the payload of a record: one compact JSON object in strict UTF-8, of bounded size.

It runs on the application's logging thread and never raises. Two paths, one result:

* *fast*: every value is of a type whose JSON orjson writes as we want it, and orjson writes all of it;
* *slow*: `structbatch.core.simplify` turns anything at all into such values first, in bounded time and memory.

What becomes of a value:

=============================================  ======================================================================
str, int, float, bool, None                    themselves; subclasses as what they hold
a lone surrogate                               U+FFFD; what is valid stays
NaN, infinities, bytes, ints beyond 64 bits    a tag, see `structbatch.core.tags`; ints beyond 2000 bits a marker
datetime, date, time, UUID                     text, as orjson writes it: ISO 8601, naive ones without an offset
timedelta                                      seconds, a number
Decimal, complex, Fraction, paths              text
Enum                                           its value
exceptions                                     ``ValueError: message``
dict and other mappings                        object; keys that are no text become text, equal ones ``_2``, ``_3``
list, tuple, other sequences, dict views       array
set, frozenset                                 array, sorted
dataclass, attrs, pydantic, msgspec, namedtuple  object of the fields without a leading underscore (dataclass, attrs)
numpy scalars and arrays                       what they hold; arrays as nested arrays
an object with ``__structlog__``               what that returns
everything else, generators included           ``str()``, or ``<module.Class object>`` where a class has no text
=============================================  ======================================================================

Markers stand where a value cannot: ``<cycle>``, ``<too deep>``, ``<changing>`` (another thread would not leave it
alone), ``<12 more>`` at the end of what was cut, and ``<Class>`` where the class's own code failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, Final

import orjson

from structbatch.core.foreign import is_uuid
from structbatch.core.record import RESERVED, RESERVED_KEYS, TYPED
from structbatch.core.shorten import fit, truncate_payload
from structbatch.core.simplify import MAX_DEPTH, MAX_ITEMS, Simplifier
from structbatch.core.tags import looks_tagged, plain, typed


__all__ = ["encode", "plain", "truncate_payload", "typed"]

_LAST_RESORT: Final = b'{"message":"<this event could not be encoded>","structbatch.truncated":true}'
_CONTAINERS: Final = frozenset({dict, list, tuple})
_LEAVES: Final = frozenset({int, bool, type(None), datetime, date, time})

_dumps = orjson.dumps
_no_reserved_key = RESERVED_KEYS.isdisjoint


def encode(fields: Mapping[str, object], max_bytes: int) -> tuple[bytes, int]:
    """
    The payload of an event, and the record flags ``TYPED`` and ``RESERVED``.

    Neither *fields* nor anything in it is changed or kept.

    Args:
        fields: The event's fields and ``message``; any object may be a value.

        max_bytes:
            Largest payload, at least 1024. Above it the longest strings are cut, then lists and dicts, then fields are
            left out, ``message`` last; ``structbatch.truncated`` and ``structbatch.original_bytes`` say so. The
            latter is a lower bound where the original was too large to be written at all.
    """
    size = 0
    try:
        if type(fields) is dict:
            for value in fields.values():
                # One look at each type costs less than a search for "null" (which is what orjson writes for NaN), and
                # it alone keeps orjson from expanding a small graph of shared lists into terabytes.
                kind = type(value)
                if kind is str or kind is int or value is None or kind is bool:
                    continue
                if kind is float:
                    if value - value == 0.0:
                        continue
                elif _is_native(value, max_bytes):
                    continue
                break
            else:
                payload = _dumps(fields)
                size = len(payload)
                if size <= max_bytes:
                    return payload, 0 if _no_reserved_key(fields) else RESERVED
    except Exception:  # noqa: BLE001, S110 -- whatever it was, the slow path knows what to do
        pass
    return _encode_slowly(fields, max_bytes, size)


def _is_native(value: Any, max_bytes: int) -> bool:  # noqa: C901, PLR0912 -- one loop: calls would double its time
    """
    Whether orjson alone writes *value* as the slow path would, within the same bounds.
    """
    kind = type(value)
    if kind not in _CONTAINERS:
        return kind in _LEAVES or is_uuid(kind)
    items, text = MAX_ITEMS, max_bytes
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            children = container
            items -= len(container)
            if items < 0:
                return False
            if type(container) is dict:
                if len(container) == 1 and looks_tagged(container):
                    return False
                for key in container:
                    text -= len(key)
                children = container.values()
            for child in children:
                kind = type(child)
                if kind is str:
                    text -= len(child)
                elif kind is int:
                    pass
                elif kind is float:
                    if child - child != 0.0:
                        return False
                elif kind in _CONTAINERS:
                    below.append(child)
                elif kind not in _LEAVES and not is_uuid(kind):
                    return False
        if text < 0:
            return False
        if not below:
            return True
        level = below
    return False


def _encode_slowly(fields: Mapping[str, object], max_bytes: int, size: int) -> tuple[bytes, int]:
    """
    The same for anything at all. *size* is that of the whole payload where it is known, else 0.
    """
    try:
        simplifier = Simplifier(max_bytes)
        simple = simplifier.fields(fields)
        flags = (TYPED if simplifier.typed else 0) | (0 if _no_reserved_key(simple) else RESERVED)
        payload = _dumps(simple)
        if len(payload) > max_bytes or simplifier.lost:
            payload = fit(simple, max_bytes, size or len(payload) + simplifier.lost)
    except Exception:  # noqa: BLE001 -- no memory, no stack: a log call still does not raise
        return _LAST_RESORT, 0
    return payload, flags
