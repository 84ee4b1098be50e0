# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from structbatch.receiver.parse import Event
from structbatch.receiver.refusal import Refusal
from structbatch.receiver.tally import MAX_ID, MAX_RANGES, SLOT_NS, Tally


NOW = 1_700_000_000_000_000_000


def tally_of(*ids: int | None) -> Tally:
    """
    A tally that was given one event per id.
    """
    tally = Tally()
    tally.add([Event(number) for number in ids], NOW)
    return tally


class TestAdd:
    def test_counts(self) -> None:
        """
        Events, ids, repetitions and events without an id are told apart.
        """
        tally = tally_of(0, 5, 5, None, 0, 5)

        assert (6, 2, 3, 1) == (tally.events, tally.distinct, tally.duplicated, tally.without_id)

    def test_more_repetitions_than_a_byte_holds(self) -> None:
        """
        The count of repetitions does not stop where an id's byte is full.
        """
        tally = tally_of(*[3] * 1000)

        assert (1, 999) == (tally.distinct, tally.duplicated)

    def test_repetitions_across_bodies(self) -> None:
        """
        A body that comes twice is counted as repeated as a whole.
        """
        tally = tally_of(1, 2, 3)
        tally.add([Event(1), Event(2), Event(3), Event(4)], NOW)

        assert (4, 3) == (tally.distinct, tally.duplicated)

    @pytest.mark.parametrize("number", [-1, MAX_ID + 1, 10**30])
    def test_ids_out_of_range(self, number: int) -> None:
        """
        A body with an id that cannot be counted is refused, and none of it is counted.
        """
        tally = Tally()

        with pytest.raises(Refusal) as caught:
            tally.add([Event(1), Event(number)], NOW)

        assert (400, 0, 0) == (caught.value.status, tally.events, tally.distinct)

    def test_arrivals(self) -> None:
        """
        First arrivals are counted by the slot in which they came; repetitions are not.
        """
        tally = tally_of(1, 2)
        tally.add([Event(2), Event(3)], NOW + SLOT_NS)

        assert {NOW // SLOT_NS: 2, NOW // SLOT_NS + 1: 1} == tally.arrivals


class TestMissing:
    def test_gaps(self) -> None:
        """
        Ids that never came are counted and named as ranges, beyond the highest seen too.
        """
        tally = tally_of(0, 1, 4, 6)

        assert (5, [(2, 3), (5, 5), (7, 8)]) == tally.missing([range(9)])

    def test_only_what_is_expected(self) -> None:
        """
        An id outside the expected ranges is not missing.
        """
        tally = tally_of(10)

        assert (2, [(11, 12)]) == tally.missing([range(10, 13)])

    def test_far_beyond(self) -> None:
        """
        A range of which nothing came is missing as a whole.
        """
        assert (10, [(100, 109)]) == tally_of(1).missing([range(100, 110)])

    def test_ranges_are_bounded(self) -> None:
        """
        All gaps are counted, but only the first are named.
        """
        missing, gaps = tally_of(*range(0, 200, 2)).missing([range(200)])

        assert (100, MAX_RANGES) == (missing, len(gaps))

    def test_seen(self) -> None:
        """
        What is expected is either seen or missing.
        """
        assert 2 == tally_of(1, 3).seen([range(4)])


class TestLag:
    def test_percentiles(self) -> None:
        """
        Lags are arrival less the application's time; the maximum is exact, the percentiles round up to 0.1 ms.
        """
        tally = Tally()
        tally.add([Event(i, NOW - (i + 1) * 1_000_000) for i in range(100)], NOW)

        assert {"p50": 50.1, "p99": 99.1, "max": 100.0} == tally.lag_ms()

    def test_repetitions_do_not_count(self) -> None:
        """
        A repetition says nothing about how late the event came.
        """
        tally = Tally()
        tally.add([Event(1, NOW - 1_000_000)], NOW)
        tally.add([Event(1, NOW - 1_000_000)], NOW + 10**10)

        assert 1.0 == tally.lag_ms()["max"]

    def test_none(self) -> None:
        """
        Without a time there is no lag.
        """
        assert {"p50": None, "p99": None, "max": None} == tally_of(1).lag_ms()

    def test_clock_ahead(self) -> None:
        """
        An event from the future counts as no lag at all.
        """
        tally = Tally()
        tally.add([Event(1, NOW + 10**9)], NOW)

        assert {"p50": 0.0, "p99": 0.0, "max": 0.0} == tally.lag_ms()
