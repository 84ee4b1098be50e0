# SPDX-License-Identifier: Apache-2.0
"""
Secrets: three origins, and no way to show one by accident.
"""

from __future__ import annotations

import copy
import pickle

from collections.abc import Callable
from pathlib import Path

import pytest

from structbatch.engine.credentials import Secret
from structbatch.errors import ConfigError


TOKEN = "s3cr3t-t0ken"


def _raise() -> str:
    raise ValueError(TOKEN)


class TestOrigins:
    """
    Text, file, callable.
    """

    def test_text_is_stripped(self) -> None:
        """
        A newline from a copy and paste would break the header.
        """
        assert TOKEN == Secret(f" {TOKEN}\r\n")()

    def test_a_file_is_read_again_when_asked(self, tmp_path: Path) -> None:
        """
        A rotated token needs no restart.
        """
        path = tmp_path / "token"
        path.write_text(f"{TOKEN}\n")
        secret = Secret(path)
        before = secret()
        path.write_text("next\n")

        assert (TOKEN, TOKEN) == (before, secret())
        secret.refresh()
        assert "next" == secret()

    @pytest.mark.parametrize("content", [b"", b"\n", b"a\x00b", b"\xff"])
    def test_a_file_in_the_middle_of_rotation_changes_nothing(self, tmp_path: Path, content: bytes) -> None:
        """
        What cannot be used leaves the token as it was.
        """
        path = tmp_path / "token"
        path.write_text(TOKEN)
        secret = Secret(path)
        path.write_bytes(content)
        secret.refresh()
        damaged = secret()
        path.unlink()
        secret.refresh()

        assert (TOKEN, TOKEN) == (damaged, secret())

    def test_a_relative_file_is_found_after_a_change_of_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        The path is made absolute when the pipeline is configured.
        """
        (tmp_path / "token").write_text(TOKEN)
        monkeypatch.chdir(tmp_path)
        secret = Secret(Path("token"))
        monkeypatch.chdir("/")
        (tmp_path / "token").write_text("next")

        secret.refresh()

        assert "next" == secret()

    @pytest.mark.parametrize(
        ("ask", "expected"),
        [
            (lambda: f"{TOKEN}\n", TOKEN),
            (lambda: None, None),
            (lambda: "", None),
            (lambda: "a\nb", None),
            (lambda: 5, None),
            (_raise, None),
        ],
    )
    def test_a_callable_is_asked_each_time_and_its_failure_is_none(
        self, ask: Callable[[], str | None], expected: str | None
    ) -> None:
        """
        A sender thread never fails because of it.
        """
        assert expected == Secret(ask)()

    def test_there_may_be_none(self) -> None:
        """
        Some destinations want no token.
        """
        assert Secret(None)() is None
        assert not Secret(None)
        assert Secret(TOKEN)
        assert Secret(lambda: None)

    def test_refreshing_a_text_does_nothing(self) -> None:
        """
        Only files change.
        """
        secret = Secret(TOKEN)
        secret.refresh()

        assert TOKEN == secret()


class TestRefused:
    """
    What is wrong while configuring.
    """

    @pytest.mark.parametrize("text", ["", " \n", f"{TOKEN}\nX-Evil: 1", f"{TOKEN}\x00", f"{TOKEN}é"])
    def test_no_header_could_carry_it(self, text: str) -> None:
        """
        A ConfigError that does not repeat the token.
        """
        with pytest.raises(ConfigError, match="the token") as caught:
            Secret(text)

        assert TOKEN not in str(caught.value)

    @pytest.mark.parametrize("content", [b"", f"{TOKEN}\0".encode(), f"{TOKEN}é".encode()])
    def test_a_file_is_held_to_the_same(self, tmp_path: Path, content: bytes) -> None:
        """
        The message names the file and not what is in it, nor does any exception behind it.
        """
        path = tmp_path / "token"
        path.write_bytes(content)

        with pytest.raises(ConfigError, match=str(path)) as caught:
            Secret(path)

        assert TOKEN not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None

    def test_a_missing_file_is_said_at_once(self, tmp_path: Path) -> None:
        """
        Not at the first request.
        """
        with pytest.raises(ConfigError, match="cannot be read: No such file"):
            Secret(tmp_path / "nothing")

    def test_other_types_are_named(self) -> None:
        """
        The type, never the value.
        """
        with pytest.raises(ConfigError, match="not bytes") as caught:
            Secret(TOKEN.encode())  # type: ignore[arg-type]

        assert TOKEN not in str(caught.value)


class TestNeverShown:
    """
    All the ways in which values end in logs.
    """

    @pytest.mark.parametrize("show", [repr, str, format, "{}".format, "%s".__mod__, lambda s: f"{[s]!r}"])
    def test_in_no_text(self, show: Callable[[object], str]) -> None:
        """
        Stars instead.
        """
        shown = show(Secret(TOKEN))

        assert "<Secret ***>" in shown
        assert TOKEN not in shown

    def test_in_no_pickle(self) -> None:
        """
        A pickle travels to other processes and to disks.
        """
        with pytest.raises(TypeError, match="never pickled") as caught:
            pickle.dumps(Secret(TOKEN))

        assert TOKEN not in str(caught.value)

    def test_a_copy_is_itself(self) -> None:
        """
        Loggers are deep-copied with their processors.
        """
        secret = Secret(TOKEN)

        assert secret is copy.deepcopy(secret)
        assert secret is copy.copy(secret)

    def test_it_has_no_dict(self) -> None:
        """
        `vars` and tools built on it see nothing.
        """
        assert not hasattr(Secret(TOKEN), "__dict__")
