"""Promotion: the results of a branch replace those of its parent since the fork, in one step.

Owns the conditions. Rule: nobody loses what was read: the branch must have read as far as its parent; and the parent's
tables keep their columns, though they may gain some, null in the previous rows. A backfill brings the rows of its
range alone (jobs/branches/range_promotion.py). The step itself is a restatement
(`jobs/branches/restatement.py`): killed anywhere, it is finished by promoting again, from the same increment of the
branch.
"""

from collections.abc import Callable

import pyarrow as pa

from ...state.errors import ConfigError, LedgerError
from ...state.tables.data_files import open_table, read_files
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import Cut, DoneRow, PlanRow, behind
from ...state.tables.names import STATE, TableName, TaskId
from ...state.tables.rows_in_force import in_force
from ...state.tables.schema_evolution import other_types
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from ..history.committed_tables import done_row
from ..replay.unfinished import refuse_pending, unfinished
from .branches import Branch, branch_of
from .range_promotion import finish_range, plan_range
from .restatement import Offsets, OnStep, RestatementSource, done_at, finish, plan_restatement


def promote(
    warehouse: Warehouse,
    name: str,
    *,
    on_step: OnStep = lambda step: None,
    clock_ms: Callable[[], int] = now_ms,
) -> LedgerRow[DoneRow]:
    """Swap the branch ``name`` into its parent; return the parent's done row. Nothing is written if that has been done.

    Raises LedgerError while one of both has an unfinished increment, or the parent has read further than the branch.
    ConfigError when a column of a table that has rows from before the fork is of another type in the branch.
    """
    branch = branch_of(warehouse, name)
    ledger = Ledger(warehouse.pipeline(branch.parent).ledger)
    pending, last = ledger.pending(), ledger.last_done()
    assert last is not None, f"{branch.parent}: was forked, so something is done"
    # A promote of this branch that died is finished as it was planned, whatever the branch has since: some tables may
    # have the planned rows already.
    if pending is None or pending.content.branch != name:
        _refuse_unfinished(warehouse, branch.parent, pending)
        row = done_row(warehouse, name)
        if _is_promoted(last, name, row.increment):
            return last
        pending = _plan(warehouse, branch, ledger, last, row, clock_ms)
    carry_out = _finish if pending.content.range_ms is None else finish_range
    return carry_out(warehouse, branch, pending, on_step, clock_ms)


def _is_promoted(last: LedgerRow[DoneRow], name: str, increment: int) -> bool:
    """Whether the parent's last increment is this very promotion."""
    return (last.content.branch, last.content.branch_increment) == (name, increment)


def _plan(
    warehouse: Warehouse,
    branch: Branch,
    ledger: Ledger,
    last: LedgerRow[DoneRow],
    row: LedgerRow[DoneRow],
    clock_ms: Callable[[], int],
) -> LedgerRow[PlanRow]:
    if row.content.backfill is not None:
        return plan_range(warehouse, branch, last, row, clock_ms)
    own = Ledger(warehouse.pipeline(branch.name).ledger)
    _refuse_unfinished(warehouse, branch.name, own.pending())
    _refuse_behind(branch, last.content.cut_to, row.content.cut_to)
    if branch.increment and not branch.bases:  # rows were erased since, so that it has all of its parent's itself
        ledger.refuse_vacuumed(branch.increment)
    base_increment = _base(ledger, branch)
    base = done_at(warehouse, branch.parent, base_increment)
    _refuse_other_columns(warehouse, branch, base, row.content)
    brought = _brought(own, row.increment)
    planned = own.rows_of(row.increment).planned
    plan = PlanRow(
        kind="promote",
        branch=branch.name,
        branch_increment=row.increment,
        restates=base_increment,
        topology=row.content.topology,
        cut_from={
            topic: {p: base.cut_to.get(topic, {}).get(p, 0) for p in cut} for topic, cut in row.content.cut_to.items()
        },
        cut_to=row.content.cut_to,
        records=sum(each.content.books["read"] for each in brought if each.content.books is not None),
        waiting=0 if planned is None else planned.content.waiting,
        partitions=row.content.partitions,
    )
    return plan_restatement(ledger, warehouse, plan, row.increment, clock_ms)


def _base(ledger: Ledger, branch: Branch) -> int:
    """The increment of the parent on which the branch's rows come: that of the fork, or the promote of a range after it
    with nothing read in between. Such a promote has changed outputs alone, and its rows stay.
    """
    base = branch.increment
    for row in in_force(ledger.done_rows()):
        if row.content.range_ms is not None and row.content.restates == base:
            base = row.increment
    return base


def _taken(fork: DoneRow, base: DoneRow) -> Offsets:
    """How many offsets of each output the base has taken since the fork."""
    before, now = (
        {
            (table, TaskId.of(task).partition): offset
            for task, entry in done.tasks.items()
            for table, offset in entry.next_offsets.items()
        }
        for done in (fork, base)
    )
    return {output: offset - before[output] for output, offset in now.items() if offset > before[output]}


def _brought(own: Ledger, increment: int) -> list[LedgerRow[DoneRow]]:
    """Done rows of the branch's own increments that count."""
    return [row for row in in_force(own.done_rows(highest=increment)) if row.content.forked is None]


def _finish(
    warehouse: Warehouse, branch: Branch, planned: LedgerRow[PlanRow], on_step: OnStep, clock_ms: Callable[[], int]
) -> LedgerRow[DoneRow]:
    own = Ledger(warehouse.pipeline(branch.name).ledger)
    increment, base = planned.content.branch_increment, planned.content.restates
    assert increment is not None
    assert base is not None
    taken = _taken(done_at(warehouse, branch.parent, branch.increment), done_at(warehouse, branch.parent, base))
    source = RestatementSource(
        warehouse.pipeline(branch.name).root, branch.name, done_at(warehouse, branch.name, increment), taken
    )
    return finish(warehouse, branch.parent, planned, _brought(own, increment), source, on_step, clock_ms)


def _refuse_unfinished(warehouse: Warehouse, pipeline: str, pending: LedgerRow[PlanRow] | None) -> None:
    refuse_pending(warehouse, pipeline, pending)
    if pending is not None:
        raise unfinished(pipeline, pending, f"finish it first: `replay run … --pipeline {pipeline}`")


def _refuse_behind(branch: Branch, parent: Cut, cut: Cut) -> None:
    """LedgerError when the parent has read records that the branch has not."""
    less = behind(cut, parent)
    if less:
        raise LedgerError(
            f"branch {branch.name!r}",
            f"to have read as far as {branch.parent}",
            "; ".join(f"{topic}-{p} at {at}, {branch.parent} at {end}" for topic, p, at, end in less),
            f"let it catch up: `replay run … --pipeline {branch.name}`, then promote it",
        )


def _refuse_other_columns(warehouse: Warehouse, branch: Branch, base: DoneRow, done: DoneRow) -> None:
    """ConfigError for a table whose columns the parent cannot take over.

    A store may change when nothing from before the fork stays; an output never, since its readers have read it.
    """
    for table, version in done.versions.items():
        path = warehouse.pipeline(branch.parent).table(table)
        brought = open_table(warehouse.pipeline(branch.name).table(table), version=version)
        there = open_table(path)
        before = base.versions.get(table)
        stays = before is not None and read_files(path, version=before)
        if there is None or brought is None or not (stays or TableName(table).kind != STATE):
            continue
        other = other_types(there, pa.schema(brought.schema().to_arrow()))
        if other:
            raise ConfigError(
                f"{branch.name}/{table}",
                f"columns of the types that {branch.parent} has",
                f"another type of {', '.join(other)}",
                "give the output or store another name in the changed topology",
            )
