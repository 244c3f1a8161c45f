"""Topics whose records are joined by key have equal numbers of partitions."""

import pytest

from kstreams_replay.jobs.graph.copartitioning import partitions_of
from kstreams_replay.jobs.topology import JoinWindows, StreamsBuilder
from kstreams_replay.state.errors import TopologyError
from tests.topology.streams import LONG, LONGS, stream, table

NEAR = JoinWindows(5, 5, 0)


def joined(left, right):
    return left.join(right, "left", NEAR)


def keep(key, value, aggregate):
    return aggregate


@pytest.mark.parametrize(
    ("use", "counts", "want"),
    [
        (lambda b: stream("a", b).merge(stream("b", b)), {"a": 2, "b": 3}, {"a": 2, "b": 3}),
        (lambda b: joined(stream("a", b), stream("b", b)), {"a": 3, "b": 3}, {"a": 3, "b": 3}),
        (
            lambda b: joined(stream("a", b).repartition(name="r"), stream("b", b)),
            {"a": 2, "b": 3},
            {"a": 2, "b": 3, "r-repartition": 3},
        ),
        (
            lambda b: joined(stream("a", b).repartition(name="r"), stream("b", b).repartition(name="s")),
            {"a": 2, "b": 3},
            {"a": 2, "b": 3, "r-repartition": 3, "s-repartition": 3},
        ),
        (
            lambda b: joined(stream("a", b).repartition(name="r", partitions=5), stream("b", b).repartition(name="s")),
            {"a": 2, "b": 3},
            {"a": 2, "b": 3, "r-repartition": 5, "s-repartition": 5},
        ),
        (
            lambda b: table("a", b).join(table("b", b), "left", foreign_key="record_key", name="f"),
            {"a": 2, "b": 3},
            {"a": 2, "b": 3, "f-subscription-registration-topic": 3, "f-subscription-response-topic": 2},
        ),
        (
            lambda b: stream("a", b).merge(stream("b", b)).repartition(name="r"),
            {"a": 2, "b": 3},
            {"a": 2, "b": 3, "r-repartition": 3},
        ),
        (
            lambda b: joined(joined(stream("a", b), stream("b", b).repartition(name="r")), stream("c", b)),
            {"a": 4, "b": 3, "c": 4},
            {"a": 4, "b": 3, "c": 4, "r-repartition": 4},
        ),
        (
            lambda b: stream("a", b).join(b.global_table("g", LONGS), "left", selector="record_key"),
            {"a": 4, "g": 1},
            {"a": 4},
        ),
    ],
)
def test_a_repartition_table_has_as_many_partitions_as_what_it_is_joined_with(use, counts, want):
    builder = StreamsBuilder()
    use(builder)

    assert partitions_of(builder.build().graph, counts) == want


@pytest.mark.parametrize(
    "use",
    [
        lambda a, b, builder: joined(a, b),
        lambda a, b, builder: a.join(table("t", builder), "left"),
        lambda a, b, builder: joined(a.filter("TRUE"), b.map_values("value")),
        lambda a, b, builder: joined(joined(a, a), b),
        lambda a, b, builder: a.to_table().join(b.to_table(), "left"),
        lambda a, b, builder: joined(a, b.select_key("record_key").repartition(name="r", partitions=3)),
        lambda a, b, builder: (
            a.group_by_key().cogroup(keep).cogroup(b.group_by_key(), keep).aggregate(int, returns=LONG)
        ),
    ],
)
def test_topics_that_differ_are_not_joined(use):
    builder = StreamsBuilder()
    use(stream("a", builder), stream("b", builder), builder)

    with pytest.raises(TopologyError) as caught:
        partitions_of(builder.build().graph, {"a": 2, "b": 3, "t": 3})

    assert str(caught.value).startswith("joined topics: expected as many partitions on both sides, got a has 2, ")
    assert str(caught.value).endswith("put repartition() before the join, or land topics of as many partitions")
