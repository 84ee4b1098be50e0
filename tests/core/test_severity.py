# SPDX-License-Identifier: Apache-2.0
"""
Levels of structlog, logging and syslog as OpenTelemetry severities.
"""

from __future__ import annotations

import logging

import pytest

from structbatch.core.severity import BAND_OF, BANDS, BY_NAME, band_name, from_level, from_level_number, from_name


@pytest.mark.parametrize(
    ("severity", "name"),
    [(1, "trace"), (5, "debug"), (9, "info"), (10, "notice"), (13, "warn"), (13, "warning"), (17, "error")]
    + [(17, "exception"), (21, "critical"), (21, "fatal"), (22, "alert"), (23, "emergency"), (0, "loud"), (0, "")],
)
def test_names(severity: int, name: str) -> None:
    """
    Any case, any space around it; a name that is none of ours is unknown.
    """
    assert severity == from_name(name)
    assert severity == from_name(f" {name.upper()} ")


@pytest.mark.parametrize(
    ("severity", "level"),
    [(0, -5), (0, 0), (0, 4), (1, 5), (1, 9), (5, 10), (6, 11), (8, 15), (8, 19), (9, 20), (13, 30), (17, 40), (21, 50)]
    + [(24, 53), (24, 54), (24, 10**20)],
)
def test_numbers_of_logging(severity: int, level: int) -> None:
    """
    As the OpenTelemetry SDK's ``std_to_otel`` maps them.
    """
    assert severity == from_level_number(level)


def test_levels_of_any_type() -> None:
    """
    A name, a number, or whatever an application puts under ``level``.
    """
    assert 13 == from_level("Warning")
    assert 13 == from_level(logging.WARNING)
    assert 0 == from_level(None)
    assert 0 == from_level(3.7)


def test_every_severity_has_a_band() -> None:
    """
    Seven bands of up to four severities, in order.
    """
    assert 25 == len(BAND_OF)
    assert ["unknown", "trace", "trace", "debug", "fatal"] == [band_name(n) for n in (0, 1, 4, 5, 24)]
    assert sorted(BAND_OF) == list(BAND_OF)
    assert set(range(len(BANDS))) == set(BAND_OF)
    assert all(0 < severity <= 24 for severity in BY_NAME.values())
