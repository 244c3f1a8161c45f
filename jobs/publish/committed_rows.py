"""The committed rows of the output that is published, piece by piece: as of one increment, and what was taken back.

Owns the order in which rows are published: by increment, then partition, then offset. Rule: tables are read at the
versions of one done row, in pieces, so that memory does not grow with an increment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError
from ...state.tables.branch_files import table_files, table_names, table_parts
from ...state.tables.data_files import DataFile, open_table, read_pieces, read_rows
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import OUTPUTS, TableName
from ...state.tables.rows_in_force import begins_with_application
from ...state.tables.warehouse import RETRACTED_IN, Warehouse
from .published_output import PublishedOutput

_ROWS_PER_PIECE = 65_536


@dataclass(frozen=True)
class CommittedOutput:
    """As of the done row ``row``. Raises ConfigError where that has no such output, or one of other types than the
    topology's sink writes.
    """

    warehouse: Warehouse
    pipeline: str
    output: PublishedOutput
    row: LedgerRow[DoneRow]

    def __post_init__(self) -> None:
        names = table_names(self.row.content)
        if self.output.table not in names:
            outputs = ", ".join(TableName(name).name for name in names if TableName(name).kind == OUTPUTS)
            expected = f"one of {outputs or 'no outputs'}"
            raise ConfigError(f"pipeline {self.pipeline!r}", expected, repr(self.output.name), "name one of them")
        path, version, _ = table_parts(self.warehouse, self.pipeline, self.row.content, self.output.table)[-1]
        self.output.refuse_other_types(path, version)

    @property
    def increment(self) -> int:
        return self.row.increment

    def has_left_an_application(self, as_of: int) -> bool:
        """Whether rows as of ``as_of`` continued an application's state, and the present ones do not."""
        if as_of == self.increment or not begins_with_application(self.warehouse, self.pipeline, as_of):
            return False
        return not begins_with_application(self.warehouse, self.pipeline, self.increment)

    @cached_property
    def ledger_id(self) -> str:
        """The id of the pipeline's ledger in Delta, which a copy has too and no other ledger."""
        opened = open_table(self.warehouse.pipeline(self.pipeline).ledger)
        assert opened is not None, f"pipeline {self.pipeline}: a done row without a ledger"
        return str(opened.metadata().id)

    @cached_property
    def partitions(self) -> int | None:
        """How many the topic must have; None: the key decides, so any number is right."""
        sub = self.output.task_partitions
        return None if sub is None else self.row.content.partitions[sub]

    @cached_property
    def _files(self) -> list[DataFile]:
        files = table_files(self.warehouse, self.pipeline, self.row.content, self.output.table)
        return sorted(files, key=lambda file: (file.partition, -1 if file.min_offset is None else file.min_offset))

    def increments(self, after: int) -> list[int]:
        """Those behind ``after`` that may have rows, in order."""
        increments: set[int] = set()
        for file in self._files:
            # A file that was rewritten holds several increments. Those between its bounds may have no
            # rows, which only costs a look.
            least, most = file.bounds.get("increment", (0, -1))
            if file.records:
                increments.update(range(max(least, after + 1), most + 1))
        return sorted(increments)

    def erasures(self, after: int) -> list[int]:
        """Increments behind ``after`` that erased rows of the output."""
        rows = Ledger(self.warehouse.pipeline(self.pipeline).ledger).done_rows(after + 1, self.increment)
        return [row.increment for row in rows if (row.content.erased or {}).get("rows", {}).get(self.output.table)]

    def pieces(self, increment: int) -> Iterator[pa.Table]:
        """Rows of an increment in their order, without empty pieces."""
        last = (-1, -1)
        for file in self._files:
            if not file.may_hold("increment", increment, increment):
                continue
            for piece in read_pieces(self._path, file, self.output.schema, _ROWS_PER_PIECE):
                piece = piece.filter(pc.equal(piece["increment"], increment))
                if len(piece):
                    last = _checked_order(file, piece, last)
                    yield piece

    def all_rows(self) -> pa.Table:
        """Every live row, by partition and offset."""
        return read_rows(self._path, self._files, self.output.schema)

    def taken_back(self, newest: int, as_of: int) -> pa.Table:
        """Rows of increments up to ``newest`` that were taken back by a restatement after ``as_of``."""
        table = TableName.retractions(self.output.name)
        schema = self.output.schema.append(pa.field(RETRACTED_IN, pa.int64()))
        if table not in table_names(self.row.content):
            return schema.empty_table().drop_columns([RETRACTED_IN])
        path = self.warehouse.pipeline(self.pipeline).table(table)
        rows = read_rows(path, table_files(self.warehouse, self.pipeline, self.row.content, table), schema)
        gone = pc.and_(pc.less_equal(rows["increment"], newest), pc.greater(rows[RETRACTED_IN], as_of))
        return rows.filter(gone).drop_columns([RETRACTED_IN])

    @property
    def _path(self) -> str:
        return self.warehouse.pipeline(self.pipeline).table(self.output.table)


def _checked_order(file: DataFile, piece: pa.Table, last: tuple[int, int]) -> tuple[int, int]:
    """The place of its last row: rows are published as they are read, so they must be in order."""
    offsets = piece["offset"].to_numpy()
    first = (file.partition, int(offsets[0]))
    assert last < first, f"{file.path}: rows are not behind {last}"
    assert bool(np.all(np.diff(offsets) > 0)), f"{file.path}: rows are not by offset"
    return file.partition, int(offsets[-1])


def first_rows(rows: pa.Table, count: int) -> pa.Table:
    """The first ``count`` of an increment's rows, in the order in which they are published."""
    order = np.lexsort((rows["offset"].to_numpy(), rows["partition"].to_numpy()))
    return rows.take(pa.array(order[:count]))


def skipping(pieces: Iterator[pa.Table], count: int) -> Iterator[pa.Table]:
    """Without the first ``count`` rows."""
    for piece in pieces:
        if count < len(piece):
            yield piece.slice(count)
        count = max(0, count - len(piece))


def in_chunks(pieces: Iterator[pa.Table], rows: int) -> Iterator[tuple[pa.Table, bool]]:
    """Tables of so many rows, the last one of what is left, and whether it is the last."""
    waiting: list[pa.Table] = []
    have = 0
    for piece in pieces:
        while have + len(piece) > rows:  # what stays behind is never empty
            taken = rows - have
            yield _joined([*waiting, piece.slice(0, taken)]), False
            waiting, have, piece = [], 0, piece.slice(taken)
        waiting, have = [*waiting, piece], have + len(piece)
    if have:
        yield _joined(waiting), True


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def with_row(committed: CommittedOutput, row: LedgerRow[DoneRow]) -> CommittedOutput:
    """The same output as of another done row."""
    return replace(committed, row=row)
