# SPDX-License-Identifier: Apache-2.0
"""
Ship log files of Apache, Hadoop, HDFS, OpenStack, Zookeeper and syslog as structured events.

``python examples/replay_logs.py [--url URL] FILE...`` sends every line once. The message is the line itself, without
its line end; what the line says about its level, component, process and identifiers becomes fields beside it, and so do
the file and the line number. ``--print`` shows the events instead of sending them.

A destination that does not keep up makes this wait: a job has time. One that stays away makes it stop, say at which
line, and exit with 1; so does every other loss.
"""

from __future__ import annotations

import argparse
import re
import sys

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import structlog

import structbatch

from structbatch.structlog import Shipper


DEFAULT_URL: Final = "ndjson+http://127.0.0.1:8080/ingest"

FORMATS: Final = tuple(
    re.compile(" ".join(parts))
    for parts in (
        # Apache's error log: [Sun Dec 04 04:47:44 2005] [error] mod_jk child workerEnv in error state 6
        (r"\[(?P<logged_at>\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})\]", r"\[(?P<level>\w+)\]", ""),
        # HDFS: 081109 203615 148 INFO dfs.DataNode$PacketResponder: ...
        (r"(?P<logged_at>\d{6} \d{6})", r"(?P<thread>\d+)", r"(?P<level>[A-Z]+)", r"(?P<component>[^\s:]+):", ""),
        # Zookeeper: 2015-07-29 19:04:29,071 - WARN  [SendWorker:188:QuorumCnxManager$SendWorker@688] - ...
        (
            r"(?P<logged_at>[-\d]{10} [:\d]{8},\d{3}) -",
            r"(?P<level>[A-Z]+) *",
            r"\[(?P<thread>.*?):(?P<component>[\w$.]+)@(?P<code_line>\d+)\] -",
            "",
        ),
        # Hadoop: 2015-10-18 18:01:47,978 INFO [main] org.apache.hadoop.mapreduce.v2.app.MRAppMaster: ...
        (
            r"(?P<logged_at>[-\d]{10} [:\d]{8},\d{3})",
            r"(?P<level>[A-Z]+)",
            r"\[(?P<thread>.*?)\]",
            r"(?P<component>[\w$.]+):",
            "",
        ),
        # OpenStack: nova-api.log.1.2017-05-16_13:53:08 2017-05-16 00:00:00.008 25746 INFO nova.wsgi [req-...] ...
        (
            r"(?:(?P<source_file>\S+) )?(?P<logged_at>[-\d]{10} [:\d]{8}\.\d{3})",
            r"(?P<pid>\d+)",
            r"(?P<level>[A-Z]+)",
            r"(?P<component>[\w.]+)",
            r"\[",
        ),
        # syslog, which names no level: Jun 14 15:16:01 combo sshd(pam_unix)[19939]: ...
        (
            r"(?P<logged_at>\w{3} [ \d]\d [\d:]{8})",
            r"(?P<machine>\S+)",
            r"(?P<component>[^\[\]:]+)(?:\[(?P<pid>\d+)\])?:",
            "",
        ),
    )
)
NUMBERS: Final = frozenset({"pid", "code_line"})

ONE: Final = {
    "request_id": re.compile(r"\breq-[0-9a-f-]{36}"),
    "instance": re.compile(r"\[instance: ([0-9a-f-]{36})\]"),
    "application": re.compile(r"(?<=_)\d{13}_\d{4}(?!\d)"),
    "session": re.compile(r"\b0x[0-9a-f]{15,16}\b"),
}
MANY: Final = {
    "blocks": re.compile(r"\bblk_-?\d+"),
    "ips": re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"),
}


def parse_line(line: str) -> dict[str, Any]:
    """
    What *line* says about itself, as fields. A line of an unknown format has only the identifiers found in it.

    ``level`` is lower case and there only where the line names one. ``logged_at`` is the line's own time as written,
    for most of these formats know no time zone and syslog's not even the year.
    """
    fields: dict[str, Any] = {}
    for pattern in FORMATS:
        if match := pattern.match(line):
            fields = {name: text for name, text in match.groupdict().items() if text is not None}
            break
    if "level" in fields:
        fields["level"] = fields["level"].lower()
    for name in NUMBERS & fields.keys():
        fields[name] = int(fields[name])
    return fields | find_ids(line)


def find_ids(line: str) -> dict[str, Any]:
    """
    Identifiers in *line*, each once, in the order in which they stand there.
    """
    found: dict[str, Any] = {}
    for name, pattern in ONE.items():
        if match := pattern.search(line):
            found[name] = match[match.lastindex or 0]
    for name, pattern in MANY.items():
        if matches := pattern.findall(line):
            found[name] = list(dict.fromkeys(matches))
    return found


def read_lines(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Each line of the file *path* without its line end, with its file and number as fields. Reads lazily.

    A line that is no UTF-8 is read as Latin-1, in which every byte is a character, and says so: nothing is replaced.
    """
    with open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            fields: dict[str, Any] = {"file": path, "line": number}
            content = raw.removesuffix(b"\n").removesuffix(b"\r")
            try:
                yield content.decode(), fields
            except UnicodeDecodeError:
                yield content.decode("latin-1"), fields | {"encoding": "latin-1"}


class LineLogger(structlog.BoundLoggerBase):
    """
    A logger with one method. Its name is no level: a line that names none has none.
    """

    def line(self, text: str, fields: Mapping[str, Any]) -> None:
        """
        Say *text*, with *fields*.
        """
        self._proxy_to_logger("line", text, **fields)


def print_event(_logger: object, _method: str, event: Mapping[str, Any]) -> Any:
    """
    Show *event* as one line of JSON and end the chain, as `Shipper` does.
    """
    sys.stdout.buffer.write(orjson.dumps(event) + b"\n")
    raise structlog.DropEvent


def replay(paths: Sequence[str], last: Any, pipeline: structbatch.Pipeline | None) -> str | None:
    """
    Say every line of the files *paths* to the processor *last*.

    Returns:
        Where it stopped because *pipeline* lost something; None after the last line.
    """
    log: LineLogger = structlog.wrap_logger(None, processors=[last], wrapper_class=LineLogger).bind()
    for path in paths:
        for text, fields in read_lines(path):
            log.line(text, fields | parse_line(text))
            if pipeline is not None and pipeline.stats().dropped:
                return f"{path}:{fields['line']}"
    return None


def ship(options: argparse.Namespace) -> int:
    """
    Send all lines, and show the account.

    Returns:
        The exit status: 0 where every line arrived.
    """
    pipeline = structbatch.from_url(
        options.url, overflow="block", overflow_timeout=options.timeout, close_timeout=options.timeout
    )
    with pipeline:
        stopped = replay(options.files, Shipper(pipeline), pipeline)
    stats = pipeline.stats()
    print(
        f"{stats.emitted} lines: {stats.delivered} delivered, {stats.dropped} dropped, {stats.dead} refused, "
        f"{stats.spooled} on disk, {stats.waiting} waiting; {stats.requests} requests",
        file=sys.stderr,
    )
    if stopped:
        print(f"stopped at {stopped}: the destination does not keep up or is away", file=sys.stderr)
    return int(bool(stopped) or stats.delivered != stats.emitted)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """
    The command line.
    """
    parser = argparse.ArgumentParser(description="Ship log files as structured events.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a log file, one event per line")
    parser.add_argument("--url", default=DEFAULT_URL, help="where to (default: %(default)s)")
    parser.add_argument("--print", action="store_true", help="show the events on stdout, send nothing")
    parser.add_argument(
        "--timeout", type=float, default=30.0, help="seconds to wait for room, and at the end (default: %(default)s)"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run it.

    Returns:
        The exit status: 0 all delivered, 1 something was lost, 2 a wrong URL or a file that cannot be read.
    """
    options = parse_arguments(arguments)
    try:
        if options.print:
            replay(options.files, print_event, None)
            return 0
        return ship(options)
    except (OSError, structbatch.ConfigError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
