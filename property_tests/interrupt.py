# SPDX-License-Identifier: Apache-2.0
"""
An exception between any two lines of the intake, as a signal handler raises it.
"""

from __future__ import annotations

import sys

from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from structbatch.core import batch as batch_module
from structbatch.core import intake as intake_module


class Interrupted(BaseException):
    """
    What a signal handler raises between two statements.
    """


_INTERRUPTIBLE: Final = frozenset({intake_module.__file__, batch_module.__file__})


def interrupt(call: Callable[[], object], at: int) -> bool:
    """
    Run *call* and raise in it before the line number *at* that it runs in the intake. Returns whether that happened.
    """
    left = at

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in _INTERRUPTIBLE:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False
