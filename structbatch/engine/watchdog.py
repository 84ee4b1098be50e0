# SPDX-License-Identifier: Apache-2.0
"""
The thread that keeps the promise of ``timeout``, and calls for more senders.

An HTTP library's timeout starts anew at every byte, so that a server that trickles holds a thread for ever. This thread
shuts the socket down at the deadline. It sleeps while nothing is under way.
"""

from __future__ import annotations

import threading
import time

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from structbatch.transport.base import Transport


TICK: Final = 0.05
"""
Seconds between two looks at whether batches wait while all senders are busy.
"""


class _Watched(NamedTuple):
    transport: Transport
    deadline: float


class Watchdog:
    """
    Args:
        on_tick: Called about every `TICK` while a request is under way.
    """

    def __init__(self, on_tick: Callable[[], None]) -> None:
        self._on_tick = on_tick
        self._watched: dict[int, _Watched] = {}
        self._next_token = 0
        self._awake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """
        Start the thread, if it does not run.

        Raises:
            RuntimeError: No thread can be started.
        """
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._run, name="structbatch-watchdog", daemon=True)
            thread.start()
            self._thread = thread

    def begin(self, token: int, transport: Transport, deadline: float) -> None:
        """
        *transport* starts a request that must end at *deadline* (monotonic). *token* is the sender's own number.
        """
        self._watched[token] = _Watched(transport, deadline)
        if not self._awake.is_set():
            self._awake.set()

    def end(self, token: int) -> None:
        """
        The request is over.
        """
        self._watched.pop(token, None)

    def abort_all(self) -> None:
        """
        End every request under way now.
        """
        for watched in list(self._watched.values()):
            _abort(watched.transport)

    def stop(self) -> None:
        """
        Let the thread end.
        """
        self._stopped = True
        self._awake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._awake.wait()
            while self._watched and not self._stopped:
                self._look(time.monotonic())
                time.sleep(TICK)
            self._awake.clear()
            # `begin` adds first and looks at the event after: whatever it added before the clear is seen here.
            if self._watched or self._stopped:
                self._awake.set()

    def _look(self, now: float) -> None:
        for token, watched in list(self._watched.items()):
            if now >= watched.deadline and self._watched.get(token) is watched:
                _abort(watched.transport)
        self._on_tick()


def _abort(transport: Transport) -> None:
    # One that cannot be stopped must not stop the watch over all others.
    with suppress(Exception):
        transport.abort()
