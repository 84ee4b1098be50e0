# SPDX-License-Identifier: Apache-2.0
"""
The way to a URL, found out once: the proxy or none, the request line, the headers that every request has.
"""

from __future__ import annotations

import enum
import re

from collections.abc import Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

import requests.utils

from requests.adapters import HTTPAdapter
from requests.models import PreparedRequest
from requests.models import Response as LibraryResponse
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.util.retry import Retry

from structbatch.core.http import Request
from structbatch.errors import ConfigError, Fault, TransportError
from structbatch.transport._trust import Trust
from structbatch.transport._wire import POOLS, Wire


MAX_ROUTES: Final = 16
"""
Routes that are remembered, and pools: a pool that a route leads to is never the one that is thrown out.
"""


class EnvironmentProxy(enum.Enum):
    """
    The default of *proxy*: ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, as requests reads them.
    """

    FROM_ENVIRONMENT = "environment"


Proxy = str | None | EnvironmentProxy


def check_proxy(proxy: Proxy) -> Proxy:
    """
    *proxy*, with a scheme.

    Raises:
        ConfigError: It is no URL of an HTTP proxy. The message has no credentials.
    """
    if proxy is None or isinstance(proxy, EnvironmentProxy):
        return proxy
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        msg = "proxy is not the URL of an HTTP proxy: use http://host:port or https://host:port"
        raise ConfigError(msg)
    return url


class Route(PreparedRequest):
    """
    A request without body, ready for `Adapter.send`.
    """

    pool: HTTPConnectionPool
    target: str
    base: dict[str, str]
    source: dict[str, str] | None = None

    def fill(self, request: Request) -> None:
        """
        Put body and headers of *request* in; what did not change since the last one is not looked at again.

        Raises:
            structbatch.errors.TransportError: A header cannot be written.
        """
        if request.headers != self.source:
            self.base = _base_headers(request.headers)
            self.source = dict(request.headers)
        self.method = request.method
        self.body = request.body  # type: ignore[assignment]
        self.headers = {**self.base, "Content-Length": str(len(request.body))}  # type: ignore[assignment]


_DEFAULTS: Final = {"Accept": "*/*", "Accept-Encoding": "identity"}
_OURS: Final = frozenset({"content-length", "transfer-encoding", "expect", "cookie"})
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def _base_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """
    All headers but Content-Length. One that would break the request is named, never shown.
    """
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise TransportError(Fault.PROTOCOL, "a header's name has a character that HTTP does not allow")
        if not _VALUE.fullmatch(value):
            detail = f"the header {name.lower()} has a character that HTTP does not allow"
            raise TransportError(Fault.PROTOCOL, detail)
    names = {name.lower() for name in headers}
    ours = {"User-Agent": user_agent(), **_DEFAULTS}
    base = {name: value for name, value in ours.items() if name.lower() not in names}
    base.update((name, value) for name, value in headers.items() if name.lower() not in _OURS)
    return base


@cache
def user_agent() -> str:
    """
    ``structbatch/`` and the version.
    """
    # Reading a package's metadata takes milliseconds: only once a request is made.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return f"structbatch/{version('structbatch')}"
    except PackageNotFoundError:
        return "structbatch/0"


class Adapter(HTTPAdapter):
    """
    requests' adapter with our connections, and without what it looks up or builds for every request.
    """

    def __init__(self, wire: Wire, trust: Trust, proxy: Proxy) -> None:
        self._wire = wire
        self._trust = trust
        self._proxy = proxy
        self._proxies: dict[str, dict[str, str]] = {}
        # False and not 0: errors come as they are.
        super().__init__(pool_connections=MAX_ROUTES, pool_maxsize=1, max_retries=Retry(False))
        self.poolmanager.pool_classes_by_scheme = POOLS

    def route(self, url: str) -> Route:
        """
        The `Route` to *url*.

        Raises:
            requests.exceptions.RequestException: *url* is none that can be asked.

            structbatch.errors.ConfigError: A file that the environment names for TLS cannot be used.
        """
        route = Route()
        route.prepare_url(url, None)
        if url.lower().startswith("https:"):
            # Here and not below, where requests takes every ValueError for a bad URL.
            self._trust.context()
        proxies = self._proxies_of(url)
        route.target = super().request_url(route, proxies)
        pool: Any = super().get_connection_with_tls_context(route, verify=True, proxies=proxies)
        pool.wire = self._wire
        route.pool = pool
        return route

    def _proxies_of(self, url: str) -> dict[str, str]:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._proxies:
            self._proxies[origin] = self._find_proxies(url)
        return self._proxies[origin]

    def _find_proxies(self, url: str) -> dict[str, str]:
        if self._proxy is None:
            return {}
        if isinstance(self._proxy, str):
            return {"all": self._proxy}
        proxies = requests.utils.get_environ_proxies(url, no_proxy=None)
        chosen = requests.utils.select_proxy(url, proxies)
        if chosen is None:
            return {}
        try:
            return {"all": str(check_proxy(chosen))}
        except ConfigError:
            raise TransportError(Fault.CONNECT, "the proxy of the environment is not an HTTP proxy") from None

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> tuple[Any, Any]:
        """
        Our TLS context instead of requests' look-ups.
        """
        host, _ = super().build_connection_pool_key_attributes(request, True, None)
        return host, {"ssl_context": self._trust.context()} if host["scheme"] == "https" else {}

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """
        A pool manager with our connections.
        """
        if proxy.lower().startswith("https"):
            proxy_kwargs["proxy_ssl_context"] = self._trust.context()
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = POOLS
        return manager

    def get_connection_with_tls_context(self, request: Any, *_: Any, **__: Any) -> Any:
        """
        The pool that `route` found.
        """
        return request.pool

    def request_url(self, request: Any, proxies: Any) -> str:
        """
        The target that `route` found.
        """
        return str(request.target)

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """
        The context has it all.
        """

    def build_response(self, req: Any, resp: Any) -> LibraryResponse:
        """
        No cookie jar, no encoding: only the answer itself is looked at.
        """
        response = LibraryResponse.__new__(LibraryResponse)
        response.raw = resp
        return response
