# SPDX-License-Identifier: Apache-2.0
"""
Start the receiver as another process, and talk to it. Imports neither the server nor its libraries.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import urllib.error
import urllib.request

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

from structbatch.errors import StructbatchError


_START: Final = 30.0
_STOP: Final = 5.0


class ReceiverError(StructbatchError):
    """
    The receiver did not start, or does not answer.
    """


class ReceiverProcess:
    """
    A receiver in a process of its own, as a context manager.

    It stops when the context is left, and by itself when this process dies: its stdin is then closed. It does not
    belong to the terminal's process group, so that Ctrl-C leaves it alive to be asked for its counts.
    """

    def __init__(self) -> None:
        self.url = ""
        """Scheme, host and port."""

        self._process: subprocess.Popen[bytes] | None = None
        # The receiver is on this machine: a proxy from the environment has no business in between.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "structbatch.receiver", "--port", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self.url = self._read_url(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @staticmethod
    def _read_url(process: subprocess.Popen[bytes]) -> str:
        stdout = process.stdout
        assert stdout is not None  # noqa: S101
        ready, _, _ = select.select([stdout], [], [], _START)
        line = stdout.readline() if ready else b""
        if not line:
            msg = "the receiver did not start"
            raise ReceiverError(msg)
        return str(json.loads(line)["url"])

    @property
    def pid(self) -> int:
        """
        The process id; 0 before the start.
        """
        return self._process.pid if self._process else 0

    def stop(self) -> None:
        """
        Close its stdin and wait for its end; kill it if it does not come. Does nothing the second time.
        """
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        process.stdin.close()
        try:
            process.wait(_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def control(self, **mood: object) -> None:
        """
        Set its mood: the fields of `structbatch.receiver.mood.Mood`, *duration* in place of ``for``.

        Raises:
            ReceiverError: It refused, or does not answer.
        """
        if "duration" in mood:
            mood["for"] = mood.pop("duration")
        self._call("/control", json.dumps(mood).encode())

    def stats(self, expected: Iterable[range] = ()) -> dict[str, Any]:
        """
        Its counts, with what is missing of the *expected* ids.

        Raises:
            ReceiverError: It does not answer.
        """
        words = ",".join(f"{ids.start}-{ids.stop - 1}" for ids in expected if ids)
        answer: dict[str, Any] = self._call(f"/stats?expect={words}")
        return answer

    def _call(self, path: str, body: bytes | None = None) -> Any:
        try:
            with self._opener.open(self.url + path, body, timeout=_START) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                msg = f"the receiver refused: {error.read().decode('utf-8', 'replace')[:200]}"
            raise ReceiverError(msg) from None
        except (OSError, ValueError) as error:
            msg = f"the receiver does not answer: {error}"
            raise ReceiverError(msg) from error
