"""What becomes of the tables of a pipeline of which rows are erased.

Owns the restatement (jobs/branches/restatement.py) that leaves them out. Rule: it stays with the last increment, and
puts other files in the place of those that have such rows: the same rows without them, in their order, under the
increments that wrote them. A branch gets copies of what it reads of its parents, since their files will be gone. Of a
store, all files of a partition from the first such one on are written again, so that their names keep their order.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.tables.branch_files import digests_of, table_files, table_names, table_parts
from ...state.tables.commit import swap_files, transaction_version
from ...state.tables.data_files import DataFile, live_files, oldest_first, open_table
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow, Excluded, PlanRow
from ...state.tables.names import DEAD_LETTER, DROPPED, OUTPUTS, REPARTITION, STATE, TableName
from ...state.tables.parquet_reader import open_file
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.sought import Sought
from ...state.tables.warehouse import Warehouse
from .restated_output import rewritten
from .restatement import OnStep, Restatement, RestatementSource, plan_restatement, restated_row

ERASE = "erase"
"""Kind of such a restatement, in the ledger."""
_KINDS = (STATE, REPARTITION, DEAD_LETTER, OUTPUTS)
"""Of tables with keys and values; dropped records have a row of numbers alone."""


@dataclass(frozen=True)
class ErasedRows:
    """Which rows go. ``places``: offsets of erased landed records, by topic and partition, whose dead letters go, too.

    A repartition table loses all rows that mention a key: nobody reads them again but increments that cannot be run
    again.
    """

    sought: Sought
    places: Excluded = field(default_factory=dict)

    def of(self, table: str, rows: pa.Table, partition: int) -> np.ndarray:
        """Of every row of a file of ``table`` whether it goes."""
        kind = TableName(table).kind
        goes = self.sought.rows(rows, mentions=kind == REPARTITION)
        if kind == DEAD_LETTER:
            for topic, by_partition in self.places.items():
                offsets = pa.array(by_partition.get(str(partition), []), pa.int64())
                is_there = pc.and_(pc.equal(rows["topic"], topic), pc.is_in(rows["offset"], offsets))
                goes |= np.asarray(pc.fill_null(is_there, False))
        return goes

    def count(self, table: str, path: str, file: DataFile) -> int:
        """How many rows of a file go. Raises DamagedFile for one that is not whole."""
        if TableName(table).kind == DROPPED:
            return 0
        with open_file(path, file) as opened:
            batches = opened.rows().iter_batches()
            return sum(int(self.of(table, pa.Table.from_batches([one]), file.partition).sum()) for one in batches)


class ErasedTables(Restatement):
    """The restatement at work. ``erased``: which rows go; ``counts``: how many went, by table, once it is committed."""

    def __init__(
        self,
        warehouse: Warehouse,
        pipeline: str,
        planned: LedgerRow[PlanRow],
        erased: ErasedRows,
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__(warehouse, pipeline, planned, RestatementSource(label="erased"), clock_ms)
        self.erased, self.counts = erased, dict[str, int]()

    def tables(self) -> list[str]:
        """Also those that a branch has of its parents alone."""
        of_parents = {name for name in table_names(self.base) if TableName(name).kind in (*_KINDS, DROPPED)}
        order = (STATE, REPARTITION, DROPPED, DEAD_LETTER, OUTPUTS)
        names = {*super().tables(), *of_parents}
        return sorted(names, key=lambda name: (order.index(TableName(name).kind), name))

    def base_files(self, table: str) -> list[DataFile]:
        """Also of its parents; each of these names its folder."""
        return table_files(self.warehouse, self.own.name, self.base, table)

    def _schema(self, table: str) -> pa.Schema:
        if table not in self.base.versions and table in (self.base.bases or {}):
            path, version, _ = table_parts(self.warehouse, self.own.name, self.base, table)[-1]
            opened = open_table(path, version=version)
            assert opened is not None, f"{path}: in the ledger, yet not there"
            return pa.schema(opened.schema().to_arrow())
        return super()._schema(table)

    def stays(self, table: str, schema: pa.Schema) -> list[DataFile]:
        """All but the rows that go, in the pipeline's own folder; new files are not visible yet."""
        path, kept = self.own.table(table), list[DataFile]()
        for files in _by_partition(self.base_files(table)):
            counts = [self.erased.count(table, path, file) for file in files]
            again = [count > 0 or file.root is not None for count, file in zip(counts, files, strict=True)]
            if TableName(table).kind == STATE and any(again):
                first = again.index(True)
                again = [index >= first for index in range(len(files))]
            self.counts[table] = self.counts.get(table, 0) + sum(counts)
            for number, (file, is_again) in enumerate(zip(files, again, strict=True)):
                written = self._without(table, path, schema, file, number) if is_again else file
                kept += [] if written is None else [written]
        return kept

    def _without(self, table: str, path: str, schema: pa.Schema, file: DataFile, number: int) -> DataFile | None:
        target = TaskFile(path, partition=file.partition, name=f"{self.name}-{number:06d}")

        def change(rows: pa.Table) -> pa.Table:
            if TableName(table).kind == DROPPED:
                return rows
            return rows.filter(pa.array(~self.erased.of(table, rows, file.partition)))

        return rewritten(replace(file, root=file.root or path), schema, target, change)

    def retractions(self) -> dict[str, int]:
        """Rows of retractions go, too; of tables that are only appended to, in a transaction that changes no data."""
        versions = super().retractions()
        for table in versions:
            versions[table] = self._retracted(table)
        return versions

    def _retracted(self, table: str) -> int:
        path, app_id = self.own.table(table), self.app_id(table, self.planned.epoch)
        opened = open_table(path)
        assert opened is not None, f"{path}: was listed, yet is not there"
        if transaction_version(path, app_id) != self.number:
            schema, files = pa.schema(opened.schema().to_arrow()), live_files(opened)
            gone = [file for file in files if self.erased.count(table, path, file)]
            written = [self._without(table, path, schema, file, number) for number, file in enumerate(gone)]
            added = [file for file in written if file is not None]
            swap_files(opened, path, added, gone, app_id=app_id, increment=self.number)
        return self._version(table)


def _by_partition(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Files of each partition, oldest first."""
    files_by_partition: dict[int, list[DataFile]] = {}
    for file in oldest_first(files):
        files_by_partition.setdefault(file.partition, []).append(file)
    for partition in sorted(files_by_partition):
        yield files_by_partition[partition]


def erase_rows(
    warehouse: Warehouse,
    pipeline: str,
    erased: ErasedRows,
    *,
    reason: str,
    by: str,
    on_step: OnStep,
    clock_ms: Callable[[], int],
) -> LedgerRow[DoneRow]:
    """Make ``pipeline`` continue without the rows that go; return the done row, with how many went by table
    (``erased``). An erasure that was planned and died is given up, and begun again from what was there before it.
    """
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    last = ledger.last_done()
    assert last is not None, f"{pipeline}: has rows, so something is done"
    said = {"reason": reason, "by": by}
    plan = PlanRow(
        kind=ERASE, restates=last.increment, topology=last.content.topology, partitions=last.content.partitions,
        cut_from=last.content.cut_to, cut_to=last.content.cut_to, erased=said,
    )  # fmt: skip
    planned = plan_restatement(ledger, warehouse, plan, 0, clock_ms)
    on_step(f"planned {planned.increment}")
    started = time.perf_counter()
    run, versions = ErasedTables(warehouse, pipeline, planned, erased, clock_ms), dict[str, int]()
    for table in run.tables():
        versions[table] = run.commit(table)
        on_step(f"committed {table} {planned.increment}")
    versions |= run.retractions()
    done = replace(
        restated_row(plan, run.base, RestatementSource(), [], last.content),
        versions=versions,
        bases=None,
        excluded=_with_places(last.content, erased.places),
        # Its sentences quote keys and values of records.
        impure=None,
        unused=None,
        erased=said | {"rows": {table: count for table, count in run.counts.items() if count}},
        seconds={"commit": time.perf_counter() - started},
    )
    done = replace(done, digests=digests_of(warehouse, pipeline, done, last.content))
    row = ledger.done(planned.increment, done, written_at_ms=clock_ms())
    on_step(f"done {planned.increment}")
    return row


def _with_places(last: DoneRow, places: Mapping[str, Mapping[str, Collection[int]]]) -> Excluded | None:
    """What the pipeline has nothing of: what it left out, and the erased records that it had read."""
    excluded: Excluded = {topic: dict(by_partition) for topic, by_partition in (last.excluded or {}).items()}
    for topic, by_partition in places.items():
        ends, mine = last.cut_to.get(topic, {}), excluded.setdefault(topic, {})
        for p, offsets in by_partition.items():
            read = {offset for offset in offsets if offset < ends.get(p, 0)}
            if read:
                mine[p] = sorted({*mine.get(p, []), *read})
    return {topic: mine for topic, mine in excluded.items() if mine} or None


def rows_that_go(warehouse: Warehouse, pipeline: str, done: DoneRow, erased: ErasedRows) -> dict[str, int]:
    """How many rows go, by table, of all that a pipeline has as of a done row; tables without any are left out."""
    own, counts = warehouse.pipeline(pipeline), dict[str, int]()
    for table in table_names(done):
        files = table_files(warehouse, pipeline, done, table)
        count = sum(erased.count(table, own.table(table), file) for file in files)
        counts |= {table: count} if count else {}
    return counts
