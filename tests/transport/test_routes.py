# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

from importlib.metadata import PackageNotFoundError

import pytest

from structbatch.core.http import Request
from structbatch.errors import ConfigError, Fault, TransportError
from structbatch.transport._routes import Adapter, EnvironmentProxy, Proxy, check_proxy, user_agent
from structbatch.transport._trust import trust
from structbatch.transport._wire import Wire


URL = "http://collector.example:8080/in?x=1"
FROM_ENVIRONMENT = EnvironmentProxy.FROM_ENVIRONMENT


def adapter(proxy: Proxy = FROM_ENVIRONMENT) -> Adapter:
    """
    An adapter that has not sent anything.
    """
    return Adapter(Wire(time.monotonic, 55, 300), trust(None, None, {}), proxy)


def proxy_of(found: Adapter, url: str = URL) -> str | None:
    """
    The proxy on the way to *url*.
    """
    proxy = found.route(url).pool.proxy
    return None if proxy is None else proxy.url


class TestProxy:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            (None, None),
            (FROM_ENVIRONMENT, FROM_ENVIRONMENT),
            ("http://proxy:3128", "http://proxy:3128"),
            ("https://u:p@proxy:3128", "https://u:p@proxy:3128"),
            ("proxy:3128", "http://proxy:3128"),
        ],
    )
    def test_accepted(self, given: Proxy, kept: Proxy) -> None:
        """
        A missing scheme is http, as it is for curl and requests.
        """
        assert kept == check_proxy(given)

    @pytest.mark.parametrize(
        "given", ["socks5://me:s3cr3t@host", "http://", "http://me:s3cr3t@host:port", "", "http://[::1"]
    )
    def test_refused(self, given: str) -> None:
        """
        What is no HTTP proxy is refused while configuring, and its credentials are not shown.
        """
        with pytest.raises(ConfigError, match=r"^proxy is not") as caught:
            check_proxy(given)

        assert "s3cr3t" not in str(caught.value)

    @pytest.mark.parametrize("no_proxy", ["collector.example", ".example", "example", "*", "collector.example:8080"])
    def test_exceptions(self, monkeypatch: pytest.MonkeyPatch, no_proxy: str) -> None:
        """
        ``NO_PROXY`` knows hosts, domains, ports and the star.
        """
        monkeypatch.setenv("http_proxy", "http://proxy:3128")
        monkeypatch.setenv("no_proxy", no_proxy)

        assert proxy_of(adapter()) is None

    @pytest.mark.parametrize("no_proxy", ["", "localhost", "other.example", "collector.example:9090", "10.0.0.0/8"])
    def test_no_exception(self, monkeypatch: pytest.MonkeyPatch, no_proxy: str) -> None:
        """
        What is not named goes to the proxy.
        """
        monkeypatch.setenv("http_proxy", "http://proxy:3128")
        monkeypatch.setenv("no_proxy", no_proxy)

        assert "http://proxy:3128" == proxy_of(adapter())

    def test_settings_beat_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A proxy that was given is used whatever the exceptions say, and None means none.
        """
        monkeypatch.setenv("http_proxy", "http://proxy:3128")
        monkeypatch.setenv("no_proxy", "*")

        assert "http://mine:1" == proxy_of(adapter("http://mine:1"))
        assert proxy_of(adapter(None)) is None

    def test_looked_up_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        The environment is asked once for each origin, not for each request.
        """
        found = adapter()
        monkeypatch.setenv("http_proxy", "http://one:1")
        first = proxy_of(found)
        monkeypatch.setenv("http_proxy", "http://two:2")

        assert ["http://one:1"] * 2 == [first, proxy_of(found, URL + "&y=2")]

    def test_socks_of_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A SOCKS proxy is not passed by in silence: the data would take a way that nobody wanted.
        """
        monkeypatch.setenv("all_proxy", "socks5://me:s3cr3t@host")

        with pytest.raises(TransportError) as caught:
            adapter().route(URL)

        assert Fault.CONNECT is caught.value.fault
        assert "s3cr3t" not in str(caught.value)


class TestTarget:
    @pytest.mark.parametrize(
        ("url", "proxy", "target"),
        [
            ("http://h/a?b=c", None, "/a?b=c"),
            ("http://h", None, "/"),
            ("http://h/a b/ü?q=ü#f", None, "/a%20b/%C3%BC?q=%C3%BC"),
            ("http://u:p@h/a", None, "/a"),
            ("http://u:p@h/a", "http://proxy:1", "http://h/a"),
            ("https://h/a", "http://proxy:1", "/a"),
        ],
    )
    def test_request_line(self, url: str, proxy: Proxy, target: str) -> None:
        """
        The whole URL goes to a proxy that forwards, and nobody is told user and password.
        """
        assert target == adapter(proxy).route(url).target


class TestHeaders:
    @pytest.mark.parametrize(
        "headers",
        [
            {"X-Key": "a\r\nEvil: 1"},
            {"X-Key": "a\n b"},
            {"X-Key": "a\0"},
            {"X-Key": "s3cr3t\N{SNOWMAN}"},
            {"X Key": "s3cr3t"},
            {"X-Key:": "s3cr3t"},
            {"": "s3cr3t"},
        ],
    )
    def test_unspeakable(self, headers: dict[str, str]) -> None:
        """
        A header that would break the request apart stops it, and its value is not shown.
        """
        route = adapter(None).route(URL)

        with pytest.raises(TransportError) as caught:
            route.fill(Request(URL, b"", headers))

        assert Fault.PROTOCOL is caught.value.fault
        assert "s3cr3t" not in str(caught.value)

    def test_what_is_ours(self) -> None:
        """
        Framing, cookies and Expect are not the vendor's; all else is, under any spelling.
        """
        route = adapter(None).route(URL)
        vendor = {"content-length": "9", "COOKIE": "a=1", "expect": "100-continue", "accept": "text/plain"}
        route.fill(Request(URL, b"12345", vendor))

        assert {
            "User-Agent": user_agent(),
            "Accept-Encoding": "identity",
            "accept": "text/plain",
            "Content-Length": "5",
        } == route.headers

    def test_prepared_once(self) -> None:
        """
        Equal headers are checked once; a vendor may change its own dict afterwards.
        """
        route = adapter(None).route(URL)
        headers = {"A": "1"}
        route.fill(Request(URL, b"1", headers))
        first = route.base
        route.fill(Request(URL, b"22", {"A": "1"}))
        second = route.base
        headers["A"] = "2"
        route.fill(Request(URL, b"333", headers))

        assert first is second
        assert ("2", "3") == (route.headers["A"], route.headers["Content-Length"])

    def test_user_agent_of_a_checkout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Where nothing is installed there is no version, and that is no reason to fail.
        """

        def missing(name: str) -> str:
            raise PackageNotFoundError(name)

        monkeypatch.setattr("importlib.metadata.version", missing)

        assert "structbatch/0" == user_agent.__wrapped__()
