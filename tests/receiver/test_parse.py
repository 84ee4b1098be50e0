# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from structbatch.receiver.parse import ANY, DIALECTS, Event, parse_by_type, parse_json, parse_ndjson
from structbatch.receiver.refusal import Refusal


class TestNdjson:
    def test_events(self) -> None:
        """
        Each line is one event; of its fields only id and time are kept.
        """
        body = '{"message":"ä }\\n{","demo_id":7,"demo_ns":9,"nested":{"demo_id":1}}\n{"message":"no id"}\n'.encode()

        assert [Event(7, 9), Event(None, 0)] == parse_ndjson(body)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"\n",
            b'{"a":1}',
            b'{"a":1}{"b":2}\n',
            b'{"a":1}\n\n{"b":2}\n',
            b'\n{"a":1}\n',
            b'{"a":1}\n\n',
            b'{"a":\n1}\n',
            b'{"a":{}\n}\n{"b":1}{"c":1}\n',
            b'{"a":1}\r\n{"b":2}\r\n',
            b'{"a":1},\n{"b":2}\n',
            b"[1]\n",
            b'[{"demo_id":1}]\n',
            b"1\n",
            b'{"a":1}\nnull\n',
            b'{"a":1}\n{"b":\n',
            b'{"a":01}\n',
            b'{"a":NaN}\n',
            b'{"a":"\n"}\n',
            b'{"a":"\xff"}\n',
            b"{'a':1}\n",
            b'{"demo_id":"1"}\n',
            b'{"demo_id":1.5}\n',
            b'{"demo_id":true}\n',
            b'{"demo_ns":null}\n',
        ],
    )
    def test_strict(self, body: bytes) -> None:
        """
        What is not exactly one JSON object on every line, each ended by a newline, is 400.
        """
        with pytest.raises(Refusal) as caught:
            parse_ndjson(body)

        assert 400 == caught.value.status


class TestJson:
    @pytest.mark.parametrize("body", [b'[{"demo_id":1},{"demo_id":2}]', b' [ {"demo_id":1}\n, {"demo_id":2} ] \n'])
    def test_array(self, body: bytes) -> None:
        """
        An array of objects is as many events.
        """
        assert [Event(1), Event(2)] == parse_json(body)

    def test_object(self) -> None:
        """
        A single object is one event.
        """
        assert [Event(1)] == parse_json(b'{"demo_id":1}')

    @pytest.mark.parametrize(
        "body", [b"", b"[]", b"[1]", b'[{"a":1}', b'{"a":1}\n{"a":2}\n', b'"a"', b'[{"a":"\xff"}]']
    )
    def test_strict(self, body: bytes) -> None:
        """
        Anything else is 400.
        """
        with pytest.raises(Refusal) as caught:
            parse_json(body)

        assert 400 == caught.value.status


class TestByType:
    @pytest.mark.parametrize(
        ("content_type", "body"),
        [
            ("application/json; charset=utf-8", b'[{"demo_id":1}]'),
            ("Application/X-NDJSON", b'{"demo_id":1}\n'),
            ("", b'[{"demo_id":1}]'),
            ("text/plain", b'{"demo_id":1}\n'),
        ],
    )
    def test_dispatch(self, content_type: str, body: bytes) -> None:
        """
        The content type decides, and the body's start where it does not.
        """
        assert [Event(1)] == parse_by_type(body, content_type)

    def test_type_binds(self) -> None:
        """
        A body that is not what its content type says is refused.
        """
        with pytest.raises(Refusal) as caught:
            parse_by_type(b'[{"demo_id":1}]', "application/x-ndjson")

        assert 400 == caught.value.status


class TestDialects:
    def test_datadog(self) -> None:
        """
        Datadog takes JSON alone and answers 202.
        """
        dialect = DIALECTS["/api/v2/logs"]

        assert (202, [Event(3)]) == (dialect.status, dialect.parse(b'[{"demo_id":3}]', "text/plain"))

    def test_any(self) -> None:
        """
        A path without a dialect of its own takes both forms and answers 200.
        """
        assert 200 == ANY.status
