# SPDX-License-Identifier: Apache-2.0
"""
The transport that ships with structbatch: requests' HTTP adapter, prepared once, over connections that can be cut.

Nothing is done behind the engine's back: no redirect is followed, no cookie is kept, no credentials are looked up in
``.netrc``, nothing is retried, with one exception: a connection that stood idle and turns out to be dead before the
first byte of an answer is replaced at once, once, for keep-alive makes that an ordinary event.
"""

from __future__ import annotations

import os
import time

from collections.abc import Callable
from contextvars import Token
from typing import Any, Final

from opentelemetry import context as otel_context
from urllib3.response import HTTPResponse
from urllib3.util import Timeout

from structbatch.core.http import Request, Response
from structbatch.errors import ConfigError, Fault, TransportError
from structbatch.transport._faults import Failure, Phase, explain
from structbatch.transport._routes import MAX_ROUTES, Adapter, EnvironmentProxy, Proxy, Route, check_proxy
from structbatch.transport._trust import trust
from structbatch.transport._wire import Wire


MAX_BODY_BYTES: Final = 65536
"""
Most of an answer that is read, decoded. A connection with more to come is closed.
"""

IDLE_LIMIT: Final = 55.0
"""
Seconds: load balancers forget an idle connection after 60. Source:
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html
"""

MAX_AGE: Final = 300.0
"""
Seconds. Names are looked up at connect only, and the addresses of load balancers have a time to live of 60 s: a busy
connection finds a new one after five minutes at most. Source:
https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/how-elastic-load-balancing-works.html
"""

FROM_ENVIRONMENT: Final = EnvironmentProxy.FROM_ENVIRONMENT

_SLACK_PART: Final = 0.1
_SLACK_SECONDS: Final = 0.05
"""
An abort so long before the deadline is the deadline's: the engine's watch started a moment before ours.
"""


class RequestsTransport:
    """
    Carries requests for one sender thread, one at a time, over connections that it keeps.

    TLS is always verified.

    Args:
        ca_bundle:
            File or directory of certificates to trust instead of those that ``REQUESTS_CA_BUNDLE``,
            ``CURL_CA_BUNDLE``, ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` name, or else those that requests brings.

        client_cert: PEM file with our certificate and its key, or one file for each.

        proxy:
            URL of an HTTP proxy; None goes straight, whatever the environment says. By default the environment
            decides, ``NO_PROXY`` included.

        idle_limit: Seconds after which an idle connection is not used again.

        max_age: Seconds after which a connection is not used again, so that its name is looked up anew.

        clock: Monotonic seconds.

    Raises:
        structbatch.errors.ConfigError: A setting cannot be used; the message names it.
    """

    def __init__(
        self,
        *,
        ca_bundle: str | None = None,
        client_cert: str | tuple[str, str] | None = None,
        proxy: Proxy = FROM_ENVIRONMENT,
        idle_limit: float = IDLE_LIMIT,
        max_age: float = MAX_AGE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proxy = check_proxy(proxy)
        self._trust = trust(ca_bundle, client_cert)
        self._limits = (idle_limit, max_age)
        self._clock = clock
        self._start()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _start(self) -> None:
        self._pid = os.getpid()
        self._wire = Wire(self._clock, *self._limits)
        self._adapter = Adapter(self._wire, self._trust, self._proxy)
        self._routes: dict[str, Route] = {}

    def send(self, request: Request, timeout: float) -> Response:
        """
        Carry *request* and wait for the whole answer, whatever its status. The sender thread only.

        Args:
            request: Headers come without Content-Length; those that frame a message are ours alone.

            timeout:
                Seconds for all of it. A server that trickles is stopped by *abort* alone: a socket's own timeout
                begins anew at every byte.

        Returns:
            Redirects and errors too; 407 also where a proxy refused to open a tunnel.

        Raises:
            structbatch.errors.TransportError: There was no usable answer.
        """
        if self._pid != os.getpid():
            self.forget()
        wire = self._wire
        deadline = self._clock() + timeout
        outcome: Response | Failure = Failure(Fault.ABORTED, "")
        wire.begin(deadline)
        suppressed = _suppress_instrumentation()
        try:
            outcome = self._attempt(request)
            if isinstance(outcome, Failure) and self._was_stale(outcome):
                outcome = self._attempt(request)
        finally:
            otel_context.detach(suppressed)
            overdue = self._clock() >= deadline - max(_SLACK_SECONDS, _SLACK_PART * timeout)
            aborted = wire.end()
        if aborted:
            outcome = _aborted(wire.phase, overdue=overdue)
        # Raised here, where no exception of a library is being handled: it would travel along with its URL.
        if isinstance(outcome, Failure):
            raise TransportError(outcome.fault, outcome.detail)
        return outcome

    def abort(self) -> None:
        """
        End the request in progress now: its *send* then raises. Between two requests it does nothing. Any thread.
        """
        # A child shares the sockets of its parent: cutting one would cut the parent's.
        if self._pid == os.getpid():
            self._wire.abort()

    def close(self) -> None:
        """
        Give up all connections. A later *send* opens new ones. The sender thread only.
        """
        if self._pid != os.getpid():
            self.forget()
            return
        self._routes.clear()
        # The adapter merely forgets its pools, and leaves the sockets to the garbage collector.
        self._wire.close()
        self._adapter.close()

    def forget(self) -> None:
        """
        In a forked child: drop what the parent opened, without a byte to its peers. *send* does it by itself.
        """
        self._wire.abandon()
        self._start()

    def _attempt(self, request: Request) -> Response | Failure:
        """
        One try over one connection.
        """
        try:
            route = self._route(request.url)
            route.fill(request)
            left = self._wire.left()
            timeout: Any = Timeout(connect=left, read=left, total=left)
            answer: HTTPResponse = self._adapter.send(route, stream=True, timeout=timeout).raw
            return self._read(answer)
        except TransportError as error:
            return Failure(error.fault, error.detail)
        except ConfigError as error:
            return Failure(Fault.CERTIFICATE, str(error))
        except Exception as error:  # noqa: BLE001
            return self._explain(error)

    def _route(self, url: str) -> Route:
        route = self._routes.get(url)
        if route is None:
            if len(self._routes) >= MAX_ROUTES:
                self._routes.clear()
            route = self._routes[url] = self._adapter.route(url)
        return route

    def _read(self, answer: HTTPResponse) -> Response | Failure:
        """
        At most `MAX_BODY_BYTES` of *answer*; its connection is kept only if nothing speaks against it.
        """
        wire = self._wire
        wire.phase = Phase.BODY
        body = answer.read(MAX_BODY_BYTES + 1, decode_content=True)
        whole = len(body) <= MAX_BODY_BYTES
        if not whole or wire.upload_cut or _is_sick(answer.status):
            answer.close()
            if wire.connection is not None:
                wire.connection.close()
        if wire.upload_cut and 200 <= answer.status < 300:
            # It cannot have stored what it did not read.
            return Failure(Fault.UPLOAD_RESET, f"{answer.status} before all of the body was written")
        headers = {name.lower(): value for name, value in answer.headers.itermerged()}
        return Response(answer.status, headers, body if whole else body[:MAX_BODY_BYTES])

    def _explain(self, error: Exception) -> Response | Failure:
        wire = self._wire
        if wire.connection is not None:
            wire.connection.close()
        failure = explain(error, wire.phase)
        if failure.fault is Fault.CERTIFICATE:
            self._renew()
        if failure.tunnel_status == 407:
            return Response(407)
        return failure

    def _renew(self) -> None:
        """
        Read the certificates again at the next request: a person may have replaced them.
        """
        self._trust.renew()
        self.close()
        self._adapter = Adapter(self._wire, self._trust, self._proxy)

    def _was_stale(self, failure: Failure) -> bool:
        """
        Did a connection fail that had served before, without a byte of an answer?
        """
        wire = self._wire
        broken = failure.fault in (Fault.RESET, Fault.UPLOAD_RESET)
        return broken and wire.reused and wire.phase is not Phase.BODY and not wire.aborted


def _is_sick(status: int) -> bool:
    """
    Is the next request better off with another connection, and perhaps with another server behind it?
    """
    return status >= 500 or status in (408, 421, 429) or status < 200


def _aborted(phase: Phase, *, overdue: bool) -> Failure:
    if not overdue:
        return Failure(Fault.ABORTED, "")
    if phase <= Phase.HANDSHAKE:
        return Failure(Fault.CONNECT, "not connected within the timeout")
    return Failure(Fault.TIMEOUT, "no complete answer within the timeout")


_SUPPRESSED: Final = {
    getattr(otel_context, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation"): True,
    getattr(otel_context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", "suppress_http_instrumentation"): True,
}


def _suppress_instrumentation() -> Token[otel_context.Context]:
    """
    HTTP instrumentations leave this thread alone, until the token is given back.
    """
    return otel_context.attach(otel_context.Context({**otel_context.get_current(), **_SUPPRESSED}))
