# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from structbatch.receiver import extra


class TestRequireExtra:
    def test_all_there(self) -> None:
        """
        Nothing happens when all packages can be found.
        """
        assert extra.require_extra() is None

    def test_missing(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A missing package is one line with the command that installs it, and status 2.
        """
        monkeypatch.setattr(extra, "PACKAGES", ("rich", "no_such_package_here"))

        with pytest.raises(SystemExit) as caught:
            extra.require_extra()

        assert 2 == caught.value.code
        assert (
            "structbatch: no_such_package_here not installed: pip install 'structbatch[cli]'\n"
            == capsys.readouterr().err
        )
