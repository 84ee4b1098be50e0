# SPDX-License-Identifier: Apache-2.0
"""
What holds for every vendor of the registry, whatever events say and servers answer.
"""

from __future__ import annotations

import json

from typing import Any, get_args

import pytest

from hypothesis import given
from hypothesis import strategies as st

from structbatch import vendors
from structbatch.core.http import Request, Response
from structbatch.core.record import RESERVED, RESERVED_KEYS
from structbatch.core.vendor import Part, Vendor, View
from structbatch.core.verdict import Verdict
from tests.vendors.views import NOW_NS, batch_of, finish, record_of


SECRET = "s3cr3t-t0ken-1234567890"
HOUR_NS = 3600 * 1_000_000_000

# Keys that vendors write, keys that renaming produces, and keys of no one.
KEYS = st.one_of(
    st.sampled_from(sorted(RESERVED_KEYS)),
    st.sampled_from(sorted(RESERVED_KEYS)).map("fields.{}".format),
    st.sampled_from(
        ["logger", "error", "exception.type", "exception.message", "cloud.region", "resource.level", "team"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
).filter(lambda key: key not in ("message", "n"))

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)

FIELDS = st.dictionaries(KEYS, VALUES, max_size=4)
MESSAGES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
SOURCES = st.sampled_from(
    [
        b"",
        b'{"resource":{}}',
        b'{"resource":{"host.name":"web-1","service.name":"shop","deployment.environment.name":"prod"}}',
        b'{"resource":{"cloud.region":"eu","level":"x","team":"a"},"scope":{"name":"lib","version":"1"}}',
        b'{"resource":{"error":"x","ddtags":"y","logger":"z","fields.level":1}}',
    ]
)


@st.composite
def views(draw: st.DrawFn) -> tuple[View, list[dict[str, Any]]]:
    """
    A view of one or two batches, some of them only in part, and the payloads that are owed, in order.

    Each payload has its position under ``n``. Flags are set where encoding sets them, and sometimes where it need not.
    """
    parts, owed = [], []
    for number in range(draw(st.integers(1, 2))):
        payloads = [
            {"n": f"{number}.{n}", **fields, "message": draw(MESSAGES)}
            for n, fields in enumerate(draw(st.lists(FIELDS, min_size=1, max_size=3)))
        ]
        records = []
        for payload in payloads:
            needed = not RESERVED_KEYS.isdisjoint(payload)
            flags = RESERVED if needed or draw(st.booleans()) else 0
            age = draw(st.sampled_from([0, HOUR_NS, 17 * HOUR_NS]))
            trace_id, span_id = (draw(st.sampled_from([bytes(size), bytes([7]) * size])) for size in (16, 8))
            severity = draw(st.integers(0, 24))
            records.append(record_of(payload, NOW_NS - age, severity, 1, flags, trace_id, span_id))
        batch = batch_of(records, draw(SOURCES), bytes([number]) * 16)
        ordinals = draw(
            st.none() | st.sets(st.integers(0, len(payloads) - 1), min_size=1).map(lambda s: tuple(sorted(s)))
        )
        parts.append(Part(batch, ordinals))
        owed += payloads if ordinals is None else [payloads[ordinal] for ordinal in ordinals]
    return View(parts), owed


def make(name: str, *, record_id: bool = False) -> Vendor:
    """
    The vendor called *name*.
    """
    kind: Any = vendors.lookup(name)
    vendor: Vendor = kind(url="http://127.0.0.1:1/in", record_id=record_id)
    return vendor


def no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """
    An object of *pairs* that has no key twice.
    """
    assert len(pairs) == len({name for name, _ in pairs})
    return dict(pairs)


def strictly(request: Request) -> list[dict[str, Any]]:
    """
    The objects of *request*, read by another library than the one that wrote them.
    """
    text = bytes(request.body).decode("utf-8")
    if request.headers["Content-Type"] == "application/json":
        array: list[dict[str, Any]] = json.loads(text, object_pairs_hook=no_twice)
        return array
    assert text.endswith("\n")
    return [json.loads(line, object_pairs_hook=no_twice) for line in text.split("\n")[:-1]]


@pytest.mark.parametrize("name", vendors.names())
class TestEveryVendor:
    """
    Rules of the Vendor protocol.
    """

    @given(data=views(), record_id=st.booleans())
    def test_every_record_is_there_once_and_in_order(
        self, name: str, data: tuple[View, list[dict[str, Any]]], record_id: bool
    ) -> None:
        """
        Valid JSON, no key twice, nothing left out, nothing repeated, nothing in another place.
        """
        view, owed = data

        found = strictly(finish(make(name, record_id=record_id).request(view, NOW_NS)))

        assert [payload["n"] for payload in owed] == [record["n"] for record in found]
        assert all(
            record["message"] == payload["message"] or not payload["message"]
            for payload, record in zip(owed, found, strict=True)
        )
        assert not record_id or len(owed) == len({record["structbatch.id"] for record in found})

    @given(data=views())
    def test_no_value_is_lost(self, name: str, data: tuple[View, list[dict[str, Any]]]) -> None:
        """
        Whatever key is renamed or becomes a member of the vendor's, its value still stands somewhere in the object.
        """
        view, owed = data

        found = strictly(finish(make(name).request(view, NOW_NS)))

        for payload, record in zip(owed, found, strict=True):
            text = json.dumps(record)
            for key, value in payload.items():
                written = json.dumps(value)
                # A tag has no comma, and an empty message may have given way to a placeholder.
                tag = written[1:-1].replace(",", "_") if isinstance(value, str) else written
                assert written in text or tag in text or (key == "message" and not value)

    @given(data=views())
    def test_the_same_view_is_the_same_bytes(self, name: str, data: tuple[View, list[dict[str, Any]]]) -> None:
        """
        A bundle is retried verbatim, by any sender and in any process.
        """
        view, _ = data

        first, second = (finish(make(name).request(View(view.parts), NOW_NS)) for _ in range(2))

        assert first == second

    @given(data=views())
    def test_flags_do_not_change_what_is_said(self, name: str, data: tuple[View, list[dict[str, Any]]]) -> None:
        """
        Splicing is only a faster way to the same objects.
        """
        _, owed = data
        plain_ones = [payload for payload in owed if RESERVED_KEYS.isdisjoint(payload)] + [
            {"message": "m", "n": "last"}
        ]
        fast, slow = (
            View([Part(batch_of([record_of(payload, NOW_NS, flags=flags) for payload in plain_ones]))])
            for flags in (0, RESERVED)
        )

        written = strictly(finish(make(name).request(fast, NOW_NS)))

        assert written == strictly(finish(make(name).request(slow, NOW_NS)))

    @given(data=views())
    def test_a_request_of_a_small_view_is_within_the_limits(
        self, name: str, data: tuple[View, list[dict[str, Any]]]
    ) -> None:
        """
        What a vendor adds to a record is bounded.
        """
        view, owed = data
        vendor = make(name, record_id=True)

        request = finish(vendor.request(view, NOW_NS))

        assert len(request.body) <= sum(len(json.dumps(payload)) for payload in owed) + len(owed) * 2000
        assert len(request.body) <= vendor.limits.max_bytes

    @given(data=views())
    def test_no_secret_is_shown(self, name: str, data: tuple[View, list[dict[str, Any]]]) -> None:
        """
        Neither the request nor the vendor tells it, and the request that is kept does not hold it.
        """
        vendor = make(name)
        request = finish(vendor.request(data[0], NOW_NS))

        authorized = vendor.authorize(request, SECRET, NOW_NS)

        assert SECRET in str(dict(authorized.headers))
        assert SECRET not in repr(authorized)
        assert SECRET not in repr(vendor)
        assert SECRET not in str(dict(request.headers))

    @given(
        status=st.integers(100, 999),
        headers=st.dictionaries(st.sampled_from(["retry-after", "date", "content-type"]), st.text(max_size=30)),
        body=st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()),
    )
    def test_every_answer_has_a_verdict(self, name: str, status: int, headers: dict[str, str], body: bytes) -> None:
        """
        Whatever a server or a proxy sends, nothing raises.
        """
        vendor = make(name)
        request = finish(vendor.request(View([Part(batch_of([record_of({"message": "m"})]))]), NOW_NS))

        assert isinstance(vendor.verdict(Response(status, headers, body), request), get_args(Verdict))
