"""Branches: pipelines that begin with another one's past, without a copy of it.

Owns the registry `<warehouse>/branches`, a row an event, the newest of a name counting. Rule: a branch is registered,
and so its parent's versions pinned, before it has a ledger. Its ledger begins with a done row of the fork's increment,
whose `bases` say where its rows up to there are. Its own rows are in its own folder, so a branch costs what it changes.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from ...state.errors import ConfigError, LedgerConflict
from ...state.tables.branch_files import bases_of
from ...state.tables.commit import append_row, create_table
from ...state.tables.data_files import live_files, open_table, read_rows
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import Bases, DoneRow
from ...state.tables.object_stores import delete_folder, has_folder
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from ..code_changes.state_migration import take_over
from ..history.committed_tables import done_row
from ..replay.unfinished import drop_command, promote_command
from ..topology.topology import Topology

BRANCHES_SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),
        ("name", pa.string()),
        ("parent", pa.string()),
        ("increment", pa.int64()),
        ("bases", pa.string()),
        ("status", pa.string()),
        ("written_at_ms", pa.int64()),
    ]
)
"""`increment`: of the parent, with which it begins; `bases`: JSON, as in the ledger; `status`: open or dropped."""

_OPEN, _DROPPED = "open", "dropped"


@dataclass(frozen=True)
class Branch:
    """An open branch. ``bases``: table → (pipeline, Delta version) of what it reads through to."""

    name: str
    parent: str
    increment: int
    bases: Bases
    written_at_ms: int


def branches(warehouse: Warehouse) -> dict[str, Branch]:
    """Open branches by name, in the order in which they were forked."""
    newest = {row["name"]: row for row in _events(warehouse)}
    return {
        name: Branch(name, row["parent"], row["increment"], json.loads(row["bases"]), row["written_at_ms"])
        for name, row in sorted(newest.items(), key=lambda each: each[1]["sequence"])
        if row["status"] == _OPEN
    }


def branch_of(warehouse: Warehouse, name: str) -> Branch:
    """The open branch ``name``. ConfigError when there is none."""
    open_branches = branches(warehouse)
    if name not in open_branches:
        known = ", ".join(open_branches) or "none at all"
        raise ConfigError(
            f"branch {name!r}", "a branch that was forked", f"open ones: {known}", "see `replay branches`"
        )
    return open_branches[name]


def pinned_versions(warehouse: Warehouse, pipeline: str) -> dict[str, set[int]]:
    """Versions of the pipeline's tables that open branches read, by table."""
    pinned: dict[str, set[int]] = {}
    for branch in branches(warehouse).values():
        for table, parts in branch.bases.items():
            for name, version in parts:
                if name == pipeline:
                    pinned.setdefault(table, set()).add(version)
    return pinned


def unpin(warehouse: Warehouse, name: str, *, clock_ms: Callable[[], int] = now_ms) -> None:
    """Say that the open branch ``name`` has all its rows itself, so that it needs none of its parents' files."""
    branch = branch_of(warehouse, name)
    if branch.bases:
        _enter(warehouse, replace(branch, bases={}, written_at_ms=clock_ms()), _OPEN)


def fork(
    warehouse: Warehouse,
    pipeline: str,
    increment: int,
    name: str,
    *,
    topology: Topology | None = None,
    clock_ms: Callable[[], int] = now_ms,
) -> LedgerRow[DoneRow]:
    """Begin the branch ``name`` with what ``pipeline`` was after ``increment`` (0: with nothing); return its first row.

    ``topology``: the changed code that it will be replayed with. One that died is begun again. Raises ConfigError for a
    name that is taken, CodeChanged for a topology that cannot continue from the state, LedgerError for an increment
    that is not done.
    """
    row = None if increment == 0 else done_row(warehouse, pipeline, increment)
    base = DoneRow() if row is None else row.content
    if topology is not None:
        take_over(pipeline, row, topology)
    first = replace(base, versions={}, bases=bases_of(pipeline, base))
    return begin(warehouse, pipeline, increment, name, first, after=row, clock_ms=clock_ms)


def begin(
    warehouse: Warehouse,
    pipeline: str,
    increment: int,
    name: str,
    first: DoneRow,
    *,
    after: LedgerRow[DoneRow] | None,
    clock_ms: Callable[[], int] = now_ms,
) -> LedgerRow[DoneRow]:
    """Begin the branch ``name`` of ``pipeline`` with the row ``first`` as its increment ``increment``, and return it.

    ``first``: with ``bases`` to pin, and without tables of its own; ``after``: the parent's row of that increment, None
    for 0. Raises as ``fork``.
    """
    if name.startswith("-"):
        expected = "a name that no command takes for an option"
        raise ConfigError(f"branch {name!r}", expected, "one that begins with '-'", "choose another")
    bases = first.bases or {}
    ledger = Ledger(warehouse.pipeline(name).ledger)
    parent = Ledger(warehouse.pipeline(pipeline).ledger)
    last = parent.last_done()
    if last is None:
        done_row(warehouse, pipeline)  # says that there is nothing to fork from
    assert last is not None
    known = branches(warehouse).get(name)
    # A fork that died between its entry in the registry and the first row of its ledger continues under that entry.
    if known is None or (known.parent, known.increment) != (pipeline, increment) or ledger.rows():
        if known is not None or has_folder(warehouse.pipeline(name).root):
            raise _name_is_taken(warehouse, name, ledger.last_done())
        _enter(warehouse, Branch(name, pipeline, increment, bases, clock_ms()), _OPEN)
    if increment > 0:
        parent.refuse_vacuumed(increment)  # once more: vacuum may have looked before the branch was in the registry
    first = replace(
        first,
        forked={"pipeline": pipeline, "increment": increment},
        kind=None,
        restates=None,
        branch=None,
        branch_increment=None,
        erased=None,
        bootstrap=None,
        kafka_version=last.content.kafka_version if after is None else first.kafka_version,
    )
    epoch = (last if after is None else after).epoch + 1
    return ledger.begin(increment, first, epoch=epoch, written_at_ms=clock_ms())


def _name_is_taken(warehouse: Warehouse, name: str, last: LedgerRow[DoneRow] | None) -> ConfigError:
    """What has the name; of what a death has left, the command that takes it away."""
    is_left = any(row["name"] == name for row in _events(warehouse)) and (
        last is None or name not in branches(warehouse)
    )
    is_half = last is not None and last.content.backfill is not None and not last.content.is_whole_backfill
    if not (is_left or is_half):
        return ConfigError(f"branch {name!r}", "a name that is free", "a pipeline of that name", "choose another")
    got = "a backfill that was killed, or is at work" if is_half else "what a killed command has left of a branch"
    return ConfigError(
        f"branch {name!r}", "a name that is free", got,
        f"if nobody is at it: `{drop_command(warehouse, name)}`, then give the command again",
    )  # fmt: skip


def drop(warehouse: Warehouse, name: str, *, clock_ms: Callable[[], int] = now_ms) -> None:
    """Take the branch out of the registry and delete its folder. One that died is finished by dropping again.

    Raises ConfigError for a name that is no branch, or while another branch is based on it, or while it is promoted.
    """
    events = [row for row in _events(warehouse) if row["name"] == name]
    open_now = branches(warehouse)
    if name in open_now:
        _refuse_in_use(warehouse, open_now, open_now[name])
        _enter(warehouse, Branch(name, open_now[name].parent, open_now[name].increment, {}, clock_ms()), _DROPPED)
    # Dropped in the registry, and its folder is still there: that drop died before the deletion, which follows here.
    elif not events or not has_folder(warehouse.pipeline(name).root):
        branch_of(warehouse, name)  # says which there are
    delete_folder(warehouse.pipeline(name).root)


def _refuse_in_use(warehouse: Warehouse, known: dict[str, Branch], branch: Branch) -> None:
    name = branch.name
    above = [other.name for other in known.values() if other.parent == name or _is_based_on(other, name)]
    if above:
        raise ConfigError(
            f"branch {name!r}", "no branch that is based on it", ", ".join(above),
            "drop those first; one whose rows are wanted is promoted before",
        )  # fmt: skip
    pending = Ledger(warehouse.pipeline(branch.parent).ledger).pending()
    if pending is not None and pending.content.branch == name:
        raise ConfigError(
            f"branch {name!r}",
            "no promote under way",
            f"increment {pending.increment} of {branch.parent}, which is not done",
            f"finish it: `{promote_command(warehouse, name)}`",
        )


def _is_based_on(branch: Branch, name: str) -> bool:
    return any(part[0] == name for parts in branch.bases.values() for part in parts)


def _events(warehouse: Warehouse) -> list[dict[str, Any]]:
    """Rows of the registry, in order."""
    table = open_table(warehouse.branches)
    if table is None:
        return []
    rows: list[dict[str, Any]] = read_rows(warehouse.branches, live_files(table), BRANCHES_SCHEMA).to_pylist()
    return sorted(rows, key=lambda row: row["sequence"])


def _enter(warehouse: Warehouse, branch: Branch, status: str) -> None:
    """Append an event. LedgerConflict when another process changed the registry at the same time."""
    table = create_table(warehouse.branches, BRANCHES_SCHEMA)
    # The sequence is the mark of the commit too: of two processes that have read the same rows, Delta refuses the
    # second.
    sequence = max((row["sequence"] for row in _events(warehouse)), default=0) + 1
    cells = sequence, branch.name, branch.parent, branch.increment, json.dumps(branch.bases), status
    columns = [
        pa.array([cell], f.type) for cell, f in zip((*cells, branch.written_at_ms), BRANCHES_SCHEMA, strict=True)
    ]
    try:
        append_row(table, warehouse.branches, pa.table(columns, BRANCHES_SCHEMA), app_id="branches", increment=sequence)
    except CommitFailedError as error:
        raise LedgerConflict(
            warehouse.branches, "nobody else at the registry", "another change of it", "run the command again"
        ) from error
