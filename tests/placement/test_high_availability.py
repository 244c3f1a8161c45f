"""KIP-441's assignments: the worked examples of Kafka's HighAvailabilityTaskAssignor, by hand."""

from tests.placement.groups import highly_available, member, table

FOUR = "0_0 0_1 0_2 0_3"
ACCEPTABLE = {"acceptable_recovery_lag_bytes": 100}


def text(words: str) -> str:
    return "\n".join(line.strip() for line in words.strip().splitlines())


def test_a_new_member_learns_as_many_tasks_as_there_are_warm_ups_and_nothing_moves_yet():
    got = highly_available(
        [member("c1", FOUR, active=FOUR), member("c2", FOUR, lag=1000)], FOUR, max_warmup_replicas=2, **ACCEPTABLE
    )

    assert table(got) == text("""
        c1 A=0_0,0_1,0_2,0_3 S=
        c2 A= S=0_1,0_3
    """)
    assert got.is_probing


def test_with_one_warm_up_a_new_member_learns_one_task():
    got = highly_available(
        [member("c1", FOUR, active=FOUR), member("c2", FOUR, lag=1000)], FOUR, max_warmup_replicas=1, **ACCEPTABLE
    )

    assert table(got) == text("""
        c1 A=0_0,0_1,0_2,0_3 S=
        c2 A= S=0_1
    """)
    assert [(str(move.task), move.is_learning) for move in got.moves] == [("0_1", True), ("0_3", False)]


def test_a_learner_whose_lag_is_just_acceptable_takes_over_and_one_byte_more_goes_on_learning():
    lags = {"0_1": 100, "0_3": 101}
    got = highly_available(
        [member("c1", FOUR, active=FOUR), member("c2", FOUR, lag=1000, lags=lags)], FOUR, **ACCEPTABLE
    )

    assert table(got) == text("""
        c1 A=0_0,0_2,0_3 S=
        c2 A=0_1 S=0_3
    """)
    assert got.is_probing


def test_once_all_is_learned_loads_are_even_and_nobody_asks_again():
    lags = {"0_1": 100, "0_3": 7}
    got = highly_available(
        [member("c1", FOUR, active=FOUR), member("c2", FOUR, lag=1000, lags=lags)], FOUR, **ACCEPTABLE
    )

    assert table(got) == text("""
        c1 A=0_0,0_2 S=
        c2 A=0_1,0_3 S=
    """)
    assert not got.is_probing


def test_a_third_member_learns_while_standbys_and_stateless_tasks_even_out_the_loads():
    got = highly_available(
        [
            member("c1", FOUR, active="0_0 0_1", standby="0_2 0_3"),
            member("c2", FOUR, active="0_2 0_3", standby="0_0 0_1"),
            member("c3", FOUR, lag=1000),
        ],
        FOUR,
        "1_0 1_1",
        num_standby_replicas=1,
        **ACCEPTABLE,
    )

    assert table(got) == text("""
        c1 A=0_0,0_2,0_3 S=0_1
        c2 A=0_1,1_1 S=0_0,0_2,0_3
        c3 A=1_0 S=0_1,0_2
    """)
    assert got.is_probing


def test_a_member_with_two_cores_runs_two_tasks_where_nobody_has_any_state():
    three = "0_0 0_1 0_2"
    got = highly_available(
        [member("c1", three, lag=1000, capacity=2), member("c2", three, lag=1000)],
        three,
        num_standby_replicas=1,
        **ACCEPTABLE,
    )

    assert table(got) == text("""
        c1 A=0_0,0_2 S=0_1
        c2 A=0_1 S=0_0,0_2
    """)
    assert not got.is_probing


def test_standbys_stand_one_after_the_other_on_who_has_least_to_do_and_as_many_as_there_are_members():
    three = "0_0 0_1 0_2"
    members = [member("c1", three, lag=1000), member("c2", three, lag=1000), member("c3", three, lag=1000, capacity=3)]

    got = highly_available(members, three, num_standby_replicas=5, **ACCEPTABLE)

    assert {str(task): (got.owner(task), got.standbys(task)) for task in sorted(got.owners())} == {
        "0_0": ("c1", ["c2", "c3"]),
        "0_1": ("c2", ["c1", "c3"]),
        "0_2": ("c3", ["c1", "c2"]),
    }


def test_standbys_differ_in_zone_and_cluster_and_once_clusters_are_used_up_in_zone_alone():
    two = "0_0 0_1"
    members = [
        member("c1", two, lag=1000, tags={"zone": "1a", "cluster": "k1"}),
        member("c2", two, lag=1000, tags={"zone": "1b", "cluster": "k1"}),
        member("c3", two, lag=1000, tags={"zone": "1c", "cluster": "k1"}),
        member("c4", two, lag=1000, tags={"zone": "1a", "cluster": "k2"}),
        member("c5", two, lag=1000, tags={"zone": "1b", "cluster": "k2"}),
        member("c6", two, lag=1000, tags={"zone": "1c", "cluster": "k2"}),
    ]

    got = highly_available(
        members, two, num_standby_replicas=2, rack_aware_assignment_tags=("zone", "cluster"), **ACCEPTABLE
    )

    # the first standby of 0_0 differs in both, c5; both clusters are then in use, so the second differs in zone, c3
    assert table(got) == text("""
        c1 A=0_0 S=
        c2 A=0_1 S=
        c3 A= S=0_0
        c4 A= S=0_1
        c5 A= S=0_0
        c6 A= S=0_1
    """)


def test_a_tag_that_is_not_configured_decides_nothing():
    one = "0_0"
    members = [
        member("c1", one, lag=9, tags={"zone": "a", "disk": "ssd"}),
        member("c2", one, lag=9, tags={"zone": "a", "disk": "hdd"}),
        member("c3", one, lag=9, tags={"zone": "b", "disk": "ssd"}),
    ]

    got = highly_available(members, one, num_standby_replicas=1, rack_aware_assignment_tags=("zone",))

    assert table(got) == text("""
        c1 A=0_0 S=
        c2 A= S=
        c3 A= S=0_0
    """)


def test_where_no_other_place_is_left_a_standby_stands_on_the_least_loaded_member():
    one = "0_0"
    members = [member(name, one, lag=9, tags={"zone": "a"}) for name in ("c1", "c2")]

    got = highly_available(members, one, num_standby_replicas=1, rack_aware_assignment_tags=("zone",))

    assert table(got) == text("""
        c1 A=0_0 S=
        c2 A= S=0_0
    """)


def test_of_an_owner_that_died_the_standby_takes_over_at_once():
    got = highly_available(
        [member("c2", FOUR, active="0_2 0_3", standby="0_0 0_1"), member("c3", FOUR, lag=1000)],
        FOUR,
        num_standby_replicas=1,
        **ACCEPTABLE,
    )

    assert table(got).startswith("c2 A=0_0,0_1,0_2,0_3 S=")
    assert got.is_probing
