# SPDX-License-Identifier: Apache-2.0
"""
When the next request may go: backoff, Retry-After, hold and breaker of one destination, shared by all senders.

Rules:

1. Every `Send` carries the epoch in which it went; only a verdict of the current epoch moves the gate. Eight senders
   that fail together raise the backoff one step, and a late 200 does not reopen what a newer 503 closed.
2. Not-before is the latest of Retry-After, backoff and hold.
3. After a failure one request at a time may go; each success doubles that, up to all senders.
4. Time is monotonic seconds, the die *u* uniform in [0, 1); both are arguments.
"""

from __future__ import annotations

import enum

from dataclasses import dataclass


class GateState(enum.Enum):
    """
    The word that users read in statistics and problems.
    """

    OPEN = "open"
    BACKOFF = "backoff"
    HELD = "held"
    BROKEN = "broken"


def backoff_ceiling(failures: int, initial: float, maximum: float) -> float:
    """
    Upper end of the delay after *failures* failures in a row: *initial*, doubled each time, never above *maximum*.
    """
    # Capped exponent: 2.0**1024 raises, and an outage of hours gets there.
    return float(min(maximum, initial * 2.0 ** min(max(failures - 1, 0), 60)))


@dataclass(slots=True)
class Gate:
    """
    Args:
        max_senders: Most requests at once.

        initial: ``retry_initial``.

        maximum: ``retry_max_delay``.

        hold: ``retry_hold``.
    """

    max_senders: int
    initial: float
    maximum: float
    hold_interval: float
    epoch: int = 0
    failures: int = 0
    not_before: float = float("-inf")
    state: GateState = GateState.OPEN
    reason: str = ""
    window: int = 0

    def __post_init__(self) -> None:
        self.window = self.max_senders

    def admits(self, now: float, inflight: int) -> bool:
        """
        Whether one more request may go beside *inflight* others.
        """
        return now >= self.not_before and inflight < self.window

    def passed(self, epoch: int) -> bool:
        """
        A request of *epoch* came through. Returns whether that changed the state.
        """
        if epoch != self.epoch:
            return False
        self.window = min(self.max_senders, self.window * 2)
        if self.state is GateState.OPEN:
            return False
        self._enter(GateState.OPEN, "")
        self.failures = 0
        self.not_before = float("-inf")
        return True

    def failed(self, epoch: int, now: float, u: float, after: float | None, reason: str) -> bool:
        """
        A request of *epoch* has to be tried again. Returns whether that changed the state.
        """
        if epoch != self.epoch:
            return False
        self.failures += 1
        delay = u * backoff_ceiling(self.failures, self.initial, self.maximum)
        self.not_before = max(self.not_before, now + max(delay, after or 0.0))
        # A broken or held gate stays so until something comes through.
        return self._enter(GateState.BACKOFF if self.state is GateState.OPEN else self.state, reason)

    def held(self, epoch: int, now: float, reason: str) -> bool:
        """
        A person must fix it; the next probe goes after ``retry_hold``. Returns whether that changed the state.
        """
        if epoch != self.epoch:
            return False
        self.not_before = max(self.not_before, now + self.hold_interval)
        return self._enter(GateState.HELD, reason)

    def broke(self, reason: str) -> bool:
        """
        A bundle used up its attempts: the breaker opens. Returns whether that changed the state.
        """
        if self.state in (GateState.BROKEN, GateState.HELD):
            return False
        self.state, self.reason = GateState.BROKEN, reason
        return True

    def _enter(self, state: GateState, reason: str) -> bool:
        changed = state is not self.state
        self.epoch += 1
        self.state, self.reason = state, reason
        if state is not GateState.OPEN:
            self.window = 1
        else:
            self.window = min(2, self.max_senders)
        return changed
