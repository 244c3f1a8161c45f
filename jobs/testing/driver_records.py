"""Inputs and outputs of the test driver: piped records, tapes, outputs, refusals, dead letters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError
from ...state.records.drop_reasons import DropReason
from ...state.times import Duration, Instant, duration_ms, time_ms


class OutputRecord(NamedTuple):
    """``window``: (start, end) in ms of a windowed key, else None. ``arrival``: number of the piped record that caused
    it. ``headers``: (key, value) pairs.
    """

    key: Any
    value: Any
    timestamp_ms: int
    window: tuple[int, int] | None
    arrival: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class DroppedRecord(NamedTuple):
    """One refusal. ``limit_ms``: the number that decided, or None."""

    node: str
    reason: str
    topic: str
    offset: int
    record_time_ms: int
    stream_time_ms: int
    limit_ms: int | None
    window: tuple[int, int] | None
    arrival: int


class PipedRecord(NamedTuple):
    """The record that ended a run, where it is and what it has; bytes where they could not be read."""

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    arrival: int

    def note(self) -> str:
        """A sentence for people."""
        at = f"{self.topic}-{self.partition} at offset {self.offset}"
        return (
            f"it came with the record {at}: key {self.key!r}, value {self.value!r}, time {self.timestamp_ms} ms "
            f"(number {self.arrival} of all that were piped, from 0)"
        )


class DeadLetter(NamedTuple):
    """An undecodable record, with its bytes."""

    topic: str
    offset: int
    reason: str
    key: bytes | None
    value: bytes | None
    arrival: int


TURN = "turn"
"""Column of an output whose records may name the topic of another one: which row of both was written first."""

LONGS = range(-(2**63), 2**63)

NO_OFFSET_GIVEN = -2
"""The record's offset is its number in its topic, from 0."""

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class TestRecord:
    """A record with its ``value`` and headers, as a test pipes it in or reads it (Kafka's TestRecord).

    ``timestamp_ms``: a time of 0 ms or more, kept in milliseconds; None: the input topic's own time, as of one that is
    piped without a time. ``key``: a ``Windowed`` one of a windowed output. Raises ConfigError for a time below 0.
    Example: ``TestRecord("ann", 5, 1_000, [("trace", b"a")])``.
    """

    __test__ = False  # no test class for pytest

    key: Any
    value: Any
    timestamp_ms: Instant | None = None
    headers: Headers = ()

    def __post_init__(self) -> None:
        if isinstance(self.headers, Mapping | str | bytes) or not isinstance(self.headers, Iterable):
            expected, next_step = "pairs of a name and bytes", "write them as [('trace', b'a')]"
            raise ConfigError("TestRecord headers", expected, repr(self.headers), next_step)
        object.__setattr__(self, "headers", tuple((name, value) for name, value in self.headers))
        if self.timestamp_ms is not None:
            object.__setattr__(self, "timestamp_ms", record_time_ms(self.timestamp_ms, "TestRecord timestamp_ms"))


def record_time_ms(time: Instant, name: str) -> int:
    """The time of a record in milliseconds. Raises ConfigError for one below 0, as Kafka's TestRecord refuses it."""
    given_ms = time_ms(time, name)
    if given_ms < 0:
        raise ConfigError(name, "a time of 0 ms or more", f"{given_ms} ms", "correct the time")
    return long_time(given_ms, name)


def long_time(given_ms: int, place: str) -> int:
    """Raises ConfigError for a time that no record can have. One after LATEST_MS can be piped, and is refused."""
    if given_ms not in LONGS:
        raise ConfigError(place, "a time of 64 bits", str(given_ms), "correct the time")
    return given_ms


class AutoTime:
    """The time of the next record that is piped without one: ``start``, and ``advance`` later after each of them."""

    def __init__(self, start: Instant, advance: Duration) -> None:
        """Raises ConfigError for a start or an advance below 0."""
        self.now_ms = record_time_ms(start, "start_timestamp")
        self._advance_ms = forward_ms(advance, "auto_advance")

    def take(self) -> int:
        """The time of one record."""
        now_ms, self.now_ms = self.now_ms, self.now_ms + self._advance_ms
        return now_ms

    def advance(self, duration: Duration) -> None:
        """Records from here on are that much later. Raises ConfigError for a duration below 0."""
        self.now_ms += forward_ms(duration, "advance_time")

    def times(self, count: int, start: Instant | None, advance: Duration) -> list[int]:
        """Times of ``count`` records in a row: ``start``, ``start + advance`` and so on; without a start its own."""
        if start is None:
            return [self.take() for _ in range(count)]
        first_ms, step_ms = record_time_ms(start, "start_timestamp"), forward_ms(advance, "advance")
        return [first_ms + number * step_ms for number in range(count)]


def forward_ms(duration: Duration, name: str) -> int:
    """A duration in milliseconds. Raises ConfigError for one below 0."""
    given_ms = duration_ms(duration, name)
    if given_ms < 0:
        raise ConfigError(name, "a duration of 0 ms or more", f"{given_ms} ms", "time only rises: correct the duration")
    return given_ms


class Piped(NamedTuple):
    """``arrival``: number of the record among all that were piped."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    offset: int | None
    arrival: int


@dataclass
class Tape:
    """Rows of one source of one task that were not run yet, with their places, and where the next offset is."""

    tables: list[pa.Table] = field(default_factory=list)
    arrival: list[np.ndarray] = field(default_factory=list)
    number: list[np.ndarray] = field(default_factory=list)
    next_offset: int = 0

    def add(self, table: pa.Table, arrival: np.ndarray, number: np.ndarray) -> None:
        """``number`` of rows in the tree of causes."""
        if not len(table):
            return
        self.tables.append(table)
        self.arrival.append(arrival)
        self.number.append(number)

    @property
    def first(self) -> int | None:
        """Number of the first row; None when there is none."""
        return int(self.number[0][0]) if self.number else None

    def take_first(self) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """The first row alone; there must be one."""
        lists: tuple[list[Any], ...] = (self.tables, self.arrival, self.number)
        row = self.tables[0][:1].combine_chunks(), self.arrival[0][:1], self.number[0][:1]
        for column in lists:
            column[:1] = [column[0][1:]] if len(column[0]) > 1 else []
        return row

    def take(self) -> tuple[pa.Table | None, np.ndarray, np.ndarray]:
        """All rows, in the order they came; the tape is empty then."""
        none = np.zeros(0, np.int64)
        taken = (
            pa.concat_tables(self.tables).combine_chunks() if self.tables else None,
            np.concatenate([none, *self.arrival]),
            np.concatenate([none, *self.number]),
        )
        self.tables, self.arrival, self.number = [], [], []
        return taken


def without_time(dropped: pa.Table) -> np.ndarray:
    """Rows of a chunk that were dropped since their time is negative."""
    is_reason = pc.equal(dropped["reason"], DropReason.NEGATIVE_TIMESTAMP.value).to_numpy()
    causes: np.ndarray = dropped["cause"].to_numpy()[is_reason.astype(np.bool_)]
    return causes


def header_rows(headers: Headers) -> list[dict[str, Any]] | None:
    """Headers as a table has them."""
    return [{"key": key, "value": value} for key, value in headers] or None
