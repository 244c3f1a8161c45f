"""The tables that an increment commits: which there are, their files as of a done row, and their transactions.

Rule: state first, so that outputs never outrun it; one transaction a table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...state.runs.local_copies import StateFile
from ...state.tables.branch_files import table_files
from ...state.tables.commit import commit_files, settle
from ...state.tables.compaction import compact
from ...state.tables.data_files import DataFile, OpenTables, oldest_first, open_table
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import DEAD_LETTER, DROPPED, STATE, TableName
from ...state.tables.warehouse import PipelineTables, Warehouse
from ..execution.table_schemas import table_schema
from ..execution.task_description import TaskReport
from ..topology.topology import Topology
from .run_settings import OnStep


def written_tables(topology: Topology, tables: PipelineTables) -> dict[str, str]:
    """Path of every table that an increment of ``topology`` commits, by name, in the order of their transactions."""
    paths: dict[str, str] = {TableName.state(store): tables.state(store) for store in topology.stores()}
    for sub in topology.sub_topologies:
        for node in sub.repartitions:
            paths[TableName.repartition(node.topic)] = tables.repartition(node.topic)
    paths |= {DROPPED: tables.dropped, DEAD_LETTER: tables.dead_letter}
    return paths | {TableName.output(sink.topic): tables.output(sink.topic) for sink in topology.sinks()}


def state_files(
    warehouse: Warehouse, pipeline: str, topology: Topology, done: DoneRow, opened: OpenTables
) -> dict[str, list[DataFile]]:
    """Files of every store as of a done row, whatever was half written since."""
    stores = topology.stores()
    return {store: table_files(warehouse, pipeline, done, TableName.state(store), opened) for store in stores}


def placed(files: Mapping[str, Sequence[DataFile]], tables: PipelineTables) -> dict[str, list[StateFile]]:
    """Files of stores, oldest first, each with the table that it lies in: its own, or of an earlier branch."""
    return {
        store: [StateFile(file.root or tables.state(store), file) for file in oldest_first(each)]
        for store, each in files.items()
    }


def new_files(reports: Iterable[TaskReport], table: str) -> list[DataFile]:
    """What tasks wrote to a table."""
    return [DataFile.from_dict(file) for report in reports for file in report.files.get(table, [])]


def removed_files(reports: Iterable[TaskReport], table: str) -> list[DataFile]:
    """Files of a table whose rows are in those that tasks wrote."""
    return [DataFile.from_dict(file) for report in reports for file in report.removed.get(table, [])]


@dataclass(frozen=True)
class Transactions:
    """Of one increment. ``opened``: tables that are open already, kept up to date."""

    warehouse: Warehouse
    pipeline: str
    topology: Topology
    increment: int
    epoch: int
    on_step: OnStep
    opened: OpenTables

    def commit(
        self, versions: Mapping[str, int], reports: Sequence[TaskReport], rewritten: Mapping[str, list[DataFile]]
    ) -> dict[str, int]:
        """Versions of all tables after it, those that the topology has no more included (``versions``: before it). A
        table that is there and gets nothing is left alone. ``rewritten``: tables with all the rows they will have.
        """
        committed = dict(versions)
        for table, path in written_tables(self.topology, self.warehouse.pipeline(self.pipeline)).items():
            files, removed = new_files(reports, table), removed_files(reports, table)
            app_id = f"{self.pipeline}/{table}/{self.epoch}"
            # A table without a version in the ledger is committed though it gets nothing: readers ask for the versions
            # that the done row names.
            if files or removed or table in rewritten or table not in committed:
                committed[table] = commit_files(
                    path,
                    table_schema(self.topology, table),
                    rewritten.get(table, []) + files,
                    app_id=app_id,
                    increment=self.increment,
                    removed=removed,
                    may_grow=True,
                    replaces=table in rewritten,
                    opened=self.opened,
                    since=versions.get(table, -1),
                )
            # Files of stores are sorted runs, which tasks merge by row key (state/runs/sorted_runs.py): put side by
            # side they would be no run.
            if TableName(table).kind != STATE:
                merged = compact(path, app_id=app_id, increment=self.increment, opened=self.opened)
                committed[table] = committed[table] if merged is None else self._settled(path, committed[table], merged)
            self.on_step(f"committed {table} {self.increment}")
        return committed

    def _settled(self, path: str, since: int, merged: int) -> int:
        """The version behind a merge, between which and ``since`` nobody else has committed."""
        if merged <= since + 1:
            return merged
        table = open_table(path, opened=self.opened)
        assert table is not None, f"{path}: merged, yet not there"
        return settle(table, path, since).version()
