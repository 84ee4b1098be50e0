# SPDX-License-Identifier: Apache-2.0
"""
What holds for every test: no setting of the machine leaks in, no configuration leaks out, no packet leaves loopback.
"""

from __future__ import annotations

import ipaddress
import os
import socket

from collections.abc import Iterator

import pytest
import structlog


class OffLoopbackError(AssertionError):
    """
    A test tried to reach something that is not this machine.
    """


def _is_loopback(address: object) -> bool:
    if not isinstance(address, tuple):
        return True
    host = str(address[0])
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in {"localhost", ""}


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Connections to anything but loopback are refused, loudly. Unix sockets have no address tuple and may pass.
    """
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guard(address: object) -> None:
        if not _is_loopback(address):
            msg = f"a test connects to {address!r}"
            raise OffLoopbackError(msg)

    def guarded_connect(self: socket.socket, address: object) -> None:
        guard(address)
        connect(self, address)  # type: ignore[arg-type]

    def guarded_connect_ex(self: socket.socket, address: object) -> int:
        guard(address)
        return connect_ex(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Neither our settings nor OpenTelemetry's nor a proxy reach a test from outside. ``STRUCTBATCH_TEST_*`` stay.
    """
    for name in list(os.environ):
        ours = name.startswith("STRUCTBATCH_") and not name.startswith("STRUCTBATCH_TEST_")
        if ours or name.startswith("OTEL_") or name.lower() in {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _reset_structlog() -> Iterator[None]:
    """
    structlog's configuration and context variables are the process's: put them back.
    """
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
