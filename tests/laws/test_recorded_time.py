"""Laws 2 and 3 with recorded times among the records: any cut, any death, the same tables; and by another pipeline."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution import task_stores
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.landing import recorded_time
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_time, recorded_times
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws import joined, topologies
from tests.laws.joined import TOPICS
from tests.laws.test_topics_that_meet import arrivals, replayed
from tests.planted import LandedRecord, plant, tables_of

pytestmark = pytest.mark.sampled

RECORDS = 70


def land_clicks(warehouse: Warehouse, seed: int, records: int = RECORDS) -> None:
    """Clicks in four landings, with recorded times between them: of all partitions, of one, before the stream time of
    some and behind that of others, and two at one place.
    """
    rows, generator = topologies.tape(seed, records), random.Random(seed)
    cuts = [0, *sorted(generator.sample(range(1, records), 3)), records]
    for first, after in pairwise(cuts):
        plant(warehouse, "clicks", rows[first:after], partitions=topologies.PARTITIONS)
        newest_ms = max(row.timestamp_ms for row in rows[:after])
        for _ in range(2):
            time_ms = max(0, newest_ms + generator.choice((-60, -5, 0, 1, 20, 90)))
            record_time(warehouse, "clicks", time_ms, partition=generator.choice((None, None, 0, 1, 2)))


def land_topics(warehouse: Warehouse, seed: int) -> None:
    tapes, generator = joined.tapes(seed, RECORDS), random.Random(seed)
    newest_ms = 0
    for first, after in ((0, 7), (7, 14), (14, RECORDS)):
        for topic in TOPICS:
            plant(warehouse, topic, tapes[topic][first:after], partitions=joined.PARTITIONS)
            newest_ms = max([newest_ms, *(row.timestamp_ms for row in tapes[topic][first:after])])
        for topic in TOPICS:
            time_ms = newest_ms + generator.choice((-30, 0, 1, 60))
            record_time(warehouse, topic, time_ms, partition=generator.choice((None, None, 0, 1)))


def run(warehouse: Warehouse, topology: Topology, pipeline: str, limits: list[int | None]) -> dict[str, list[dict]]:
    """One call a limit, the last with the end of history, so that nothing waits; the tables."""
    for limit in limits:
        idle = "proceed" if limit is None else "wait"
        for _ in replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), max_records=limit, idle=idle):
            pass
    return tables_of(warehouse, pipeline, topology)


@pytest.mark.parametrize(("seed", "limit"), [(1, 13), (2, 40), (3, 5), (4, 1)])
def test_increments_of_any_size_leave_the_tables_of_one_big_increment(tmp_path, seed, limit):
    warehouse, topology = Warehouse(tmp_path), topologies.everything()
    land_clicks(warehouse, seed, 20 if limit == 1 else RECORDS)

    whole = run(warehouse, topology, "whole", [None])

    assert run(warehouse, topology, "cut", [limit, None]) == whole


@pytest.mark.parametrize(("seed", "limit"), [(1, 13), (2, 5), (3, 30), (4, 2)])
def test_the_same_where_topics_meet(tmp_path, seed, limit):
    warehouse, topology = Warehouse(tmp_path), joined.joined()
    land_topics(warehouse, seed)

    whole = run(warehouse, topology, "whole", [None])

    assert run(warehouse, topology, "cut", [limit, None]) == whole


@pytest.mark.parametrize("seed", [5, 6])
def test_landing_and_replaying_in_turn_leaves_the_tables_of_landing_all_first(tmp_path, seed):
    in_turn, whole = Warehouse(tmp_path / "turn"), Warehouse(tmp_path / "whole")
    topology, rows = topologies.everything(), topologies.tape(seed, RECORDS)
    assert {row.partition for row in rows[:30]} == set(range(topologies.PARTITIONS))
    for warehouse in (in_turn, whole):
        for first, after in ((0, 30), (30, 45), (45, RECORDS)):
            plant(warehouse, "clicks", rows[first:after], partitions=topologies.PARTITIONS)
            newest_ms = max(row.timestamp_ms for row in rows[:after])
            for time_ms, partition in ((newest_ms - 5, None), (newest_ms + 30, 1)):
                record_time(warehouse, "clicks", time_ms, partition=partition)
                if warehouse is in_turn:
                    run(warehouse, topology, "p", [1000])

    assert run(in_turn, topology, "p", [None]) == run(whole, topology, "p", [None])


@pytest.mark.parametrize("emit", ["suppress", "on_window_close"])
def test_what_waits_unseen_in_a_large_store_holds_the_time_back_that_is_passed_on(tmp_path, monkeypatch, emit):
    """
    The count of 100 to 110 has the time 101 and waits, so below it no window of 101 may close before it has gone on.
    """
    monkeypatch.setattr(task_stores, "ALL_BELOW_ROWS", 0)
    monkeypatch.setattr(task_stores, "ALL_BELOW_SHARE", 0)
    builder = StreamsBuilder()
    windows = builder.stream("clicks", Consumed(Serde.string(), Serde.string())).group_by_key()
    windows = windows.windowed_by(TimeWindows.of_size(10, grace=0))
    if emit == "suppress":
        counts = windows.count().suppress(Suppressed.until_window_closes())
    else:
        counts = windows.emit_strategy("on_window_close").count()
    again = counts.to_stream().select_key(lambda key, value: "all", returns=Serde.string()).group_by_key()
    again = again.windowed_by(TimeWindows.of_size(2, grace=0)).count()
    again.suppress(Suppressed.until_window_closes()).to_stream().to("counted")
    warehouse, topology = Warehouse(tmp_path), builder.build()

    plant(warehouse, "clicks", [LandedRecord(0, b"ann", b"home", 101)], partitions=1)
    for time_ms in (105, 110, 300):
        run(warehouse, topology, "p", [None])
        record_time(warehouse, "clicks", time_ms)
    run(warehouse, topology, "p", [None])

    (row,) = read_changelog(warehouse, "p", "counted").to_pylist()
    assert (row["key"], row["window_start_ms"], row["value"], row["record_time_ms"]) == ("all", 100, 1, 101)


# --- law 3 -----------------------------------------------------------------------------------------------------


class Killed(Exception):
    """The process died here."""


@pytest.mark.parametrize("flush_at_end", [False, True])
def test_a_run_that_dies_again_and_again_leaves_the_tables_of_one_that_never_died(tmp_path, flush_at_end):
    """Times that are recorded after an increment was planned are not of it when it is run again."""
    warehouse, topology = Warehouse(tmp_path), topologies.everything()
    land_clicks(warehouse, 7)

    def drive(pipeline: str, last_step: int) -> None:
        steps = 0

        def die(step: str) -> None:
            nonlocal steps
            steps += 1
            if steps == last_step:
                raise Killed(step)

        options = {"idle": "proceed", "flush_at_end": flush_at_end, "max_records": 40, "on_step": die}
        list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), **options))

    with pytest.raises(Killed):
        drive("p", 1)
    record_time(warehouse, "clicks", 100_000)
    for last_step in (2, 9, 16):
        with pytest.raises(Killed):
            drive("p", last_step)
    drive("p", 0)
    drive("never", 0)

    assert tables_of(warehouse, "p", topology) == tables_of(warehouse, "never", topology)
    done = [Ledger(warehouse.pipeline(name).ledger).last_done().content for name in ("p", "never")]
    assert done[0].recorded_to == done[1].recorded_to


def test_recording_that_dies_is_finished_by_the_next_landing_or_recording(tmp_path, monkeypatch):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", topologies.tape(1, 10), partitions=topologies.PARTITIONS)

    def die(*args: object, **options: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(recorded_time, "commit_files", die)
        with pytest.raises(Killed):
            record_time(warehouse, "clicks", 50, partition=1)
    record_time(warehouse, "clicks", 70, partition=1)

    (times,) = recorded_times(warehouse, "clicks", increment=3).values()
    assert [each.time_ms for each in times] == [50, 70]


# --- by arrival ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "limits"), [(31, [None]), (32, [7, None])])
def test_a_replay_by_arrival_gives_what_the_test_driver_gives(tmp_path, seed, limits):
    warehouse, driver = Warehouse(tmp_path), TopologyTestDriver(joined.joined())
    records, generator, arrival, newest_ms = arrivals(seed)[:40], random.Random(seed), 0, 0
    for topic, record in records:
        driver.pipe_bytes(topic, record.key, record.value, record.timestamp_ms)
        table = {"partition": [0], "timestamp": [record.timestamp_ms], "key": [record.key], "value": [record.value]}
        schema = {"partition": pa.int32(), "timestamp": pa.int64(), "key": pa.binary(), "value": pa.binary()}
        columns = {name: pa.array(table[name], kind) for name, kind in schema.items()}
        land_records(warehouse, topic, pa.table({**columns, "arrival": pa.array([arrival])}))
        arrival, newest_ms = arrival + 1, max(newest_ms, record.timestamp_ms)
        if arrival > 12 and generator.random() < 0.3:
            told, time_ms = generator.choice(TOPICS), newest_ms + generator.choice((-20, 0, 40))
            if record_time(warehouse, told, time_ms, arrival=arrival):
                driver.advance_stream_time(told, time_ms)
                arrival += 1

    for limit in limits:
        list(replay(warehouse, joined.joined(), pipeline="p", runner=LocalRunner(), max_records=limit, order="arrival"))

    assert replayed(warehouse, "p") == {
        sink.topic: [
            (found.arrival, found.key, found.window, found.value, found.timestamp_ms)
            for found in driver.read_outputs(sink.topic)
        ]
        for sink in joined.joined().sinks()
    }
