"""Restatements: an increment that puts other rows in the place of what later increments wrote.

Owns the protocol that `restore` and `promote` share. Rule: as every increment, it writes a plan row, one Delta
transaction a table, and a done row; if it dies in between, the next run finishes it. It begins a new epoch and raises
the marks of all earlier ones, so that runners still at work under them are refused. No number is given twice and
nothing committed is forgotten: what was restated can still be asked for as of its own increment.

A table becomes what it had as of the increment that stays (``base``), and what a branch wrote since. Rows of outputs,
drops, dead letters and repartitions get the restatement's number, since it published them; stores are copied byte by
byte, so its number is above those of all their rows. What an output loses goes to `retractions/<output>`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import LedgerConflict, LedgerError
from ...state.tables.branch_files import digests_of, existing_tables, table_parts
from ...state.tables.commit import commit_files, replace_files, transaction_version
from ...state.tables.data_files import DataFile, open_table, read_files, table_version
from ...state.tables.foreign_commits import touched_since
from ...state.tables.kept_below import below
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import Cut, DoneRow, PlanRow
from ...state.tables.names import DEAD_LETTER, DROPPED, OUTPUTS, REPARTITION, RETRACTIONS, STATE, TableName, TaskId
from ...state.tables.object_stores import open_filesystem
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.schema_evolution import other_types, union
from ...state.tables.warehouse import RETRACTED_IN, PipelineTables, Warehouse
from ...state.wall_clock import now_ms
from ..history.committed_tables import done_row, read_table
from ..replay.books import add_books
from ..replay.takeover import committed_tables, fenced_ids, tables_with, unused_epoch
from ..replay.unfinished import refuse_pending, unfinished
from .restated_output import RestatedOutput, moved_on, renumbered, rewritten

OnStep = Callable[[str], None]
Offsets = Mapping[tuple[str, int], int]
"""By table and partition."""
_ORDER = (STATE, REPARTITION, DROPPED, DEAD_LETTER, OUTPUTS)


def done_at(warehouse: Warehouse, pipeline: str, increment: int) -> DoneRow:
    """What the pipeline continued from after ``increment``; 0: from nothing.

    Also of an increment that vacuum lets nobody ask for any more: what branches and plans need of it stays.
    """
    if increment == 0:
        return DoneRow()
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    (row,) = ledger.done_rows(increment, increment)
    return row.content


def restore(
    warehouse: Warehouse,
    pipeline: str,
    increment: int,
    *,
    abandon: bool = False,
    on_step: OnStep = lambda step: None,
    clock_ms: Callable[[], int] = now_ms,
) -> LedgerRow[DoneRow]:
    """Make ``pipeline`` continue from ``increment`` (0: from the start); return the done row.

    Also needed after a RESTORE of a table or of the ledger. One that was planned and not done is finished.
    ``abandon``: give up an increment that was planned and is not done, also a restatement that has changed no table
    yet. Raises LedgerError when there is one and nobody said so, or when ``increment`` is not done, or was vacuumed.
    """
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    pending = ledger.pending()
    if pending is None or not _is_restore_to(pending, increment):
        plan = _plan_of_restore(warehouse, pipeline, increment, abandon=abandon)
        pending = plan_restatement(ledger, warehouse, plan, 0, clock_ms)
        ledger.refuse_vacuumed(increment)  # once more: vacuum may have looked before the plan was there
    return finish(warehouse, pipeline, pending, [], RestatementSource(), on_step, clock_ms)


def refuse_restore(warehouse: Warehouse, pipeline: str, increment: int, *, abandon: bool = False) -> None:
    """Raise what ``restore`` raises before it writes anything."""
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    pending = ledger.pending()
    if pending is None or not _is_restore_to(pending, increment):
        _refuse_across_ranges(ledger, warehouse, _plan_of_restore(warehouse, pipeline, increment, abandon=abandon))


def _is_restore_to(pending: LedgerRow[PlanRow], increment: int) -> bool:
    """Whether what is planned and not done is a restore to ``increment``."""
    return (pending.content.kind, pending.content.restates) == ("restore", increment)


def _plan_of_restore(warehouse: Warehouse, pipeline: str, increment: int, *, abandon: bool) -> PlanRow:
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    base = DoneRow() if increment == 0 else done_row(warehouse, pipeline, increment).content
    _refuse_unless_given_up(warehouse, pipeline, ledger.pending(), abandon)
    cut = base.cut_to or _nothing_read(ledger)
    return PlanRow(
        kind="restore", restates=increment, topology=base.topology, partitions=base.partitions, cut_from=cut, cut_to=cut
    )


def _refuse_unless_given_up(
    warehouse: Warehouse, pipeline: str, pending: LedgerRow[PlanRow] | None, abandon: bool
) -> None:
    if pending is None:
        return
    if not abandon or tables_with(warehouse, pipeline, pending):
        refuse_pending(warehouse, pipeline, pending)
    if not abandon:
        raise unfinished(pipeline, pending, "run it to its end, or give it up with --abandon")


def plan_restatement(
    ledger: Ledger, warehouse: Warehouse, plan: PlanRow, highest: int, clock_ms: Callable[[], int]
) -> LedgerRow[PlanRow]:
    """Write the plan of a restatement, with a number above ``highest`` and all others, and an epoch never used."""
    _refuse_across_ranges(ledger, warehouse, plan)
    increment = max(ledger.next_free(), highest + 1)
    last, pending = ledger.last_done(), ledger.pending()
    if plan.range_ms is not None and (pending is not None or last is None or last.increment != plan.restates):
        raise LedgerConflict(
            ledger.path, f"increment {plan.restates} as the last one", "an increment that another runner planned since",
            "promote it again",
        )  # fmt: skip
    fenced = 0 if last is None else last.epoch
    pipeline = ledger.path.removesuffix("/ledger").rpartition("/")[2]
    epoch = unused_epoch(warehouse, pipeline, fenced if pending is None else pending.epoch)
    plan = replace(plan, fenced=fenced)
    return ledger.plan_restatement(increment, plan, epoch=epoch, written_at_ms=clock_ms())


def _refuse_across_ranges(ledger: Ledger, warehouse: Warehouse, plan: PlanRow) -> None:
    """LedgerError for going back behind the promote of a range that withdrew rows which would come back: rows of one
    increment then no longer come and go together.
    """
    base = plan.restates
    assert base is not None
    ranges = [row.increment for row in ledger.done_rows(base + 1) if row.content.range_ms is not None]
    withdrawn = [number for number in ranges if _withdrew(warehouse, ledger, number, base)]
    if withdrawn:
        again = "make the range again with the previous code, and promote that"
        fork = f"fork the pipeline at {base} and run the branch, which stays a pipeline of its own; or {again}"
        since = (
            f"the branch stays readable as {plan.branch}. To have such rows in the pipeline, make their range with the "
            "code of the branch, `replay backfill … --from … --to … --topology …`, and promote that"
        )
        raise LedgerError(
            ledger.path, f"to go back no further than to increment {withdrawn[-1]}, which put rows of a range in the "
            f"place of others, some of them of increments up to {base}", f"increment {base}",
            fork if plan.branch is None else since,
        )  # fmt: skip


def _withdrew(warehouse: Warehouse, ledger: Ledger, number: int, base: int) -> bool:
    """Whether the promote ``number`` of a range withdrew rows of increments up to ``base``."""
    pipeline, last = ledger.path.removesuffix("/ledger").rpartition("/")[2], ledger.last_done()
    for table in () if last is None else last.content.versions:
        if TableName(table).kind == RETRACTIONS:
            rows = read_table(warehouse, pipeline, table)
            if pc.any(pc.and_(pc.equal(rows[RETRACTED_IN], number), pc.less_equal(rows["increment"], base))).as_py():
                return True
    return False


@dataclass(frozen=True)
class RestatementSource:
    """Where the rows come from that take the place of others: a branch's own tables at the versions in ``done``."""

    root: str = ""
    label: str = "restored"
    done: DoneRow | None = None
    """What it had at these versions, with which the pipeline continues; None: with what it had itself."""
    taken: Offsets = field(default_factory=dict)
    """How many offsets promoted ranges have taken since it was forked, behind which its rows come."""

    def path(self, table: str) -> str:
        """Of a table of its own, by its name in the ledger."""
        return PipelineTables(self.root).table(table)


def finish(
    warehouse: Warehouse,
    pipeline: str,
    planned: LedgerRow[PlanRow],
    rows: list[LedgerRow[DoneRow]],
    source: RestatementSource,
    on_step: OnStep,
    clock_ms: Callable[[], int],
) -> LedgerRow[DoneRow]:
    """Carry out the restatement that is planned: commit every table, then its done row, which is returned.

    ``rows``: the done rows whose increments ``source`` brings. LedgerConflict when another runner was quicker.
    """
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    last = ledger.last_done()
    on_step(f"planned {planned.increment}")
    started = time.perf_counter()
    run = Restatement(warehouse, pipeline, planned, source, clock_ms)
    versions = {}
    for table in run.tables():
        versions[table] = run.commit(table)
        on_step(f"committed {table} {planned.increment}")
    versions |= run.retractions()
    seconds = {"commit": time.perf_counter() - started}
    before = DoneRow() if last is None else last.content
    done = replace(restated_row(planned.content, run.base, source, rows, before), versions=versions, seconds=seconds)
    done = replace(done, digests=digests_of(warehouse, pipeline, done, before))
    row = ledger.done(planned.increment, done, written_at_ms=clock_ms())
    on_step(f"done {planned.increment}")
    return row


class Restatement:
    """A restatement at work: what each table becomes."""

    def __init__(
        self,
        warehouse: Warehouse,
        pipeline: str,
        planned: LedgerRow[PlanRow],
        source: RestatementSource,
        clock_ms: Callable[[], int],
    ) -> None:
        self.warehouse, self.planned, self.source, self.clock_ms = warehouse, planned, source, clock_ms
        assert planned.content.restates is not None
        self.base = done_at(warehouse, pipeline, planned.content.restates)
        self.own = warehouse.pipeline(pipeline)
        self.number = planned.increment

    def tables(self) -> list[str]:
        """State first, so that outputs never outrun it."""
        names = {*committed_tables(self.warehouse, self.own.name), *self.brought()}
        return sorted(names, key=lambda name: (_ORDER.index(TableName(name).kind), name))

    def brought(self) -> dict[str, int]:
        """Tables that the source has rows of, with their versions."""
        versions = {} if self.source.done is None else self.source.done.versions
        return {name: version for name, version in versions.items() if TableName(name).kind in _ORDER}

    def app_id(self, table: str, epoch: int) -> str:
        return f"{self.own.name}/{table}/{epoch}"

    def commit(self, table: str) -> int:
        """Make the table what it shall be, unless it is; return its version."""
        path, app_id = self.own.table(table), self.app_id(table, self.planned.epoch)
        if transaction_version(path, app_id) == self.number:
            return self._version(table)
        self._refuse_changed_columns(table, path)
        schema = self._schema(table)
        files = self.stays(table, schema) + list(self.brought_files(table, schema))
        return replace_files(
            path,
            schema,
            files,
            app_id=app_id,
            fenced=fenced_ids(self.own.name, table, self.planned.content.fenced or 0, self.planned.epoch),
            increment=self.number,
            written_at_ms=self.clock_ms(),
        )

    def _refuse_changed_columns(self, table: str, path: str) -> None:
        """Rows that others have changed come again or go; columns of theirs would stay."""
        last = Ledger(self.own.ledger).last_done()
        opened = open_table(path)
        if opened is not None and last is not None and table in last.content.versions:
            touched = touched_since(path, last.content.versions[table], opened.version())
            if touched is not None and touched.changes:
                raise touched.error()

    def stays(self, table: str, schema: pa.Schema) -> list[DataFile]:
        """The part of the table that stays; rows that readers of an output lose are retracted."""
        path, base = self.own.table(table), self.base_files(table)
        if TableName(table).kind != OUTPUTS:
            return base
        live = read_files(path)
        output = RestatedOutput(path, schema, live, base, self.number, self.name)
        base = output.files()
        self.retract(table, schema, output.gone())
        return base

    def _schema(self, table: str) -> pa.Schema:
        """The columns that are there and those of the source; the source's alone where one is of another type."""
        there = open_table(self.own.table(table))
        own_columns = None if there is None else pa.schema(there.schema().to_arrow())
        version = self.brought().get(table)
        if version is None:
            assert own_columns is not None, f"{self.own.table(table)}: no table"
            return own_columns
        path = self.source.path(table)
        opened = open_table(path, version=version)
        assert opened is not None, f"{path}: no table"
        brought = pa.schema(opened.schema().to_arrow())
        return (
            brought
            if there is None or own_columns is None or other_types(there, brought)
            else union(own_columns, brought)
        )

    def base_files(self, table: str) -> list[DataFile]:
        """What the table had as of the increment that stays."""
        if table not in self.base.versions:
            return []
        path, version, digest = table_parts(self.warehouse, self.own.name, self.base, table)[-1]
        return read_files(path, version=version, digest=digest)

    @property
    def name(self) -> str:
        """How the names of its files begin."""
        return f"{self.number:08d}-{self.source.label}"

    def brought_files(self, table: str, schema: pa.Schema) -> Iterator[DataFile]:
        """Copies of what the source wrote, in this pipeline's folder; not visible yet."""
        version = self.brought().get(table)
        if version is None:
            return
        root = self.source.path(table)
        for file in read_files(root, version=version):
            placed = replace(file, root=root)
            if TableName(table).kind == STATE:
                yield self._copied(table, placed)
            elif file.records:
                yield self._renumbered(table, schema, placed)

    def _copied(self, table: str, file: DataFile) -> DataFile:
        """Byte by byte, under a name that begins with the restatement's number."""
        folder, _, name = file.path.rpartition("/")
        # With the time: a runner that died, or another one at work, may have copied this file too, and no file is
        # written twice.
        path = f"{folder}/{self.number:08d}-{self.source.label}-{time.time_ns():x}-{name}"
        assert file.root is not None, "a file of another table"
        filesystem, source = open_filesystem(below(file.root, file.path))
        _, target = open_filesystem(f"{self.own.table(table)}/{path}")
        filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        filesystem.copy_file(source, target)
        return replace(file, path=path, root=None)

    def _renumbered(self, table: str, schema: pa.Schema, file: DataFile) -> DataFile:
        """The same rows in the same order, written by this increment."""
        target = TaskFile(self.own.table(table), partition=file.partition, name=self.name)
        taken = self.source.taken.get((table, file.partition), 0)
        written = rewritten(file, schema, target, lambda rows: moved_on(renumbered(rows, self.number), taken))
        assert written is not None, f"{file.root}/{file.path}: its rows are gone"
        return written

    # --- retractions -----------------------------------------------------------------------------------------

    def retract(self, table: str, schema: pa.Schema, gone: Iterator[tuple[DataFile, pa.Table]]) -> None:
        """Keep the rows that the output loses, for those who have read them; before it loses them."""
        path = self.own.retractions(TableName(table).name)
        files = []
        for file, rows in gone:
            rows = rows.append_column(RETRACTED_IN, pa.array(np.full(len(rows), self.number, np.int64)))
            target = TaskFile(path, partition=file.partition, name=self.name)
            target.write(rows.drop_columns(["partition"]))
            written = target.close()
            files += [] if written is None else [written]
        if not files:
            return
        commit_files(
            path,
            schema.append(pa.field(RETRACTED_IN, pa.int64())),
            files,
            app_id=self.app_id(TableName.retractions(TableName(table).name), self.planned.epoch),
            increment=self.number,
            may_grow=True,
        )

    def retractions(self) -> dict[str, int]:
        """Versions of the tables of retractions, which only restatements write."""
        names = [name for name in existing_tables(self.own.root) if TableName(name).kind == RETRACTIONS]
        return {name: self._version(name) for name in names}

    def _version(self, table: str) -> int:
        path = self.own.table(table)
        version = table_version(path)
        assert version is not None, f"{path}: marked, yet not there"
        return version


def _nothing_read(ledger: Ledger) -> Cut:
    """The cut before the first increment, for the topics that were read."""
    last = ledger.last_done()
    cut = {} if last is None else last.content.cut_to
    return {topic: dict.fromkeys(partitions, 0) for topic, partitions in cut.items()}


def _behind(done: DoneRow, taken: Offsets) -> DoneRow:
    """With the next offsets of outputs so many further."""
    if not taken:
        return done
    tasks = {
        task: replace(entry, next_offsets=_further(entry.next_offsets, taken, TaskId.of(task).partition))
        for task, entry in done.tasks.items()
    }
    code = dict(done.code or {})
    if "next_offsets" in code:
        code["next_offsets"] = {
            table: {p: offset + taken.get((table, int(p)), 0) for p, offset in offsets.items()}
            for table, offsets in code["next_offsets"].items()
        }
    return replace(done, tasks=tasks, code=code or None)


def _further(offsets: Mapping[str, int], taken: Offsets, partition: int) -> dict[str, int]:
    return {table: offset + taken.get((table, partition), 0) for table, offset in offsets.items()}


def restated_row(
    planned: PlanRow, base: DoneRow, source: RestatementSource, rows: list[LedgerRow[DoneRow]], before: DoneRow
) -> DoneRow:
    """What the pipeline continues with, and the books of the increments that were brought, as one.

    ``before``: the last done row; its sub-topologies and outputs have books even if nothing was brought.
    """
    done = base if source.done is None else _behind(source.done, source.taken)
    books = [row.content.books for row in rows if row.content.books is not None]
    subs = {sub for each in (before.books or {}, *books) for sub in each.get("by_sub_topology", {})}
    by_sub = {sub: add_books([b["by_sub_topology"][sub] for b in books if sub in b["by_sub_topology"]]) for sub in subs}
    written = [row.content.outputs or {} for row in rows]
    names = {name: None for each in (before.outputs or {}, *written) for name in each}
    return replace(
        done,
        topology=planned.topology,
        kind=planned.kind,
        restates=planned.restates,
        branch=planned.branch,
        branch_increment=planned.branch_increment,
        range_ms=planned.range_ms,
        erased=None,
        bases=base.bases,
        forked=None,
        bootstrap=None,
        cut_to=planned.cut_to,
        books=add_books(books) | {"by_sub_topology": by_sub},
        outputs={name: sum(each.get(name, 0) for each in written) for name in names},
        tape_times={} if done.tape_times is None else done.tape_times,
        operators={} if done.operators is None else done.operators,
        lateness={"avg": None, "max": None},
        lateness_by_sub_topology=None,
        lateness_counts_by_sub_topology=None,
        seconds_by_sub_topology=None,
        rss_bytes_max=0,
        spark_tasks=0,
    )
