# SPDX-License-Identifier: Apache-2.0
"""
Trace context for events.
"""

from __future__ import annotations

import sys

from typing import Any


_last: tuple[Any, str, str, str] = (None, "", "", "")
"""
The span context whose ids were written last: the events of one span share them, and formatting costs most.
"""


def add_trace_context(logger: Any, method_name: str, event_dict: Any) -> Any:  # noqa: ARG001
    """
    A structlog processor: adds ``trace_id``, ``span_id`` and ``trace_flags`` of the current OpenTelemetry span.

    Ids are lower-case hex, as W3C has them. Without a span, or before anything imported OpenTelemetry's trace API,
    it adds nothing. Ids that are there already stay.
    """
    global _last  # noqa: PLW0603, one assignment of a tuple: in a race between threads the loser formats again
    # While another thread imports the module, it is there without its functions.
    current_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current_span is None:
        return event_dict
    context = current_span().get_span_context()
    if context.trace_id and "trace_id" not in event_dict:
        known, trace_id, span_id, trace_flags = _last
        if context is not known:
            trace_id, span_id = format(context.trace_id, "032x"), format(context.span_id, "016x")
            trace_flags = format(int(context.trace_flags), "02x")
            _last = (context, trace_id, span_id, trace_flags)
        event_dict["trace_id"] = trace_id
        event_dict["span_id"] = span_id
        event_dict["trace_flags"] = trace_flags
    return event_dict
