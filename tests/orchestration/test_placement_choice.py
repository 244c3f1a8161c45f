"""Which way of placing tasks was chosen: what is given counts before the environment, and one machine has no choice."""

import pytest

from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, STICKY, PlacementSettings
from kstreams_replay.orchestration.placement.choice import placement_of
from kstreams_replay.orchestration.resources import SparkEngine
from kstreams_replay.state.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch):
    for name in ("PLACEMENT", "NUM_STANDBY_REPLICAS", "MAX_WARMUP_REPLICAS", "RACK_AWARE_ASSIGNMENT_TAGS",
                 "RACK_AWARE_ASSIGNMENT_STRATEGY"):  # fmt: skip
        monkeypatch.delenv(f"REPLAY_{name}", raising=False)


def test_nothing_chosen_leaves_placing_to_spark():
    assert placement_of() is None
    assert placement_of("spark") is None


def test_the_environment_chooses_and_what_is_given_counts_before_it(monkeypatch):
    monkeypatch.setenv("REPLAY_PLACEMENT", "high_availability")
    monkeypatch.setenv("REPLAY_NUM_STANDBY_REPLICAS", "1")
    monkeypatch.setenv("REPLAY_RACK_AWARE_ASSIGNMENT_TAGS", "zone, rack")
    monkeypatch.setenv("REPLAY_RACK_AWARE_ASSIGNMENT_STRATEGY", "balance_subtopology")

    assert placement_of() == PlacementSettings(
        HIGH_AVAILABILITY, num_standby_replicas=1, rack_aware_assignment_tags=("zone", "rack"),
        rack_aware_assignment_strategy="balance_subtopology",
    )  # fmt: skip
    given = {"num_standby_replicas": 2, "rack_aware_assignment_tags": [], "rack_aware_assignment_strategy": "none"}
    assert placement_of("sticky", **given) == PlacementSettings(STICKY, num_standby_replicas=2)
    assert placement_of("spark") is None


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("REPLAY_PLACEMENT", "random", "placement: expected one of spark, sticky, high_availability, got 'random'"),
        ("REPLAY_NUM_STANDBY_REPLICAS", "one", "$REPLAY_NUM_STANDBY_REPLICAS: expected a whole number, got 'one'"),
    ],
)
def test_an_environment_that_says_something_else_is_refused_by_name(monkeypatch, variable, value, said):
    monkeypatch.setenv("REPLAY_PLACEMENT", "sticky")
    monkeypatch.setenv(variable, value)

    with pytest.raises(ConfigError) as caught:
        placement_of()
    assert said in str(caught.value)


def test_standbys_without_a_placement_are_refused_and_not_left_out_in_silence():
    with pytest.raises(ConfigError, match="sticky or high_availability beside num_standby_replicas"):
        placement_of(num_standby_replicas=1)


def test_dagsters_engine_has_the_same_settings(monkeypatch):
    engine = SparkEngine(placement="high_availability", num_standby_replicas=1, rack_aware_assignment_tags=["zone"],
                         rack_aware_assignment_strategy="balance_subtopology")  # fmt: skip
    monkeypatch.setattr(SparkEngine, "session", lambda self: None)

    assert engine.runner().placement == PlacementSettings(
        HIGH_AVAILABILITY, num_standby_replicas=1, rack_aware_assignment_tags=("zone",),
        rack_aware_assignment_strategy="balance_subtopology",
    )  # fmt: skip
