# SPDX-License-Identifier: Apache-2.0
"""
From a URL, arguments and the environment to a pipeline.

A URL is ``<vendor>+<http|https>://host[:port]/path?items``; a vendor that knows its own host also takes
``<vendor>://?items``. One spelling everywhere: the argument ``batch_max_records=500``, the query item
``?batch_max_records=500`` and the variable ``STRUCTBATCH_BATCH_MAX_RECORDS=500`` are the same setting; the argument
beats the URL, which beats the environment. An empty variable counts as unset.

A query item is a setting, an option of the vendor (``site``, ``tags``), or one of `OTHERS`. What must travel to the
server itself is written ``query.<name>=<value>``. Everything else is a `ConfigError` that names the nearest right
name. Secrets never stand in a URL.
"""

from __future__ import annotations

import dataclasses
import os

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, get_type_hints

from structbatch.core.record import HEADER_BYTES
from structbatch.core.settings import Settings, settings_from, unknown_name
from structbatch.core.vendor import Limits, Vendor
from structbatch.engine.address import PREFIX, endpoint, read_query, split_url
from structbatch.engine.credentials import Secret
from structbatch.engine.pipeline import Pipeline
from structbatch.engine.selflog import Problem
from structbatch.engine.source import RESOURCE, clean, make_source, otel_resource
from structbatch.errors import ConfigError
from structbatch.transport._routes import Proxy
from structbatch.transport.base import Transport
from structbatch.transport.requests import FROM_ENVIRONMENT, RequestsTransport


TEST_PREFIX: Final = "STRUCTBATCH_TEST_"

TRANSPORT: Final = ("ca_bundle", "client_cert", "client_key", "proxy")
OTHERS: Final = (*RESOURCE, *TRANSPORT, "name")
"""
Names beside settings and vendor options that URLs and the environment may give.
"""

NO_PROXY: Final = "none"
"""
What URLs and the environment say for ``proxy=None``: no proxy at all.
"""

_SETTINGS: Final = tuple(f.name for f in dataclasses.fields(Settings))
_OWN_VARIABLES: Final = (f"{PREFIX}URL", f"{PREFIX}TOKEN", f"{PREFIX}TOKEN_FILE")
_TRUTH: Final = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}

Token = str | Path | Callable[[], str | None] | None
Before = Callable[[Mapping[str, object]], Mapping[str, object] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """
    Everything that a pipeline is built from, validated.

    Args:
        vendor: Where to.

        settings: With the vendor's limits already applied.

        secret: The token, or one that is empty.

        source: The pipeline's own source, as a record's table holds it.

        transport: Makes one transport; called once by each sender.

        name: What problems and statistics call the destination.
    """

    vendor: Vendor
    settings: Settings
    secret: Secret
    source: bytes
    transport: Callable[[], Transport] = field(repr=False)
    name: str = ""


def from_url(
    url: str,
    *,
    token: Token = None,
    before: Before | None = None,
    on_problem: Callable[[Problem], None] | None = None,
    service: str | None = None,
    version: str | None = None,
    environment: str | None = None,
    host: str | None = None,
    resource: Mapping[str, object] | None = None,
    ca_bundle: str | Path | None = None,
    client_cert: str | Path | tuple[str | Path, str | Path] | None = None,
    proxy: Proxy = FROM_ENVIRONMENT,
    name: str = "",
    **settings: object,
) -> Pipeline:
    """
    The pipeline that *url* describes. Nothing is sent and no thread starts before the first event.

    Args:
        url: ``ndjson+https://host/path?batch_max_records=500``, ``datadog://?site=datadoghq.eu``.

        token:
            The secret: text, a `pathlib.Path` to a file, or a callable. Without it ``STRUCTBATCH_TOKEN`` or
            ``STRUCTBATCH_TOKEN_FILE``.

        before: Each event's mapping to another one, or to None for an event that is not shipped.

        on_problem: Called with each `structbatch.Problem`, on a thread of the pipeline.

        service: Who speaks; else what ``OTEL_SERVICE_NAME`` says. Never guessed.

        version: Of the service.

        environment: Where it runs: production, staging.

        host: This machine's name; else what the system says.

        resource: More attributes, flat; *service* and its sisters beat them, they beat ``OTEL_RESOURCE_ATTRIBUTES``.

        ca_bundle: File or directory of the certificates to trust instead of the usual ones.

        client_cert: File with our certificate and key, or a pair of files.

        proxy:
            URL of a proxy; None: none, whatever the environment says. Otherwise as ``HTTPS_PROXY``, ``HTTP_PROXY``,
            ``ALL_PROXY`` and ``NO_PROXY`` say.

        name: What problems and statistics call the destination.

        settings: Those of `structbatch.Settings`, and the options of the vendor.

    Raises:
        ConfigError: Anything is wrong, by its name, with the fix.
    """
    arguments = {
        **settings,
        "service": service,
        "version": version,
        "environment": environment,
        "host": host,
        "ca_bundle": ca_bundle,
        "client_cert": client_cert,
        "proxy": NO_PROXY if proxy is None else None if proxy is FROM_ENVIRONMENT else proxy,
        "name": name or None,
    }
    made = parse(url, arguments, token=token, resource=resource)
    return Pipeline(
        made.vendor,
        made.settings,
        transport=made.transport,
        secret=made.secret or None,
        source=made.source,
        before=before,
        on_problem=on_problem,
        name=made.name,
    )


def from_env(**overrides: Any) -> Pipeline:
    """
    The pipeline that ``STRUCTBATCH_URL`` and its sisters describe; *overrides* as for `from_url`.

    Raises:
        ConfigError: ``STRUCTBATCH_URL`` is not set, or anything is wrong.
    """
    url = os.environ.get(f"{PREFIX}URL", "").strip()
    if not url:
        msg = f"{PREFIX}URL is not set: give it a URL such as ndjson+https://logs.example.com/ingest"
        raise ConfigError(msg)
    return from_url(url, **overrides)


def parse(
    url: str,
    arguments: Mapping[str, object],
    *,
    token: Token = None,
    resource: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Configuration:
    """
    What *url*, *arguments* (None as a value: not given) and *environ* (None: the process's own) say together.

    Raises:
        ConfigError: Anything is wrong, by its name, with the fix.
    """
    environ = os.environ if environ is None else environ
    # None too, for os.environ.get("...") gives that: it is no URL either.
    kind, split = split_url(url or "")
    options = _options(kind)
    known = frozenset((*_SETTINGS, *options, *OTHERS))
    query, passed = read_query(split.query, known)
    for argument in arguments:
        if argument not in known:
            raise ConfigError(unknown_name(argument, iter(known), "argument"))
    weak = {**_variables(environ, known), **query}
    strong = {name: value for name, value in arguments.items() if value is not None}
    values = {**weak, **strong}
    settings = settings_from({name: values[name] for name in _SETTINGS if name in values})
    secret = _secret(token, environ)
    given = {name: values[name] for name in options if name in values}
    vendor = _vendor(kind, endpoint(split, passed), given, settings)
    _check(vendor, settings, secret)
    return Configuration(
        vendor=vendor,
        settings=effective_settings(settings, vendor.limits),
        secret=secret,
        source=make_source(otel_resource(environ), weak, resource or {}, strong),
        transport=_transport(values),
        name=str(values.get("name", "")),
    )


def effective_settings(settings: Settings, limits: Limits) -> Settings:
    """
    *settings* with the vendor's own *limits* where those are lower.
    """
    max_bytes = min(settings.batch_max_bytes, limits.max_bytes)
    return dataclasses.replace(
        settings,
        batch_max_records=min(settings.batch_max_records, limits.max_records),
        batch_max_bytes=max_bytes,
        max_event_bytes=min(settings.max_event_bytes, limits.max_event_bytes, max_bytes - HEADER_BYTES),
    )


def _variables(environ: Mapping[str, str], known: Iterable[str]) -> dict[str, object]:
    """
    What the environment says, without tokens; empty variables count as unset.
    """
    variables = {f"{PREFIX}{name.upper()}": name for name in known}
    found: dict[str, object] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(TEST_PREFIX) or variable in _OWN_VARIABLES:
            continue
        if variable not in variables:
            raise ConfigError(unknown_name(variable, iter((*variables, *_OWN_VARIABLES)), "variable"))
        if value.strip():
            found[variables[variable]] = clean(value)
    return found


def _secret(token: Token, environ: Mapping[str, str]) -> Secret:
    if token is not None:
        return Secret(token)
    text, path = (environ.get(f"{PREFIX}{name}", "").strip() for name in ("TOKEN", "TOKEN_FILE"))
    if text and path:
        msg = f"{PREFIX}TOKEN and {PREFIX}TOKEN_FILE are both set: keep one"
        raise ConfigError(msg)
    return Secret(Path(path) if path else text or None)


def _options(kind: type[Vendor]) -> dict[str, Any]:
    """
    The vendor's own options with their types; its address and the record's id come in other ways.
    """
    hints = get_type_hints(kind)
    names = (f.name for f in dataclasses.fields(kind) if f.init)  # type: ignore[arg-type]
    return {name: hints[name] for name in names if name not in ("url", "record_id")}


def _vendor(kind: type[Vendor], url: str, values: Mapping[str, object], settings: Settings) -> Vendor:
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    types = _options(kind)
    given = {name: _option(name, value, types[name]) for name, value in values.items()}
    if url:
        given["url"] = url
    if "record_id" in fields:
        given["record_id"] = settings.record_id
    for name, f in fields.items():
        required = f.init and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if required and name not in given:
            fix = f"write {kind.name}+https://host/path" if name == "url" else f"add ?{name}=... to the URL"
            msg = f"{kind.name} needs {'a host' if name == 'url' else name}: {fix}"
            raise ConfigError(msg)
    return kind(**given)


def _option(name: str, value: object, kind: object) -> object:
    """
    *value* as the type of a vendor's option.
    """
    word = str(value).strip().lower()
    if kind is bool and word in _TRUTH:
        return _TRUTH[word]
    if kind in (int, float) and isinstance(value, (str, int, float)):
        try:
            return kind(value)
        except ValueError:
            pass
    if kind not in (bool, int, float) and isinstance(value, str):
        return value
    wanted = {bool: "on or off", int: "a whole number", float: "a number"}.get(kind, "text")  # type: ignore[call-overload]
    msg = f"{name}={str(value)[:80]!r} is not {wanted}"
    raise ConfigError(msg)


def _check(vendor: Vendor, settings: Settings, secret: Secret) -> None:
    if vendor.secret_required and not secret:
        msg = f"{vendor.name} takes nothing without a token: give token=..., {PREFIX}TOKEN or {PREFIX}TOKEN_FILE"
        raise ConfigError(msg)
    if settings.compression is not None and settings.compression not in vendor.encodings:
        takes = ", ".join(coding.value for coding in vendor.encodings)
        msg = f"compression={settings.compression.value!r}: {vendor.name} takes {takes}"
        raise ConfigError(msg)


def _transport(values: Mapping[str, Any]) -> Callable[[], Transport]:
    options: dict[str, Any] = {}
    if ca_bundle := values.get("ca_bundle"):
        options["ca_bundle"] = os.path.abspath(ca_bundle)
    cert, key = values.get("client_cert"), values.get("client_key")
    if isinstance(cert, tuple):
        cert, key = cert
    if key and not cert:
        msg = "client_key without client_cert: give both"
        raise ConfigError(msg)
    if cert:
        options["client_cert"] = (os.path.abspath(cert), os.path.abspath(key)) if key else os.path.abspath(cert)
    if proxy := values.get("proxy"):
        options["proxy"] = None if proxy == NO_PROXY else proxy
    make = partial(RequestsTransport, **options)
    if options:
        # A file that is missing is said now, not at the first request.
        make().close()
    return make
