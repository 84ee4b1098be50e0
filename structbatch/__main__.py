# SPDX-License-Identifier: Apache-2.0
"""
``python -m structbatch``: the command line.
"""

from __future__ import annotations

from structbatch.cli import main


if __name__ == "__main__":
    main()
