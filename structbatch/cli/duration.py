# SPDX-License-Identifier: Apache-2.0
"""
Durations as people type them.
"""

from __future__ import annotations

import re

from typing import Final

import click


_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|h|)", re.ASCII)
_UNITS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST: Final = 24 * 3600.0


def parse_duration(text: str) -> float:
    """
    Seconds of *text*: ``2s``, ``500ms``, ``1m``, ``1h``, or a bare number of seconds such as ``1.5``.

    Raises:
        ValueError: It is no duration, or longer than a day.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        msg = f"{text[:40]!r} is no duration: write 2s, 500ms or 1.5"
        raise ValueError(msg)
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > _LONGEST:
        msg = f"{text[:40]!r} is longer than a day"
        raise ValueError(msg)
    return seconds


class Duration(click.ParamType[float]):
    """
    `parse_duration` for click.
    """

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """
        *value* in seconds; click's usage error where it is none.
        """
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
