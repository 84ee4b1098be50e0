# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from structbatch.receiver.mood import WELL, Mood, Temper, read_mood
from structbatch.receiver.refusal import Refusal


class TestReadMood:
    def test_all_fields(self) -> None:
        """
        JSON's ``for`` is the duration.
        """
        body = b'{"mode":"status","status":429,"retry_after":1,"delay":0.25,"for":2.0}'

        assert Mood("status", 429, 1.0, 0.25, 2.0) == read_mood(body)

    def test_default(self) -> None:
        """
        An empty object means that all is well.
        """
        assert WELL == read_mood(b"{}")

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"[]",
            b'{"mode":"angry"}',
            b'{"status":99}',
            b'{"delay":-1}',
            b'{"for":-1}',
            b'{"stauts":500}',
            b'{"for":"2s"}',
        ],
    )
    def test_wrong(self, body: bytes) -> None:
        """
        An unknown name or a value out of range is 400, never ignored.
        """
        with pytest.raises(Refusal) as caught:
            read_mood(body)

        assert 400 == caught.value.status


class TestTemper:
    def test_lasts(self) -> None:
        """
        A mood lasts as long as it says, and then all is well.
        """
        temper, outage = Temper(), Mood("status", duration=2.0)
        temper.set(outage, now=10.0)

        assert [outage, outage, WELL, WELL] == [temper.at(now) for now in (10.0, 11.9, 12.0, 11.0)]

    def test_until_told_otherwise(self) -> None:
        """
        A mood without an end stays.
        """
        temper, outage = Temper(), Mood("reset")
        temper.set(outage, now=0.0)

        assert outage == temper.at(1e9)
