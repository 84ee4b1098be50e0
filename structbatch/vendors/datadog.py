# SPDX-License-Identifier: Apache-2.0
"""
Datadog's log intake, version 2: one JSON array.

Sources: https://docs.datadoghq.com/api/latest/logs/#send-logs,
https://docs.datadoghq.com/logs/log_configuration/pipelines/ (reserved attributes, how old a log may be),
https://docs.datadoghq.com/tracing/other_telemetry/connect_logs_and_traces/opentelemetry/ (ids in hex) and
https://github.com/vectordotdev/vector/blob/master/src/sinks/datadog/logs/config.rs (4.25 MB as a safe target).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar, Final
from urllib.parse import urlsplit

from structbatch.core.compress import Compression
from structbatch.core.http import Request, Response, redact_url
from structbatch.core.settings import unknown_name
from structbatch.core.vendor import Limits, View
from structbatch.core.verdict import Verdict, verdict_from_response
from structbatch.errors import ConfigError
from structbatch.vendors._datadog import RESERVED, dialect
from structbatch.vendors._fields import Splice


SITES: Final = (
    "datadoghq.com",
    "us3.datadoghq.com",
    "us5.datadoghq.com",
    "datadoghq.eu",
    "ap1.datadoghq.com",
    "ap2.datadoghq.com",
    "uk1.datadoghq.com",
    "ddog-gov.com",
    "us2.ddog-gov.com",
)
"""
Source: https://docs.datadoghq.com/getting_started/site/
"""

PATH: Final = "/api/v2/logs"
MAX_AGE: Final = 18 * 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class Datadog:
    """
    Datadog; the API key is the token.

    Args:
        site: One of `SITES`.

        url: Instead of the site's own address: a proxy or a test; without a path it gets Datadog's.

        tags: More tags, ``key:value`` with commas between them.

        source: Value of ``ddsource``, which selects Datadog's integration pipeline.

        record_id: Write each record's id as ``structbatch.id``.

    Raises:
        ConfigError: The site is none of Datadog's.
    """

    name: ClassVar[str] = "datadog"
    limits: ClassVar[Limits] = Limits(
        max_records=1_000, max_bytes=4_250_000, max_event_bytes=1_000_000, max_age=MAX_AGE
    )
    encodings: ClassVar[tuple[Compression, ...]] = (Compression.GZIP, Compression.IDENTITY)
    reserved: ClassVar[frozenset[str]] = RESERVED
    secret_required: ClassVar[bool] = True

    site: str = "datadoghq.com"
    url: str = ""
    tags: str = ""
    source: str = "python"
    record_id: bool = False

    def __post_init__(self) -> None:
        if self.site not in SITES:
            raise ConfigError(unknown_name(self.site, iter(SITES), "Datadog site"))

    def __repr__(self) -> str:
        return f"<Datadog {redact_url(self.endpoint)}>"

    @property
    def endpoint(self) -> str:
        """
        Where requests go.
        """
        url = self.url or f"https://http-intake.logs.{self.site}"
        parts = urlsplit(url)
        return parts._replace(path=PATH).geturl() if parts.path in ("", "/") else url

    def request(self, view: View, now_ns: int) -> Generator[None, None, Request]:
        """
        One array of *view*; records that Datadog would not index any more are refused as ``expired``.
        """
        oldest_ns = now_ns - int(MAX_AGE * 1_000_000_000)
        objects = Splice(dialect(self.source, self.tags), b"[", b",", with_id=self.record_id, oldest_ns=oldest_ns)
        yield from objects.write(view)
        headers = {"Content-Type": "application/json"}
        return Request(self.endpoint, objects.array(), headers, objects.rows, objects.refused)

    def authorize(self, request: Request, secret: str | None, now_ns: int) -> Request:
        """
        *request* with the API key.
        """
        return replace(request, headers={**request.headers, "DD-API-KEY": secret}) if secret else request

    def verdict(self, response: Response, request: Request) -> Verdict:
        """
        The status decides alone: there is no result per event.
        """
        return verdict_from_response(response)
