"""Kafka's objects of options: a call that is given one is the call with the keywords."""

import pytest

from kstreams_replay import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Named,
    Produced,
    Repartitioned,
    Serde,
    StreamJoined,
    StreamsBuilder,
    TableJoined,
)
from kstreams_replay.state.errors import TopologyError

TEXT, LONG = Serde.string(), Serde.long()
WORDS = Consumed(TEXT, TEXT)
NEAR = JoinWindows(5, 5, 0)


def first(topic, key, value, partitions):
    return 0


def described(call):
    builder = StreamsBuilder()
    stream, other = builder.stream("in", WORDS), builder.stream("other", WORDS)
    call(stream, other, builder)
    topology = builder.build()
    return topology.describe(), topology.fingerprint


PAIRS = {
    "Named": (
        lambda s, o, b: s.filter("TRUE", Named.as_("all")).merge(o, Named.as_("x").with_name("both")).to("out"),
        lambda s, o, b: s.filter("TRUE", name="all").merge(o, name="both").to("out"),
    ),
    "Grouped": (
        lambda s, o, b: s.group_by(lambda key, value: 5, Grouped.with_(LONG, TEXT, "five")).count().to_stream().to("n"),
        lambda s, o, b: s.group_by(lambda key, value: 5, returns=LONG, name="five").count().to_stream().to("n"),
    ),
    "Grouped by key": (
        lambda s, o, b: s.select_key("value").group_by_key(Grouped.as_("five")).count(),
        lambda s, o, b: s.select_key("value").group_by_key(name="five").count(),
    ),
    "Joined": (
        lambda s, o, b: s.join(
            o.to_table(materialized=Materialized.versioned("t", 50)), "left", Joined.as_("j").with_grace_period(5)
        ).to("out"),
        lambda s, o, b: s.join(o.to_table(materialized=Materialized.versioned("t", 50)), "left", name="j", grace=5).to(
            "out"
        ),
    ),
    "StreamJoined": (
        lambda s, o, b: s.join(o, "left", NEAR, StreamJoined.as_("pairs").with_name("j")).to("out"),
        lambda s, o, b: s.join(o, "left", NEAR, materialized=Materialized.as_("pairs"), name="j").to("out"),
    ),
    "TableJoined": (
        lambda s, o, b: s.to_table().join(o.to_table(), "left", TableJoined.as_("j")),
        lambda s, o, b: s.to_table().join(o.to_table(), "left", name="j"),
    ),
    "TableJoined of partitioners": (
        lambda s, o, b: s.to_table().join(
            o.to_table(), "left", TableJoined.with_(first, None).with_other_partitioner(first), foreign_key="record_key"
        ),
        lambda s, o, b: s.to_table().join(
            o.to_table(), "left", foreign_key="record_key", partitioner=first, other_partitioner=first
        ),
    ),
    "Repartitioned": (
        lambda s, o, b: s.repartition(Repartitioned.as_("r").with_number_of_partitions(3)).to("out"),
        lambda s, o, b: s.repartition(name="r", partitions=3).to("out"),
    ),
    "Produced": (
        lambda s, o, b: s.to("out", Produced.as_("write")),
        lambda s, o, b: s.to("out", name="write"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_call_with_options_is_the_call_with_keywords(name):
    with_options, with_keywords = PAIRS[name]

    assert described(with_options) == described(with_keywords)


def test_options_that_a_call_does_not_have_are_refused():
    stream = StreamsBuilder().stream("in", WORDS)

    with pytest.raises(TopologyError, match="expected options that this call has, got Joined"):
        stream.filter("TRUE", Joined.as_("j").with_grace_period(5))
    with pytest.raises(TopologyError, match="takes no such name, or has it twice"):
        stream.filter("TRUE", Named.as_("a"), name="b")
