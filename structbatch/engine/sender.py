# SPDX-License-Identifier: Apache-2.0
"""
A sender: the network, and nothing but the network. It builds a request, carries it, and reports what came of it.
"""

from __future__ import annotations

import random
import threading
import time

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from structbatch.core.actions import Send
from structbatch.core.compress import Compression, compress
from structbatch.core.http import Request, Response
from structbatch.core.settlement import settle
from structbatch.core.vendor import View
from structbatch.core.verdict import Delivered, Hold, Verdict, verdict_from_fault
from structbatch.engine.selflog import ProblemKind
from structbatch.errors import TransportError
from structbatch.transport.base import Transport


if TYPE_CHECKING:
    from structbatch.engine.crew import Crew


_REFUSES_CODING: Final = frozenset({415, 501})
_PAUSE: Final = 0.05

_STINT: Final = 0.001
"""
Seconds of building after which a sender gives up the interpreter. Not at every chunk: where batches are small there are
thousands, and among busy threads each time costs the interpreter's switch interval, 5 ms, for every one of them.
"""


class Sender:
    """
    One sender with its own transport. `start` gives it a thread; `step` works on the caller's.

    Args:
        pipeline: Whose.
    """

    def __init__(self, pipeline: Crew) -> None:
        self._pipeline = pipeline
        self.send: Send | None = None
        self.started = float("-inf")
        """The last one that it was given, settled or not."""

        self._transport: Transport | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """
        Start the thread.

        Raises:
            RuntimeError: None can be started.
        """
        thread = threading.Thread(target=self._run, name="structbatch-sender", daemon=True)
        # In this order: a close in another thread must not join what has not begun.
        thread.start()
        self._thread = thread

    @property
    def alive(self) -> bool:
        """
        Whether it has a thread that still runs, another one than the caller's.
        """
        return self._thread is not None and self._thread is not threading.current_thread() and self._thread.is_alive()

    def join(self, timeout: float) -> None:
        """
        Wait for the thread to end, at most *timeout*.
        """
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def forget(self) -> None:
        """
        In a forked child: the thread is the parent's, and so are its connections.
        """
        self._thread = None
        transport, self._transport = self._transport, None
        forget = getattr(transport, "forget", None)
        if forget is not None:
            forget()

    def step(self, deadline: float) -> bool:
        """
        Send one bundle on this thread, where no other can be started. Returns whether there was one.
        """
        send = self._pipeline.try_send()
        if send is None:
            return False
        self._deliver(send, max(0.001, deadline - time.monotonic()))
        return True

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            try:
                if self._transport is not None:
                    self._transport.close()
            finally:
                self._pipeline.ended(self)

    def _turn(self) -> bool:
        try:
            send = self._pipeline.next_send(self)
        except Exception as error:  # noqa: BLE001, this thread is the only one there may be
            self._stumble(error)
            return True
        if send is not None:
            self._deliver(send, self._pipeline.settings.timeout)
        return send is not None

    def _stumble(self, error: BaseException) -> None:
        if self.send is not None:
            self._pipeline.failed(self.send, random.random(), error)  # noqa: S311
        else:
            self._pipeline.say(ProblemKind.INTERNAL, f"a sender stumbled: {type(error).__name__}")
        if not isinstance(error, Exception):
            raise error
        # Something in here is broken: not in a hot loop.
        time.sleep(_PAUSE)

    def _deliver(self, send: Send, timeout: float) -> None:
        """
        Carry *send* and report. Whatever breaks, its records wait again.
        """
        try:
            view = View(send.parts, send.truncate)
            request = self._build(view)
            if len(request.refused) >= view.count:
                self._report(send, Delivered(), request)
            elif self._pipeline.measured(send, len(request.body)):
                self._pipeline.retries += send.attempt > 1
                self._report(send, self._carry(request, timeout), request)
        except BaseException as error:  # noqa: BLE001, raised again by the last line where it is not ours
            self.send = send
            self._stumble(error)

    def _build(self, view: View) -> Request:
        building = self._pipeline.vendor.request(view, time.time_ns())
        since = time.perf_counter()
        while True:
            try:
                next(building)
            except StopIteration as stop:
                request: Request = stop.value
                return request
            if time.perf_counter() - since >= _STINT:
                # Between two chunks: the application's threads come first.
                time.sleep(0)
                since = time.perf_counter()

    def _carry(self, request: Request, timeout: float) -> Verdict:
        deadline = time.monotonic() + timeout
        coding = self._coding()
        try:
            response = self._attempt(request, coding, deadline)
            if coding is not Compression.IDENTITY and response.status in _REFUSES_CODING:
                response = self._attempt(request, Compression.IDENTITY, deadline)
                if response.status not in _REFUSES_CODING:
                    self._pipeline.identity_only = True
                    self._pipeline.say(ProblemKind.COMPRESSION, f"{coding.value} is not accepted; sending plain")
        except TransportError as error:
            return verdict_from_fault(error.fault, error.detail)
        verdict = self._pipeline.vendor.verdict(response, request)
        if isinstance(verdict, Hold):
            refresh = getattr(self._pipeline.secret, "refresh", None)
            if refresh is not None:
                refresh()
        return verdict

    def _coding(self) -> Compression:
        if self._pipeline.identity_only:
            return Compression.IDENTITY
        return self._pipeline.settings.compression or self._pipeline.vendor.encodings[0]

    def _attempt(self, request: Request, coding: Compression, deadline: float) -> Response:
        pipeline = self._pipeline
        plain = len(request.body)
        if coding is not Compression.IDENTITY:
            headers = {**request.headers, "Content-Encoding": coding.value}
            request = replace(request, body=compress(request.body, coding), headers=headers)
        secret = pipeline.secret() if pipeline.secret is not None else None
        request = pipeline.vendor.authorize(request, secret, time.time_ns())
        pipeline.requests += 1
        pipeline.bytes_plain += plain
        pipeline.bytes_wire += len(request.body)
        if self._transport is None:
            self._transport = pipeline.transport()
        token = id(self)
        pipeline.watchdog.begin(token, self._transport, deadline)
        try:
            return self._transport.send(request, max(0.001, deadline - time.monotonic()))
        finally:
            pipeline.watchdog.end(token)

    def _report(self, send: Send, verdict: Verdict, request: Request) -> None:
        settlement = settle(send.parts, verdict, request)
        self._pipeline.settled(send, settlement, random.random())  # noqa: S311
