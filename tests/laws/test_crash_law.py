"""Law 3: once. A run that dies anywhere, however often, and is run again leaves the tables of one that never died.

`python -m tests.laws.crash --seeds 1000` is the long run.
"""

import itertools
import random
from pathlib import Path

import pytest
from pyarrow import fs

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.object_stores import open_filesystem
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws import joined
from tests.laws.border import StorageStep, watched
from tests.laws.crash import AREAS, CrashScenario, DiedInACrash, area_of, outcome_of, seeds_of_round
from tests.laws.pipelines import NAME, PIPELINES, RECORDS, begun, drive, undisturbed
from tests.laws.topologies import OUTPUTS, STORES
from tests.laws.whole import first_difference
from tests.planted import plant, tables_of
from tests.sampling import sampled

ROUNDS = range(6)
"""Fifteen seeds each, which have everything; the default tier plays one seed in 45."""
SEEDS = [seed for number in ROUNDS for seed in seeds_of_round(number)]

COMMITS = 16 + 1
"""Steps at which an increment of the pipeline "brief" commits something or clears up."""

CHECKPOINT = 9
"""The increment whose commits make Delta write a checkpoint of every table."""


@pytest.fixture
def undisturbed_run(seed: int) -> None:
    """The run that the seed's is compared with is made before the test, by the first one that asks."""
    scenario = CrashScenario.of(seed)
    undisturbed(scenario.pipeline, scenario.tape)


@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SEEDS, share=45))
@pytest.mark.usefixtures("undisturbed_run")
def test_a_run_that_dies_where_the_seed_says_leaves_the_tables_of_one_that_never_died(seed):
    outcome = outcome_of(seed)

    assert outcome.difference is None, str(outcome)


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(COMMITS + 1))
def test_a_run_that_dies_between_any_two_commits_leaves_the_tables_of_one_that_never_died(number):
    """
    The plan's row, one commit a table, another for each that merges its files and for the ledger, the done row, the
    folder that goes, the end: in this order, none left out.
    """
    topology, alone = PIPELINES["brief"].topology, undisturbed("brief", 1)
    commits = [step for step in alone.steps[CHECKPOINT - 1] if area_of(step) == "commit" and step.name != "make folder"]
    assert [step.name for step in commits] == ["create write transaction"] * (COMMITS - 1) + ["delete folder"]
    taken: list[str] = []

    def die(step: StorageStep) -> None:
        if area_of(step) == "commit" and step.name != "make folder":
            taken.append(step.path)
            if len(taken) > number:
                raise DiedInACrash(str(step))

    with begun("brief", 1, CHECKPOINT - 1) as warehouse:
        with watched(Path(warehouse.root).parent, die):
            is_dead = dies(warehouse, topology)
        drive(warehouse, topology, CHECKPOINT)

        assert is_dead == (number < len(commits))
        assert taken == [step.path for step in commits][: number + 1]
        assert first_difference(warehouse, alone.warehouse, topology, since=8, until=CHECKPOINT) is None


def dies(warehouse, topology: Topology) -> bool:
    try:
        drive(warehouse, topology, CHECKPOINT)
    except DiedInACrash:
        return True
    return False


def test_what_a_killed_run_left_between_two_stages_goes_with_the_next_increment():
    topology = PIPELINES["brief"].topology

    def die(step: StorageStep) -> None:
        if step.name == "delete folder":
            raise DiedInACrash(str(step))

    with begun("brief", 1, CHECKPOINT - 1) as warehouse:
        with watched(Path(warehouse.root).parent, die):
            assert dies(warehouse, topology)
        filesystem, folder = open_filesystem(f"{warehouse.pipeline(NAME).root}/_exchange")
        left = [entry.base_name for entry in filesystem.get_file_info(fs.FileSelector(folder))]
        drive(warehouse, topology, CHECKPOINT + 1)

        assert left == ["00000009"]
        assert filesystem.get_file_info(fs.FileSelector(folder)) == []


@pytest.mark.parametrize("number", ROUNDS)
def test_a_round_has_every_pipeline_with_every_kind_of_death_at_every_place(number):
    kinds = {*itertools.product(("died", "half", "full"), AREAS), ("killed", ""), ("writing", "")}
    scenarios = [CrashScenario.of(seed) for seed in seeds_of_round(number)]

    assert {(s.pipeline, death.how, death.area) for s in scenarios for death in s.deaths} == {
        (name, *kind) for name in PIPELINES for kind in kinds
    }


@pytest.mark.parametrize("seed", range(1, 6))
def test_what_lands_while_a_run_is_dead_changes_nothing(tmp_path, seed):
    """
    The plan says what is read, so the increment that died is run again as if nothing had come.
    """
    dice, records = random.Random(seed), joined.tapes(seed, 70)
    alone, dead = Warehouse(tmp_path / "alone"), Warehouse(tmp_path / "dead")
    first = 10
    for topic in joined.TOPICS:  # every queue gets a first record, since one without any holds nobody back
        assert {record.partition for record in records[topic][:first]} == set(range(joined.PARTITIONS))
        plant(alone, topic, records[topic], partitions=joined.PARTITIONS)
        plant(dead, topic, records[topic][:first], partitions=joined.PARTITIONS)
    left = dice.randrange(100)

    def die(step: StorageStep) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise DiedInACrash(str(step))

    with watched(tmp_path, die), pytest.raises(DiedInACrash):
        run_joined(dead, 7, "wait")
    for topic in joined.TOPICS:
        plant(dead, topic, records[topic][first:], partitions=joined.PARTITIONS)
    run_joined(dead, 7, "wait")
    run_joined(dead, None, "proceed")

    run_joined(alone, None, "proceed")
    assert tables_of(dead, NAME, joined.joined()) == tables_of(alone, NAME, joined.joined())


def run_joined(warehouse: Warehouse, max_records: int | None, idle: str) -> None:
    topology, options = joined.joined(), {"max_records": max_records, "idle": idle}
    list(replay(warehouse, topology, pipeline=NAME, runner=LocalRunner(), **options))


def test_a_replay_tells_of_every_step():
    steps: list[str] = []
    with begun("everything", 1, 0) as warehouse:
        for _ in replay(
            warehouse,
            PIPELINES["everything"].topology,
            pipeline=NAME,
            runner=LocalRunner(),
            max_records=RECORDS,
            increments=1,
            idle="proceed",
            on_step=steps.append,
        ):
            pass

    assert steps == [
        f"{step} 1"
        for step in (
            "planned",
            "computed",
            *(f"committed state/{name}" for name in STORES),
            "committed repartition/pages-store-repartition",
            "committed dropped",
            "committed dead_letter",
            *(f"committed outputs/{name}" for name in OUTPUTS),
            "done",
        )
    ]
