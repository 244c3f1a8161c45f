"""Reads a pipeline's tables as of its last done increment, whatever was half written since (Readers, design.md section 3).

Rule: a reader sees an increment whole. An output is read as its changelog or as a table (newest record of every key); a store
as the rows that the operator itself would show: not deleted, not expired.
"""

import pyarrow as pa
import pyarrow.compute as pc

from jobs.runner import load_rows, newest_rows, table_schema
from jobs.task import Task
from jobs.topology.topology import Topology
from state.errors import ConfigError
from state.files import read_files, read_rows
from state.ledger import Ledger, LedgerRow
from state.tables import Warehouse


def last_increment(warehouse: Warehouse, pipeline: str) -> LedgerRow:
    """The done row of the last increment. Raises ConfigError when there is none."""
    last = Ledger(warehouse.pipeline(pipeline).ledger, warehouse.storage_options).last_done()
    if last is None:
        raise ConfigError(f"pipeline {pipeline!r}", "a done increment", "none", "run the replay first")
    return last


def read_changelog(warehouse: Warehouse, pipeline: str, topology: Topology, output: str) -> pa.Table:
    """Every record of an output, by partition and offset; columns of state.tables.output_schema."""
    _check(output, [sink.topic for sink in topology.sinks()], "output")
    version = last_increment(warehouse, pipeline).content["versions"][f"outputs/{output}"]
    path = warehouse.pipeline(pipeline).output(output)
    files = read_files(path, version=version, storage_options=warehouse.storage_options)
    rows = read_rows(path, files, table_schema(topology, f"outputs/{output}"))
    return rows.sort_by([("partition", "ascending"), ("offset", "ascending")])


def read_table(warehouse: Warehouse, pipeline: str, topology: Topology, output: str) -> pa.Table:
    """Newest record of every key (and window) of an output that is no tombstone, by partition and offset."""
    newest = newest_rows(read_changelog(warehouse, pipeline, topology, output))
    return newest.filter(pc.is_valid(newest["value"]))


def read_store(warehouse: Warehouse, pipeline: str, topology: Topology, store: str) -> pa.Table:
    """What a store shows: partition, key, [window_start_ms, window_end_ms], value, record_time_ms, perhaps more."""
    _check(store, [node.store for node in topology.stores()], "store")
    content = last_increment(warehouse, pipeline).content
    sub = next(sub for sub in topology.sub_topologies if store in [node.store for node in sub.stores])
    path = warehouse.pipeline(pipeline).state(store)
    version = content["versions"][f"state/{store}"]
    files = read_files(path, version=version, storage_options=warehouse.storage_options)
    pieces = []
    for partition in sorted({file.partition for file in files}):
        operator = Task(topology, sub, partition).stores[store]
        mine = sorted(
            (file for file in files if file.partition == partition),
            key=lambda file: file.bounds.get("increment", (0, 0)),
        )
        clocks = content["tasks"][f"{sub.id}_{partition}"]["clocks"][store]
        operator.resume(load_rows(path, mine, operator), clocks)
        rows = operator.contents()
        pieces.append(rows.add_column(0, "partition", pa.array([partition] * len(rows), pa.int32())))
    if pieces:
        return pa.concat_tables(pieces)
    empty = Task(topology, sub).stores[store]
    empty.resume(empty.rows_schema().empty_table(), {})
    return empty.contents().add_column(0, "partition", pa.array([], pa.int32()))


def _check(name: str, known: list[str], kind: str) -> None:
    if name not in known:
        raise ConfigError(kind, f"one of {', '.join(known)}", repr(name), f"name an {kind} of the topology")
