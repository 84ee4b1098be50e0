# SPDX-License-Identifier: Apache-2.0
"""
A payload that is too large, made to fit: the same input gives the same bytes.

In this order, and no further than needed:

1. the longest strings are cut at a common length, at the border of a character, and end in ``…``;
2. nested lists and dicts keep fewer and fewer items, and say how many more there were; keys longer than 128 bytes are
   cut;
3. fields are left out, from the end, ``message`` last.

Strings, lists and dicts of at most `SHORT_BYTES` stay whole until step 3. Two members at the end say that it happened.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from structbatch.core.tags import BYTES, looks_tagged


TRUNCATED: Final = "structbatch.truncated"
"""
The member that is true in every payload that was cut.
"""

ORIGINAL_BYTES: Final = "structbatch.original_bytes"
"""
The member that holds the size of the payload before the first cut.
"""

SHORT_BYTES: Final = 64
"""
What counts as short context, in bytes of JSON: ids, levels and names stay readable.
"""

_SURELY_SHORT: Final = SHORT_BYTES // 6  # a character takes six bytes of JSON at most
_KEY_BYTES: Final = 128
_KEEP: Final = (1024, 256, 64, 16, 4, 0)
_MARK: Final = "…"
_MARK_BYTES: Final = len(_MARK.encode())

_dumps = orjson.dumps


def truncate_payload(payload: bytes, max_bytes: int) -> bytes:
    """
    *payload* in at most *max_bytes*, for a vendor that answers 413 to one record; itself where it fits already.

    Never raises: what is not a JSON object travels as the text of ``message``.

    Args:
        max_bytes: At least 1024.
    """
    if len(payload) <= max_bytes:
        return payload
    try:
        fields = orjson.loads(payload)
        if isinstance(fields, dict):
            return fit(fields, max_bytes, _original_bytes(fields, len(payload)))
    except (ValueError, TypeError, RecursionError):
        pass
    return fit({"message": payload[:max_bytes].decode("utf-8", "replace")}, max_bytes, len(payload))


def _original_bytes(fields: dict[str, Any], size: int) -> int:
    """
    The size before the first cut, which may have been another's.
    """
    known = fields.get(ORIGINAL_BYTES)
    if fields.get(TRUNCATED) is True and type(known) is int and known > size:
        return known
    return size


def fit(fields: dict[str, Any], max_bytes: int, original_bytes: int) -> bytes:
    """
    The JSON of *fields* in at most *max_bytes*, with the two members that say so.

    Args:
        fields: What `orjson.loads` could have returned; changed nowhere.
    """
    marks = {TRUNCATED: True, ORIGINAL_BYTES: original_bytes}
    fields = {name: value for name, value in fields.items() if name not in marks}
    fewer = fields
    for keep in (None, *_KEEP):
        if keep is not None:
            fewer = _fewer_members(fields, keep)
        payload = _fit_strings({**fewer, **marks}, max_bytes)
        if payload is not None:
            return payload
    return _leave_out(fewer, marks, max_bytes)


def _fit_strings(fields: dict[str, Any], max_bytes: int) -> bytes | None:
    """
    The JSON of *fields* with its longest strings cut so that it fits; None where that is not enough.
    """
    payload = _dumps(fields)
    excess = len(payload) - max_bytes
    if excess <= 0:
        return payload
    lengths: list[int] = []
    _collect_lengths(fields, lengths)
    length = _common_length(lengths, excess)
    if length is None:
        return None
    payload = _dumps(_shorter(fields, length))
    return payload if len(payload) <= max_bytes else None


def _json_length(text: str) -> int:
    return len(_dumps(text)) - 2


def _collect_lengths(value: Any, lengths: list[int]) -> None:
    """
    Add the length of every string in *value* that may be cut, in bytes of JSON, to *lengths*.
    """
    if isinstance(value, str):
        length = _json_length(value) if len(value) > _SURELY_SHORT else 0
        if length > SHORT_BYTES:
            lengths.append(length)
    elif isinstance(value, list):
        for item in value:
            _collect_lengths(item, lengths)
    elif isinstance(value, dict) and not _is_whole(value):
        for item in value.values():
            _collect_lengths(item, lengths)


def _is_whole(value: dict[str, Any]) -> bool:
    """
    Whether *value* is a tag whose text means nothing once it is cut.
    """
    return looks_tagged(value) and "$dict" not in value and BYTES not in value


def _common_length(lengths: list[int], excess: int) -> int | None:
    """
    The largest length that, as the limit of all *lengths*, makes their sum smaller by *excess*.
    """
    longest_first = sorted(lengths, reverse=True)
    total = 0
    for count, length in enumerate(longest_first, 1):
        total += length
        below = longest_first[count] if count < len(longest_first) else SHORT_BYTES
        if total - count * below >= excess:
            return max((total - excess) // count, SHORT_BYTES)
    return None


def _shorter(value: Any, length: int) -> Any:
    """
    *value* with each of its strings cut to *length* bytes of JSON.
    """
    if isinstance(value, str):
        return _cut(value, length)
    if isinstance(value, list):
        return [_shorter(item, length) for item in value]
    if not isinstance(value, dict) or _is_whole(value):
        return value
    if looks_tagged(value) and isinstance(value.get(BYTES), str):
        return {BYTES: value[BYTES][: length // 4 * 4]}
    return {name: _shorter(item, length) for name, item in value.items()}


def _cut(text: str, length: int) -> str:
    """
    The longest start of *text* whose JSON has at most *length* bytes, marked; *text* itself where it has no more.
    """
    if _json_length(text) <= length:
        return text
    room = length - _MARK_BYTES
    low, high = 0, min(len(text), room)
    if _json_length(text[:high]) <= room:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        if _json_length(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low] + _MARK


def _fewer(value: Any, keep: int) -> Any:
    """
    *value* with at most *keep* items in each of its lists and dicts; a marker for all of it where *keep* is 0.
    """
    if not isinstance(value, (list, dict)) or (keep == 0 and len(_dumps(value)) <= SHORT_BYTES):
        return value
    if keep == 0:
        return value if BYTES in value and len(value) == 1 else f"<{len(value)} more>"
    if isinstance(value, dict):
        return value if _is_whole(value) else _fewer_members(value, keep, len(value) - keep)
    fewer = [_fewer(item, keep) for item in value[:keep]]
    if len(value) > keep:
        fewer.append(f"<{len(value) - keep} more>")
    return fewer


def _fewer_members(fields: dict[str, Any], keep: int, more: int = 0) -> dict[str, Any]:
    fewer: dict[str, Any] = {}
    for position, (name, value) in enumerate(fields.items()):
        if more > 0 and position == keep:
            break
        fewer[free_name(_cut(name, _KEY_BYTES), fewer)] = _fewer(value, keep)
    if more > 0:
        fewer[free_name(_MARK, fewer)] = f"<{more} more>"
    return fewer


def free_name(name: str, taken: dict[str, Any], counts: dict[str, int] | None = None) -> str:
    """
    *name*, or the first of ``name_2``, ``name_3`` and so on, that is not *taken*.

    Args:
        counts: Remembers how far each name has come, where many may collide.
    """
    if name not in taken:
        return name
    number = 1 if counts is None else counts.get(name, 1)
    while True:
        number += 1
        candidate = f"{name}_{number}"
        if candidate not in taken:
            break
    if counts is not None:
        counts[name] = number
    return candidate


def _leave_out(fields: dict[str, Any], marks: dict[str, Any], max_bytes: int) -> bytes:
    """
    The JSON of as many of *fields* as fit, their strings cut short, in their order.
    """
    room = max_bytes - len(_dumps(marks))
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        short = _shorter(value, SHORT_BYTES)
        size = len(_dumps({name: short})) - 1
        if size <= room:
            kept[name] = short
            room -= size
    return _dumps({**kept, **marks})
