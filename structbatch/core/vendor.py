# SPDX-License-Identifier: Apache-2.0
"""
What a vendor is: a frozen value with pure functions and documented limits. There is no base class to inherit from.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from structbatch.core.batch import Batch
from structbatch.core.compress import Compression
from structbatch.core.encode import truncate_payload
from structbatch.core.http import Request, Response
from structbatch.core.record import Record, iter_records
from structbatch.core.verdict import Verdict


CHUNK_RECORDS: Final = 500
"""
A vendor yields at least this often: a Python loop holds the interpreter for 5 ms otherwise.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """
    What a vendor documents, and so the highest that its request ceiling ever rises.

    Args:
        max_records: Records in one request.

        max_bytes: Uncompressed bytes of one request's body.

        max_event_bytes: Bytes of one event.

        max_age: Seconds after which the vendor refuses or hides an event; None where it does not.

        max_batches: Batches in one request: 1 where the vendor dedupes whole requests, None where it does not.
    """

    max_records: int = 1_000_000
    max_bytes: int = 8_000_000
    max_event_bytes: int = 1_000_000
    max_age: float | None = None
    max_batches: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """
    Some of a batch: the ordinals still owed, ascending; None means all of them.
    """

    batch: Batch
    ordinals: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """
        How many records.
        """
        return self.batch.count if self.ordinals is None else len(self.ordinals)

    def ordinal(self, position: int) -> int:
        """
        The ordinal of the record at *position* of this part.
        """
        return position if self.ordinals is None else self.ordinals[position]


class View:
    """
    What a vendor sees of a bundle: its records in order, counted from 0 over all its batches.

    Args:
        parts: The batches, and what of each.

        truncate: Cut the payload to so many bytes (a single record that was too large); None: as it is.
    """

    __slots__ = ("count", "parts", "truncate")

    def __init__(self, parts: Sequence[Part], truncate: int | None = None) -> None:
        self.parts = tuple(parts)
        self.count = sum(part.count for part in self.parts)
        self.truncate = truncate

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[Batch, Record]]:
        """
        Each record with the batch that it belongs to, whose ``sources`` its source index points into.
        """
        for batch, record, _ in self.with_ordinals():
            yield batch, record

    def with_ordinals(self) -> Iterator[tuple[Batch, Record, int]]:
        """
        As iteration, with the record's ordinal in its batch.
        """
        for chunk in self.chunks():
            yield from chunk

    def chunks(self) -> Iterator[list[tuple[Batch, Record, int]]]:
        """
        As `with_ordinals`, in lists of at most `CHUNK_RECORDS`.
        """
        chunk: list[tuple[Batch, Record, int]] = []
        for part in self.parts:
            batch = part.batch
            owed = None if part.ordinals is None else frozenset(part.ordinals)
            for ordinal, record in enumerate(iter_records(batch.records)):
                if owed is not None and ordinal not in owed:
                    continue
                if self.truncate is not None:
                    record = self._fit(record, self.truncate)  # noqa: PLW2901
                chunk.append((batch, record, ordinal))
                if len(chunk) == CHUNK_RECORDS:
                    yield chunk
                    chunk = []
        if chunk:
            yield chunk

    @staticmethod
    def _fit(record: Record, most: int) -> Record:
        if len(record.payload) <= most:
            return record
        return record._replace(payload=memoryview(truncate_payload(bytes(record.payload), most)))


def record_id(batch: Batch, ordinal: int) -> str:
    """
    The id of a record: its batch's id and its ordinal, for ever, through retries, spool and replay.
    """
    return f"{batch.id.hex()}-{ordinal:x}"


class Vendor(Protocol):
    """
    **Protocol**: where bundles go.

    Implementations are frozen dataclasses whose fields are the options; secrets are never among them. All of it is
    pure: the time is an argument, nothing is read, nothing is remembered. Runs on sender threads, several at once.
    """

    name: ClassVar[str]
    """The word for URLs, statistics and problems."""

    limits: ClassVar[Limits]
    """What the vendor documents."""

    encodings: ClassVar[tuple[Compression, ...]]
    """Content codings that it accepts, the preset first."""

    reserved: ClassVar[frozenset[str]]
    """Top-level keys that it writes itself: a subset of `structbatch.core.record.RESERVED_KEYS`."""

    secret_required: ClassVar[bool]
    """Whether it takes nothing without a token."""

    def request(self, view: View, now_ns: int) -> Generator[None, None, Request]:
        """
        The request that carries *view*, uncompressed and without credentials.

        Yields after each chunk of at most `CHUNK_RECORDS` records, so that the sender can give up the interpreter.
        """
        ...

    def authorize(self, request: Request, secret: str | None, now_ns: int) -> Request:
        """
        *request* with credentials. Runs after compression, at every attempt.
        """
        ...

    def verdict(self, response: Response, request: Request) -> Verdict:
        """
        What *response* means. Never raises, whatever the server sent.
        """
        ...
