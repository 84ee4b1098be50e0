# SPDX-License-Identifier: Apache-2.0
"""
The threads of a pipeline, and the delivery machine that they drive under the one lock.

The application's threads append records; senders do the network; a watchdog keeps deadlines. All of ours are daemons
that start with the first event. The lock is re-entrant and held for constant time, with no I/O, no encoding and no code
of the application under it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

from collections.abc import Callable
from typing import Any, Final

from structbatch.core.actions import Done, Send
from structbatch.core.batch import WRITER_ID_BYTES
from structbatch.core.delivery import Delivery
from structbatch.core.ledger import DropReason
from structbatch.core.settings import Overflow, Settings
from structbatch.core.settlement import Settlement
from structbatch.core.vendor import Vendor
from structbatch.engine.reports import Reporter
from structbatch.engine.selflog import ProblemKind, Voice
from structbatch.engine.sender import Sender
from structbatch.engine.waiting import Sleepers
from structbatch.engine.watchdog import Watchdog
from structbatch.transport.base import Transport


_IDLE: Final = 5.0
"""
Seconds after which a sender that found nothing to do ends, if it is not the last.
"""

_GLANCE: Final = 1.0
"""
Seconds after which a sender that ran out of work looks once more before it sleeps for good.
"""

_REST: Final = 0.02
"""
Seconds between the starts of two requests of one sender, while nobody waits for them: under load each then carries what
came meanwhile, and the application's threads keep the interpreter that many small requests would take from them.
"""

_START_AGAIN: Final = 1.0
"""
Seconds before a thread that could not be started is tried again.
"""


class Crew:
    """
    Args:
        vendor: Where events go.

        settings: All knobs.

        transport: Makes one transport for each sender thread.

        secret: Gives the current token.

        source: The pipeline's own source.

        voice: Tells a person.
    """

    def __init__(
        self,
        vendor: Vendor,
        settings: Settings,
        transport: Callable[[], Transport],
        secret: Callable[[], str | None] | None,
        source: bytes,
        voice: Voice,
    ) -> None:
        self.vendor = vendor
        self.settings = settings
        self.transport = transport
        self.secret = secret
        self.identity_only = False
        self._source = source
        self._voice = voice
        self._blocking = settings.overflow is Overflow.BLOCK
        self._rests = settings.batch_coalesce and vendor.limits.max_batches is None
        self._begin()

    def _begin(self) -> None:
        """
        Empty memory, new lock, no threads: at construction and in a forked child.
        """
        self._lock = threading.RLock()
        self._owned = self._lock._is_owned  # type: ignore[attr-defined]  # noqa: SLF001
        self._delivery = Delivery(self.settings, self.vendor.limits, os.urandom(WRITER_ID_BYTES), self._source)
        self._intake = self._delivery.intake
        self._offer = self._offer_when_room if self._blocking else self._delivery.offer
        self._sleepers = Sleepers()
        self._flushers = Sleepers()
        self._blocked = Sleepers()
        self._resting = Sleepers()
        self._senders: set[Sender] = set()
        self._next_start = float("-inf")
        self._waited = b""
        self._closed = False
        self._reporter = Reporter(self._voice)
        self.watchdog = Watchdog(self._tick)
        self.requests = self.retries = self.bytes_plain = self.bytes_wire = 0

    def _put(self, record: bytes, severity: int) -> bool:
        """
        `emit` where a batch begins or ends, or the queue is full: under the lock.
        """
        if self._owned():
            # A signal handler or a finalizer interrupted this very thread inside the lock.
            accepted = self._delivery.defer(record, severity) is None
            # Whoever wakes takes it along, where the interrupted call does not.
            self._sleepers.wake_one()
            return accepted
        intake = self._intake
        now = time.monotonic()
        with self._lock:
            try:
                intake.drain(now)
                reason = self._offer(record, severity, now)
                if intake.side:
                    intake.drain(now)
            except BaseException as error:
                self._delivery.recount()
                self._wake()
                if isinstance(error, MemoryError):
                    return False
                raise
            if intake.possible:
                self._wake()
        if not self._senders:
            self._start_sender(now)
            if not self._senders:
                # Nobody sends: every event comes by here, until a thread can be started.
                intake.front_room = 0
        if reason is DropReason.CLOSED:
            self._reporter.said_closed(now)
        return reason is None

    def say(self, kind: ProblemKind, message: str) -> None:
        """
        Tell a person, with our own voice, at most once a minute for each *kind*.
        """
        self._voice.say(kind, message, time.monotonic())

    # For senders.

    def next_send(self, sender: Sender) -> Send | None:
        """
        What *sender* sends now; waits until there is something. None: end.
        """
        self._rest(sender)
        idle_since = time.monotonic()
        slept = False
        while True:
            now = time.monotonic()
            with self._lock:
                action = self._delivery.next_send(now)
                if isinstance(action, Send):
                    sender.send, sender.started = action, now
                    self._blocked.wake_all()
                    fresh = self._intake.open
                    if self._delivery.sendable(now) or (fresh.arena and not self._sleepers.keep(fresh.deadline)):
                        self._wake()
                    return action
                if isinstance(action, Done):
                    self._flushers.wake_all()
                    return None
                if now - idle_since > _IDLE and len(self._senders) > 1:
                    self._senders.discard(sender)
                    return None
                # One of the sleepers keeps the time; the others wait to be woken, and look for their own end. Nobody
                # sleeps for ever: an exception of a signal handler in the wrong place can swallow a waking.
                sleeper = self._sleepers.enter(action.until)
            if self._intake.side:
                self._sleepers.leave(sleeper)
                continue
            # The first sleep is short: an event whose thread was interrupted on its way to the front, while the batch
            # before it was sealed, wakes nobody.
            longest = _IDLE if slept else _GLANCE
            slept = True
            sleeper.wait(longest if sleeper.until is None else min(longest, sleeper.until - now))
            self._sleepers.leave(sleeper)

    def _rest(self, sender: Sender) -> None:
        """
        Let more batches come together before *sender* carries the next, unless somebody waits or the queue fills.
        """
        with self._lock:
            pause = sender.started + _REST - time.monotonic()
            intake = self._intake
            if (
                pause <= 0
                or not self._rests
                or intake.closed
                or self._flushers
                or self._blocked
                or intake.sealed_records * 2 >= self.settings.queue_max_records
            ):
                return
            sleeper = self._resting.enter()
        sleeper.wait(pause)
        self._resting.leave(sleeper)

    def try_send(self) -> Send | None:
        """
        What may be sent this moment, without waiting.
        """
        with self._lock:
            action = self._delivery.next_send(time.monotonic())
        return action if isinstance(action, Send) else None

    def measured(self, send: Send, body_bytes: int) -> bool:
        """
        Whether a body of so many bytes may be sent; if not, *send* was taken back.
        """
        with self._lock:
            return self._delivery.on_measured(send, body_bytes)

    def settled(self, send: Send, settlement: Settlement, u: float) -> None:
        """
        The answer to *send*.
        """
        now = time.monotonic()
        with self._lock:
            self._delivery.on_verdict(send, settlement, now, u)
            self._flushers.wake_all()
            if self._delivery.sendable(now):
                self._wake()
        self._reporter.look(self._delivery, now)

    def failed(self, send: Send, u: float, error: BaseException) -> None:
        """
        The sender broke down over *send*.
        """
        now = time.monotonic()
        with self._lock:
            self._delivery.on_failed(send, now, u)
            self._wake()
        self._voice.say(ProblemKind.INTERNAL, f"a sender stumbled: {type(error).__name__}", now)

    def ended(self, sender: Sender) -> None:
        """
        The thread of *sender* is about to end; if it was killed, what it was about waits again.
        """
        now = time.monotonic()
        with self._lock:
            self._senders.discard(sender)
            if sender.send is not None:
                self._delivery.on_failed(sender.send, now, 1.0)
            unfinished = not self._closed and self._delivery.account().waiting > 0
        if unfinished and not self._senders:
            self._start_sender(now)

    # Waiting and waking.

    def _wake(self) -> None:
        self._sleepers.wake_one()
        self._intake.possible = False

    def _wake_all(self) -> None:
        self._resting.wake_all()
        self._intake.possible = False
        self._sleepers.wake_all()
        self._flushers.wake_all()
        self._blocked.wake_all()

    def _tick(self) -> None:
        """
        On the watchdog's thread: one more sender while a batch waits and all are busy.

        It must have waited since the last look: a fast server needs no second sender, and many of them only take
        the interpreter from the application and smaller requests from each other.
        """
        now = time.monotonic()
        with self._lock:
            oldest = self._intake.sealed[0].id if self._intake.sealed else b""
            wanted = (
                oldest == self._waited
                and len(self._senders) < self.settings.max_senders
                and not self._sleepers
                and self._delivery.sendable(now)
            )
            self._waited = oldest
        if wanted:
            self._start_sender(now)

    def _start_sender(self, now: float) -> None:
        if now < self._next_start or self._closed:
            return
        with self._lock:
            if len(self._senders) >= self.settings.max_senders:
                return
            sender = Sender(self)
            self._senders.add(sender)
        try:
            self.watchdog.start()
            sender.start()
        except BaseException as error:
            # No threads to be had (RuntimeError, MemoryError), or a signal handler raised.
            with self._lock:
                self._senders.discard(sender)
                self._next_start = now + _START_AGAIN
            if not isinstance(error, Exception):
                raise
            self._voice.say(ProblemKind.THREADS, f"no thread can be started: {type(error).__name__}", now)
            return
        self._prepare_fork()

    def _wait_settled(self, mark: int, deadline: float) -> bool:
        inline = Sender(self)
        while True:
            with self._lock:
                if self._delivery.settled(mark):
                    return True
                alone = not self._senders
                waiter = self._flushers.enter()
                self._resting.wake_all()
            now = time.monotonic()
            if now >= deadline:
                self._flushers.leave(waiter)
                return False
            if alone:
                self._start_sender(now)
                if not self._senders and inline.step(deadline):
                    self._flushers.leave(waiter)
                    continue
            waiter.wait(deadline - now if self._senders else min(0.1, deadline - now))
            self._flushers.leave(waiter)

    def _offer_when_room(self, record: bytes, severity: int, now: float) -> DropReason | None:
        """
        With ``overflow=block``: wait until *record* fits, at most ``overflow_timeout``. The lock is given up meanwhile
        and held again afterwards, so that nobody else takes the room.
        """
        lock: Any = self._lock
        deadline = now + self.settings.overflow_timeout
        while now < deadline and not (self._intake.has_room(len(record)) or self._intake.closed or _on_event_loop()):
            self._wake()
            waiter = self._blocked.enter()
            self._resting.wake_all()
            held = lock._release_save()  # noqa: SLF001, as threading.Condition does
            try:
                if not self._senders:
                    self._start_sender(now)
                waiter.wait(deadline - now)
            finally:
                lock._acquire_restore(held)  # noqa: SLF001
                self._blocked.leave(waiter)
            now = time.monotonic()
            self._intake.drain(now)
        return self._delivery.offer(record, severity, now)

    def _seal(self, seal: Callable[[], int]) -> int:
        with self._lock:
            try:
                self._intake.drain(time.monotonic())
                return seal()
            except BaseException:
                self._delivery.recount()
                raise
            finally:
                self._wake()

    def _prepare_fork(self) -> None:
        """
        Threads run now: whatever must be arranged before a child exists. For `Pipeline` to fill in.
        """

    def _reset_after_fork(self) -> None:
        """
        In the child: the parent's events are the parent's, its threads do not exist, its locks may be held.
        """
        for sender in self._senders:
            sender.forget()
        if not self._owned():
            # Whoever held it is gone; one call may wait for it: that whose signal handler forked.
            self._lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001
        self._begin()


def _on_event_loop() -> bool:
    if "asyncio" not in sys.modules:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
