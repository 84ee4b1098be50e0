# SPDX-License-Identifier: Apache-2.0
"""
The exceptions of structbatch::

    StructbatchError
    ├── ConfigError (also a ValueError)   your setting is wrong: raised while configuring, never later
    └── TransportError                    one request got no answer; carries a Fault, never leaves the engine

A log call raises none of them.
"""

from __future__ import annotations

import enum


class StructbatchError(Exception):
    """
    Base class of all exceptions raised by structbatch.
    """


class ConfigError(StructbatchError, ValueError):
    """
    A setting is wrong. The message names the setting, the value and the fix.

    Raised while configuring only. Secrets are never part of the message.
    """


class Fault(enum.Enum):
    """
    Why a request got no answer.

    The value is the word that users read in problems and statistics.
    """

    DNS = "dns"
    """The host name could not be resolved, for now or for ever."""

    CONNECT = "connect"
    """Refused, unreachable, or not connected within the deadline."""

    CERTIFICATE = "certificate"
    """The peer's certificate, or ours, was not accepted: a person must fix it."""

    TIMEOUT = "timeout"
    """No complete answer within ``timeout``; the server may have acted."""

    RESET = "reset"
    """The connection broke after the request was handed over; the server may have acted."""

    UPLOAD_RESET = "upload_reset"
    """The connection broke while the body was still being written."""

    PROTOCOL = "protocol"
    """What came back is not HTTP, or is cut short."""

    ABORTED = "aborted"
    """We ended it ourselves: the pipeline is closing."""


class TransportError(StructbatchError):
    """
    A request got no usable answer.

    Args:
        fault: What happened, in one of our own words.

        detail: The library's words, without URL, headers or body.
    """

    def __init__(self, fault: Fault, detail: str = "") -> None:
        super().__init__(f"{fault.value}: {detail}" if detail else fault.value)
        self.fault = fault
        self.detail = detail
