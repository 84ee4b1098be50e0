# SPDX-License-Identifier: Apache-2.0
"""
Threads that sleep until somebody wakes them.

A Condition would do, were it not for finalizers: one that logs while its thread is about to wait must not be
overlooked, so registering (under the pipeline's lock) and sleeping (without it) are two steps, with a look in between.
"""

from __future__ import annotations

import threading


class Sleeper:
    """
    One thread's place to sleep, for once.

    Args:
        until: Monotonic seconds at which it wakes by itself; None where it need not.
    """

    __slots__ = ("_gate", "until")

    def __init__(self, until: float | None = None) -> None:
        self.until = until
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self, seconds: float | None) -> bool:
        """
        Sleep until woken, at most *seconds*. Returns whether it was woken.
        """
        if seconds is None:
            return self._gate.acquire()
        return self._gate.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))

    def wake(self) -> None:
        """
        Wake it, now or when it falls asleep. To be called once.
        """
        self._gate.release()


class Sleepers:
    """
    Those who wait for one and the same thing. `enter` and the `wake_` methods are called under the pipeline's lock.
    """

    def __init__(self) -> None:
        self._waiting: dict[Sleeper, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def keep(self, until: float | None) -> bool:
        """
        Whether one of them wakes by itself no later than *until*; True where there is no such time.
        """
        # A copy: `leave` takes no lock.
        return until is None or any(
            sleeper.until is not None and sleeper.until <= until for sleeper in list(self._waiting)
        )

    def enter(self, until: float | None = None) -> Sleeper:
        """
        A new sleeper, which the next waking counts already. Its time is *until*, where no other keeps it.
        """
        sleeper = Sleeper(None if self.keep(until) else until)
        self._waiting[sleeper] = None
        return sleeper

    def leave(self, sleeper: Sleeper) -> None:
        """
        *sleeper* sleeps no longer, woken or not.
        """
        self._waiting.pop(sleeper, None)

    def wake_one(self) -> None:
        """
        Wake whoever fell asleep last: the one most likely still in the processor's caches.
        """
        while self._waiting:
            try:
                sleeper, _ = self._waiting.popitem()
            except KeyError:
                return
            sleeper.wake()
            return

    def wake_all(self) -> None:
        """
        Wake everybody.
        """
        while self._waiting:
            self.wake_one()
