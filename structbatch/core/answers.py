# SPDX-License-Identifier: Apache-2.0
"""
What an answer means for a bundle: gone, waiting again, halved, searched for poison, dead.
"""

from __future__ import annotations

from typing import Final

from structbatch.core.actions import Send
from structbatch.core.bundle import STRIKES, Bundle
from structbatch.core.ceiling import Ceiling
from structbatch.core.gate import Gate, GateState
from structbatch.core.ledger import DeadReason
from structbatch.core.poison import Finding, Parts, Search, halve, merge, subtract
from structbatch.core.settings import Order, Settings
from structbatch.core.settlement import Letter, Settlement, bury
from structbatch.core.spooling import DiskSide
from structbatch.core.stock import Stock
from structbatch.core.verdict import Delivered, Hold, Partial, Reject, Retry, Split
from structbatch.errors import Fault


ROUNDS: Final = 3
"""
Budgets that a search for poison gets before what is undecided is dead.
"""

SYSTEMIC: Final = 3
"""
Batches refused from end to end in a row that say: it is not the records.
"""


class Answers:
    """
    Args:
        settings: Its ``retry_*`` part, and ``inflight_max_bytes``.

        stock: Where what is owed waits.

        gate: Told how the destination is.

        ceiling: Told what was too large.

        disk: Takes what has used up its attempts.
    """

    def __init__(self, settings: Settings, stock: Stock, gate: Gate, ceiling: Ceiling, disk: DiskSide) -> None:
        self._settings = settings
        self._ordered = settings.order is Order.OLDEST_FIRST
        self._stock = stock
        self._gate = gate
        self._ceiling = ceiling
        self._disk = disk
        self._successes = 0
        self._systemic = 0

    def judge(self, send: Send, settlement: Settlement, now: float, u: float) -> tuple[Letter, ...]:
        """
        Do what *settlement* says of *send*, which is no longer in flight. Returns the dead letters that it leaves.
        """
        self._stock.book(settlement)
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

    def _on_delivered(self, send: Send, bundle: Bundle) -> tuple[Letter, ...]:
        self._came_through(send.epoch)
        self._ceiling.grow()
        if bundle.search is None:
            return ()
        return self._follow(bundle, bundle.search.passed(), "refused with its batch", None)

    def _came_through(self, epoch: int) -> None:
        self._successes += 1
        self._systemic = 0
        self._gate.passed(epoch)

    def _on_partial(self, send: Send, bundle: Bundle, remain: Parts, now: float, u: float) -> None:
        if remain != send.parts:
            self._successes += 1
            self._systemic = 0
        bundle.search = None
        if not remain:
            self._gate.passed(send.epoch)
            if bundle.count:
                self._stock.put_back(bundle)
            return
        bundle.attempts += 1
        self._gate.failed(send.epoch, now, u, None, "partly accepted")
        self._wait_again(bundle, exhausted=bundle.attempts > self._settings.retry_max_retries)

    def _on_retry(self, send: Send, bundle: Bundle, retry: Retry, now: float, u: float) -> tuple[Letter, ...]:
        bundle.attempts += 1
        current = send.epoch == self._gate.epoch
        self._gate.failed(send.epoch, now, u, retry.after, retry.reason)
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
                self._gate.broke(retry.reason)
        if bundle.search is not None and bundle.strikes >= STRIKES and self._half_empty():
            # A search is not interrupted by a detour to the disk, or it would start anew for ever.
            self._stock.put_back(bundle, last=True)
            return ()
        if bundle.exhausted and not retry.brownout and bundle.count > 1 and not self._others_fit():
            # Nothing can come through beside it and prove that it is the records: some of it may, on its own.
            for parts in halve(bundle.parts):
                piece = bundle.with_parts(parts)
                piece.attempts, piece.exhausted = bundle.attempts, True
                self._stock.put_back(piece, last=not self._ordered)
            return ()
        too_long = retry.after is not None and retry.after > self._settings.retry_max_retry_after
        self._wait_again(bundle, exhausted=bundle.exhausted or too_long)
        return ()

    def _lighten(self, send: Send, bundle: Bundle, reason: str) -> None:
        if reason == Fault.UPLOAD_RESET.value:
            bundle.cut_uploads += 1
            if bundle.cut_uploads < 2:
                return
        count = sum(part.count for part in send.parts)
        if count > 1:
            self._ceiling.shrink(count, bundle.body_bytes)

    def _on_suspect(self, bundle: Bundle, reason: str) -> tuple[Letter, ...]:
        """
        *bundle* failed again while others came through: search it as if it had been refused.
        """
        if bundle.search is not None:
            return self._follow(bundle, bundle.search.refused(), reason, DeadReason.REPEATED_FAILURE)
        if bundle.count == 1:
            return self._bury(bundle.parts, DeadReason.REPEATED_FAILURE, reason)
        bundle.search = Search(bundle.parts)
        self._stock.put_back(bundle, last=True)
        return ()

    def _wait_again(self, bundle: Bundle, *, exhausted: bool) -> None:
        if exhausted and self._ordered and self._disk.takes() and not self._stock.has_frame(bundle):
            # What is newer must not pass it while it is on disk.
            self._disk.remember(bundle)
            self._stock.put_back(bundle)
            self._stock.park_all()
        elif exhausted and not self._ordered and self._disk.takes():
            self._disk.remember(bundle)
            self._stock.park(bundle.parts)
        else:
            self._stock.put_back(bundle, last=exhausted and not self._ordered)

    def _on_split(self, send: Send, bundle: Bundle, reason: str) -> tuple[Letter, ...]:
        self._answered(send.epoch)
        if bundle.search is not None:
            bundle = bundle.with_parts(bundle.search.left())
        if bundle.count == 1:
            if bundle.truncate:
                return self._bury(bundle.parts, DeadReason.TOO_LARGE, reason)
            bundle.truncate = True
            self._stock.put_back(bundle)
            return ()
        self._ceiling.shrink(sum(part.count for part in send.parts), bundle.body_bytes)
        for half in halve(bundle.parts):
            self._stock.put_back(bundle.with_parts(half))
        return ()

    def _answered(self, epoch: int) -> None:
        # A refusal proves that the server is there and knows us, unless refusals are what the gate is held for.
        if not self._held_by_refusals():
            self._gate.passed(epoch)

    def _held_by_refusals(self) -> bool:
        return self._systemic >= SYSTEMIC and self._gate.state is GateState.HELD

    def _held(self, send: Send, bundle: Bundle, now: float, reason: str) -> None:
        self._gate.held(send.epoch, now, reason)
        if bundle.count:
            self._stock.put_back(bundle)

    def _on_reject(self, send: Send, bundle: Bundle, reason: str, now: float) -> tuple[Letter, ...]:
        if self._held_by_refusals():
            # Counted, so that in order too the next one may pass it and prove that it is the records after all.
            self._gate.held(send.epoch, now, reason)
            # Smaller each time: one good record that comes through tells that it is the records after all.
            for parts in halve(bundle.parts) if bundle.count > 1 else (bundle.parts,):
                piece = bundle.with_parts(parts)
                piece.attempts = bundle.attempts + 1
                self._stock.put_back(piece, last=not self._ordered)
            return ()
        self._answered(send.epoch)
        if bundle.search is not None:
            return self._follow(bundle, bundle.search.refused(), reason, None, now)
        if bundle.count > 1:
            bundle.search = Search(bundle.parts)
            self._stock.put_back(bundle)
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
            self._stock.put_back(bundle, last=bundle.strikes >= STRIKES)
        return letters

    def _cause(self, bundle: Bundle, dead: DeadReason | None) -> DeadReason:
        return dead or (DeadReason.REPEATED_FAILURE if bundle.strikes >= STRIKES else DeadReason.REJECTED)

    def _on_systemic(self, bundle: Bundle, parts: Parts, reason: str, now: float) -> tuple[Letter, ...]:
        """
        *parts* were refused from end to end: once or twice it may be they, after that it is not the records.
        """
        self._systemic += 1
        if self._systemic >= SYSTEMIC:
            self._gate.held(self._gate.epoch, now, f"everything is refused: {reason}")
            self._stock.put_back(bundle.with_parts(parts))
            return ()
        if sum(part.count for part in parts) == 1:
            return self._bury(parts, DeadReason.REJECTED, reason)
        return self._undecided(bundle, parts, reason)

    def _undecided(self, bundle: Bundle, parts: Parts, reason: str) -> tuple[Letter, ...]:
        again = bundle.with_parts(parts)
        again.rounds += 1
        if again.rounds >= ROUNDS:
            return self._bury(parts, DeadReason.UNRESOLVED, reason)
        self._stock.put_back(again, last=not self._ordered)
        return ()

    def _bury(self, parts: Parts, reason: DeadReason, detail: str) -> tuple[Letter, ...]:
        settlement = bury(parts, reason, detail)
        self._stock.book(settlement)
        return settlement.letters

    def _others_fit(self) -> bool:
        left = self._settings.inflight_max_bytes - self._stock.bytes
        return self._disk.takes() or left >= self._settings.batch_max_bytes

    def _half_empty(self) -> bool:
        return self._stock.bytes * 2 <= self._settings.inflight_max_bytes
