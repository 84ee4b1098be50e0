# SPDX-License-Identifier: Apache-2.0
"""
Where records come in: the queue's limits, the open batch, the sealed ones that no request has carried yet.

Rules:

1. `offer` never waits and costs the same however much is queued.
2. The queue is full when either limit would be passed; then the newest event is refused, whatever its level.
3. An event that arrives while its own thread is inside `offer` (a signal handler, a finalizer that logs) goes to the
   front or the side list; appending to the arena there would tear or repeat a record.
4. Most records only pass through `front`, a deque to which any thread appends without the lock, up to `front_room`:
   to where no limit can be passed. The first record of a batch and the one that may be its last take the lock, and put
   into the batch what is in front before them. Threads that append at the same instant may pass ``queue_max_records``
   by one each.
5. Statements stand so that after an exception between any two, `recount` can restore every number from the arenas.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from structbatch.core.batch import Batch, OpenBatch, batch_id
from structbatch.core.ledger import DropReason, Ledger, add
from structbatch.core.record import SEVERITY_OFFSET
from structbatch.core.settings import Settings
from structbatch.core.severity import BAND_OF


SIDE_LIST_MAX: Final = 1000
"""
Events of handlers and finalizers that may wait for the call that they interrupted.
"""

_NEVER: Final = 25

_Deferred = tuple[bytes, int, bytes | None]


class Intake:
    """
    Args:
        settings: Its ``batch_*`` and ``queue_*`` part.

        writer_id: 10 random bytes, another one in every process.

        source: The pipeline's own source.

        ledger: Told of refusals and of sealed batches.
    """

    def __init__(self, settings: Settings, writer_id: bytes, source: bytes, ledger: Ledger) -> None:
        self._writer_id = writer_id
        self._source = source
        self._ledger = ledger
        self._max_records = settings.batch_max_records
        self._max_bytes = settings.batch_max_bytes
        self._linger = settings.batch_linger
        self._urgent = settings.batch_urgent_severity or _NEVER
        self._queue_max_records = settings.queue_max_records
        self._queue_max_bytes = settings.queue_max_bytes
        self._number = 0
        self.front: deque[bytes] = deque()
        """Records accepted without the lock, in order; `drain` puts them into batches."""

        self.front_room = 0
        """How many records `front` may hold before somebody has to look at the limits, under the lock."""

        self.front_bytes = max(256, self._max_bytes // self._max_records)
        """Largest record for `front`: so many of them never pass a limit in bytes."""

        self._moving: tuple[int, list[bytes]] = (0, [])
        self.side: deque[_Deferred] = deque()
        """The side list."""

        self._draining: tuple[_Deferred, int, int] | None = None
        self.open = OpenBatch(batch_id(writer_id, 0), source, 0)
        self.sealed: deque[Batch] = deque()
        self.sealed_records = 0
        self.sealed_bytes = 0
        self.closed = False
        self._plain_records = 0
        self._plain_bytes = 0
        self._refit()
        self.possible = False
        """Set when a worker may have something to do; whoever wakes the workers clears it."""

    def offer(self, record: bytes, severity: int, now: float, source: bytes | None = None) -> DropReason | None:
        """
        Take *record*, or say why not; both are counted.

        Args:
            record: As `structbatch.core.record.pack_record` makes it; at most ``batch_max_bytes``.

            severity: 0 to 24.

            now: Monotonic seconds.

            source: Who speaks, where it is not the pipeline itself.
        """
        batch = self.open
        arena = batch.arena
        offset = len(arena)
        size = offset + len(record)
        bands = batch.bands_by_record
        if (
            0 < len(bands) < self._plain_records
            and size < self._plain_bytes
            and now < batch.deadline
            and severity < self._urgent
            and source is None
        ):
            # Neither the first of a batch nor its last, and room for it: nearly every record.
            arena += record
            bands.append(BAND_OF[severity])
            batch.last_offset = offset
            self.front_room -= 1
            return None
        return self._offer_at_border(record, severity, now, source)

    def _offer_at_border(self, record: bytes, severity: int, now: float, source: bytes | None) -> DropReason | None:
        """
        `offer` where a batch begins or ends, the queue is full, or another source speaks.
        """
        batch = self.open
        arena = batch.arena
        offset = len(arena)
        size = offset + len(record)
        if offset and (size > self._max_bytes or now >= batch.deadline):
            self.seal()
            return self._offer_at_border(record, severity, now, source)
        count = len(batch.bands_by_record)
        if (
            self.sealed_records + count >= self._queue_max_records
            or self.sealed_bytes + size > self._queue_max_bytes
            or self.closed
        ):
            reason = DropReason.CLOSED if self.closed else DropReason.QUEUE_FULL
            self._ledger.refuse(reason, BAND_OF[severity])
            return reason
        if source is not None and not batch.takes_source(source):
            self.seal()
            return self._offer_at_border(record, severity, now, source)
        if not offset:
            batch.deadline = now + self._linger
            self.possible = True
        arena += record
        batch.bands_by_record.append(BAND_OF[severity])
        batch.last_offset = offset
        if source is not None:
            batch.name_source(offset, source)
        if count + 1 >= self._max_records or size == self._max_bytes or severity >= self._urgent:
            self.seal()
        else:
            self._refit()
        return None

    def has_room(self, size: int) -> bool:
        """
        Whether a record of *size* bytes would not find the queue full.
        """
        return (
            self.sealed_records + len(self.open.bands_by_record) + len(self.front) < self._queue_max_records
            and self.sealed_bytes + len(self.open.arena) + size <= self._queue_max_bytes
        )

    def defer(self, record: bytes, severity: int, source: bytes | None = None) -> DropReason | None:
        """
        Take *record* while `offer` or a sibling is under way on this very thread.
        """
        if self.closed or len(self.side) >= SIDE_LIST_MAX:
            reason = DropReason.CLOSED if self.closed else DropReason.REENTRANT
            self._ledger.refuse(reason, BAND_OF[severity])
            return reason
        self.side.append((record, severity, source))
        return None

    @property
    def deferred(self) -> int:
        """
        Records accepted, or on the side list, that are in no batch yet.
        """
        return len(self.front) + len(self._moving[1]) + len(self.side)

    def drain(self, now: float) -> None:
        """
        Put into batches what is in front, then offer what the side list holds.
        """
        if self.front or self._moving[1]:
            self._take_front(now)
        side = self.side
        while side:
            # Noted until it is done, so that `recount` can put it back where an exception comes in between.
            self._draining = (side[0], self._next_sequence(), self._ledger.refused_total())
            record, severity, source = side.popleft()
            self.offer(record, severity, now, source)
            self._draining = None

    def _take_front(self, now: float) -> None:
        base, hand = self._next_sequence(), self._moving[1]
        # First where they begin, then the records: `recount` may come in between.
        self._moving = (base, hand)
        # In C from end to end: no signal handler runs in between and loses what was popped.
        hand.extend(islice(iter(self.front.popleft, None), len(self.front)))
        if self.closed:
            # They came while the door was being shut.
            while hand:
                self._ledger.refuse(DropReason.CLOSED, BAND_OF[hand.pop()[SEVERITY_OFFSET]])
            return
        while hand:
            base, hand = self._move(base, hand, now)
        self._refit()

    def _move(self, base: int, hand: list[bytes], now: float) -> tuple[int, list[bytes]]:
        """
        As much of *hand*, which begins at sequence number *base*, as the open batch takes. Returns the rest.
        """
        batch = self.open
        arena, bands = batch.arena, batch.bands_by_record
        offset = len(arena)
        chunk = hand[: self._max_records - len(bands)]
        data = b"".join(chunk)
        if offset + len(data) > self._max_bytes:
            chunk = _prefix(chunk, self._max_bytes - offset)
            data = b"".join(chunk)
        if not offset:
            batch.deadline = now + self._linger
            self.possible = True
        arena += data
        bands.extend([BAND_OF[record[SEVERITY_OFFSET]] for record in chunk])
        rest = (base + len(chunk), hand[len(chunk) :])
        self._moving = rest
        if chunk:
            batch.last_offset = len(arena) - len(chunk[-1])
        if len(bands) >= self._max_records or rest[1]:
            self.seal()
        return rest

    def seal(self) -> None:
        """
        Seal the open batch, if it holds anything.
        """
        batch = self.open
        if not batch.arena:
            return
        # The successor first and the switch last: an exception in between leaves the open batch as it was, and one
        # after the append is undone by `recount`, which knows the arena again.
        self._number += 1
        successor = OpenBatch(
            batch_id(self._writer_id, self._number),
            self._source,
            batch.first_sequence + len(batch.bands_by_record),
        )
        sealed = batch.seal()
        self.sealed.append(sealed)
        self.open = successor
        self._count_sealed(sealed)
        self.possible = True

    def seal_if_due(self, now: float) -> None:
        """
        Seal the open batch when its linger is over.
        """
        if self.open.arena and now >= self.open.deadline:
            self.seal()

    def take(self, *, newest: bool = False) -> Batch:
        """
        The oldest sealed batch, or the newest; it is the caller's now.
        """
        batch = self.sealed.pop() if newest else self.sealed.popleft()
        self.sealed_records -= batch.count
        self.sealed_bytes -= len(batch.records)
        self._refit()
        return batch

    def shut(self) -> None:
        """
        From now on refuse every event.
        """
        self.closed = True
        self._refit()

    def recount(self) -> None:
        """
        Restore every number from the batches, after an exception came out of the middle of `offer`.
        """
        if self.sealed and self.sealed[-1].id == self.open.id:
            last = self.sealed[-1]
            self._number += 1
            self.open = OpenBatch(
                batch_id(self._writer_id, self._number), self._source, last.first_sequence + last.count
            )
        self.open.recount()
        # It may be full or urgent, and the statement that tells was skipped: sealed at the next occasion.
        self.open.deadline = float("-inf")
        # All batches that were ever sealed stand before the open one, so its first sequence number is their sum.
        known = sum(self._ledger.accepted)
        for batch in reversed(self.sealed):
            if known >= self.open.first_sequence:
                break
            if batch.first_sequence >= known:
                self._ledger.accepted = add(self._ledger.accepted, batch.bands)
        base, hand = self._moving
        self._moving = (self._next_sequence(), hand[max(0, self._next_sequence() - base) :])
        if self._draining is not None:
            deferred, sequence, refused = self._draining
            untouched = sequence == self._next_sequence() and refused == self._ledger.refused_total()
            # Compared by identity: the same event twice is two events.
            if untouched and not (self.side and self.side[0] is deferred):
                self.side.appendleft(deferred)
            self._draining = None
        self.sealed_records = sum(batch.count for batch in self.sealed)
        self.sealed_bytes = sum(len(batch.records) for batch in self.sealed)
        self._refit()
        if self._moving[1]:
            # The next event goes through the lock, and takes along what is still in hand.
            self.front_room = 0
        self.possible = True

    def _next_sequence(self) -> int:
        return self.open.first_sequence + len(self.open.bands_by_record)

    def _count_sealed(self, sealed: Batch) -> None:
        self.sealed_records += sealed.count
        self.sealed_bytes += len(sealed.records)
        self._ledger.accepted = add(self._ledger.accepted, sealed.bands)
        self._refit()

    def _refit(self) -> None:
        """
        Up to where `offer` and `front` need not look at any limit: below all of them.
        """
        count = len(self.open.bands_by_record)
        left = self._queue_max_bytes - self.sealed_bytes
        self._plain_records = min(self._max_records - 1, self._queue_max_records - self.sealed_records)
        self._plain_bytes = min(self._max_bytes, left + 1)
        if self.closed:
            self._plain_records = 0
        # The first record of a batch starts its time, so it never goes to the front.
        room = min(self._plain_records - count, (min(self._max_bytes, left) - len(self.open.arena)) // self.front_bytes)
        self.front_room = max(0, room) if count else 0


def _prefix(records: list[bytes], most: int) -> list[bytes]:
    """
    As many of *records* as do not pass *most* bytes together.
    """
    size = 0
    for index, record in enumerate(records):
        size += len(record)
        if size > most:
            return records[:index]
    return records
