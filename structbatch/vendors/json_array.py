# SPDX-License-Identifier: Apache-2.0
"""
One JSON array to any HTTP endpoint: the objects of :mod:`structbatch.vendors.ndjson` between brackets.

Logstash, Vector's JSON codec, Fluent Bit, Better Stack, Axiom, Parseable and OpenObserve take this form.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import ClassVar

from structbatch.core.compress import Compression
from structbatch.core.http import Request, Response, redact_url
from structbatch.core.vendor import Limits, View
from structbatch.core.verdict import Verdict, verdict_from_response
from structbatch.vendors._fields import Splice
from structbatch.vendors.ndjson import DIALECT, Ndjson, authorize_bearer


@dataclass(frozen=True, slots=True, repr=False)
class JsonArray:
    """
    Any endpoint that takes an array as ``application/json``; a token travels as ``Authorization: Bearer``.

    Args:
        url: Where to, with scheme. Its query travels as it is.

        record_id: Write each record's id as ``structbatch.id``.
    """

    name: ClassVar[str] = "json_array"
    limits: ClassVar[Limits] = Limits()
    encodings: ClassVar[tuple[Compression, ...]] = Ndjson.encodings
    reserved: ClassVar[frozenset[str]] = Ndjson.reserved
    secret_required: ClassVar[bool] = False

    url: str = field()
    record_id: bool = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {redact_url(self.url)}>"

    def request(self, view: View, now_ns: int) -> Generator[None, None, Request]:
        """
        One array of all records of *view*.
        """
        objects = Splice(DIALECT, b"[", b",", with_id=self.record_id)
        yield from objects.write(view)
        return Request(self.url, objects.array(), {"Content-Type": "application/json"})

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
