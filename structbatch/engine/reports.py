# SPDX-License-Identifier: Apache-2.0
"""
Notices what a person should be told, by looking at the delivery after each answer. Runs on sender threads.
"""

from __future__ import annotations

from structbatch.core.delivery import Delivery
from structbatch.core.gate import GateState
from structbatch.engine.selflog import ProblemKind, Voice


class Reporter:
    """
    Args:
        voice: What speaks.
    """

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._state = GateState.OPEN
        self._dropped = 0
        self._dead = 0
        self._troubled = False

    def look(self, delivery: Delivery, now: float) -> None:
        """
        Say what has changed since the last look. Reads without the lock: a number may be a moment old.
        """
        self._look_at_gate(delivery, now)
        account = delivery.account()
        if account.dropped > self._dropped and self._voice.say(
            ProblemKind.DROPPING,
            f"{account.dropped - self._dropped} events dropped since last said; in all: {_by_reason(delivery)}",
            now,
        ):
            self._dropped = account.dropped
        if account.dead > self._dead and self._voice.say(
            ProblemKind.DEAD, f"{account.dead - self._dead} events refused for ever since last said", now
        ):
            self._dead = account.dead

    def said_closed(self, now: float) -> None:
        """
        An event came after close.
        """
        self._voice.say(ProblemKind.CLOSED, "events after close are dropped and counted", now)

    def _look_at_gate(self, delivery: Delivery, now: float) -> None:
        state, reason = delivery.gate.state, delivery.gate.reason
        if state is self._state:
            return
        self._state = state
        if state is GateState.HELD:
            self._troubled |= self._voice.say(ProblemKind.HELD, f"{reason}; events are kept, a person must fix it", now)
        elif state is GateState.BROKEN:
            self._troubled |= self._voice.say(ProblemKind.BROKEN, f"no delivery ({reason}); events wait", now)
        elif state is GateState.OPEN and self._troubled:
            self._troubled = False
            self._voice.say(ProblemKind.RECOVERED, "delivery goes on", now)


def _by_reason(delivery: Delivery) -> str:
    reasons = delivery.ledger.dropped_by_reason()
    return ", ".join(f"{reason} {sum(bands)}" for reason, bands in reasons.items() if any(bands))
