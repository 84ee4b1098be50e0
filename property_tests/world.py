# SPDX-License-Identifier: Apache-2.0
"""
The world around a delivery machine under test: records that are numbers, a server with moods, a disk that is a list.

Everything that takes time is started and finished by two calls, so that everything may happen in between.
"""

from __future__ import annotations

import enum

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from structbatch.core.actions import Send
from structbatch.core.batch import Batch, count_bands
from structbatch.core.http import Request
from structbatch.core.poison import ordinals_of
from structbatch.core.record import pack_record
from structbatch.core.severity import BAND_OF
from structbatch.core.vendor import Part, View
from structbatch.core.verdict import Delivered, Hold, Partial, Reject, Retry, Split, Verdict


SOURCES = (b'{"resource":{}}', b'{"resource":{"service.name":"a"}}', b'{"resource":{"service.name":"b"}}')
WRITER = b"writer-001"
PREFIX = b'{"message":"'
DIGITS = 8


class Kind(enum.Enum):
    """
    What is the matter with a record. The server alone knows.
    """

    GOOD = "good"
    POISON = "poison"
    DOOMED = "doomed"
    EXPIRED = "expired"
    EMPTY = "empty"
    PICKY = "picky"


class Known(NamedTuple):
    """
    What the oracle knows about a record.
    """

    kind: Kind
    severity: int
    size: int
    source: bytes = SOURCES[0]

    @property
    def band(self) -> int:
        """
        Position of its severity band.
        """
        return BAND_OF[self.severity]


def record_of(number: int, known: Known) -> bytes:
    """
    The record that is called *number*.
    """
    payload = PREFIX + b"%0*d" % (DIGITS, number) + b'"}'
    return pack_record(payload.ljust(known.size), number, known.severity)


def number_in(payload: memoryview) -> int:
    """
    What the record with *payload* is called.
    """
    return int(bytes(payload[len(PREFIX) : len(PREFIX) + DIGITS]))


def numbers_of(parts: Sequence[Part]) -> list[int]:
    """
    The records of *parts*, in order.
    """
    return [number_in(record.payload) for _, record in View(parts)]


class Mood(NamedTuple):
    """
    Of what mind the server is, for a while. *amount* is seconds, records or bytes.
    """

    word: str
    amount: float = 0.0


MOODS = ("ok", "busy", "later", "broken", "silent", "locked", "few", "small", "choosy", "refuses")


def mood_of(word: str, amount: float) -> Mood:
    """
    The mood *word*, its *amount* (0 to 1) in the unit that it has.
    """
    scale = {"later": 400.0, "few": 10.0, "small": 6000.0, "choosy": 3.0}
    return Mood(word, amount * scale.get(word, 0.0))


@dataclass
class Server:
    """
    Answers by its mood; whatever its mood, it never takes what is bad.

    Args:
        known: All records by number.
    """

    known: dict[int, Known]
    mood: Mood = Mood("ok")
    received: dict[int, int] = field(default_factory=dict)
    asked_again: set[int] = field(default_factory=set)

    def refused_by_vendor(self, numbers: Sequence[int]) -> dict[int, str]:
        """
        Positions that the vendor does not even send, with its reasons.
        """
        words = {Kind.EXPIRED: "expired", Kind.EMPTY: "empty"}
        kinds = {position: self.known[number].kind for position, number in enumerate(numbers)}
        return {position: words[kind] for position, kind in kinds.items() if kind in words}

    def answer(self, send: Send, body_bytes: int) -> tuple[Verdict, Request]:
        """
        The verdict for *send*, and the request that it answers.
        """
        numbers = numbers_of(send.parts)
        refused = self.refused_by_vendor(numbers)
        request = Request("http://127.0.0.1/", b"", refused=refused)
        sent = {position: number for position, number in enumerate(numbers) if position not in refused}
        verdict = self._verdict(sent, body_bytes) if sent else Delivered()
        self._receive(sent, verdict)
        return verdict, request

    def _verdict(self, sent: dict[int, int], body_bytes: int) -> Verdict:
        word, amount = self.mood
        match word:
            case "busy":
                return Retry(None, "503", brownout=True)
            case "later":
                return Retry(amount, "429", brownout=True)
            case "broken":
                return Retry(None, "500")
            case "silent":
                return Retry(None, "timeout", lighten=True)
            case "locked":
                return Hold("401")
            case "refuses":
                return Reject("400")
        if (word == "few" and len(sent) > amount) or (word == "small" and body_bytes > amount):
            return Split()
        kinds = {position: self.known[number].kind for position, number in sent.items()}
        if Kind.DOOMED in kinds.values():
            return Retry(None, "500")
        if word == "choosy":
            return self._partial(sent, kinds, int(amount))
        return Reject("400") if Kind.POISON in kinds.values() else Delivered()

    def _partial(self, sent: dict[int, int], kinds: dict[int, Kind], unnamed: int) -> Verdict:
        """
        Poison is named, picky records are asked for a second time, and some are rejected without a name.
        """
        again = {p for p, kind in kinds.items() if kind is Kind.PICKY and sent[p] not in self.asked_again}
        self.asked_again |= {sent[position] for position in again}
        reject = {position: "bad" for position, kind in kinds.items() if kind is Kind.POISON}
        return Partial(frozenset(again), reject, unnamed)

    def _receive(self, sent: dict[int, int], verdict: Verdict) -> None:
        taken = set(sent)
        if isinstance(verdict, Partial):
            taken -= verdict.retry | verdict.reject.keys()
        elif not isinstance(verdict, Delivered) and self.mood.word != "silent":
            # Who does not answer may have acted: that is why there is at-least-once only.
            return
        for position in taken:
            self.received[sent[position]] = self.received.get(sent[position], 0) + 1


@dataclass(eq=False)
class Frame:
    """
    A batch on disk with what it owes.
    """

    batch: Batch
    owed: tuple[int, ...]
    held: bool = False
    """Loaded, and neither acknowledged nor released."""

    def numbers(self) -> list[int]:
        """
        The records that it owes.
        """
        return numbers_of([Part(self.batch, self.owed)])


@dataclass
class Disk:
    """
    A spool that is a list, oldest first; writes may fail for a while.
    """

    frames: list[Frame] = field(default_factory=list)
    failing: bool = False

    def write(self, part: Part) -> Frame | None:
        """
        A new frame of *part*, copied as a disk would; None where the write fails.
        """
        if self.failing:
            return None
        batch = part.batch
        copy = Batch(
            id=bytes(batch.id),
            records=memoryview(bytes(batch.records)),
            bands_by_record=bytes(batch.bands_by_record),
            bands=count_bands(batch.bands_by_record),
            sources=tuple(batch.sources),
            first_sequence=batch.first_sequence,
            first_time_ns=batch.first_time_ns,
            last_time_ns=batch.last_time_ns,
        )
        frame = Frame(copy, ordinals_of(part))
        self.frames.append(frame)
        return frame

    def oldest(self) -> Frame | None:
        """
        The oldest frame that nobody holds; held from now on.
        """
        frame = next((frame for frame in self.frames if not frame.held), None)
        if frame is not None:
            frame.held = True
        return frame

    def forget(self, frame: Frame) -> None:
        """
        *frame* was acknowledged.
        """
        self.frames.remove(frame)

    def give_back(self, frame: Frame, part: Part, *, last: bool) -> None:
        """
        Of *frame* only *part* is owed; where the write fails, it stays as it was.
        """
        frame.held = False
        if self.failing:
            return
        frame.owed = ordinals_of(part)
        if last:
            self.frames.remove(frame)
            self.frames.append(frame)
