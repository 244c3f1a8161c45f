"""What an operator promises of rows that it leaves in tables, in numbers and names of tables alone.

Owns the classes in which a topology's nodes (``jobs``) state what the checks (``expectations``) must find; neither
imports the other. Rule: a promise names tables as the ledger does ("outputs/x", "state/y"), and settings as the user
gave them; ``table`` is the one that a verdict is about. What users wrote, a joiner, is a function of Arrow columns. How
it is judged is written beside the guarantee.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

WindowKind = Literal["time", "sliding", "session"]


class Grid(NamedTuple):
    """Where windows may lie. ``time``: ``[start, start + size)`` with a start at a multiple of the advance, counted
    from ``first_ms``; ``sliding``: ``[start, start + size]``; ``session``: ``[start, end]``. ``size_ms`` None: the end
    is not said (a session), or has no limit (an unlimited window). ``bounds_at``: of windows whose length depends on
    where they lie (days in a time zone), gives starts and ends of those at some times in ms.
    """

    kind: WindowKind
    size_ms: int | None = None
    advance_ms: int | None = None
    first_ms: int = 0
    bounds_at: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None


@dataclass(frozen=True, slots=True)
class WindowedRows:
    """The rows of ``table`` have windows on ``grid`` (columns window_start_ms, window_end_ms). ``wait_ms``: from a
    window's end to its close, of a store's.
    """

    table: str
    grid: Grid
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class SessionsPromise:
    """The rows of a store are sessions: those of a key are further apart than ``gap_ms``. The store shows no session
    that ended at ``stream time - retention_ms`` or before.
    """

    table: str
    gap_ms: int
    retention_ms: int


@dataclass(frozen=True, slots=True)
class Buffered:
    """``table`` holds what waits in a suppress: at most so many rows and bytes a partition, None for any number."""

    table: str
    max_records: int | None
    max_bytes: int | None
    is_windowed: bool


@dataclass(frozen=True, slots=True)
class SuppressPromise:
    """Every window that changes in the store ``aggregate`` waits in the buffer ``table`` or leaves to each of
    ``outputs``, which have all that leaves, under the same key and window. ``wait_ms``: from a window's end to its
    close.
    ``may_be_absent``: a window may be in neither, as one without a value leaves in silence, and one that is emitted on
    window close comes no earlier.
    """

    table: str
    aggregate: str
    outputs: tuple[str, ...]
    wait_ms: int
    are_sessions: bool
    may_be_absent: bool


@dataclass(frozen=True, slots=True)
class VersionsPromise:
    """Rows of a store are versions, valid in ``[valid_from_ms, valid_to_ms)``."""

    table: str


@dataclass(frozen=True, slots=True)
class RepartitionPromise:
    """Records of a repartition table lie in the partition of their key's hash (``by_key``; else in one that their value
    names). ``at_most_one``: a record on the tape above makes no more than one of them.
    """

    table: str
    by_key: bool
    at_most_one: bool


@dataclass(frozen=True, slots=True)
class Deletions:
    """Tombstones of an output take back what the output had: the newest record of their key and window is a value.
    ``never``: there are none at all. ``store``: the table of the store whose rows they take back, which may begin with
    an application's state.
    """

    table: str
    never: bool
    store: str | None = None


@dataclass(frozen=True, slots=True)
class InputPromise:
    """Where records lie that an operator gets: a landed or repartition table, with steps between that make one record
    of one and keep keys and times.
    """

    table: str


@dataclass(frozen=True, slots=True)
class JoinedStreams:
    """The output ``table`` has all that a join of two streams forwards. ``kind``: "inner", "left" or "outer";
    ``emits_at_once``: a record without a match is forwarded alone at once. ``why_not``: a sentence, where its inputs or
    outputs lie in no table.
    """

    table: str
    left: InputPromise | None
    right: InputPromise | None
    kind: str
    before_ms: int
    after_ms: int
    emits_at_once: bool = False
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """The output ``table`` has all records of ``given`` that a deduplication by key forwards."""

    table: str
    given: InputPromise | None
    interval_ms: int
    why_not: str = ""


JoinedValues = Callable[[pa.Array, pa.Array, pa.Array], pa.Array]
"""Serialized keys, left and right values, a row a pair, null where there is none; to the joined values, as the output
has them.
"""


@dataclass(frozen=True, slots=True)
class JoinedAsOf:
    """The output ``table`` has all that a join of the stream ``left`` with the versioned table of ``right`` forwards.
    It is a row for every record, whose value ``joined`` makes of the newest version not after its time. An ``is_left``
    False join has no row where there is no version. The table answers for ``history_ms`` back from its stream time.
    """

    table: str
    left: InputPromise | None
    right: InputPromise | None
    is_left: bool = False
    history_ms: int = 0
    joined: JoinedValues | None = field(default=None, compare=False)
    why_not: str = ""
    table_node: str = ""
    """The node of the table, whose inputs a second run shows; "" where these are not what the table has, or where they
    would not say when a record was joined.
    """


@dataclass(frozen=True, slots=True)
class JoinedByForeignKey:
    """The output ``table`` has all that a join of the table of ``left`` with that of ``right`` forwards. Under the left
    keys it has what ``joined`` makes of a left value and the right one of its foreign key. ``foreign_keys``:
    serialized, of serialized left keys and values. ``keys``: left keys as the output has them.
    """

    table: str
    left: InputPromise | None
    right: InputPromise | None
    is_left: bool = False
    keys: Callable[[pa.Array], pa.Array] | None = field(default=None, compare=False)
    foreign_keys: Callable[[pa.Array, pa.Array], pa.Array] | None = field(default=None, compare=False)
    joined: JoinedValues | None = field(default=None, compare=False)
    why_not: str = ""


Promise = (
    WindowedRows
    | SessionsPromise
    | Buffered
    | SuppressPromise
    | VersionsPromise
    | RepartitionPromise
    | Deletions
    | JoinedStreams
    | Deduplicated
    | JoinedAsOf
    | JoinedByForeignKey
)


def lacks_evidence(promise: Promise) -> bool:
    """Whether no table has what it is judged by."""
    return bool(getattr(promise, "why_not", "")) or (isinstance(promise, SuppressPromise) and not promise.outputs)
