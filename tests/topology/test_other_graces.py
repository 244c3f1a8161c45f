"""A topology with other graces is the one that would have been written with them."""

import pytest

from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
    fold,
)
from kstreams_replay.state.errors import ConfigError, TopologyError

STRING = Serde.string()
KEEPS_200 = Materialized(retention=200)


def built(semantics: str = "kafka", **graces: int) -> Topology:
    """Every node that has a grace, 10 ms unless ``graces`` says otherwise by its name."""
    builder = StreamsBuilder(semantics)
    grace = dict.fromkeys(("hopping", "sessions", "sliding", "kept", "closing", "both", "first", "met"), 10) | graces
    one, two = (builder.stream(topic, Consumed(STRING, STRING)) for topic in ("one", "two"))
    grouped = one.group_by_key()
    hopping = TimeWindows.of_size(30, grace=grace["hopping"]).advance_by(10)
    counts = grouped.windowed_by(hopping).count(name="hopping")
    counts.filter("value > 0").suppress(Suppressed.until_window_closes(name="final")).to("counts")
    counts.suppress(Suppressed.until_time_limit(7, name="calm")).to("calm")
    sessions = SessionWindows.with_inactivity_gap(20, grace=grace["sessions"])
    grouped.windowed_by(sessions).count(name="sessions").suppress(Suppressed.until_window_closes()).to("sessions")
    grouped.windowed_by(SlidingWindows.of_time_difference(5, grace=grace["sliding"])).count(name="sliding").to("slid")
    kept = TimeWindows.of_size(30, grace=grace["kept"])
    grouped.windowed_by(kept).aggregate(fold.count(), materialized=KEEPS_200, name="kept").to("kept")
    closing = TimeWindows.of_size(30, grace=grace["closing"])
    grouped.windowed_by(closing).emit_strategy("on_window_close").count(name="closing").to("closed")
    grouped.windowed_by(TimeWindows.of_size(30, grace=grace["first"])).distinct(name="first").to("first")
    both = grouped.cogroup(lambda key, value, so_far: so_far + value)
    both = both.cogroup(two.group_by_key(), lambda key, value, so_far: so_far + value)
    both.windowed_by(TimeWindows.of_size(30, grace=grace["both"])).aggregate(
        lambda: "", returns=STRING, name="both"
    ).to("both")
    met = JoinWindows.of_time_difference_and_grace(5, grace["met"])
    one.left_join(two, lambda left, right: f"{left}{right}", met, returns=STRING, name="met").to("met")
    return builder.build()


MET = "met-merge"
"""The join's own name."""


@pytest.mark.parametrize("semantics", ["kafka", "kip"])
@pytest.mark.parametrize("grace", [0, 25, 170])
def test_each_node_is_what_it_would_be_with_that_grace(semantics, grace):
    given = built(semantics)
    before = given.fingerprint
    nodes = [node.name for node in given.graph.nodes.values() if node.given_grace_ms is not None]
    assert sorted(nodes) == ["both-cogroup-merge", "closing", "first", "hopping", "kept", MET, "sessions", "sliding"]

    for name in nodes:
        other = given.with_graces({name: grace})
        assert (
            other.fingerprint
            == built(semantics, **{name.removesuffix("-merge").removesuffix("-cogroup"): grace}).fingerprint
            != before
        )
        assert other.describe() == given.describe()
    assert given.fingerprint == before


def test_a_retention_that_was_asked_for_stays_while_it_is_long_enough():
    found = [built().with_graces({"kept": grace}).graph.nodes["kept"].retention_ms for grace in (100, 170, 171)]  # type: ignore[attr-defined]

    assert found == [200, 200, 201]
    assert built().with_graces({"kept": 100}).fingerprint == built(kept=100).fingerprint


def test_several_at_once():
    assert built().with_graces({"hopping": 3, MET: 4}).fingerprint == built(hopping=3, met=4).fingerprint


def test_what_has_no_grace_is_refused():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, STRING))
    stream.group_by_key().windowed_by(UnlimitedWindows.of(0)).count(name="ever").to("out")
    topology = builder.build()

    with pytest.raises(ConfigError, match="expected windows that close, got unlimited windows"):
        topology.with_graces({"ever": 5})
    with pytest.raises(TopologyError, match="expected windows with a grace, got none"):
        topology.with_graces({"KSTREAM-SOURCE-0000000000": 5})
    with pytest.raises(ConfigError, match=r"grace of 'nobody': expected a node of the topology, and 0 ms or more"):
        topology.with_graces({"nobody": 5})
    with pytest.raises(ConfigError, match="got -1 ms"):
        built().with_graces({MET: -1})
