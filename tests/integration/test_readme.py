# SPDX-License-Identifier: Apache-2.0
"""
What README.md and examples/quickstart.py show is run, as it stands there, against a server on loopback.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.support.server import MisbehavingServer


ROOT: Final = Path(__file__).parent.parent.parent
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON: Final = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
JSON: Final = re.findall(r"^```json\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
LOCAL: Final = "http://127.0.0.1:8080"


def run(arguments: list[str]) -> None:
    """
    A Python process in a tidy environment. It must end well and warn of nothing.
    """
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("STRUCTBATCH_", "OTEL_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=ROOT,
        env=environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert "" == done.stderr


def events(server: MisbehavingServer) -> list[dict[str, Any]]:
    """
    The events of all requests.
    """
    return [orjson.loads(line) for request in server.requests for line in request.body.splitlines()]


@pytest.mark.parametrize("code", PYTHON, ids=[f"block{number}" for number, _ in enumerate(PYTHON, 1)])
def test_python_blocks_run(code: str) -> None:
    """
    Every Python block of the README runs by itself, in a process of its own.
    """
    with MisbehavingServer() as server:
        run(["-c", code.replace(LOCAL, server.url)])

    assert code.count("log.info(") + code.count("get_logger().info(") == len({e["message"] for e in events(server)})


def test_first_block_ships_what_the_readme_shows() -> None:
    """
    The event that the README shows has the very members, in the very order, that its first block ships.
    """
    with MisbehavingServer() as server:
        run(["-c", PYTHON[0].replace(LOCAL, server.url)])
    (shown,) = map(orjson.loads, JSON)
    (event,) = events(server)
    varying = ("timestamp", "host")

    assert list(shown) == list(event)
    assert {k: v for k, v in shown.items() if k not in varying} == {k: v for k, v in event.items() if k not in varying}
    assert len(shown["timestamp"]) == len(event["timestamp"])


def test_quickstart_runs() -> None:
    """
    examples/quickstart.py delivers its three events, with what was bound to the context.
    """
    with MisbehavingServer() as server:
        run([str(ROOT / "examples" / "quickstart.py"), f"ndjson+{server.url}/ingest"])

    assert ["order.received", "stock.low", "order.paid"] == [event["message"] for event in events(server)]
    assert ["3f2a"] * 3 == [event["request_id"] for event in events(server)]


def test_links_lead_somewhere() -> None:
    """
    Every relative link of the README is a file of the project.
    """
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", README)

    assert links
    assert [] == [link for link in links if not (ROOT / link).exists()]
