# SPDX-License-Identifier: Apache-2.0
"""
What one request carries: some of one or more batches, divided at batch borders before a batch is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from structbatch.core.poison import Search
from structbatch.core.vendor import Part


STRIKES: Final = 3
"""
Failures of one bundle, each between two successes of others, that make it a suspect.
"""


class Bundle:
    """
    The parts of one request, fixed at its first send and retried as they are; attempts belong to it.

    Mutable, owned by `structbatch.core.delivery.Delivery`, touched under the pipeline's lock only.
    """

    __slots__ = (
        "attempts",
        "body_bytes",
        "bytes",
        "count",
        "cut_uploads",
        "exhausted",
        "parts",
        "replayed",
        "rounds",
        "search",
        "strikes",
        "success_mark",
        "truncate",
    )

    def __init__(self, parts: Iterable[Part], *, replayed: bool = False) -> None:
        self.parts = tuple(parts)
        self.count = count_of(self.parts)
        self.bytes = bytes_of(self.parts)
        self.replayed = replayed
        self.attempts = 0
        self.exhausted = False
        self.body_bytes = 0
        self.cut_uploads = 0
        self.search: Search | None = None
        self.rounds = 0
        self.strikes = 0
        self.success_mark = 0
        self.truncate = False

    def with_parts(self, parts: Iterable[Part]) -> Bundle:
        """
        A bundle of what is left of this one: its history of failures goes with it, its attempts do not.
        """
        other = Bundle(parts, replayed=self.replayed)
        other.rounds = self.rounds
        other.strikes = self.strikes
        other.success_mark = self.success_mark
        return other

    def narrow(self, parts: Iterable[Part]) -> None:
        """
        Of what it carries only *parts* are still owed.
        """
        self.parts = tuple(parts)
        self.count = count_of(self.parts)
        self.bytes = bytes_of(self.parts)

    @property
    def position(self) -> int:
        """
        Sequence number of its first record.
        """
        first = self.parts[0]
        return first.batch.first_sequence + (first.ordinals[0] if first.ordinals else 0)


def count_of(parts: Sequence[Part]) -> int:
    """
    Records in *parts*.
    """
    return sum(part.count for part in parts)


def bytes_of(parts: Sequence[Part]) -> int:
    """
    Record bytes of *parts*; of a batch in part, its share by count.
    """
    total = 0
    for part in parts:
        batch = part.batch
        total += len(batch.records) if part.ordinals is None else len(batch.records) * part.count // batch.count
    return total
