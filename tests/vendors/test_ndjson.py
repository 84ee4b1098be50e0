# SPDX-License-Identifier: Apache-2.0
"""
Lines of JSON: names, clashes, ids. What holds here holds for the array too, for they share the writer.
"""

from __future__ import annotations

import orjson
import pytest

from structbatch.core.http import Response
from structbatch.core.record import OTEL, RESERVED, TYPED
from structbatch.core.verdict import Delivered, Hold, Reject, Retry, Split
from structbatch.vendors.json_array import JsonArray
from structbatch.vendors.ndjson import Ndjson
from tests.vendors.views import NOW_NS, SOURCE, TRACE_ID, finish, objects_of, record_of, view_of


URL = "https://logs.example.com/in"


def only_object(
    payload: dict[str, object] | bytes, source: bytes = SOURCE, *, record_id: bool = False, **record: object
) -> dict[str, object]:
    """
    What one record becomes.
    """
    view = view_of(record_of(payload, **record), source=source)  # type: ignore[arg-type]
    (found,) = objects_of(finish(Ndjson(URL, record_id=record_id).request(view, NOW_NS)))
    return found


class TestTime:
    """
    ``timestamp``
    """

    @pytest.mark.parametrize(
        ("time_ns", "expected"),
        [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (999_999_999, "1970-01-01T00:00:00.999999999Z"),
            (1_000_000_000, "1970-01-01T00:00:01.000000000Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_782_400_000_000_001, "2000-02-29T00:00:00.000000001Z"),
            (2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
            (-(2**63), "1677-09-21T00:12:43.145224192Z"),
        ],
    )
    def test_every_time_that_a_record_can_hold_is_written(self, time_ns: int, expected: str) -> None:
        """
        Nanoseconds, in UTC, with nine digits, from one end of the header's range to the other.
        """
        assert expected == only_object({"message": "m"}, time_ns=time_ns)["timestamp"]


class TestMembers:
    """
    What the record and its resource say.
    """

    @pytest.mark.parametrize(
        ("severity", "expected"),
        [(1, "TRACE"), (5, "DEBUG"), (9, "INFO"), (10, "INFO"), (13, "WARN"), (17, "ERROR"), (21, "FATAL"), (0, None)],
    )
    def test_level_is_the_band(self, severity: int, expected: str | None) -> None:
        """
        The name of the severity's band, left out where the severity is unknown.
        """
        assert expected == only_object({"message": "m"}, severity=severity).get("level")

    def test_without_a_trace_there_is_no_word_of_it(self) -> None:
        """
        Ids of zeros mean none, and flags mean nothing without a trace.
        """
        assert ["timestamp", "level", "service", "host", "message"] == list(only_object({"message": "m"}))

    def test_each_id_stands_alone(self) -> None:
        """
        A trace without a span, and a span without a trace, write what there is.
        """
        trace = only_object({"message": "m"}, trace_id=TRACE_ID)
        span = only_object({"message": "m"}, span_id=bytes([1] * 8))

        assert (TRACE_ID.hex(), "01", None) == (trace["trace_id"], trace["trace_flags"], trace.get("span_id"))
        assert ("01" * 8, None, None) == (span["span_id"], span.get("trace_id"), span.get("trace_flags"))

    def test_a_record_id_is_batch_and_ordinal(self) -> None:
        """
        The id stays with its record when only some of a batch travel.
        """
        records = [record_of({"message": text}) for text in "abc"]

        found = objects_of(finish(Ndjson(URL, record_id=True).request(view_of(*records, ordinals=[2]), NOW_NS)))

        assert [("c", "000102030405060708090a0b0c0d0e0f-2")] == [(o["message"], o["structbatch.id"]) for o in found]

    def test_the_resource_has_short_names_and_others_keep_theirs(self) -> None:
        """
        Four attributes everybody asks for; the rest is context and travels too.
        """
        source = orjson.dumps(
            {
                "resource": {
                    "cloud.region": "eu",
                    "deployment.environment.name": "prod",
                    "host.name": "web-1",
                    "service.name": "shop",
                    "service.version": "1.4",
                },
                "scope": {"name": "shop.lib", "version": "2"},
            }
        )

        found = only_object({"message": "m"}, source)

        expected = {
            "service": "shop",
            "version": "1.4",
            "environment": "prod",
            "host": "web-1",
            "logger": "shop.lib",
            "scope.version": "2",
            "cloud.region": "eu",
            "message": "m",
        }
        assert expected == {name: value for name, value in found.items() if name not in ("timestamp", "level")}

    def test_a_resource_cannot_hide_what_the_record_says(self) -> None:
        """
        An attribute with a name of ours is renamed, however it is called.
        """
        source = b'{"resource":{"level":"x","message":"y","service":"z","service.name":"shop","resource.level":"w"}}'

        found = only_object({"message": "m"}, source)

        expected = {"resource.level.2": "x", "resource.message": "y", "resource.service": "z", "resource.level": "w"}
        assert expected == {name: value for name, value in found.items() if name.startswith("resource.")}
        assert ("INFO", "m", "shop") == (found["level"], found["message"], found["service"])

    @pytest.mark.parametrize("source", [b"", b"{", b"[]", b'{"resource":1,"scope":[]}', b"null"])
    def test_an_unreadable_source_costs_no_record(self, source: bytes) -> None:
        """
        The record travels without a resource.
        """
        assert ["timestamp", "level", "message"] == list(only_object({"message": "m"}, source))

    def test_an_index_beyond_the_table_costs_no_record(self) -> None:
        """
        A damaged source index is a record without a resource.
        """
        record, severity = record_of({"message": "m"})
        damaged = record[:16] + b"\x07\x00" + record[18:]

        (found,) = objects_of(finish(Ndjson(URL).request(view_of((damaged, severity)), NOW_NS)))

        assert ["timestamp", "level", "message"] == list(found)


class TestClashes:
    """
    Keys that the event and we both want.
    """

    def test_the_record_wins_and_the_key_is_renamed(self) -> None:
        """
        Nothing an application says is lost, and nothing it says forges a time or an id.
        """
        found = only_object({"message": "m", "timestamp": 1, "level": "x", "trace_id": "y"}, trace_id=TRACE_ID)

        assert (1, "x", "y") == (found["fields.timestamp"], found["fields.level"], found["fields.trace_id"])
        assert ("INFO", TRACE_ID.hex()) == (found["level"], found["trace_id"])

    def test_a_taken_name_gets_a_number(self) -> None:
        """
        The first free name, in the order of counting.
        """
        found = only_object({"message": "m", "level": 1, "fields.level": 2, "fields.level.2": 3})

        assert (1, 2, 3) == (found["fields.level.3"], found["fields.level"], found["fields.level.2"])

    def test_what_the_record_does_not_say_the_event_may(self) -> None:
        """
        Without a severity or a trace of our own the event's keys stay where they are.
        """
        found = only_object({"message": "m", "level": "audit", "trace_id": "t"}, severity=0)

        assert ("audit", "t") == (found["level"], found["trace_id"])

    def test_the_events_own_service_replaces_the_resource(self) -> None:
        """
        An event that knows better is believed; what is no text is kept beside.
        """
        found = only_object({"message": "m", "service": "billing", "host": {"a": 1}})

        assert ("billing", "web-1", {"a": 1}) == (found["service"], found["host"], found["fields.host"])

    def test_a_key_of_the_resource_is_not_written_twice(self) -> None:
        """
        Attributes outside the reserved keys are guarded too, though encoding does not flag them.
        """
        source = b'{"resource":{"cloud.region":"eu"}}'
        view = view_of(
            record_of({"message": "a", "cloud.region": "us"}), record_of({"message": "cloud.region"}), source=source
        )

        request = finish(Ndjson(URL).request(view, NOW_NS))

        assert 1 == request.body.split(b"\n")[0].count(b"cloud.region")
        assert ["us", "eu"] == [found["cloud.region"] for found in objects_of(request)]

    @pytest.mark.parametrize("flags", [RESERVED, OTEL, RESERVED | OTEL])
    def test_flags_change_no_meaning(self, flags: int) -> None:
        """
        The slow path and the fast one write the same object.
        """
        payload: dict[str, object] = {"message": "m", "order": 7, "ratio": 0.1, "deep": {"level": 1}, "ü": "€"}

        assert only_object(payload, flags=0) == only_object(payload, flags=flags)


def test_an_ordinary_payload_is_not_parsed() -> None:
    """
    Its bytes travel as they are, a blank included: parsing costs several times as much.
    """
    request = finish(Ndjson(URL).request(view_of(record_of(b'{"x": 1,"message":"m"}')), NOW_NS))

    assert b',"x": 1,"message":"m"}\n' in request.body


class TestOddPayloads:
    """
    What encoding should never write, but a disk might.
    """

    @pytest.mark.parametrize("flags", [0, RESERVED, TYPED])
    def test_an_empty_object_is_a_valid_line(self, flags: int) -> None:
        """
        No comma is left over.
        """
        assert ["timestamp", "level", "service", "host"] == list(only_object(b"{}", flags=flags))

    def test_what_cannot_be_parsed_travels_as_text(self) -> None:
        """
        A payload that must be parsed and cannot be is its own message.
        """
        assert '{"message":"m' == only_object(b'{"message":"m', flags=RESERVED)["message"]

    def test_an_empty_message_stays_empty(self) -> None:
        """
        Nobody asked for a placeholder here.
        """
        assert only_object({"message": ""})["message"] == ""


@pytest.mark.parametrize("vendor", [Ndjson(URL), JsonArray(URL)])
class TestAnswers:
    """
    Verdicts and credentials.
    """

    @pytest.mark.parametrize(
        ("status", "expected"),
        [(200, Delivered), (429, Retry), (503, Retry), (413, Split), (401, Hold), (307, Hold), (400, Reject)],
    )
    def test_the_status_decides(self, vendor: Ndjson, status: int, expected: type) -> None:
        """
        The generic contract: any 2xx is delivery.
        """
        request = finish(vendor.request(view_of(record_of({"message": "m"})), NOW_NS))

        assert isinstance(vendor.verdict(Response(status), request), expected)

    def test_the_token_travels_as_bearer(self, vendor: Ndjson) -> None:
        """
        Only where there is one, and never into the request that is kept.
        """
        request = finish(vendor.request(view_of(record_of({"message": "m"})), NOW_NS))

        assert "Bearer t" == vendor.authorize(request, "t", NOW_NS).headers["Authorization"]
        assert vendor.authorize(request, None, NOW_NS).headers == request.headers
        assert "Authorization" not in request.headers
