"""A result of which some part is not of its serde: whatever function gave it, the error names the part."""

import collections
import dataclasses
from typing import NamedTuple

import pytest

from kstreams_replay import (
    Consumed,
    JoinWindows,
    Processor,
    Serde,
    StreamsBuilder,
    TopologyTestDriver,
    ValueTransformerWithKey,
)
from kstreams_replay.state.errors import TaskFailed

STRING = Serde.string()
NESTED = Serde.json("who string, orders array<struct<n int>>")
WRONG = {"who": "ann", "orders": [{"n": 1}, {"n": "2"}]}
GOT = "'2' (str), in field orders[1], field n instead of an int"
NEAR = JoinWindows.of_time_difference_with_no_grace(10)


class Forwards(Processor):
    def process(self, record):
        self.context.forward(record.with_value(WRONG))


class Transforms(ValueTransformerWithKey):
    def transform(self, key, value):
        return WRONG


def stream(builder, topic="in"):
    return builder.stream(topic, Consumed(STRING, STRING))


def table(builder, topic="in"):
    return builder.table(topic, Consumed(STRING, STRING))


GIVEN = {
    "map_values": lambda b: stream(b).map_values(lambda value: WRONG, returns=NESTED),
    "flat_map_values": lambda b: stream(b).flat_map_values(lambda value: [WRONG], returns=NESTED),
    "map": lambda b: stream(b).map(lambda key, value: (key, WRONG), returns_key=STRING, returns=NESTED),
    "select_key": lambda b: stream(b).select_key(lambda key, value: WRONG, returns=NESTED),
    "process": lambda b: stream(b).process(Forwards, returns_key=STRING, returns=NESTED),
    "aggregate": lambda b: (
        stream(b).group_by_key().aggregate(lambda: None, lambda key, value, one: WRONG, returns=NESTED)
    ),
    "grouped table": lambda b: (
        table(b)
        .group_by("value")
        .aggregate(lambda: None, lambda key, value, one: WRONG, lambda key, value, one: WRONG, returns=NESTED)
    ),
    "stream join": lambda b: stream(b).join(stream(b, "other"), lambda left, right: WRONG, NEAR, returns=NESTED),
    "table join": lambda b: table(b).join(table(b, "other"), lambda left, right: WRONG, returns=NESTED),
    "transform_values": lambda b: table(b).transform_values(Transforms, returns=NESTED),
}


@pytest.mark.parametrize("call", GIVEN)
def test_the_part_that_does_not_fit_is_named(call):
    builder = StreamsBuilder()
    GIVEN[call](builder).to("out")
    driver = TopologyTestDriver(builder.build())
    for topic in ("other", "in") if "join" in call else ("in",):
        driver.pipe_input(topic, "k", "v", timestamp_ms=0)

    with pytest.raises(TaskFailed) as raised:
        driver.run()

    assert raised.value.got.startswith(GOT)


@pytest.mark.parametrize(
    ("serde", "result", "got"),
    [
        (Serde.json("n long"), {"n": 1, "m": 2}, "the field 'm', which is not declared, instead of only the fields n"),
        (Serde.json("map<string, long>"), {1: 1}, "1 (int), in a key instead of a str"),
        (Serde.json("array<long>"), [1, "x"], "'x' (str), in [1] instead of a long"),
        (Serde.json("n long"), "x", "'x' (str) on key"),
        (STRING, 5, "5 (int) on key"),
    ],
    ids=repr,
)
def test_what_is_said_of_a_part_and_of_the_whole(serde, result, got):
    builder = StreamsBuilder()
    stream(builder).map_values(lambda value: result, returns=serde).to("out")
    driver = TopologyTestDriver(builder.build())
    for number in range(12):  # rows of several digits
        driver.pipe_input("in", "k", "v", timestamp_ms=number)

    with pytest.raises(TaskFailed) as raised:
        driver.run()

    assert raised.value.got.startswith(got)


async def later(value):
    return value


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (
            lambda value: value.upper,
            "<built-in method upper of str object> (builtin_function_or_method), which nobody calls",
        ),
        (lambda value: str, "<class 'str'> (type), which nobody calls"),
        (lambda value: later(value), "<coroutine object later> (coroutine), which nobody awaits"),
        (lambda value: (one for one in value), " (generator), which nobody iterates"),
        (lambda value: b"x", "b'x' (bytes) on key"),
    ],
    ids=["a method", "a class", "a coroutine", "a generator", "another value"],
)
@pytest.mark.filterwarnings("error")
def test_what_stands_for_its_result_is_said_to_be_unused(function, got):
    builder = StreamsBuilder()
    stream(builder).map_values(function, returns=STRING).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=0)

    with pytest.raises(TaskFailed) as raised:
        driver.run()

    assert got in raised.value.got


class Point(NamedTuple):
    n: int


@dataclasses.dataclass
class Place:
    n: int


class Model:
    def model_dump(self):
        return {"n": 1}


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (Place(1), "Place(n=1) (Place), of which dataclasses.asdict(…) makes a dict"),
        (Point(1), "Point(n=1) (Point), of which _asdict() makes a dict"),
        (Model(), " (Model), of which model_dump() makes a dict"),
        ({"items": {3}}, "{3} (set), of which sorted(…) makes a list, in field items"),
        ({"items": collections.deque([3])}, "deque([3]) (deque), of which list(…) makes a list, in field items"),
        ({"items": "three"}, "'three' (str), in field items"),
        ({"items": {"a": 1}}, "{'a': 1} (dict), in field items"),
        ([1], "[1] (list) on key"),
    ],
    ids=["dataclass", "named tuple", "model", "set", "deque", "text", "mapping", "list"],
)
def test_an_object_of_the_same_parts_is_refused_with_what_makes_a_dict_or_list_of_it(result, got):
    builder = StreamsBuilder()
    stream(builder).map_values(lambda value: result, returns=Serde.json("n long, items array<long>")).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=0)

    with pytest.raises(TaskFailed) as raised:
        driver.run()

    assert got in raised.value.got
