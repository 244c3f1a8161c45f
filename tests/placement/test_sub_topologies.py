"""Each member runs its share of every sub-topology (Kafka's balance_subtopology), by hand and by its properties."""

import random
from collections import Counter

from kstreams_replay.jobs.placement.flow_graph import FlowGraph
from kstreams_replay.jobs.placement.members import Member, TaskId, Tasks, no_tasks
from kstreams_replay.jobs.placement.sub_topologies import balance_sub_topologies
from tests.placement.groups import highly_available, member, sticky, table
from tests.placement.test_high_availability import text

EIGHT = "0_0 0_1 0_2 0_3 1_0 1_1 1_2 1_3"
BALANCED = {"rack_aware_assignment_strategy": "balance_subtopology"}


def test_a_sticky_group_that_a_member_joins_shares_out_every_sub_topology_and_not_one_to_each():
    members = [member("c1", EIGHT, active=EIGHT), member("c2", EIGHT)]

    assert table(sticky(members, EIGHT)) == text("""
        c1 A=0_0,0_1,0_2,0_3 S=
        c2 A=1_0,1_1,1_2,1_3 S=
    """)
    assert table(sticky(members, EIGHT, **BALANCED)) == text("""
        c1 A=0_0,0_1,1_0,1_1 S=
        c2 A=0_2,0_3,1_2,1_3 S=
    """)


def test_a_large_member_gets_of_every_sub_topology_as_much_more_as_it_has_cores():
    members = [member("c1", EIGHT, lag=1000), member("c2", EIGHT, lag=1000, capacity=3)]

    assert table(highly_available(members, EIGHT)) == text("""
        c1 A=1_0,1_2 S=
        c2 A=0_0,0_1,0_2,0_3,1_1,1_3 S=
    """)
    assert table(highly_available(members, EIGHT, **BALANCED)) == text("""
        c1 A=0_0,1_0 S=
        c2 A=0_1,0_2,0_3,1_1,1_2,1_3 S=
    """)


def random_group(generator: random.Random) -> tuple[Tasks, list[TaskId]]:
    tasks = no_tasks([Member(f"m{number}") for number in range(generator.randrange(1, 6))])
    chosen = [
        TaskId(sub, part) for sub in range(generator.randrange(1, 4)) for part in range(generator.randrange(1, 9))
    ]
    for task in chosen:
        generator.choice(list(tasks.values())).active.add(task)
    return tasks, chosen


def test_every_member_keeps_its_number_of_tasks_and_has_at_most_its_share_of_each_sub_topology():
    generator = random.Random(1)
    for _ in range(200):
        tasks, chosen = random_group(generator)
        before = {name: len(found.active) for name, found in tasks.items()}
        of_sub = Counter(task.sub_topology for task in chosen)

        balance_sub_topologies(tasks, chosen, cost_of_move=generator.choice([0, 1, 10]))

        assert {name: len(found.active) for name, found in tasks.items()} == before
        assert sorted(task for found in tasks.values() for task in found.active) == sorted(chosen)
        for name, found in tasks.items():
            for sub, count in Counter(task.sub_topology for task in found.active).items():
                assert count < before[name] * of_sub[sub] / len(chosen) + 1


def test_a_group_that_is_balanced_stays_as_it_is_where_moves_cost_something():
    generator = random.Random(2)
    for _ in range(100):
        tasks, chosen = random_group(generator)
        balance_sub_topologies(tasks, chosen, cost_of_move=1)
        before = {name: set(found.active) for name, found in tasks.items()}

        balance_sub_topologies(tasks, chosen, cost_of_move=1)

        assert {name: found.active for name, found in tasks.items()} == before


def test_a_flow_takes_the_cheap_way_first_and_the_dear_one_for_what_is_left():
    graph = FlowGraph()
    for start, end, capacity, cost in (
        (0, 1, 2, 0),
        (0, 2, 2, 0),
        (1, 3, 1, 5),
        (1, 4, 2, 1),
        (2, 3, 2, 2),
        (2, 4, 1, 9),
    ):
        graph.add(start, end, capacity, cost)
    graph.add(3, 5, 2)
    graph.add(4, 5, 2)

    assert graph.solve(0, 5) == 4
    assert (graph.ends(1), graph.ends(2)) == ([4], [3])
