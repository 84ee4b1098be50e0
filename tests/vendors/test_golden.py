# SPDX-License-Identifier: Apache-2.0
"""
Each vendor's request for the reference events, byte for byte.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from structbatch import vendors
from structbatch.core.vendor import Vendor
from structbatch.vendors.datadog import Datadog
from structbatch.vendors.json_array import JsonArray
from structbatch.vendors.ndjson import Ndjson
from tests.vendors.views import NOW_NS, as_text, finish, reference_view


GOLDEN = Path(__file__).parent / "golden"
VENDORS: dict[str, Vendor] = {
    "datadog": Datadog(site="datadoghq.eu", tags="team:shop"),
    "json_array": JsonArray("https://logs.example.com/in?tenant=a"),
    "ndjson": Ndjson("https://logs.example.com/in?tenant=a"),
}


def test_every_vendor_has_a_golden_request() -> None:
    """
    A new vendor comes with its bytes.
    """
    assert list(vendors.names()) == sorted(VENDORS)
    assert list(vendors.names()) == sorted(path.stem for path in GOLDEN.iterdir())


@pytest.mark.parametrize("name", VENDORS)
def test_the_reference_events_become_these_bytes(name: str) -> None:
    """
    What travels changes only where somebody means it to.
    """
    vendor = VENDORS[name]

    request = vendor.authorize(finish(vendor.request(reference_view(), NOW_NS)), "a-token", NOW_NS)

    assert (GOLDEN / f"{name}.http").read_bytes() == as_text(request)
