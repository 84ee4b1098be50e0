# SPDX-License-Identifier: Apache-2.0
"""
Datadog: site, reserved attributes, ages.
"""

from __future__ import annotations

import orjson
import pytest

from structbatch.core.record import RESERVED
from structbatch.errors import ConfigError
from structbatch.vendors.datadog import SITES, Datadog
from tests.vendors.views import NOW_NS, SOURCE, TRACE_ID, finish, objects_of, record_of, view_of


HOUR_NS = 3600 * 1_000_000_000
PROD = orjson.dumps(
    {
        "resource": {
            "deployment.environment.name": "prod",
            "host.name": "web-1",
            "service.name": "shop",
            "service.version": "1",
        }
    }
)


def only_object(
    payload: dict[str, object] | bytes, source: bytes = SOURCE, vendor: Datadog | None = None, **record: object
) -> dict[str, object]:
    """
    What one record becomes.
    """
    view = view_of(record_of(payload, **record), source=source)  # type: ignore[arg-type]
    (found,) = objects_of(finish((vendor or Datadog()).request(view, NOW_NS)))
    return found


class TestEndpoint:
    """
    Where requests go.
    """

    @pytest.mark.parametrize("site", SITES)
    def test_each_site_has_its_host(self, site: str) -> None:
        """
        The documented address of each documented site.
        """
        assert f"https://http-intake.logs.{site}/api/v2/logs" == Datadog(site=site).endpoint

    def test_an_unknown_site_is_an_error_with_the_nearest(self) -> None:
        """
        A wrong site would send the key to a stranger.
        """
        with pytest.raises(ConfigError, match=r"'datadoghq.ue' is no Datadog site; did you mean 'datadoghq.eu'"):
            Datadog(site="datadoghq.ue")

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("http://127.0.0.1:1", "http://127.0.0.1:1/api/v2/logs"),
            ("http://127.0.0.1:1/", "http://127.0.0.1:1/api/v2/logs"),
            ("http://127.0.0.1:1/dd", "http://127.0.0.1:1/dd"),
        ],
    )
    def test_a_url_overrides_the_site(self, url: str, expected: str) -> None:
        """
        For a proxy or a test; Datadog's path where it has none.
        """
        assert expected == Datadog(url=url).endpoint

    def test_the_token_is_the_api_key(self) -> None:
        """
        One header, added at the last moment.
        """
        vendor = Datadog()
        request = finish(vendor.request(view_of(record_of({"message": "m"})), NOW_NS))

        assert "k" == vendor.authorize(request, "k", NOW_NS).headers["DD-API-KEY"]
        assert request is vendor.authorize(request, None, NOW_NS)


class TestMembers:
    """
    Datadog's reserved attributes.
    """

    @pytest.mark.parametrize(
        ("severity", "expected"),
        [
            (0, "info"),
            (1, "trace"),
            (5, "debug"),
            (9, "info"),
            (13, "warn"),
            (17, "error"),
            (21, "critical"),
            (24, "critical"),
        ],
    )
    def test_fatal_is_critical(self, severity: int, expected: str) -> None:
        """
        Datadog reads ``fatal`` as emergency, and a missing status as info.
        """
        assert expected == only_object({"message": "m"}, severity=severity)["status"]

    def test_environment_and_version_are_tags(self) -> None:
        """
        Before the user's own, without a comma inside.
        """
        source = PROD.replace(b'"1"', b'"1,2"')

        assert "env:prod,version:1_2,team:x" == only_object({"message": "m"}, source, Datadog(tags="team:x"))["ddtags"]

    def test_without_tags_there_is_no_member(self) -> None:
        """
        An empty text is no tag.
        """
        assert "ddtags" not in only_object({"message": "m"})

    def test_the_scope_is_the_logger_unless_the_event_names_one(self) -> None:
        """
        An OpenTelemetry scope's name stands where Datadog looks for a logger.
        """
        source = b'{"scope":{"name":"lib"}}'

        assert {"name": "lib"} == only_object({"message": "m"}, source)["logger"]
        assert {"name": "own"} == only_object({"message": "m", "logger": "own"}, source)["logger"]

    @pytest.mark.parametrize("flags", [0, RESERVED])
    @pytest.mark.parametrize(
        "payload",
        [
            {"message": "m", "logger": "a.b", "x": 1},
            {"message": "m", "x": 1, "logger": ""},
            {"message": "m", "logger": 'a"b\\', "x": 1},
            {"message": "m", "logger": "a", "deep": {"logger": "b"}},
            {"message": '"logger":"x"', "logger": "a"},
            {"message": "{", "logger": "ü"},
        ],
    )
    def test_a_logger_becomes_an_object(self, payload: dict[str, object], flags: int) -> None:
        """
        By bytes or by parsing, with the same result; only at the top.
        """
        found = only_object(payload, flags=flags)

        assert payload | {"logger": {"name": payload["logger"]}} == {name: found[name] for name in payload}

    @pytest.mark.parametrize("logger", [None, 5, {"name": "a"}])
    def test_a_logger_that_is_no_text_stays(self, logger: object) -> None:
        """
        Only a text becomes a name.
        """
        assert logger == only_object({"message": "m", "logger": logger})["logger"]

    def test_an_exception_becomes_an_error(self) -> None:
        """
        OpenTelemetry's three attributes under Datadog's names; the event's own ``error`` is kept beside.
        """
        fields: dict[str, object] = {"exception.type": "E", "exception.message": "no", "exception.stacktrace": "at"}

        found = only_object({"message": "m", **fields, "error": "mine"})

        assert {"kind": "E", "message": "no", "stack": "at"} == found["error"]
        assert "mine" == found["fields.error"]
        assert not any(name.startswith("exception.") for name in found)

    @pytest.mark.parametrize("flags", [0, RESERVED])
    @pytest.mark.parametrize("payload", [{}, {"message": ""}, {"message": None}, {"a": 1}])
    def test_there_is_always_a_message(self, payload: dict[str, object], flags: int) -> None:
        """
        Datadog demands one; an event without it is not refused.
        """
        found = only_object(payload, flags=flags)

        assert "(no message)" == found["message"]
        assert payload.get("a") == found.get("a")

    def test_a_message_of_something_inside_is_not_the_events(self) -> None:
        """
        Each record of a batch gets its own placeholder, wherever the key stands.
        """
        inside: dict[str, object] = {"deep": {"message": "x"}, "message": None}
        view = view_of(*(record_of(payload) for payload in ({"a": 1, "message": "m"}, inside, {"message": ""})))

        found = objects_of(finish(Datadog().request(view, NOW_NS)))

        assert ["m", "(no message)", "(no message)"] == [record["message"] for record in found]

    @pytest.mark.parametrize("payload", [b'{"message":"m","x": 1}', b'{"x": 1,"message":"m"}'])
    def test_an_ordinary_payload_is_not_parsed(self, payload: bytes) -> None:
        """
        Its bytes travel as they are, a blank included, wherever the message stands.
        """
        request = finish(Datadog().request(view_of(record_of(payload)), NOW_NS))

        assert payload[1:] in request.body

    @pytest.mark.parametrize(("message", "expected"), [(7, "7"), (0, "0"), ({"a": [1]}, '{"a":[1]}'), (False, "false")])
    def test_a_message_that_is_no_text_becomes_its_json(self, message: object, expected: str) -> None:
        """
        Datadog takes a text alone.
        """
        assert expected == only_object({"message": message})["message"]


class TestClashes:
    """
    Keys that the event and Datadog both want.
    """

    def test_a_status_of_http_is_no_severity(self) -> None:
        """
        ``status=3`` would read as an error of syslog.
        """
        found = only_object({"message": "m", "status": 3}, severity=0)

        assert ("info", 3) == (found["status"], found["fields.status"])

    def test_no_key_forges_the_time(self) -> None:
        """
        Datadog reads ``@timestamp`` before our ``timestamp``.
        """
        found = only_object({"message": "m", "@timestamp": 1, "timestamp": 2})

        assert (1, 2) == (found["fields.@timestamp"], found["fields.timestamp"])
        assert (1768472430123, False) == (found["timestamp"], "@timestamp" in found)

    def test_ids_of_the_record_win(self) -> None:
        """
        A forged trace id is kept beside.
        """
        found = only_object({"message": "m", "dd.trace_id": "x"}, trace_id=TRACE_ID)

        assert (TRACE_ID.hex(), "x") == (found["dd.trace_id"], found["fields.dd.trace_id"])

    def test_the_events_own_resource_replaces_ours(self) -> None:
        """
        Service and host in place, environment and version as tags.
        """
        own: dict[str, object] = {"service": "billing", "host": "db-1", "env": "test", "version": "9", "ddtags": "a:b"}

        found = only_object({"message": "m", **own}, PROD)

        assert ("billing", "db-1") == (found["service"], found["hostname"])
        assert "env:test,version:9,a:b" == found["ddtags"]
        assert {"host", "env", "version"}.isdisjoint(found)

    def test_of_two_words_for_one_thing_the_second_stays_a_field(self) -> None:
        """
        Nothing is lost where an event says ``env`` and ``environment``, or ``host`` and ``hostname``.
        """
        own: dict[str, object] = {"env": "a", "environment": "b", "host": "c", "hostname": "d"}

        found = only_object({"message": "m", **own}, PROD)

        assert ("b", "c", "d") == (found["environment"], found["host"], found["hostname"])
        assert "env:a,version:1" == found["ddtags"]

    def test_what_is_no_text_stays_a_field(self) -> None:
        """
        Only text can stand for a host or a tag.
        """
        found = only_object({"message": "m", "host": {"a": 1}, "version": 3, "ddtags": [1]}, PROD)

        assert ({"a": 1}, 3, [1]) == (found["host"], found["version"], found["fields.ddtags"])
        assert "env:prod,version:1" == found["ddtags"]


class TestAge:
    """
    Eighteen hours.
    """

    def test_what_is_too_old_is_refused_and_the_rest_is_sent(self) -> None:
        """
        Positions of the body map to the view's.
        """
        times = (NOW_NS - 19 * HOUR_NS, NOW_NS - 18 * HOUR_NS, NOW_NS - 18 * HOUR_NS - 1, NOW_NS)
        view = view_of(*(record_of({"message": str(at)}, time_ns=at) for at in times))

        request = finish(Datadog().request(view, NOW_NS))

        assert {0: "expired", 2: "expired"} == request.refused
        assert [1, 3] == request.rows
        assert [str(times[1]), str(times[3])] == [found["message"] for found in objects_of(request)]

    def test_positions_count_over_chunks(self) -> None:
        """
        The second chunk starts where the first ended.
        """
        old = [record_of({"message": "m"}, time_ns=0)] * 501

        request = finish(Datadog().request(view_of(*old, record_of({"message": "n"}, time_ns=NOW_NS)), NOW_NS))

        assert (501, [501]) == (len(request.refused), request.rows)

    def test_where_all_is_too_old_the_body_is_an_empty_array(self) -> None:
        """
        Still valid JSON, though nobody should send it.
        """
        request = finish(Datadog().request(view_of(record_of({"message": "m"}, time_ns=0)), NOW_NS))

        assert ([], []) == (orjson.loads(request.body), request.rows)

    def test_nothing_refused_means_no_map(self) -> None:
        """
        Positions are the same: nothing to remember.
        """
        assert finish(Datadog().request(view_of(record_of({"message": "m"})), NOW_NS)).rows is None
