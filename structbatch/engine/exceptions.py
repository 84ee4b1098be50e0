# SPDX-License-Identifier: Apache-2.0
"""
An event's ``exc_info`` as OpenTelemetry's ``exception.*`` fields.

Source: https://opentelemetry.io/docs/specs/semconv/exceptions/exceptions-logs/
"""

from __future__ import annotations

import sys
import traceback

from collections.abc import Mapping
from typing import Any


def with_exception(event: Mapping[Any, Any]) -> dict[Any, Any]:
    """
    A copy of *event* in which ``exc_info`` has become ``exception.type``, ``.message`` and ``.stacktrace``.

    As everywhere in logging, *exc_info* is an exception, a triple, or true for the one being handled. Fields that the
    application set itself win. Never raises for what an exception's own methods do.
    """
    fields = dict(event)
    error = _resolve(fields.pop("exc_info", None))
    if error is not None:
        for key, value in _describe(error).items():
            fields.setdefault(key, value)
    return fields


def _resolve(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return exc_info[1] if len(exc_info) == 3 and isinstance(exc_info[1], BaseException) else None
    try:
        return sys.exc_info()[1] if exc_info else None
    except Exception:  # noqa: BLE001, a hostile __bool__
        return None


def _describe(error: BaseException) -> dict[str, str]:
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    described = {"exception.type": f"{module}{kind.__qualname__}"}
    try:
        described["exception.message"] = str(error)
    except Exception:  # noqa: BLE001
        described["exception.message"] = "<str() raised>"
    try:
        described["exception.stacktrace"] = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001
        described["exception.stacktrace"] = "".join(traceback.format_tb(error.__traceback__))
    return described
