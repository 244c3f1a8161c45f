"""Where branches merge again: rows come in the order in which Kafka would have forwarded them, depth first."""

import numpy as np
import pytest

from kstreams_replay.jobs.kernels.forward_order import merge_two
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, Serde, StreamsBuilder

STRING, LONG = Serde.string(), Serde.long()


def played(build, records: list[tuple[str, int]]) -> list[tuple[str, object]]:
    """(key, value) of the outputs of what ``build`` makes of one topic of longs."""
    builder = StreamsBuilder()
    build(builder.stream("in", Consumed(STRING, LONG))).to("out")
    driver = TopologyTestDriver(builder.build())
    for at, (key, value) in enumerate(records):
        driver.pipe_input("in", key, value, at)
    return [(record.key, record.value) for record in driver.read_outputs("out")]


@pytest.mark.parametrize(
    ("first", "second", "which", "row"),
    [
        ([], [], [], []),
        ([3, 4], [], [0, 0], [0, 1]),
        ([], [3], [1], [0]),
        ([1, 5, 5, 9], [0, 5, 5, 6], [1, 0, 0, 0, 1, 1, 1, 0], [0, 0, 1, 2, 1, 2, 3, 3]),
    ],
)
def test_two_batches_meet_in_the_order_of_causes_the_first_before_the_second(first, second, which, row):
    found = np.empty(len(which), np.int8), np.empty(len(which), np.int64)

    merge_two(np.array(first, np.int32), np.array(second, np.int32), *found)

    assert (found[0].tolist(), found[1].tolist()) == (which, row)


def test_a_records_branches_come_in_the_order_of_the_children_before_the_next_record():
    def build(stream: KStream) -> KStream:
        doubled, negative = stream.map_values("value * 2"), stream.map_values("-value")
        return negative.merge(doubled)

    assert played(build, [("a", 1), ("b", 2)]) == [("a", 2), ("a", -1), ("b", 4), ("b", -2)]


def test_each_output_of_a_node_runs_through_all_below_before_its_next_output():
    """
    A flat_map gives two records; the first goes through both branches before the second does.
    """

    def build(stream: KStream) -> KStream:
        two = stream.flat_map_values(lambda key, value: [value, value + 100], returns=LONG)
        return two.map_values("value * 2").merge(two.map_values("-value"))

    assert [value for _, value in played(build, [("a", 1)])] == [2, -1, 202, -101]


def test_branches_of_branches_keep_their_place_around_a_shorter_one():
    """
    Children of the source in order: x, y, z. x and z are merged first, then y is added: still x, y, z for each record.
    """

    def build(stream: KStream) -> KStream:
        x, y, z = (stream.map_values(f"value + {n}") for n in (10, 20, 30))
        return x.merge(z).merge(y)

    assert [value for _, value in played(build, [("a", 1), ("b", 2)])] == [11, 21, 31, 12, 22, 32]


def test_a_table_joined_with_a_step_of_itself_sees_its_own_put_from_both_sides():
    """
    The source's store has the new value before either side of the join gets the change (KTableSource,
    KTableKTableJoin): an inner join gives the same pair twice.
    """
    builder = StreamsBuilder()
    table = builder.table("in", Consumed(STRING, LONG))
    joined = table.join(table.map_values("value * 10"), lambda one, other: f"{one}|{other}", returns=STRING)
    joined.to("out")
    driver = TopologyTestDriver(builder.build())
    for at, value in enumerate((1, 2)):
        driver.pipe_input("in", "a", value, at)

    assert [record.value for record in driver.read_outputs("out")] == ["1|10", "1|10", "2|20", "2|20"]
