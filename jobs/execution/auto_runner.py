"""Runs the tasks of a small increment in this process, and those of others on Spark.

Rule: rows do not depend on where tasks run, so the choice is one of time alone. A stage is small by the landed records
that it reads, and what comes behind a large one runs on Spark, too. Spark costs seconds to start and some tenths of a
second a stage.
"""

from collections.abc import Callable

from ...state.runs.local_copies import default_cache
from ..topology.topology import Topology
from .task_description import Runner, TaskDescription, TaskReport
from .task_run import LocalRunner

SMALL_RECORDS = 100_000
"""Landed records of an increment that is not worth a start of Spark: a second in this process, or less."""


class AutoRunner:
    """Increments of at most ``records`` landed records (None: SMALL_RECORDS) run in this process. ``spark``: gives the
    runner of others when the first of them comes. ``cache``: of warm copies, as LocalRunner has it.
    """

    def __init__(self, spark: Callable[[], Runner], cache: str | None = None, *, records: int | None = None) -> None:
        self._small, self._spark = LocalRunner(cache), spark
        self.records = SMALL_RECORDS if records is None else records
        self._large: Runner | None = None
        self._increment: tuple[str, int] | None = None
        """Of which a stage had more records."""

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """Run tasks of ``topology``, all of one stage; reports in order of ``descriptions``. Raises what the chosen
        runner raises.
        """
        increment = (descriptions[0].pipeline, descriptions[0].increment)
        queues = (queue for description in descriptions for queue in description.queues)
        # Rows of a stage before are in files, of which a size says nothing; they come of landed records.
        if sum(queue.size for queue in queues if queue.slice is not None) > self.records:
            self._increment = increment
        if increment != self._increment:
            return self._small.run(topology, descriptions)
        self._large = self._large or self._spark()
        return self._large.run(topology, descriptions)


def auto_runner() -> AutoRunner:
    """On Spark's session of this process, which starts when the first large increment needs it, with the cache of this
    user.
    """
    cache = default_cache()

    def on_spark() -> Runner:
        from .spark_runner import SparkRunner
        from .spark_session import open_spark

        return SparkRunner(open_spark(), cache)

    return AutoRunner(on_spark, cache)
