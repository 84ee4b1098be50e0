# SPDX-License-Identifier: Apache-2.0
"""
The pipeline: events in at one end, requests out at the other. Adapters share one.

Threads: the application's call `emit`, which encodes outside the lock and appends under it; senders do the network;
a watchdog keeps deadlines. All are daemons that start with the first event. There is one lock, re-entrant, held for
constant time, with no I/O, no encoding and no code of the application under it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from structbatch.core.actions import Done, Send
from structbatch.core.delivery import Delivery
from structbatch.core.encode import encode
from structbatch.core.event import read_event
from structbatch.core.batch import WRITER_ID_BYTES
from structbatch.core.ledger import DropReason
from structbatch.core.record import HEADER_BYTES, pack_record
from structbatch.core.settings import Overflow, Settings
from structbatch.core.settlement import Settlement
from structbatch.core.severity import BANDS
from structbatch.core.vendor import Vendor
from structbatch.engine.exceptions import with_exception
from structbatch.engine.plain import read_plain
from structbatch.engine.process import attach, finalize_in_child, register
from structbatch.engine.reports import Reporter
from structbatch.engine.selflog import Problem, ProblemKind, Voice
from structbatch.engine.sender import Sender
from structbatch.engine.stats import FlushResult, Stats
from structbatch.engine.waiting import Sleepers
from structbatch.engine.watchdog import Watchdog
from structbatch.transport.base import Transport


Event = Mapping[Any, Any]

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


class Pipeline:
    """
    Args:
        vendor: Where events go.

        settings: All knobs; clipped to what the vendor documents.

        transport: Makes one transport for each sender thread.

        secret: Gives the current token; never shown. What it does is asked at every attempt.

        source: The pipeline's own resource, as `structbatch.core.record` describes a source.

        before:
            Event mapping to event mapping or None (filtered out), run on the logging thread for every event. What it
            raises drops nothing and leaks nothing: the event is shipped as its keys alone.

        on_problem: Told instead of stderr what a person should know. Runs on any thread.

        name: For problems and statistics; the vendor's name where empty.

        recipe: Makes the same pipeline in another process, for pickling. Holds no secret.
    """

    def __init__(
        self,
        vendor: Vendor,
        settings: Settings | None = None,
        *,
        transport: Callable[[], Transport],
        secret: Callable[[], str | None] | None = None,
        source: bytes = b'{"resource":{}}',
        before: Callable[[Event], Any] | None = None,
        on_problem: Callable[[Problem], None] | None = None,
        name: str = "",
        recipe: Callable[[], Pipeline] | None = None,
    ) -> None:
        self.vendor = vendor
        self.settings = settings if settings is not None else Settings()
        self.transport = transport
        self.secret = secret
        self.name = name or vendor.name
        self.key = os.urandom(8).hex()
        self.identity_only = False
        self._source = source
        self._before = before
        self._recipe = recipe
        self._blocking = self.settings.overflow is Overflow.BLOCK
        self._max_event_bytes = min(
            self.settings.max_event_bytes,
            vendor.limits.max_event_bytes,
            self.settings.batch_max_bytes - HEADER_BYTES,
        )
        self._urgent = self.settings.batch_urgent_severity or 25
        self._rests = self.settings.batch_coalesce and vendor.limits.max_batches is None
        self._fork_prepared = False
        self._voice = Voice(self.name, on_problem)
        self._begin()
        register(self)

    def _begin(self) -> None:
        """
        Empty memory, new lock, no threads: at construction and in a forked child.
        """
        self._lock = threading.RLock()
        self._owned = self._lock._is_owned  # type: ignore[attr-defined]  # noqa: SLF001
        self._delivery = Delivery(
            self.settings, self.vendor.limits, os.urandom(WRITER_ID_BYTES), self._source
        )
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

    def emit(self, event: Event, method_name: str = "") -> bool:
        """
        Hand over one event. Never raises, never waits for the network.

        Args:
            event: As structlog has it: ``event``, ``level``, ``timestamp`` and fields. Not changed.

            method_name: The severity's name where *event* has no level.

        Returns:
            Whether it was accepted; if not, it is counted under a reason.
        """
        try:
            reading = read_plain(event, method_name, self._max_event_bytes) if self._before is None else None
            record, severity = reading or self._read_carefully(event, method_name)
        except Exception as error:  # noqa: BLE001, whatever it is: not into the application
            self._refuse(DropReason.NOT_ENCODED, 0, ProblemKind.INTERNAL, f"an event was lost: {type(error).__name__}")
            return False
        if record is None:
            return False
        intake = self._intake
        front = intake.front
        if len(front) < intake.front_room and severity < self._urgent and len(record) <= intake.front_bytes:
            # Neither the first of its batch nor its last: no lock, no look at any limit.
            front.append(record)
            return True
        return self._put(record, severity)

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

    def _read_carefully(self, event: Event, method_name: str) -> tuple[bytes | None, int]:
        """
        The record of any event at all, and its severity; None where the application filtered it out.
        """
        if self._before is not None:
            kept = self._filter(event)
            if kept is None:
                return None, 0
            event = kept
        if "exc_info" in event:
            event = with_exception(event)
        fields, severity, time_ns, trace_id, span_id, trace_flags = read_event(event, method_name)
        payload, flags = encode(fields, self._max_event_bytes)
        stamp = time.time_ns() if time_ns is None else time_ns
        return pack_record(payload, stamp, severity, trace_flags, flags, trace_id, span_id), severity

    def flush(self, timeout: float | None = None) -> FlushResult:
        """
        Seal the open batch and wait until everything emitted so far is settled or on disk.

        Never bypasses the gate. Returns at once where it would wait for itself (inside a signal handler that
        interrupted the pipeline).

        Args:
            timeout: Seconds; the setting ``timeout`` where None.
        """
        deadline = time.monotonic() + (self.settings.timeout if timeout is None else timeout)
        before = self._delivery.account()
        if self._owned() or self._closed:
            return self._result(before, settled=not before.waiting)
        mark = self._seal(self._delivery.flush)
        return self._result(before, settled=self._wait_settled(mark, deadline))

    async def aflush(self, timeout: float | None = None) -> FlushResult:  # noqa: ASYNC109
        """
        As `flush`, without blocking the event loop.
        """
        return await asyncio.get_running_loop().run_in_executor(None, self.flush, timeout)

    def close(self, timeout: float | None = None) -> FlushResult:
        """
        Deliver what is left until *timeout* (``close_timeout`` where None), then count it as dropped, and stop.

        Events after that are dropped and counted. Safe to call twice, and from several threads.
        """
        now = time.monotonic()
        deadline = now + (self.settings.close_timeout if timeout is None else timeout)
        before = self._delivery.account()
        if self._closed or self._owned():
            return self._result(before, settled=not before.waiting)
        mark = self._begin_close()
        self._wait_settled(mark, deadline)
        with self._lock:
            self._closed = True
            self._delivery.abandon()
            self._wake_all()
        self.watchdog.abort_all()
        self.watchdog.stop()
        for sender in list(self._senders):
            sender.join(max(0.0, min(0.5, deadline + 0.5 - time.monotonic())))
        self._reporter.look(self._delivery, time.monotonic())
        return self._result(before, settled=True)

    def stats(self) -> Stats:
        """
        One consistent reading, in constant time.
        """
        with self._lock:
            if self._closed:
                self._intake.drain(0.0)
            account = self._delivery.account()
            ledger, gate = self._delivery.ledger, self._delivery.gate
            dropped = ledger.dropped_by_reason()
            dead = {reason.value: bands for reason, bands in ledger.dead.items()}
            queued = self._intake.sealed_records + len(self._intake.open.bands_by_record) + len(self._intake.front)
            inflight = self._delivery.inflight
        return Stats(
            **account._asdict(),
            dropped_by_reason={reason: _by_name(bands) for reason, bands in dropped.items() if any(bands)},
            dead_by_reason={reason: _by_name(bands) for reason, bands in dead.items() if any(bands)},
            queue_records=queued,
            requests=self.requests,
            retries=self.retries,
            bytes_plain=self.bytes_plain,
            bytes_wire=self.bytes_wire,
            inflight=inflight,
            senders=len(self._senders),
            state="closed" if self._closed else gate.state.value,
            reason=gate.reason,
        )

    def say(self, kind: ProblemKind, message: str) -> None:
        """
        Tell a person, with our own voice, at most once a minute for each *kind*.
        """
        self._voice.say(kind, message, time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}>"

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return attach, (self.key, self._recipe)

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
                    if self._delivery.sendable(now):
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
                until = None if self._sleepers else action.until
                sleeper = self._sleepers.enter()
            if self._intake.side:
                self._sleepers.leave(sleeper)
                continue
            # The first sleep is short: an event whose thread was interrupted on its way to the front, while the batch
            # before it was sealed, wakes nobody.
            longest = _IDLE if slept else _GLANCE
            slept = True
            sleeper.wait(longest if until is None else min(longest, until - now))
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

    # Losses at the door.

    def _filter(self, event: Event) -> Event | None:
        try:
            # A copy: a hook that works in place must not reach what the application, or a tee, still has.
            kept = self._before(dict(event)) if self._before is not None else event
        except Exception as error:  # noqa: BLE001, it is the application's
            return self._keys_alone(event, type(error).__name__)
        if kept is None:
            self._refuse(DropReason.FILTERED, 0, None, "")
            return None
        if not isinstance(kept, Mapping):
            return self._keys_alone(event, f"returned {type(kept).__name__}")
        return kept

    def _keys_alone(self, event: Event, what: str) -> Event:
        self._voice.say(ProblemKind.BEFORE, f"the before hook failed: {what}; events go as keys alone", time.monotonic())
        safe = {key: event[key] for key in ("level", "timestamp") if isinstance(event.get(key), (str, float, int))}
        return {**safe, "event": "structbatch: the before hook failed", "structbatch.keys": [str(key) for key in event]}

    def _refuse(self, reason: DropReason, band: int, kind: ProblemKind | None, message: str) -> None:
        if self._owned():
            self._delivery.ledger.refuse(reason, band)
            return
        with self._lock:
            self._delivery.ledger.refuse(reason, band)
        if kind is not None:
            self._voice.say(kind, message, time.monotonic())

    def _result(self, before: Any, *, settled: bool) -> FlushResult:  # noqa: ANN401
        after = self._delivery.account()
        return FlushResult(
            after.delivered - before.delivered,
            after.spooled - before.spooled,
            after.dropped - before.dropped if self._closed else 0,
            0 if settled else after.waiting,
        )

    # Fork and exit.

    def _begin_close(self) -> int:
        mark = self._seal(self._delivery.close)
        with self._lock:
            self._wake_all()
        return mark

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
        if not self._fork_prepared:
            self._fork_prepared = finalize_in_child(self)

    def _reset_after_fork(self) -> None:
        """
        In the child: the parent's events are the parent's, its threads do not exist, its locks may be held.
        """
        for sender in self._senders:
            sender.forget()
        self._fork_prepared = False
        if not self._owned():
            # Whoever held it is gone; one call may wait for it: that whose signal handler forked.
            self._lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001
        self._begin()


def _by_name(bands: tuple[int, ...]) -> dict[str, int]:
    return {name: count for name, count in zip(BANDS, bands, strict=True) if count}


def _on_event_loop() -> bool:
    if "asyncio" not in sys.modules:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
