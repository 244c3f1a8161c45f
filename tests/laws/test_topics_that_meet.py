"""Law 2 where topics are read together: joins, tables of tables and foreign keys over two partitions, cut anywhere, by
time; and by arrival, where tables must say what the test driver says.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.joined import PARTITIONS, TOPICS, joined, tapes
from tests.planted import LandedRecord, plant, tables_of

pytestmark = pytest.mark.sampled

RECORDS = 70


def run(warehouse: Warehouse, pipeline: str, limits: Iterable[int | None], order: str = "time") -> None:
    """One call a limit, the last with the end of history, so that nothing waits."""
    for limit in limits:
        idle = "proceed" if limit is None else "wait"
        for _ in replay(
            warehouse, joined(), pipeline=pipeline, runner=LocalRunner(), max_records=limit, idle=idle, order=order
        ):
            pass


def landed(path: Any, seed: int) -> Warehouse:
    warehouse = Warehouse(path)
    for topic, records in tapes(seed, RECORDS).items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    return warehouse


@pytest.mark.parametrize(("seed", "max_records"), [(1, 13), (2, 5), (3, 30)])
def test_increments_of_any_size_leave_the_tables_of_one_big_increment(tmp_path, seed, max_records):
    warehouse = landed(tmp_path, seed)

    run(warehouse, "whole", [None])
    run(warehouse, "cut", [max_records, None])

    assert tables_of(warehouse, "cut", joined()) == tables_of(warehouse, "whole", joined())


def test_landing_and_replaying_in_turn_leaves_the_tables_of_landing_all_first(tmp_path):
    whole, in_turn, records = landed(tmp_path / "whole", 7), Warehouse(tmp_path / "turn"), tapes(7, RECORDS)
    first = dict.fromkeys(TOPICS, 6)
    for topic in TOPICS:  # every queue gets a first record, since one without any holds nobody back
        assert {record.partition for record in records[topic][: first[topic]]} == set(range(PARTITIONS))
        plant(in_turn, topic, records[topic][: first[topic]], partitions=PARTITIONS)
    run(in_turn, "p", [1000])
    for topic in TOPICS:
        plant(in_turn, topic, records[topic][first[topic] :], partitions=PARTITIONS)
        run(in_turn, "p", [1000])

    run(in_turn, "p", [None])
    run(whole, "p", [None])

    assert tables_of(in_turn, "p", joined()) == tables_of(whole, "p", joined())


class Killed(Exception):
    """The process died here."""


def test_a_run_that_dies_again_and_again_each_time_later_leaves_the_tables_of_one_that_never_died(tmp_path):
    """Law 3 where topics are read together: between two commits the outputs of the one and the state of the other would
    differ.
    """
    warehouse = landed(tmp_path, 5)

    def drive(last_step: int) -> int:
        """Steps taken before the death at ``last_step``."""
        steps = 0

        def die(step: str) -> None:
            nonlocal steps
            steps += 1
            if steps == last_step:
                raise Killed(step)

        list(replay(warehouse, joined(), pipeline="p", runner=LocalRunner(), idle="proceed", on_step=die))
        return steps

    for last_step in (1, 2, 9, 16, 23):
        with pytest.raises(Killed):
            drive(last_step)
    assert drive(0) > 23

    run(warehouse, "never", [None])
    assert tables_of(warehouse, "p", joined()) == tables_of(warehouse, "never", joined())


# --- by arrival ----------------------------------------------------------------------------------------------


def arrivals(seed: int) -> list[tuple[str, LandedRecord]]:
    """Records of all topics, one of each topic after the other."""
    by_topic = {topic: list(records) for topic, records in tapes(seed, RECORDS).items()}
    found = []
    while any(by_topic.values()):
        found += [(topic, records.pop(0)) for topic, records in by_topic.items() if records]
    return found


def driven(records: list[tuple[str, LandedRecord]]) -> dict[str, list[tuple]]:
    driver = TopologyTestDriver(joined())
    for topic, record in records:
        driver.pipe_bytes(topic, record.key, record.value, record.timestamp_ms)
    return {
        sink.topic: [
            (found.arrival, found.key, found.window, found.value, found.timestamp_ms)
            for found in driver.read_outputs(sink.topic)
        ]
        for sink in joined().sinks()
    }


def replayed(warehouse: Warehouse, pipeline: str) -> dict[str, list[tuple]]:
    found = {}
    for sink in joined().sinks():
        rows = read_table(warehouse, pipeline, f"outputs/{sink.topic}").to_pylist()
        found[sink.topic] = [
            (
                row["arrival"],
                row["key"],
                None if row.get("window_start_ms") is None else (row["window_start_ms"], row["window_end_ms"]),
                row["value"],
                row["record_time_ms"],
            )
            for row in rows
        ]
    return found


@pytest.mark.parametrize(
    ("seed", "length", "limits"), [(21, RECORDS, [None]), (22, 24, [1, None]), (23, RECORDS, [9, None])]
)
def test_a_replay_by_arrival_gives_what_the_test_driver_gives_in_its_order(tmp_path, seed, length, limits):
    warehouse, records = Warehouse(tmp_path), arrivals(seed)[:length]
    for topic in TOPICS:
        mine = [(number, record) for number, (other, record) in enumerate(records) if other == topic]
        table = pa.table(
            {
                "partition": pa.array([0] * len(mine), pa.int32()),
                "timestamp": pa.array([record.timestamp_ms for _, record in mine], pa.int64()),
                "key": pa.array([record.key for _, record in mine], pa.binary()),
                "value": pa.array([record.value for _, record in mine], pa.binary()),
                "arrival": pa.array([number for number, _ in mine], pa.int64()),
            }
        )
        land_records(warehouse, topic, table)

    run(warehouse, "p", limits, order="arrival")

    assert replayed(warehouse, "p") == driven(records)
