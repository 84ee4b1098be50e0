# SPDX-License-Identifier: Apache-2.0
"""
Whether the packages of the extra ``cli`` are there. Imports none of them.
"""

from __future__ import annotations

import importlib.util
import sys

from typing import Final


PACKAGES: Final = ("click", "msgspec", "rich", "starlette", "structlog", "uvicorn")
"""
What the command line and the receiver import.
"""


def require_extra() -> None:
    """
    Say what to install and exit with 2 unless all of `PACKAGES` can be found.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        print(  # noqa: T201
            f"structbatch: {', '.join(missing)} not installed: pip install 'structbatch[cli]'", file=sys.stderr
        )
        raise SystemExit(2)
