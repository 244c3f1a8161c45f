"""A task's tape: the slice of its input that an increment reads, in order, as chunks.

Rule: inside a partition offset order, always. Across the partitions that write one repartition table, the order of
causes: by stream time of the task that took the cause, then its partition, then its offset (ARCHITECTURE.md, "Order").
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.task import INPUT_COLUMNS
from state.errors import LandingError
from state.files import DataFile
from state.tables import open_filesystem


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets ``[begin, end)`` of one partition of the table at ``path``, and the files that hold them in offset
    order.
    """

    path: str
    files: tuple[DataFile, ...]
    begin: int
    end: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"files": [file.to_dict() for file in self.files]}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Slice":
        return cls(**{**fields, "files": tuple(DataFile.from_dict(file) for file in fields["files"])})

    def chunks(self, records: int) -> Iterator[pa.Table]:
        """Chunks of about ``records`` rows with the columns a task reads. Raises LandingError when offsets do not
        rise.
        """
        waiting: list[pa.Table] = []
        size, last = 0, self.begin - 1
        for piece in self._pieces(records):
            offsets = piece["offset"].to_numpy()
            if offsets[0] <= last or (np.diff(offsets) <= 0).any():
                raise LandingError(
                    self.path, f"offsets that rise after {last}", f"{int(offsets.min())} to {int(offsets.max())}",
                    "land the topic again into an empty table; a landed table must be in offset order",
                )  # fmt: skip
            last = int(offsets[-1])
            waiting.append(piece)
            size += len(piece)
            if size >= records:
                yield pa.concat_tables(waiting)
                waiting, size = [], 0
        if waiting:
            yield pa.concat_tables(waiting)

    def _pieces(self, records: int) -> Iterator[pa.Table]:
        filesystem, root = open_filesystem(self.path)
        for file in self.files:
            with filesystem.open_input_file(f"{root}/{file.path}") as source:
                parquet = pq.ParquetFile(source)
                for batch in parquet.iter_batches(records, columns=list(INPUT_COLUMNS)):
                    offsets = batch.column("offset").to_numpy()
                    first, after = np.searchsorted(offsets, [self.begin, self.end])
                    if after > first:
                        yield pa.Table.from_batches([batch.slice(first, after - first)])

    def times(self) -> pa.Table:
        """offset and timestamp of every record, in offset order."""
        columns = ["offset", "timestamp"]
        filesystem, root = open_filesystem(self.path)
        tables = []
        for file in self.files:
            with filesystem.open_input_file(f"{root}/{file.path}") as source:
                tables.append(pq.ParquetFile(source).read(columns=columns))
        if not tables:
            return pa.table({name: pa.array([], pa.int64()) for name in columns})
        whole = pa.concat_tables(tables).combine_chunks()
        first, after = np.searchsorted(whole["offset"].to_numpy(), [self.begin, self.end])
        return whole.slice(first, after - first)

    def count(self) -> int:
        """Records in the slice; only files that are cut are opened."""
        whole = [
            file for file in self.files if self.begin <= (file.min_offset or 0) and (file.max_offset or 0) < self.end
        ]
        cut = tuple(file for file in self.files if file not in whole)
        return sum(file.records for file in whole) + len(Slice(self.path, cut, self.begin, self.end).times())


def slice_of(path: str, files: Sequence[DataFile], partition: int, begin: int, end: int) -> Slice:
    """The slice ``[begin, end)`` of ``partition`` out of a table's live files."""
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
    return Slice(path, tuple(sorted(chosen, key=lambda file: file.min_offset or 0)), begin, end)


CAUSE_COLUMNS = ("cause_time_ms", "cause_partition", "cause_offset")
"""Where a repartition record comes from: the order in which sources' records meet."""


def merge_causes(pieces: Sequence[pa.Table], next_offset: int) -> pa.Table:
    """Rows of several tasks for one partition of a repartition table, in order of causes, with their offsets.

    Columns out: offset, timestamp, key, value and CAUSE_COLUMNS. Rows of one cause keep the order of their task;
    ``pieces`` stand in order of the tasks' partitions.
    """
    rows = pa.concat_tables(pieces).combine_chunks()
    keys = [rows[name].to_numpy() for name in CAUSE_COLUMNS]
    order = np.lexsort(keys[::-1])
    offsets = pa.array(np.arange(next_offset, next_offset + len(rows)))
    return rows.take(pa.array(order)).append_column("offset", offsets)
