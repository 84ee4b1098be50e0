# SPDX-License-Identifier: Apache-2.0
"""
Short words for tests that tell a delivery machine a story.
"""

from __future__ import annotations

from typing import Any

from structbatch.core.actions import Send
from structbatch.core.batch import Batch, OpenBatch, batch_id
from structbatch.core.delivery import Delivery
from structbatch.core.record import pack_record
from structbatch.core.settings import Settings
from structbatch.core.settlement import Letter, settle
from structbatch.core.vendor import Limits, Part, View
from structbatch.core.verdict import Delivered, Reject, Retry, Verdict


BUSY = Retry(None, "503", brownout=True)
BROKEN = Retry(None, "500")
REFUSED = Reject("400")
DONE_WELL = Delivered()


def record(number: int, size: int = 16) -> bytes:
    """
    The record called *number*, with a payload of *size* bytes.
    """
    return pack_record(b'{"message":"x"}'.ljust(size), number, 9)


def batch_of(number: int, *records: int, size: int = 16) -> Batch:
    """
    A batch of *records*, as another process may have left it on disk.
    """
    batch = OpenBatch(batch_id(b"writer-000", number), b"{}", records[0])
    for each in records:
        batch.arena += record(each, size)
    batch.recount()
    return batch.seal()


class Story:
    """
    A delivery machine with batches of *batch* records and one sender after another; time stands still unless told.
    """

    def __init__(self, *, batch: int = 2, spool: bool = False, limits: Limits | None = None, **settings: Any) -> None:
        self.delivery = Delivery(
            Settings(batch_max_records=batch, **settings), limits or Limits(), b"writer-001", b"{}", spool=spool
        )
        self.now = 0.0

    def offer(self, *numbers: int, size: int = 16) -> None:
        """
        Events arrive.
        """
        for number in numbers:
            self.delivery.offer(record(number, size), 9, self.now)

    def send(self) -> Send:
        """
        A sender gets something to send.
        """
        action = self.delivery.next_send(self.now)
        assert isinstance(action, Send), action
        return action

    def answer(self, send: Send, verdict: Verdict, u: float = 0.0) -> tuple[Letter, ...]:
        """
        The server's answer; with *u* 0 the gate opens again at once.
        """
        letters = self.delivery.on_verdict(send, settle(send.parts, verdict), self.now, u)
        assert self.delivery.account().closes()
        return letters

    def exchange(self, verdict: Verdict) -> list[int]:
        """
        The next request gets *verdict*. Returns what it carried.
        """
        send = self.send()
        self.answer(send, verdict)
        return numbers(send)

    def spill(self, frame: object) -> list[int]:
        """
        The spooler writes one batch (a *frame* of None: it fails). Returns what it wrote.
        """
        action = self.delivery.next_spool(self.now)
        self.delivery.on_spilled(action, frame, self.now)  # type: ignore[arg-type]
        return numbers_in([action.part])  # type: ignore[union-attr]

    def load(self, batch: Batch) -> None:
        """
        The spooler reads one frame.
        """
        action = self.delivery.next_spool(self.now)
        self.delivery.on_loaded(action, batch.id, batch, None)  # type: ignore[arg-type]


def numbers_in(parts: list[Part] | tuple[Part, ...]) -> list[int]:
    """
    The records of *parts*.
    """
    return [each.time_ns for _, each in View(parts)]


def numbers(send: Send) -> list[int]:
    """
    What a request carries.
    """
    return numbers_in(send.parts)
