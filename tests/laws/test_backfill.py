"""The law of backfills: a range made again is that range of a replay of everything, whatever the topology keeps."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.branches.backfill import Backfill, backfill
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws import ranges
from tests.planted import LandedRecord, plant

pytestmark = pytest.mark.sampled

RECORDS = 160
TOPICS = {"orders", "payments"}
Rows = list[dict[str, Any]]


def of_range(warehouse: Warehouse, pipeline: str, table: str, topology: Topology, from_ms: int, to_ms: int) -> Rows:
    """In order of partition and offset, without what a cut may change; a repartition table of a branch has the records
    since the branch began alone, so below one the numbers of records are others.
    """
    rows = read_table(warehouse, pipeline, table).to_pylist()
    found = [row for row in rows if from_ms <= row["record_time_ms"] < to_ms]
    gone = {"increment"}
    if table != "dropped":
        found.sort(key=lambda row: (row["partition"], row["offset"]))
        gone |= {"offset", "cause_offset"} if is_below_repartition(topology, table) else {"offset"}
    shown = [{name: value for name, value in row.items() if name not in gone} for row in found]
    if table == "dropped":
        for row in shown:
            row["offset"] = row["offset"] if row["topic"] in TOPICS else None
        shown.sort(key=repr)
    return shown


def is_below_repartition(topology: Topology, table: str) -> bool:
    (sink,) = (sink for sink in topology.sinks() if f"outputs/{sink.topic}" == table)
    (sub,) = (sub for sub in topology.sub_topologies if sink in sub.sinks)
    return not {source.topic for source in sub.sources} <= TOPICS


def replayed(
    folder: Path, topology: Topology, tapes: dict[str, list[LandedRecord]], partitions: int, max_records: int = 80
) -> Warehouse:
    """Pipeline p, all read in increments of some records."""
    warehouse = Warehouse(str(folder))
    for topic, records in tapes.items():
        plant(warehouse, topic, records, partitions=partitions)
    for _ in replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=max_records, idle="proceed"):
        pass
    return warehouse


def made(warehouse: Warehouse, topology: Topology, from_ms: int, to_ms: int, name: str = "b") -> Backfill:
    return backfill(warehouse, topology, pipeline="p", name=name, from_ms=from_ms, to_ms=to_ms, runner=LocalRunner())


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind in ranges.KINDS for seed in range(1, 5)])
def test_a_range_is_that_range_of_a_replay_of_everything(tmp_path, kind, seed):
    topology, tapes = ranges.KINDS[kind](seed), ranges.tapes(seed, RECORDS)
    warehouse = replayed(tmp_path, topology, tapes, ranges.partitions(seed))
    dice = random.Random(seed)
    times = sorted(record.timestamp_ms for records in tapes.values() for record in records)
    from_ms = times[dice.randrange(len(times) // 2, 3 * len(times) // 4)]
    to_ms = from_ms + dice.choice((30, 200, 400))

    found = made(warehouse, topology, from_ms, to_ms)

    outputs = [sink.topic for sink in topology.sinks() if not sink.topic.startswith("moved")]
    tables = [f"outputs/{output}" for output in outputs]
    for table in tables if found.left_out else [*tables, "dropped"]:  # a part has other numbers of sub-topologies
        want = of_range(warehouse, "p", table, topology, from_ms, to_ms)
        assert of_range(warehouse, "b", table, topology, from_ms, to_ms) == want, (table, found)
        assert len(read_table(warehouse, "b", table)) == len(want)
    assert found.compared == outputs


@pytest.mark.parametrize("seed", [12, 14, 16, 18])
def test_what_is_kept_without_end_goes_on_from_an_increment_as_a_fork_of_it_does(tmp_path, seed):
    """
    The windows beside it are those of the changed code, also where they began before the range.
    """
    warehouse = replayed(tmp_path, ranges.kept(seed), ranges.tapes(seed, RECORDS), ranges.partitions(seed), 20)
    changed, from_ms, to_ms = ranges.kept(seed, without="w"), 1_700, 1_900

    found = made(warehouse, changed, from_ms, to_ms)

    increment = int(re.fullmatch(r"increment (\d+) of p, .*", found.begins)[1])
    fork(warehouse, "p", increment, "f", topology=changed)
    list(replay(warehouse, changed, pipeline="f", runner=LocalRunner(), idle="proceed"))
    for table in [*(f"outputs/{sink.topic}" for sink in changed.sinks()), "dropped"]:
        want = of_range(warehouse, "f", table, changed, from_ms, to_ms)
        assert of_range(warehouse, "b", table, changed, from_ms, to_ms) == want
    assert found.rows["unique"] > 0
    assert found.compared == []
