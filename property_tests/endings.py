# SPDX-License-Identifier: Apache-2.0
"""
Many steps at once: everything that is due, and how it ends.
"""

from __future__ import annotations

from property_tests.driver import Driver
from property_tests.oracle import Place
from property_tests.world import Kind, Known, Mood
from structbatch.core.actions import Done, Send
from structbatch.core.gate import GateState
from structbatch.core.spooling import Acknowledge


class World(Driver):
    """
    A driver that goes on until nothing is left.
    """

    def exchange(self) -> None:
        """
        Everything that may be sent or written now, each thing finished before the next starts.
        """
        self._exchange_with_disk()
        for _ in range(self.settings.max_senders):
            if not isinstance(self.send(), Send):
                break
        while self.sends:
            self.answer(0)
        self._exchange_with_disk()

    def _exchange_with_disk(self) -> None:
        if self.spooling is not None:
            self.spooled()
        self.spool()
        if self.spooling is not None:
            self.spooled()

    def recover(self) -> None:
        """
        Server and disk work again, and others come through: everything is settled in bounded steps.
        """
        self.server.mood = Mood("ok")
        self.disk.failing = False
        for turn in range((5 if self.closed else 20) * len(self.known) + 100):
            if not self._anything_left():
                break
            if turn % 5 == 0 and not self.closed:
                self.offer(Known(Kind.GOOD, 9, 30))
                self.delivery.flush()
            self.exchange()
            self.tick(301.0)
            self.check()
        if (self.closed and self._needs_others()) or self._refusals_fill_memory():
            self.abandon()
            self.end()
            return
        assert not self._anything_left(), self.delivery.account()
        self._everything_arrived()

    def _refusals_fill_memory(self) -> bool:
        """
        Whether so much is refused that nothing else fits beside it: then it is held, for a person to look.
        """
        full = self.oracle.bytes_outside() + self.settings.batch_max_bytes > self.settings.inflight_max_bytes // 2
        return full and self.delivery.gate.state is GateState.HELD

    def _needs_others(self) -> bool:
        """
        Whether what is left can only be judged while others come through, and nothing else is left after close.
        """
        left = {self.known[number].kind for number, place in self.oracle.place.items() if place is Place.MEMORY}
        return Kind.DOOMED in left or (self.delivery.gate.state is GateState.HELD and Kind.POISON in left)

    def _anything_left(self) -> bool:
        on_disk = not self.closed and bool(self.disk.frames)
        return on_disk or self.oracle_waits() or bool(self.spooling) or bool(self.delivery.stock.acks)

    def _everything_arrived(self) -> None:
        for number, place in self.oracle.place.items():
            kind = self.known[number].kind
            assert place is not Place.DELIVERED or self.server.received.get(number)
            assert place is not Place.DISK or self.closed
            if kind is Kind.POISON:
                assert place in (Place.DEAD, Place.LOST, Place.DISK)

    def rescue(self) -> None:
        """
        The server stays dead and time is up: with a disk, everything is on it or settled.
        """
        self.server.mood = Mood("busy")
        self.disk.failing = False
        self.close()
        self.disown()
        self.delivery.disk.rescue = True
        for _ in range(10 * len(self.known) + 50):
            if self.spooling is not None:
                self.spooled()
            elif isinstance(self.spool(), Done):
                break
            self.tick(61.0)
            self.check()
        waits = self.oracle_waits()
        assert not (waits and self.delivery.disk.enabled)
        self.abandon()
        self.end()
        assert not self.oracle_waits()

    def end(self) -> None:
        """
        Threads come home after `abandon`.
        """
        while self.sends:
            self.answer(0)
            self.check()
        if self.spooling is not None:
            self.spooled()
        while isinstance(self.spool(), Acknowledge):
            self.check()
        self.check()
        assert isinstance(self.delivery.next_send(self.now), Done)
        assert isinstance(self.delivery.next_spool(self.now), Done)
