"""Tasks over files, in this process or on Spark's executors.

Owns the way there and back, and the choice. Rule: results come in the order of the tasks, and the first error in it is
raised. Spark that has yet to start is not started for a few tasks, each of which reads some 32 MB.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ....state.errors import LandingError
from ....state.tables.object_stores import options_of, remember_options
from ....state.tables.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Spark = SparkSession | Callable[[], SparkSession]
    """A session, or what gives one when there is enough to do."""

FEW_TASKS = 8
"""These take this process no longer than Spark takes to start."""


def runs_here(spark: "Spark | None", tasks: int) -> bool:
    """Whether so many tasks run in this process."""
    return spark is None or (callable(spark) and tasks <= FEW_TASKS)


def run_tasks(spark: "Spark | None", warehouse: Warehouse, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Results of ``tasks`` in their order; the first LandingError in that order is raised. An executor reaches the
    store of ``warehouse`` with the options that this process has.
    """
    if spark is None or runs_here(spark, len(tasks)):
        return [task() for task in tasks]
    if not tasks:
        return []

    session = spark() if callable(spark) else spark
    root, options = warehouse.root, options_of(warehouse.root)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        remember_options(root, options)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = json.dumps(_answer(tasks[number]))
                yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([answer])], ["task", "answer"])

    # A partition a task, so that tasks run, and are repeated, one by one.
    numbers = session.range(0, len(tasks), 1, len(tasks))
    rows = numbers.mapInArrow(run, "task long, answer string").collect()  # type: ignore[arg-type]
    answers = [json.loads(row["answer"]) for row in sorted(rows, key=lambda row: row["task"])]
    for answer in answers:
        if "error" in answer:
            raise LandingError(*answer["error"])
    return [answer["result"] for answer in answers]


def _answer(task: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": task()}
    except LandingError as error:
        # As an answer: Spark would repeat a task that raises (spark.task.maxFailures), and bring back its text alone.
        return {"error": [error.place, error.expected, error.got, error.next_step]}
