"""Laws where records go round a loop: cut anywhere, killed anywhere, by time as by arrival. The topologies are those of
four real applications; there are two partitions, and records that come late.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.exception_handlers import ExceptionHandlerResponse
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_tick, record_time
from kstreams_replay.jobs.replay import stage_exchange
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.tape import loop_rounds
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import StreamsBuilder, Topology
from kstreams_replay.orchestration.facts import replay_facts, second_run
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.loops import (
    APPLICATIONS,
    PARTITIONS,
    TEXTS,
    Application,
    begun_first,
    repeated_by_the_clock,
    tape,
    time_to_live,
)
from tests.planted import LandedRecord, plant, tables_of

pytestmark = pytest.mark.sampled


def landed(path: Path, application: Application, seed: int) -> Warehouse:
    warehouse = Warehouse(path)
    for number, (topic, values) in enumerate(application.values.items()):
        plant(warehouse, topic, tape(values, seed + number), partitions=PARTITIONS)
    return warehouse


def run(
    warehouse: Warehouse, topology: Topology, pipeline: str, limits: Iterable[int | None], *, order: str = "time"
) -> None:
    """One call a limit, the last with the end of history, so that nothing waits."""
    for limit in limits:
        idle, runner = "proceed" if limit is None else "wait", LocalRunner()
        list(replay(warehouse, topology, pipeline=pipeline, runner=runner, max_records=limit, idle=idle, order=order))


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize(("seed", "max_records"), [(1, 3), (5, 11)])
def test_increments_of_any_size_leave_the_tables_of_one_big_increment(tmp_path, name, seed, max_records):
    application = APPLICATIONS[name]
    warehouse = landed(tmp_path, application, seed)

    run(warehouse, application.topology(), "whole", [None])
    run(warehouse, application.topology(), "cut", [max_records, None])

    whole = tables_of(warehouse, "whole", application.topology())
    assert all(len(whole[f"outputs/{output}"]) > 1 for output in application.outputs)
    assert tables_of(warehouse, "cut", application.topology()) == whole


@pytest.mark.parametrize("name", sorted(APPLICATIONS.keys() - {"joins"}))
def test_where_times_rise_a_replay_by_time_gives_what_the_test_driver_gives(tmp_path, name):
    """Not with joins: of what one record sends to several topics, Kafka leaves open what is read first."""
    application = APPLICATIONS[name]
    topics = list(application.values)
    # times of a topic rise, and no two topics have the same
    records = {
        topic: [
            one._replace(timestamp_ms=len(topics) * one.timestamp_ms + number)
            for one in tape(application.values[topic], 7 + number, is_late=False, partitions=1)
        ]
        for number, topic in enumerate(topics)
    }
    warehouse, driver = Warehouse(tmp_path), TopologyTestDriver(application.topology())
    for topic in topics:
        plant(warehouse, topic, records[topic], partitions=1)
    in_order = sorted((one.timestamp_ms, topic, one) for topic in topics for one in records[topic])
    for _, topic, one in in_order:
        driver.pipe_bytes(topic, one.key, one.value, one.timestamp_ms)

    run(warehouse, application.topology(), "p", [10, None])

    for output in application.outputs:
        rows = read_table(warehouse, "p", f"outputs/{output}").sort_by("offset").to_pylist()
        got = [(row["key"], row["value"], row["record_time_ms"]) for row in rows]
        assert got == [(one.key, one.value, one.timestamp_ms) for one in driver.read_outputs(output)]


REFUSES_MANY = {"validations": (1, 2), "begun first": (1,)}
"""Increments in which an operator refuses most of what comes to it: a stream join the tombstones of a filtered table, a
function records that come before what they are about."""


@pytest.mark.parametrize("name", APPLICATIONS)
def test_all_guarantees_hold_of_every_increment(tmp_path, name):
    application = APPLICATIONS[name]
    warehouse, topology = landed(tmp_path, application, 3), application.topology()

    run(warehouse, topology, "p", [9, None])

    for increment in (1, 2):
        again = second_run(warehouse, "p", topology)
        verdicts = check_increment(warehouse, "p", replay_facts(topology), increment, engine="plain", again=again)
        others = {(one.guarantee, one.answer) for one in verdicts if one.answer != "true"}
        # no table has the values of a topic that others write, too, which the foreign-key join reads
        want = {("G16", "unchecked")} if name == "joins" else set()
        assert others == want | ({("G12", "false")} if increment in REFUSES_MANY.get(name, ()) else set())


class Died(Exception):
    pass


@pytest.mark.parametrize(
    "deadly", ["planned 1", "computed 1", "committed outputs/fed 1", "committed repartition/fed 1"]
)
def test_a_run_that_dies_and_is_run_again_leaves_the_tables_of_one_that_did_not(tmp_path, deadly):
    application = APPLICATIONS["circle"]
    warehouse, topology = landed(tmp_path, application, 2), application.topology()

    def dies(step: str) -> None:
        if step == deadly:
            raise Died

    with pytest.raises(Died):
        list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=9, on_step=dies))
    run(warehouse, topology, "p", [None])
    run(warehouse, topology, "whole", [None])

    assert tables_of(warehouse, "p", topology) == tables_of(warehouse, "whole", topology)


# --- recorded time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_records", [None, 2])
def test_a_recorded_time_calls_the_schedule_whose_tombstones_go_round(tmp_path, max_records):
    """Nobody has written "a" for 20 ms of stream time when 30 ms are recorded: the tombstone clears the table."""
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "users", [LandedRecord(0, b"a", b"u", 5)], partitions=1)
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"c", 6), LandedRecord(0, b"a", b"d", 40)], partitions=1)
    record_time(warehouse, "users", 30)

    run(warehouse, time_to_live(), "p", [max_records, None])

    users = read_table(warehouse, "p", "outputs/users").to_pylist()
    assert [(row["key"], row["value"], row["record_time_ms"]) for row in users] == [("a", None, 30)]
    named = read_table(warehouse, "p", "outputs/named").sort_by("offset").to_pylist()
    assert [(row["value"], row["record_time_ms"]) for row in named] == [("c+u", 6), ("d+None", 40)]


@pytest.mark.parametrize("max_records", [None, 1])
def test_a_tick_of_the_wall_clock_goes_round(tmp_path, max_records):
    """A schedule by the wall clock sends what it has seen once more; the driver's answer is Kafka's."""
    warehouse, driver = Warehouse(tmp_path), TopologyTestDriver(repeated_by_the_clock())
    columns = {"timestamp": [0], "key": [b"a"], "value": [b"x"], "arrival": [1]}
    land_records(warehouse, "in", pa.table({"partition": pa.array([0], pa.int32()), **columns}))
    record_tick(warehouse, "in", 0, arrival=0)
    driver.pipe_input("in", "a", "x", 0)
    for arrival, tick_ms in ((2, 5), (3, 10)):
        record_tick(warehouse, "in", tick_ms, arrival=arrival)
        driver.advance_wall_clock_time(5)

    for limit in (max_records, None):
        runner, topology = LocalRunner(), repeated_by_the_clock()
        list(replay(warehouse, topology, pipeline="p", runner=runner, max_records=limit, order="arrival"))

    rows = read_table(warehouse, "p", "outputs/again").sort_by("offset").to_pylist()
    got = [(row["arrival"], row["value"]) for row in rows]
    assert got == [(2, "x!"), (2, "x!!"), (3, "x!!!")]
    assert got == [(one.arrival + 1, one.value) for one in driver.read_outputs("again")]


# --- functions that fail -------------------------------------------------------------------------------------


def landed_by_arrival(path: Path, *records: tuple[str, str]) -> Warehouse:
    """One a millisecond, one an arrival."""
    warehouse, numbers = Warehouse(path), list(range(len(records)))
    keys, values = ([one.encode() for one in column] for column in zip(*records, strict=True))
    columns = {"timestamp": numbers, "key": keys, "value": values, "arrival": numbers}
    partition = pa.array([0] * len(records), pa.int32())
    land_records(warehouse, "in", pa.table({"partition": partition, **columns}))
    return warehouse


def used(warehouse: Warehouse) -> list[tuple[str, object]]:
    rows = read_table(warehouse, "p", "outputs/used").sort_by("offset").to_pylist()
    return [(row["key"], row["value"]) for row in rows]


BEGUN = (("a", "begin"), ("b", "begin"), ("a", "1"), ("b", "2"))
USED = {
    "joiner": [("a", "1bb"), ("b", "2bb")],
    "aggregator": [("a", {"n": 0}), ("b", {"n": 0}), ("a", {"n": 1}), ("b", {"n": 1})],
}


@pytest.mark.parametrize("max_records", [None, 1])
@pytest.mark.parametrize("fails_in", USED)
@pytest.mark.parametrize("order", ["time", "arrival"])
def test_a_function_that_fails_only_until_what_went_round_is_there_ends_nothing(tmp_path, order, fails_in, max_records):
    warehouse = landed_by_arrival(tmp_path, *BEGUN)

    run(warehouse, begun_first(fails_in=fails_in), "p", [max_records, None], order=order)

    assert used(warehouse) == USED[fails_in]


@pytest.mark.parametrize("order", ["time", "arrival"])
def test_what_comes_before_a_failing_record_goes_round_however_many_there_are(tmp_path, order):
    keys = [f"{number:02}" for number in range(60)]
    warehouse = landed_by_arrival(tmp_path, *((key, "begin") for key in keys), *((key, "1") for key in keys))

    run(warehouse, begun_first(fails_in="aggregator"), "p", [None], order=order)

    assert used(warehouse) == [(key, {"n": number}) for number in (0, 1) for key in keys]


@pytest.mark.parametrize("max_records", [None, 1])
@pytest.mark.parametrize(
    ("fails_in", "said"),
    [("joiner", "ValueError: not begun on '3' and None"), ("aggregator", "KeyError: 'n' on key 'c'")],
)
@pytest.mark.parametrize("order", ["time", "arrival"])
def test_a_function_that_fails_in_the_end_ends_the_run(tmp_path, order, fails_in, said, max_records):
    warehouse = landed_by_arrival(tmp_path, *BEGUN, ("c", "3"), ("a", "4"))

    with pytest.raises(TaskFailed) as caught:
        run(warehouse, begun_first(fails_in=fails_in), "p", [max_records, None], order=order)

    assert (caught.value.place, caught.value.got) == ("use", said)


@pytest.mark.parametrize("max_records", [None, 1])
@pytest.mark.parametrize("order", ["time", "arrival"])
def test_a_handler_is_asked_about_what_fails_in_the_end_and_nothing_else(tmp_path, order, max_records):
    warehouse, asked = landed_by_arrival(tmp_path, *BEGUN, ("c", "3"), ("a", "4")), []

    def handler(context, record, exception):
        asked.append((context.offset, record.key, record.value))
        return ExceptionHandlerResponse.CONTINUE

    run(warehouse, begun_first(handler), "p", [max_records, None], order=order)

    assert set(asked) == {(4, "c", "3")}  # more than once, since functions of new code are tried twice
    assert used(warehouse) == [*USED["joiner"], ("a", "4bb")]
    dropped = read_table(warehouse, "p", "dropped").to_pylist()
    assert [(row["node"], row["reason"], row["offset"]) for row in dropped] == [("use", "processing-exception", 4)]


# --- without end ---------------------------------------------------------------------------------------------


def without_end() -> Topology:
    builder = StreamsBuilder()
    builder.stream(["in", "again"], TEXTS, name="all").filter("value <> 'good'", name="bad").to("again", name="back")
    return builder.build()


PATH = "topic 'again' → all → bad → back → topic 'again'"


def test_a_record_that_goes_round_without_end_ends_the_replay(tmp_path, monkeypatch):
    monkeypatch.setattr(stage_exchange, "ROUNDS_MAX", 5)
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [LandedRecord(0, b"a", b"good", 1), LandedRecord(0, b"b", b"bad", 2)], partitions=1)

    with pytest.raises(TaskFailed) as caught:
        run(warehouse, without_end(), "p", [None])

    assert str(caught.value) == (
        f"topic 'again': expected records that leave the loop {PATH} after a while, got after 6 runs of the same "
        "records one of the key b'b' that still goes round; end the loop before to(): filter what is done, or count "
        "the rounds in the value or in a header. If it has an end, take fewer records an increment (max_records), "
        "which changes no result"
    )


def test_a_record_that_goes_round_without_end_ends_the_test_driver(monkeypatch):
    monkeypatch.setattr(loop_rounds, "ROUNDS_MAX", 5)
    driver = TopologyTestDriver(without_end())
    driver.pipe_input("in", "a", "good", 1)
    driver.pipe_input("in", "b", "bad", 2)

    with pytest.raises(TaskFailed) as caught:
        driver.run()

    assert str(caught.value) == (
        f"topic 'again': expected records that leave the loop {PATH} after a while, got after 5 rounds one of the "
        "key b'b' that still goes round; end the loop before to(): filter what is done, or count the rounds in the "
        "value or in a header"
    )
    assert caught.value.record.key == "b"
