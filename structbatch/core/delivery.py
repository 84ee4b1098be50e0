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

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from structbatch.core.batch import NO_BANDS, Bands, Batch
from structbatch.core.bundle import Bundle
from structbatch.core.ceiling import Ceiling
from structbatch.core.gate import Gate, GateState
from structbatch.core.intake import Intake
from structbatch.core.ledger import DeadReason, DropReason, Ledger, add
from structbatch.core.poison import Finding, Parts, Search, halve, merge, subtract
from structbatch.core.settings import Order, Settings
from structbatch.core.settlement import Letter, Settlement, bury
from structbatch.core.spooling import Acknowledge, DiskSide, Load, Release, Spill
from structbatch.core.stock import Stock
from structbatch.core.vendor import Limits, Part
from structbatch.core.verdict import Delivered, Hold, Partial, Reject, Retry, Split
from structbatch.errors import Fault


STRIKES: Final = 3
"""
Failures of one bundle, each between two successes of others, that make it a suspect.
"""

ROUNDS: Final = 3
"""
Budgets that a search for poison gets before what is undecided is dead.
"""

SYSTEMIC: Final = 3
"""
Batches refused from end to end in a row that say: it is not the records.
"""

TRUNCATE_TO_BYTES: Final = 16 * 1024
"""
A single record that proved too large is cut to this, or to half of itself if that is less.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """
    Do: send *parts*, and report the verdict with this very object.

    Args:
        parts: What the request carries.

        epoch: The gate's, at this moment.

        attempt: 1 for the first.

        truncate: Cut the (single) record's payload to so many bytes.
    """

    parts: Parts = field(repr=False)
    epoch: int
    attempt: int
    truncate: int | None
    bundle: Bundle = field(repr=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """
    Do: nothing until *until* (monotonic seconds), or until woken (None).
    """

    until: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """
    Do: end; there will be nothing more.
    """


DONE: Final = Done()


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
        self._settings = settings
        self._limits = limits
        self._ordered = settings.order is Order.OLDEST_FIRST
        self.ledger = Ledger()
        self.intake = Intake(settings, writer_id, source, self.ledger)
        self.stock = Stock(self.ledger)
        self.gate = Gate(
            1 if self._ordered else settings.max_senders,
            settings.retry_initial,
            settings.retry_max_delay,
            settings.retry_hold,
        )
        self.ceiling = Ceiling(limits, settings.batch_max_records)
        self._inflight: set[Send] = set()
        self.disk = DiskSide(self.intake, self.stock, self.gate, self.ledger, settings, enabled=spool)
        self._turn = 0
        self._successes = 0
        self._systemic = 0
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
        bundle = self._pick()
        return self._send(bundle) if bundle is not None else Wait(self._due())

    def sendable(self, now: float) -> bool:
        """
        Whether another sender would have something to send this moment.
        """
        return (
            not self._abandoned
            and self.gate.admits(now, len(self._inflight))
            and (self.stock.waiting() or (bool(self.intake.sealed) and self._has_room(len(self.intake.sealed[0].records))))
        )

    def on_measured(self, send: Send, body_bytes: int) -> bool:
        """
        The body of *send* has so many bytes, uncompressed. False: too large, it is taken back, ask again.
        """
        if send not in self._inflight:
            return False
        bundle = send.bundle
        fits = self.ceiling.measured(sum(_bytes(part) for part in send.parts), body_bytes)
        if fits or len(send.parts) == 1 and send.parts[0].count == 1 or bundle.search is not None:
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

    def _pick(self) -> Bundle | None:
        """
        The bundle whose turn it is, taken from where it waits.
        """
        stock = self.stock
        if self._ordered:
            return None if self._inflight else self._pick_oldest()
        if self.gate.state in (GateState.BROKEN, GateState.HELD):
            return self._pick_probe()
        if stock.retry:
            return stock.retry.popleft()
        older = stock.exhausted or stock.replay
        self._turn += 1
        if self.intake.sealed and not (older and self._turn % 3 == 0):
            fresh = self._take_sealed()
            if fresh is not None:
                return fresh
        return self._pop_older()

    def _pick_oldest(self) -> Bundle | None:
        stock = self.stock
        self._turn += 1
        if self._turn % 2:
            passing = self._pass_blocked()
            if passing is not None:
                return passing
        if stock.retry:
            return stock.retry.popleft()
        # While frames remain, what is newer than they goes through the disk as well.
        return self._pop_older() or (None if self.disk.holds_order() else self._take_sealed())

    def _pass_blocked(self) -> Bundle | None:
        """
        Whatever may go before an oldest bundle that keeps failing, or that would block all others for ever.
        """
        retry = self.stock.retry
        patience = self._settings.retry_max_retries + 1 + STRIKES
        blocked = retry[0].attempts >= patience if retry else bool(self.stock.exhausted)
        if not blocked:
            return None
        for index, bundle in enumerate(retry):
            if bundle.attempts < patience:
                del retry[index]
                return bundle
        if self.stock.replay:
            return self.stock.replay.popleft()
        if self.intake.sealed and not self.disk.holds_order():
            fresh = self._take_sealed()
            if fresh is not None:
                return fresh
        return retry.pop() if retry else None

    def _pick_probe(self) -> Bundle | None:
        """
        The newest live batch and the oldest bundle by turns: one of them may be what the server chokes on.
        """
        self._turn += 1
        if self._turn % 2 and self.intake.sealed and self._has_room(len(self.intake.sealed[-1].records)):
            return Bundle([self.stock.board(self.intake.take(newest=True))])
        if self.stock.retry:
            return self.stock.retry.pop() if self._turn % 2 else self.stock.retry.popleft()
        return self._pop_older() or self._take_sealed()

    def _pop_older(self) -> Bundle | None:
        stock = self.stock
        first, second = stock.exhausted, stock.replay
        if self._turn % 2:
            first, second = second, first
        waiting = first or second
        return waiting.popleft() if waiting else None

    def _take_sealed(self) -> Bundle | None:
        """
        Sealed batches, oldest first, as many as one request may carry.
        """
        sealed = self.intake.sealed
        parts: list[Part] = []
        records = size = 0
        most = self._limits.max_batches if self._settings.batch_coalesce else 1
        while sealed and (most is None or len(parts) < most):
            count, length = sealed[0].count, len(sealed[0].records)
            if not self._has_room(length):
                break
            if parts and not self.ceiling.fits(records + count, size + length):
                break
            records, size = records + count, size + length
            parts.append(self.stock.board(self.intake.take()))
        return Bundle(parts) if parts else None

    def _has_room(self, record_bytes: int) -> bool:
        return not self.stock.bytes or self.stock.bytes + record_bytes <= self._settings.inflight_max_bytes

    def _half_empty(self) -> bool:
        return self.stock.bytes * 2 <= self._settings.inflight_max_bytes

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
        self.stock.book(settlement)
        bundle, remain = send.bundle, settlement.remain
        if bundle.search is None:
            bundle.narrow(remain)
        elif remain != send.parts and not isinstance(settlement.verdict, Delivered):
            # Some of what a search was testing is settled: what is left starts afresh.
            rest = merge((*subtract(bundle.search.left(), send.parts), *remain))
            bundle = bundle.with_parts(rest)
            remain = rest
        letters = settlement.letters
        match settlement.verdict:
            case Delivered():
                return letters + self._on_delivered(send, bundle)
            case Partial():
                self._on_partial(send, bundle, settlement.remain, now, u)
            case Retry() as retry:
                return letters + self._on_retry(send, bundle, retry, now, u)
            case Split(reason):
                return letters + (self._on_split(send, bundle, reason) if remain else ())
            case Hold(reason):
                self._held(send, bundle, now, reason)
            case Reject(reason):
                return letters + (self._on_reject(send, bundle, reason, now) if remain else ())
        return letters

    def on_failed(self, send: Send, now: float, u: float) -> None:
        """
        The sender broke down over *send* before there was a verdict: it waits for another attempt.
        """
        self.on_verdict(send, Settlement(Retry(None, "internal error"), send.parts), now, u)

    def _on_delivered(self, send: Send, bundle: Bundle) -> tuple[Letter, ...]:
        self._came_through(send.epoch)
        self.ceiling.grow()
        if bundle.search is None:
            return ()
        return self._follow(bundle, bundle.search.passed(), "refused with its batch", None)

    def _came_through(self, epoch: int) -> None:
        self._successes += 1
        self._systemic = 0
        self.gate.passed(epoch)

    def _on_partial(self, send: Send, bundle: Bundle, remain: Parts, now: float, u: float) -> None:
        if remain != send.parts:
            self._successes += 1
            self._systemic = 0
        bundle.search = None
        if not remain:
            self.gate.passed(send.epoch)
            if bundle.count:
                self.stock.put_back(bundle)
            return
        bundle.attempts += 1
        self.gate.failed(send.epoch, now, u, None, "partly accepted")
        self._wait_again(bundle, exhausted=bundle.attempts > self._settings.retry_max_retries)

    def _on_retry(self, send: Send, bundle: Bundle, retry: Retry, now: float, u: float) -> tuple[Letter, ...]:
        bundle.attempts += 1
        current = send.epoch == self.gate.epoch
        self.gate.failed(send.epoch, now, u, retry.after, retry.reason)
        if not bundle.count:
            return ()
        if retry.lighten:
            self._lighten(send, bundle, retry.reason)
        suspicious = not retry.brownout and bundle.exhausted and self._successes > bundle.success_mark
        bundle.success_mark = self._successes
        if suspicious:
            bundle.strikes += 1
            if bundle.strikes >= STRIKES:
                return self._on_suspect(bundle, retry.reason)
        if bundle.attempts > self._settings.retry_max_retries:
            bundle.exhausted = True
            if current:
                self.gate.broke(retry.reason)
        if bundle.search is not None and bundle.strikes >= STRIKES and self._half_empty():
            # A search is not interrupted by a detour to the disk, or it would start anew for ever.
            self.stock.put_back(bundle, last=True)
            return ()
        too_long = retry.after is not None and retry.after > self._settings.retry_max_retry_after
        self._wait_again(bundle, exhausted=bundle.exhausted or too_long)
        return ()

    def _lighten(self, send: Send, bundle: Bundle, reason: str) -> None:
        if reason == Fault.UPLOAD_RESET.value:
            bundle.cut_uploads += 1
            if bundle.cut_uploads < 2:  # noqa: PLR2004
                return
        count = sum(part.count for part in send.parts)
        if count > 1:
            self.ceiling.shrink(count, bundle.body_bytes)

    def _on_suspect(self, bundle: Bundle, reason: str) -> tuple[Letter, ...]:
        """
        *bundle* failed again while others came through: search it as if it had been refused.
        """
        if bundle.search is not None:
            return self._follow(bundle, bundle.search.refused(), reason, DeadReason.REPEATED_FAILURE)
        if bundle.count == 1:
            return self._bury(bundle.parts, DeadReason.REPEATED_FAILURE, reason)
        bundle.search = Search(bundle.parts)
        self.stock.put_back(bundle, last=True)
        return ()

    def _wait_again(self, bundle: Bundle, *, exhausted: bool) -> None:
        if exhausted and self._ordered and self.disk.takes() and not self.stock.has_frame(bundle):
            # What is newer must not pass it while it is on disk.
            self.disk.remember(bundle)
            self.stock.put_back(bundle)
            self.stock.park_all()
        elif exhausted and not self._ordered and self.disk.takes():
            self.disk.remember(bundle)
            self.stock.park(bundle.parts)
        else:
            self.stock.put_back(bundle, last=exhausted and not self._ordered)

    def _on_split(self, send: Send, bundle: Bundle, reason: str) -> tuple[Letter, ...]:
        self._answered(send.epoch)
        if bundle.search is not None:
            bundle = bundle.with_parts(bundle.search.left())
        if bundle.count == 1:
            if bundle.truncate:
                return self._bury(bundle.parts, DeadReason.TOO_LARGE, reason)
            bundle.truncate = True
            self.stock.put_back(bundle)
            return ()
        self.ceiling.shrink(sum(part.count for part in send.parts), bundle.body_bytes)
        for half in halve(bundle.parts):
            self.stock.put_back(bundle.with_parts(half))
        return ()

    def _answered(self, epoch: int) -> None:
        # A refusal proves that the server is there and knows us, unless refusals are what the gate is held for.
        if not self._held_by_refusals():
            self.gate.passed(epoch)

    def _held_by_refusals(self) -> bool:
        return self._systemic >= SYSTEMIC and self.gate.state is GateState.HELD

    def _held(self, send: Send, bundle: Bundle, now: float, reason: str) -> None:
        self.gate.held(send.epoch, now, reason)
        if bundle.count:
            self.stock.put_back(bundle)

    def _on_reject(self, send: Send, bundle: Bundle, reason: str, now: float) -> tuple[Letter, ...]:
        if self._held_by_refusals():
            # Counted, so that in order too the next one may pass it and prove that it is the records after all.
            self.gate.held(send.epoch, now, reason)
            # Smaller each time: one good record that comes through tells that it is the records after all.
            for parts in halve(bundle.parts) if bundle.count > 1 else (bundle.parts,):
                piece = bundle.with_parts(parts)
                piece.attempts = bundle.attempts + 1
                self.stock.put_back(piece, last=not self._ordered)
            return ()
        self._answered(send.epoch)
        if bundle.search is not None:
            return self._follow(bundle, bundle.search.refused(), reason, None, now)
        if bundle.count > 1:
            bundle.search = Search(bundle.parts)
            self.stock.put_back(bundle)
            return ()
        return self._on_systemic(bundle, bundle.parts, reason, now)

    def _follow(
        self, bundle: Bundle, finding: Finding, reason: str, dead: DeadReason | None, now: float = 0.0
    ) -> tuple[Letter, ...]:
        """
        Do what the search of *bundle* found.
        """
        letters: tuple[Letter, ...] = ()
        if finding.culprit:
            letters = self._bury(finding.culprit, self._cause(bundle, dead), reason)
        if finding.systemic:
            if dead is not None:
                return letters + self._bury(finding.undecided, dead, reason)
            return letters + self._on_systemic(bundle, finding.undecided, reason, now)
        if finding.undecided:
            return letters + self._undecided(bundle, finding.undecided, reason)
        if not finding.done and bundle.search is not None:
            bundle.narrow(bundle.search.left())
            self.stock.put_back(bundle, last=bundle.strikes >= STRIKES)
        return letters

    def _cause(self, bundle: Bundle, dead: DeadReason | None) -> DeadReason:
        return dead or (DeadReason.REPEATED_FAILURE if bundle.strikes >= STRIKES else DeadReason.REJECTED)

    def _on_systemic(self, bundle: Bundle, parts: Parts, reason: str, now: float) -> tuple[Letter, ...]:
        """
        *parts* were refused from end to end: once or twice it may be they, after that it is not the records.
        """
        self._systemic += 1
        if self._systemic >= SYSTEMIC:
            self.gate.held(self.gate.epoch, now, f"everything is refused: {reason}")
            self.stock.put_back(bundle.with_parts(parts))
            return ()
        if sum(part.count for part in parts) == 1:
            return self._bury(parts, DeadReason.REJECTED, reason)
        return self._undecided(bundle, parts, reason)

    def _undecided(self, bundle: Bundle, parts: Parts, reason: str) -> tuple[Letter, ...]:
        again = bundle.with_parts(parts)
        again.rounds += 1
        if again.rounds >= ROUNDS:
            return self._bury(parts, DeadReason.UNRESOLVED, reason)
        self.stock.put_back(again, last=not self._ordered)
        return ()

    def _bury(self, parts: Parts, reason: DeadReason, detail: str) -> tuple[Letter, ...]:
        settlement = bury(parts, reason, detail)
        self.stock.book(settlement)
        return settlement.letters

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
            lost = add(lost, self.intake.take().bands)
        lost = add(lost, self.disk.abandon())
        self.ledger.drop(DropReason.UNDELIVERED, lost)
        return lost

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
        if self.intake.front or self.intake.side:
            self.intake.drain(now)
        self.intake.seal_if_due(now)


def _bytes(part: Part) -> int:
    if part.ordinals is None:
        return len(part.batch.records)
    return len(part.batch.records) * len(part.ordinals) // part.batch.count
