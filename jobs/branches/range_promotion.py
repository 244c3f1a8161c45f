"""Promotion of a backfill: the rows of its range take the place of those that the pipeline has, and nothing else does.

Owns the conditions, and what becomes of an output's files. Rule: a row is withdrawn, or brought, when its own record
time lies in the range. What is withdrawn goes to `retractions/<output>`; what is brought is published again, behind all
that there is, so no key or window of it may have records behind the range. State, drops, dead letters and positions
stay: the pipeline continues as it would have. The step is a restatement (jobs/branches/restatement.py), finished by
promoting again when it was killed.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import by_bits
from ...state.errors import ConfigError, LedgerError
from ...state.tables.branch_files import digests_of
from ...state.tables.data_files import DataFile, open_table, read_files, read_rows
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import Cut, DoneRow, PlanRow, behind
from ...state.tables.names import OUTPUTS, TableName, TaskId
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.schema_evolution import other_types
from ...state.tables.task_entry import TaskEntry
from ...state.tables.warehouse import WINDOW, Warehouse, output_identity
from ..execution.kept_range import TIME, Range
from ..history.committed_tables import read_table
from ..replay.unfinished import drop_command
from .branches import Branch
from .restated_output import renumbered, rewritten
from .restatement import OnStep, Restatement, RestatementSource, done_at, plan_restatement, restated_row


class _Span(NamedTuple):
    """Where records of one partition of an output are published: the task that writes it, and their offsets."""

    task: str
    first: int
    after: int


Spans = dict[str, dict[int, _Span]]
"""By table and partition."""


def plan_range(
    warehouse: Warehouse, branch: Branch, last: LedgerRow[DoneRow], row: LedgerRow[DoneRow], clock_ms: Callable[[], int]
) -> LedgerRow[PlanRow]:
    """Plan that the rows of ``branch``, as of its row ``row``, take the place of those of its parent, as of ``last``.

    Raises ConfigError or LedgerError, with the reason, where the outputs would not be what a replay would have made.
    """
    range_ = _range(row.content)
    _refuse_unproved(warehouse, branch, row.content)
    _refuse_behind(branch, last.content.cut_to, row.content.cut_to)
    ledger = Ledger(warehouse.pipeline(branch.parent).ledger)
    beyond = _beyond(ledger, row.content)
    for table in _outputs(row.content):
        _refuse_other_columns(warehouse, branch, table, last.content, row.content)
        _refuse_rows(warehouse, branch, table, range_, beyond)
    # For what it refuses: a plan that nobody can carry out would block the pipeline.
    _spans(warehouse, branch, last.content, row.content)
    plan = PlanRow(
        kind="promote",
        branch=branch.name,
        branch_increment=row.increment,
        restates=last.increment,
        range_ms=[range_.from_ms, range_.to_ms],
        topology=last.content.topology,
        cut_from=last.content.cut_to,
        cut_to=last.content.cut_to,
        partitions=last.content.partitions,
    )
    return plan_restatement(ledger, warehouse, plan, 0, clock_ms)


def finish_range(
    warehouse: Warehouse, branch: Branch, planned: LedgerRow[PlanRow], on_step: OnStep, clock_ms: Callable[[], int]
) -> LedgerRow[DoneRow]:
    """Carry out what is planned: every table, then the done row, which is returned."""
    started, plan = time.perf_counter(), planned.content
    assert plan.restates is not None
    assert plan.branch_increment is not None
    on_step(f"planned {planned.increment}")
    before = done_at(warehouse, branch.parent, plan.restates)
    brought = done_at(warehouse, branch.name, plan.branch_increment)
    spans = _spans(warehouse, branch, before, brought)
    source = RestatementSource(warehouse.pipeline(branch.name).root, branch.name, brought)
    run = _RangeRestatement(warehouse, branch.parent, planned, source, clock_ms)
    run.spans = spans
    versions = {}
    for table in run.tables():
        versions[table] = run.commit(table)
        on_step(f"committed {table} {planned.increment}")
    versions |= run.retractions()
    counts = {
        TableName(table).name: sum(span.after - span.first for span in mine.values()) for table, mine in spans.items()
    }
    done = restated_row(plan, before, RestatementSource(), [], before)
    done = replace(
        done,
        versions=versions,
        tasks=_moved_on(done, spans),
        outputs=(done.outputs or {}) | counts,
        seconds={"commit": time.perf_counter() - started},
    )
    done = replace(done, digests=digests_of(warehouse, branch.parent, done, before))
    ledger = Ledger(warehouse.pipeline(branch.parent).ledger)
    row = ledger.done(planned.increment, done, written_at_ms=clock_ms())
    on_step(f"done {planned.increment}")
    return row


class _RangeRestatement(Restatement):
    spans: Spans

    def brought(self) -> dict[str, int]:
        """Outputs alone."""
        return {table: version for table, version in super().brought().items() if TableName(table).kind == OUTPUTS}

    def stays(self, table: str, schema: pa.Schema) -> list[DataFile]:
        """All that there is, without the rows of the range."""
        files = self.base_files(table)
        if table not in self.brought():
            return files
        range_ms = self.planned.content.range_ms
        assert range_ms is not None
        range_, path, kept = Range(*range_ms), self.own.table(table), list[DataFile]()
        gone = list[tuple[DataFile, pa.Table]]()
        for file in files:
            rows = read_rows(path, [file], schema)
            rows = rows.filter(range_.has(rows))
            if not len(rows):
                kept.append(file)
                continue
            target = TaskFile(path, partition=file.partition, name=self.name)
            left = rewritten(
                replace(file, root=path), schema, target, lambda rows: rows.filter(pc.invert(range_.has(rows)))
            )
            kept += [] if left is None else [left]
            gone.append((file, rows))
        self.retract(table, schema, iter(gone))
        return kept

    def brought_files(self, table: str, schema: pa.Schema) -> Iterator[DataFile]:
        """The branch's rows, published behind all that there is; not visible yet."""
        version = self.brought().get(table)
        if version is None:
            return
        root = self.source.path(table)
        next_offset = {partition: span.first for partition, span in self.spans[table].items()}
        files = read_files(root, version=version)
        for file in sorted(files, key=lambda file: (file.partition, file.min_offset or 0)):
            if file.records:
                first = next_offset[file.partition]
                next_offset[file.partition] = first + file.records
                yield self._published(table, schema, replace(file, root=root), first)

    def _published(self, table: str, schema: pa.Schema, file: DataFile, first: int) -> DataFile:
        target, taken = TaskFile(self.own.table(table), partition=file.partition, name=self.name), [first]

        def placed(rows: pa.Table) -> pa.Table:
            rows = renumbered(rows, self.number)
            at = rows.schema.get_field_index("offset")
            offsets = pa.array(np.arange(taken[0], taken[0] + len(rows), dtype=np.int64))
            taken[0] += len(rows)
            return rows.set_column(at, rows.schema.field("offset"), offsets)

        written = rewritten(file, schema, target, placed)
        assert written is not None, f"{file.root}/{file.path}: its rows are gone"
        return written


def _range(done: DoneRow) -> Range:
    assert done.backfill is not None, "a backfill"
    return Range(done.backfill["from_ms"], done.backfill["to_ms"])


def _outputs(done: DoneRow) -> list[str]:
    return [table for table in done.versions if TableName(table).kind == OUTPUTS]


def _spans(warehouse: Warehouse, branch: Branch, before: DoneRow, brought: DoneRow) -> Spans:
    """Where the branch's rows are published: behind what the parent has written. Raises LedgerError when it has never
    written to a partition, so that nobody knows which task does.
    """
    spans: Spans = {}
    for table in _outputs(brought):
        counts: dict[int, int] = {}
        root = warehouse.pipeline(branch.name).table(table)
        version = brought.versions[table]
        for file in read_files(root, version=version):
            counts[file.partition] = counts.get(file.partition, 0) + file.records
        writers = {
            TaskId.of(task).partition: (task, entry.next_offsets[table])
            for task, entry in before.tasks.items()
            if table in entry.next_offsets
        }
        missing = sorted(partition for partition, count in counts.items() if count and partition not in writers)
        if missing:
            raise LedgerError(
                f"branch {branch.name!r}, {table}", f"partitions that {branch.parent} has written to",
                f"rows of partition {missing[0]}, to which it has written nothing",
                "fork the pipeline before the range, run the branch to the end, and promote that",
            )  # fmt: skip
        spans[table] = {
            partition: _Span(*writers[partition], writers[partition][1] + count)
            for partition, count in counts.items()
            if count
        }
    return spans


def _moved_on(done: DoneRow, spans: Spans) -> dict[str, TaskEntry]:
    """Tasks, with the next offset of each output behind what was published."""
    tasks = dict(done.tasks)
    for table, by_partition in spans.items():
        for span in by_partition.values():
            entry = tasks[span.task]
            tasks[span.task] = replace(entry, next_offsets={**entry.next_offsets, table: span.after})
    return tasks


# --- what is refused -------------------------------------------------------------------------------------------------


def _refuse_unproved(warehouse: Warehouse, branch: Branch, done: DoneRow) -> None:
    if not done.is_whole_backfill:
        raise LedgerError(
            f"branch {branch.name!r}", "a backfill that was finished", "one that was killed, or is at work",
            f"if nobody is at it: `{drop_command(warehouse, branch.name)}`, and run the backfill again",
        )  # fmt: skip
    waits = (done.backfill or {})["proof"]["waits_in"]
    if waits:
        raise LedgerError(
            f"branch {branch.name!r}", "all results of the range", f"some that still wait in {', '.join(waits)}",
            "land what follows, or `replay advance` its topics; then drop this backfill and run it again",
        )  # fmt: skip


def _refuse_behind(branch: Branch, parent: Cut, cut: Cut) -> None:
    """LedgerError when the parent would still write rows of the range by itself."""
    less = behind(parent, cut)
    if less:
        said = "; ".join(f"{topic}-{partition} at {at}, the backfill at {end}" for topic, partition, at, end in less)
        raise LedgerError(
            f"pipeline {branch.parent!r}", f"to have read as far as the backfill {branch.name}", said,
            f"let it catch up: `replay run … --pipeline {branch.parent}`",
        )  # fmt: skip


def _beyond(ledger: Ledger, done: DoneRow) -> list[int]:
    """Increments of the parent that have read what landed after the backfill was made."""
    proof = (done.backfill or {})["proof"]
    known: Cut = proof["landed"]
    apart = proof.get("topics_apart", ())

    def read(row: LedgerRow[DoneRow]) -> Cut:
        return {topic: ends for topic, ends in row.content.cut_to.items() if topic not in apart}

    return [row.increment for row in ledger.done_rows() if behind(known, read(row))]


def _refuse_other_columns(warehouse: Warehouse, branch: Branch, table: str, before: DoneRow, brought: DoneRow) -> None:
    of_parent = open_table(warehouse.pipeline(branch.parent).table(table))
    of_branch = open_table(warehouse.pipeline(branch.name).table(table), version=brought.versions[table])
    if of_parent is None or of_branch is None or table in (before.bases or {}):
        raise ConfigError(
            f"{branch.parent}/{table}", "an output whose rows are all its own",
            "none" if of_parent is None else "one that it has in part from the pipeline it was forked from",
            "fork the pipeline before the range, run the branch to the end, and promote that",
        )  # fmt: skip
    different = other_types(of_parent, pa.schema(of_branch.schema().to_arrow()))
    if different:
        raise ConfigError(
            f"{branch.name}/{table}", f"columns of the types that {branch.parent} has",
            f"another type of {', '.join(different)}", "give the output another name in the changed topology",
        )  # fmt: skip


def _refuse_rows(warehouse: Warehouse, branch: Branch, table: str, range_: Range, beyond: list[int]) -> None:
    """ConfigError where rows of the range would not be the last of their key and window, or the parent has some of the
    range that the backfill does not know.
    """
    there, brought = read_table(warehouse, branch.parent, table), read_table(warehouse, branch.name, table)
    in_range = range_.has(there)
    since = there.filter(pc.and_(in_range, pc.is_in(there["increment"], pa.array(beyond, pa.int64()))))
    if len(since):
        raise ConfigError(
            f"branch {branch.name!r}, {table}", "rows of the range from what had landed when it was made",
            f"some of increment {since['increment'][0].as_py()}, which has read later records",
            "drop this backfill and run it again",
        )  # fmt: skip
    identity = ["partition", *output_identity(there.column_names)]
    outside = there.filter(pc.invert(in_range))
    kept = _frame(outside, [*identity, "offset", TIME]).with_row_index("row")
    taken = _frame(there.filter(in_range), [*identity, "offset"])
    touched = pl.concat([_frame(brought, identity), taken.select(identity)]).unique()
    first = taken.group_by(identity).agg(pl.col("offset").min().alias("first"))
    later = kept.join(touched, on=identity, how="semi", nulls_equal=True).join(
        first, on=identity, how="left", nulls_equal=True
    )
    edges = _frame(there, ["partition", "offset", TIME]).filter(pl.col(TIME) >= range_.from_ms)
    edge = edges.group_by("partition").agg(pl.col("offset").min().alias("edge"))  # where the range begins in it
    later = later.join(edge, on="partition", how="left")
    # Behind the range is a row past its end, or one behind the first row of the range that its key has. A key that has
    # none yet counts from where the range begins in the partition; where that has no row from there on, none is behind.
    is_behind = (pl.col("offset") > pl.coalesce("first", "edge")).fill_null(False)
    later = later.filter((pl.col(TIME) >= range_.to_ms) | is_behind).sort(TIME)
    if len(later):
        row = later.row(0, named=True)
        window = f", window {row[WINDOW[0]]} to {row[WINDOW[1]]} ms," if WINDOW[0] in row else ""
        raise ConfigError(
            f"branch {branch.name!r}, {table}",
            "no records behind the range of keys and windows that are in it, since the last record of a key counts",
            f"key {outside['key'][row['row']].as_py()!r}{window} with a record of {row[TIME]} ms",
            "choose a --to at which windows end; of an output without windows, fork the pipeline before the range, run "
            "the branch to the end, and promote that",
        )


def _frame(rows: pa.Table, columns: list[str]) -> pl.DataFrame:
    frame = pl.from_arrow(by_bits(rows.select(columns)))
    assert isinstance(frame, pl.DataFrame)
    return frame
