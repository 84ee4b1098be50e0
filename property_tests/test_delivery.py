# SPDX-License-Identifier: Apache-2.0
"""
The delivery machine against a hostile world: whatever happens in whatever order, the account closes and nothing that
was promised is broken.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from property_tests.endings import World
from property_tests.world import MOODS, SOURCES, Kind, Known, mood_of
from structbatch.core.settings import Order, Settings
from structbatch.core.vendor import Limits


KINDS = st.sampled_from([*[Kind.GOOD] * 30, *Kind])
KNOWN = st.builds(
    Known, KINDS, st.integers(0, 24), st.sampled_from([22, 30, 60, 300, 1000]), st.sampled_from([SOURCES[0], *SOURCES])
)
BURSTS = st.lists(KNOWN, min_size=1, max_size=15)
ENDINGS = ("recovers", "closes", "dies", "rescues")


@st.composite
def settings(draw: st.DrawFn) -> Settings:
    """
    Small limits, so that they are met.
    """
    return Settings(
        batch_max_records=draw(st.integers(1, 9)),
        batch_max_bytes=draw(st.sampled_from([4096, 8192])),
        batch_linger=draw(st.sampled_from([0.0, 0.5, 2.0])),
        batch_urgent_severity=draw(st.sampled_from([0, 0, 17])),
        batch_coalesce=draw(st.booleans()),
        queue_max_records=draw(st.integers(5, 60)),
        queue_max_bytes=draw(st.sampled_from([8192, 16384])),
        inflight_max_bytes=draw(st.sampled_from([8192, 16384])),
        max_event_bytes=1024,
        retry_max_retries=draw(st.integers(0, 3)),
        retry_max_retry_after=10.0,
        max_senders=draw(st.integers(1, 4)),
        order=draw(st.sampled_from(Order)),
    )


LIMITS = st.builds(
    Limits,
    max_records=st.sampled_from([3, 20, 1000]),
    max_bytes=st.sampled_from([2500, 9000, 8_000_000]),
    max_batches=st.sampled_from([None, None, 1]),
)


class DeliveryMachine(RuleBasedStateMachine):
    """
    Rules are small and start or finish one thing; `outage` and `exchange` go deep.
    """

    @initialize(
        settings=settings(),
        limits=LIMITS,
        spool=st.booleans(),
        expansion=st.sampled_from([1.0, 1.0, 3.0]),
        earlier=st.lists(st.integers(1, 4), max_size=3),
        ending=st.sampled_from(ENDINGS),
    )
    def begin(
        self, settings: Settings, limits: Limits, spool: bool, expansion: float, earlier: list[int], ending: str
    ) -> None:
        """
        A process starts, maybe with frames of an earlier one.
        """
        self.driver = World(settings, limits, spool=spool, expansion=expansion, earlier=earlier if spool else [])
        self.ending = ending
        self.steps = 0

    @rule(burst=BURSTS)
    def events(self, burst: list[Known]) -> None:
        """
        The application logs.
        """
        for known in burst:
            self.driver.offer(known)

    @rule(known=KNOWN, times=st.integers(1, 20))
    def events_of_a_loop(self, known: Known, times: int) -> None:
        """
        The application logs the same again and again.
        """
        for _ in range(times):
            self.driver.offer(known)

    @rule(burst=BURSTS)
    def events_inside(self, burst: list[Known]) -> None:
        """
        A handler or a finalizer logs inside the lock.
        """
        for known in burst:
            self.driver.defer(known)

    @rule(burst=BURSTS, at=st.integers(0, 70))
    def events_interrupted(self, burst: list[Known], at: int) -> None:
        """
        An exception comes out of the middle of an event, of each event of a burst.
        """
        for known in burst:
            self.driver.offer(known, interrupted_at=at)

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.3, 1.0, 5.0, 61.0, 301.0]))
    def tick(self, seconds: float) -> None:
        """
        Time passes.
        """
        self.driver.tick(seconds)

    @rule(word=st.sampled_from([*["ok"] * 4, *MOODS]), amount=st.floats(0, 1), u=st.sampled_from([0.0, 0.5, 0.999]))
    def mood(self, word: str, amount: float, u: float) -> None:
        """
        The server changes its mind.
        """
        self.driver.server.mood = mood_of(word, amount)
        self.driver.u = u

    @rule(failing=st.booleans())
    def disk(self, failing: bool) -> None:
        """
        The disk fails, or works again.
        """
        self.driver.disk.failing = failing

    @rule()
    def send(self) -> None:
        """
        A sender looks for work.
        """
        self.driver.send()

    @precondition(lambda self: self.driver.sends)
    @rule(index=st.integers(0, 3))
    def answer(self, index: int) -> None:
        """
        An answer arrives.
        """
        self.driver.answer(index)

    @precondition(lambda self: self.driver.sends)
    @rule(index=st.integers(0, 3))
    def fail(self, index: int) -> None:
        """
        A sender breaks down.
        """
        self.driver.fail(index)

    @precondition(lambda self: self.driver.spooling is None)
    @rule()
    def spool(self) -> None:
        """
        The spooler looks for work.
        """
        self.driver.spool()

    @precondition(lambda self: self.driver.spooling is not None)
    @rule()
    def spooled(self) -> None:
        """
        The spooler has done it.
        """
        self.driver.spooled()

    @rule(rounds=st.integers(1, 12), seconds=st.sampled_from([0.0, 0.1, 3.0, 70.0]))
    def exchange(self, rounds: int, seconds: float) -> None:
        """
        Everything that is due, for a while.
        """
        for _ in range(rounds):
            self.driver.exchange()
            self.driver.tick(seconds)
            self.driver.check()

    @rule()
    def flush(self) -> None:
        """
        Somebody waits for what was emitted so far.
        """
        self.driver.flush()

    @precondition(lambda self: self.steps > 30)
    @rule()
    def close(self) -> None:
        """
        The application is done, and may log nevertheless.
        """
        self.driver.close()

    @invariant()
    def rules(self) -> None:
        """
        Every rule about a state holds.
        """
        self.steps += 1
        self.driver.check()

    def teardown(self) -> None:
        """
        How it ends: nothing is left, whatever happened before.
        """
        if not hasattr(self, "driver"):
            return
        match self.ending:
            case "recovers":
                self.driver.recover()
            case "closes":
                self.driver.close()
                self.driver.recover()
            case "dies":
                self.driver.abandon()
                self.driver.end()
                assert not self.driver.oracle_waits()
            case "rescues":
                self.driver.rescue()


TestDelivery = DeliveryMachine.TestCase
