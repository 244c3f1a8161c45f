"""Data files of a Delta table: list them and read them.

Owns how rows of several files become one table; what is known of each is a ``DataFile`` (parquet_reader.py). Rule: a
file is visible only once ``kstreams_replay.state.tables.commit`` has committed it; state/tables/parquet_writer.py
writes it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.table import TableAlterer

from ..errors import DamagedTable
from ..failures import is_refusal
from .delta_log import refuse_unknown_features
from .formats import refuse_newer
from .kept_below import why_outside
from .kept_log import KeptLog
from .object_stores import delta_options, timeout_seconds
from .parquet_reader import DataFile as DataFile
from .parquet_reader import how_to_restore, open_file
from .patience import patiently

T = TypeVar("T")

BOUNDED = ("offset", "increment", "timestamp", "window_end_ms")
"""Columns whose bounds every file carries, so that a reader opens only files that can hold what it looks for."""

NO_BOUNDS = (None, None)
"""Of a column without a value."""


def column_bounds(table: pa.Table, column: str) -> tuple[int, int] | None:
    """Lowest and highest of a column of integers; None when there is no such column or no value."""
    if column not in table.column_names or not pa.types.is_integer(table.schema.field(column).type):
        return None
    bounds = pc.min_max(table.column(column)).as_py()
    return None if bounds["min"] is None else (bounds["min"], bounds["max"])


def oldest_first(files: Iterable[DataFile]) -> list[DataFile]:
    """``files`` of a store by the increment that wrote them, with which their names begin."""
    return sorted(files, key=lambda file: file.path.rpartition("/")[2])


def table_version(path: str) -> int | None:
    """Newest version of the table; None when there is no table."""
    table = open_table(path)
    return None if table is None else table.version()


class OpenedTable(DeltaTable):
    """A table whose log may be in an object store. What only reads is asked again while the store fails. A mark is read
    once a version, since Delta reads all entries of the log since the last checkpoint for it.
    """

    def __init__(self, path: str, version: int | None = None) -> None:
        self._path, options = path, delta_options(path)
        self._marks: tuple[int, dict[str, int | None]] = (-1, {})
        self._patiently(lambda: super(OpenedTable, self).__init__(path, version=version, storage_options=options))

    def update_incremental(self) -> None:
        self._patiently(super().update_incremental)

    def transaction_version(self, app_id: str) -> int | None:
        if self._marks[0] != self.version():
            self._marks = self.version(), {}
        marks = self._marks[1]
        if app_id not in marks:
            marks[app_id] = self._patiently(lambda: super(OpenedTable, self).transaction_version(app_id))
        return marks[app_id]

    def get_add_actions(self, flatten: bool = False) -> Any:
        return self._patiently(lambda: super(OpenedTable, self).get_add_actions(flatten))

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        return self._patiently(lambda: super(OpenedTable, self).history(limit))

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, timeout_seconds(self._path))


class KeptTable(OpenedTable):
    """A table that stays open at its newest version. Where it is in an object store, its log is kept here."""

    def __init__(self, path: str) -> None:
        self._kept = KeptLog.of(path)
        super().__init__(path) if self._kept is None else super().__init__(self._kept.table)
        self._path = path

    @property
    def table_uri(self) -> str:
        return super().table_uri if self._kept is None else self._path

    @property
    def alter(self) -> TableAlterer:
        return super().alter if self._kept is None else self._in_store().alter

    def restore(self, *target: Any, **options: Any) -> dict[str, Any]:
        if self._kept is None:
            return super().restore(*target, **options)
        return self._in_store().restore(*target, **options)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        if self._kept is None or self._kept.has_history(self.version(), limit):
            return super().history(limit)
        return self._in_store().history(limit)

    def update_incremental(self) -> None:
        if self._kept is not None:
            self._kept.refresh()
        super().update_incremental()

    def create_write_transaction(self, *arguments: Any, **options: Any) -> None:
        """Raises CommitFailedError."""
        write = partial(super().create_write_transaction, *arguments, **options)
        write() if self._kept is None else self._kept.commit(write)

    def _in_store(self) -> OpenedTable:
        """Itself, for what is seldom asked or done."""
        return OpenedTable(self._path, version=self.version())


OpenTables = dict[str, DeltaTable]
"""Tables that one run opens time and again, by path. To bring one up to date costs a quarter of opening it."""


def open_table(path: str, *, version: int | None = None, opened: OpenTables | None = None) -> DeltaTable | None:
    """The table at ``version`` (None: newest). None when there is no table and no version was named.

    ``opened``: what is there is brought up to date unless it is at ``version``, which never changes; what is not is put
    there. Raises DamagedTable when a version was named that is not there, or the log cannot be read. Raises
    TouchedTable when it has features of Delta that this package does not know, NewerFormat when a later version of this
    package must read the table.
    """
    with readable(path):
        if version is not None and opened is None:  # if all is well it is opened once and not twice
            with suppress(DeltaError, OSError, ValueError):
                as_named = OpenedTable(path, version=version)
                _refuse_unknown(as_named, path)
                return as_named
        if version is not None and opened is not None and path in opened and opened[path].version() == version:
            return opened[path]
        try:
            table = _newest(path, {} if opened is None else opened)
        except TableNotFoundError:
            if version is None:
                return None
            expected = f"a Delta table with version {version}"
            raise DamagedTable(path, expected, "no table", how_to_restore(path, None)) from None
        if version is not None and version > table.version():
            table.update_incremental()  # the listing by which it was opened may lag behind
        if version is None or version == table.version():
            return table
        if version > table.version():
            got = f"newest version {table.version()}"
            raise DamagedTable(path, f"version {version}", got, how_to_restore(path, None))
        # Not ``load_as_version``: what is in ``opened`` stays at its newest version.
        return OpenedTable(path, version=version)


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Raises DamagedTable for what Delta cannot read; what the machine or the object store refuses goes through, and
    what somebody else committed.
    """
    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        if is_refusal(error):
            raise
        raise _unreadable(path, error) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of delta-rs, below Exception
            raise _unreadable(path, error) from error
        raise


def mark_of(table: DeltaTable, path: str, app_id: str) -> int | None:
    """The last increment committed under ``app_id`` in an open table; None when there is none. Delta reads it from the
    log when it is asked, so it raises DamagedTable as ``open_table`` does.
    """
    with readable(path):
        return table.transaction_version(app_id)


def _unreadable(path: str, error: BaseException) -> DamagedTable:
    got = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return DamagedTable(path, "a Delta log that can be read", got, how_to_restore(path, None))


def table_digest(path: str, version: int, *, opened: OpenTables | None = None) -> str:
    """A digest of the table at ``version``: of its columns, and of what readers need to know of every live file.

    It is computed from what Delta reads and not from the bytes of the log, so a checkpoint has the digest of the
    entries that it replaces. It costs as much as listing the files. ``opened``: tables that are open already, which are
    used if they are at that version.
    """
    table = None if opened is None else opened.get(path)
    if table is None or table.version() != version:
        table = open_table(path, version=version, opened=opened)
    assert table is not None, f"{path}: no table"
    with readable(path):
        return _digest_of(table, pa.table(table.get_add_actions(flatten=True)))


_COUNTED = ("path", "size_bytes", "num_records", "partition.partition",
            *(f"{end}.{column}" for column in BOUNDED for end in ("min", "max")))  # fmt: skip


def _digest_of(table: DeltaTable, actions: pa.Table) -> str:
    """``actions``: its live files, in any order; what the log does not say of one is ""."""
    nothing = pa.array([""] * actions.num_rows, pa.string())
    columns = [
        pc.fill_null(actions[name].combine_chunks().cast(pa.string()), "") if name in actions.column_names else nothing
        for name in _COUNTED
    ]
    lines = pc.binary_join_element_wise(*columns, "|") if actions.num_rows else nothing
    digest = hashlib.blake2b(table.schema().to_json().encode(), digest_size=16)
    for line in lines.take(pc.sort_indices(lines)).to_pylist():
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def _newest(path: str, opened: OpenTables) -> DeltaTable:
    if path in opened:
        opened[path].update_incremental()
    else:
        opened[path] = KeptTable(path)
    _refuse_unknown(opened[path], path)
    return opened[path]


def _refuse_unknown(table: DeltaTable, path: str) -> None:
    refuse_newer(table, path)
    refuse_unknown_features(table, path)


Within = tuple[str, int, int]
"""A column of BOUNDED and the values, both included, among which a file must have one."""


def read_files(
    path: str,
    *,
    version: int | None = None,
    within: Within | None = None,
    opened: OpenTables | None = None,
    digest: str | None = None,
) -> list[DataFile]:
    """Live files of the table at ``version`` (None: newest), in order of (partition, first offset, path).

    [] when there is no table and no version was named. ``digest``: of its log at that version (``table_digest``); None:
    it is not known. Raises DamagedTable when a version was named that is not there, or the digest is another one.
    """
    table = open_table(path, version=version, opened=opened)
    if table is None:
        return []
    with readable(path):
        return live_files(table, within, place=path, digest=digest)


def highest(table: DeltaTable, column: str) -> int | None:
    """The highest value of a column of BOUNDED in an open table; None when it has none."""
    actions = pa.table(table.get_add_actions(flatten=True))
    name = f"max.{column}"
    maximum: int | None = pc.max(actions[name]).as_py() if name in actions.column_names else None
    return maximum


def live_files(
    table: DeltaTable, within: Within | None = None, *, place: str = "", digest: str | None = None
) -> list[DataFile]:
    """Live files of an open table, in order of (partition, first offset, first increment, path); those that may hold
    what is ``within``, so that few of many cost little. ``digest``: as of ``read_files``, with the table's ``place``.
    """
    actions = pa.table(table.get_add_actions(flatten=True))
    if digest is not None and digest != _digest_of(table, actions):
        expected = f"the columns and files that its log named at version {table.version()} when it was committed"
        raise DamagedTable(place, expected, "others: the log was changed since", how_to_restore(place, None))
    if within is not None and f"max.{within[0]}" in actions.column_names:
        name, lowest, most = within
        # A file without bounds in the log may hold anything, so it stays.
        outside = pc.or_kleene(pc.less(actions[f"max.{name}"], lowest), pc.greater(actions[f"min.{name}"], most))
        actions = actions.filter(pc.invert(pc.fill_null(outside, False)))
    length = actions.num_rows

    def column(name: str) -> Sequence[Any]:
        if name in actions.column_names:
            values: list[Any] = actions.column(name).to_pylist()
            return values
        return [None] * length

    bounds: list[dict[str, tuple[int, int]]] = [{} for _ in range(length)]
    for name in BOUNDED:
        for file, least, most in zip(bounds, column(f"min.{name}"), column(f"max.{name}"), strict=True):
            if isinstance(least, int) and isinstance(most, int):
                file[name] = (least, most)
    partitions = [-1 if partition is None else int(partition) for partition in column("partition.partition")]
    described = zip(column("path"), column("size_bytes"), column("num_records"), partitions, bounds, strict=True)
    files = []
    for path, size, records, partition, known in described:
        if (why := why_outside(path)) is not None:
            got = f"{path[:200]!r} in its log, {why}"
            raise DamagedTable(place, "names of files that stay below it", got, how_to_restore(place, None))
        offsets = known.get("offset", NO_BOUNDS)
        files.append(DataFile(path, size, records, partition, offsets[0], offsets[1], known))
    return in_order(files)


def in_order(files: Iterable[DataFile]) -> list[DataFile]:
    """``files`` in order of (partition, first offset, first increment, path)."""
    return sorted(files, key=_order)


def _order(file: DataFile) -> tuple[int, int, int, str]:
    """Sort key of files. A compacted file sorts where the first file that it replaced did."""
    firsts = [file.bounds[name][0] if name in file.bounds else -1 for name in ("offset", "increment")]
    return file.partition, firsts[0], firsts[1], file.path


def read_rows(path: str, files: Sequence[DataFile], schema: pa.Schema) -> pa.Table:
    """Rows of ``files`` with the columns of ``schema``, file after file, `partition` put back where asked for.

    ``schema`` may be a part of the table's columns; values are cast to its types. A column, or a field of a struct,
    that a file does not have is null: it was added to the table later.
    """
    stored = without_partition(schema).names
    parts = []
    for file in files:
        with open_file(path, file) as opened:
            parts.append(_with_partition(opened.rows().read(columns=stored), file, schema))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def read_pieces(path: str, file: DataFile, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """As ``read_rows`` of one file, at most so many ``rows`` at a time."""
    stored = without_partition(schema)
    with open_file(path, file) as opened:
        for batch in opened.rows().iter_batches(batch_size=rows, columns=stored.names):
            yield _with_partition(pa.Table.from_batches([batch]), file, schema)


def _with_partition(rows: pa.Table, file: DataFile, schema: pa.Schema) -> pa.Table:
    """``rows`` of the file as ``schema`` has them."""
    if "partition" in schema.names:
        rows = rows.append_column("partition", pa.repeat(pa.scalar(file.partition, pa.int32()), rows.num_rows))
    return conformed(rows, schema)


def without_partition(schema: pa.Schema) -> pa.Schema:
    """Columns that a file has: Delta keeps the partition in its path."""
    return pa.schema([column for column in schema if column.name != "partition"])


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """``table`` with the columns of ``schema`` and no others; what it lacks, down to the fields of structs, is null."""
    if table.schema.names == schema.names and table.schema.types == schema.types:
        return table.cast(schema)
    return pa.table([_column(table, column) for column in schema], schema=schema)


def _column(table: pa.Table, column: pa.Field) -> pa.ChunkedArray:
    if column.name not in table.column_names:
        return pa.chunked_array([pa.nulls(len(table), column.type)])
    values = table[column.name]
    return pa.chunked_array([_conformed(chunk, column.type) for chunk in values.chunks], column.type)


def _conformed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        parts = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
        nothing = len(array)
        columns = [
            _conformed(parts[field.name], field.type) if field.name in parts else pa.nulls(nothing, field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        values = _conformed(array.flatten(), kind.value_type)
        # ``flatten`` leaves out what is outside a slice or below a null list, so the array's own offsets do not fit.
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=array.is_null())
    return array.cast(kind)
