# SPDX-License-Identifier: Apache-2.0
"""
Our own voice: one line on stderr per change of state, never through a pipeline, never with a payload.
"""

from __future__ import annotations

import enum
import sys

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


QUIET: Final = 60.0
"""
Seconds for which one kind of problem of one pipeline is not said again.
"""


class ProblemKind(enum.Enum):
    """
    What a problem is about.
    """

    HELD = "held"
    BROKEN = "broken"
    RECOVERED = "recovered"
    DROPPING = "dropping"
    DEAD = "dead"
    CLOSED = "closed"
    COMPRESSION = "compression"
    BEFORE = "before"
    THREADS = "threads"
    INTERNAL = "internal"
    MISPLACED = "misplaced"


@dataclass(frozen=True, slots=True)
class Problem:
    """
    Something that a person should know.

    Args:
        kind: What it is about.

        pipeline: Whose it is.

        message: One line, without secrets and without anything of an event.
    """

    kind: ProblemKind
    pipeline: str
    message: str


class Voice:
    """
    Says problems, each kind once a minute.

    Takes no lock, neither ours nor those of :mod:`logging`: a repetition in a race is harmless.

    Args:
        pipeline: Its name, for the line.

        on_problem: Told instead of stderr; what it raises is swallowed, for nobody is left to tell.
    """

    def __init__(self, pipeline: str, on_problem: Callable[[Problem], None] | None) -> None:
        self._pipeline = pipeline
        self._on_problem = on_problem
        self._said: dict[ProblemKind, float] = {}

    def say(self, kind: ProblemKind, message: str, now: float) -> bool:
        """
        Say it, unless the same kind was said less than `QUIET` seconds ago. Returns whether it was said.
        """
        last = self._said.get(kind)
        if last is not None and now - last < QUIET:
            return False
        self._said[kind] = now
        problem = Problem(kind, self._pipeline, message)
        try:
            if self._on_problem is not None:
                self._on_problem(problem)
            else:
                sys.stderr.write(f"structbatch [{self._pipeline}] {kind.value}: {message}\n")
        except Exception:  # noqa: BLE001, a closed stderr or a broken callback must not end a sender
            return True
        return True
