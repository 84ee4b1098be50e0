# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ssl

from pathlib import Path

import pytest
import requests.utils

from structbatch.errors import ConfigError
from structbatch.transport._trust import trust
from tests.support.certificates import Authority


@pytest.fixture(name="authority", scope="module")
def _authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


class TestWhomToTrust:
    @pytest.mark.parametrize(
        ("ca_bundle", "environment", "origin"),
        [
            (True, {"REQUESTS_CA_BUNDLE": "/a"}, "ca_bundle"),
            (False, {"REQUESTS_CA_BUNDLE": "/a", "SSL_CERT_FILE": "/b"}, "REQUESTS_CA_BUNDLE"),
            (False, {"CURL_CA_BUNDLE": "/a", "SSL_CERT_FILE": "/b"}, "CURL_CA_BUNDLE"),
            (False, {"REQUESTS_CA_BUNDLE": "", "SSL_CERT_FILE": "/b", "SSL_CERT_DIR": "/c"}, "SSL_CERT_FILE"),
            (False, {"SSL_CERT_DIR": "/c"}, "SSL_CERT_DIR"),
            (False, {}, "certifi"),
        ],
    )
    def test_order(self, authority: Authority, *, ca_bundle: bool, environment: dict[str, str], origin: str) -> None:
        """
        The setting beats the environment, which beats what requests brings; an empty variable is none.
        """
        found = trust(authority.ca_bundle if ca_bundle else None, None, environment)

        assert origin == found.origin

    def test_default_is_what_requests_trusts(self) -> None:
        """
        Without any setting, the authorities are requests' own.
        """
        assert requests.utils.DEFAULT_CA_BUNDLE_PATH == trust(None, None, {}).ca_bundle

    def test_missing_file_of_the_environment_waits(self) -> None:
        """
        A wrong variable does not stop a pipeline over plain HTTP; the first TLS connection names it.
        """
        found = trust(None, None, {"SSL_CERT_FILE": "/nowhere/ca.pem"})

        with pytest.raises(ConfigError, match=r"SSL_CERT_FILE='/nowhere/ca\.pem' does not exist"):
            found.context()

    def test_directory(self, authority: Authority) -> None:
        """
        A directory of certificates will do.
        """
        folder = str(Path(authority.ca_bundle).parent)

        assert isinstance(trust(folder, None, {}).context(), ssl.SSLContext)


class TestContext:
    def test_always_verifies(self, authority: Authority) -> None:
        """
        Certificate and host name are checked, and nothing older than TLS 1.2 is spoken.
        """
        context = trust(authority.ca_bundle, None, {}).context()

        assert (ssl.CERT_REQUIRED, True) == (context.verify_mode, context.check_hostname)
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2

    def test_built_once(self, authority: Authority) -> None:
        """
        Senders with the same settings share a context, until somebody wants the files read again.
        """
        one, two = trust(authority.ca_bundle, None, {}), trust(authority.ca_bundle, None, {})
        first, second = one.context(), two.context()
        one.renew()
        one.renew()

        assert first is second
        assert first is not two.context()


class TestWhoWeAre:
    def test_one_file_or_two(self, authority: Authority, tmp_path: Path) -> None:
        """
        Certificate and key in one file, or in two.
        """
        ours = authority.issue("client.test")
        both = tmp_path / "both.pem"
        both.write_text(Path(ours.cert).read_text() + Path(ours.key).read_text())

        assert isinstance(trust(None, str(both), {}).context(), ssl.SSLContext)
        assert isinstance(trust(None, (ours.cert, ours.key), {}).context(), ssl.SSLContext)

    def test_unusable(self, authority: Authority, tmp_path: Path) -> None:
        """
        A file that is missing, has no key, or belongs to another key, is refused by the setting's name. Nobody is
        asked for a password.
        """
        one, two = authority.issue("one.test"), authority.issue("two.test")
        locked = tmp_path / "locked.key"
        locked.write_bytes(authority.lock(one, b"password"))
        found = []
        for setting in (
            "/nowhere/client.pem",
            one.cert,
            (one.cert, two.key),
            (one.cert, "/nowhere/client.key"),
            (one.cert, str(locked)),
        ):
            with pytest.raises(ConfigError, match="client_cert=") as caught:
                trust(None, setting, {})
            found.append(str(caught.value))

        assert 5 == len(found)
