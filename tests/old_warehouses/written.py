"""What an old warehouse holds, and how one is written: the records that were landed, and what was done with them.

Owns the frozen tapes. A warehouse is written once, by the version whose format it has, and never again:

    python -m tests.old_warehouses.written format_1

makes ``format_1.tar.xz``, the tables, and ``format_1.json.xz``, the rows that this version read in them.
"""

import json
import lzma
import random
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.old_warehouses.topologies import TOPOLOGIES, windows
from tests.planted import LandedRecord, plant

PARTITIONS, RECORDS = 2, 36
TOPICS = ("orders", "payments", "users", "items", "pages", "clicks")
BRANCH, LEAST_MS = "what-if", 20
PIPELINES = {**TOPOLOGIES, BRANCH: lambda: windows(LEAST_MS)}
"""Every pipeline of the warehouse; the last is a branch of ``windows``."""

Rows = list[dict[str, Any]]


def tape(topic: str, landing: int) -> list[LandedRecord]:
    """Records of one landing, later than those of the one before; some late, without a key, or not to be decoded."""
    generator = random.Random(f"{topic} {landing}")
    rows, now = [], 400 * landing
    for number in range(RECORDS):
        now += generator.choice((0, 1, 3, 8, 25))
        key = generator.choice((b"a", b"b", b"c", b"d", b"e", b"a", b"b", None))
        partition = number % PARTITIONS if key is None else key[0] % PARTITIONS
        time_ms = now - generator.choice((0, 0, 0, 3, 40))
        headers = (("number", str(number).encode()),) if number % 5 == 0 else ()
        rows.append(LandedRecord(partition, key, _value(generator, topic), time_ms, headers))
    return rows


def _value(generator: random.Random, topic: str) -> bytes | None:
    if generator.random() < 0.1:
        return None
    if topic == "items":
        return generator.randrange(8).to_bytes(8, "big")
    if topic == "clicks":
        page = generator.choice((b"home", b"cart", b"help"))
        return generator.choice(
            (b'{"page": "%s", "ms": %d}' % (page, generator.randrange(-3, 50)),) * 9 + (b"no json",)
        )
    return generator.choice((b"a1", b"b2", b"c3", b"d4"))


def land(warehouse: Warehouse, landing: int) -> None:
    """The tapes of landing 1, 2, …"""
    for topic in TOPICS:
        plant(warehouse, topic, tape(topic, landing), partitions=PARTITIONS)


def run(
    warehouse: Warehouse,
    pipeline: str,
    *,
    idle: str = "wait",
    max_records: int | None = None,
    increments: int = 9,
    called: str | None = None,
) -> list[int]:
    """Replay what has landed; numbers of the increments. ``called``: under another name."""
    reports = replay(
        warehouse,
        PIPELINES[pipeline](),
        pipeline=called or pipeline,
        runner=LocalRunner(),
        max_records=max_records,
        increments=increments,
        idle=idle,
    )
    return [report.increment for report in reports]


def write(warehouse: Warehouse) -> None:
    """Two landings with a recorded time between them, some increments, a branch, and a restore."""
    land(warehouse, 1)
    for pipeline in TOPOLOGIES:
        run(warehouse, pipeline, max_records=18, increments=2)
    record_time(warehouse, "clicks", 790, clock_ms=lambda: 0)
    land(warehouse, 2)
    for pipeline in TOPOLOGIES:
        run(warehouse, pipeline, max_records=60, increments=1)
    fork(warehouse, "windows", 2, BRANCH, topology=windows(LEAST_MS))
    run(warehouse, BRANCH, max_records=20, increments=1)
    restore(warehouse, "tables", 2)
    run(warehouse, "tables", max_records=40, increments=1)


def rows_of(warehouse: Warehouse, pipeline: str, topology: Topology, increment: int | None = None) -> dict[str, Rows]:
    """Outputs and stores as their readers see them, as JSON values, in an order that does not depend on files."""
    found = {}
    for sink in topology.sinks():
        table = read_table(warehouse, pipeline, f"outputs/{sink.topic}", increment=increment)
        found[f"outputs/{sink.topic}"] = table.drop_columns(["increment"])
    for store in topology.stores():
        found[f"state/{store}"] = read_store(warehouse, pipeline, topology, store, increment=increment)
    return {name: sorted(map(_plain, table.to_pylist()), key=repr) for name, table in found.items()}


def _plain(value: Any) -> Any:
    """``value`` as JSON has it; bytes as text of their hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def done(warehouse: Warehouse, pipeline: str) -> list[int]:
    """Increments that are done."""
    return [row.increment for row in Ledger(warehouse.pipeline(pipeline).ledger).done_rows()]


EXPLAINED = {"steps": "orders:0:0", "windows": "clicks:1:0", "tables": "items:0:0"}
"""A record of each pipeline."""


def explained(warehouse: Warehouse, pipeline: str) -> dict[str, Any]:
    """The increment of the pipeline's record, and the nodes that did something with it."""
    explanation = explain(warehouse, pipeline, PIPELINES[pipeline](), EXPLAINED[pipeline])
    return {"increment": explanation.increment, "nodes": sorted({step.node for step in explanation.steps})}


def told(warehouse: Warehouse) -> dict[str, Any]:
    """What this version reads in its own warehouse: rows of every pipeline by increment, and what it explains."""
    rows = {
        pipeline: {
            str(increment): rows_of(warehouse, pipeline, topology(), increment)
            for increment in done(warehouse, pipeline)
        }
        for pipeline, topology in PIPELINES.items()
    }
    return {"rows": rows, "explained": {pipeline: explained(warehouse, pipeline) for pipeline in EXPLAINED}}


def main(name: str) -> None:
    """Write the two files beside this one."""
    target = Path(__file__).parent / name
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse(f"{folder}/warehouse")
        write(warehouse)
        rows = json.dumps(told(warehouse), sort_keys=True)
        with tarfile.open(f"{target}.tar.xz", "w:xz", preset=9) as archive:
            archive.add(warehouse.root, "warehouse")
        Path(f"{target}.json.xz").write_bytes(lzma.compress(rows.encode(), preset=9))


if __name__ == "__main__":
    main(sys.argv[1])
