"""A warehouse as rows that a test may change, written again as an engine would have written them.

Rule: every increment of a finished pipeline is read at its own versions, changed, and committed again through
``kstreams_replay.state.tables.commit``, with ledgers that name the new versions: so an injected violation is found by
what it says and not by a digest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from kstreams_replay.jobs.execution.table_schemas import table_schema
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.data_files import read_files, read_rows, table_version
from kstreams_replay.state.tables.ledger import LandingLedger, Ledger
from kstreams_replay.state.tables.ledger_rows import DoneRow, LandingDoneRow, LandingPlanRow, PlanRow
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, RECORDED_TIME_SCHEMA, Warehouse

Rows = list[dict[str, Any]]


@dataclass
class Landing:
    """One landing increment of a topic."""

    planned: LandingPlanRow
    done: LandingDoneRow
    rows: Rows
    times: Rows = field(default_factory=list)


@dataclass
class RewrittenIncrement:
    """One increment of a pipeline; ``tables``: by the table's name in the ledger the rows that it wrote, of a store all
    that are there after it.
    """

    planned: PlanRow
    done: DoneRow
    tables: dict[str, Rows]


@dataclass
class Unpacked:
    """``landings`` by topic, ``increments`` from the first on, ``schemas`` by table."""

    landings: dict[str, list[Landing]]
    increments: list[RewrittenIncrement]
    schemas: dict[str, pa.Schema]

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """All rows of a table of the pipeline, to be changed in place."""
        for increment in self.increments:
            yield from increment.tables.get(table, [])


def unpacked(warehouse: Warehouse, pipeline: str, topology: Topology, topics: list[str]) -> Unpacked:
    """All that a pipeline has, and what has landed of ``topics``."""
    tables = warehouse.pipeline(pipeline)
    increments: list[RewrittenIncrement] = []
    schemas: dict[str, pa.Schema] = {}
    ledger = Ledger(tables.ledger)
    for row in ledger.done_rows(1):
        planned, _ = ledger.rows_of(row.increment)
        written = {}
        for name, version in row.content.versions.items():
            path = tables.table(name)
            schemas[name] = table_schema(topology, name)
            rows = read_rows(path, read_files(path, version=version), schemas[name]).to_pylist()
            is_store = name.startswith("state/")
            written[name] = [each for each in rows if is_store or each["increment"] == row.increment]
        increments.append(RewrittenIncrement(planned.content, row.content, written))
    return Unpacked({topic: _landings(warehouse, topic) for topic in topics}, increments, schemas)


def _landings(warehouse: Warehouse, topic: str) -> list[Landing]:
    ledger, path = LandingLedger(warehouse.landing_ledger(topic)), warehouse.landed(topic)
    rows = read_rows(path, read_files(path), LANDED_SCHEMA).to_pylist()
    path = warehouse.recorded_time(topic)
    files = [] if table_version(path) is None else read_files(path)
    times = read_rows(path, files, RECORDED_TIME_SCHEMA).to_pylist()
    found = []
    for row in ledger.done_rows(1):
        planned, _ = ledger.rows_of(row.increment)
        mine = [[each for each in part if each["increment"] == row.increment] for part in (rows, times)]
        found.append(Landing(planned.content, row.content, *mine))
    return found


def planted(changed: Unpacked, warehouse: Warehouse, pipeline: str) -> None:
    """Write it all to an empty warehouse."""
    for topic, landings in changed.landings.items():
        ledger = LandingLedger(warehouse.landing_ledger(topic))
        for number, landing in enumerate(landings, 1):
            ledger.plan(number, landing.planned, written_at_ms=0)
            version = _write(warehouse.landed(topic), LANDED_SCHEMA, number, landing.rows)
            if landing.times:
                _write(warehouse.recorded_time(topic), RECORDED_TIME_SCHEMA, number, landing.times)
            done = replace(landing.done, table_version=version, table_digest=None)
            ledger.done(number, done, written_at_ms=0)
    tables = warehouse.pipeline(pipeline)
    ledger = Ledger(tables.ledger)
    for number, increment in enumerate(changed.increments, 1):
        ledger.plan(number, increment.planned, written_at_ms=0)
        versions = {
            name: _write(
                tables.table(name),
                changed.schemas[name],
                number,
                increment.tables.get(name, []),
                is_whole=name.startswith("state/"),
            )
            for name in increment.done.versions
        }
        ledger.done(number, replace(increment.done, versions=versions, digests=None), written_at_ms=0)


def _write(path: str, schema: pa.Schema, number: int, rows: Rows, *, is_whole: bool = False) -> int:
    files, own = [], pa.schema([each for each in schema if each.name != "partition"])
    parts: dict[tuple[int, int], Rows] = {}
    for row in rows:  # of a store, newer files represent what older ones have
        parts.setdefault((row["partition"], row["increment"] if is_whole else number), []).append(row)
    for (partition, of), mine in sorted(parts.items()):
        files.append(write_task_file(path, pa.Table.from_pylist(mine, own), partition=partition, name=f"{of:08d}"))
    removed = read_files(path) if is_whole and number > 1 else []
    schema = pa.schema([*own, ("partition", pa.int32())])
    return commit_files(path, schema, files, app_id="planted", increment=number, removed=removed)
