"""What goes into the test driver and what comes out: piped records, tapes, outputs, refusals, dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


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


class DeadLetter(NamedTuple):
    """An undecodable record, with its bytes."""

    topic: str
    offset: int
    reason: str
    key: bytes | None
    value: bytes | None
    arrival: int


NO_OFFSET_GIVEN = -2
"""The record's offset is its number in its topic, from 0."""

Headers = Sequence[tuple[str, bytes | None]]


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
        self.tables.append(table)
        self.arrival.append(arrival)
        self.number.append(number)

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


def header_rows(headers: Headers) -> list[dict[str, Any]] | None:
    """Headers as a table has them."""
    return [{"key": key, "value": value} for key, value in headers] or None
