# SPDX-License-Identifier: Apache-2.0
"""
A request and a response as data. Nothing here touches a socket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit


@dataclass(frozen=True, slots=True)
class Request:
    """
    One HTTP request.

    Args:
        url: Absolute, with scheme.

        body: What travels, compressed or not; shown by its size alone.

        headers: Without Content-Length (the transport adds it).

        rows:
            Position in the body to position in the view, where the vendor regroups or leaves out; None where they
            are the same.

        refused: Positions in the view that this vendor cannot take, with the reason.

        method: ``POST`` for every vendor so far.
    """

    url: str = field(repr=False)
    body: bytes | bytearray = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    rows: Sequence[int] | None = field(default=None, repr=False)
    refused: Mapping[int, str] = field(default_factory=dict)
    method: str = "POST"

    def __repr__(self) -> str:
        return f"<Request {self.method} {redact_url(self.url)} {len(self.body)} bytes>"


@dataclass(frozen=True, slots=True)
class Response:
    """
    An answer: status, headers with lower-case names, and at most 64 KiB of the body, decoded.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


def redact_url(url: str) -> str:
    """
    *url* without user info and query, and with every long path part hidden: tokens hide in all three.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "<unreadable URL>"
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    path = "/".join("***" if _looks_secret(part) else part for part in parts.path.split("/"))
    return urlunsplit((parts.scheme, host + port, path, "***" if parts.query else "", ""))


def _looks_secret(part: str) -> bool:
    return len(part) >= 20 and any(c.isdigit() for c in part)
