"""Promotion: what a branch has made takes the place of what its parent made since the fork, in one step.

Owns the conditions. Rule: nobody loses what was read: the branch must have read as far as its parent; and the parent's
tables keep their columns. The step itself is a restatement (`jobs/branches/restatement.py`): killed anywhere, it is
finished by promoting again, from the same increment of the branch.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ...state.errors import ConfigError, LedgerError
from ...state.tables.commit import open_table
from ...state.tables.data_files import StorageOptions, read_files
from ...state.tables.ledger import PLANNED, Ledger, LedgerRow
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from ..history.committed_tables import done_row
from ..replay.unfinished import refuse_pending, unfinished
from .branches import Branch, branch_of
from .restatement import OnStep, Source, content_at, finish, in_force, plan_restatement


def promote(
    warehouse: Warehouse,
    name: str,
    *,
    on_step: OnStep = lambda step: None,
    clock_ms: Callable[[], int] = now_ms,
) -> LedgerRow:
    """Swap the branch ``name`` into its parent; return the parent's done row. Nothing is written if that has been done.

    Raises LedgerError while one of both has an unfinished increment, or the parent has read further than the branch;
    ConfigError when a table that has rows from before the fork has other columns in the branch.
    """
    branch = branch_of(warehouse, name)
    ledger = Ledger(warehouse.pipeline(branch.parent).ledger, warehouse.storage_options)
    pending, last = ledger.pending(), ledger.last_done()
    assert last is not None, f"{branch.parent}: was forked, so something is done"
    if pending is None or pending.content.get("branch") != name:
        _refuse_unfinished(branch.parent, pending)
        row = done_row(warehouse, name)
        if _is_promoted(last, name, row.increment):
            return last
        pending = _plan(warehouse, branch, ledger, last, row, clock_ms)
    return _finish(warehouse, branch, pending, on_step, clock_ms)


def _is_promoted(last: LedgerRow, name: str, increment: int) -> bool:
    """Whether the parent's last increment is this very promotion."""
    return (last.content.get("branch"), last.content.get("branch_increment")) == (name, increment)


def _plan(
    warehouse: Warehouse,
    branch: Branch,
    ledger: Ledger,
    last: LedgerRow,
    row: LedgerRow,
    clock_ms: Callable[[], int],
) -> LedgerRow:
    own = Ledger(warehouse.pipeline(branch.name).ledger, warehouse.storage_options)
    _refuse_unfinished(branch.name, own.pending())
    _refuse_behind(branch, last.content.get("cut_to", {}), row.content.get("cut_to", {}))
    base = content_at(warehouse, branch.parent, branch.increment)
    _refuse_other_columns(warehouse, branch, base, row.content)
    brought = _brought(own, row.increment)
    plans = {each.increment: each.content for each in own.rows() if each.phase == PLANNED}
    started: Mapping[str, Mapping[str, int]] = base.get("cut_to", {})
    content = {
        "kind": "promote",
        "branch": branch.name,
        "branch_increment": row.increment,
        "restates": branch.increment,
        "topology": row.content.get("topology"),
        "cut_from": {
            topic: {p: started.get(topic, {}).get(p, 0) for p in cut} for topic, cut in row.content["cut_to"].items()
        },
        "cut_to": row.content["cut_to"],
        "records": sum(each.content["books"]["read"] for each in brought),
        "waiting": plans.get(row.increment, {}).get("waiting", 0),
        "partitions": row.content.get("partitions", {}),
    }
    return plan_restatement(ledger, warehouse, content, row.increment, clock_ms)


def _brought(own: Ledger, increment: int) -> list[LedgerRow]:
    """Done rows of the branch's own increments that count."""
    return [row for row in in_force(own.done_rows(highest=increment)) if "forked" not in row.content]


def _finish(
    warehouse: Warehouse, branch: Branch, planned: LedgerRow, on_step: OnStep, clock_ms: Callable[[], int]
) -> LedgerRow:
    own = Ledger(warehouse.pipeline(branch.name).ledger, warehouse.storage_options)
    increment = planned.content["branch_increment"]
    content = content_at(warehouse, branch.name, increment)
    source = Source(warehouse.pipeline(branch.name).root, branch.name, content.get("versions", {}), content)
    return finish(warehouse, branch.parent, planned, _brought(own, increment), source, on_step, clock_ms)


def _refuse_unfinished(pipeline: str, pending: LedgerRow | None) -> None:
    refuse_pending(pipeline, pending)
    if pending is not None:
        raise unfinished(pipeline, pending, f"finish it first: `replay run … --pipeline {pipeline}`")


def _refuse_behind(branch: Branch, parent: Mapping[str, Any], cut: Mapping[str, Any]) -> None:
    """LedgerError when the parent has read records that the branch has not."""
    behind = [
        f"{topic}-{partition} at {cut.get(topic, {}).get(partition, 0)}, {branch.parent} at {end}"
        for topic, ends in parent.items()
        for partition, end in ends.items()
        if cut.get(topic, {}).get(partition, 0) < end
    ]
    if behind:
        raise LedgerError(
            f"branch {branch.name!r}",
            f"to have read as far as {branch.parent}",
            "; ".join(behind),
            f"let it catch up: `replay run … --pipeline {branch.name}`, then promote it",
        )


def _refuse_other_columns(
    warehouse: Warehouse, branch: Branch, base: Mapping[str, Any], content: Mapping[str, Any]
) -> None:
    """ConfigError for a table whose columns the parent cannot take over.

    A store may change when nothing of before the fork stays; an output never, since its readers have read it.
    """
    options = warehouse.storage_options
    for table, version in content.get("versions", {}).items():
        path = warehouse.pipeline(branch.parent).table(table)
        wanted = _column_types(warehouse.pipeline(branch.name).table(table), version, options)
        there = _column_types(path, None, options)
        before = base.get("versions", {}).get(table)
        stays = before is not None and read_files(path, version=before, storage_options=options)
        if there is not None and wanted != there and (stays or not table.startswith("state/")):
            raise ConfigError(
                f"{branch.name}/{table}",
                f"the columns that {branch.parent} has",
                ", ".join(sorted(name for name, _ in (wanted or set()) ^ there)),
                "give the output or store another name in the changed topology",
            )


def _column_types(path: str, version: int | None, options: StorageOptions) -> set[tuple[str, str]] | None:
    table = open_table(path, version=version, storage_options=options)
    return None if table is None else {(field.name, str(field.type)) for field in table.schema().fields}
