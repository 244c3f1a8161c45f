"""Slices of landed tables: what an increment reads of one partition of one topic, in offset order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...state.errors import LandingError
from ...state.tables.data_files import DataFile
from ...state.tables.footer_seal import token_of
from ...state.tables.key_dictionaries import concatenated, has_dictionaries, has_dictionary
from ...state.tables.offset_order import in_offset_order
from ...state.tables.parquet_reader import open_file
from ...state.times import LATEST_MS, NO_TIMESTAMP_MS, UNBOUNDED, known_times
from ..kernels.partition_group import NO_MORE, merge_queues
from .shared_reads import shared
from .task_input import INPUT_COLUMNS

OPTIONAL_COLUMNS = ("headers", "context_offset", "arrival")
"""Of landed tables: headers, the offset that operators see, and the record's number among all topics' records."""


_FIRST_ROWS = 1 << 16
"""Rows of two columns, read at once to find one."""


_AGAIN = "land the topic again into an empty table; each offset of a partition is there once"
_IN_PLACE = (
    "land the table into a topic of another name, by copy (without --in-place), which takes an offset once where the "
    "table has it again with the same bytes"
)
"""What to do about files of somebody else's table."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets ``[begin, end)`` of one partition of the table at ``path``, and the files that hold them in offset
    order.
    """

    path: str
    files: tuple[DataFile, ...]
    begin: int
    end: int
    excluded: tuple[int, ...] = ()
    """Offsets whose records are taken out of play: for whoever reads, they are not there."""

    def to_dict(self) -> dict[str, Any]:
        files = [file.to_dict() for file in self.files]
        excluded = list(self.excluded)
        return {"path": self.path, "files": files, "begin": self.begin, "end": self.end, "excluded": excluded}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Slice":
        files = tuple(DataFile.from_dict(file) for file in fields["files"])
        return cls(**{**fields, "files": files, "excluded": tuple(fields["excluded"])})

    def part(self, begin: int, end: int) -> "Slice":
        """What of it is in ``[begin, end)``."""
        begin, end = max(begin, self.begin), min(end, self.end)
        partition = self.files[0].partition if self.files else 0
        return slice_of(self.path, self.files, partition, begin, end, self.excluded)

    def chunks(self, records: int, *, dictionary_keys: bool = False) -> Iterator[pa.Table]:
        """Chunks of about ``records`` rows with the columns a task reads, and those of OPTIONAL_COLUMNS that the table
        has. ``dictionary_keys``: keys may be a dictionary array, of one dictionary a chunk. Raises LandingError when
        offsets do not rise.
        """
        waiting: list[pa.Table] = []
        size, last = 0, self.begin - 1
        for piece in self._read((*INPUT_COLUMNS, *OPTIONAL_COLUMNS), records, dictionary_keys=dictionary_keys):
            offsets = piece["offset"].to_numpy()
            if offsets[0] <= last or (np.diff(offsets) <= 0).any():
                raise LandingError(
                    self.path, f"offsets that rise after {last}", f"{int(offsets.min())} to {int(offsets.max())}",
                    _IN_PLACE if any(file.in_place for file in self.files) else _AGAIN,
                )  # fmt: skip
            last = int(offsets[-1])
            if waiting and has_dictionary(waiting[-1]) != has_dictionary(piece):
                yield concatenated(waiting)
                waiting, size = [], 0
            waiting.append(piece)
            size += len(piece)
            if size >= records:
                yield concatenated(waiting)
                waiting, size = [], 0
        if waiting:
            yield concatenated(waiting)

    def _read(
        self, columns: Sequence[str], records: int = 1 << 20, *, dictionary_keys: bool = False
    ) -> Iterator[pa.Table]:
        """The slice in pieces of at most ``records`` rows, with the ``columns`` that a file has; offset must be one of
        them. Row groups outside the slice are not read. ``dictionary_keys``: as of ``chunks``.
        """
        for files in _interleaved(self.files):
            for batch in self._in_order(files, columns, records, dictionary_keys=dictionary_keys):
                offsets = batch.column("offset").to_numpy()
                first, after = np.searchsorted(offsets, [self.begin, self.end])
                piece = self._in_play(batch.slice(first, after - first), offsets[first:after])
                if piece.num_rows:
                    yield pa.Table.from_batches([piece])

    def _in_play(self, batch: pa.RecordBatch, offsets: np.ndarray) -> pa.RecordBatch:
        """Rows of a batch without those whose ``offsets`` are excluded."""
        is_out = np.isin(offsets, self.excluded) if self.excluded else np.zeros(0, np.bool_)
        return batch.filter(pa.array(~is_out)) if is_out.any() else batch

    def _in_order(
        self, files: Sequence[DataFile], columns: Sequence[str], records: int, *, dictionary_keys: bool
    ) -> Iterator[pa.RecordBatch]:
        """Rows of ``files`` in the order of their offsets. Files that landing wrote have them so, one behind the
        other; those that another engine wrote or rearranged are sorted.
        """
        if len(files) == 1 and _is_by_landing(files[0]):
            yield from self._batches(files[0], columns, records, dictionary_keys=dictionary_keys)
        else:
            yield from in_offset_order(
                self.path, files, columns, (self.begin, self.end), records, dictionary_keys=dictionary_keys
            )

    def _batches(
        self, file: DataFile, columns: Sequence[str], records: int, *, dictionary_keys: bool
    ) -> Iterator[pa.RecordBatch]:
        """Of the row groups that the slice needs; of the whole file where replays share it."""
        reads, how = shared(), (records, dictionary_keys)
        kept = None if reads is None else reads.of(self.path, file, columns, how)
        if kept is not None:
            yield from kept
        elif reads is None or not reads.may_keep(file):
            yield from _read_file(self.path, file, columns, (self.begin, self.end), *how)
        else:
            whole = list(_read_file(self.path, file, columns, (0, UNBOUNDED), *how))
            reads.keep(self.path, file, columns, how, whole)
            yield from whole

    def times(self, *, arrival: bool = False) -> pa.Table:
        """offset and timestamp (and arrival, null where the file has none) of every record, in offset order. Here and
        below, times are those that are in bounds (``known_times``).
        """
        columns = ["offset", "timestamp", *(["arrival"] if arrival else [])]
        nothing = pa.table({name: pa.array([], pa.int64()) for name in columns})
        return known(pa.concat_tables([nothing, *self._read(columns)], promote_options="default").combine_chunks())

    def offsets_and(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Offsets of all records and an int64 column, in offset order; nothing else of them is ever in memory."""
        most, rows = sum(file.records for file in self.files), 0
        offset, column = np.empty(most, np.int64), np.empty(most, np.int64)  # what is not filled takes no memory
        for piece in self._read(("offset", name)):
            offset[rows : rows + len(piece)], column[rows : rows + len(piece)] = piece["offset"], piece[name]
            rows += len(piece)
        return offset[:rows], known_times(column[:rows]) if name == "timestamp" else column[:rows]

    def offsets(self) -> Iterator[np.ndarray]:
        """Offsets of all records, piece by piece."""
        for piece in self._read(("offset",)):
            yield piece["offset"].to_numpy()

    def first(self) -> tuple[int, int] | None:
        """Offset and timestamp of the first record; None when there is none. What is before it in its row group is
        read too, so by many rows at a time; it reads no further than the piece with the record.
        """
        piece = next(self._read(("offset", "timestamp"), _FIRST_ROWS), None)
        if piece is None:
            return None
        return int(piece["offset"][0].as_py()), int(known_times(piece["timestamp"].to_numpy()[:1])[0])

    def keys_and_times(self) -> Iterator[tuple[pa.Array, np.ndarray]]:
        """Keys and timestamps, piece by piece."""
        for piece in self._read(("offset", "timestamp", "key")):
            yield piece["key"].chunk(0), known_times(piece["timestamp"].to_numpy())

    def count(self) -> int:
        """Records in the slice; only files that are cut are opened."""
        whole, cut = self._whole_and_cut()
        return sum(file.records for file in whole) + len(cut.times())

    def latest_ms(self) -> int:
        """Largest timestamp, NO_TIMESTAMP_MS without records; files that are not cut and say it are not opened."""
        whole, cut = self._whole_and_cut(("timestamp",))
        latest = [file.bounds["timestamp"][1] for file in whole]
        return max([*latest, int(cut.times()["timestamp"].to_numpy().max(initial=NO_TIMESTAMP_MS))])

    def _whole_and_cut(self, bounded: Sequence[str] = ()) -> tuple[list[DataFile], "Slice"]:
        """Files whose records are all in the slice, with all columns ``bounded`` known to be LATEST_MS at most; and the
        rest.
        """
        whole = [
            file
            for file in self.files
            if self.begin <= (file.min_offset or 0)
            and (file.max_offset or 0) < self.end
            and not any(file.may_hold("offset", offset, offset) for offset in self.excluded)
            and all(column in file.bounds and file.bounds[column][1] <= LATEST_MS for column in bounded)
        ]
        cut = tuple(file for file in self.files if file not in whole)
        return whole, Slice(self.path, cut, self.begin, self.end, self.excluded)


def _interleaved(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """``files``, sorted by their first offsets; together where their offsets overlap; those of landing never do."""
    together: list[DataFile] = []
    last = -1
    for file in files:
        if together and ((file.min_offset or 0) > last or (_is_by_landing(file) and _is_by_landing(together[-1]))):
            yield together
            together = []
        together.append(file)
        last = max(last, file.max_offset or 0)
    if together:
        yield together


def _is_by_landing(file: DataFile) -> bool:
    return token_of(file.path) is not None


def _read_file(
    path: str, file: DataFile, columns: Sequence[str], offsets: tuple[int, int], records: int, dictionary_keys: bool
) -> Iterator[pa.RecordBatch]:
    with open_file(path, file) as opened:
        parquet = opened.parquet()
        groups = [_row_groups(parquet, *offsets)]
        known = [name for name in columns if _is_there(parquet, groups[0], name)]
        if dictionary_keys and has_dictionaries(opened.metadata, "key", groups[0]):
            parquet = opened.parquet(read_dictionary=["key"])
            groups = [[group] for group in groups[0]]
        for part in groups:
            yield from parquet.iter_batches(records, row_groups=part, columns=known)


def in_tape_order(slices: Sequence[Slice], order: str) -> pa.Table | None:
    """All records of ``slices``, one a partition, in the order in which a task that reads nothing else would take them;
    None when there are none.
    """
    parts = [list(one.chunks(1 << 20)) for one in slices]
    tables = [pa.concat_tables(chunks, promote_options="default").combine_chunks() for chunks in parts if chunks]
    if len(tables) < 2:
        return tables[0] if tables else None
    if order == "arrival":
        heads = [np.maximum.accumulate(table["arrival"].to_numpy()) for table in tables]
    else:
        heads = [known_times(table["timestamp"].to_numpy()) for table in tables]
    which, row, _ = merge_queues(heads, np.full(len(heads), NO_MORE, np.int64), [])
    starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
    return pa.concat_tables(tables, promote_options="default").take(pa.array(starts[which] + row)).combine_chunks()


def known(table: pa.Table) -> pa.Table:
    """``table`` with the times that are in bounds."""
    times = table["timestamp"].to_numpy()
    in_bounds = known_times(times)
    if in_bounds is times:
        return table
    return table.set_column(table.column_names.index("timestamp"), "timestamp", pa.array(in_bounds))


def _is_there(parquet: pq.ParquetFile, groups: list[int], name: str) -> bool:
    """Whether a file has a column; ``headers`` only where ``groups`` have any, since a column of nulls takes half as
    long to read as keys do.
    """
    if name != "headers" or name not in parquet.schema_arrow.names:
        return name in parquet.schema_arrow.names
    row_groups = [parquet.metadata.row_group(number) for number in groups]
    leaves = [group.column(n) for group in row_groups for n in range(group.num_columns)]
    return any(_has_values(leaf) for leaf in leaves if leaf.path_in_schema.startswith(f"{name}."))


def _has_values(leaf: pq.ColumnChunkMetaData) -> bool:
    known = leaf.statistics
    return known is None or not known.has_null_count or known.null_count < leaf.num_values


def _row_groups(parquet: pq.ParquetFile, begin: int, end: int) -> list[int]:
    """Row groups that may hold an offset in ``[begin, end)``."""
    metadata = parquet.metadata
    column = parquet.schema_arrow.names.index("offset")
    groups = []
    for number in range(metadata.num_row_groups):
        bounds = metadata.row_group(number).column(column).statistics
        if bounds is None or not bounds.has_min_max or (bounds.min < end and bounds.max >= begin):
            groups.append(number)
    return groups


def slice_of(
    path: str, files: Sequence[DataFile], partition: int, begin: int, end: int, excluded: Sequence[int] = ()
) -> Slice:
    """The slice ``[begin, end)`` of ``partition`` out of a table's live files, without the offsets ``excluded``."""
    chosen = [
        file
        for file in files
        if file.partition == partition
        and file.records
        and file.min_offset is not None
        and file.max_offset is not None
        and file.min_offset < end
        and file.max_offset >= begin
    ]
    out = tuple(offset for offset in excluded if begin <= offset < end)
    return Slice(path, tuple(sorted(chosen, key=lambda file: file.min_offset or 0)), begin, end, out)
