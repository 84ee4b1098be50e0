# SPDX-License-Identifier: Apache-2.0
"""
How Datadog names what a record carries.

Sources: https://docs.datadoghq.com/logs/log_configuration/attributes_naming_convention/,
https://docs.datadoghq.com/logs/log_configuration/processors/log_status_remapper/ and
https://docs.datadoghq.com/logs/log_configuration/pipelines/ (``@timestamp`` is read before ``timestamp``).
"""

from __future__ import annotations

from functools import partial
from typing import Final

import orjson

from structbatch.core.severity import BAND_OF
from structbatch.vendors._fields import NO_MESSAGE, Dialect, Fields, fields_of_scope, milliseconds, named


# "fatal" would read as emergency; an unknown status reads as info, and so does none.
_STATUS_OF_BAND: Final = ("info", "trace", "debug", "info", "warn", "error", "critical")
_NAMES: Final = {"service.name": "service", "host.name": "hostname"}
_TAGS: Final = {"env": "deployment.environment.name", "version": "service.version"}
_OVERRIDES: Final = {
    "host": "host.name",
    "env": "deployment.environment.name",
    "environment": "deployment.environment.name",
    "version": "service.version",
}
_ERROR: Final = {"exception.type": "kind", "exception.message": "message", "exception.stacktrace": "stack"}
_LOGGER: Final = b'"logger":"'
_OWN: Final = frozenset(
    {"timestamp", "@timestamp", "status", "dd.trace_id", "dd.span_id", "structbatch.id", "ddsource", "ddtags"}
)

RESERVED: Final = _OWN.union(_NAMES.values(), _OVERRIDES)
"""
Keys that Datadog's members have, or that stand for one of them.
"""


def dialect(source: str, tags: str) -> Dialect:
    """
    Datadog's names, with *source* as ``ddsource`` and *tags* in ``ddtags``.
    """
    return Dialect(
        resource=partial(_members, source, tags),
        timestamp=milliseconds,
        level="status",
        levels=tuple(_STATUS_OF_BAND[band] for band in BAND_OF),
        trace_id="dd.trace_id",
        span_id="dd.span_id",
        trace_flags="",
        shadows=frozenset({"@timestamp"}),
        needles={_LOGGER: _nest_logger, b'"exception.': None},
        adapt=partial(_adapt, tags),
        adapted=frozenset({*_OVERRIDES, *_ERROR, "ddtags", "logger"}),
        needs_message=True,
    )


def _members(source: str, tags: str, resource: Fields, scope: Fields) -> Fields:
    attributes = {**fields_of_scope(scope), **resource}
    if isinstance(logger := attributes.get("logger"), str):
        attributes["logger"] = {"name": logger}
    rest = {name: value for name, value in attributes.items() if name not in _TAGS.values()}
    members = {"ddsource": source, "ddtags": _ddtags(resource, tags), **named(rest, _NAMES, _OWN | {"error"})}
    return {name: value for name, value in members.items() if value != ""}


def _ddtags(resource: Fields, *more: str) -> str:
    # A comma ends a tag, so that none may stand in a value.
    values = {tag: str(resource.get(attribute) or "").replace(",", "_") for tag, attribute in _TAGS.items()}
    return ",".join(filter(None, (*(f"{tag}:{value}" for tag, value in values.items() if value), *more)))


def _adapt(tags: str, members: Fields, fields: Fields, resource: Fields) -> None:
    """
    Turn the event's own host, environment and version into Datadog's, its logger and its exception likewise.
    """
    resource = {**resource, **_take_overrides(fields)}
    if "host.name" in resource:
        members["hostname"] = resource["host.name"]
    own_tags = fields.pop("ddtags") if isinstance(fields.get("ddtags"), str) else ""
    if ddtags := _ddtags(resource, tags, own_tags):
        members["ddtags"] = ddtags
    if isinstance(fields.get("logger"), str):
        members["logger"] = {"name": fields.pop("logger")}
    if error := {short: fields.pop(name) for name, short in _ERROR.items() if name in fields}:
        members["error"] = error
    message = fields.get("message")
    if message in (None, ""):
        fields["message"] = NO_MESSAGE
    elif not isinstance(message, str):
        fields["message"] = orjson.dumps(message).decode()


def _take_overrides(fields: Fields) -> Fields:
    """
    Resource attributes that *fields* gives itself, taken out of it; a second key for the same one stays a field.
    """
    taken: Fields = {}
    for name, attribute in _OVERRIDES.items():
        value = fields.get(name)
        rival = attribute in taken or (name == "host" and "hostname" in fields)
        if isinstance(value, str) and value and not rival:
            taken[attribute] = fields.pop(name)
    return taken


def _nest_logger(payload: bytes) -> bytes | None:
    """
    *payload* with its logger as an object, without parsing; None where that key may lie deeper.

    In valid JSON these bytes can only be a key with its colon; without a second brace it is the event's own.
    """
    head, _, rest = payload.partition(_LOGGER)
    name, _, tail = rest.partition(b'"')
    if b"{" in payload[1:] or b"\\" in name:
        return None
    return b'%b"logger":{"name":"%b"}%b' % (head, name, tail)
