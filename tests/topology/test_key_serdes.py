"""Keys of one type that two serdes write: a step says by ``returns`` how its keys are written, and errors say where."""

import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, KTable, Serde, StreamsBuilder
from kstreams_replay.state.errors import TopologyError

ID, OTHER_ID = (
    Serde.avro(f'{{"type":"record","name":"{name}","fields":[{{"name":"id","type":"long"}}]}}') for name in ("A", "B")
)


def of_two_serdes() -> tuple[StreamsBuilder, KStream, KTable]:
    builder = StreamsBuilder()
    stream = builder.stream("a", Consumed(Serde.string(), Serde.json("of struct<id: long>")))
    return builder, stream, builder.table("t", Consumed(OTHER_ID, Serde.string()))


@pytest.mark.parametrize(
    ("join", "next_step"),
    [
        (
            lambda stream, t, builder: stream.select_key("of", returns=ID).join(t, "right"),
            """write those of one side as the other's, by select_key("record_key", returns=...)""",
        ),
        (
            lambda stream, t, builder: stream.to_table().join(t, "right", foreign_key="of"),
            "give foreign_key_returns= the serde of the table's keys",
        ),
        (
            lambda stream, t, builder: stream.join(
                builder.global_table("g", Consumed(OTHER_ID, Serde.string())), "right", selector="of"
            ),
            "give selector_returns= the serde of the table's keys",
        ),
        (
            lambda stream, t, builder: stream.select_key("of", returns=Serde.long()),
            "leave returns= out, or CAST(...) in the expression",
        ),
    ],
    ids=["both sides", "foreign key", "global table", "another type"],
)
def test_keys_of_one_type_and_two_serdes_are_told_which_argument_writes_them(join, next_step):
    builder, stream, t = of_two_serdes()

    with pytest.raises(TopologyError) as caught:
        join(stream, t, builder)

    assert str(caught.value).endswith(next_step)


def test_an_expression_s_keys_are_written_by_the_serde_that_returns_names():
    """
    To the table's Avro keys, in a join, by a foreign key and with a global table.
    """
    builder, stream, t = of_two_serdes()
    everything = builder.global_table("g", Consumed(OTHER_ID, Serde.string()))
    stream.select_key("of", returns=OTHER_ID).join(t, "right").to("joined")
    stream.to_table().join(t, "right", foreign_key="of", foreign_key_returns=OTHER_ID).to("by-foreign-key")
    stream.join(everything, "right", selector="of", selector_returns=OTHER_ID).to("with-all")
    driver = TopologyTestDriver(builder.build())
    for topic in ("t", "g"):
        driver.pipe_input(topic, {"id": 7}, "seven", 0)
    driver.pipe_input("a", "x", {"of": {"id": 7}}, 1)

    got = [driver.read_output(output) for output in ("joined", "by-foreign-key", "with-all")]

    assert [(one.key, one.value) for one in got] == [({"id": 7}, "seven"), ("x", "seven"), ("x", "seven")]


def test_the_fields_of_a_value_are_written_by_the_serde_that_returns_names():
    _, stream, _ = of_two_serdes()

    made = stream.map_values(id="of.id + 1", returns=OTHER_ID)

    assert made.shape.value == OTHER_ID
    with pytest.raises(TopologyError, match=r"leave returns= out, or CAST\(\.\.\.\) in the expression"):
        stream.map_values(id="record_key", returns=OTHER_ID)
