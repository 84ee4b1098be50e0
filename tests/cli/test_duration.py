# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from structbatch.cli.duration import parse_duration


class TestParseDuration:
    @pytest.mark.parametrize(
        ("expected", "text"),
        [
            (2.0, "2s"),
            (0.5, "500ms"),
            (0.0, "0s"),
            (0.0, "0"),
            (1.5, "1.5"),
            (0.25, ".25"),
            (90.0, "1.5m"),
            (3600.0, "1h"),
            (2.0, " 2 S "),
        ],
    )
    def test_reads(self, expected: float, text: str) -> None:
        """
        Units are ms, s, m and h; a bare number is seconds.
        """
        assert expected == parse_duration(text)

    @pytest.mark.parametrize(
        "text", ["", "s", "-1s", "2 days", "1e3", "nan", "inf", "1,5s", "25h", "2s2", "²s", "9" * 400]
    )
    def test_wrong(self, text: str) -> None:
        """
        Anything else is an error that shows what was typed, cut short.
        """
        with pytest.raises(ValueError, match=r"duration|longer") as caught:
            parse_duration(text)

        assert len(str(caught.value)) < 120
