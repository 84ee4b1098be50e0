# SPDX-License-Identifier: Apache-2.0
"""
One array: brackets and commas.
"""

from __future__ import annotations

import orjson
import pytest

from structbatch.vendors.json_array import JsonArray
from structbatch.vendors.ndjson import Ndjson
from tests.vendors.views import NOW_NS, finish, objects_of, record_of, view_of


URL = "https://logs.example.com/in"


@pytest.mark.parametrize("count", [1, 2, 501])
def test_the_array_holds_the_same_objects_as_the_lines(count: int) -> None:
    """
    One writer, two frames: also where a view has more than one chunk.
    """
    view = view_of(*(record_of({"message": str(number)}) for number in range(count)))

    request = finish(JsonArray(URL).request(view, NOW_NS))

    assert objects_of(finish(Ndjson(URL).request(view, NOW_NS))) == orjson.loads(request.body)
    assert "application/json" == request.headers["Content-Type"]


def test_a_large_view_is_written_in_steps() -> None:
    """
    The sender can give up the interpreter every 500 records.
    """
    view = view_of(*(record_of({"message": "m"}) for _ in range(1001)))

    assert [None] * 3 == list(JsonArray(URL).request(view, NOW_NS))
