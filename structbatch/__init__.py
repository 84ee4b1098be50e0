# SPDX-License-Identifier: Apache-2.0
"""
Ship structured logs to any HTTP log backend, without slowing the application down or losing an event in silence.
"""

from __future__ import annotations


# First: a fork hook that is registered first runs last before a fork, when everybody else's work is done.
import structbatch.engine.process  # noqa: F401  # isort: skip

from structbatch.config import from_env, from_url
from structbatch.context import add_trace_context
from structbatch.core.settings import Settings
from structbatch.engine.pipeline import Pipeline
from structbatch.engine.selflog import Problem, ProblemKind
from structbatch.engine.stats import FlushResult, Stats
from structbatch.errors import ConfigError, StructbatchError


__all__ = [
    "ConfigError",
    "FlushResult",
    "Pipeline",
    "Problem",
    "ProblemKind",
    "Settings",
    "Stats",
    "StructbatchError",
    "add_trace_context",
    "from_env",
    "from_url",
]
