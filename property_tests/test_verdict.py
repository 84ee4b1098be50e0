# SPDX-License-Identifier: Apache-2.0
"""
Whatever a server, a proxy or a network answers, there is a verdict, and it is the documented one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from structbatch.core.http import Response
from structbatch.core.verdict import (
    MAX_RETRY_AFTER,
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


DATES = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "date"]),
    st.text(max_size=80)
    | st.sampled_from(["٣", "1.2.3", "1e999", "nan", "-1", "9" * 400, "Mon, 99 Foo 2024 99:99:99"]),
)


@given(status=st.integers(-1, 1200), headers=HEADERS, body=st.binary(max_size=300))
def test_every_answer_has_a_verdict(status: int, headers: dict[str, str], body: bytes) -> None:
    """
    No answer raises.
    """
    assert isinstance(verdict_from_response(Response(status, headers, body)), get_args(Verdict))


@given(status=st.integers(100, 999))
def test_the_status_decides(status: int) -> None:
    """
    The table of documented verdicts, status by status.
    """
    if 200 <= status < 300:
        expected: type = Delivered
    elif status == 413:
        expected = Split
    elif status in {401, 403, 404, 405, 407, 415, 501, 505} or 300 <= status < 400:
        expected = Hold
    elif status in {408, 421, 425, 429} or status >= 500 or status < 200:
        expected = Retry
    else:
        expected = Reject

    verdict = verdict_from_response(Response(status))

    assert expected is type(verdict)
    assert (status in {408, 429, 502, 503, 504}) == (isinstance(verdict, Retry) and verdict.brownout)


@given(headers=HEADERS)
def test_retry_after_is_sane(headers: dict[str, str]) -> None:
    """
    None, or 0 to 300 seconds, whatever stands there.
    """
    seconds = retry_after(headers)

    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER


@given(seconds=st.integers(0, 10**9), tail=st.sampled_from(["", " ", ", 7"]))
def test_seconds_are_taken_as_they_are(seconds: int, tail: str) -> None:
    """
    Whole seconds, up to 300; of a repeated header the first.
    """
    assert min(seconds, MAX_RETRY_AFTER) == retry_after({"retry-after": f"{seconds}{tail}"})


@given(date=DATES, seconds=st.integers(-(10**6), 10**6))
def test_a_date_is_compared_with_the_servers_own_clock(date: datetime, seconds: int) -> None:
    """
    Our clock plays no part: without the server's a date is unusable.
    """
    until = format_datetime(date + timedelta(seconds=seconds), usegmt=True)

    assert min(max(seconds, 0), 300) == retry_after({"retry-after": until, "date": format_datetime(date, usegmt=True)})
    assert retry_after({"retry-after": until}) is None


@given(fault=st.sampled_from(Fault), detail=st.text(max_size=20))
def test_every_fault_has_a_verdict(fault: Fault, detail: str) -> None:
    """
    Only a certificate needs a person; only a timeout and a cut upload say that less may pass; only what never reached
    the server says nothing about the records.
    """
    verdict = verdict_from_fault(fault, detail)

    assert isinstance(verdict, Hold) == (fault is Fault.CERTIFICATE)
    if isinstance(verdict, Retry):
        assert (fault in {Fault.TIMEOUT, Fault.UPLOAD_RESET}) == verdict.lighten
        assert (fault in {Fault.DNS, Fault.CONNECT, Fault.ABORTED}) == verdict.brownout
        assert fault.value == verdict.reason


@given(body=st.binary(max_size=2000), limit=st.integers(1, 300))
def test_a_quote_is_one_printable_line(body: bytes, limit: int) -> None:
    """
    What a server says ends up in a terminal: no control characters, no more than asked.
    """
    text = quote(body, limit)

    assert len(text) <= limit
    assert text.isprintable()
