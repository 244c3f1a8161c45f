"""Law 2 where records go through topics of the topology's own: cut anywhere, landed in turn, and by arrival as the test
driver. There are two partitions, a topic that two sub-topologies write, one that is joined with its writer, and a
chain.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.joined import PARTITIONS, STRING, tapes
from tests.laws.test_recorded_time import land_topics
from tests.planted import LandedRecord, plant, tables_of

pytestmark = pytest.mark.sampled

TOPICS = ("orders", "payments")
RECORDS = 60
TEXTS = Consumed(STRING, STRING)


def through_topics() -> Topology:
    builder = StreamsBuilder()
    orders, payments = builder.stream("orders", TEXTS), builder.stream("payments", TEXTS)
    orders.to("all")
    orders.filter("value <> 'a1'").map_values("value || '!'").to("all")
    newest = payments.group_by("value").reduce(lambda one, other: other, materialized=Materialized.as_("newest"))
    newest.to("all")
    oldest = payments.group_by("record_key", name="again").reduce(
        lambda one, _: one, materialized=Materialized.as_("o")
    )
    oldest.to("all")  # as far behind a payment as the newest one
    everything = builder.stream("all", TEXTS)
    counts = everything.group_by_key().windowed_by(TimeWindows.of_size(20, grace=10)).count(Materialized.as_("counts"))
    counts.suppress(Suppressed.until_window_closes(name="final")).to("counts")
    table = orders.to_table(materialized=Materialized.as_("last-order"))
    everything.left_join(table, _pair, returns=STRING).select_key("value").to("second")
    second = builder.table("second", TEXTS, materialized=Materialized.as_("second"))
    second.group_by("value", "record_key", name="by-value").count(Materialized.as_("by-value")).to("by-value")
    return builder.build()


def _pair(left: object, right: object) -> str:
    return f"{left}+{right}"


def records_of(seed: int) -> dict[str, list[LandedRecord]]:
    return {topic: records for topic, records in tapes(seed, 2 * RECORDS).items() if topic in TOPICS}


def run(warehouse: Warehouse, pipeline: str, limits: Iterable[int | None]) -> None:
    """One call a limit, the last with the end of history, so that nothing waits."""
    for limit in limits:
        idle = "proceed" if limit is None else "wait"
        topology, runner = through_topics(), LocalRunner()
        list(replay(warehouse, topology, pipeline=pipeline, runner=runner, max_records=limit, idle=idle))


def landed(path: Path, seed: int) -> Warehouse:
    warehouse = Warehouse(path)
    for topic, records in records_of(seed).items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    return warehouse


@pytest.mark.parametrize(("seed", "max_records"), [(1, 13), (2, 25)])
def test_increments_of_any_size_leave_the_tables_of_one_big_increment(tmp_path, seed, max_records):
    warehouse = landed(tmp_path, seed)

    run(warehouse, "whole", [None])
    run(warehouse, "cut", [max_records, None])

    whole = tables_of(warehouse, "whole", through_topics())
    assert {name: len(rows) > 5 for name, rows in whole.items() if name.startswith("outputs/")} == {
        f"outputs/{name}": True for name in ("all", "second", "counts", "by-value")
    }
    assert tables_of(warehouse, "cut", through_topics()) == whole


def test_an_intermediate_topic_is_an_output_in_its_own_order(tmp_path):
    warehouse = landed(tmp_path, 3)

    run(warehouse, "p", [9, None])

    found = tables_of(warehouse, "p", through_topics())
    topic = [(row["partition"], row["offset"], row["key"], row["value"]) for row in found["repartition/all"]]
    output = [(row["partition"], row["offset"], row["key"], row["value"]) for row in found["outputs/all"]]
    assert [(p, o, k and k.encode(), v and v.encode()) for p, o, k, v in output] == topic
    assert {partition for partition, *_ in output} == set(range(PARTITIONS))


def arrivals(seed: int) -> list[tuple[str, LandedRecord]]:
    by_topic = records_of(seed)
    found = []
    while any(by_topic.values()):
        found += [(topic, records.pop(0)) for topic, records in by_topic.items() if records]
    return found


@pytest.mark.parametrize(("seed", "limits"), [(21, [None]), (22, [20, None])])
def test_a_replay_by_arrival_gives_what_the_test_driver_gives_in_its_order(tmp_path, seed, limits):
    warehouse, records, driver = Warehouse(tmp_path), arrivals(seed), TopologyTestDriver(through_topics())
    for topic in TOPICS:
        mine = [(number, record) for number, (other, record) in enumerate(records) if other == topic]
        table = {
            "partition": pa.array([0] * len(mine), pa.int32()),
            "timestamp": pa.array([record.timestamp_ms for _, record in mine], pa.int64()),
            "key": pa.array([record.key for _, record in mine], pa.binary()),
            "value": pa.array([record.value for _, record in mine], pa.binary()),
            "arrival": pa.array([number for number, _ in mine], pa.int64()),
        }
        land_records(warehouse, topic, pa.table(table))
    for topic, record in records:
        driver.pipe_bytes(topic, record.key, record.value, record.timestamp_ms)

    for limit in limits:
        runner = LocalRunner()
        list(replay(warehouse, through_topics(), pipeline="p", runner=runner, max_records=limit, order="arrival"))

    for output in ("all", "second", "counts", "by-value"):
        rows = read_table(warehouse, "p", f"outputs/{output}").sort_by("offset").to_pylist()
        got = [(row["arrival"], row["key"], row["value"], row["record_time_ms"]) for row in rows]
        assert got == [(one.arrival, one.key, one.value, one.timestamp_ms) for one in driver.read_outputs(output)]


# --- recorded time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "max_records"), [(1, 13), (4, 4)])
def test_recorded_times_go_through_wherever_they_are_cut(tmp_path, seed, max_records):
    warehouse = Warehouse(tmp_path)
    land_topics(warehouse, seed)

    run(warehouse, "whole", [None])
    run(warehouse, "cut", [max_records, None])

    assert tables_of(warehouse, "cut", through_topics()) == tables_of(warehouse, "whole", through_topics())


def test_recorded_times_close_windows_below_as_the_test_driver_does(tmp_path):
    """Each writer passes a time on when it got there; a window closes when the last of them has."""
    warehouse, driver = Warehouse(tmp_path), TopologyTestDriver(through_topics())
    rows = [("orders", b"a", b"b2", 100), ("payments", b"c", b"d4", 104)]
    for arrival, (topic, key, value, time_ms) in enumerate(rows):
        driver.pipe_bytes(topic, key, value, time_ms)
        columns = {"timestamp": [time_ms], "key": [key], "value": [value], "arrival": [arrival]}
        land_records(warehouse, topic, pa.table({"partition": pa.array([0], pa.int32()), **columns}))
    closed = []
    for arrival, topic in ((2, "orders"), (3, "payments")):
        record_time(warehouse, topic, 200, arrival=arrival)
        driver.advance_stream_time(topic, 200)
        closed.append(len(driver.read_outputs("counts")))

    runner = LocalRunner()
    list(replay(warehouse, through_topics(), pipeline="p", runner=runner, order="arrival"))

    got = read_table(warehouse, "p", "outputs/counts")["arrival"].to_pylist()
    assert closed == [0, 3]  # of a, d4 and c
    assert got == [3] * 3


def test_an_output_that_is_read_from_now_on_goes_on_behind_its_last_row(tmp_path):
    """Code changed between two increments: what was written before is not read, and no offset is given twice."""

    def written(*, is_read: bool) -> Topology:
        builder = StreamsBuilder()
        builder.stream("orders", TEXTS).filter("value <> 'a1'").to("mid")
        if is_read:
            builder.stream("mid", TEXTS).map_values("value || '!'").to("out")
        return builder.build()

    warehouse, records = Warehouse(tmp_path), records_of(5)["orders"]
    first, then = records[:40], records[40:]
    for is_read, mine in ((False, first), (True, then)):
        plant(warehouse, "orders", mine, partitions=PARTITIONS)
        topology, runner = written(is_read=is_read), LocalRunner()
        list(replay(warehouse, topology, pipeline="p", runner=runner, idle="proceed"))

    found = tables_of(warehouse, "p", written(is_read=True))
    offsets = [[row["offset"] for row in found["outputs/mid"] if row["partition"] == p] for p in range(PARTITIONS)]
    assert offsets == [list(range(len(each))) for each in offsets]
    assert len(found["outputs/mid"]) == len([one for one in records if one.value not in (b"a1", None)])
    assert len(found["outputs/out"]) == len([one for one in then if one.value not in (b"a1", None)])
