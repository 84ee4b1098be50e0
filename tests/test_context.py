# SPDX-License-Identifier: Apache-2.0
"""
Trace context for events.
"""

from __future__ import annotations

import sys
import types

from typing import Any

import pytest

from opentelemetry import trace

from structbatch import add_trace_context
from structbatch.structlog import Shipper
from tests.support.pipelines import offline


SPAN = trace.NonRecordingSpan(
    trace.SpanContext(
        trace_id=0x0AF7651916CD43DD8448EB211C80319C,
        span_id=0x00AD6B7169203331,
        is_remote=False,
        trace_flags=trace.TraceFlags(1),
    )
)


def test_the_current_span() -> None:
    """
    Lower-case hex of full length, as W3C has it.
    """
    with trace.use_span(SPAN):
        event = add_trace_context(None, "info", {"event": "x"})

    assert {
        "event": "x",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "00ad6b7169203331",
        "trace_flags": "01",
    } == event


def test_no_span() -> None:
    """
    Nothing is added.
    """
    assert {"event": "x"} == add_trace_context(None, "info", {"event": "x"})


def test_ids_that_are_there_stay() -> None:
    """
    Whoever set them knows better, and a mixture would name a span of another trace.
    """
    with trace.use_span(SPAN):
        event = add_trace_context(None, "info", {"trace_id": "mine"})

    assert {"trace_id": "mine"} == event


@pytest.mark.parametrize("module", [None, types.ModuleType("opentelemetry.trace")])
def test_without_the_api(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Not imported, or just being imported by another thread: an event like any other.
    """
    if module is None:
        monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    else:
        monkeypatch.setitem(sys.modules, "opentelemetry.trace", module)

    assert {"event": "x"} == add_trace_context(None, "info", {"event": "x"})


def test_it_arrives_as_the_records_context() -> None:
    """
    The pipeline reads what the processor wrote.
    """
    pipeline, transport = offline()
    with pipeline, trace.use_span(SPAN):
        Shipper(pipeline, passthrough=True)(None, "info", add_trace_context(None, "info", {"event": "x"}))

    (event,) = transport.events
    assert "0af7651916cd43dd8448eb211c80319c" == event["trace_id"]
    assert "00ad6b7169203331" == event["span_id"]
