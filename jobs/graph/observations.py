"""What one node did with one row of a task's tape, as plain Python, for the node to say in sentences.

Owns the shapes. Rule: keys and values are as the node's serdes read them, times in milliseconds, window bounds as in
outputs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.records.batches import Batch, Chunk

Name = tuple[str, tuple[int, int] | None]
"""A key, as it is said (some cannot be hashed), and a window."""


@dataclass(frozen=True)
class Row:
    """One record between two nodes. ``value`` None: a tombstone; ``old``: what the change replaced, where that is
    sent; ``window``: None without windows; ``coordinates``: topic and offset that operators see, None for none.
    """

    key: Any
    value: Any
    record_time_ms: int
    window: tuple[int, int] | None = None
    old: Any = None
    coordinates: tuple[str, int] | None = None

    @property
    def named(self) -> Name:
        return repr(self.key), self.window


class RowChange(NamedTuple):
    """A row of a store as its operator shows it, by column; None: it was not, or is not, there."""

    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Wait(NamedTuple):
    """Something that waits in ``node`` until the operator's stream time reaches ``until_ms``; ``key``: as it is said.
    What is not None names it when it leaves: window, record time, coordinates.
    """

    node: str
    key: str
    key_bytes: bytes | None
    until_ms: int
    window: tuple[int, int] | None = None
    record_time_ms: int | None = None
    coordinates: tuple[str, int] | None = None

    def matches(self, batch: Batch, chunk: Chunk | None) -> np.ndarray:
        """Rows of what the node forwards, or of what a sink below it gets (``chunk`` None), that are this."""
        if len(batch) == 0:
            return np.zeros(0, np.bool_)
        # A null key is the same as another one, which `equal` leaves null.
        is_match = np.asarray(pc.is_in(batch.keys.take(batch.key), pa.array([self.key_bytes], pa.binary())))
        if self.window is not None and batch.window_start_ms is not None and batch.window_end_ms is not None:
            is_match = is_match & (batch.window_start_ms == self.window[0]) & (batch.window_end_ms == self.window[1])
        if self.record_time_ms is not None:
            is_match = is_match & (batch.time_ms == self.record_time_ms)
        if self.coordinates is not None and chunk is not None:
            topic, offset = batch.coordinates(chunk)
            known = [number for number, name in enumerate(chunk.context_topics) if name == self.coordinates[0]]
            is_match = is_match & np.isin(topic, known) & (offset == self.coordinates[1])
        return is_match


@dataclass
class Observation:
    """``received``: by input, none at a source. ``first_offset``: of a sink, the offset of the first row of
    ``forwarded``. ``refusals``: rows as of the table `dropped`. ``counters``: of a stateful operator, afterwards.
    """

    received: list[list[Row]]
    forwarded: list[Row]
    changes: list[RowChange] = field(default_factory=list)
    shown: list[dict[str, Any]] = field(default_factory=list)
    """Rows of its store beforehand, of the keys that came in or went out."""
    shows: list[dict[str, Any]] = field(default_factory=list)
    """The same, afterwards."""
    looked: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of the tables that it looks into, of those keys, by the table's store."""
    counters: dict[str, int] = field(default_factory=dict)
    first_offset: int = 0
    refusals: list[dict[str, Any]] = field(default_factory=list)
    key_bytes: list[bytes | None] = field(default_factory=list)
    """Serialized keys that came in or went out."""
    ids: list[Any] = field(default_factory=list)
    """Of a deduplication by id: the id of each row that came in."""

    outcomes: dict[Wait, str] = field(default_factory=dict)
    """What became of those that wait, in words."""

    @property
    def rows(self) -> list[Row]:
        """All that came in."""
        return [row for rows in self.received for row in rows]


def name_of(entry: Mapping[str, Any]) -> Name:
    """Of a store's row."""
    return repr(entry["key"]), bounds_of(entry)


def bounds_of(entry: Mapping[str, Any]) -> tuple[int, int] | None:
    """The window of a store's row, None without windows."""
    return (entry["window_start_ms"], entry["window_end_ms"]) if "window_start_ms" in entry else None


class RunsAgain:
    """The part of a Node that is asked when an increment runs a second time, to be judged by what the node got."""

    judged_by_values = False
    """Not by keys and times alone."""

    def records_kept(self, rows: pa.Table) -> tuple[pa.Table, ...]:
        """The records of former increments that ``rows`` of its store still hold, a table an input: timestamp, key as
        ``record_keys`` gives it, and the value if the node is judged by values. Here there are none.
        """
        return ()

    def record_keys(self, batch: Batch) -> pa.Array:
        """Serialized: its records are the same where these are."""
        return batch.keys.take(batch.key)
