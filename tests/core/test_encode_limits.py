# SPDX-License-Identifier: Apache-2.0
"""
Payloads that are too large: what is cut, in which order, and how it is said.
"""

from __future__ import annotations

import json

from typing import Any

import pytest

from structbatch.core.encode import encode, plain, truncate_payload, typed
from structbatch.core.record import TYPED
from structbatch.core.shorten import SHORT_BYTES


ROOM = 256 * 1024


def cut(fields: dict[str, Any], max_bytes: int = 1024) -> dict[str, Any]:
    """
    The members of *fields* within *max_bytes*, whichever way they are cut.
    """
    payload, _ = encode(fields, max_bytes)
    whole, _ = encode(fields, 10**8)
    assert len(payload) <= max_bytes
    assert payload == truncate_payload(whole, max_bytes)
    parsed = json.loads(payload.decode("utf-8", "strict"), parse_constant=pytest.fail)
    assert isinstance(parsed, dict)
    return parsed


def test_a_payload_at_the_limit_is_whole() -> None:
    """
    Exactly *max_bytes* fits, on both paths; one byte more does not.
    """
    frame = len(b'{"message":""}')
    exact, over = {"message": "x" * (1024 - frame)}, {"message": "x" * (1025 - frame)}
    slow = {"message": exact["message"][:-6], "é": 1j}

    assert json.dumps(exact, separators=(",", ":")).encode() == encode(exact, 1024)[0]
    assert b"truncated" not in encode(slow, 1030)[0]
    assert b"truncated" in encode(over, 1024)[0]


def test_the_longest_strings_are_cut_first() -> None:
    """
    Strings are cut at a common length; the shorter ones and all keys stay, and two members say what happened.
    """
    fields = {"message": "m" * 5000, "id": "short", "other": "o" * 3000, "middle": "i" * 200, "n": 7}
    got = cut(fields)

    assert ("short", "i" * 200, 7) == (got["id"], got["middle"], got["n"])
    assert len(got["message"]) == len(got["other"])
    assert got["message"].endswith("…")
    assert got["structbatch.truncated"] is True
    assert len(encode(fields, ROOM)[0]) == got["structbatch.original_bytes"]
    assert [*fields, "structbatch.truncated", "structbatch.original_bytes"] == list(got)


@pytest.mark.parametrize("character", ["x", "é", "€", "😀", "\x00", '"', "\n", "a\u0301"])
@pytest.mark.parametrize("offset", range(4))
def test_text_is_cut_at_the_border_of_a_character(character: str, offset: int) -> None:
    """
    Whatever a character takes in UTF-8 or in JSON, none is cut in half, and little room is wasted.
    """
    text = "x" * offset + character * 2000
    payload, _ = encode({"message": text}, 1024)
    message = json.loads(payload.decode("utf-8", "strict"))["message"]

    assert text.startswith(message.removesuffix("…"))
    assert 1024 - 8 <= len(payload) <= 1024


def test_nested_strings_are_cut_too() -> None:
    """
    A long string is found wherever it stands.
    """
    got = cut({"message": "m", "deep": [{"text": "x" * 9000, "id": 1}]})

    assert 1 == got["deep"][0]["id"]
    assert got["deep"][0]["text"].endswith("…")
    assert "m" == got["message"]


def test_lists_and_dicts_shrink_when_strings_are_not_enough() -> None:
    """
    A huge list keeps its first items and says how many more there were; the message stays whole.
    """
    got = cut({"message": "m" * 100, "list": list(range(9000)), "dict": {str(n): n for n in range(900)}, "id": 5})

    assert ("m" * 100, 5) == (got["message"], got["id"])
    assert [0, 1, 2] == got["list"][:3]
    assert f"<{9000 - len(got['list']) + 1} more>" == got["list"][-1]
    assert f"<{900 - len(got['dict']) + 1} more>" == got["dict"]["…"]


def test_fields_are_left_out_last_and_the_message_never() -> None:
    """
    With more keys than fit, the first ones stay, the message above all.
    """
    got = cut({"message": "m" * 9000, **{f"key{n}": n for n in range(1000)}})
    names = list(got)

    assert ["message", "key0", "key1"] == names[:3]
    assert 30 < len(names) < 1000
    assert "m" * (SHORT_BYTES - 3) + "…" == got["message"]
    assert got["structbatch.truncated"] is True


def test_a_long_key_is_cut() -> None:
    """
    A key may be what is too large; it is cut, and its value stays.
    """
    got = cut({"message": "m", "k" * 5000: 1, "k" * 6000: 2, "id": 3})

    assert ["m", 1, 2, 3, True] == list(got.values())[:5]
    assert max(map(len, got)) < 150


def test_a_message_that_is_no_text() -> None:
    """
    A message may be any object; too large, it shrinks like any other.
    """
    got = cut({"message": {"list": list(range(9000))}})

    assert {"list"} == set(got["message"])


def test_tagged_values_stay_readable() -> None:
    """
    Cut bytes are the start of the bytes; integers and floats are never cut in half.
    """
    big = 10**500
    fields = {"message": "m", "data": b"\xff\x00" * 9000, "int": big, "nan": [float("inf")] * 3}
    payload, flags = encode(fields, 1024)
    got = typed(payload)

    assert TYPED == flags
    assert len(payload) <= 1024
    assert (b"\xff\x00" * 9000).startswith(got["data"])
    assert 100 < len(got["data"])
    assert (big, [float("inf")] * 3) == (got["int"], got["nan"])
    assert plain(payload)["data"]


def test_an_integer_that_does_not_fit_is_left_out() -> None:
    """
    Where several wide integers do not fit, none of them is cut to another number.
    """
    fields = {"message": "m", **{f"n{n}": 10**500 + n for n in range(9)}}
    got = typed(encode(fields, 1024)[0])

    assert {value for value in got.values() if isinstance(value, int) and value > 10**9} <= set(fields.values())
    assert "m" == got["message"]


def test_a_cut_dict_is_no_tag() -> None:
    """
    A dict that shrinks to one member does not become a tag by that.
    """
    payload, flags = encode({"message": "m", "v": [{"$float": "NaN", **{str(n): n for n in range(999)}}] * 99}, 1024)

    assert 0 == flags
    assert plain(payload) == json.loads(payload)


def test_truncating_again_changes_nothing_that_fits() -> None:
    """
    `truncate_payload` returns what fits untouched, and a second, smaller cut keeps the first original size.
    """
    payload, _ = encode({"message": "m" * 99_999, "id": "a"}, 10**6)
    first = truncate_payload(payload, 5000)
    second = truncate_payload(first, 1024)

    assert payload is truncate_payload(payload, len(payload))
    assert first is truncate_payload(first, 5000)
    assert len(payload) == json.loads(second)["structbatch.original_bytes"]
    assert {"message", "id", "structbatch.truncated", "structbatch.original_bytes"} == set(json.loads(second))


def test_a_user_s_own_mark_is_not_believed() -> None:
    """
    An event's own fields of these names give way, and cannot fake the size.
    """
    payload, _ = encode(
        {"message": "m" * 3000, "structbatch.truncated": "no", "structbatch.original_bytes": 10**9}, ROOM
    )
    got = json.loads(truncate_payload(payload, 1024))

    assert (True, len(payload)) == (got["structbatch.truncated"], got["structbatch.original_bytes"])


@pytest.mark.parametrize("payload", [b"\xff" * 5000, b"[" * 5000, b'["' + b"x" * 5000 + b'"]', b'{"a":' * 1500])
def test_what_is_no_object_travels_as_text(payload: bytes) -> None:
    """
    A payload that cannot be parsed, from a damaged disk say, still becomes a valid one.
    """
    got = truncate_payload(payload, 1024)

    assert len(got) <= 1024
    assert {"message", "structbatch.truncated", "structbatch.original_bytes"} == set(json.loads(got.decode()))


def test_a_long_text_is_not_copied_many_times() -> None:
    """
    An event of many megabytes costs one look at each string, and its original size is still told.
    """
    payload, _ = encode({"message": "m" * 20_000_000, "id": 1}, ROOM)
    got = json.loads(payload)

    assert ROOM - 8 <= len(payload) <= ROOM
    assert 1 == got["id"]
    assert got["structbatch.original_bytes"] > 20_000_000
