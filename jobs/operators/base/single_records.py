"""Records of a task that runs record by record: each as Python values, or as a batch of one row.

Rule: one is made of the other when it is asked for, and many go into columns at once (``batch_of``). The Python values
of a record are the engine's own: who hands them to a function of the user's gives a copy (state/serdes/handed_over.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from ....state.records.batches import Batch
from ...functions.expressions import Shape, python_keys
from ...functions.processor_api import Headers, Record
from .forward_order import MergedRows, joined_batch

Context = tuple[int, int]
"""As in ``Batch.context``, of one record."""


class Single(ABC):
    """A record on its way. ``cause``: row of the chunk that caused it; ``context``: None where it is that of the
    cause.
    """

    __slots__ = ("cause", "context")
    cause: int
    context: Context | None

    @property
    @abstractmethod
    def has_key(self) -> bool:
        """Whether its key is not null."""

    @property
    @abstractmethod
    def is_plain(self) -> bool:
        """Whether nothing is known of the value that it replaces, nor of what is newest of its key."""

    @abstractmethod
    def record(self, shape: Shape) -> Record:
        """Its Python values. ``shape``: of the node that forwards it."""

    @abstractmethod
    def batch(self) -> Batch:
        """A batch of it alone."""


class RowsOfSource:
    """``batch`` of records that come to the task from a source with ``shape``, decoded all at once."""

    def __init__(self, batch: Batch, shape: Shape) -> None:
        self.batch, self.causes, self.has_key = batch, batch.cause.tolist(), (batch.key >= 0).tolist()
        self.is_plain = batch.old is None and batch.latest is None
        self._shape = shape
        self._records: list[Record] = []

    def records(self) -> list[Record]:
        if not self._records:
            self._records = records_in(self._shape, self.batch)
        return self._records


class OfSource(Single):
    """A row of ``rows``."""

    __slots__ = ("row", "rows")

    def __init__(self, rows: RowsOfSource, row: int) -> None:
        self.rows, self.row, self.cause = rows, row, rows.causes[row]
        self.context = _context_at(rows.batch, row)

    @property
    def has_key(self) -> bool:
        return self.rows.has_key[self.row]

    @property
    def is_plain(self) -> bool:
        return self.rows.is_plain

    def record(self, shape: Shape) -> Record:
        return self.rows.records()[self.row]

    def batch(self) -> Batch:
        return self.rows.batch.take(np.array([self.row]))


class OfBatch(Single):
    """What a batch of one row has."""

    __slots__ = ("_batch", "_record")

    def __init__(self, batch: Batch) -> None:
        self._batch, self.cause, self.context = batch, int(batch.cause[0]), _context_at(batch, 0)
        self._record: Record | None = None

    @property
    def has_key(self) -> bool:
        return bool(self._batch.key[0] >= 0)

    @property
    def is_plain(self) -> bool:
        return self._batch.old is None and self._batch.latest is None

    def record(self, shape: Shape) -> Record:
        if self._record is None:
            (self._record,) = records_in(shape, self._batch)
        return self._record

    def batch(self) -> Batch:
        return self._batch


class Maker(Protocol):
    """Who made records as Python values."""

    def made(self, records: "Sequence[Made]") -> Batch:
        """Records that it made, as columns, in order."""
        ...


class Made(Single):
    """Python values that ``maker`` made a record of; ``value`` None: a tombstone."""

    __slots__ = ("headers", "key", "maker", "time_ms", "value")

    def __init__(
        self,
        maker: Maker,
        cause: int,
        key: Any,
        value: Any,
        time_ms: int,
        headers: Headers = (),
        context: Context | None = None,
    ) -> None:
        self.maker, self.cause, self.context = maker, cause, context
        self.key, self.value, self.time_ms, self.headers = key, value, time_ms, headers

    @property
    def has_key(self) -> bool:
        return self.key is not None

    @property
    def is_plain(self) -> bool:
        return True

    def record(self, shape: Shape) -> Record:
        return Record(self.key, self.value, self.time_ms, self.headers)

    def batch(self) -> Batch:
        return self.maker.made([self])


def singles(batch: Batch) -> Iterable[Single]:
    """Each row of ``batch``."""
    if len(batch) == 1:
        return (OfBatch(batch),)
    return (OfBatch(batch.take(np.array([row]))) for row in range(len(batch)))


def batch_of(records: Sequence[Single]) -> Batch:
    """One record or more as one batch, in that order."""
    indices_by_source: dict[object, list[int]] = {}
    for index, one in enumerate(records):
        source = one.rows if isinstance(one, OfSource) else one.maker if isinstance(one, Made) else None
        indices_by_source.setdefault(source, []).append(index)
    pieces = [_piece([records[index] for index in indices]) for indices in indices_by_source.values()]
    if len(pieces) == 1:
        return pieces[0]
    which, row = np.empty(len(records), np.int64), np.empty(len(records), np.int64)
    for number, indices in enumerate(indices_by_source.values()):
        which[indices], row[indices] = number, np.arange(len(indices))
    keys = pieces[0].keys
    return joined_batch([piece.coded_by(keys) for piece in pieces], MergedRows(which, row))


def one_after_the_other(pieces: Sequence[Batch]) -> Batch:
    """Batches, at least one, as one. Their keys must have the same codes."""
    lengths = [len(piece) for piece in pieces]
    which = np.repeat(np.arange(len(pieces)), lengths)
    row = np.concatenate([np.arange(length) for length in lengths])
    return joined_batch(pieces, MergedRows(which, row))


def _piece(records: list[Single]) -> Batch:
    """Rows of one source, records of one maker, or batches of one row."""
    first = records[0]
    if isinstance(first, OfSource):
        return first.rows.batch.take(np.array([one.row for one in records if isinstance(one, OfSource)]))
    if isinstance(first, Made):
        return first.maker.made([one for one in records if isinstance(one, Made)])
    keys = first.batch().keys
    return one_after_the_other([one.batch().coded_by(keys) for one in records])


def _context_at(batch: Batch, row: int) -> Context | None:
    return None if batch.context is None else (int(batch.context[0][row]), int(batch.context[1][row]))


def records_in(shape: Shape, batch: Batch) -> list[Record]:
    """Records of ``batch``, which has ``shape``, as a processor sees them."""
    keys, values = python_keys(shape, batch), shape.value.to_python(batch.value.all())
    headers: list[Headers] = [()] * len(batch)
    if batch.headers is not None:
        headers = list(map(headers_of, batch.headers.to_pylist()))
    return list(map(Record, keys, values, batch.time_ms.tolist(), headers))


def headers_of(structs: list[dict[str, Any]] | None) -> Headers:
    """Headers as Arrow gives them, as a record has them."""
    return tuple((one["key"], one["value"]) for one in structs or ())
