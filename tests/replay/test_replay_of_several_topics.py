"""Replays of several topics together: global tables over increments, partitions that agree, arrivals that must be
there.
"""

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import LandingError, TopologyError
from kstreams_replay.state.tables.ledger import LandingLedger, Ledger
from kstreams_replay.state.tables.ledger_rows import LandingPlanRow
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.landed_records import records

STRING = Serde.string()


def with_global_table() -> Topology:
    builder = StreamsBuilder()
    rates = builder.global_table("rates", Consumed(STRING, STRING))
    orders = builder.stream("orders", Consumed(STRING, STRING))
    orders.left_join(rates, lambda order, rate: f"{order}+{rate}", selector="value", returns=STRING).to("out")
    return builder.build()


def with_table() -> Topology:
    builder = StreamsBuilder()
    rates = builder.table("rates", Consumed(STRING, STRING))
    orders = builder.stream("orders", Consumed(STRING, STRING))
    orders.left_join(rates, lambda order, rate: f"{order}+{rate}", returns=STRING).to("out")
    return builder.build()


def run(warehouse: Warehouse, topology: Topology, pipeline: str = "p", **options) -> list[str]:
    """Values of the output, by partition."""
    for _ in replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), idle="proceed", **options):
        pass
    rows = read_table(warehouse, pipeline, "outputs/out").to_pylist()
    return [row["value"] for row in sorted(rows, key=lambda row: (row["partition"], row["offset"]))]


@pytest.mark.parametrize("max_records", [1, 2, None])
def test_every_task_sees_all_of_a_global_table_whatever_increment_brought_it(warehouse, max_records):
    """
    The rate of x is 1 from time 1 on and 3 from 50 on, that of y is 2 from 2 on; orders are in other partitions.
    """
    rates = records(
        (0, 1, b"x", b"1"), (1, 2, b"y", b"2"), (0, 50, b"x", b"3"), (1, 55, b"y", None), (0, 56, None, b"9")
    )
    land_records(warehouse, "rates", rates, partitions=2)
    orders = ((0, 10, b"a", b"x"), (0, 70, b"a", b"y"), (1, 60, b"b", b"x"), (2, 11, b"c", b"y"))
    land_records(warehouse, "orders", records(*orders), partitions=3)

    got = run(warehouse, with_global_table(), max_records=max_records)

    assert got == ["x+1", "y+None", "x+3", "y+2"]


def test_the_tape_of_two_topics_reaches_the_time_of_the_latest_record_though_nobody_can_read_it(warehouse):
    """
    The order at 90 is no text: a dead letter, which has no effect on stream time.
    """
    land_records(warehouse, "rates", records((0, 5, b"a", b"1")), partitions=1)
    land_records(warehouse, "orders", records((0, 10, b"a", b"x"), (0, 90, b"a", b"\xff")), partitions=1)

    assert run(warehouse, with_table()) == ["x+1"]

    done = Ledger(warehouse.pipeline("p").ledger).last_done()
    assert done is not None
    (task,) = done.content.tasks.values()
    assert (task.stream_time_ms, task.tape_time_ms) == (10, 90)


@pytest.mark.parametrize("max_records", [1, 2, None])
def test_records_from_a_repartition_table_meet_a_global_table_at_the_time_of_their_cause(warehouse, max_records):
    """
    The task behind the repartition reads no landed topic but the global table's.
    """
    rates = records((0, 1, b"x", b"1"), (1, 2, b"y", b"2"), (0, 50, b"x", b"3"), (1, 65, b"y", None))
    land_records(warehouse, "rates", rates, partitions=2)
    orders = ((0, 10, b"a", b"x"), (0, 70, b"a", b"y"), (1, 60, b"b", b"x"), (2, 11, b"c", b"y"))
    land_records(warehouse, "orders", records(*orders), partitions=3)
    builder = StreamsBuilder()
    table = builder.global_table("rates", Consumed(STRING, STRING))
    by_rate = builder.stream("orders", Consumed(STRING, STRING)).select_key("value").repartition()
    by_rate.left_join(table, lambda order, rate: f"{order}+{rate}", selector="record_key", returns=STRING).to("out")

    got = run(warehouse, builder.build(), max_records=max_records)

    assert sorted(got) == ["x+1", "x+3", "y+2", "y+None"]


def test_topics_that_are_joined_must_have_as_many_partitions(warehouse):
    land_records(warehouse, "rates", records((0, 1, b"x", b"1")), partitions=2)
    land_records(warehouse, "orders", records((0, 1, b"x", b"1")), partitions=3)

    with pytest.raises(TopologyError) as error:
        run(warehouse, with_table())

    assert error.value.got == "rates has 2, orders has 3"


def test_a_replay_by_arrival_follows_arrivals_and_not_times(warehouse):
    land_records(warehouse, "rates", records((0, 100, b"a", b"late"), arrivals=[0]))
    land_records(warehouse, "orders", records((0, 1, b"a", b"o"), arrivals=[1]))

    assert run(warehouse, with_table(), "by-arrival", order="arrival") == ["o+late"]
    assert run(warehouse, with_table(), "by-time") == ["o+None"]


def test_a_replay_by_arrival_needs_arrivals(warehouse):
    land_records(warehouse, "rates", records((0, 100, b"a", b"late"), arrivals=[0]))
    land_records(warehouse, "orders", records((0, 1, b"a", b"o")))

    with pytest.raises(LandingError) as error:
        run(warehouse, with_table(), order="arrival")

    assert error.value.expected == 'a column "arrival" with a number for every record'


def test_an_unfinished_landing_is_only_finished_with_its_own_records(warehouse):
    land_records(warehouse, "t", records((0, 1, b"a", b"1")))
    ledger = LandingLedger(warehouse.landing_ledger("t"))
    done = ledger.last_done()
    landed = done.content
    planned = LandingPlanRow(partitions=1, cut_from=landed.cut_to, cut_to={"0": 2}, source=landed.source)
    ledger.plan(2, planned, written_at_ms=0)

    with pytest.raises(LandingError) as error:
        land_records(warehouse, "t", records((0, 2, b"b", b"2")))

    assert error.value.expected == "the records of the unfinished increment 2"


def test_done_rows_do_not_depend_on_how_many_increments_a_call_runs(warehouse):
    """
    The last increment reads no rate; how far rates have come is known from the one before.
    """
    land_records(warehouse, "rates", records((0, 1, b"x", b"1"), (0, 5, b"x", b"3")))
    land_records(warehouse, "orders", records((0, 2, b"x", b"a"), (0, 9, b"x", b"b")))

    run(warehouse, with_table(), "at-once", max_records=1)
    for _ in range(4):
        run(warehouse, with_table(), "one-by-one", max_records=1, increments=1)

    times = {
        name: [row.content.tape_times for row in Ledger(warehouse.pipeline(name).ledger).done_rows()]
        for name in ("at-once", "one-by-one")
    }
    assert times["at-once"] == times["one-by-one"]
    assert times["at-once"][-1] == {"rates": {"0": 5}, "orders": {"0": 9}}


def test_the_time_that_a_topic_has_reached_does_not_fall(warehouse):
    for landing, rate_ms, order_ms in ((1, 5, 9), (2, 3, 12)):
        land_records(warehouse, "rates", records((0, rate_ms, b"x", b"%d" % landing)))
        land_records(warehouse, "orders", records((0, order_ms, b"x", b"a")))
        run(warehouse, with_table(), "late")

    times = [row.content.tape_times for row in Ledger(warehouse.pipeline("late").ledger).done_rows()]
    assert times == [{"rates": {"0": 5}, "orders": {"0": 9}}, {"rates": {"0": 5}, "orders": {"0": 12}}]
