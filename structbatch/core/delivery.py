# SPDX-License-Identifier: Apache-2.0
"""
The delivery machine: what to send and when, what an answer means for what waits, and that nothing is lost.

Theory of operation
===================

Nothing here waits, reads a clock, throws dice or touches a socket or a file. Threads *drive* it: they ask what to do
(`next_send`, `next_spool`), do exactly that without the lock, and report (`on_verdict`, `on_spilled` ...). Starting and
finishing are two calls, so that everything may happen in between.

An event's way: `offer` puts its record into the open batch; a full or due batch is sealed; `next_send` makes one or
several sealed batches a bundle; the verdict settles its records or sends them back to wait. With a spool, what cannot
be delivered for now goes to the disk and comes back later.

1. *Conservation.* ``emitted + loaded == delivered + dropped + dead + spooled + waiting`` between any two calls.
2. *Identity.* A record keeps its batch's id and its ordinal for ever; a split makes new bundles, never new ids.
3. *Order* is promised with ``oldest_first`` only: one bundle at a time, and always the oldest.
4. *The gate* decides when; only a verdict of its present epoch moves it.
5. *At least once.* A record is settled by a verdict, counted as lost under a reason, or waits. An answer that comes
   after `abandon` changes nothing.
6. *Bounds.* Open and sealed batches stay within ``queue_max_*``; batches in or between requests within
   ``inflight_max_bytes``, one batch always excepted.

Not promised: order among several senders; once-only delivery (a lost answer repeats the bundle under the same ids).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from structbatch.core.actions import DONE, Done, Send, Wait
from structbatch.core.answers import Answers
from structbatch.core.batch import NO_BANDS, Bands, Batch
from structbatch.core.bundle import Bundle, bytes_of
from structbatch.core.ceiling import Ceiling
from structbatch.core.gate import Gate
from structbatch.core.intake import Intake
from structbatch.core.ledger import DropReason, Ledger, add
from structbatch.core.picking import Picker
from structbatch.core.poison import halve
from structbatch.core.settings import Order, Settings
from structbatch.core.settlement import Letter, Settlement
from structbatch.core.spooling import Acknowledge, DiskSide, Load, Release, Spill
from structbatch.core.stock import Stock
from structbatch.core.vendor import Limits
from structbatch.core.verdict import Retry


TRUNCATE_TO_BYTES: Final = 16 * 1024
"""
A single record that proved too large is cut to this, or to half of itself if that is less.
"""


class Account(NamedTuple):
    """
    One reading of the account, in records.
    """

    emitted: int
    loaded: int
    delivered: int
    dropped: int
    dead: int
    spooled: int
    waiting: int

    def closes(self) -> bool:
        """
        Whether what came in is what went out and what waits.
        """
        out = self.delivered + self.dropped + self.dead + self.spooled + self.waiting
        return self.emitted + self.loaded == out


class Delivery:
    """
    Args:
        settings: All of them; already clipped to the vendor's limits.

        limits: The vendor's.

        writer_id: 10 random bytes, another one in every process.

        source: The pipeline's own source, index 0 of every table.

        spool: Whether a spooler drives `next_spool`.
    """

    def __init__(
        self, settings: Settings, limits: Limits, writer_id: bytes, source: bytes, *, spool: bool = False
    ) -> None:
        self.ledger = Ledger()
        self.intake = Intake(settings, writer_id, source, self.ledger)
        self.stock = Stock(self.ledger)
        self.gate = Gate(
            1 if settings.order is Order.OLDEST_FIRST else settings.max_senders,
            settings.retry_initial,
            settings.retry_max_delay,
            settings.retry_hold,
        )
        self.ceiling = Ceiling(limits, settings.batch_max_records)
        self._inflight: set[Send] = set()
        self.disk = DiskSide(self.intake, self.stock, self.gate, self.ledger, settings, enabled=spool)
        self._picker = Picker(settings, limits, self.intake, self.stock, self.gate, self.ceiling, self.disk)
        self._answers = Answers(settings, self.stock, self.gate, self.ceiling, self.disk)
        self._closing = False
        self._abandoned = False
        # The hot path has no indirection.
        self.offer = self.intake.offer
        self.defer = self.intake.defer
        self.recount = self.intake.recount

    # What to send.

    def next_send(self, now: float) -> Send | Wait | Done:
        """
        What a sender does now.
        """
        if self._abandoned:
            return DONE
        self._tidy(now)
        if not self._anything_to_send():
            return DONE if self._closing and self._idle() else Wait(self._due())
        if not self.gate.admits(now, len(self._inflight)):
            return Wait(self._gate_opens(now))
        bundle = self._picker.pick(len(self._inflight))
        return self._send(bundle) if bundle is not None else Wait(self._due())

    def sendable(self, now: float) -> bool:
        """
        Whether another sender would have something to send this moment.
        """
        return (
            not self._abandoned
            and self.gate.admits(now, len(self._inflight))
            and (self.stock.waiting() or self._picker.has_fresh())
        )

    def on_measured(self, send: Send, body_bytes: int) -> bool:
        """
        The body of *send* has so many bytes, uncompressed. False: too large, it is taken back, ask again.
        """
        if send not in self._inflight:
            return False
        bundle = send.bundle
        fits = self.ceiling.measured(bytes_of(send.parts), body_bytes)
        single = len(send.parts) == 1 and send.parts[0].count == 1
        if fits or single or bundle.search is not None:
            bundle.body_bytes = body_bytes
            return True
        self._inflight.discard(send)
        bundle.body_bytes = body_bytes
        self.stock.put_back(bundle)
        return False

    def _anything_to_send(self) -> bool:
        return bool(self.intake.sealed) or self.stock.waiting()

    def _idle(self) -> bool:
        intake = self.intake
        return not (self._inflight or intake.sealed or intake.open.arena or intake.deferred or any(self.stock.owed))

    def _due(self) -> float | None:
        return self.intake.open.deadline if self.intake.open.arena else None

    def _gate_opens(self, now: float) -> float | None:
        # A gate that is full, not shut, is opened by a verdict, and that wakes whoever waits.
        times = [self.gate.not_before] if now < self.gate.not_before else []
        due = self._due()
        return min([*times, due]) if due is not None else min(times, default=None)

    def _send(self, bundle: Bundle) -> Send:
        if bundle.search is None:
            while bundle.count > 1 and not self._within_ceiling(bundle):
                left, right = halve(bundle.parts)
                self.stock.put_back(bundle.with_parts(right))
                bundle = bundle.with_parts(left)
            parts = bundle.parts
        else:
            parts = bundle.search.next()
        truncate = min(TRUNCATE_TO_BYTES, bundle.bytes // 2) if bundle.truncate else None
        send = Send(parts, self.gate.epoch, bundle.attempts + 1, truncate, bundle)
        self._inflight.add(send)
        return send

    def _within_ceiling(self, bundle: Bundle) -> bool:
        if bundle.body_bytes:
            return bundle.count <= self.ceiling.records and bundle.body_bytes <= self.ceiling.body_bytes
        return self.ceiling.fits(bundle.count, bundle.bytes)

    # What an answer means.

    def on_verdict(self, send: Send, settlement: Settlement, now: float, u: float) -> tuple[Letter, ...]:
        """
        The answer to *send*, as `structbatch.core.settlement.settle` worked it out.

        Args:
            u: Uniform in [0, 1).

        Returns:
            The dead letters that it leaves.
        """
        if send not in self._inflight:
            return ()
        self._inflight.discard(send)
        return self._answers.judge(send, settlement, now, u)

    def on_failed(self, send: Send, now: float, u: float) -> None:
        """
        The sender broke down over *send* before there was a verdict: it waits for another attempt.
        """
        self.on_verdict(send, Settlement(Retry(None, "internal error"), send.parts), now, u)

    # The disk; the decisions are in `structbatch.core.spooling`.

    def next_spool(self, now: float) -> Spill | Load | Acknowledge | Release | Wait | Done:
        """
        What the spooler does now.
        """
        if not self._abandoned:
            self._tidy(now)
        action = self.disk.next(now, len(self._inflight), closing=self._closing, abandoned=self._abandoned)
        if action is not None:
            return action
        if not self.disk.enabled or self._abandoned or (self._closing and self._idle()):
            return DONE
        return Wait(self.disk.wake_at(now, self._due()))

    def on_spilled(self, spill: Spill, frame: object, now: float) -> None:
        """
        *spill* is on disk as *frame*, or failed (None).
        """
        self.disk.on_spilled(spill, frame, now, abandoned=self._abandoned)

    def on_loaded(self, load: Load, frame: object, batch: Batch | None, ordinals: tuple[int, ...] | None) -> None:
        """
        *frame* with *batch* was read, of which *ordinals* are owed (None: all); or there is none (*batch* is None).
        """
        self.disk.on_loaded(load, frame, batch, ordinals, abandoned=self._abandoned)

    def on_released(self, release: Release) -> None:
        """
        *release* was done, or failed: then the frame stays as it was, and a repetition is the price.
        """
        self.disk.on_released(release)

    # Flush and close.

    def flush(self) -> int:
        """
        Seal the open batch. Returns the mark that `settled` takes.
        """
        self.intake.drain(self.intake.open.deadline)
        self.intake.seal()
        return self.intake.open.first_sequence

    def settled(self, mark: int) -> bool:
        """
        Whether every record accepted before *mark* is settled or on disk.
        """
        sealed = self.intake.sealed
        if sealed and sealed[0].first_sequence < mark:
            return False
        if self.intake.open.first_sequence < mark:
            return False
        oldest = self.stock.oldest_sequence()
        return oldest is None or oldest >= mark

    def close(self) -> int:
        """
        Take no more events, and let the drivers end when nothing is left. Returns a mark as `flush` does.
        """
        mark = self.flush()
        self.intake.shut()
        self._closing = True
        return mark

    def disown(self) -> None:
        """
        Give up the requests in flight: their records wait again, and their answers will be ignored.
        """
        for send in self._inflight:
            bundle = send.bundle
            self.stock.put_back(bundle if bundle.search is None else bundle.with_parts(bundle.search.left()))
        self._inflight.clear()

    def abandon(self) -> Bands:
        """
        Time is up: what is still in memory is dropped, but for what has a frame on disk or is on its way there.

        Returns:
            What was dropped, by band.
        """
        self.close()
        self._abandoned = True
        self._inflight.clear()
        self.stock.clear()
        lost = NO_BANDS
        while self.intake.sealed:
            bands = self.intake.take().bands
            self.ledger.drop(DropReason.UNDELIVERED, bands)
            lost = add(lost, bands)
        bands = self.disk.abandon()
        self.ledger.drop(DropReason.UNDELIVERED, bands)
        return add(lost, bands)

    @property
    def inflight(self) -> int:
        """
        Requests under way.
        """
        return len(self._inflight)

    def account(self) -> Account:
        """
        The account, in constant time.
        """
        ledger = self.ledger
        fresh = len(self.intake.open.bands_by_record) + self.intake.deferred
        refused = ledger.refused_total()
        return Account(
            emitted=sum(ledger.accepted) + fresh + refused,
            loaded=sum(ledger.loaded),
            delivered=sum(ledger.delivered),
            dropped=refused + sum(map(sum, ledger.dropped.values())),
            dead=sum(map(sum, ledger.dead.values())),
            spooled=sum(ledger.spooled),
            waiting=fresh + self.intake.sealed_records + sum(self.stock.owed),
        )

    def _tidy(self, now: float) -> None:
        if self.intake.deferred:
            self.intake.drain(now)
        self.intake.seal_if_due(now)
