# SPDX-License-Identifier: Apache-2.0
"""
The URL of a pipeline, taken apart: vendor, address, our own query items, and those of the server.

No message repeats a value of the URL: it may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from structbatch import vendors
from structbatch.core.settings import unknown_name
from structbatch.core.vendor import Vendor
from structbatch.errors import ConfigError


PREFIX: Final = "STRUCTBATCH_"
"""
What the names of our environment variables start with.
"""

PROTOCOLS: Final = ("http", "https")

PASSED: Final = "query."
"""
Prefix of query items that travel to the server, without it.
"""

_SECRETS: Final = frozenset(
    {"api_key", "apikey", "key", "secret", "password", "passwd", "access_token", "auth", "dd_api_key", "authorization"}
)


def split_url(url: str) -> tuple[type[Vendor], SplitResult]:
    """
    The vendor that *url* names and the rest of it. No message repeats any of it but the scheme.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or any(c <= " " or c == "\x7f" for c in url):
        msg = (
            "that is no URL: write <vendor>+https://host/path, without spaces, as in ndjson+https://logs.example.com/in"
        )
        raise ConfigError(msg)
    name, plus, protocol = scheme.lower().partition("+")
    if name in PROTOCOLS:
        msg = f"the URL does not say which vendor: write for instance ndjson+{name}://"
        raise ConfigError(msg)
    kind = vendors.lookup(name)
    if plus and protocol not in PROTOCOLS:
        raise ConfigError(unknown_name(protocol, iter(PROTOCOLS), "protocol for a URL"))
    try:
        split = urlsplit(f"{protocol or 'https'}://{rest}")
        host, _ = split.hostname, split.port
    except ValueError:
        msg = "the host or the port of the URL cannot be read"
        raise ConfigError(msg) from None
    if wrong := _wrong_part(name, bool(plus), split, host):
        raise ConfigError(wrong)
    return kind, split


def _wrong_part(name: str, plus: bool, split: SplitResult, host: str | None) -> str:
    if "@" in split.netloc:
        return f"no user or password in a URL: give token=... or {PREFIX}TOKEN"
    if split.fragment:
        return "a URL to send to has no fragment: write # as %23"
    if plus and not host:
        return f"the URL names no host: write {name}+{split.scheme}://host/path"
    if not plus and (split.netloc or split.path):
        return f"the URL does not say http or https: write {name}+https://..."
    return ""


def read_query(query: str, known: Iterable[str]) -> tuple[dict[str, object], list[tuple[str, str]]]:
    """
    The items of *query* that are ours, and those that go to the server. Values are never repeated: a key may be one.
    """
    ours: dict[str, object] = {}
    passed = []
    if any("=" not in item for item in query.split("&") if item):
        msg = "a query item of the URL has no '=': write name=value"
        raise ConfigError(msg)
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.startswith(PASSED):
            passed.append((name.removeprefix(PASSED), value))
        elif name in ("token", "resource"):
            msg = f"{name} cannot stand in a URL: give it as an argument or in the environment"
            raise ConfigError(msg)
        elif name not in known and name.lower().replace("-", "_") in _SECRETS:
            msg = f"{name} looks like a secret, and none may stand in a URL: give token=... or {PREFIX}TOKEN"
            raise ConfigError(msg)
        elif name not in known:
            hint = f" (for the server itself: {PASSED}{name}=...)"
            raise ConfigError(unknown_name(name, iter(known), "setting") + hint)
        elif name in ours:
            msg = f"{name} stands twice in the URL: keep one"
            raise ConfigError(msg)
        else:
            ours[name] = value
    return ours, passed


def endpoint(split: SplitResult, passed: list[tuple[str, str]]) -> str:
    """
    The URL that requests go to, or nothing where the vendor knows its own.
    """
    if split.netloc:
        return split._replace(query=urlencode(passed)).geturl()
    if passed:
        msg = f"{PASSED}{passed[0][0]} needs a URL with a host to travel to"
        raise ConfigError(msg)
    return ""
