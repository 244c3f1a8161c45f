"""Every member runs its share of each sub-topology (Kafka's ``balance_subtopology``, KIP-925).

Rule: a member keeps its number of tasks and gets at most its share of a sub-topology, and as many tasks as possible
stay where they were. An increment runs sub-topologies one after the other, so a member that has none of one is idle.

Kafka weighs racks, too: a partition that has no replica in a member's rack costs traffic. Workers all read one
warehouse, which has no racks, so that cost is nothing here.
"""

import math
from collections.abc import Collection
from itertools import groupby

from .flow_graph import FlowGraph
from .members import MemberTasks, TaskId, Tasks

_SOURCE = -1


def balance_sub_topologies(tasks: Tasks, chosen: Collection[TaskId], cost_of_move: int) -> None:
    """Exchange ``chosen`` tasks, each of which some member runs, between members. ``cost_of_move`` 0: any may go."""
    ordered = sorted(chosen)
    if not ordered:
        return
    members, graph = list(tasks.values()), FlowGraph()
    groups = [list(group) for _, group in groupby(ordered, lambda task: task.sub_topology)]
    counts = [len(member.active.intersection(ordered)) for member in members]
    # Node ids decide which of two flows of one cost is taken, so they are in Kafka's order
    # (BalanceSubtopologyGraphConstructor): tasks, a node for each sub-topology and member, members, sink.
    numbers = {task: number for number, task in enumerate(ordered)}
    first_member = len(ordered) + len(groups) * len(members)
    sink = first_member + len(members)
    for task in ordered:
        graph.add(_SOURCE, numbers[task], 1)
    for at, group in enumerate(groups):
        for number, member in enumerate(members):
            share = len(ordered) + at * len(members) + number
            for task in group:
                graph.add(numbers[task], share, 1, 0 if task in member.active else cost_of_move)
            graph.add(share, first_member + number, math.ceil(counts[number] / len(ordered) * len(group)))
    for number, count in enumerate(counts):
        graph.add(first_member + number, sink, count)
    flow = graph.solve(_SOURCE, sink)
    assert flow == len(ordered), f"{flow} of {len(ordered)} tasks have a place"
    for task in ordered:
        (share,) = graph.ends(numbers[task])
        _move(task, members, members[(share - len(ordered)) % len(members)])


def _move(task: TaskId, members: Collection[MemberTasks], to: MemberTasks) -> None:
    for member in members:
        member.active.discard(task)
    to.active.add(task)
