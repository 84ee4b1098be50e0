# SPDX-License-Identifier: Apache-2.0
"""
examples/replay_logs.py: what it reads out of a line, and that every line arrives as it is.

With ``STRUCTBATCH_TEST_LOGHUB`` set to a folder of Loghub's files, those are replayed too; without it, only lines that
the test makes in the same six forms.
"""

from __future__ import annotations

import os
import random
import re

from collections import Counter
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from examples.replay_logs import main, parse_line, read_lines
from tests.support.server import Answer, MisbehavingServer, unused_port


APACHE: Final = "[Sun Dec 04 04:47:44 2005] [notice] jk2_init() Found child 6725 in scoreboard slot 10"
APACHE_ERROR: Final = "[Mon Dec  5 04:47:44 2005] [error] [client 203.0.113.7] Directory index forbidden by rule: /srv/"
HDFS: Final = (
    "081109 204005 35 WARN dfs.FSNamesystem: BLOCK* NameSystem.addStoredBlock: blockMap updated: 203.0.113.9:50010 "
    "is added to blk_-7128370237687728475 size 67108864, not blk_1 nor blk_-7128370237687728475"
)
HADOOP: Final = (
    "2015-10-18 18:01:47,978 FATAL [IPC Server handler 10 on 62270] org.example.app.Task$Listener: Progress of "
    "attempt_1445144423722_0020_m_000001_0 is : 0.27776006"
)
ZOOKEEPER: Final = (
    "2015-07-29 19:04:29,071 - WARN  [QuorumPeer[myid=1]/0:0:0:0:0:0:0:0:2181:QuorumCnxManager$SendWorker@688] - "
    "Send worker 0x14ed93111f20048 leaving thread"
)
OPENSTACK: Final = (
    "nova-compute.log.1.2017-05-16_13:55:31 2017-05-16 00:00:04.500 2931 WARNING nova.compute.manager "
    "[req-3ea4052c-895d-4b64-9e2d-04d64c4d94ab - - - - -] [instance: b9000564-fe1a-409b-b8cc-1e88b294cd1d] VM Started"
)
SYSLOG: Final = "Jun  4 15:16:01 combo sshd(pam_unix)[19939]: authentication failure; uid=0 rhost=203.0.113.4 "
SYSLOG_NO_PID: Final = "Jun 14 04:06:20 combo logrotate: ALERT exited abnormally with [1]"
SHAPES: Final = (APACHE, APACHE_ERROR, HDFS, HADOOP, ZOOKEEPER, OPENSTACK, SYSLOG, SYSLOG_NO_PID)

LEVEL: Final = re.compile(r"\[(notice|error)\] |\b(INFO|WARN|WARNING|ERROR|FATAL)\b ")
"""
An independent reading: the first word in a line's head that is a level.
"""

SHOWN: Final = {"notice": "INFO", "info": "INFO", "warn": "WARN", "warning": "WARN", "error": "ERROR", "fatal": "FATAL"}


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (APACHE, {"logged_at": "Sun Dec 04 04:47:44 2005", "level": "notice"}),
        (APACHE_ERROR, {"logged_at": "Mon Dec  5 04:47:44 2005", "level": "error", "ips": ["203.0.113.7"]}),
        (
            HDFS,
            {
                "logged_at": "081109 204005",
                "thread": "35",
                "level": "warn",
                "component": "dfs.FSNamesystem",
                "blocks": ["blk_-7128370237687728475", "blk_1"],
                "ips": ["203.0.113.9"],
            },
        ),
        (
            HADOOP,
            {
                "logged_at": "2015-10-18 18:01:47,978",
                "level": "fatal",
                "thread": "IPC Server handler 10 on 62270",
                "component": "org.example.app.Task$Listener",
                "application": "1445144423722_0020",
            },
        ),
        (
            ZOOKEEPER,
            {
                "logged_at": "2015-07-29 19:04:29,071",
                "level": "warn",
                "thread": "QuorumPeer[myid=1]/0:0:0:0:0:0:0:0:2181",
                "component": "QuorumCnxManager$SendWorker",
                "code_line": 688,
                "session": "0x14ed93111f20048",
            },
        ),
        (
            OPENSTACK,
            {
                "source_file": "nova-compute.log.1.2017-05-16_13:55:31",
                "logged_at": "2017-05-16 00:00:04.500",
                "pid": 2931,
                "level": "warning",
                "component": "nova.compute.manager",
                "request_id": "req-3ea4052c-895d-4b64-9e2d-04d64c4d94ab",
                "instance": "b9000564-fe1a-409b-b8cc-1e88b294cd1d",
            },
        ),
        (
            SYSLOG,
            {
                "logged_at": "Jun  4 15:16:01",
                "machine": "combo",
                "component": "sshd(pam_unix)",
                "pid": 19939,
                "ips": ["203.0.113.4"],
            },
        ),
        (SYSLOG_NO_PID, {"logged_at": "Jun 14 04:06:20", "machine": "combo", "component": "logrotate"}),
        ("java.io.IOException: no route to 203.0.113.5", {"ips": ["203.0.113.5"]}),
        ("version 1.2.3.4.5 is no address", {}),
        ("", {}),
    ],
)
def test_parse_line(line: str, fields: dict[str, Any]) -> None:
    """
    Level, component and identifiers are read from each of the six forms, and nothing is invented for other lines.
    """
    assert fields == parse_line(line)


def test_read_lines_keeps_every_byte(tmp_path: Path) -> None:
    """
    Only the line end goes: spaces and a CR within stay, the last line needs none, and bytes that are no UTF-8 survive.
    """
    path = tmp_path / "odd.log"
    path.write_bytes("one \r\ntwo\rtwo\n\n\tna\u00efve\n".encode() + b"caf\xe9\r\nlast")

    lines = list(read_lines(str(path)))

    assert ["one ", "two\rtwo", "", "\tna\u00efve", "caf\u00e9", "last"] == [text for text, _ in lines]
    assert [1, 2, 3, 4, 5, 6] == [fields["line"] for _, fields in lines]
    assert [False, False, False, False, True, False] == ["encoding" in fields for _, fields in lines]


def made_files(folder: Path) -> list[Path]:
    """
    Two files of some thousand lines in the six forms, with CR LF and with LF.
    """
    dice = random.Random(7)
    paths = []
    for number, end in enumerate((b"\r\n", b"\n")):
        lines = [f"{dice.choice(SHAPES)} {dice.randrange(10**6)}".encode() for _ in range(2000)]
        paths.append(folder / f"made{number}.log")
        paths[-1].write_bytes(end.join(lines))
    return paths


def shipped(server: MisbehavingServer) -> list[dict[str, Any]]:
    """
    The events of all requests.
    """
    return [orjson.loads(line) for request in server.requests for line in request.body.splitlines()]


def replayed(paths: list[Path], capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, int], dict[str, Any]]:
    """
    The events that a server got of the files *paths*, by file and line.
    """
    with MisbehavingServer() as server:
        status = main(["--url", f"ndjson+{server.url}/ingest", *map(str, paths)])
    events = shipped(server)
    found = {(event["file"], event["line"]): event for event in events}

    assert 0 == status, capsys.readouterr().err
    assert len(found) == len(events), "a line came twice"
    return found


def check(paths: list[Path], found: dict[tuple[str, int], dict[str, Any]]) -> None:
    """
    Every line of *paths* is in *found*, as it is, with its level.
    """
    expected = {
        (str(path), number): raw.removesuffix(b"\r")
        for path in paths
        for number, raw in enumerate(path.read_bytes().removesuffix(b"\n").split(b"\n"), 1)
    }
    heads = {place: LEVEL.search(raw.decode()[:110]) for place, raw in expected.items()}
    levels = {place: SHOWN[(head[1] or head[2]).lower()] if head else None for place, head in heads.items()}

    assert expected == {place: event["message"].encode() for place, event in found.items()}
    assert levels == {place: event.get("level") for place, event in found.items()}


def test_every_made_line_arrives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Every line is delivered once, its message equal byte for byte, its level the line's own, or none.
    """
    paths = made_files(tmp_path)

    found = replayed(paths, capsys)

    assert 4000 == len(found)
    check(paths, found)


def test_every_real_line_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    """
    The same with real logs of six systems, where they are at hand.
    """
    folder = os.environ.get("STRUCTBATCH_TEST_LOGHUB", "")
    paths = sorted(Path(folder).glob("*.log")) if folder else []
    if not paths:
        pytest.skip("STRUCTBATCH_TEST_LOGHUB names no folder with log files")

    found = replayed(paths, capsys)

    check(paths, found)
    levels = Counter((Path(file).name.split("_")[0], event.get("level")) for (file, _), event in found.items())
    assert {"Linux"} == {name for name, level in levels if level is None}


def test_outage_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A server that is away for some requests costs no line.
    """
    path = tmp_path / "short.log"
    path.write_text("\n".join(SHAPES))

    with MisbehavingServer([Answer(503), Answer.closed()]) as server:
        status = main(["--url", f"ndjson+{server.url}/ingest?retry_initial=0.01", str(path)])

    assert 0 == status
    assert list(SHAPES) == [orjson.loads(line)["message"] for line in server.requests[-1].body.splitlines()]
    assert "8 lines: 8 delivered, 0 dropped" in capsys.readouterr().err


def test_loss_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Where lines are lost, the account says so and the exit status is 1.
    """
    path = tmp_path / "short.log"
    path.write_text("\n".join(SHAPES))

    status = main(["--url", f"ndjson+http://127.0.0.1:{unused_port()}/", "--timeout", "0.3", str(path)])

    assert 1 == status
    assert "8 lines: 0 delivered, 8 dropped" in capsys.readouterr().err


def test_destination_that_stays_away_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A full queue that gets no room within the timeout ends the replay, at a line that is named.
    """
    path = made_files(tmp_path)[0]
    url = f"ndjson+http://127.0.0.1:{unused_port()}/?queue_max_records=300"

    status = main(["--url", url, "--timeout", "0.2", str(path)])

    assert 1 == status
    assert re.search(rf"stopped at {re.escape(str(path))}:\d+: ", capsys.readouterr().err)


def test_print_sends_nothing(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """
    With --print the events stand on stdout, one JSON object a line, and no server is asked.
    """
    path = tmp_path / "short.log"
    path.write_text("\n".join(SHAPES))

    status = main(["--print", str(path)])
    events = [orjson.loads(line) for line in capfdbinary.readouterr().out.splitlines()]

    assert 0 == status
    assert list(SHAPES) == [event["event"] for event in events]
    assert [parse_line(line).get("level") for line in SHAPES] == [event.get("level") for event in events]


@pytest.mark.parametrize("arguments", [["no/such/file.log"], ["--url", "ndjsn+http://127.0.0.1/", "x.log"]])
def test_what_cannot_work_is_said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """
    A file that is not there or a URL that is wrong is one line on stderr and exit status 2.
    """
    assert 2 == main(arguments)
    assert 1 == capsys.readouterr().err.count("\n")
