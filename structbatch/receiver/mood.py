# SPDX-License-Identifier: Apache-2.0
"""
How the receiver answers for now: well, with a status, late, or not at all.
"""

from __future__ import annotations

import math

from typing import Annotated, Literal

import msgspec

from structbatch.receiver.refusal import Refusal


class Mood(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    What ``POST /control`` says.

    Args:
        mode:
            ``ok``: events are counted. ``status``: all requests get *status*, nothing is counted. ``reset``: the
            connection is torn down instead of an answer, nothing is counted. ``lost_answer``: events are counted,
            then the connection is torn down, so that a careful client sends them again.

        status: For mode ``status``.

        retry_after: Value of the ``Retry-After`` header, in seconds; None sends none.

        delay: Seconds between the complete request and its answer.

        duration: Seconds until all is well again (``for`` in JSON); None: until told otherwise.
    """

    mode: Literal["ok", "status", "reset", "lost_answer"] = "ok"
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] = 503
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    delay: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0.0
    duration: Annotated[float, msgspec.Meta(ge=0)] | None = msgspec.field(default=None, name="for")


WELL = Mood()
"""
The mood to start with and to return to.
"""

_decoder = msgspec.json.Decoder(Mood)


def read_mood(body: bytes) -> Mood:
    """
    The `Mood` of a control request.

    Raises:
        Refusal: 400 with what is wrong.
    """
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise Refusal(400, str(error)[:200]) from error


class Temper:
    """
    The mood with its end. Not thread-safe: it belongs to the event loop.
    """

    def __init__(self) -> None:
        self._mood = WELL
        self._until = math.inf

    def set(self, mood: Mood, now: float) -> None:
        """
        Be in *mood* from *now* (seconds, monotonic) on, for as long as it says.
        """
        self._mood = mood
        self._until = math.inf if mood.duration is None else now + mood.duration

    def at(self, now: float) -> Mood:
        """
        The mood at *now* (seconds, monotonic).
        """
        if now >= self._until:
            self._mood, self._until = WELL, math.inf
        return self._mood
