"""Continuing under changed code: the verdict on it, the last done row carried over, and the migration that is due.

Owns what a replay does before its first increment when the topology is not the one that made the state. Rule: a change
that leaves rows meaningful continues and is written into the plan of the first increment under it; any other is
refused, with the differences and the options. A store that a function rewrites, or that is renamed, is rewritten by an
increment of its own that reads no records (``migrate`` in its plan), through the same commits as any other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import by_bits
from ...state.errors import CodeChanged, ConfigError, TaskFailed
from ...state.runs.sorted_runs import live_rows
from ...state.tables.data_files import DataFile, conformed
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow, PlanRow
from ...state.tables.names import TableName
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.warehouse import Warehouse
from ..history.committed_tables import read_table
from ..topology.topology import Topology
from .code_snapshot import code_snapshot
from .compatibility import Compatibility, StateRequests, compare
from .ledger_remapping import carried, forget_rows

Migration = Callable[[pa.Table], pa.Table]
"""Old rows of a store → its new ones. It gets ``partition`` and the store's columns from before, live rows of all
partitions in the order in which they were written, including expired ones. Its result has ``partition`` and the
current columns; those that are not in the row key may be missing (null).
"""


@dataclass(frozen=True)
class MigrationOptions:
    """What the user says of a change. ``migrate``: store → function; ``renamed``: store from before → of today, or
    None to let its rows go. A request that was fulfilled before does nothing, so that a command can be repeated.
    """

    migrate: Mapping[str, Migration] = field(default_factory=dict)
    renamed: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Rewrite:
    """A store's rows made again by ``function`` from those of the previous store, which ``row_key`` names."""

    store: str
    function: Migration
    row_key: tuple[str, ...]

    @property
    def function_name(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{getattr(self.function, '__module__', '')}:{name}"


@dataclass(frozen=True)
class CodeChange:
    """``previous``: the last done row as the current code would have left it. ``record``: what the next done
    rows keep of the code. ``rewrites``: by store of today; ``verdict`` None: nothing changed.
    """

    previous: DoneRow
    record: dict[str, Any]
    verdict: Compatibility | None = None
    rewrites: Mapping[str, Rewrite] = field(default_factory=dict)

    def changes(self) -> list[dict[str, Any]] | None:
        """For the plan of the first increment under the changed code."""
        return [change.record() for change in self.verdict.changes] if self.verdict and self.verdict.changes else None

    def migrate(self) -> dict[str, Any] | None:
        """For the plan of a migration; None when none is due."""
        if not self.rewrites:
            return None
        return {name: {"from": one.store, "function": one.function_name} for name, one in self.rewrites.items()}


def verdict_on(previous: DoneRow, topology: Topology, wanted: MigrationOptions | None = None) -> Compatibility:
    """The verdict on continuing from ``previous``, a done row that has a record of its code."""
    wanted = wanted or MigrationOptions()
    assert previous.code is not None
    requests = StateRequests(wanted.renamed, frozenset(wanted.migrate))
    return compare(previous.code, code_snapshot(topology), previous.partitions, requests)


def take_over(
    pipeline: str, last: LedgerRow[DoneRow] | None, topology: Topology, wanted: MigrationOptions | None = None
) -> CodeChange:
    """How ``topology`` continues from the done row ``last``. Raises CodeChanged when it must not."""
    wanted = wanted or MigrationOptions()
    unknown = sorted(set(wanted.migrate) - set(topology.stores()))
    if unknown:
        known = ", ".join(topology.stores())
        raise ConfigError("migrate", f"stores of the topology, {known}", ", ".join(unknown), "correct the name")
    now = code_snapshot(topology)
    if last is None:
        return CodeChange(DoneRow(), now)
    previous = last.content
    before = previous.code
    if before is None:
        _refuse_unrecorded(pipeline, previous, topology)
        return CodeChange(previous, now)
    if is_recorded_as(before, now):
        # Not the snapshot of today: the record from before also has the columns and tables that there have ever been
        # (`known`, `removed`, `next_offsets`), and the next done rows must keep that.
        return CodeChange(previous, before)
    verdict = verdict_on(previous, topology, wanted)
    if not verdict.goes_on:
        raise _refusal(pipeline, verdict)
    # A removed store that is back has its rows still in its table, so they may be migrated like any others.
    there = before["stores"] | before.get("removed", {}).get("stores", {})
    moved = {new: old for new, old in verdict.sources.items() if new != old}
    touched = {change.place for change in verdict.changes}
    # A store without a difference was migrated before, by the same command: its function must not get its own results.
    # One that is renamed as well takes the rows from the name before.
    asked = {name: name for name in wanted.migrate if name in there and f"store {name!r}" in touched} | moved
    rewrites = {
        name: Rewrite(old, wanted.migrate.get(name, keep), tuple(there[old]["row_key"])) for name, old in asked.items()
    }
    row = carried(previous, now, verdict.sources, last.increment)
    forget_rows(row, list(rewrites))
    return CodeChange(row, row.code or now, verdict, rewrites)


def keep(rows: pa.Table) -> pa.Table:
    """The rows as they are: the migration of a store that has only another name."""
    return rows


def check_pending(pending: LedgerRow[PlanRow], topology: Topology, change: CodeChange, pipeline: str) -> None:
    """Raises CodeChanged unless the planned increment is run again by the code, and the migration, that planned it."""
    place = f"pipeline {pipeline!r}, increment {pending.increment}"
    planned, now = pending.content.topology, topology.fingerprint
    if planned != now:
        next_step = "run it to its end with that code, then change the code"
        raise CodeChanged(place, f"the topology that it was planned for ({planned})", f"another one ({now})", next_step)
    if pending.content.migrate != change.migrate():
        wanted = pending.content.migrate or "none"
        raise CodeChanged(
            place, f"the migration that was planned, {wanted}", f"{change.migrate() or 'none'}", "give the same again"
        )


def migrated_files(
    warehouse: Warehouse, pipeline: str, increment: int, topology: Topology, change: CodeChange, *, before: int
) -> dict[str, list[DataFile]]:
    """The new rows of every store that is migrated, written and not yet visible, by table: a file a partition.
    ``before``: the increment that they come from.
    """
    migrated: dict[str, list[DataFile]] = {}
    for store, rewrite in change.rewrites.items():
        rows = read_table(warehouse, pipeline, TableName.state(rewrite.store), increment=before)
        rows = live_rows(rows, rewrite.row_key).drop_columns(["increment", "deleted"])
        row_key = change.record["stores"][store]["row_key"]
        made = _made(store, rewrite, rows, ["partition", *row_key], topology.state_schema(store))
        migrated[TableName.state(store)] = _written(warehouse.pipeline(pipeline).state(store), made, increment)
    return migrated


def _made(store: str, rewrite: Rewrite, rows: pa.Table, named: list[str], schema: pa.Schema) -> pa.Table:
    """What the function gives, in the current columns; ``named``: those that name a row. Raises TaskFailed when it
    fails, ConfigError when it gives what the store cannot take.
    """
    place = f"migration of store {store!r} by {rewrite.function_name}"
    try:
        rewritten = rewrite.function(rows)
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise TaskFailed(place, "the store's new rows", got, "correct the function") from error
    if not isinstance(rewritten, pa.Table):
        raise ConfigError(place, "a pyarrow Table", type(rewritten).__name__, "correct the function")
    columns = pa.schema([field for field in schema if field.name not in ("increment", "deleted")])
    missing = [name for name in named if name not in rewritten.column_names]
    unknown = [name for name in rewritten.column_names if name not in columns.names]
    if missing or unknown:
        expected = f"columns of {', '.join(columns.names)}, {', '.join(named)} among them"
        raise ConfigError(place, expected, ", ".join(rewritten.column_names), "correct the function")
    try:
        table = conformed(rewritten, columns)
    except pa.ArrowException as error:
        got = str(error).splitlines()[0]
        raise ConfigError(place, ", ".join(map(str, columns)), got, "cast the columns") from error
    # By polars: Arrow's group_by takes no struct or list as a key, which keys and ids may be.
    names = pl.from_arrow(by_bits(table.select(named)))
    assert isinstance(names, pl.DataFrame)
    if names.n_unique() < len(table):
        raise ConfigError(place, f"one row for each {', '.join(named)}", "several", "correct the function")
    return table


def _written(path: str, rows: pa.Table, increment: int) -> list[DataFile]:
    files = []
    for partition in sorted(pc.unique(rows["partition"]).to_pylist()):
        of_partition = rows.filter(pc.equal(rows["partition"], partition)).drop_columns(["partition"]).combine_chunks()
        n = len(of_partition)
        of_partition = of_partition.add_column(0, "increment", pa.array([increment] * n, pa.int64()))
        of_partition = of_partition.add_column(1, "deleted", pa.array([False] * n, pa.bool_()))
        file = TaskFile(path, partition=partition, name=f"{increment:08d}-migrated")
        file.write(of_partition)
        files.append(file.close())
    return [file for file in files if file is not None]


def _refusal(pipeline: str, verdict: Compatibility) -> CodeChanged:
    what = "; ".join(change.sentence() for change in verdict.refused)
    options = "two options: fork and replay from the start under another pipeline name"
    changed = {change.store: change for change in verdict.refused if change.what != "gone"}
    # A function makes rows of stores alone. Where an output, a repartition or the semantics differ as well (no store:
    # None), it would not help, and is not offered.
    if changed and all(changed):
        stores = ", ".join(f"{store!r}: function" for store in changed)
        options += f", or give a function that makes the new rows of the old, migrate={{{stores}}}"
    return CodeChanged(f"pipeline {pipeline!r}", "code that continues with its state", what, options)


def _refuse_unrecorded(pipeline: str, previous: DoneRow, topology: Topology) -> None:
    """A pipeline that begins again (restored to its start, forked from nothing) was made by no topology."""
    made_by = previous.topology
    if made_by not in (None, topology.fingerprint):
        raise CodeChanged(
            f"pipeline {pipeline!r}",
            f"the topology that made its state ({made_by}), of which it kept no record",
            f"another one ({topology.fingerprint})",
            "replay under another pipeline name, or go back to the previous topology",
        )


def is_recorded_as(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether ``before``, a record of the code from the ledger, is of the code whose snapshot is ``now``."""
    # Only the parts that a snapshot has are compared: `known`, `removed` and `next_offsets` are history, which
    # `carried` (ledger_remapping.py) puts in.
    stores = {name: {k: v for k, v in store.items() if k != "known"} for name, store in before["stores"].items()}
    return all((stores if name == "stores" else before.get(name)) == part for name, part in now.items())
