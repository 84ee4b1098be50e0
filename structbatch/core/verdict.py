# SPDX-License-Identifier: Apache-2.0
"""
What a response means for the records of its request: a closed set of verdicts.

The status decides first; a vendor's body can only refine. No answer can raise here.
"""

from __future__ import annotations

import math

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from structbatch.core.http import Response
from structbatch.errors import Fault


@dataclass(frozen=True, slots=True)
class Delivered:
    """
    All of it is with the vendor.
    """


@dataclass(frozen=True, slots=True)
class Partial:
    """
    Some of it. Positions are the view's; what is named in neither is delivered.

    Args:
        retry: Positions to send again.

        reject: Positions that will never be taken, with the vendor's words.

        unnamed: How many more were rejected that the vendor does not name: counted as dead, without a letter.
    """

    retry: frozenset[int] = frozenset()
    reject: Mapping[int, str] = field(default_factory=dict)
    unnamed: int = 0


@dataclass(frozen=True, slots=True)
class Retry:
    """
    The same bytes again, later.

    Args:
        after: Seconds that the server asked for, clamped; None where it did not ask.

        reason: A status or a fault, in a word.

        brownout:
            The server is busy or away (408, 429, 502, 503, 504, no connection): that says nothing about these
            records.

        lighten: A smaller request may pass (timeout, an upload that was cut off).
    """

    after: float | None = None
    reason: str = ""
    brownout: bool = False
    lighten: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """
    Too large: the same records in smaller requests.
    """

    reason: str = "413"


@dataclass(frozen=True, slots=True)
class Hold:
    """
    A person must fix it: kept, probed slowly.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Reject:
    """
    Something in it will never be taken: search for the culprit.
    """

    reason: str


Verdict = Delivered | Partial | Retry | Split | Hold | Reject

MAX_RETRY_AFTER: Final = 300.0
"""
Longest wait that a server may ask for, in seconds: a gate must not stay shut for a year because of one odd header.
"""

_RETRYABLE: Final = frozenset({408, 421, 425, 429})
_BROWNOUT: Final = frozenset({408, 429, 502, 503, 504})
_HOLD: Final = {
    401: "credentials missing or wrong",
    403: "credentials not allowed",
    404: "endpoint not found",
    405: "method not allowed: wrong endpoint?",
    407: "the proxy wants credentials",
    415: "content type or encoding not accepted",
    501: "not implemented: wrong endpoint or encoding?",
    505: "HTTP version not supported",
}


def verdict_from_response(response: Response) -> Verdict:
    """
    The verdict of the status alone, as the field reads it.

    Source: section 15 of https://www.rfc-editor.org/rfc/rfc9110, https://www.rfc-editor.org/rfc/rfc6585 (429) and
    https://github.com/vectordotdev/vector/blob/master/src/sinks/util/http.rs for what shippers retry.
    """
    status = response.status
    if 200 <= status < 300:
        return Delivered()
    if 300 <= status < 400:
        return Hold(f"{status}: redirects are never followed; use the final URL")
    if status in _HOLD:
        return Hold(f"{status}: {_HOLD[status]}")
    if status == 413:
        return Split()
    if status in _RETRYABLE or status >= 500:
        return Retry(retry_after(response.headers), str(status), brownout=status in _BROWNOUT)
    if status == 400 and _says_too_large(response.body):
        return Split("400: body too large")
    if status < 200:
        return Retry(None, str(status))
    return Reject(f"{status}: {quote(response.body)}".rstrip(": "))


def verdict_from_fault(fault: Fault, detail: str = "") -> Verdict:
    """
    The verdict where there is no answer at all.
    """
    match fault:
        case Fault.CERTIFICATE:
            return Hold(f"certificate: {detail}" if detail else "certificate not accepted")
        case Fault.TIMEOUT | Fault.UPLOAD_RESET:
            return Retry(None, fault.value, lighten=True)
        case Fault.DNS | Fault.CONNECT | Fault.ABORTED:
            return Retry(None, fault.value, brownout=True)
        case Fault.RESET | Fault.PROTOCOL:
            return Retry(None, fault.value)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """
    Seconds that a ``retry-after`` header asks for, from 0 to `MAX_RETRY_AFTER`; None where it says nothing usable.

    A date is compared with the server's own ``date`` header, for our clock may be wrong; without one it cannot be
    told how far away it is, and counts as unusable.

    Source: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    text = headers.get("retry-after", "").split(",")[0].strip()[:64]
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return _clamp(float(text))
    until = _parse_date(headers.get("retry-after", "").strip()[:64])
    at = _parse_date(headers.get("date", "").strip()[:64])
    if until is None or at is None:
        return None
    return _clamp((until - at).total_seconds())


def _clamp(seconds: float) -> float | None:
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def _parse_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


_TOO_LARGE: Final = (
    b"too large",
    b"too big",
    b"exceeds the maximum",
    b"exceeds the limit",
    b"exceeded maximum",
    b"maximum size",
    b"size limit",
)


def _says_too_large(body: bytes) -> bool:
    text = body[:4096].lower()
    return any(phrase in text for phrase in _TOO_LARGE)


def quote(body: bytes, limit: int = 200) -> str:
    """
    The start of an answer for a human: one line, printable, at most *limit* characters.
    """
    text = " ".join(body[: limit * 4].decode("utf-8", "replace").split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
