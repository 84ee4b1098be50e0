# SPDX-License-Identifier: Apache-2.0
"""
The pipeline: events in at one end, requests out at the other. Adapters share one.

What runs behind it, on which threads and under which lock, is in `structbatch.engine.crew`.
"""

from __future__ import annotations

import asyncio
import os
import time

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from structbatch.core.encode import encode
from structbatch.core.event import read_event
from structbatch.core.ledger import DropReason
from structbatch.core.record import HEADER_BYTES, pack_record
from structbatch.core.settings import Settings
from structbatch.core.severity import BANDS
from structbatch.core.vendor import Vendor
from structbatch.engine.crew import Crew
from structbatch.engine.exceptions import with_exception
from structbatch.engine.plain import read_plain
from structbatch.engine.process import attach, finalize_in_child, register
from structbatch.engine.selflog import Problem, ProblemKind, Voice
from structbatch.engine.stats import FlushResult, Stats
from structbatch.transport.base import Transport


Event = Mapping[Any, Any]

_FAREWELL: Final = 0.5
"""
Seconds beyond the deadline of `close` in which aborted requests may end.
"""


class Pipeline(Crew):
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
        settings = settings if settings is not None else Settings()
        super().__init__(vendor, settings, transport, secret, source, Voice(name or vendor.name, on_problem))
        self.name = name or vendor.name
        self.key = os.urandom(8).hex()
        self._before = before
        self._recipe = recipe
        self._max_event_bytes = min(
            settings.max_event_bytes, vendor.limits.max_event_bytes, settings.batch_max_bytes - HEADER_BYTES
        )
        self._urgent = settings.batch_urgent_severity or 25
        self._fork_prepared = False
        register(self)

    def emit(self, event: Event, method_name: str = "") -> bool:
        """
        Hand over one event. Never raises, never waits for the network.

        What a signal handler raises while the event is being encoded is swallowed with the event, and counted as
        ``not_encoded``: it cannot be told from what the event's own objects raise. In :mod:`logging` it is the same.

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
            self._delivery.abandon()
            self._closed = True
            self._wake_all()
        self._end_threads(deadline + _FAREWELL)
        self._reporter.look(self._delivery, time.monotonic())
        return self._result(before, settled=True)

    def _end_threads(self, deadline: float) -> None:
        """
        Abort what is under way until nobody works any more, or *deadline* has come.
        """
        self.watchdog.stop()
        for sender in list(self._senders):
            # Again and again: an abort that comes just before a request begins ends nothing.
            while sender.alive and time.monotonic() < deadline:
                self.watchdog.abort_all()
                sender.join(0.05)

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
        self._voice.say(
            ProblemKind.BEFORE, f"the before hook failed: {what}; events go as keys alone", time.monotonic()
        )
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

    def _result(self, before: Any, *, settled: bool) -> FlushResult:
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

    def _reset_after_fork(self) -> None:
        super()._reset_after_fork()
        self._fork_prepared = False

    def _prepare_fork(self) -> None:
        if not self._fork_prepared:
            self._fork_prepared = finalize_in_child(self)


def _by_name(bands: tuple[int, ...]) -> dict[str, int]:
    return {name: count for name, count in zip(BANDS, bands, strict=True) if count}
