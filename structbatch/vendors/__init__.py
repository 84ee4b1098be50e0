# SPDX-License-Identifier: Apache-2.0
"""
Vendors by the name that stands in front of a URL: ``ndjson+https://...``.

Ours are imported when they are asked for. A package of your own adds one with an entry point in the group
``structbatch.vendors`` that names a class like those of `structbatch.core.vendor.Vendor`; it cannot replace ours.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from structbatch.core.settings import unknown_name
from structbatch.core.vendor import Vendor
from structbatch.errors import ConfigError


ENTRY_POINTS: Final = "structbatch.vendors"

_OURS: Final = {
    "datadog": "structbatch.vendors.datadog:Datadog",
    "json_array": "structbatch.vendors.json_array:JsonArray",
    "ndjson": "structbatch.vendors.ndjson:Ndjson",
}


def names() -> tuple[str, ...]:
    """
    Names of the vendors that come with structbatch, sorted.
    """
    return tuple(sorted(_OURS))


def lookup(name: str) -> type[Vendor]:
    """
    The vendor class called *name*.

    Raises:
        ConfigError: There is none, with the nearest name that there is; or a stranger's cannot be imported.
    """
    if name not in _OURS:
        return _stranger(name)
    module, _, attribute = _OURS[name].partition(":")
    return cast("type[Vendor]", getattr(import_module(module), attribute))


def _stranger(name: str) -> type[Vendor]:
    # Reading what is installed takes tens of milliseconds: only where the name is not ours.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in found:
        raise ConfigError(unknown_name(name, iter({*_OURS, *found}), "vendor"))
    try:
        return cast("type[Vendor]", found[name].load())
    except Exception as error:
        msg = f"vendor {name!r} of {found[name].value!r} cannot be imported: {type(error).__name__}"
        raise ConfigError(msg) from error
