"""Errors name the file and the line of the user's call; nothing else depends on it."""

import inspect
import pickle

import cloudpickle
import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import StreamsBuilder, Topology
from kstreams_replay.orchestration.settings.topology_loading import load_topology
from kstreams_replay.state.errors import ReplayError, TaskFailed, TopologyError
from tests.topology.streams import LONG, LONGS


def halved(value):
    return 7 // value


def line() -> int:
    """Of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def message(topology: Topology, *topics: str) -> str:
    driver = TopologyTestDriver(topology)
    for topic in topics:
        driver.pipe_input(topic, "a", 0, timestamp_ms=1)
    with pytest.raises(TaskFailed) as caught:
        driver.read_outputs("out")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


def test_a_step_that_fails_on_a_record_says_where_it_is_called():
    builder = StreamsBuilder()
    before = line()
    builder.stream("in", LONGS).map_values(halved, returns=LONG).to("out")

    assert message(builder.build(), "in").endswith(f"; it is called in {__file__}, line {before + 1}")


def test_so_does_one_of_a_topology_that_reads_what_it_writes():
    builder = StreamsBuilder()
    before = line()
    builder.stream("in", LONGS).map_values(halved, returns=LONG).to("mid")
    builder.stream("mid", LONGS).to("out")

    assert message(builder.build(), "in").endswith(f"; it is called in {__file__}, line {before + 1}")


def test_so_does_an_aggregate():
    builder = StreamsBuilder()
    grouped = builder.stream("in", LONGS).group_by_key()
    before = line()
    counts = grouped.aggregate(initializer=int, aggregator=lambda key, value, total: 7 // value, returns=LONG)
    counts.to("out")

    assert message(builder.build(), "in").endswith(f"; it is called in {__file__}, line {before + 1}")


def test_so_does_a_joiner():
    builder = StreamsBuilder()
    left, right = builder.table("left", LONGS), builder.table("right", LONGS)
    before = line()
    left.join(right, lambda one, other: one // other, returns=LONG).to("out")

    assert message(builder.build(), "left", "right").endswith(f"; it is called in {__file__}, line {before + 1}")


def test_a_topology_that_a_command_loads_says_where_its_call_is(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(
        "from kstreams_replay import Consumed, Serde, StreamsBuilder\n"
        "orders = StreamsBuilder().stream('orders', Consumed(Serde.string(), Serde.long()))\n"
        "orders.filter('valeu > 1')\n"
    )

    with pytest.raises(TopologyError, match=f"; it is called in {file}, line 3$"):
        load_topology(f"{file}:topology")


def test_a_call_that_is_not_there_says_its_line_too(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text("from kstreams_replay import StreamsBuilder\n\nStreamsBuilder().globalTable('t')\n")

    with pytest.raises(ReplayError, match=f"globalTable is global_table here \\({file}, line 3\\)"):
        load_topology(f"{file}:topology")


def built(at_another_line: bool) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", LONGS)
    if at_another_line:
        stream.map_values("value + 1").to("out")
    else:
        stream.map_values("value + 1").to("out")
    return builder.build()


def test_the_line_is_in_no_fingerprint_no_description_and_no_pickle():
    one, other = built(at_another_line=False), built(at_another_line=True)

    assert one.graph._called_in != other.graph._called_in
    assert one.fingerprint == other.fingerprint
    assert one.describe() == other.describe()
    assert __file__.encode() not in cloudpickle.dumps(one)
    assert pickle.loads(cloudpickle.dumps(one)).graph._called_in == {}


def test_a_place_that_no_call_made_is_left_as_it_is():
    topology = built(at_another_line=False)

    with pytest.raises(TaskFailed, match=r"^elsewhere: expected a, got b; c$"), topology.graph.naming_calls():
        raise TaskFailed("elsewhere", "a", "b", "c")
