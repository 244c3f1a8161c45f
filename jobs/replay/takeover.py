"""Corrected code in the place of code that could not do the increment it had planned.

Rule: it may take over where no table has anything of that increment, by every Delta log; no plan row is changed, the
new one has a higher number and another epoch. Then whoever is still at work under the old epoch is shut out of every
table, of those that are not there yet too: each is made what it was after the last done increment, and marked with the
new number under the old epoch, in one transaction.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from ...state.errors import CodeChanged, CommitLost
from ...state.tables.branch_files import existing_tables
from ...state.tables.commit import open_table, read_files, replace_files, transaction_version
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import PlanRow
from ...state.tables.names import LEDGER, RETRACTIONS, TableName
from ...state.tables.warehouse import Warehouse
from ..code_changes.state_migration import CodeChange, check_pending
from ..execution.table_schemas import table_schema
from ..topology.topology import Topology
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
    while any(_mark(warehouse, pipeline, table, epoch) is not None for table in tables):
        epoch += 1
    return epoch


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
    refuse_pending(pipeline, pending)
    try:
        check_pending(pending, topology, change, pipeline)
    except CodeChanged as refusal:
        started = tables_with(warehouse, pipeline, pending)
        if not started:
            return refusal
        next_step = (
            f"{', '.join(started)} committed it already: run it to its end with that code, or give it up with "
            f"`replay restore --pipeline {pipeline} --to {last} --abandon`"
        )
        raise CodeChanged(refusal.place, refusal.expected, refusal.got, next_step) from refusal
    return None


def shut_out(
    warehouse: Warehouse,
    pipeline: str,
    topology: Topology,
    tables: Iterable[str],
    versions: Mapping[str, int],
    *,
    epoch: int,
    given_up: Mapping[str, Any],
    increment: int,
    written_at_ms: int,
) -> None:
    """Make every table what it was at ``versions`` (not named: empty), and refuse the epoch that was ``given_up`` from
    now on. ``tables``: of the topology; ``increment`` and ``epoch``: of the plan that takes over. Done again it changes
    nothing.
    """
    own, options = warehouse.pipeline(pipeline), warehouse.storage_options
    of_topology = list(tables)
    for table in dict.fromkeys([*committed_tables(warehouse, pipeline), *of_topology]):
        path, version = own.table(table), versions.get(table)
        stay = [] if version is None else read_files(path, version=version, storage_options=options)
        if table in of_topology:
            schema = table_schema(topology, table)
        else:
            there = open_table(path, storage_options=options)
            assert there is not None, f"{path}: is there, and cannot be opened"
            schema = pa.schema(there.schema().to_arrow())
        _replace(
            path,
            schema,
            stay,
            app_id=f"{pipeline}/{table}/{epoch}/takes-over",
            fenced=f"{pipeline}/{table}/{given_up['epoch']}",
            increment=increment,
            written_at_ms=written_at_ms,
            storage_options=options,
        )


def _replace(*arguments: Any, **options: Any) -> None:
    """Once more where the one to be shut out commits at that moment; it commits once a table, then merges it."""
    for _ in range(2):
        try:
            replace_files(*arguments, **options)
            return
        except CommitLost as error:
            if "expected no increment after" in str(error):
                raise
    replace_files(*arguments, **options)


def _mark(warehouse: Warehouse, pipeline: str, table: str, epoch: int) -> int | None:
    path = warehouse.pipeline(pipeline).table(table)
    return transaction_version(path, f"{pipeline}/{table}/{epoch}", storage_options=warehouse.storage_options)
