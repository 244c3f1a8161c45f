"""Reads a store as its operator would show it: not deleted, not expired, values as readers see them.

Rule: the operator itself says what its rows mean: it is resumed from the durable rows and the counters of the ledger.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from ...state.errors import ConfigError
from ...state.runs.local_copies import StateFile
from ...state.tables.branch_files import table_files
from ...state.tables.data_files import oldest_first
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TableName, TaskId
from ...state.tables.warehouse import Warehouse
from ..execution.store_files import StoreFiles
from ..operators.base.operator import StatefulOperator, StoreContents
from ..task.task import Task
from ..topology.topology import SubTopology, Topology
from .committed_tables import done_row


def read_store(
    warehouse: Warehouse, pipeline: str, topology: Topology, store: str, *, increment: int | None = None
) -> pa.Table:
    """Rows of ``store`` after ``increment`` (None: the last done one), by partition.

    Columns: partition, key, [window_start_ms, window_end_ms], value, record_time_ms, perhaps more of the store's own.
    Raises ConfigError for a store that the topology does not have, LedgerError for an increment that is not done.
    """
    sub = topology.sub_topology_of(store)
    if sub is None:
        known = ", ".join(topology.stores())
        raise ConfigError("store", f"one of {known}", repr(store), "name a store of the topology")
    return store_of(warehouse, pipeline, topology, store, done_row(warehouse, pipeline, increment).content)


def store_of(warehouse: Warehouse, pipeline: str, topology: Topology, store: str, done: DoneRow) -> pa.Table:
    """As ``read_store``, after the increment ``done``."""
    return store_in(topology, store, _state_files(warehouse, pipeline, store, done), done)


def _state_files(warehouse: Warehouse, pipeline: str, store: str, done: DoneRow) -> list[StateFile]:
    path = warehouse.pipeline(pipeline).state(store)
    files = oldest_first(table_files(warehouse, pipeline, done, TableName.state(store)))
    return [StateFile(file.root or path, file) for file in files]


def store_in(topology: Topology, store: str, files: Sequence[StateFile], done: DoneRow) -> pa.Table:
    """As ``store_of``, out of ``files``, oldest first."""
    sub = topology.sub_topology_of(store)
    assert sub is not None, f"{store} is a store of the topology"
    operator = Task(topology, sub).stores[store]
    # An empty piece comes first, so that there are columns where no partition has rows.
    operator.resume(operator.rows_schema().empty_table(), {})
    pieces = [operator.contents().add_column(0, "partition", pa.array([], pa.int32()))]
    pieces += [_of(partition, each.contents()) for partition, each in _resumed(topology, sub, store, files, done)]
    return pa.concat_tables(pieces)


def inner_stores_of(
    warehouse: Warehouse, pipeline: str, topology: Topology, store: str, done: DoneRow
) -> dict[str, StoreContents]:
    """Of a Python processor whose rows are in ``store``: by name what its stores show, as ``store_of``, with the
    partition. Those that no task has begun are left out.
    """
    sub = topology.sub_topology_of(store)
    assert sub is not None, f"{store} is a store of the topology"
    stores: dict[str, StoreContents] = {}
    files = _state_files(warehouse, pipeline, store, done)
    for partition, operator in _resumed(topology, sub, store, files, done):
        for name, inner in operator.inner_stores().items():
            contents = inner.contents()
            rows = _of(partition, contents.rows)
            before = [stores[name].rows] if name in stores else []
            stores[name] = replace(contents, rows=pa.concat_tables([*before, rows]))
    return stores


def _resumed(
    topology: Topology, sub: SubTopology, store: str, files: Sequence[StateFile], done: DoneRow
) -> Iterator[tuple[int, StatefulOperator]]:
    """The operator of each partition that has rows."""
    for partition in sorted({each.file.partition for each in files}):
        operator = Task(topology, sub, partition).stores[store]
        counters = done.task(TaskId(sub.id, partition)).counters[store]
        of_partition = [each for each in files if each.file.partition == partition]
        operator.resume(StoreFiles(operator, of_partition, None).load(counters), counters)
        yield partition, operator


def _of(partition: int, rows: pa.Table) -> pa.Table:
    return rows.add_column(0, "partition", pa.array([partition] * len(rows), pa.int32()))
