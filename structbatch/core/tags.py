# SPDX-License-Identifier: Apache-2.0
"""
Tagged values: what JSON cannot carry, inside the JSON of a payload.

A tag is an object with exactly one member, whose name is one of four::

    {"$float":"NaN"}            also "Infinity" and "-Infinity"
    {"$bytes":"/wA="}           base64 of RFC 4648, padded
    {"$int":"18446744073709551616"}   decimal; only below -2**63 or above 2**64 - 1
    {"$dict":{"$float":"x"}}    the escape: a user's own object that would read as a tag

The payload's own object is never a tag. What stands inside ``$dict`` is no tag itself, though its members' values may
hold some. Anything else under these names (``{"$float":5}``) is no tag and stays as it is.

Whoever writes sets `structbatch.core.record.TYPED` with the first tag; a payload without the flag has none. This form
is frozen: segments on disk hold it.
"""

from __future__ import annotations

import binascii

from collections.abc import Callable
from typing import Any, Final

import orjson


FLOAT: Final = "$float"
BYTES: Final = "$bytes"
INT: Final = "$int"
DICT: Final = "$dict"

TAGS: Final = frozenset({FLOAT, BYTES, INT, DICT})
"""
The names that make an object of one member a tag.
"""

NON_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""
Text of a ``$float`` to its value.
"""

MAX_INT_BITS: Final = 2000
"""
The widest integer that is written out: 602 digits, below the lowest limit that Python's conversions can be set to.

Source: https://docs.python.org/3/library/stdtypes.html#integer-string-conversion-length-limitation
"""

_MAX_INT_TEXT: Final = 640
_NEEDLE: Final = b'{"$'


def looks_tagged(value: dict[Any, Any]) -> bool:
    """
    Whether *value* would read as a tag.
    """
    return len(value) == 1 and not TAGS.isdisjoint(value)


def tag_float(value: float) -> dict[str, object]:
    """
    The tag of a *value* that is not finite.
    """
    return {FLOAT: "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"}  # noqa: PLR0124


def tag_bytes(value: bytes) -> dict[str, object]:
    """
    The tag of *value*.
    """
    return {BYTES: binascii.b2a_base64(value, newline=False).decode("ascii")}


def tag_int(value: int) -> dict[str, object]:
    """
    The tag of *value*, of at most `MAX_INT_BITS` bits.
    """
    return {INT: str(value)}


def plain(payload: bytes | memoryview) -> dict[str, Any]:
    """
    Parse *payload* for a vendor that takes plain JSON.

    Tagged values become null (NaN and infinities), base64 text (bytes), and decimal text (integers).

    Raises:
        ValueError: *payload* is not one JSON object in UTF-8.
    """
    return _parse(payload, _plain_value)


def typed(payload: bytes | memoryview) -> dict[str, Any]:
    """
    Parse *payload* for a protocol that has these types: tagged values become `float`, `bytes`, and `int`.

    Raises:
        ValueError: *payload* is not one JSON object in UTF-8.
    """
    return _parse(payload, _typed_value)


def _parse(payload: bytes | memoryview, value_of: Callable[[str, str], object]) -> dict[str, Any]:
    fields = orjson.loads(payload)
    if not isinstance(fields, dict):
        msg = "a payload is one JSON object"
        raise ValueError(msg)  # noqa: TRY004
    if bytes(payload).find(_NEEDLE) >= 0:
        return {name: _untag(value, value_of) for name, value in fields.items()}
    return fields


def _untag(value: object, value_of: Callable[[str, str], object]) -> object:
    if isinstance(value, list):
        return [_untag(item, value_of) for item in value]
    if not isinstance(value, dict):
        return value
    if looks_tagged(value):
        ((name, inner),) = value.items()
        if name == DICT and isinstance(inner, dict):
            value = inner
        elif isinstance(inner, str) and (name != FLOAT or inner in NON_FINITE):
            return value_of(name, inner)
    return {name: _untag(inner, value_of) for name, inner in value.items()}


def _plain_value(name: str, text: str) -> object:
    return None if name == FLOAT else text


def _typed_value(name: str, text: str) -> object:
    """
    The value of a tag; its text where it cannot be read.
    """
    if name == FLOAT:
        return NON_FINITE[text]
    try:
        if name == BYTES:
            return binascii.a2b_base64(text, strict_mode=True)
        return int(text) if name == INT and len(text) < _MAX_INT_TEXT else text
    except ValueError:
        return text
