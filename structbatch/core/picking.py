# SPDX-License-Identifier: Apache-2.0
"""
Whose turn it is: fresh batches, bundles that wait for another attempt, frames that were loaded, and probes.
"""

from __future__ import annotations

from structbatch.core.bundle import STRIKES, Bundle
from structbatch.core.ceiling import Ceiling
from structbatch.core.gate import Gate, GateState
from structbatch.core.intake import Intake
from structbatch.core.settings import Order, Settings
from structbatch.core.spooling import DiskSide
from structbatch.core.stock import Stock
from structbatch.core.vendor import Limits, Part


class Picker:
    """
    Args:
        settings: All of them.

        limits: The vendor's.

        intake: Where fresh batches are.

        stock: Where bundles wait.

        gate: A broken or held gate asks for probes.

        ceiling: How large a request may be.

        disk: Knows whether older batches are on disk.
    """

    def __init__(
        self,
        settings: Settings,
        limits: Limits,
        intake: Intake,
        stock: Stock,
        gate: Gate,
        ceiling: Ceiling,
        disk: DiskSide,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._ordered = settings.order is Order.OLDEST_FIRST
        self._intake = intake
        self._stock = stock
        self._gate = gate
        self._ceiling = ceiling
        self._disk = disk
        self._turn = 0

    def pick(self, inflight: int) -> Bundle | None:
        """
        The bundle whose turn it is, taken from where it waits, beside *inflight* others.
        """
        stock = self._stock
        if self._ordered:
            return None if inflight else self._pick_oldest()
        if self._gate.state in (GateState.BROKEN, GateState.HELD):
            return self._pick_probe()
        if stock.retry:
            return stock.retry.popleft()
        older = stock.exhausted or stock.replay
        self._turn += 1
        if self._intake.sealed and not (older and self._turn % 3 == 0):
            fresh = self._take_sealed()
            if fresh is not None:
                return fresh
        return self._pop_older()

    def _pick_oldest(self) -> Bundle | None:
        stock = self._stock
        self._turn += 1
        if self._turn % 2:
            passing = self._pass_blocked()
            if passing is not None:
                return passing
        if stock.retry:
            return stock.retry.popleft()
        # While frames remain, what is newer than they goes through the disk as well.
        return self._pop_older() or (None if self._disk.holds_order() else self._take_sealed())

    def _pass_blocked(self) -> Bundle | None:
        """
        Whatever may go before an oldest bundle that keeps failing, or that would block all others for ever.
        """
        retry = self._stock.retry
        patience = self._settings.retry_max_retries + 1 + STRIKES
        blocked = retry[0].attempts >= patience if retry else bool(self._stock.exhausted)
        if not blocked:
            return None
        for index, bundle in enumerate(retry):
            if bundle.attempts < patience:
                del retry[index]
                return bundle
        if self._stock.replay:
            return self._stock.replay.popleft()
        if self._intake.sealed and not self._disk.holds_order():
            fresh = self._take_sealed()
            if fresh is not None:
                return fresh
        return retry.pop() if retry else None

    def _pick_probe(self) -> Bundle | None:
        """
        The newest live batch and the oldest bundle by turns: one of them may be what the server chokes on.
        """
        self._turn += 1
        if self._turn % 2 and self._intake.sealed and self.has_room(len(self._intake.sealed[-1].records)):
            return Bundle([self._stock.board(self._intake.take(newest=True))])
        if self._stock.retry:
            return self._stock.retry.pop() if self._turn % 2 else self._stock.retry.popleft()
        return self._pop_older() or self._take_sealed()

    def _pop_older(self) -> Bundle | None:
        stock = self._stock
        first, second = stock.exhausted, stock.replay
        if self._turn % 2:
            first, second = second, first
        waiting = first or second
        return waiting.popleft() if waiting else None

    def _take_sealed(self) -> Bundle | None:
        """
        Sealed batches, oldest first, as many as one request may carry.
        """
        sealed = self._intake.sealed
        parts: list[Part] = []
        records = size = 0
        most = self._limits.max_batches if self._settings.batch_coalesce else 1
        while sealed and (most is None or len(parts) < most):
            count, length = sealed[0].count, len(sealed[0].records)
            if not self.has_room(length):
                break
            if parts and not self._ceiling.fits(records + count, size + length):
                break
            records, size = records + count, size + length
            parts.append(self._stock.board(self._intake.take()))
        return Bundle(parts) if parts else None

    def has_fresh(self) -> bool:
        """
        Whether a sealed batch waits and may become a request.
        """
        sealed = self._intake.sealed
        return bool(sealed) and self.has_room(len(sealed[0].records))

    def has_room(self, record_bytes: int) -> bool:
        """
        Whether so many record bytes more may be in memory for requests; one batch always may.
        """
        return not self._stock.bytes or self._stock.bytes + record_bytes <= self._settings.inflight_max_bytes
