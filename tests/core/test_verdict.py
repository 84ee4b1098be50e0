# SPDX-License-Identifier: Apache-2.0
"""
What responses mean; the property tests hold the whole table.
"""

from __future__ import annotations

import pytest

from structbatch.core.http import Response
from structbatch.core.verdict import (
    Delivered,
    Hold,
    Reject,
    Retry,
    Split,
    Verdict,
    quote,
    retry_after,
    verdict_from_fault,
    verdict_from_response,
)
from structbatch.errors import Fault


@pytest.mark.parametrize(
    ("verdict", "response"),
    [
        (Delivered(), Response(204)),
        (Split(), Response(413)),
        (Split("400: body too large"), Response(400, {}, b'{"error":"Request Too Large"}')),
        (Reject("400: bad key"), Response(400, {}, b"bad key")),
        (Reject("422"), Response(422)),
        (Retry(7.0, "429", brownout=True), Response(429, {"retry-after": "7"})),
        (Retry(None, "500"), Response(500)),
        (Retry(None, "503", brownout=True), Response(503)),
        (Retry(None, "520"), Response(520, {}, b"too large")),
        (Retry(None, "101"), Response(101)),
        (Hold("302: redirects are never followed; use the final URL"), Response(302, {"location": "http://x/"})),
        (Hold("401: credentials missing or wrong"), Response(401)),
    ],
)
def test_statuses(verdict: Verdict, response: Response) -> None:
    """
    The status decides; the body refines a 400 only.
    """
    assert verdict == verdict_from_response(response)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0"), (1.5, "1.5"), (300.0, "86400"), (3.0, " 3 , 5"), (None, "soon"), (None, "-1"), (None, ""), (None, "٣")]
    + [(None, "1e3"), (None, "nan"), (300.0, "9" * 60), (None, "Wed, 21 Oct 2015 07:28:00 GMT")],
)
def test_retry_after(seconds: float | None, text: str) -> None:
    """
    Seconds up to 300; of a date without the server's own clock nobody knows how far away it is.
    """
    assert seconds == retry_after({"retry-after": text})


def test_retry_after_a_date() -> None:
    """
    Compared with the server's clock; one in the past is now.
    """
    date = {"date": "Wed, 21 Oct 2015 07:28:00 GMT"}

    assert 30.0 == retry_after({**date, "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"})
    assert 0.0 == retry_after({**date, "retry-after": "Wed, 21 Oct 2015 07:00:00 GMT"})
    assert retry_after({"date": "yesterday", "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}) is None


def test_faults() -> None:
    """
    Only a certificate needs a person; a timeout says that less may pass; who was never reached says nothing at all.
    """
    assert Hold("certificate: expired") == verdict_from_fault(Fault.CERTIFICATE, "expired")
    assert Hold("certificate not accepted") == verdict_from_fault(Fault.CERTIFICATE)
    assert Retry(None, "timeout", lighten=True) == verdict_from_fault(Fault.TIMEOUT)
    assert Retry(None, "dns", brownout=True) == verdict_from_fault(Fault.DNS, "no such host")
    assert Retry(None, "reset") == verdict_from_fault(Fault.RESET)


def test_a_quote_is_for_a_terminal() -> None:
    """
    One line, printable, short, whatever bytes a server sends.
    """
    assert "a b ?[31m" == quote(b"  a\n\tb \x1b[31m")
    assert "xx…" == quote(b"x" * 999, 3)
    assert "�" == quote(b"\xff")
