# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import textwrap

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from structbatch.receiver.process import ReceiverError, ReceiverProcess


@pytest.fixture(name="receiver", scope="module")
def _receiver() -> Iterator[ReceiverProcess]:
    with ReceiverProcess() as receiver:
        yield receiver


def post(receiver: ReceiverProcess, body: bytes) -> int:
    """
    The status of one request on a connection of its own.
    """
    connection = http.client.HTTPConnection(urlsplit(receiver.url).netloc, timeout=10)
    try:
        connection.request("POST", "/ingest", body)
        return connection.getresponse().status
    finally:
        connection.close()


class TestReceiverProcess:
    def test_counts(self, receiver: ReceiverProcess) -> None:
        """
        Events posted to its URL are in its counts.
        """
        receiver.control(mode="ok")
        status = post(receiver, b'{"demo_id":1}\n{"demo_id":2}\n')
        stats = receiver.stats([range(1, 4)])

        assert (200, 2, 1) == (status, stats["expected_seen"], stats["missing"])

    @pytest.mark.parametrize(("expected", "mode"), [(0, "reset"), (1, "lost_answer")])
    def test_resets(self, receiver: ReceiverProcess, expected: int, mode: str) -> None:
        """
        A reset leaves the client without an answer, whether the event was counted or not.
        """
        number = 100 + expected
        receiver.control(mode=mode)

        with pytest.raises(ConnectionError):
            post(receiver, b'{"demo_id":%d}\n' % number)

        receiver.control(mode="ok")

        assert expected == receiver.stats([range(number, number + 1)])["expected_seen"]

    def test_control_refused(self, receiver: ReceiverProcess) -> None:
        """
        A wrong mood is our exception, with the receiver's reason.
        """
        with pytest.raises(ReceiverError, match="mode"):
            receiver.control(mode="angry")

    def test_stops(self) -> None:
        """
        After the block its process is gone and nothing answers; stopping again does nothing.
        """
        with ReceiverProcess() as receiver:
            pid = receiver.pid
        receiver.stop()

        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        with pytest.raises(ReceiverError):
            receiver.stats()

    def test_sigterm(self) -> None:
        """
        It stops on SIGTERM.
        """
        with subprocess.Popen(
            [sys.executable, "-m", "structbatch.receiver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            status = process.wait(10)

        assert -signal.SIGTERM == status

    def test_never_outlives_its_parent(self) -> None:
        """
        A parent that is killed outright takes it along: whoever holds its stdout sees the end.
        """
        code = textwrap.dedent("""
            import os, signal, subprocess, sys
            process = subprocess.Popen([sys.executable, "-m", "structbatch.receiver"], stdin=subprocess.PIPE)
            sys.stdin.readline()
            os.kill(os.getpid(), signal.SIGKILL)
        """)
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            assert parent.stdin is not None
            line = parent.stdout.readline()
            parent.stdin.write(b"die\n")
            parent.stdin.flush()
            rest = parent.stdout.read()
            status = parent.wait(10)

        assert (-signal.SIGKILL, b"") == (status, rest)
        assert line.startswith(b"{")

    def test_address_in_use(self, receiver: ReceiverProcess) -> None:
        """
        A port that is taken is a sentence and status 1.
        """
        port = str(urlsplit(receiver.url).port)
        done = subprocess.run(
            [sys.executable, "-m", "structbatch.receiver", "--port", port],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

        assert (1, True, "") == (done.returncode, done.stderr.startswith("cannot listen"), done.stdout)
