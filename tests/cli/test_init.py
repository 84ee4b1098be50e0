# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

from structbatch.receiver.extra import PACKAGES


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """
    Run *code* in a fresh interpreter.
    """
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


class TestMain:
    def test_library_imports_none_of_it(self) -> None:
        """
        ``import structbatch`` imports no package of the command line but structlog.
        """
        done = python(
            f"import sys, structbatch; print([n for n in {PACKAGES!r} if n in sys.modules and n != 'structlog'])"
        )

        assert ("[]\n", "") == (done.stdout, done.stderr)

    def test_without_the_extra(self) -> None:
        """
        Without its packages the command is one line that says what to install, status 2.
        """
        done = python(
            "import importlib.util as util; find = util.find_spec; "
            "util.find_spec = lambda name, *rest: None if name == 'rich' else find(name, *rest); "
            "from structbatch.cli import main; main(['demo'])"
        )

        assert 2 == done.returncode
        assert 1 == done.stderr.count("\n")
        assert "pip install 'structbatch[cli]'" in done.stderr

    def test_module(self) -> None:
        """
        ``python -m structbatch`` is the same command.
        """
        done = subprocess.run(
            [sys.executable, "-m", "structbatch", "--help"], capture_output=True, text=True, check=False, timeout=60
        )

        assert 0 == done.returncode
        assert "demo" in done.stdout
