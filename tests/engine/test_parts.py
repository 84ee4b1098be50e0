# SPDX-License-Identifier: Apache-2.0
"""
The small parts of the engine: waiting, the watchdog, our own voice, exceptions, results, the process.
"""

from __future__ import annotations

import gc
import sys
import threading
import time

from typing import Any

import pytest

from structbatch.engine import process
from structbatch.engine.exceptions import with_exception
from structbatch.engine.selflog import QUIET, Problem, ProblemKind, Voice
from structbatch.engine.stats import FlushResult
from structbatch.engine.waiting import Sleeper, Sleepers
from structbatch.engine.watchdog import Watchdog
from tests.support.pipelines import FakeTransport, Problems, offline


class TestSleepers:
    """
    Waking is never lost.
    """

    def test_woken_before_it_sleeps(self) -> None:
        """
        A waking between the registration and the sleep counts.
        """
        sleepers = Sleepers()
        sleeper = sleepers.enter()
        sleepers.wake_all()

        assert sleeper.wait(0)
        assert not sleepers

    def test_nobody_wakes_it(self) -> None:
        """
        It wakes by itself, and a time in the past is no wait at all.
        """
        assert not Sleeper().wait(0.001)
        assert not Sleeper().wait(-5)

    def test_one_at_a_time_the_last_first(self) -> None:
        """
        The one that fell asleep last.
        """
        sleepers = Sleepers()
        first, second = sleepers.enter(), sleepers.enter()
        sleepers.wake_one()

        assert (False, True) == (first.wait(0), second.wait(0))
        assert sleepers

    def test_whoever_left_is_not_woken(self) -> None:
        """
        Leaving twice is harmless.
        """
        sleepers = Sleepers()
        sleeper = sleepers.enter()
        sleepers.leave(sleeper)
        sleepers.leave(sleeper)
        sleepers.wake_one()

        assert not sleeper.wait(0)

    def test_a_time_beyond_what_a_lock_takes(self) -> None:
        """
        `threading.TIMEOUT_MAX` bounds it.
        """
        sleepers = Sleepers()
        sleeper = sleepers.enter()
        sleepers.wake_one()

        assert sleeper.wait(1e300)


class TestWatchdog:
    """
    Deadlines.
    """

    def test_it_ends_what_is_overdue_and_only_that(self) -> None:
        """
        Each request by its own deadline.
        """
        ticked = threading.Event()
        watchdog = Watchdog(ticked.set)
        late, early = FakeTransport(), FakeTransport()
        watchdog.begin(1, late, time.monotonic() + 600)
        watchdog.begin(2, early, time.monotonic())
        watchdog.start()
        aborted = early.aborted.wait(5)
        watchdog.stop()

        assert aborted
        assert ticked.wait(5)
        assert not late.aborted.is_set()

    def test_what_is_over_is_left_alone(self) -> None:
        """
        Ending twice is harmless.
        """
        watchdog = Watchdog(lambda: None)
        transport = FakeTransport()
        watchdog.begin(1, transport, time.monotonic() + 600)
        watchdog.end(1)
        watchdog.end(1)
        watchdog.abort_all()

        assert not transport.aborted.is_set()

    def test_abort_all(self) -> None:
        """
        At close, whatever their deadlines; one that raises stops none of the others.
        """

        class Stubborn(FakeTransport):
            def abort(self) -> None:
                raise RuntimeError

        watchdog = Watchdog(lambda: None)
        transport = FakeTransport()
        watchdog.begin(1, Stubborn(), time.monotonic() + 600)
        watchdog.begin(2, transport, time.monotonic() + 600)
        watchdog.abort_all()

        assert transport.aborted.is_set()


class TestVoice:
    """
    One line for a person.
    """

    def test_each_kind_once_a_minute(self) -> None:
        """
        A repetition within `QUIET` is not said, another kind is.
        """
        problems = Problems()
        voice = Voice("shop", problems)
        said = [
            voice.say(ProblemKind.HELD, "a", 0.0),
            voice.say(ProblemKind.HELD, "b", QUIET - 1),
            voice.say(ProblemKind.DEAD, "c", QUIET - 1),
            voice.say(ProblemKind.HELD, "d", QUIET),
        ]

        assert [True, False, True, True] == said
        assert ["a", "c", "d"] == [problem.message for problem in problems]
        assert Problem(ProblemKind.HELD, "shop", "a") == problems[0]

    def test_stderr_by_default(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        One line, with the pipeline's name.
        """
        Voice("shop", None).say(ProblemKind.HELD, "403", 0.0)

        assert "structbatch [shop] held: 403\n" == capsys.readouterr().err

    @pytest.mark.parametrize("stderr", [None, open(__file__, encoding="utf-8")])  # noqa: SIM115
    def test_without_a_stderr(self, stderr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Under pythonw there is none; a closed one refuses.
        """
        monkeypatch.setattr(sys, "stderr", stderr)

        assert Voice("shop", None).say(ProblemKind.HELD, "403", 0.0)


class MuteError(Exception):
    """
    Has no text.
    """

    def __str__(self) -> str:
        raise RuntimeError


class TestExceptions:
    """
    ``exc_info`` in all its forms.
    """

    def test_an_exception_a_triple_and_true(self) -> None:
        """
        All three say the same, and the original is not changed.
        """
        try:
            int("v")
        except ValueError as error:
            forms: list[Any] = [error, sys.exc_info(), True]
            events = [{"event": "x", "exc_info": form} for form in forms]
            results = [with_exception(event) for event in events]

        assert all(result == results[0] for result in results)
        assert "ValueError" == results[0]["exception.type"]
        assert "'v'" in results[0]["exception.message"]
        assert "\nValueError: invalid literal" in results[0]["exception.stacktrace"]
        assert all("exc_info" in event for event in events)

    @pytest.mark.parametrize("form", [None, False, (None, None, None), (1, 2), True, "", 0])
    def test_nothing_to_tell(self, form: Any) -> None:
        """
        No exception, no field.
        """
        assert {"event": "x"} == with_exception({"event": "x", "exc_info": form})

    def test_the_applications_own_fields_win(self) -> None:
        """
        And the type has its module.
        """
        described = with_exception({"exc_info": MuteError(), "exception.message": "mine"})

        assert "mine" == described["exception.message"]
        assert described["exception.type"].endswith("test_parts.MuteError")

    def test_an_exception_without_a_text(self) -> None:
        """
        Its own methods may fail.
        """
        assert "<str() raised>" == with_exception({"exc_info": MuteError()})["exception.message"]


class TestFlushResult:
    """
    A truth value.
    """

    @pytest.mark.parametrize(
        ("result", "expected"),
        [
            (FlushResult(0, 0, 0, 0), True),
            (FlushResult(5, 5, 0, 0), True),
            (FlushResult(5, 0, 0, 1), False),
            (FlushResult(5, 0, 1, 0), False),
        ],
    )
    def test_true_when_nothing_waits_or_is_lost(self, result: FlushResult, expected: bool) -> None:
        """
        So that ``assert pipeline.flush()`` says what it looks like.
        """
        assert expected is bool(result)


class TestProcess:
    """
    Hooks of the process.
    """

    def test_pipelines_are_held_weakly(self) -> None:
        """
        One that is gone costs nothing.
        """
        gc.collect()
        before = len(process._pipelines)
        for _ in range(10):
            offline()[0].close()
        gc.collect()

        assert before == len(process._pipelines)

    def test_a_recipe_makes_it_anew(self) -> None:
        """
        In another process the pickle asks for it, and remembers the key: two pickles are one pipeline.
        """
        made = []

        def recipe() -> Any:
            made.append(offline()[0])
            return made[-1]

        first = process.attach("key-of-another-process", recipe)
        second = process.attach("key-of-another-process", recipe)

        assert first is second
        assert 1 == len(made)

    def test_a_reset_forgets_everything(self) -> None:
        """
        What the fork hook does in the child: empty, open, under other ids, with a lock that nobody holds.
        """
        pipeline, transport = offline(batch_linger=60)
        pipeline.emit({"event": "of the parent", "n": 1})
        lock = pipeline._lock
        pipeline._reset_after_fork()
        stats = pipeline.stats()
        pipeline.emit({"event": "of the child", "n": 2})
        pipeline.close()

        assert 0 == stats.emitted == stats.waiting
        assert lock is not pipeline._lock
        assert [2] == [event["n"] for event in transport.events]
