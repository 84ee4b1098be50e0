# SPDX-License-Identifier: Apache-2.0
"""
Every knob with its unit, its default and the reason for it.

One spelling everywhere: keyword argument ``batch_max_records=500``, URL query ``?batch_max_records=500``, environment
``STRUCTBATCH_BATCH_MAX_RECORDS=500``. `docs/settings.md` is generated from the words in this file.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import math

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Final, get_type_hints

from structbatch.core.compress import Compression
from structbatch.core.record import HEADER_BYTES
from structbatch.core.severity import from_level
from structbatch.errors import ConfigError


class Overflow(enum.Enum):
    """
    What `emit` does while the queue is full.
    """

    REFUSE = "refuse"
    BLOCK = "block"


class Order(enum.Enum):
    """
    Which batches go first.
    """

    FRESH_FIRST = "fresh_first"
    OLDEST_FIRST = "oldest_first"


def setting(default: object, *, unit: str, means: str, why: str, at_least: float = 0) -> Any:
    """
    A field of `Settings` with the words that the documentation is made of.
    """
    return dataclasses.field(default=default, metadata={"unit": unit, "means": means, "why": why, "at_least": at_least})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    All settings of a pipeline, validated.

    Durations are seconds. Two settings that contradict each other, or a value out of range, is a
    `structbatch.ConfigError` that names the setting, the value and the fix.
    """

    batch_max_records: int = setting(
        200,
        unit="records",
        at_least=1,
        means="A batch is sealed when it holds so many. The vendor's own limit wins when it is lower.",
        why="Where one request per event loses a hundredfold, 200 a request win most of it back; more adds little.",
    )
    batch_max_bytes: int = setting(
        1_000_000,
        unit="bytes",
        at_least=4096,
        means="A batch is sealed before its records' bytes would go above this.",
        why="The lowest ceiling of a request among log vendors is 10^6 bytes, and a batch must fit into one.",
    )
    batch_linger: float = setting(
        1.0,
        unit="seconds",
        means="A batch is sealed so long after its first record, however few it holds.",
        why="What a person who watches live logs accepts; OpenTelemetry's batch processor waits as long.",
    )
    batch_urgent_severity: int = setting(
        0,
        unit="severity",
        means="An event of at least this severity (a level's name, or OpenTelemetry's 1 to 24) seals the open batch "
        "at once; 0: none does.",
        why="Off, for a burst of errors would otherwise become a burst of requests.",
    )
    batch_coalesce: bool = setting(
        True,
        unit="on/off",
        means="While sealed batches wait, one request carries several, up to the vendor's ceiling and 8 MB of body.",
        why="A slow endpoint gets larger requests, not a backlog.",
    )
    queue_max_records: int = setting(
        10_000,
        unit="records",
        at_least=1,
        means="Records that may wait in memory before their first request.",
        why="Half a second at 20,000 events a second: time enough for a busy request, little enough to fit anywhere.",
    )
    queue_max_bytes: int = setting(
        16 * 1024 * 1024,
        unit="bytes",
        at_least=4096,
        means="The same in bytes. Both limits hold at once.",
        why="Counts alone do not bound memory: events differ in size a thousandfold.",
    )
    overflow: Overflow = setting(
        Overflow.REFUSE,
        unit="choice",
        means="While the queue is full: `refuse` counts the event as dropped, `block` waits for room.",
        why="A log call must not wait. `block` suits batch jobs.",
    )
    overflow_timeout: float = setting(
        5.0,
        unit="seconds",
        means="Longest wait of one call with `overflow=block`; it never waits on an event loop's thread.",
        why="Long enough for a request to end, short enough that a dead backend does not stop the job.",
    )
    inflight_max_bytes: int = setting(
        16 * 1024 * 1024,
        unit="bytes",
        at_least=4096,
        means="Records in requests or waiting for their next attempt, over all senders.",
        why="Bounds memory where many slow requests run at once.",
    )
    compression: Compression | None = setting(
        None,
        unit="choice",
        means="`gzip`, `zstd` or `identity`; unset: the vendor's preset. After a 415 or 501 for a compressed body: "
        "once more without, and remembered.",
        why="Each vendor documents what it inflates; some answer 200 to one they do not know and store nothing.",
    )
    retry_max_retries: int = setting(
        3,
        unit="attempts",
        means="Attempts after the first before the breaker opens.",
        why="Four attempts with full jitter cover a restart behind a load balancer.",
    )
    retry_initial: float = setting(
        0.2,
        unit="seconds",
        means="Upper end of the first delay; it doubles with each failure and the delay is drawn below it.",
        why="Full jitter spreads many processes best: https://aws.amazon.com/blogs/architecture/"
        "exponential-backoff-and-jitter/",
    )
    retry_max_delay: float = setting(
        10.0,
        unit="seconds",
        means="Upper end of every delay.",
        why="A backend that comes back is noticed within ten seconds.",
    )
    retry_max_retry_after: float = setting(
        10.0,
        unit="seconds",
        means="Longest wait that a server may ask for before its batch counts as having used up its attempts.",
        why="After a long wait others may go first. The gate stays shut for what was asked, at most 300 s.",
    )
    retry_hold: float = setting(
        60.0,
        unit="seconds",
        at_least=0.001,
        means="Time between two probes while held (wrong key, wrong endpoint, refused certificate).",
        why="Nobody fixes a key faster, and a hot loop of 403s gets keys locked.",
    )
    max_senders: int = setting(
        8,
        unit="threads",
        at_least=1,
        means="Most requests at once. It starts with one and adds one while batches wait and all are busy.",
        why="Eight requests of 200 events at 50 ms are 32,000 events a second without coalescing.",
    )
    record_id: bool = setting(
        False,
        unit="on/off",
        means="Ship each record's id as the field `structbatch.id`.",
        why="Only needed where the destination has no id of its own and a reader must tell a repeat.",
    )
    timeout: float = setting(
        10.0,
        unit="seconds",
        at_least=0.001,
        means="One whole request, first byte to last, however slowly the server trickles.",
        why="An HTTP library's own timeout starts anew at every byte.",
    )
    max_event_bytes: int = setting(
        256 * 1024,
        unit="bytes",
        at_least=1024,
        means="A larger event has its longest strings cut and is marked `structbatch.truncated`; the vendor's limit "
        "wins when it is lower.",
        why="What most backends store as one event.",
    )
    order: Order = setting(
        Order.FRESH_FIRST,
        unit="choice",
        means="`fresh_first`: several senders, new batches are not held up by old ones. `oldest_first`: one sender, "
        "one request at a time, strictly in order.",
        why="Few destinations ask for order, and it costs all parallelism.",
    )
    close_timeout: float = setting(
        5.0,
        unit="seconds",
        means="How long the exit of the process may wait for the last requests.",
        why="Well within the 30 s that Kubernetes grants, and within the 10 s of most process managers.",
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_range(field, getattr(self, field.name))
        if self.max_event_bytes + HEADER_BYTES > self.batch_max_bytes:
            msg = (
                f"max_event_bytes={self.max_event_bytes} does not fit into batch_max_bytes={self.batch_max_bytes} "
                f"with its header of {HEADER_BYTES} bytes: raise the one or lower the other"
            )
            raise ConfigError(msg)
        if self.batch_max_bytes > min(self.queue_max_bytes, self.inflight_max_bytes):
            msg = (
                f"batch_max_bytes={self.batch_max_bytes} must not be above "
                f"queue_max_bytes={self.queue_max_bytes} or inflight_max_bytes={self.inflight_max_bytes}"
            )
            raise ConfigError(msg)
        if not 0 <= self.batch_urgent_severity <= 24:
            msg = f"batch_urgent_severity={self.batch_urgent_severity} is no severity: use 0 to 24 or a level's name"
            raise ConfigError(msg)


def settings_from(values: Mapping[str, object]) -> Settings:
    """
    `Settings` of *values*; text is read as the setting's type, as it comes from a URL or the environment.

    Raises:
        ConfigError: A name that is no setting, with the nearest right one, or a value that does not fit.
    """
    hints = get_type_hints(Settings)
    parsed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in hints:
            raise ConfigError(unknown_name(name, hints, "setting"))
        parsed[name] = _read(name, value, hints[name])
    return Settings(**parsed)


def unknown_name(name: str, known: Mapping[str, object] | Iterator[str], what: str) -> str:
    """
    The message for a *name* that is not among the *known* ones.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names)}"
    return f"{name!r} is no {what}{hint}"


_WORDS: Final = {
    "1": True,
    "true": True,
    "on": True,
    "yes": True,
    "0": False,
    "false": False,
    "off": False,
    "no": False,
}


def _read(name: str, value: object, kind: object) -> object:
    """
    *value* as the *kind* of setting *name*.
    """
    if kind in (bool, "bool"):
        if isinstance(value, bool):
            return value
        word = _WORDS.get(str(value).strip().lower())
        if word is None:
            raise ConfigError(_wrong(name, value, "on or off"))
        return word
    if name == "batch_urgent_severity" and isinstance(value, str) and not value.strip().isdigit():
        severity = from_level(value)
        if not severity:
            raise ConfigError(_wrong(name, value, "0 to 24 or a level's name such as error"))
        return severity
    if kind is int:
        return _read_int(name, value)
    if kind is float:
        return _read_float(name, value)
    if kind == Compression | None:
        return None if value is None else _read_choice(name, value, Compression)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _read_choice(name, value, kind)
    raise ConfigError(_wrong(name, value, str(kind)))


def _read_int(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = str(value).strip()
    if isinstance(value, str) and text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20:
        return int(text)
    raise ConfigError(_wrong(name, value, "a whole number"))


def _read_float(name: str, value: object) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            pass
        else:
            if math.isfinite(number):
                return number
    raise ConfigError(_wrong(name, value, "a number of seconds: write 1 or 0.5, without a unit"))


def _read_choice(name: str, value: object, kind: type[enum.Enum]) -> enum.Enum:
    for member in kind:
        if value is member or str(value).strip().lower() == member.value:
            return member
    raise ConfigError(_wrong(name, value, " or ".join(repr(member.value) for member in kind)))


def _wrong(name: str, value: object, wanted: str) -> str:
    return f"{name}={str(value)[:80]!r} is not {wanted}"


def _check_range(field: dataclasses.Field[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    least = field.metadata["at_least"]
    if not math.isfinite(value) or value < least:
        msg = f"{field.name}={value} is below {least:g}: its unit is {field.metadata['unit']}"
        raise ConfigError(msg)


def describe() -> Iterator[tuple[str, str, str, str, str]]:
    """
    Name, default, unit, meaning and reason of every setting, for the documentation.
    """
    for field in dataclasses.fields(Settings):
        default = field.default
        if default is MISSING:
            continue
        text = default.value if isinstance(default, enum.Enum) else default
        if isinstance(text, bool):
            text = "on" if text else "off"
        meta = field.metadata
        yield field.name, "unset" if text is None else str(text), meta["unit"], meta["means"], meta["why"]
