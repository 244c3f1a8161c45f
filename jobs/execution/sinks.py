"""Where a task's rows go: to files that a commit will name, to memory, or nowhere.

Owns the way from rows to what is kept of them. Rule: a task hands every row of a table to its sink, in order, and does
not know what becomes of it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from ...state.tables.data_files import DataFile, without_partition
from ...state.tables.names import REPARTITION, TableName
from ...state.tables.parquet_writer import TaskFile, stored_as
from ..topology.topology import Topology
from .kept_range import CAUSE, NO_CAUSE, KeptRange
from .table_schemas import table_schema
from .task_description import TaskDescription
from .task_stores import TaskState


class Sink(Protocol):
    """Takes what one task leaves; ``table`` is a name of the ledger ("outputs/x", "dropped", …)."""

    def write(self, table: str, rows: pa.Table) -> None:
        """Take rows of a table, with its columns but ``partition`` and ``increment``."""

    def write_state(self, state: TaskState) -> tuple[dict[str, DataFile], dict[str, list[DataFile]]]:
        """Take what changed in the stores; new files by table, and those whose rows went into them."""

    def close(self) -> dict[str, DataFile]:
        """Files of what ``write`` took, by table; no file without rows."""


class FileSink:
    """One file a table in the pipeline's folders, which nobody sees until the driver commits it."""

    def __init__(self, topology: Topology, description: TaskDescription) -> None:
        self._topology, self._description = topology, description
        self._tables = description.warehouse.pipeline(description.pipeline)
        self._files: dict[str, TaskFile] = {}
        self._name = f"{description.increment:08d}-{description.id}"

    def write(self, table: str, rows: pa.Table) -> None:
        """As ``Sink``; adds the increment, and stores columns in the order of the table."""
        stored = without_partition(table_schema(self._topology, table))
        rows = rows.append_column("increment", pa.array(np.full(len(rows), self._description.increment)))
        if table not in self._files:
            path = self._tables.table(table)
            self._files[table] = TaskFile(path, partition=self._description.partition, name=self._name)
        self._files[table].write(stored_as(rows, stored))

    def write_state(self, state: TaskState) -> tuple[dict[str, DataFile], dict[str, list[DataFile]]]:
        """As ``Sink``."""
        return state.write(self._description.increment, self._name)

    def close(self) -> dict[str, DataFile]:
        """As ``Sink``."""
        closed = {table: file.close() for table, file in self._files.items()}
        return {table: file for table, file in closed.items() if file is not None}


@dataclass(frozen=True)
class RangeSink:
    """Before another sink: of a backfill's rows it hands on those of its range, and all state."""

    sink: Sink
    kept: KeptRange

    def write(self, table: str, rows: pa.Table) -> None:
        """As ``Sink``. A repartition table gets nothing, since its offsets would be of a table that nobody has."""
        if self.kept.range is None or TableName(table).kind == REPARTITION:
            return
        rows = rows.filter(self.kept.range.has(rows))
        if table in self.kept.without_cause:
            at, none = rows.schema.get_field_index(CAUSE), pa.array(np.full(len(rows), NO_CAUSE, np.int64))
            rows = rows.set_column(at, CAUSE, none)
        self.sink.write(table, rows)

    def write_state(self, state: TaskState) -> tuple[dict[str, DataFile], dict[str, list[DataFile]]]:
        """As ``Sink``."""
        return self.sink.write_state(state)

    def close(self) -> dict[str, DataFile]:
        """As ``Sink``."""
        return self.sink.close()


class NoSink:
    """Keeps nothing."""

    def write(self, table: str, rows: pa.Table) -> None:
        """As ``Sink``."""

    def write_state(self, state: TaskState) -> tuple[dict[str, DataFile], dict[str, list[DataFile]]]:
        """As ``Sink``; stores are left as they are."""
        return {}, {}

    def close(self) -> dict[str, DataFile]:
        """As ``Sink``."""
        return {}


class MemorySink(NoSink):
    """Keeps rows in memory as a table would have them, without ``partition`` and ``increment``; no state. ``kinds``: of
    tables of these alone (state/tables/names.py; None: of all).
    """

    def __init__(self, topology: Topology, kinds: Collection[str] | None = None) -> None:
        self._topology, self._kinds = topology, kinds
        self.written: dict[str, list[pa.Table]] = {}
        """By table."""

    def write(self, table: str, rows: pa.Table) -> None:
        """As ``Sink``."""
        if not len(rows) or (self._kinds is not None and TableName(table).kind not in self._kinds):
            return
        fields = [field for field in table_schema(self._topology, table) if field.name in rows.column_names]
        schema = pa.schema(fields)
        self.written.setdefault(table, []).append(stored_as(rows, schema).cast(schema))


def sink_of(topology: Topology, description: TaskDescription) -> Sink:
    """Of a task whose increment is committed."""
    files = FileSink(topology, description)
    return files if description.kept is None else RangeSink(files, description.kept)
