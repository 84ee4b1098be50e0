# SPDX-License-Identifier: Apache-2.0
"""
The receiver's one exception.
"""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818
    """
    A request is not taken: none of its events is counted.

    Args:
        status: The answer's status.

        reason: For the answer's body. Never holds any of the request.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason
