# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import http.client
import socket
import ssl

import pytest
import requests
import urllib3.exceptions

from structbatch.errors import Fault
from structbatch.transport._faults import Phase, explain


def tls_error(kind: type[ssl.SSLError], reason: str) -> ssl.SSLError:
    """
    An error of OpenSSL with its *reason*.
    """
    error = kind(1, "[SSL] text that nobody sees")
    error.reason = reason
    return error


def wrapped(root: BaseException) -> BaseException:
    """
    *root* as urllib3 and requests hand it on.
    """
    middle = urllib3.exceptions.ProtocolError("Connection aborted.", root)
    middle.__cause__ = root
    outer = requests.exceptions.ConnectionError(middle)
    outer.__context__ = middle
    return outer


class TestFault:
    @pytest.mark.parametrize(
        ("root", "phase", "fault"),
        [
            (socket.gaierror(socket.EAI_AGAIN, "x"), Phase.RESOLVE, Fault.DNS),
            (UnicodeError("label empty or too long"), Phase.RESOLVE, Fault.DNS),
            (ConnectionRefusedError(errno.ECONNREFUSED, "x"), Phase.CONNECT, Fault.CONNECT),
            (OSError(errno.EHOSTUNREACH, "x"), Phase.CONNECT, Fault.CONNECT),
            (TimeoutError(errno.ETIMEDOUT, "x"), Phase.CONNECT, Fault.CONNECT),
            (TimeoutError("x"), Phase.HANDSHAKE, Fault.CONNECT),
            (ConnectionResetError(errno.ECONNRESET, "x"), Phase.HANDSHAKE, Fault.CONNECT),
            (ssl.SSLEOFError(8, "x"), Phase.HANDSHAKE, Fault.CONNECT),
            (tls_error(ssl.SSLError, "WRONG_VERSION_NUMBER"), Phase.HANDSHAKE, Fault.PROTOCOL),
            (BrokenPipeError(errno.EPIPE, "x"), Phase.UPLOAD, Fault.UPLOAD_RESET),
            (http.client.RemoteDisconnected("x"), Phase.UPLOAD, Fault.UPLOAD_RESET),
            (TimeoutError("x"), Phase.UPLOAD, Fault.TIMEOUT),
            (ConnectionResetError(errno.ECONNRESET, "x"), Phase.ANSWER, Fault.RESET),
            (http.client.RemoteDisconnected("x"), Phase.ANSWER, Fault.RESET),
            (TimeoutError("x"), Phase.ANSWER, Fault.TIMEOUT),
            (http.client.BadStatusLine("x"), Phase.ANSWER, Fault.PROTOCOL),
            (http.client.LineTooLong("x"), Phase.ANSWER, Fault.PROTOCOL),
            (http.client.IncompleteRead(b""), Phase.BODY, Fault.PROTOCOL),
            (urllib3.exceptions.DecodeError("x"), Phase.BODY, Fault.PROTOCOL),
            (ConnectionResetError(errno.ECONNRESET, "x"), Phase.BODY, Fault.RESET),
            (RuntimeError("what nobody thought of"), Phase.RESOLVE, Fault.PROTOCOL),
            (RuntimeError("what nobody thought of"), Phase.ANSWER, Fault.PROTOCOL),
        ],
    )
    def test_table(self, root: BaseException, phase: Phase, fault: Fault) -> None:
        """
        The phase and the kind of error decide, whether the library wrapped it or not.
        """
        bare, inside = explain(root, phase), explain(wrapped(root), phase)

        assert (fault, fault) == (bare.fault, inside.fault)

    @pytest.mark.parametrize("phase", [Phase.HANDSHAKE, Phase.UPLOAD, Phase.ANSWER])
    @pytest.mark.parametrize(
        "reason",
        [
            "TLSV13_ALERT_CERTIFICATE_REQUIRED",
            "SSLV3_ALERT_BAD_CERTIFICATE",
            "SSLV3_ALERT_CERTIFICATE_EXPIRED",
            "TLSV1_ALERT_UNKNOWN_CA",
            "TLSV1_ALERT_ACCESS_DENIED",
        ],
    )
    def test_our_certificate(self, reason: str, phase: Phase) -> None:
        """
        An alert about our certificate is one, also where TLS 1.3 sends it after the handshake.
        """
        failure = explain(wrapped(tls_error(ssl.SSLError, reason)), phase)

        assert Fault.CERTIFICATE is failure.fault
        assert reason.replace("_", " ").lower() in failure.detail

    def test_their_certificate(self) -> None:
        """
        A certificate that is not accepted is told with OpenSSL's reason.
        """
        error = tls_error(ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED")
        error.verify_message = "certificate has expired"  # type: ignore[attr-defined]
        failure = explain(wrapped(error), Phase.HANDSHAKE)

        assert (Fault.CERTIFICATE, "certificate has expired") == (failure.fault, failure.detail)

    def test_refused_tunnel(self) -> None:
        """
        What a proxy answered is kept as a number; its own words are not.
        """
        failure = explain(wrapped(OSError("Tunnel connection failed: 407 t0ken wanted")), Phase.HANDSHAKE)

        assert (Fault.CONNECT, 407) == (failure.fault, failure.tunnel_status)
        assert "t0ken" not in failure.detail


class TestDetail:
    @pytest.mark.parametrize(
        "root",
        [
            http.client.BadStatusLine("t0ken"),
            http.client.RemoteDisconnected("t0ken"),
            http.client.InvalidURL("t0ken"),
            OSError("t0ken"),
            OSError(errno.EHOSTUNREACH, "t0ken", "/t0ken"),
            socket.gaierror(socket.EAI_NONAME, "t0ken"),
            tls_error(ssl.SSLError, "WRONG_VERSION_NUMBER"),
            ValueError("Invalid header value b't0ken'"),
            UnicodeError("t0ken"),
        ],
    )
    @pytest.mark.parametrize("phase", list(Phase))
    def test_no_text_of_others(self, root: BaseException, phase: Phase) -> None:
        """
        An exception's own text may quote a URL, a header, or the server: none of it is passed on.
        """
        detail = explain(wrapped(root), phase).detail

        assert detail
        assert "t0ken" not in detail
        assert "nobody sees" not in detail

    def test_chain_that_bites_its_tail(self) -> None:
        """
        A circle of contexts ends.
        """
        one, two = OSError(errno.EPIPE, "x"), ValueError("x")
        one.__context__, two.__context__ = two, one

        assert Fault.RESET is explain(two, Phase.ANSWER).fault
