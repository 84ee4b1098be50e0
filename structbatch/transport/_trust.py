# SPDX-License-Identifier: Apache-2.0
"""
Whom to trust and who we are: TLS contexts, built once for all sender threads, for one takes 36 ms.
"""

from __future__ import annotations

import os
import ssl

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import requests.utils

from structbatch.errors import ConfigError


CA_VARIABLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""
Looked at in this order where no *ca_bundle* is given. Source:
https://requests.readthedocs.io/en/latest/user/advanced/#ssl-cert-verification and
https://docs.openssl.org/3.0/man3/SSL_CTX_load_verify_locations/
"""


@dataclass(frozen=True, slots=True)
class Trust:
    """
    What a TLS context is made from.

    Args:
        ca_bundle: File or directory of certificates.

        origin: The setting or the variable that names it, for messages.

        client_cert: Our certificate with its key, and the key where it has a file of its own.
    """

    ca_bundle: str
    origin: str
    client_cert: tuple[str, str | None] | None = None

    def context(self) -> ssl.SSLContext:
        """
        The context, from the cache if it can be. Any thread.

        Raises:
            ConfigError: A file is missing or is not what it should be; the message names the setting.
        """
        context = _CONTEXTS.get(self)
        if context is None:
            context = _CONTEXTS[self] = self._build()
        return context

    def renew(self) -> None:
        """
        Read the files again at the next *context*: a person may have replaced them.
        """
        _CONTEXTS.pop(self, None)

    def _build(self) -> ssl.SSLContext:
        _check_exists(self.origin, self.ca_bundle)
        is_directory = os.path.isdir(self.ca_bundle)
        try:
            context = ssl.create_default_context(
                cafile=None if is_directory else self.ca_bundle, capath=self.ca_bundle if is_directory else None
            )
        except OSError as error:
            msg = f"{self.origin}={self.ca_bundle!r} holds no certificates that can be read: use a PEM file"
            raise ConfigError(msg) from error
        if self.client_cert is not None:
            _load_client_cert(context, *self.client_cert)
        return context


_CONTEXTS: Final[dict[Trust, ssl.SSLContext]] = {}


def trust(
    ca_bundle: str | None, client_cert: str | tuple[str, str] | None, environment: Mapping[str, str] = os.environ
) -> Trust:
    """
    The `Trust` of these settings. *ca_bundle* beats the *environment*, which beats requests' own bundle.

    Raises:
        ConfigError: One of the settings names a file that is not there, or that cannot be used. What the
            environment names is looked at when the first TLS connection needs it.
    """
    pair = (client_cert, None) if isinstance(client_cert, str) else client_cert
    if ca_bundle is not None:
        found = Trust(ca_bundle, "ca_bundle", pair)
    else:
        name = next((name for name in CA_VARIABLES if environment.get(name)), None)
        found = (
            Trust(environment[name], name, pair)
            if name
            else Trust(requests.utils.DEFAULT_CA_BUNDLE_PATH, "certifi", pair)
        )
    if ca_bundle is not None or pair is not None:
        found.context()
    return found


def _check_exists(setting: str, path: str) -> None:
    if not os.path.exists(path):
        msg = f"{setting}={path!r} does not exist: give the path of a PEM file"
        raise ConfigError(msg)


def _load_client_cert(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    for path in (certificate, key):
        if path is not None:
            _check_exists("client_cert", path)
    try:
        # A password, so that OpenSSL does not ask the terminal for one.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        msg = f"client_cert={certificate!r} cannot be used: give PEM files of the certificate and its unencrypted key"
        raise ConfigError(msg) from error
