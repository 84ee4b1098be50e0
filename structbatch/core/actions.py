# SPDX-License-Identifier: Apache-2.0
"""
What the delivery machine tells its drivers to do. Those of the disk are in `structbatch.core.spooling`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from structbatch.core.bundle import Bundle
from structbatch.core.poison import Parts


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
