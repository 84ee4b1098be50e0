# SPDX-License-Identifier: Apache-2.0
"""
The gate: delays, epochs, the number of requests it lets through.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from structbatch.core.gate import Gate, GateState, backoff_ceiling


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["passed", "failed", "held", "broke"]),
        st.booleans(),
        st.floats(0, 100),
        st.floats(0, 1, exclude_max=True),
        st.none() | st.floats(0, 300),
    ),
    max_size=40,
)
GATES = st.builds(
    Gate, st.integers(1, 8), st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from([0.1, 10.0]), st.just(60.0)
)


def tell(gate: Gate, word: str, epoch: int, now: float, u: float, after: float | None) -> None:
    """
    One verdict of a request that went in *epoch*.
    """
    match word:
        case "passed":
            gate.passed(epoch)
        case "failed":
            gate.failed(epoch, now, u, after, "503")
        case "held":
            gate.held(epoch, now, "401")
        case _:
            gate.broke("503")


@given(
    failures=st.integers(1, 10_000), initial=st.floats(0.001, 10), maximum=st.floats(0.001, 100)
)
def test_the_ceiling_doubles_up_to_its_maximum(failures: int, initial: float, maximum: float) -> None:
    """
    *initial* first, never less than before, never more than twice that nor than *maximum*; no number overflows it.
    """
    ceiling, following = (backoff_ceiling(number, initial, maximum) for number in (failures, failures + 1))

    assert min(initial, maximum) == backoff_ceiling(1, initial, maximum)
    assert min(2 * ceiling, maximum) == following
    assert ceiling <= maximum


@given(gate=GATES, events=EVENTS)
def test_nothing_goes_before_what_was_asked(
    gate: Gate, events: list[tuple[str, bool, float, float, float | None]]
) -> None:
    """
    After a failure of the present epoch: not before the drawn delay and Retry-After; after a hold: not before its
    interval; each failure in a row raises the ceiling; whatever comes through opens the gate.
    """
    now, row = 0.0, 0
    for word, current, seconds, u, after in events:
        now += seconds
        epoch = gate.epoch if current else gate.epoch - 1
        before = gate.not_before, gate.state
        tell(gate, word, epoch, now, u, after)

        if word == "broke":
            assert before[0] == gate.not_before
        elif not current:
            assert before == (gate.not_before, gate.state)
        elif word == "failed":
            row += 1
            delay = max(u * backoff_ceiling(row, gate.initial, gate.maximum), after or 0.0)
            assert max(before[0], now + delay) == gate.not_before
            assert GateState.OPEN is not gate.state
        elif word == "held":
            assert max(before[0], now + 60.0) == gate.not_before
            assert GateState.HELD is gate.state
        else:
            row = 0
            assert gate.admits(now, 0)
            assert GateState.OPEN is gate.state
        assert gate.admits(gate.not_before, 0)
        assert gate.not_before < 0 or not gate.admits(gate.not_before - 1e-3, 0)


@given(gate=GATES, events=EVENTS)
def test_a_verdict_of_another_epoch_moves_nothing(
    gate: Gate, events: list[tuple[str, bool, float, float, float | None]]
) -> None:
    """
    Each failure, hold and recovery ends an epoch, epochs never come back, and whoever went in an old one is not asked.
    """
    now = 0.0
    for word, current, seconds, u, after in events:
        now += seconds
        before = (gate.epoch, gate.not_before, gate.state, gate.window, gate.failures)
        was_open = gate.state is GateState.OPEN
        tell(gate, word, gate.epoch if current else gate.epoch - 1, now, u, after)

        if word == "broke" or (word == "passed" and was_open) or not current:
            assert before[0] == gate.epoch
        else:
            assert before[0] + 1 == gate.epoch
        if not current and word != "broke":
            assert before == (gate.epoch, gate.not_before, gate.state, gate.window, gate.failures)


@given(gate=GATES, events=EVENTS)
def test_it_lets_through_one_after_a_failure_and_then_twice_as_many(
    gate: Gate, events: list[tuple[str, bool, float, float, float | None]]
) -> None:
    """
    All senders at first; one after a failure; each success doubles that, up to all senders.
    """
    now = 0.0
    assert gate.max_senders == gate.window
    for word, current, seconds, u, after in events:
        now += seconds
        window, was_open = gate.window, gate.state is GateState.OPEN
        tell(gate, word, gate.epoch if current else gate.epoch - 1, now, u, after)

        if not current or word == "broke":
            assert window == gate.window
        elif word == "passed":
            assert min(gate.max_senders, 2 * window if was_open else 2) == gate.window
        else:
            assert 1 == gate.window
        assert gate.admits(max(now, gate.not_before), gate.window - 1)
        assert not gate.admits(max(now, gate.not_before), gate.window)
