# SPDX-License-Identifier: Apache-2.0
"""
The one place where the exceptions of sockets, TLS, http.client, urllib3 and requests become a `Fault`.

Their texts carry URLs, header values and what the server wrote, so none of them is passed on: a detail is made of
class names, of the words for an errno, and of OpenSSL's reasons.
"""

from __future__ import annotations

import enum
import http.client
import os
import re
import socket
import ssl

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import urllib3.exceptions

from structbatch.errors import Fault


class Phase(enum.IntEnum):
    """
    How far a request has come.
    """

    RESOLVE = 0
    CONNECT = 1
    HANDSHAKE = 2
    """TLS, and the tunnel of a proxy."""

    UPLOAD = 3
    ANSWER = 4
    """All of the request is written; waiting for the status line and the headers."""

    BODY = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """
    A request that got no answer, in our words.

    Args:
        fault: What happened.

        detail: Nothing secret, and nothing that the server could have chosen.

        tunnel_status: What the proxy answered instead of opening a tunnel; 0 where that was not it.
    """

    fault: Fault
    detail: str
    tunnel_status: int = 0


def explain(error: BaseException, phase: Phase) -> Failure:
    """
    What *error* means for a request that had come as far as *phase*.
    """
    chain = tuple(_chain(error))
    for link in chain:
        if isinstance(link, ssl.SSLError) and _is_certificate(link):
            return Failure(Fault.CERTIFICATE, _words(link))
    tunnel = _tunnel_status(chain)
    if tunnel:
        return Failure(Fault.CONNECT, f"the proxy answered {tunnel}", tunnel)
    known = next((link for link in chain if _has_words(link)), chain[0])
    return Failure(_fault(chain, phase), _words(known))


def _fault(chain: tuple[BaseException, ...], phase: Phase) -> Fault:
    of_socket = any(_is_socket_error(link) for link in chain)
    if phase is Phase.RESOLVE and (of_socket or _any(chain, (UnicodeError, TimeoutError))):
        return Fault.DNS
    if _any(chain, _NOT_HTTP) and not _any(chain, http.client.RemoteDisconnected):
        return Fault.PROTOCOL
    if _any(chain, ssl.SSLError) and not _any(chain, _TLS_CUT):
        return Fault.PROTOCOL
    if phase in (Phase.CONNECT, Phase.HANDSHAKE):
        return Fault.CONNECT
    if _any(chain, TimeoutError):
        return Fault.TIMEOUT
    if not of_socket:
        return Fault.PROTOCOL
    return Fault.UPLOAD_RESET if phase is Phase.UPLOAD else Fault.RESET


_NOT_HTTP: Final = (
    http.client.HTTPException,
    urllib3.exceptions.DecodeError,
    urllib3.exceptions.InvalidHeader,
)
_TLS_CUT: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError, TimeoutError)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """
    *error*, then what it was made from, outermost first.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _any(chain: tuple[BaseException, ...], kind: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    return any(isinstance(link, kind) for link in chain)


def _is_socket_error(error: BaseException) -> bool:
    # The library's own exceptions are OSErrors too, without a number.
    return isinstance(error, OSError) and (error.errno is not None or isinstance(error, ConnectionError))


def _is_certificate(error: ssl.SSLError) -> bool:
    """
    Was it the peer's certificate, or its alert about ours? In TLS 1.3 the alert comes with the first answer.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    reason = _reason(error)
    return "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED"))


def _reason(error: ssl.SSLError) -> str:
    # Not there on those that Python's own half of the module raises.
    return getattr(error, "reason", None) or ""


_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d{3})\b")


def _tunnel_status(chain: tuple[BaseException, ...]) -> int:
    for link in chain:
        match = _TUNNEL.match(str(link)) if type(link) is OSError else None
        if match:
            return int(match[1])
    return 0


def _has_words(error: BaseException) -> bool:
    if isinstance(error, (ssl.SSLError, socket.gaierror, TimeoutError, http.client.HTTPException)):
        return True
    return isinstance(error, OSError) and error.errno is not None


def _words(error: BaseException) -> str:
    """
    *error* for a human, from tables of the system and of OpenSSL alone.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or "verification failed"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(_reason(error) or type(error).__name__).replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return _GAI_WORDS.get(error.errno or 0, "the host name could not be resolved")
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, http.client.RemoteDisconnected):
        return "closed by the server without an answer"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return type(error).__name__


_GAI_WORDS: Final = {
    socket.EAI_AGAIN: "the resolver did not answer, for now",
    socket.EAI_NONAME: "no such host name",
}
