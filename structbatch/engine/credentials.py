# SPDX-License-Identifier: Apache-2.0
"""
A secret that is hard to show by accident.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from structbatch.errors import ConfigError


class Secret:
    """
    A token: its text, a file that holds it, or a callable that gives it.

    Never part of a ``repr``, a format or an exception, and never pickled. Calls come from sender threads, several at
    once; each attribute is replaced as a whole, so that no lock is needed.

    Args:
        origin:
            The text; or the path of a file, read now and at each `refresh`; or a callable, asked at each call, which
            may return None and whose exceptions count as None. None: there is no token.

    Raises:
        ConfigError: The text is empty or no header could carry it, or the file cannot be read.
    """

    __slots__ = ("_ask", "_path", "_text")

    def __init__(self, origin: str | Path | Callable[[], str | None] | None) -> None:
        self._text: str | None = None
        self._path: Path | None = None
        self._ask: Callable[[], str | None] | None = None
        if isinstance(origin, Path):
            self._path = origin.absolute()
            self._text = _checked(_read(self._path), f"the token in {str(self._path)!r}")
        elif isinstance(origin, str):
            self._text = _checked(origin, "the token")
        elif callable(origin):
            self._ask = origin
        elif origin is not None:
            msg = f"a token is text, a pathlib.Path or a callable, not {type(origin).__name__}"  # type: ignore[unreachable]
            raise ConfigError(msg)

    def __call__(self) -> str | None:
        """
        The current text, or None. Never raises.
        """
        if self._ask is None:
            return self._text
        try:
            return _checked(self._ask(), "the token")
        except Exception:  # noqa: BLE001
            return None

    def __bool__(self) -> bool:
        """
        Whether there is a token at all.
        """
        return self._text is not None or self._ask is not None

    def refresh(self) -> None:
        """
        Read the file again. What cannot be read or used leaves the text as it was. Never raises.
        """
        if self._path is not None:
            try:
                self._text = _checked(_read(self._path), "the token")
            except ConfigError:
                return

    def __repr__(self) -> str:
        return "<Secret ***>"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        msg = "a Secret is never pickled: build the pipeline in the other process"
        raise TypeError(msg)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError as error:
        msg = f"the token file {str(path)!r} cannot be read: {error.strerror}"
        raise ConfigError(msg) from None
    except ValueError:
        # The decoder's message quotes the bytes.
        msg = f"the token file {str(path)!r} holds characters beyond ASCII"
        raise ConfigError(msg) from None


def _checked(text: object, what: str) -> str:
    """
    *text* without white space around it, as a header can carry it.
    """
    if not isinstance(text, str):
        msg = f"{what} is not text"
        raise ConfigError(msg)
    stripped = text.strip()
    if not stripped:
        msg = f"{what} is empty"
        raise ConfigError(msg)
    if not (stripped.isascii() and stripped.isprintable()):
        msg = f"{what} holds a control character or one beyond ASCII: no header can carry it"
        raise ConfigError(msg)
    return stripped
