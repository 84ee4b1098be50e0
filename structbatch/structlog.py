# SPDX-License-Identifier: Apache-2.0
"""
The structlog processor that ships.
"""

from __future__ import annotations

import threading

from collections.abc import Sequence
from typing import Any, Final

from structlog import DropEvent, get_config

from structbatch.engine.pipeline import Pipeline
from structbatch.engine.selflog import ProblemKind


_HTTP_LOGGERS: Final = ("urllib3", "requests", "structbatch")
_FORMATTERS_OWN: Final = frozenset({"_record", "_from_structlog", "_logger", "_name"})
_OWN_THREADS: Final = "structbatch-"


class Shipper:
    """
    The last processor of a structlog chain: hands the event to *pipeline* and stops it there by
    `structlog.DropEvent`.

    Takes the severity from ``level`` or the method's name, the time from ``timestamp`` or the clock, the message from
    ``event``, the trace from ``trace_id`` and ``span_id`` (see `structbatch.add_trace_context`), the exception from
    ``exc_info``; the rest are fields. Never raises into the application, and changes nothing it was given.

    Inside `structlog.stdlib.ProcessorFormatter` it returns an empty string instead, for there DropEvent is not caught.

    Args:
        pipeline: Where to.

        tee: A processor, or several in order, whose result is returned after shipping: ship and print.

        passthrough: Return the event as it came, for the processors behind. Not with *tee*.
    """

    __slots__ = ("_checked", "_emit", "_passthrough", "_pipeline", "_tee")

    def __init__(self, pipeline: Pipeline, tee: Any = None, passthrough: bool = False) -> None:
        if tee is not None and passthrough:
            msg = "tee and passthrough exclude each other: tee renders, passthrough leaves that to the next processor"
            raise TypeError(msg)
        self._pipeline = pipeline
        self._emit = pipeline.emit
        self._tee = tuple(tee) if isinstance(tee, Sequence) else (tee,) if tee is not None else ()
        self._passthrough = passthrough
        self._checked = False

    def __call__(self, logger: Any, method_name: str, event_dict: Any) -> Any:
        """
        Ship *event_dict*. As structlog calls it, on the logging thread.
        """
        if "_record" in event_dict:
            return self._ship_foreign(logger, method_name, event_dict)
        self._emit(event_dict, method_name)
        if not self._checked:
            self._check_place()
        if self._tee:
            return self._render(logger, method_name, event_dict)
        if self._passthrough:
            return event_dict
        raise DropEvent

    def _ship_foreign(self, logger: Any, method_name: str, event_dict: Any) -> Any:
        """
        Inside ProcessorFormatter.
        """
        if not _is_our_own(event_dict["_record"]):
            self._emit({key: event_dict[key] for key in event_dict if key not in _FORMATTERS_OWN}, method_name)
        if self._tee:
            return self._render(logger, method_name, event_dict)
        return event_dict if self._passthrough else ""

    def _render(self, logger: Any, method_name: str, event_dict: Any) -> Any:
        rendered: Any = dict(event_dict)
        for processor in self._tee:
            try:
                rendered = processor(logger, method_name, rendered)
            except DropEvent:
                if "_record" in event_dict:
                    return ""
                raise
        return rendered

    def _check_place(self) -> None:
        """
        Say once where the chain and this processor's way of ending do not fit.
        """
        self._checked = True
        try:
            processors = get_config()["processors"]
            place = [processor is self for processor in processors]
        except Exception:  # noqa: BLE001, a chain that is being changed meanwhile
            return
        if True not in place:
            return
        last = place[-1]
        if not last and not self._passthrough:
            self._pipeline.say(
                ProblemKind.MISPLACED, "Shipper is not the last processor: those behind it never run; use passthrough"
            )
        if last and self._passthrough:
            self._pipeline.say(ProblemKind.MISPLACED, "Shipper is the last processor, so passthrough has no effect")
            self._passthrough = False

    def __repr__(self) -> str:
        return f"<Shipper {self._pipeline.name}>"

    def __deepcopy__(self, memo: dict[int, object]) -> Shipper:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        tee = self._tee or None
        return Shipper, (self._pipeline, tee, self._passthrough)


def _is_our_own(record: Any) -> bool:
    """
    Whether a logging record comes from the HTTP library on a thread of ours: shipping it would make another request.
    """
    name = getattr(record, "name", "")
    return (
        isinstance(name, str)
        and name.split(".", 1)[0] in _HTTP_LOGGERS
        and threading.current_thread().name.startswith(_OWN_THREADS)
    )
