"""Files whose rows are not in the order of their offsets: somebody else's tables, or ours that others have rewritten.

Owns the way from such files to one order. Rule: row groups whose offsets do not overlap are read one behind the other,
each sorted where it has to be. Those that overlap, as after a clustering by another column, are sorted together. Where
these are too many for memory, they are read in passes, each of some of the offsets.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .in_place import InPlaceRows, bounds_of
from .key_dictionaries import concatenated, has_dictionaries, without_idle_words
from .parquet_reader import DataFile, OpenedFile, open_file

T = TypeVar("T")

_SORTED_ROWS = 1 << 23
"""So many rows are sorted together in memory."""
_DENSE_SPAN = 2
"""Offsets are dense where they span at most so many times their number."""


class _Piece(NamedTuple):
    """A row group, or so much of it as is the slice's: offsets from ``least`` to ``most``, both included."""

    least: int
    most: int
    rows: int
    file: DataFile
    group: int


def in_offset_order(
    path: str,
    files: Sequence[DataFile],
    columns: Sequence[str],
    offsets: tuple[int, int],
    records: int,
    *,
    dictionary_keys: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Rows of ``files`` of the table at ``path``, one partition's, of the ``offsets`` `[from, to)`, in batches of at
    most ``records`` with the ``columns`` that the files have. The order is that of the offsets. ``dictionary_keys``:
    keys may be a dictionary array, where the file has them so.
    """
    with _Reading(path, columns, records, dictionary_keys=dictionary_keys) as reading:
        pieces = [piece for file in files for piece in reading.pieces(file, *offsets)]
        pieces.sort(key=lambda piece: (piece.least, piece.most, piece.file.path, piece.group))
        for together in overlapping(pieces, lambda piece: (piece.least, piece.most)):
            for rows in _passes(reading, together):
                yield from _sorted(rows, records)


def _passes(reading: "_Reading", pieces: Sequence[_Piece]) -> Iterator[pa.Table]:
    """Rows of ``pieces``, whose offsets overlap: a table a pass, each of higher offsets."""
    passes = max(1, -(-sum(piece.rows for piece in pieces) // _SORTED_ROWS))
    first, end = pieces[0].least, max(piece.most for piece in pieces) + 1
    cuts = [first + (end - first) * n // passes for n in range(passes + 1)]  # no float: offsets may be beyond 2**53
    for begin, to in itertools.pairwise(cuts):
        own = [piece for piece in pieces if piece.least < to and begin <= piece.most]
        tables = [reading.rows(piece, (begin, to) if passes > 1 else None) for piece in own]
        if tables:
            yield concatenated(tables)


def _sorted(rows: pa.Table, records: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most ``records``. Each is taken when it is asked for, so all rows are never in memory twice."""
    offsets = rows["offset"].to_numpy()
    if not (np.diff(offsets) <= 0).any():
        yield from rows.to_batches(max_chunksize=records)
        return
    rows, order = rows.combine_chunks(), _order_of(offsets)
    for first in range(0, len(order), records):
        yield from rows.take(pa.array(order[first : first + records])).to_batches()


def _order_of(offsets: np.ndarray) -> np.ndarray:
    """Row numbers by which ``offsets`` rise."""
    least, rows = int(offsets.min()), len(offsets)
    span = int(offsets.max()) - least + 1
    if span <= _DENSE_SPAN * rows:
        # Each row is written to the place of its offset. That takes a pass, where a sort takes many.
        row_at = np.full(span, -1, np.int32)
        row_at[offsets - least] = np.arange(rows, dtype=np.int32)
        order = row_at[row_at >= 0]
        if len(order) == rows:  # else an offset comes twice
            return order
    return np.argsort(offsets, kind="stable")


def overlapping(items: Iterable[T], bounds: Callable[[T], tuple[int, int]]) -> Iterator[list[T]]:
    """``items``, sorted by their first offsets; together where their ``bounds``, both included, overlap."""
    together: list[T] = []
    last = -1
    for item in items:
        least, most = bounds(item)
        if together and least > last:
            yield together
            together = []
        together.append(item)
        last = max(last, most)
    if together:
        yield together


class _Reading:
    """Reads row groups of files of the table at ``path``; the last file stays open."""

    def __init__(self, path: str, columns: Sequence[str], records: int, *, dictionary_keys: bool) -> None:
        self._path, self._columns, self._records, self._dictionary_keys = path, columns, records, dictionary_keys
        self._file: DataFile | None = None
        self._context: AbstractContextManager[OpenedFile] | None = None
        self._rows: pq.ParquetFile | InPlaceRows | None = None
        """Of the last file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(kind, error, trace)

    def pieces(self, file: DataFile, begin: int, end: int) -> list[_Piece]:
        """Row groups that may have offsets in ``[begin, end)``."""
        rows, whole = self._open(file), (file.min_offset or 0, file.max_offset or 0)
        metadata, share = _parquet(rows).metadata, 1.0
        if isinstance(rows, InPlaceRows):
            # A row group counts the rows of all partitions and topics, so the share of the whole file is taken of it.
            share = file.records / max(1, rows.how.rows)
        pieces = []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            known = rows.offset_bounds(number) if isinstance(rows, InPlaceRows) else bounds_of(group, "offset")
            least, most = known or whole
            if least < end and most >= begin:
                size = int(group.num_rows * share)
                pieces.append(_Piece(max(least, whole[0]), min(most, whole[1]), size, file, number))
        return pieces

    def rows(self, piece: _Piece, offsets: tuple[int, int] | None) -> pa.Table:
        """Rows of a row group, those of the ``offsets`` (None: all)."""
        opened = self._open(piece.file)
        names = [name for name in self._columns if _has(opened, name)]
        batches = list(opened.iter_batches(self._records, row_groups=[piece.group], columns=names))
        rows = pa.Table.from_batches(batches, None if batches else _schema(opened.schema_arrow, names))
        if offsets is not None:
            begin, end = offsets
            rows = rows.filter(pc.and_(pc.greater_equal(rows["offset"], begin), pc.less(rows["offset"], end)))
        return without_idle_words(rows)

    def _open(self, file: DataFile) -> pq.ParquetFile | InPlaceRows:
        """Its rows, with keys as dictionaries where they may and the file has them so."""
        if self._rows is None or self._file is not file:
            self._close(None, None, None)
            self._context = open_file(self._path, file)
            opened, self._file = self._context.__enter__(), file
            has_words = self._dictionary_keys and has_dictionaries(opened.metadata, _key(file))
            self._rows = opened.rows(dictionary_keys=has_words)
        return self._rows

    def _close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        context, self._context, self._rows = self._context, None, None
        if context is not None:
            context.__exit__(kind, error, trace)


def _parquet(rows: pq.ParquetFile | InPlaceRows) -> pq.ParquetFile:
    return rows.parquet if isinstance(rows, InPlaceRows) else rows


def _key(file: DataFile) -> str | None:
    return "key" if file.in_place is None else file.in_place.columns.get("key")


def _has(rows: pq.ParquetFile | InPlaceRows, name: str) -> bool:
    return rows.has(name) if isinstance(rows, InPlaceRows) else name in rows.schema_arrow.names


def _schema(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])
