"""A pipeline that is forked, promoted and set back: counts and windows of clicks, with a threshold that code changes.

Small, so that a law can be tried at every step; a repartition, a suppress, drops and a late record are in it.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_table
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Materialized, StreamsBuilder, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.clicks import CLICKS, final_page_counts
from tests.laws.topologies import PARTITIONS, tape
from tests.once_a_run import once_a_run
from tests.planted import plant

OUTPUTS = ("counts", "pages")
STORES = ("counts-store", "pages-store", "final-pages-store")
TABLES = ("outputs/counts", "outputs/pages", "dropped", "dead_letter", "repartition/pages-store-repartition")
RECORDS = 60


def clicks(least_ms: int = 0, grace: int = 10) -> Topology:
    """What changed code differs in: clicks below ``least_ms`` are left out; ``grace`` is part of the fingerprint."""
    builder = StreamsBuilder()
    stream = builder.stream("clicks", CLICKS).filter(f"ms >= {least_ms}")
    stream.group_by_key().count(Materialized.as_("counts-store")).to("counts")
    final_page_counts(stream, store="pages-store", held="final-pages", grace=grace).to("pages")
    return builder.build()


CHANGED = clicks(least_ms=20)
LAST = RECORDS // 10


class Killed(Exception):
    """The process died here."""


def forked(path: Any) -> Warehouse:
    """Pipeline p of six increments, and branch b of it, forked at 3 and replayed with changed code in two."""
    warehouse = landed(path)
    assert run(warehouse, "p") == list(range(1, LAST + 1))
    fork(warehouse, "p", 3, "b", topology=CHANGED)
    assert run(warehouse, "b", CHANGED, max_records=20) == [4, 5]
    return warehouse


def copy_of_forked(folder: Path) -> Warehouse:
    """In ``folder``: pipeline p of six increments; branch b of it from 3, changed. It is replayed once a test run."""
    return copy_of(once_a_run("forked", lambda made: forked(made / "warehouse")) / "warehouse", folder)


def copy_of(begun: Path, folder: Path) -> Warehouse:
    return Warehouse(shutil.copytree(begun, folder / "warehouse"))


def kill(warehouse: Warehouse, pipeline: str, last_step: str, topology: Topology | None = None) -> None:
    """Run until a step, and die there."""

    def die(step: str) -> None:
        if step == last_step:
            raise Killed(step)

    with pytest.raises(Killed):
        run(warehouse, pipeline, topology, on_step=die)


def landed(path: Any, seed: int = 1) -> Warehouse:
    warehouse = Warehouse(path)
    plant(warehouse, "clicks", tape(seed, RECORDS), partitions=PARTITIONS)
    return warehouse


def run(
    warehouse: Warehouse,
    pipeline: str,
    topology: Topology | None = None,
    *,
    increments: int | None = None,
    max_records: int | None = 10,
    on_step=lambda step: None,
) -> list[int]:
    """Numbers of the increments that were run."""
    reports = replay(
        warehouse,
        topology or clicks(),
        pipeline=pipeline,
        runner=LocalRunner(),
        max_records=max_records,
        increments=increments,
        idle="proceed",
        on_step=on_step,
    )
    return [report.increment for report in reports]


def contents(warehouse: Warehouse, pipeline: str, topology: Topology | None = None, increment: int | None = None):
    """Every table as plain rows, as its readers see it: without increments, which a cut must not show."""
    found = {}
    for table in TABLES:
        rows = read_table(warehouse, pipeline, table, increment=increment).drop_columns(["increment"]).to_pylist()
        found[table] = sorted(rows, key=repr)
    for store in STORES:
        rows = read_store(warehouse, pipeline, topology or clicks(), store, increment=increment).to_pylist()
        found[f"state/{store}"] = sorted(rows, key=repr)
    return found


def changelog(warehouse: Warehouse, pipeline: str, output: str, increment: int | None = None) -> list[dict[str, Any]]:
    return read_changelog(warehouse, pipeline, output, increment=increment).to_pylist()
