# SPDX-License-Identifier: Apache-2.0
"""
Life and death of the process: fork, exit, and pipelines found again by name.

One fork hook and one exit hook serve all pipelines. The hooks hold weak references only.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref

from collections.abc import Callable
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from structbatch.engine.pipeline import Pipeline


_pipelines: weakref.WeakSet[Pipeline] = weakref.WeakSet()


def register(pipeline: Pipeline) -> None:
    """
    Have *pipeline* reset in a forked child and closed at exit.
    """
    _pipelines.add(pipeline)


def attach(key: str, recipe: Callable[[], Pipeline] | None) -> Pipeline:
    """
    The pipeline that was pickled as *key*: the very same in the same process, another by its *recipe* elsewhere.

    Raises:
        LookupError: Neither is to be had.
    """
    for pipeline in list(_pipelines):
        if pipeline.key == key:
            return pipeline
    if recipe is None:
        msg = "this pipeline was pickled in another process and was not made by from_url: make one here instead"
        raise LookupError(msg)
    pipeline = recipe()
    pipeline.key = key
    return pipeline


def finalize_in_child(pipeline: Pipeline) -> bool:
    """
    Have *pipeline* closed at the end of a multiprocessing child, which ends by ``os._exit`` and skips :mod:`atexit`.

    Returns whether multiprocessing is there at all. Once is enough for a process.
    """
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None:
        return False
    # What is registered before the child has bootstrapped is cleared there; this hook runs after that.
    util.register_after_fork(pipeline, _finalize)
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _finalize(pipeline)
    return True


def _finalize(pipeline: Pipeline) -> None:
    util: Any = sys.modules["multiprocessing.util"]
    reference = weakref.ref(pipeline)

    def close() -> None:
        alive = reference()
        if alive is not None:
            alive.close()

    util.Finalize(None, close, exitpriority=10)


def _after_fork_in_child() -> None:
    for pipeline in list(_pipelines):
        pipeline._reset_after_fork()  # noqa: SLF001


def _before_fork() -> None:
    for pipeline in list(_pipelines):
        pipeline._prepare_fork()  # noqa: SLF001


def _close_all() -> None:
    """
    Close every pipeline at exit, all at once, under the longest of their deadlines.
    """
    pipelines = list(_pipelines)
    start = time.monotonic()
    for pipeline in pipelines:
        pipeline._begin_close()  # noqa: SLF001
    for pipeline in pipelines:
        spent = time.monotonic() - start
        pipeline.close(max(0.0, pipeline.settings.close_timeout - spent))


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
atexit.register(_close_all)
