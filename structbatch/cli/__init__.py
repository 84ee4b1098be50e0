# SPDX-License-Identifier: Apache-2.0
"""
The command line. Its packages are those of the extra ``cli``, imported only when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from structbatch.receiver.extra import require_extra


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """
    Run the command line and exit.

    Args:
        arguments: Without the program's name; None: those of the process.

    Raises:
        SystemExit: Always: 2 for wrong arguments or missing packages, else what the command says.
    """
    require_extra()
    from structbatch.cli.app import cli  # noqa: PLC0415

    cli.main(arguments, prog_name="structbatch")
    raise SystemExit(0)
