"""The law of records that are taken out of play: who reads later has the tables of topics that were landed without
them, with gaps of offsets. Who has read them before keeps its rows, also when it runs again.
"""

import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.branches.verification import verify
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.jobs.history.exclusions import exclude_records
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws import joined, topologies
from tests.laws.test_global_store import looked_at
from tests.laws.test_topics_that_meet import arrivals, replayed
from tests.planted import LandedRecord, plant, tables_of

pytestmark = pytest.mark.sampled

Record = tuple[str, int, int]
"""Topic, partition, offset."""


class Application(NamedTuple):
    topology: Callable[[], Topology]
    tapes: Callable[[int], dict[str, list[LandedRecord]]]
    partitions: int


APPLICATIONS = {
    "one-topic": Application(
        topologies.everything, lambda seed: {"clicks": topologies.tape(seed, 40)}, topologies.PARTITIONS
    ),
    "joins": Application(joined.joined, lambda seed: joined.tapes(seed, 40), joined.PARTITIONS),
    "global-store": Application(
        looked_at,
        lambda seed: {topic: joined.tapes(seed, 40)[topic] for topic in ("orders", "payments")},
        joined.PARTITIONS,
    ),
}


def land(path: Path, app: Application, seed: int, gone: set[Record] = frozenset()) -> Warehouse:
    warehouse = Warehouse(path)
    for topic, records in app.tapes(seed).items():
        mine = {(p, offset) for name, p, offset in gone if name == topic}
        plant(warehouse, topic, records, partitions=app.partitions, gone=mine)
    return warehouse


def every_record(app: Application, seed: int) -> list[Record]:
    counts = [
        (topic, p, sum(record.partition == p for record in records))
        for topic, records in app.tapes(seed).items()
        for p in range(app.partitions)
    ]
    return [(topic, p, offset) for topic, p, count in counts for offset in range(count)]


def some_of(records: list[Record], seed: int, count: int = 4) -> set[Record]:
    """The very first one and the last of a partition may be among them."""
    return set(random.Random(seed).sample(records, count))


def exclude(warehouse: Warehouse, records: Collection[Record]) -> None:
    for topic in sorted({topic for topic, _, _ in records}):
        exclude_records(warehouse, topic, [(p, offset) for name, p, offset in records if name == topic], "a test")


def run(warehouse: Warehouse, app: Application, *, pipeline: str = "p", flush: bool = True, **options: object) -> None:
    options = {"idle": "proceed"} | options
    list(replay(warehouse, app.topology(), pipeline=pipeline, runner=LocalRunner(), flush_at_end=flush, **options))


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize("max_records", [None, 13])
def test_a_pipeline_that_begins_later_leaves_the_tables_of_topics_without_the_records(tmp_path, name, max_records):
    app, seed = APPLICATIONS[name], 3
    records = some_of(every_record(app, seed), seed)
    warehouse, without = land(tmp_path / "whole", app, seed), land(tmp_path / "gone", app, seed, records)

    exclude(warehouse, records)
    run(warehouse, app, max_records=max_records)
    run(without, app)

    assert tables_of(warehouse, "p", app.topology()) == tables_of(without, "p", app.topology())


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_pipeline_at_work_reads_on_without_them_and_keeps_what_it_has_read(tmp_path, name):
    """
    Of the records that are taken out, those that it has read stay: its tables are those of topics that lack the
    others. So are those of increments of other sizes, which `verify` runs.
    """
    app, seed = APPLICATIONS[name], 5
    warehouse = land(tmp_path / "whole", app, seed)
    run(warehouse, app, flush=False, idle="wait", max_records=20, increments=1)
    first, every = done_row(warehouse, "p").content.cut_to, every_record(app, seed)
    was_read = [each for each in every if each[2] < first[each[0]][str(each[1])]]
    read = some_of(was_read, seed, 3)
    unread = some_of([each for each in every if each not in was_read], seed, 3)

    exclude(warehouse, read | unread)
    run(warehouse, app, flush=False, max_records=9)
    without = land(tmp_path / "gone", app, seed, unread)
    run(without, app, flush=False)

    assert tables_of(warehouse, "p", app.topology()) == tables_of(without, "p", app.topology())
    found = verify(warehouse, app.topology(), pipeline="p", runner=LocalRunner(), since=1, increments=(4,))
    assert [each.difference for each in found.cuttings] == [None]
    topic, partition, offset = min(read)
    said = explain(warehouse, "p", app.topology(), (topic, partition, offset))
    assert (said.increment, said.difference) == (1, None)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_pipeline_that_is_restored_reads_again_without_them(tmp_path, name):
    app, seed = APPLICATIONS[name], 7
    records = some_of(every_record(app, seed), seed)
    warehouse, without = land(tmp_path / "whole", app, seed), land(tmp_path / "gone", app, seed, records)
    run(warehouse, app, flush=False)
    exclude(warehouse, records)

    restore(warehouse, "p", 0)
    run(warehouse, app, flush=False)
    run(without, app, flush=False)

    assert tables_of(warehouse, "p", app.topology()) == tables_of(without, "p", app.topology())


def test_records_are_left_out_by_arrival_too(tmp_path):
    records, out = arrivals(21), {3, 8, 20}
    whole, without = Warehouse(tmp_path / "whole"), Warehouse(tmp_path / "gone")
    for topic in joined.TOPICS:
        mine = [(number, record) for number, (other, record) in enumerate(records) if other == topic]
        land_records(whole, topic, arriving(mine))
        land_records(without, topic, arriving([each for each in mine if each[0] not in out]))
        exclude(whole, {(topic, 0, offset) for offset, (number, _) in enumerate(mine) if number in out})

    for warehouse in (whole, without):
        run(warehouse, APPLICATIONS["joins"], flush=False, order="arrival", max_records=11)

    assert replayed(whole, "p") == replayed(without, "p")


def arriving(records: list[tuple[int, LandedRecord]]) -> pa.Table:
    return pa.table(
        {
            "partition": pa.array([0] * len(records), pa.int32()),
            "timestamp": pa.array([record.timestamp_ms for _, record in records], pa.int64()),
            "key": pa.array([record.key for _, record in records], pa.binary()),
            "value": pa.array([record.value for _, record in records], pa.binary()),
            "arrival": pa.array([number for number, _ in records], pa.int64()),
        }
    )
