"""The engine that a command asks for: this process, or Spark.

Rule: a session of Spark, which takes seconds, starts beside what else is to do, and is awaited when it is needed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..jobs.execution.task_description import Runner


def start_spark(master: str | None) -> "Callable[[], SparkSession]":
    """Start the session of this process; called, what is returned waits for it, and raises what starting it raised."""
    from ..jobs.execution.spark_session import (
        open_spark,  # in this thread, so that two do not import the same at one time
    )

    thread = ThreadPoolExecutor(1, thread_name_prefix="replay-spark")
    session = thread.submit(open_spark, master)
    thread.shutdown(wait=False)
    return session.result


def wait_for(spark: "Callable[[], SparkSession]", step: str) -> None:
    """At the step of a replay behind which tasks run; so the wait is no part of the increment's seconds."""
    if step.startswith("planned"):
        spark()


def runner_of(spark: "Callable[[], SparkSession] | None") -> "Runner":
    """Runs tasks on the session that ``spark`` gives; None: in this process."""
    from ..state.runs.local_copies import default_cache

    if spark is None:
        from ..jobs.execution.task_run import LocalRunner

        return LocalRunner(default_cache())
    from ..jobs.execution.spark_runner import SparkRunner

    return SparkRunner(spark, default_cache())
