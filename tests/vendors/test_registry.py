# SPDX-License-Identifier: Apache-2.0
"""
The registry, and what holds for every vendor in it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata

import pytest

from structbatch import vendors
from structbatch.core.compress import Compression
from structbatch.core.record import RESERVED_KEYS
from structbatch.errors import ConfigError


NAMES = vendors.names()


class TestLookup:
    """
    `vendors.lookup`
    """

    @pytest.mark.parametrize("name", NAMES)
    def test_each_name_finds_the_class_that_bears_it(self, name: str) -> None:
        """
        The word in the URL and the class's own name are one.
        """
        kind = vendors.lookup(name)

        assert name == kind.name

    def test_a_typing_error_is_answered_with_the_nearest_name(self) -> None:
        """
        An unknown vendor is a ConfigError that names the right one.
        """
        with pytest.raises(ConfigError, match="'datadig' is no vendor; did you mean 'datadog'"):
            vendors.lookup("datadig")

    def test_a_stranger_comes_by_entry_point(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A package of your own adds a vendor, and its name is among those suggested.
        """
        point = importlib.metadata.EntryPoint("acme", "structbatch.vendors.ndjson:Ndjson", vendors.ENTRY_POINTS)
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point] if group else [])

        assert vendors.lookup("ndjson") is vendors.lookup("acme")
        with pytest.raises(ConfigError, match="acme"):
            vendors.lookup("acne")

    def test_a_stranger_that_cannot_be_imported_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        What an import raises becomes a ConfigError that names the vendor.
        """
        point = importlib.metadata.EntryPoint("acme", "no_such_module_of_acme:Vendor", vendors.ENTRY_POINTS)
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point][: len(group)])

        with pytest.raises(ConfigError, match=r"vendor 'acme' .* cannot be imported: ModuleNotFoundError"):
            vendors.lookup("acme")


@pytest.mark.parametrize("name", NAMES)
class TestEveryVendor:
    """
    Promises of `structbatch.core.vendor.Vendor` that classes keep.
    """

    def test_reserved_keys_are_in_the_union(self, name: str) -> None:
        """
        A key that a vendor writes itself, but that encoding does not flag, would be written twice.
        """
        missing = vendors.lookup(name).reserved - RESERVED_KEYS

        assert frozenset() == missing

    def test_it_is_a_frozen_value(self, name: str) -> None:
        """
        Senders share one vendor: nothing may be remembered in it.
        """
        kind = vendors.lookup(name)

        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert hasattr(kind, "__slots__")

    def test_it_can_be_sent_to_without_compression(self, name: str) -> None:
        """
        After a 415 the body goes once more as it is.
        """
        encodings = vendors.lookup(name).encodings

        assert Compression.IDENTITY in encodings
        assert Compression.GZIP is encodings[0]
