"""Planted violations: what is wrong with committed tables, and which guarantees have to find it.

Rule: a mutant changes rows of a pipeline that was really run, and names the guarantees that see it; those and no others
say "false". ``python -m tests.expectations.mutants`` prints the matrix, guarantee by mutant.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from tempfile import TemporaryDirectory

from kstreams_replay.expectations.guarantees import GUARANTEES
from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import PIPELINES, Pipeline
from tests.expectations.replanted import Unpacked, planted, unpacked
from tests.planted import plant

NAME = "p"


@dataclass(frozen=True)
class Mutant:
    """``plant`` changes tables of ``pipeline``; exactly ``found_by`` see it, in one of its increments."""

    name: str
    pipeline: str
    found_by: tuple[str, ...]
    plant: Callable[[Unpacked], None]


MUTANTS: list[Mutant] = []


def mutant(pipeline: str, *found_by: str) -> Callable[[Callable[[Unpacked], None]], Callable[[Unpacked], None]]:
    """Name a function that plants a lie after what it does."""

    def take(plant_it: Callable[[Unpacked], None]) -> Callable[[Unpacked], None]:
        MUTANTS.append(Mutant(plant_it.__name__.replace("_", " "), pipeline, found_by, plant_it))
        return plant_it

    return take


@mutant("windows", "G4")
def a_window_of_the_store_is_moved_off_the_grid(tables: Unpacked) -> None:
    row = next(row for row in tables.rows("state/counts-store") if not row["deleted"])
    row["window_start_ms"] += 1


@mutant("windows", "G4")
def a_window_of_an_output_is_longer_than_its_size(tables: Unpacked) -> None:
    next(tables.rows("outputs/updates"))["window_end_ms"] += 10


@cache
def base(name: str) -> Unpacked:
    """A pipeline's tables as they were written."""
    pipeline: Pipeline = PIPELINES[name]
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        for topic, records in pipeline.tapes.items():
            plant(warehouse, topic, records, partitions=pipeline.partitions)
        topology, runner = pipeline.topology(), LocalRunner(f"{folder}/cache")
        list(replay(warehouse, topology, pipeline=NAME, runner=runner, max_records=pipeline.slice))
        return unpacked(warehouse, NAME, topology, list(pipeline.tapes))


@contextmanager
def changed(name: str, plant_it: Callable[[Unpacked], None]) -> Iterator[Warehouse]:
    """A warehouse with the pipeline's tables after ``plant_it``."""
    tables = deepcopy(base(name))
    plant_it(tables)
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        planted(tables, warehouse, NAME)
        yield warehouse


def judged(name: str, warehouse: Warehouse) -> list[Verdict]:
    """Verdicts on all increments of a pipeline."""
    facts = replay_facts(PIPELINES[name].topology())
    numbers = range(1, len(base(name).increments) + 1)
    return [each for number in numbers for each in check_increment(warehouse, NAME, facts, number, engine="plain")]


def finders(one: Mutant) -> tuple[str, ...]:
    """Ids of the guarantees that say "false" of one of its increments, in order; a table that cannot be read is an
    error.
    """
    with changed(one.pipeline, one.plant) as warehouse:
        verdicts = judged(one.pipeline, warehouse)
    unknown = [verdict.reason for verdict in verdicts if verdict.answer == "unknown"]
    assert unknown == [], unknown
    said = {verdict.guarantee for verdict in verdicts if verdict.answer == "false"}
    return tuple(each.id for each in GUARANTEES if each.id in said)


def matrix() -> str:
    """Guarantees as columns, mutants as rows; "x" where the one finds the other."""
    ids = [each.id for each in GUARANTEES]
    width = max(len(one.name) for one in MUTANTS)
    lines = [f"{'mutant':{width}}  " + " ".join(ids)]
    for one in MUTANTS:
        found = finders(one)
        lines.append(
            f"{one.name:{width}}  " + " ".join(("x" if each in found else "·").center(len(each)) for each in ids)
        )
    never = [each for each in ids if not any(each in one.found_by for one in MUTANTS)]
    return "\n".join([*lines, "", f"guarantees without a mutant: {', '.join(never) or 'none'}"])


if __name__ == "__main__":
    sys.stdout.write(matrix() + "\n")
