"""Runs tasks on Spark: one number of a small RDD a slot, one job a stage.

Rule: Spark places tasks and nothing else; records go from file to file inside a task and never through Spark. The
topology travels with the function, so the packages must be installed where workers run (and Numba's cache with them).
An RDD and not a frame, since planning ``mapInArrow`` takes 40 ms a stage.
"""

import logging
import pickle
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import cloudpickle
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ...state.errors import ReplayError, StorageError
from ...state.failures import of_worker
from ...state.runs.local_copies import own_cache
from ...state.tables.requests import REQUESTS
from ...state.tables.shared_groups import sharing_groups
from ..topology.topology import Topology
from .spark_connect import driver_of
from .task_description import TaskDescription, TaskReport
from .task_run import run_task

if TYPE_CHECKING:
    from ..placement.settings import PlacementSettings
    from .placed_stages import PlacedStages

EXECUTORS_EXPECTED_S = 15.0
"""So long may a cluster have no executor before the run warns: Spark waits without an end, and in silence."""

_LOG = logging.getLogger(__name__)


class SparkRunner:
    """Runs tasks on Spark.

    ``spark``: a session (jobs/execution/spark_session.py), whose master setting names the cluster, or a function that
    gives one and is called when tasks are to run. ``cache``: directory on every worker for the state's warm copies
    (None: none are kept). ``placement``: where tasks of a cluster run (None: wherever Spark finds a core); it needs a
    ``cache``.
    """

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        cache: str | None = None,
        placement: "PlacementSettings | None" = None,
    ) -> None:
        self._spark, self.cache, self.placement = spark, cache, placement
        self._stages: PlacedStages | None = None
        self._is_asked = False

    @property
    def spark(self) -> SparkSession:
        """The session; a function that gives it is called now."""
        if callable(self._spark):
            self._spark = self._spark()
        return self._spark

    @property
    def _driver(self) -> SparkContext:
        return driver_of(self.spark)

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """Run tasks of ``topology``; reports in order of ``descriptions``. Raises what a task raised, as if it had run
        here. MachineError where a worker lacks this project, ConfigError for a session of Spark Connect.
        """
        with _warns_without_executors(self._driver):
            self._ask_worker()
            return self._run_placed(topology, descriptions) if self._is_placed() else self._run(topology, descriptions)

    def _ask_worker(self) -> None:
        """Once, of a cluster: a task asks one worker for this project. Raises MachineError where it lacks it, or has
        another version.
        """
        if self._is_asked or self._is_local():
            return
        from .worker_python import refuse_other, version_there

        try:
            answers = self._driver.parallelize([0], 1).mapPartitions(version_there()).collect()
        except Py4JError as error:  # then not even the process that starts workers is there
            lacking = of_worker(str(error))
            if lacking is None:
                raise
            raise lacking from error
        for host, version in answers:
            refuse_other(host, version)
        self._is_asked = True

    def _run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        shares = share_out([description.size for description in descriptions], self._slots(len(descriptions)))
        work = cloudpickle.dumps((topology, descriptions, shares, self.cache))
        # As many partitions as numbers: every share has a slot of its own.
        numbers = self._driver.parallelize(range(len(shares)), len(shares))
        return _reports(numbers.mapPartitions(_worker(work, is_local=self._is_local())).collect())

    def _is_placed(self) -> bool:
        """Whether tasks are placed: on one machine there is nothing to choose, and nothing of it is imported."""
        is_chosen = self.placement is not None and self.placement.placement != "spark" and self.cache is not None
        return is_chosen and not self._is_local()

    def _run_placed(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        from .placed_stages import PlacedStages
        from .spark_members import SparkWorkers

        assert self.placement is not None
        assert self.cache is not None
        self._stages = self._stages or PlacedStages(self.placement, self.cache)
        # Each task is a share of its own here: tasks that shared a slot could not prefer different executors.
        alone = [[number] for number in range(len(descriptions))]
        work = cloudpickle.dumps((topology, descriptions, alone, self.cache))
        return _reports(
            self._stages.run(SparkWorkers(self._driver), topology, descriptions, _worker(work, is_local=False))
        )

    def _is_local(self) -> bool:
        return _is_local(self._driver)

    def _slots(self, tasks: int) -> int:
        """Cores here. Of a cluster nobody knows how many there will be (executors come while tasks run), so there every
        task is one for Spark to place.
        """
        return self._driver.defaultParallelism if self._is_local() else tasks


def _is_local(context: SparkContext) -> bool:
    return str(context.master).startswith("local")


@contextmanager
def _warns_without_executors(context: SparkContext, seconds: float | None = None) -> Iterator[threading.Timer]:
    """While a stage runs on a cluster: warn once if no executor is there ``seconds`` after it began."""

    def look() -> None:
        from .spark_members import SparkWorkers

        if not SparkWorkers(context).executors():
            _LOG.warning(
                "Spark at %s has given this run no executor for %.0f s, and the run waits for one. An executor needs a "
                "free core and spark.executor.memory (%s): set it in spark-defaults.conf of $SPARK_CONF_DIR, or "
                "look at the page of the master for what is free",
                context.master, wait, context.getConf().get("spark.executor.memory", "1g"),
            )  # fmt: skip

    wait = EXECUTORS_EXPECTED_S if seconds is None else seconds
    timer = threading.Timer(wait, look)
    timer.daemon = True
    if not _is_local(context):
        timer.start()
    try:
        yield timer
    finally:
        timer.cancel()


def _reports(outcomes: Iterable[tuple[int, Any]]) -> list[TaskReport]:
    """In the order of tasks. Raises the first error."""
    reports: list[TaskReport] = []
    for _, outcome in sorted(outcomes, key=lambda pair: pair[0]):
        if isinstance(outcome, ReplayError):
            raise outcome
        reports.append(TaskReport(**outcome))
    return reports


def share_out(sizes: list[int], slots: int) -> list[list[int]]:
    """Numbers of the tasks that each slot runs one after the other: the longest first, to the slot with least to do.

    Starting a Python task costs Spark some 50 ms, so there are no more of them than can run at once.
    """
    shares: list[list[int]] = [[] for _ in range(min(len(sizes), slots))]
    loads = [0] * len(shares)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        least = loads.index(min(loads))
        shares[least].append(number)
        loads[least] += sizes[number]
    return shares


def _worker(
    work: bytes, *, is_local: bool
) -> Callable[[Iterable[int]], Iterator[tuple[int, dict[str, Any] | ReplayError]]]:
    """Runs the tasks of shares; (number of the task, its outcome). ``is_local``: on the driver's machine."""

    def run(shares_here: Iterable[int]) -> Iterator[tuple[int, dict[str, Any] | ReplayError]]:
        topology, descriptions, shares, cache = pickle.loads(work)
        mine = [number for share in shares_here for number in shares[share]]
        with sharing_groups(len(mine)):
            for number in mine:
                outcome = _outcome(topology, descriptions[number], cache)
                if isinstance(outcome, StorageError) and not is_local:
                    outcome.say(f"it was on the worker {socket.gethostname()}")
                yield number, outcome

    return run


def _outcome(topology: Topology, description: TaskDescription, cache: str | None) -> dict[str, Any] | ReplayError:
    """The report, or the error as a value, since Spark would turn it into a stack trace."""
    try:
        before = REQUESTS.made()
        report = run_task(topology, description, _cache_here(cache))
        return asdict(replace(report, requests=dict(REQUESTS.made() - before), on_spark=True))
    except ReplayError as error:
        return error


def _cache_here(cache: str | None) -> str | None:
    """On a worker: the directory of its warm copies; None: it has none. Raises StorageError for one that others may
    write.
    """
    try:
        return None if cache is None else own_cache(cache)
    except OSError as error:
        _LOG.warning("no warm copies of state here, so it takes longer to read: %s", error)
        return None
