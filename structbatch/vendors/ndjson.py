# SPDX-License-Identifier: Apache-2.0
"""
Newline-delimited JSON to any HTTP endpoint: one object per line, a newline after the last one too.

There is no standard. The names are those of https://opentelemetry.io/docs/specs/otel/compatibility/logging_trace_context/
for the trace, and plain words for the rest. What a status means is decided by
`structbatch.core.verdict.verdict_from_response`, as
https://github.com/vectordotdev/vector/blob/master/src/sinks/http/config.rs does.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from structbatch.core.compress import Compression
from structbatch.core.http import Request, Response, redact_url
from structbatch.core.vendor import Limits, View
from structbatch.core.verdict import Verdict, verdict_from_response
from structbatch.vendors._fields import Dialect, Fields, Splice, fields_of_scope, named


NAMES: Final = {
    "service.name": "service",
    "service.version": "version",
    "deployment.environment.name": "environment",
    "deployment.environment": "environment",
    "host.name": "host",
}


def _members(resource: Fields, scope: Fields) -> Fields:
    return named({**fields_of_scope(scope), **resource}, NAMES, DIALECT.own)


DIALECT: Final = Dialect(resource=_members)


@dataclass(frozen=True, slots=True, repr=False)
class Ndjson:
    """
    Any endpoint that takes ``application/x-ndjson``; a token travels as ``Authorization: Bearer``.

    Args:
        url: Where to, with scheme. Its query travels as it is.

        record_id: Write each record's id as ``structbatch.id``.
    """

    name: ClassVar[str] = "ndjson"
    limits: ClassVar[Limits] = Limits()
    encodings: ClassVar[tuple[Compression, ...]] = (Compression.GZIP, Compression.ZSTD, Compression.IDENTITY)
    reserved: ClassVar[frozenset[str]] = DIALECT.own | frozenset(NAMES.values())
    secret_required: ClassVar[bool] = False

    url: str = field()
    record_id: bool = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {redact_url(self.url)}>"

    def request(self, view: View, now_ns: int) -> Generator[None, None, Request]:
        """
        One line for each record of *view*.
        """
        lines = Splice(DIALECT, b"", b"\n", with_id=self.record_id)
        yield from lines.write(view)
        return Request(self.url, lines.body, {"Content-Type": "application/x-ndjson"})

    def authorize(self, request: Request, secret: str | None, now_ns: int) -> Request:
        """
        *request* with the token as bearer, or as it is where there is none.
        """
        return authorize_bearer(request, secret)

    def verdict(self, response: Response, request: Request) -> Verdict:
        """
        The status decides alone.
        """
        return verdict_from_response(response)


def authorize_bearer(request: Request, secret: str | None) -> Request:
    """
    *request* with *secret* as bearer token, or as it is where there is none.
    """
    if not secret:
        return request
    return replace(request, headers={**request.headers, "Authorization": f"Bearer {secret}"})
