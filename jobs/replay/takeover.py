"""Another plan in the place of an increment that was planned and not done: of corrected code, or without records that
were taken out of play since.

Rule: it may take over where no table has anything of that increment, by every Delta log; no plan row is changed, the
new one has a higher number and a higher epoch. Then a runner that still works under an earlier epoch (there are several
after several takeovers) is shut out of every table. Each table is restored to the last done increment, and marked with
the new number under all those epochs, in one transaction. No runner has a plan without its tables being there, so none
is overlooked.

That is exact whoever is at work. Out of courtesy it waits for a run whose heart beats, since what that run has computed
would be lost.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ...state.errors import CodeChanged, CommitLost, Fenced, LedgerConflict
from ...state.tables.branch_files import existing_tables
from ...state.tables.commit import create_table, replace_files, transaction_version
from ...state.tables.data_files import OpenTables, open_table, read_files
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import PlanRow
from ...state.tables.names import LEDGER, RETRACTIONS, TableName
from ...state.tables.parquet_reader import restore_command
from ...state.tables.warehouse import Warehouse
from ..code_changes.state_migration import CodeChange, check_pending
from ..execution.table_schemas import table_schema
from ..topology.topology import Topology
from .heartbeats import LOST_SECONDS, at_work
from .unfinished import refuse_pending

_NOT_COMMITTED = (LEDGER, RETRACTIONS)


def committed_tables(warehouse: Warehouse, pipeline: str) -> list[str]:
    """Tables of the pipeline that are there, but for the ledger and what restatements retracted."""
    names = existing_tables(warehouse.pipeline(pipeline).root)
    return [name for name in names if TableName(name).kind not in _NOT_COMMITTED]


def tables_with(warehouse: Warehouse, pipeline: str, planned: LedgerRow[PlanRow]) -> list[str]:
    """Tables that have something of the planned increment."""
    return [
        table
        for table in committed_tables(warehouse, pipeline)
        if _mark(warehouse, pipeline, table, planned.epoch) == planned.increment
    ]


def unused_epoch(warehouse: Warehouse, pipeline: str, after: int) -> int:
    """The first epoch above ``after`` that no table has a mark of."""
    tables, epoch = committed_tables(warehouse, pipeline), after + 1
    # After a RESTORE of the ledger, tables may have marks of epochs that it knows no more.
    while any(_mark(warehouse, pipeline, table, epoch) is not None for table in tables):
        epoch += 1
    return epoch


def fenced_ids(pipeline: str, table: str, last_done: int, epoch: int) -> list[str]:
    """App ids of all who may be at work when a plan of ``epoch`` is written, which gives up every other.

    They have the epoch of the last done increment, or one of a plan since; each such plan has a higher epoch than the
    one before. Who had a lower one than ``last_done`` was shut out before that increment was done.
    """
    assert last_done < epoch, f"epoch {epoch} does not follow {last_done}"
    return [f"{pipeline}/{table}/{each}" for each in range(last_done, epoch)]


def make_tables(
    warehouse: Warehouse, topology: Topology, tables: Mapping[str, str], opened: OpenTables | None = None
) -> None:
    """Make those of ``tables`` (name → path) that are missing, empty. Before a plan: who shuts its runner out looks
    for tables afterwards, and marks those that are there.
    """
    for table, path in tables.items():
        schema = table_schema(topology, table)
        create_table(path, schema, partition_by=["partition"], opened=opened)


def refusal_of(
    warehouse: Warehouse,
    pipeline: str,
    pending: LedgerRow[PlanRow] | None,
    topology: Topology,
    change: CodeChange,
    last: int,
) -> CodeChanged | None:
    """Why this code cannot do the pending increment; it may take over then. None: it can, or none is pending. Raises
    CodeChanged where tables have something of the increment already. ``last``: the last done one.
    """
    if pending is None:
        return None
    refuse_pending(warehouse, pipeline, pending)
    try:
        check_pending(pending, topology, change, pipeline)
    except CodeChanged as refusal:
        started = tables_with(warehouse, pipeline, pending)
        if not started:
            return refusal
        next_step = (
            f"{', '.join(started)} committed it already: run it to its end with that code, or give it up with "
            f"`{restore_command(warehouse.pipeline(pipeline).root, last)} --abandon`"
        )
        raise CodeChanged(refusal.place, refusal.expected, refusal.got, next_step) from refusal
    return None


def why_not(refusal: CodeChanged) -> str:
    """Why a plan is given up by the current code, in words."""
    return f"expected {refusal.expected}, got {refusal.got}"


def in_place_of(row: PlanRow, given_up: LedgerRow[PlanRow], why: str) -> PlanRow:
    """``row`` as the plan that takes over from the plan ``given_up``; ``why`` it is given up."""
    instead_of = {"increment": given_up.increment, "epoch": given_up.epoch}
    return replace(row, instead_of=instead_of, instead_of_why=why)


def refuse_while_at_work(
    warehouse: Warehouse, pipeline: str, pending: LedgerRow[PlanRow], *, at_ms: int, run: str | None
) -> None:
    """Raises LedgerConflict while another run than ``run`` shows that it is at work on the pipeline."""
    tables = warehouse.pipeline(pipeline)
    others = at_work(tables, at_ms, but=run)
    if others:
        name, beat = max(others.items(), key=lambda each: each[1].written_at_ms)
        lost = _utc(beat.written_at_ms + int(LOST_SECONDS * 1000))
        raise LedgerConflict(
            f"pipeline {pipeline!r}, increment {pending.increment}",
            "nobody at work on it, since another plan would take its place",
            f"run {name} ({beat.said}), whose heartbeat is of {_utc(beat.written_at_ms)}",
            f"let it finish, or stop it, and run again; if it was killed, run again after {lost}, or delete its "
            f"heartbeat {tables.heartbeat(name)}",
        )


def shut_out(
    warehouse: Warehouse,
    pipeline: str,
    topology: Topology,
    tables: Mapping[str, str],
    versions: Mapping[str, int],
    *,
    last_done: int,
    epoch: int,
    increment: int,
    written_at_ms: int,
) -> None:
    """Make every table what it was at ``versions`` (not named: empty), and refuse all epochs before from now on.
    ``tables``: of the topology; ``last_done``: epoch of the last done increment; ``increment`` and ``epoch``: of the
    plan that takes over. Done again it changes nothing. Raises Fenced when that plan was given up in turn.
    """
    own = warehouse.pipeline(pipeline)
    # Also tables that this topology does not have: the runner to be shut out may run one that does.
    for table in dict.fromkeys([*committed_tables(warehouse, pipeline), *tables]):
        path, version = own.table(table), versions.get(table)
        stay = [] if version is None else read_files(path, version=version)
        if table in tables:
            schema = table_schema(topology, table)
        else:
            there = open_table(path)
            assert there is not None, f"{path}: is there, and cannot be opened"
            schema = pa.schema(there.schema().to_arrow())
        _replace(
            path,
            schema,
            stay,
            app_id=f"{pipeline}/{table}/{epoch}/takes-over",
            fenced=fenced_ids(pipeline, table, last_done, epoch),
            increment=increment,
            written_at_ms=written_at_ms,
        )


def _replace(*arguments: Any, **options: Any) -> None:
    """Once more where the one to be shut out commits at the same time; it commits once a table, then merges it."""
    for _ in range(2):
        try:
            replace_files(*arguments, **options)
            return
        except Fenced:
            raise
        except CommitLost:
            continue
    replace_files(*arguments, **options)


def _mark(warehouse: Warehouse, pipeline: str, table: str, epoch: int) -> int | None:
    path = warehouse.pipeline(pipeline).table(table)
    return transaction_version(path, f"{pipeline}/{table}/{epoch}")


def _utc(time_ms: int) -> str:
    return f"{dt.datetime.fromtimestamp(time_ms // 1000, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
