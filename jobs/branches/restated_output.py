"""What becomes of an output's files in a restatement: what stays, what comes back as new, what goes.

Owns the comparison of two versions of an output. Rule: rows of one increment come and go together, whatever files they
are in (small files are merged, state/tables/compaction.py). An increment that is live, and that the version to go back
to has, stays as it was published; the others of that version are published again, under the restatement's number.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.tables.data_files import DataFile, conformed, read_rows, without_partition
from ...state.tables.parquet_reader import open_file
from ...state.tables.parquet_writer import TaskFile

_INCREMENT = pa.schema([("increment", pa.int64())])


def rewritten(
    file: DataFile, schema: pa.Schema, target: TaskFile, change: Callable[[pa.Table], pa.Table]
) -> DataFile | None:
    """Write what ``change`` makes of the rows of ``file``, piece by piece in their order; None when nothing is left.

    ``schema``: columns that are written, `partition` apart.
    """
    stored = without_partition(schema)
    assert file.root is not None, f"{file.path}: of which table?"
    with open_file(file.root, file) as opened:
        for batch in opened.rows().iter_batches(columns=stored.names):
            target.write(change(conformed(pa.Table.from_batches([batch]), stored)))
    return target.close()


def renumbered(rows: pa.Table, increment: int) -> pa.Table:
    """The same rows, written by ``increment``."""
    numbers = pa.array(np.full(len(rows), increment, np.int64))
    return rows.set_column(rows.schema.get_field_index("increment"), rows.schema.field("increment"), numbers)


def moved_on(rows: pa.Table, offsets: int) -> pa.Table:
    """The same rows, so many offsets further."""
    if not offsets:
        return rows
    return rows.set_column(
        rows.schema.get_field_index("offset"), rows.schema.field("offset"), pc.add(rows["offset"], offsets)
    )


@dataclass(frozen=True)
class RestatedOutput:
    """``live``: files of the newest version; ``base``: of the one to go back to; both of the table at ``path``.

    ``schema``: columns of what is written. ``number``: the restatement's increment; ``name``: how files of it begin.
    """

    path: str
    schema: pa.Schema
    live: Sequence[DataFile]
    base: Sequence[DataFile]
    number: int
    name: str

    def files(self) -> list[DataFile]:
        """What the table has of ``base`` from then on. New files are not visible yet."""
        alive = {file.path for file in self.live}
        files = [file for file in self.base if file.path in alive]
        for file in self._only(self.base, self.live):
            files += self._back(file)
        return files

    def gone(self) -> Iterator[tuple[DataFile, pa.Table]]:
        """Rows that are live and do not stay, by the file they are in."""
        for file in self._only(self.live, self.base):
            rows = read_rows(self.path, [file], self.schema)
            rows = rows.filter(pc.invert(self._stay(rows)))
            if len(rows):
                yield file, rows

    def _back(self, file: DataFile) -> list[DataFile]:
        """A file of ``base`` that is not live: as it is where its rows are, else written again."""
        increments = self._increments([file])
        if increments <= self._kept:
            return [file]
        changes = [lambda rows: renumbered(rows.filter(pc.invert(self._stay(rows))), self.number)]
        if increments & self._kept:
            changes.insert(0, lambda rows: rows.filter(self._stay(rows)))
        placed = replace(file, root=self.path)
        targets = [TaskFile(self.path, partition=file.partition, name=self.name) for _ in changes]
        written = [rewritten(placed, self.schema, *each) for each in zip(targets, changes, strict=True)]
        return [part for part in written if part is not None]

    @cached_property
    def _kept(self) -> AbstractSet[int]:
        """Increments of files that only one of both versions has, which both have."""
        return self._increments(self._only(self.live, self.base)) & self._increments(self._only(self.base, self.live))

    def _stay(self, rows: pa.Table) -> pa.ChunkedArray:
        """Which rows are of an increment that stays."""
        return pc.is_in(rows["increment"], pa.array(sorted(self._kept), pa.int64()))

    @staticmethod
    def _only(files: Sequence[DataFile], others: Sequence[DataFile]) -> list[DataFile]:
        known = {file.path for file in others}
        return [file for file in files if file.path not in known and file.records]

    def _increments(self, files: Sequence[DataFile]) -> set[int]:
        increments: set[int] = set()
        for file in files:
            least, most = file.bounds.get("increment", (0, -1))
            if least == most:
                increments.add(least)
            else:
                increments |= set(pc.unique(read_rows(self.path, [file], _INCREMENT)["increment"]).to_pylist())
        return increments
