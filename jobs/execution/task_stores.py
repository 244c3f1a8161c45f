"""The stores of one task in one increment: what is loaded before its records, and what is written after them.

Owns which rows are loaded, and the files of changed rows. Rule: a task loads the rows whose keys the tape has, and
those whose timer fires up to the largest time that it can reach. It loads all rows where that is cheaper, or where an
operator may need any. The stores of a processor look up their rows themselves (state/runs/stored_rows.py). An increment
writes one file a store, into which the newest runs are merged that are not much longer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.records.keys import canonical_bytes
from ...state.runs.local_copies import StateFile, forget_others
from ...state.runs.sorted_runs import key_hashes
from ...state.runs.stored_rows import StoredRows
from ...state.serdes import Serde
from ...state.tables.data_files import DataFile
from ...state.tables.names import TableName
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.task_entry import TaskEntry
from ...state.tables.warehouse import PipelineTables
from ...state.times import UNBOUNDED
from ..tape.task_tape import TaskTape
from ..task.task import Task
from ..topology.topology import Topology
from .store_files import Hashes, StoreFiles, may_ask_for_any

if TYPE_CHECKING:
    from ..operators.base.operator import StatefulOperator

ALL_BELOW_ROWS = 20_000
"""A store with so few rows is loaded whole."""

ALL_BELOW_SHARE = 4
"""So is one with at most so many rows a record of the tape."""


@dataclass(frozen=True, slots=True)
class ImportedStore:
    """A store that an earlier part of the same sub-topology keeps, as of the increment before."""

    sub_topology: int
    store: str
    files: tuple[StateFile, ...]
    counters: dict[str, int]


class TaskState:
    """``files``: of the task's partition, by store, oldest first; ``cache``: directory of warm copies, or None."""

    def __init__(
        self,
        task: Task,
        topology: Topology,
        files: Mapping[str, tuple[StateFile, ...]],
        tables: PipelineTables,
        cache: str | None,
    ) -> None:
        self.task, self.topology, self.tables, self.cache = task, topology, tables, cache
        self._stored = {
            store: StoreFiles(operator, files.get(store, ()), cache) for store, operator in task.stores.items()
        }
        self._any_row = may_ask_for_any(topology.graph, task.sub_topology)

    def _touched(self, tape: TaskTape, before: TaskEntry) -> Hashes:
        """Of the keys on ``tape``, and of those with rows whose timer fires before its end, in any store, since their
        results go to the other stores. A recorded time asks for all that waits, which holds back the
        time that a node forwards (``Operator.propagated_time_ms``). ``before``: the task's entry of the last done row.
        """
        until = max(before.stream_time_ms, before.tape_time_ms)
        hashes = [np.zeros(0, np.uint64)]
        for source, keys, times in tape.keys_and_times():
            hashes.append(np.unique(_hashes_of(self.task.sources[source].shape.key, keys)))
            until = int(times.max(initial=until))
        counters, up_to = before.counters, None if tape.has_advances else until
        hashes += [rows.due(counters.get(store, {}), up_to) for store, rows in self._stored.items()]
        return np.unique(np.concatenate(hashes))

    def load(
        self, tape: TaskTape, records: int, before: TaskEntry, imported: Mapping[str, ImportedStore]
    ) -> tuple[dict[str, pa.Table | StoredRows], dict[str, pa.Table]]:
        """Live rows that ``records`` of ``tape`` need, by store, or stored rows where the operator finds them, and what
        ``imported`` stores showed when the increment before was done, by node. ``before``: the task's entry of the last
        done row.
        """
        counters = before.counters
        others = {node: self._earlier(store) for node, store in imported.items()}
        lengths = {store: len(rows) for store, rows in self._stored.items() if self._is_looked_up(store)}
        few = max(ALL_BELOW_ROWS, ALL_BELOW_SHARE * records)
        is_large = max([*lengths.values(), *(len(rows) for rows in others.values())], default=0) > few
        if tape.has_restarts:  # what a store has lost in all its segments is found out then
            is_large, few = False, UNBOUNDED
        # This hashes all keys of the tape, which is worth it only where it spares rows of a large store.
        hashes = self._touched(tape, before) if is_large else None
        rows: dict[str, pa.Table | StoredRows] = {
            store: rows.stored()
            if self.task.stores[store].finds_rows
            else rows.load(
                counters.get(store, {}), hashes if lengths.get(store, 0) > few else None, restarts=tape.has_restarts
            )
            for store, rows in self._stored.items()
        }
        shown = {}
        for node, other in others.items():
            loaded = other.load(imported[node].counters, hashes if len(other) > few else None)
            other.operator.resume(loaded, imported[node].counters)
            shown[node] = other.operator.contents()
        return rows, shown

    def _is_looked_up(self, store: str) -> bool:
        operator = self.task.stores[store]
        return not (operator.needs_all or operator.finds_rows) and store not in self._any_row

    def _earlier(self, imported: ImportedStore) -> StoreFiles:
        """Rows of a store that an earlier part of the sub-topology keeps."""
        earlier = Task(self.topology, self.topology.sub_topology(imported.sub_topology), self.task.partition)
        return StoreFiles(earlier.stores[imported.store], imported.files, self.cache)

    def write(self, increment: int, name: str) -> tuple[dict[str, DataFile], dict[str, list[DataFile]]]:
        """Write the rows that changed; the new files by table ("state/x"), and those whose rows went into them. Files
        begin with ``name``.
        """
        written: dict[str, DataFile] = {}
        removed: dict[str, list[DataFile]] = {}
        for store, operator in self.task.stores.items():
            changes = operator.changes()
            if len(changes):
                changes = changes.append_column("increment", pa.array(np.full(len(changes), increment)))
                file, absorbed = self._write(store, operator, changes, name)
                removed[TableName.state(store)] = absorbed
                if file is not None:
                    written[TableName.state(store)] = file
        return written, removed

    def _write(
        self, store: str, operator: "StatefulOperator", changes: pa.Table, name: str
    ) -> tuple[DataFile | None, list[DataFile]]:
        path, stored = self.tables.state(store), self._stored[store]
        columns = [pa.field("increment", pa.int64()), pa.field("deleted", pa.bool_()), *operator.rows_schema()]
        absorbed, pieces = stored.with_changes(changes, path, operator.counters())
        to_delta, to_cache = TaskFile(path, partition=self.task.partition, name=name), stored.writer(path)
        for piece in pieces:
            to_delta.write(piece.select([column.name for column in columns]).cast(pa.schema(columns)))
            if to_cache is not None:
                to_cache.write(piece)
        file = to_delta.close()
        if to_cache is not None and self.cache is not None:
            to_cache.close(file)
            # Files that were merged into the new one are kept, too: they are live until the increment
            # is committed, and a run that repeats it reads them.
            known = [state_file.file for state_file in stored.files if state_file.table == path]
            forget_others(self.cache, path, self.task.partition, [*known, *([] if file is None else [file])])
        return file, [state_file.file for state_file in absorbed]


def of_partition(files: list[StateFile], partition: int) -> tuple[StateFile, ...]:
    """Those of ``files`` that hold rows of ``partition``."""
    return tuple(state_file for state_file in files if state_file.file.partition == partition)


def _hashes_of(serde: Serde, keys: pa.Array) -> np.ndarray:
    """Of all keys, in the form in which stores have them; each different one is brought into it once."""
    if isinstance(keys, pa.DictionaryArray):
        keys = keys.dictionary
    elif not serde.codec.is_canonical:
        keys = pc.unique(keys)
    return key_hashes(canonical_bytes(serde, keys))
