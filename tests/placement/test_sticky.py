"""Kafka's StickyTaskAssignor: its worked examples. Where any task may go, Kafka goes by hash, and we by id."""

import pytest

from kstreams_replay.jobs.placement.settings import PlacementSettings
from kstreams_replay.state.errors import ConfigError
from tests.placement.groups import member, sticky, table
from tests.placement.test_high_availability import FOUR, text


def test_an_owner_keeps_its_share_and_a_new_member_gets_the_rest_at_once():
    got = sticky([member("c1", FOUR, active=FOUR), member("c2", FOUR, lag=1000)], FOUR)

    assert table(got) == text("""
        c1 A=0_0,0_1 S=
        c2 A=0_2,0_3 S=
    """)
    assert not got.is_probing


def test_a_task_beyond_its_owners_share_goes_to_who_has_least_to_do_and_not_to_a_loaded_standby():
    got = sticky(
        [
            member("c1", FOUR, active="0_0 0_1", standby="0_2"),
            member("c2", FOUR, active="0_2 0_3", standby="0_0"),
            member("c3", FOUR),
        ],
        FOUR,
        num_standby_replicas=1,
    )

    # a share is 4 // 3 = 1: c1 keeps 0_0 and c2 keeps 0_2; 0_1 goes to c3, which has nothing; with one task each
    # nobody is overloaded, so that 0_3 stays where it was. The standby of 0_0 was on c2, which has more than others: c3
    # has least to do, and no task that was beside 0_0. Those of 0_1 and 0_2 go back to c1, and 0_3 to c3 again.
    assert table(got) == text("""
        c1 A=0_0 S=0_1,0_2
        c2 A=0_2,0_3 S=
        c3 A=0_1 S=0_0,0_3
    """)


def test_a_member_with_two_cores_keeps_twice_as_many():
    three = "0_0 0_1 0_2"
    got = sticky([member("c1", three, active=three, capacity=2), member("c2", three, standby="0_2")], three)

    assert table(got) == text("""
        c1 A=0_0,0_1 S=
        c2 A=0_2 S=
    """)


def test_since_4_4_a_members_share_is_rounded_up_and_before_that_each_threads_down():
    members = [member("c1", FOUR, active="0_0 0_1"), member("c2", FOUR, active="0_2 0_3"), member("c3", FOUR)]

    # 4 tasks and 3 threads: a member keeps 4 // 3 = 1 of them, or 4 / 3 rounded up, 2
    assert table(sticky(members, FOUR)) == text("""
        c1 A=0_0 S=
        c2 A=0_2,0_3 S=
        c3 A=0_1 S=
    """)
    assert table(sticky(members, FOUR, kafka_version="4.4")) == text("""
        c1 A=0_0,0_1 S=
        c2 A=0_2,0_3 S=
        c3 A= S=
    """)


def test_who_had_the_standby_of_a_task_takes_over_when_its_owner_is_gone():
    got = sticky([member("c2", FOUR, active="0_2 0_3"), member("c3", FOUR, standby="0_0 0_1")], FOUR)

    assert table(got) == text("""
        c2 A=0_2,0_3 S=
        c3 A=0_0,0_1 S=
    """)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"placement": "random"}, "placement: expected one of spark, sticky, high_availability, got 'random'"),
        (
            {"rack_aware_assignment_strategy": "min_traffic"},
            "rack_aware_assignment_strategy: expected one of none, balance_subtopology, got 'min_traffic'",
        ),
        ({"kafka_version": "3.9"}, "kafka_version: expected one of 4.3, 4.4, got '3.9'"),
        ({"num_standby_replicas": -1}, "num_standby_replicas: expected a whole number of at least 0, got -1"),
        ({"max_warmup_replicas": 0}, "max_warmup_replicas: expected a whole number of at least 1, got 0"),
        ({"acceptable_recovery_lag_bytes": 1.5}, "expected a whole number of at least 0, got 1.5"),
    ],
)
def test_a_wrong_setting_is_told_by_its_name(settings, said):
    with pytest.raises(ConfigError, match="expected") as caught:
        PlacementSettings(**settings)

    assert said in str(caught.value)
