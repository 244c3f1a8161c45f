"""Runs tasks on Spark: one row of a small frame a task, one ``mapInArrow`` a stage.

Rule: Spark places tasks and nothing else; records go from file to file inside a task and never through Spark. The
topology travels with the function, so the packages must be installed where workers run (and Numba's cache with them).
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import cloudpickle
import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.runner import TaskDescription, TaskReport, run_task
from jobs.topology.topology import Topology
from state.errors import ReplayError


class SparkRunner:
    """``spark``: see jobs/spark.py; a cluster is its master setting."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """Reports in order of ``descriptions``. Raises what a task raised, as if it had run here."""
        # The longest first, so that none begins when the others are done.
        order = sorted(range(len(descriptions)), key=lambda number: -descriptions[number].size)
        work = cloudpickle.dumps((topology, [descriptions[number] for number in order]))
        # spark.range with as many partitions as rows gives every partition exactly one row, so every task its own slot.
        numbers = self.spark.range(0, len(descriptions), 1, len(descriptions))
        rows = numbers.mapInArrow(_worker(work), "id long, report binary").collect()
        reports: list[TaskReport] = []
        for row in sorted(rows, key=lambda row: order[row["id"]]):
            outcome = pickle.loads(bytes(row["report"]))
            if isinstance(outcome, ReplayError):
                raise outcome
            reports.append(TaskReport(**outcome))
        return reports


def _worker(work: bytes) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topology, descriptions = pickle.loads(work)
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            outcomes = [pickle.dumps(_outcome(topology, descriptions[number])) for number in numbers]
            yield pa.record_batch([pa.array(numbers), pa.array(outcomes, pa.binary())], ["id", "report"])

    return run


def _outcome(topology: Topology, description: TaskDescription) -> dict[str, Any] | ReplayError:
    """The report, or the error as a value, since Spark would turn it into a stack trace."""
    try:
        return asdict(run_task(topology, description))
    except ReplayError as error:
        return error
