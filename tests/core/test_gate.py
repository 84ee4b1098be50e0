# SPDX-License-Identifier: Apache-2.0
"""
When the next request may go, told as stories; the property tests hold the rules.
"""

from __future__ import annotations

from structbatch.core.gate import Gate, GateState, backoff_ceiling


def gate_of(max_senders: int = 8) -> Gate:
    """
    A gate with the default delays.
    """
    return Gate(max_senders, 0.2, 10.0, 60.0)


def test_eight_senders_that_fail_together_are_one_failure() -> None:
    """
    Only the first verdict of an epoch counts.
    """
    gate = gate_of()

    changed = [gate.failed(0, 0.0, 0.999, None, "503") for _ in range(8)]

    assert [True] + [False] * 7 == changed
    assert (1, 1, GateState.BACKOFF) == (gate.failures, gate.window, gate.state)
    assert 0.2 * 0.999 == gate.not_before


def test_a_late_success_does_not_reopen() -> None:
    """
    What a newer 503 closed stays closed.
    """
    gate = gate_of()
    gate.failed(0, 0.0, 0.5, None, "503")

    assert not gate.passed(0)
    assert GateState.BACKOFF is gate.state


def test_retry_after_outlasts_backoff() -> None:
    """
    Not-before is the latest of what was asked.
    """
    gate = gate_of()
    gate.failed(0, 0.0, 0.5, 30.0, "429")
    gate.failed(1, 1.0, 0.5, None, "503")

    assert 30.0 == gate.not_before
    assert not gate.admits(29.9, 0)
    assert gate.admits(30.0, 0)
    assert not gate.admits(30.0, 1)


def test_a_held_gate_opens_by_success_alone() -> None:
    """
    Failures leave it held, the breaker does not overrule it.
    """
    gate = gate_of()
    gate.held(0, 0.0, "401")
    gate.failed(1, 60.0, 0.5, None, "503")
    gate.broke("503")

    assert GateState.HELD is gate.state
    assert gate.passed(2)
    assert (GateState.OPEN, 0, 2) == (gate.state, gate.failures, gate.window)
    assert gate.admits(0.0, 1)


def test_a_broken_gate_backs_off_on() -> None:
    """
    Failures leave it broken, and each raises the delay.
    """
    gate = gate_of()
    gate.failed(0, 0.0, 0.5, None, "503")

    assert gate.broke("503")
    assert not gate.broke("503")
    gate.failed(1, 1.0, 0.5, None, "503")
    assert (GateState.BROKEN, 1.2) == (gate.state, gate.not_before)


def test_hours_of_failures_do_not_overflow() -> None:
    """
    ``2.0 ** 1024`` raises, and an outage gets there.
    """
    assert [0.2, 0.2, 0.4, 0.8] == [backoff_ceiling(failures, 0.2, 10.0) for failures in range(4)]
    assert 10.0 == backoff_ceiling(10**6, 0.2, 10.0)
