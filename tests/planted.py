"""Landed topics written without Spark, and whole pipelines read back as plain rows, for tests that compare tables."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.execution.table_schemas import table_schema
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.data_files import read_files, read_rows, table_digest
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from kstreams_replay.state.tables.parquet_writer import TaskFile
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse


class LandedRecord(NamedTuple):
    """One record of a landed topic, as bytes."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...] = ()


def plant(
    warehouse: Warehouse,
    topic: str,
    records: Sequence[LandedRecord],
    *,
    partitions: int,
    first_offset: int = 0,
    gone: Collection[tuple[int, int]] = (),
    source: Mapping[str, str] | None = None,
) -> None:
    """Land ``records`` as the topic's next increment. ``first_offset``: of the first one, below which the broker had
    deleted all; ``gone``: partition and offset of those that take an offset and do not land, as if it was compacted.
    ``source``: as the ledger has it.
    """
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    last = ledger.last_done()
    increment = 1 if last is None else last.increment + 1
    begin = dict.fromkeys(map(str, range(partitions)), first_offset) if last is None else last.content.cut_to
    end, files = dict(begin), []
    for partition in range(partitions):
        mine = [record for record in records if record.partition == partition]
        first = begin[str(partition)]
        end[str(partition)] = first + len(mine)
        file = TaskFile(warehouse.landed(topic), partition=partition, name=f"{increment:08d}")
        table = _table(mine, first, increment)
        is_there = [(partition, offset) not in gone for offset in table["offset"].to_pylist()]
        file.write(table.filter(pa.array(is_there, pa.bool_())))
        written = file.close()
        files += [] if written is None else [written]
    plan = LandingPlanRow(cut_from=begin, cut_to=end, source=dict(source or {}))
    ledger.plan(increment, plan, written_at_ms=0)
    app_id = f"landing/{topic}/0"
    version = commit_files(warehouse.landed(topic), LANDED_SCHEMA, files, app_id=app_id, increment=increment)
    done = LandingDoneRow(
        partitions=partitions, cut_from=begin, cut_to=end, records=len(records) - len(gone), table_version=version,
        excluded=None if last is None else last.content.excluded,
        restarts=None if last is None else last.content.restarts,
        table_digest=table_digest(warehouse.landed(topic), version),
    )  # fmt: skip
    ledger.done(increment, done, written_at_ms=0)


def _table(records: Sequence[LandedRecord], first: int, increment: int) -> pa.Table:
    n = len(records)
    headers = [[{"key": key, "value": value} for key, value in record.headers] for record in records]
    return pa.table(
        {
            "offset": np.arange(first, first + n),
            "timestamp": np.array([record.timestamp_ms for record in records], np.int64),
            "timestamp_type": pa.array(["CreateTime"] * n, pa.string()),
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array(headers, LANDED_SCHEMA.field("headers").type),
            "increment": np.full(n, increment, np.int64),
        }
    )


Rows = list[dict[str, Any]]


def tables_of(warehouse: Warehouse, pipeline: str, topology: Topology) -> dict[str, Rows]:
    """Every table of a pipeline as rows: outputs, repartitions, drops and dead letters whole, stores as what they show.

    The increment is left out, since a cut must not show; rows are in an order that does not depend on files.
    """
    tables = warehouse.pipeline(pipeline)
    paths = {"dropped": tables.dropped, "dead_letter": tables.dead_letter}
    paths |= {f"outputs/{sink.topic}": tables.output(sink.topic) for sink in topology.sinks()}
    for sub in topology.sub_topologies:
        paths |= {f"repartition/{node.topic}": tables.repartition(node.topic) for node in sub.repartitions}
    rows = {name: read_rows(path, read_files(path), table_schema(topology, name)) for name, path in paths.items()}
    found = {name: sorted(table.drop_columns(["increment"]).to_pylist(), key=_place) for name, table in rows.items()}
    for name in topology.stores():
        store = read_store(warehouse, pipeline, topology, name)
        found[f"state/{name}"] = sorted(store.to_pylist(), key=repr)
    return found


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    window = row.get("window_start_ms") or 0
    return row["partition"], row.get("topic", ""), row["offset"], row.get("node", ""), window
