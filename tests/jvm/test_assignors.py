"""Tasks are assigned as by Kafka Streams' own classes, ties included: ids are such that Java's hash order ascends."""

import itertools
import random
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kstreams_replay.jobs.placement.assignor import assign
from kstreams_replay.jobs.placement.members import RUNNING, Assignment, Member, TaskId
from kstreams_replay.jobs.placement.settings import (
    BALANCE_SUBTOPOLOGY,
    HIGH_AVAILABILITY,
    NONE,
    STICKY,
    PlacementSettings,
)
from kstreams_replay.state.kafka_version import JUDGE, JUDGES
from tests.jvm.streams import compiled, streams_of
from tests.sampling import is_nightly, seed

pytestmark = pytest.mark.jvm

CASES = 6_000 if is_nightly() else 600
TASKS_MAX, MEMBERS_MAX = 16, 12
HASH_BUCKETS = 64


@dataclass(frozen=True)
class AssignorCase:
    members: list[Member]
    tasks: frozenset[TaskId]
    stateful: frozenset[TaskId]
    settings: PlacementSettings
    rack_aware: str = "none"
    racks: int = 1

    def asked(self) -> str:
        """The case as Assignors.java reads it."""
        s = self.settings
        head = [s.placement, s.num_standby_replicas, s.max_warmup_replicas, s.acceptable_recovery_lag_bytes]
        tags = ",".join(s.rack_aware_assignment_tags)
        parts = [*head, tags, self.rack_aware, self.racks, text(self.tasks), text(self.stateful)]
        for member in self.members:
            tags = ",".join(f"{key}={value}" for key, value in member.tags.items())
            lags = ",".join(f"{task}={lag}" for task, lag in member.lags.items())
            before = f"{text(member.previous_active)}:{text(member.previous_standby)}"
            parts.append(f"{int(member.id)}:{member.capacity}:{tags}:{before}:{lags}")
        return ";".join(map(str, parts))


def text(tasks: frozenset[TaskId] | tuple[TaskId, ...]) -> str:
    return ",".join(map(str, sorted(tasks)))


def hashed_in_order(sub_topologies: list[int]) -> list[TaskId]:
    """A task for each number in ``sub_topologies``, ascending, such that Java's hash tables of up to 64 buckets iterate
    them as they ascend: the hash of the n-th falls into bucket n.
    """
    found, last = [], TaskId(-1, -1)
    for bucket, sub in enumerate(sub_topologies):
        first = last.partition + 1 if sub == last.sub_topology else 0
        at = next(at for at in itertools.count(first) if 31 * (31 * (31 + sub) + at) % HASH_BUCKETS == bucket)
        last = TaskId(sub, at)
        found.append(last)
    assert all(31 * (31 * (31 + task.sub_topology) + task.partition) < 1 << 16 for task in found)
    return found


def case(generator: random.Random) -> AssignorCase:
    """A group in any state, also such as no group comes to by itself."""
    subs = sorted(generator.randrange(3) for _ in range(generator.randrange(1, TASKS_MAX + 1)))
    tasks = hashed_in_order(subs)
    share = generator.choice([0.0, 0.5, 0.8, 1.0, 1.0])
    stateful = [task for task in tasks if generator.random() < share]
    names = [f"{number:02d}" for number in range(1, generator.randrange(1, MEMBERS_MAX + 1) + 1)]
    owners = {task: generator.choice([*names, None]) for task in tasks}
    few_cores, lag_kinds = generator.random() < 0.5, generator.choice([[0, 1000], [0, 50, 100, 101, 1000], [1000]])
    members = []
    for name in names:
        active = frozenset(task for task in tasks if owners[task] == name)
        lags = {task: RUNNING if task in active else generator.choice(lag_kinds) for task in stateful}
        others = [task for task in stateful if task not in active and lags[task] < 1000]
        standby = frozenset(task for task in others if generator.random() < 0.7)
        tags = {"zone": generator.choice("abc"), "cluster": generator.choice("kl"), "disk": generator.choice("xy")}
        tags = tags if generator.random() < 0.9 else {}
        members.append(Member(name, 1 if few_cores else generator.randrange(1, 4), tags, active, standby, lags))
    settings = PlacementSettings(
        generator.choice([HIGH_AVAILABILITY, HIGH_AVAILABILITY, STICKY]),
        generator.choice([0, 1, 1, 2, 3]),
        generator.randrange(1, 5),
        generator.choice([0, 100, 10_000]),
        generator.choice([(), (), ("zone",), ("zone", "cluster")]),
        generator.choice([NONE, BALANCE_SUBTOPOLOGY]),
    )
    return AssignorCase(
        members, frozenset(tasks), frozenset(stateful), settings, settings.rack_aware_assignment_strategy
    )


def answer(assignment: Assignment) -> str:
    """The assignment as Assignors.java prints it."""
    lines = [
        f"{int(name)}:{text(active)}:{text(assignment.standby[name])}" for name, active in assignment.active.items()
    ]
    return ";".join([str(assignment.is_probing).lower(), *lines])


def by_kafka(cases: list[AssignorCase], version: str = JUDGE) -> list[str]:
    with compiled(Path(__file__).with_name("Assignors.java"), packages=(streams_of(version),)) as command:
        asked = "\n".join(found.asked() for found in cases)
        said = subprocess.run(command, input=asked, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    return [line for line in said.stdout.splitlines() if line.startswith(("true;", "false;"))]


@pytest.mark.every_run
@pytest.mark.parametrize("version", [JUDGE, *(pytest.param(newer, marks=pytest.mark.nightly) for newer in JUDGES[1:])])
def test_tasks_are_assigned_as_by_kafkas_own_assignors(version):
    generator = random.Random(seed())
    cases = [case(generator) for _ in range(CASES)]

    for found, want in zip(cases, by_kafka(cases, version), strict=True):
        settings = replace(found.settings, kafka_version=version.rpartition(".")[0])
        got = answer(assign(found.members, found.tasks, found.stateful, settings))

        assert got == want, found.asked()
    assert sum(found.settings.placement == STICKY for found in cases) > CASES // 4


@pytest.mark.every_run
def test_kafkas_min_traffic_decides_nothing_where_all_is_in_one_rack_as_a_warehouse_is():
    generator = random.Random(seed())
    cases = [found for found in (case(generator) for _ in range(100)) if found.settings.placement == HIGH_AVAILABILITY]
    plain = [replace(found, rack_aware="none") for found in cases]
    in_one_rack = [replace(found, rack_aware="min_traffic") for found in cases]
    in_three_racks = [replace(found, racks=3) for found in in_one_rack]

    answers = by_kafka([*plain, *in_one_rack, *in_three_racks])

    got = [answers[start : start + len(cases)] for start in range(0, len(answers), len(cases))]
    assert got[1] == got[0]
    assert got[2] != got[0]  # where partitions have racks of their own it would decide
