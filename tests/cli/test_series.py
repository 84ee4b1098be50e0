# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from structbatch.cli.series import per_second


class TestPerSecond:
    def test_rows(self) -> None:
        """
        Ten slots are a second, counted from the first event, and the backlog runs on.
        """
        logged, arrived = {1005: 10, 1014: 20, 1015: 30}, {1014: 5, 1016: 25, 1026: 30}

        assert [
            {"in": 30, "out": 5, "backlog": 25},
            {"in": 30, "out": 25, "backlog": 30},
            {"in": 0, "out": 30, "backlog": 0},
        ] == per_second(logged, arrived)

    def test_empty(self) -> None:
        """
        Nothing logged, no rows.
        """
        assert [] == per_second({}, {5: 1})

    def test_nothing_arrived(self) -> None:
        """
        What never arrives stays in the backlog.
        """
        assert [{"in": 7, "out": 0, "backlog": 7}] == per_second({3: 7}, {})
