# SPDX-License-Identifier: Apache-2.0
"""
A certificate authority of our own, for servers and clients on loopback.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True)
class Certificate:
    """
    PEM files of a certificate and of its key.
    """

    cert: str
    key: str


class Authority:
    """
    Signs certificates and writes them below *folder*. Its own is the file *ca_bundle*.
    """

    def __init__(self, folder: Path, name: str = "structbatch tests") -> None:
        self._folder = folder
        self._stem = name.replace(" ", "-")
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        builder = _builder(self._name, self._name, self._key.public_key(), dt.timedelta(days=2))
        usage = x509.KeyUsage(*(index in (5, 6) for index in range(9)))
        self._cert = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_bundle = str(folder / f"{self._stem}-ca.pem")
        Path(self.ca_bundle).write_bytes(self._cert.public_bytes(serialization.Encoding.PEM))

    def issue(self, *names: str, valid: dt.timedelta = dt.timedelta(days=1)) -> Certificate:
        """
        A certificate for *names*, host names or addresses; with a negative *valid* it has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        cert = (
            _builder(_name(names[0]), self._name, key.public_key(), valid)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        stem = f"{self._stem}-{cert.serial_number:x}"
        found = Certificate(str(self._folder / f"{stem}.pem"), str(self._folder / f"{stem}.key"))
        Path(found.cert).write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        Path(found.key).write_bytes(_key_pem(key))
        return found

    def lock(self, certificate: Certificate, password: bytes) -> bytes:
        """
        The key of *certificate* as PEM, encrypted with *password*.
        """
        key = serialization.load_pem_private_key(Path(certificate.key).read_bytes(), None)
        encryption = serialization.BestAvailableEncryption(password)
        return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def server_context(self, *names: str, client_ca: Authority | None = None) -> ssl.SSLContext:
        """
        What a server called *names* uses, by default loopback's; with *client_ca* it asks clients for a certificate.
        """
        certificate = self.issue(*(names or ("127.0.0.1", "localhost")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.cert, certificate.key)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca.ca_bundle)
        return context


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: dt.timedelta
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=2))
        .not_valid_after(now + valid)
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
