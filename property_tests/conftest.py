# SPDX-License-Identifier: Apache-2.0
"""
Hypothesis profiles, chosen by the environment variable ``HYPOTHESIS_PROFILE``: ``dev`` (default), ``ci``, ``nightly``.

No test sets a number of examples itself, so that one variable decides how long all of them search.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


# A machine that does other work too is slow now and then: neither a deadline nor "too slow" tells about our code.
_CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("dev", _CALM, max_examples=50)
settings.register_profile("ci", _CALM, max_examples=200, derandomize=True, print_blob=True, database=None)
settings.register_profile("nightly", _CALM, max_examples=5000, stateful_step_count=80, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
