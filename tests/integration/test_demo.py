# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time

from typing import Any

import pytest

from structbatch.receiver.process import ReceiverProcess


COMMAND = (sys.executable, "-m", "structbatch", "demo")


def demo(*arguments: str) -> tuple[int, dict[str, Any]]:
    """
    Exit status and account of ``structbatch demo --json`` in a process of its own.
    """
    done = subprocess.run([*COMMAND, "--json", *arguments], stdout=subprocess.PIPE, check=False, timeout=100)
    return done.returncode, json.loads(done.stdout)


def closes(account: dict[str, Any]) -> bool:
    """
    Whether what went in is what came out.
    """
    out = sum(account[name] for name in ("delivered", "dropped", "dead", "spooled", "waiting"))
    return bool(account["emitted"] + account["loaded"] == out)


def read_to_the_end(file: int) -> None:
    """
    Read and forget.
    """
    while os.read(file, 4096):
        pass


class TestDemo:
    def test_nothing_is_lost_in_an_outage(self) -> None:
        """
        An outage at half time costs no event and repeats none, and the account closes.
        """
        status, account = demo("--events", "5000", "--rate", "2500", "--outage", "500ms")

        assert (0, 5000, 0, 0) == (status, account["received"], account["lost"], account["duplicated"])
        assert (5000, 5000) == (account["emitted"], account["delivered"])
        assert closes(account)
        assert (5000, 5000) == tuple(sum(row[key] for row in account["per_second"]) for key in ("in", "out"))
        assert 0 == account["per_second"][-1]["backlog"]
        assert 2.0 <= account["seconds"]
        assert account["bytes_wire"] < account["bytes_plain"]
        # At least one event waited for the end of the outage, unless it came just before it.
        assert 100 < account["lag_ms"]["max"]

    def test_flat_out(self) -> None:
        """
        As fast as it goes, the application waits for room and nothing is lost.
        """
        status, account = demo("--events", "20000", "--rate", "0", "--outage", "0s", "--threads", "3")

        assert (0, 20_000, 0, 0) == (status, account["received"], account["lost"], account["duplicated"])
        assert closes(account)
        assert account["requests"] <= 20_000 / 50

    def test_own_endpoint(self) -> None:
        """
        With a URL the events go there, and what arrived is not ours to say.
        """
        with ReceiverProcess() as receiver:
            status, account = demo("--events", "1000", "--rate", "0", "--url", f"ndjson+{receiver.url}/my/path")
            stats = receiver.stats([range(1000)])

        assert (0, None, None, None) == (status, account["received"], account["lost"], account["duplicated"])
        assert (1000, 1000) == (account["delivered"], stats["expected_seen"])

    def test_wrong_url(self) -> None:
        """
        A URL that means nothing is a sentence and status 2.
        """
        done = subprocess.run(
            [*COMMAND, "--url", "nonsense://localhost"], capture_output=True, text=True, check=False, timeout=60
        )

        assert (2, "") == (done.returncode, done.stdout)
        assert "nonsense" in done.stderr
        assert "Traceback" not in done.stderr

    def test_interrupted(self) -> None:
        """
        Ctrl-C, which the terminal sends to the whole process group, stops it with the account so far; the receiver
        lives long enough to be asked.
        """
        terminal, stderr = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, "--events", "1000000", "--rate", "1000", "--outage", "0s"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        ) as process:
            os.close(stderr)
            shown = b""
            while b"logging" not in shown:
                shown += os.read(terminal, 4096)
            time.sleep(0.3)
            os.killpg(process.pid, signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        os.close(terminal)

        assert 130 == process.returncode
        assert "Stopped. Of " in out
        assert "nothing lost, nothing came twice" in " ".join(out.split())

    @pytest.mark.parametrize("blow", [signal.SIGTERM, signal.SIGKILL])
    def test_receiver_dies_with_a_killed_demo(self, blow: signal.Signals) -> None:
        """
        A demo that is terminated or killed leaves no receiver behind: whoever holds its stderr sees the end.
        """
        terminal, stderr = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, "--events", "1000000", "--rate", "1000", "--outage", "0s"],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        ) as process:
            os.close(stderr)
            shown = b""
            while b"logging" not in shown:
                shown += os.read(terminal, 4096)
            process.send_signal(blow)
            process.wait(30)
            # The terminal ends (EIO) once its last holder, the receiver, is gone.
            with pytest.raises(OSError, match="Input/output"):
                read_to_the_end(terminal)
        os.close(terminal)

        assert -blow == process.returncode
