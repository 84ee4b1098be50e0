# SPDX-License-Identifier: Apache-2.0
"""
Who speaks: the resource that every record of a pipeline carries.
"""

from __future__ import annotations

import socket

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import orjson

from structbatch.errors import ConfigError


RESOURCE: Final = {
    "service": "service.name",
    "version": "service.version",
    "environment": "deployment.environment.name",
    "host": "host.name",
}
"""
Arguments that are resource attributes. Source: https://opentelemetry.io/docs/specs/semconv/resource/
"""


def make_source(
    otel: Mapping[str, object], weak: Mapping[str, object], resource: Mapping[str, object], strong: Mapping[str, object]
) -> bytes:
    """
    The pipeline's own source: later arguments beat earlier ones.
    """
    attributes = {"host.name": _host_name(), **otel}
    attributes |= {RESOURCE[name]: weak[name] for name in RESOURCE if name in weak}
    attributes |= resource
    attributes |= {RESOURCE[name]: strong[name] for name in RESOURCE if name in strong}
    for name, attribute in RESOURCE.items():
        if not isinstance(attributes.get(attribute, ""), str):
            msg = f"{name}={attributes[attribute]!r} is not text"
            raise ConfigError(msg)
    kept = {name: value for name, value in attributes.items() if value not in (None, "")}
    try:
        return orjson.dumps({"resource": kept}, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        msg = f"resource holds what JSON cannot carry: {error}"
        raise ConfigError(msg) from None


def otel_resource(environ: Mapping[str, str]) -> dict[str, object]:
    """
    ``OTEL_RESOURCE_ATTRIBUTES`` and, stronger, ``OTEL_SERVICE_NAME``; entries that cannot be read are passed over.

    Source: https://opentelemetry.io/docs/specs/otel/resource/sdk/#specifying-resource-information-via-an-environment-variable
    """
    attributes: dict[str, object] = {}
    for item in clean(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")).split(","):
        key, separator, value = item.partition("=")
        if separator and key.strip():
            attributes[unquote(key.strip())] = unquote(value.strip())
    if service := clean(environ.get("OTEL_SERVICE_NAME", "")):
        attributes["service.name"] = service
    return attributes


def _host_name() -> str:
    try:
        return clean(socket.gethostname())
    except (OSError, ValueError):
        return ""


def clean(text: str) -> str:
    """
    *text* of the environment without the surrogates that stand for undecodable bytes.
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip()
