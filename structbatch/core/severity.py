# SPDX-License-Identifier: Apache-2.0
"""
Level names and numbers to OpenTelemetry severity numbers (1 to 24, 0 unknown).

Source: https://opentelemetry.io/docs/specs/otel/logs/data-model/#field-severitynumber
and, for the numbers of :mod:`logging`, ``std_to_otel`` of the OpenTelemetry SDK.
"""

from __future__ import annotations

from typing import Final


UNKNOWN: Final = 0
TRACE: Final = 1
DEBUG: Final = 5
INFO: Final = 9
WARN: Final = 13
ERROR: Final = 17
FATAL: Final = 21

BANDS: Final = ("unknown", "trace", "debug", "info", "warn", "error", "fatal")
"""
Names of the seven severity bands, by which every loss is counted.
"""

BAND_OF: Final = bytes((severity + 3) // 4 for severity in range(25))
"""
Severity number to its position in `BANDS`.
"""

BY_NAME: Final = {
    "trace": TRACE,
    "verbose": TRACE,
    "debug": DEBUG,
    "info": INFO,
    "information": INFO,
    "informational": INFO,
    "msg": INFO,
    "log": INFO,
    "success": INFO,
    "notice": 10,
    "warn": WARN,
    "warning": WARN,
    "err": ERROR,
    "error": ERROR,
    "exception": ERROR,
    "failure": ERROR,
    "critical": FATAL,
    "fatal": FATAL,
    "crit": FATAL,
    "alert": 22,
    "emerg": 23,
    "emergency": 23,
    "panic": 23,
}
"""
Lower-case level and method names that structlog, logging and syslog use.
"""


def from_name(name: str) -> int:
    """
    Severity of the level name *name*, in any case; 0 where it is none we know.
    """
    return BY_NAME.get(name) or BY_NAME.get(name.strip().lower(), UNKNOWN)


def from_level_number(level: int) -> int:
    """
    Severity of a :mod:`logging` level number; 0 below 5.
    """
    if level < 5:
        return UNKNOWN
    if level < 10:
        return TRACE
    if level > 53:
        return 24
    tens, ones = divmod(level, 10)
    return tens * 4 + 1 + min(ones, 3)


def from_level(level: object) -> int:
    """
    Severity of whatever stands under a ``level`` key: a name or a :mod:`logging` number.
    """
    if isinstance(level, str):
        return from_name(level)
    if isinstance(level, int):
        return from_level_number(level)
    return UNKNOWN


def band_name(severity: int) -> str:
    """
    Name of the band that *severity* (0 to 24) lies in.
    """
    return BANDS[BAND_OF[severity]]
