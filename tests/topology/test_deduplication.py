"""Deduplication (KIP-655) and reordering: what they are made of, and what they refuse."""

import pytest

from kstreams_replay.jobs.graph.graph import Node
from kstreams_replay.jobs.graph.nodes import RepartitionNode
from kstreams_replay.jobs.operators.aggregates.aggregate_nodes import DistinctNode
from kstreams_replay.jobs.operators.deduplicate_node import DeduplicateNode
from kstreams_replay.jobs.topology import SlidingWindows, StreamsBuilder, TimeWindows
from kstreams_replay.jobs.topology.describe import settings
from kstreams_replay.state.errors import ConfigError
from tests.topology.streams import LONG, STRING, refused, stream, table


def nodes_of(made, kind: type[Node]) -> list:
    return [node for node in made.graph.nodes.values() if isinstance(node, kind)]


@pytest.mark.parametrize(
    ("call", "by"),
    [
        (lambda s: s.deduplicate_by_key("10s", name="once"), "key"),
        (lambda s: s.deduplicate_by_key_value("value", "10s", name="once"), "key-value"),
        (lambda s: s.deduplicate("value", "10s", name="once"), "id"),
    ],
)
def test_a_deduplication_keeps_types_and_names_its_store(call, by):
    made = call(stream())
    (node,) = nodes_of(made, DeduplicateNode)

    assert (node.by, node.interval_ms, node.store) == (by, 10_000, "once-store")
    assert (made.shape.key, made.shape.value) == (STRING, LONG)


def test_records_of_one_key_are_together_already_unless_it_changed():
    assert nodes_of(stream().deduplicate_by_key(5), RepartitionNode) == []
    (above,) = nodes_of(stream().select_key("record_key").deduplicate_by_key(5, name="once"), RepartitionNode)

    assert (above.topic, above.keeps_null_keys, above.is_replay_only) == ("once-by-key-repartition", True, True)


def test_its_repartition_has_the_fingerprint_of_warehouses_written_before():
    """
    The field had another name when they were written.
    """
    made = stream().select_key("record_key").deduplicate_by_key(5)
    (above,) = nodes_of(made, RepartitionNode)

    assert "'target_of': None, 'is_ours': True, 'has_own_offsets': False" in settings(made.graph, above)


def test_a_grouping_after_it_is_repartitioned_as_if_there_had_been_no_deduplication():
    kept = stream().deduplicate_by_key(5).group_by_key().count()
    rekeyed = stream().select_key("record_key").deduplicate_by_key(5).group_by_key().count()

    assert nodes_of(kept, RepartitionNode) == []
    assert [node.is_replay_only for node in nodes_of(rekeyed, RepartitionNode)] == [True, False]


@pytest.mark.parametrize(
    "use",
    [
        lambda s, b: s.group_by_key().count(),
        lambda s, b: s.to_table(),
        lambda s, b: s.join(table("t", b), "left"),
        lambda s, b: s.deduplicate_by_key(5),
        lambda s, b: s.merge(stream("other", b)).group_by_key().count(),
        lambda s, b: s.split(name="b").default_branch()["b0"].filter("TRUE").group_by_key().count(),
    ],
)
def test_after_a_deduplication_by_id_equal_keys_are_brought_together_unseen(use):
    builder = StreamsBuilder()
    made = stream("in", builder).deduplicate("value", 5)
    use(made, builder)

    assert [node.is_replay_only for node in nodes_of(made, RepartitionNode)] == [True, True]


def test_a_repartition_of_ones_own_shows():
    made = stream().deduplicate("value", 5).repartition()

    assert [node.is_replay_only for node in nodes_of(made, RepartitionNode)] == [True, False]
    assert not made.is_scattered


def test_distinct_gives_a_record_a_window():
    windows = stream().group_by_key().windowed_by(TimeWindows.of_size(10))
    made = windows.distinct("value", name="first")
    (node,) = nodes_of(made, DistinctNode)

    assert (made.shape.window, node.store) == ("time", "first-store")


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda s: s.deduplicate_by_key(-1, name="here"), "here interval"),
        (lambda s: s.deduplicate_by_key_value("value", -1, name="here"), "here interval"),
        (lambda s: s.deduplicate("value", -1, name="here"), "here interval"),
        (lambda s: s.reorder_within(-1, name="here"), "here grace"),
    ],
)
def test_an_interval_is_not_negative(call, want):
    assert refused(lambda: call(stream()), ConfigError) == (
        f"{want}: expected 0 ms or more, got -1 ms; correct the duration"
    )


def test_the_smallest_interval_is_nothing():
    assert stream().deduplicate_by_key(0).node.interval_ms == 0
    assert stream().reorder_within(0, name="sorted").node.store == "sorted-store"


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda s: s.deduplicate(lambda key, value: 5, 5, name="here"),
            "here: expected returns= beside a Python callable, got none; give the serde of the result",
        ),
        (
            lambda s: s.group_by_key().distinct(name="here"),
            "here: expected a windowed stream, got no windows; use windowed_by() first",
        ),
        (
            lambda s: s.group_by_key().windowed_by(SlidingWindows(5, 0)).distinct(name="here"),
            "here: expected time or session windows, got SlidingWindows; use TimeWindows or SessionWindows",
        ),
    ],
)
def test_a_deduplication_that_cannot_work_is_refused(call, want):
    assert refused(lambda: call(stream())) == want
