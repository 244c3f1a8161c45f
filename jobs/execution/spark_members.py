"""What Spark knows of its executors, and tasks that it is asked to run on some of them.

Owns every call into Spark's JVM that placement needs. Rule: a preference is a hint. Where the executor has gone or
stays busy, Spark runs the task on one of the other preferred hosts after ``spark.locality.wait.process``, and
anywhere after ``spark.locality.wait`` more. The task writes the same there.
"""

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext, TaskContext
from pyspark.core.rdd import RDD
from pyspark.serializers import CPickleSerializer

from ...state.failures import stop_below

Answer = TypeVar("Answer")

_JOBS_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class Executor:
    """A process of the cluster that runs tasks. ``cores``: so many at a time."""

    id: str
    host: str
    cores: int

    @property
    def location(self) -> str:
        """As a preference that names it among the executors of its host (Spark's ``TaskLocation``)."""
        return f"executor_{self.host}_{self.id}"


class Workers(Protocol):
    """Who runs tasks, and where they are asked to."""

    def executors(self) -> list[Executor]:
        """Those that are there and ready, and are not about to leave, by id."""

    def run_placed(self, work: Callable[[int], Iterable[Answer]], locations: Sequence[Sequence[str]]) -> list[Answer]:
        """Run ``work(number)`` for every number, where ``locations[number]`` would like it; all that they give, in the
        order of numbers.
        """

    def ask_each(self, asked: Sequence[Executor], question: Callable[[], Answer]) -> dict[str, Answer]:
        """The answers of executors, by id. Who was busy for too long, or has gone, has none."""


class SparkWorkers:
    """Workers of a Spark session."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._spark: Any = context._jsc.sc()

    def executors(self) -> list[Executor]:
        """See ``Workers``."""
        # The status store may list an executor that is lost or decommissioned already; the scheduler knows better.
        scheduler, listed = self._spark.taskScheduler(), self._spark.statusStore().executorList(True)
        ready = []
        for number in range(listed.size()):
            row = listed.apply(number)
            host = row.hostPort().rpartition(":")[0]  # none before its block manager is registered
            if row.id() != "driver" and host and scheduler.isExecutorAlive(row.id()):
                ready.append(Executor(row.id(), host, row.totalCores()))
        return sorted(ready, key=lambda executor: executor.id)

    def run_placed(self, work: Callable[[int], Iterable[Answer]], locations: Sequence[Sequence[str]]) -> list[Answer]:
        """See ``Workers``."""

        def run(numbers: Iterable[int]) -> Iterator[Answer]:
            for number in numbers:
                yield from work(number)

        return self._numbers(locations).mapPartitions(run).collect()

    def ask_each(self, asked: Sequence[Executor], question: Callable[[], Answer]) -> dict[str, Answer]:
        """See ``Workers``. Any host may have a question after half a second (STANDBY_WAIT), or a lost executor would be
        waited for. Where it did not go to its place another one has answered for it, which is known, since Spark says
        where it ran. A job of one task is never speculated: else quick executors would answer for one that is new.
        """
        anybody = sorted({executor.host for executor in self.executors()})
        group = f"replay-members-{uuid.uuid4().hex}"

        def answer(number: int) -> Iterable[tuple[int, Answer]]:
            running = TaskContext.get()
            assert running is not None, "a task has a context"
            yield running.taskAttemptId(), question()

        def ask(some: Sequence[Executor]) -> list[tuple[int, Answer]]:
            try:
                with self._job_group(group):
                    return self.run_placed(answer, [[executor.location, *anybody] for executor in some])
            except Py4JError as error:
                if stop_below(error) is not None:
                    raise
                return []  # without answers tasks run where a core is free

        if self._context.getConf().get("spark.speculation", "false") == "true" and len(asked) > 1:
            with ThreadPoolExecutor(min(len(asked), _JOBS_AT_A_TIME)) as threads:
                answers = dict(chain.from_iterable(threads.map(ask, [[executor] for executor in asked])))
        else:
            answers = dict(ask(asked))
        ran_on = self._ran_on(group)
        return {ran_on[attempt]: given for attempt, given in answers.items() if attempt in ran_on}

    @contextmanager
    def _job_group(self, group: str) -> Iterator[None]:
        name = "spark.jobGroup.id"
        before = self._context.getLocalProperty(name)
        self._context.setLocalProperty(name, group)
        try:
            yield
        finally:
            self._context.setLocalProperty(name, before)  # type: ignore[arg-type]

    def _numbers(self, locations: Sequence[Sequence[str]]) -> "RDD[int]":
        """0, 1, …, one a partition, with the hosts or executors that each prefers."""
        # PySpark's ``parallelize`` takes no preferred locations. Scala's ``makeRDD`` does, of rows of
        # bytes, which Python's serializer reads as numbers.
        jvm = self._context._jvm
        assert jvm is not None, "the session runs"
        rows = jvm.java.util.ArrayList()
        for number, preferred in enumerate(locations):
            hosts = jvm.java.util.ArrayList()
            for host in preferred:
                hosts.add(host)
            rows.add(jvm.scala.Tuple2(bytearray(pickle.dumps(number)), jvm.PythonUtils.toSeq(hosts)))
        any_class = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
        placed = self._spark.makeRDD(jvm.PythonUtils.toSeq(rows), any_class)
        return RDD(placed.toJavaRDD(), self._context, CPickleSerializer())

    def _ran_on(self, group: str) -> dict[int, str]:
        """Executor by task attempt, of the jobs of a group."""
        # Listeners fill the status store, some time after a job has returned.
        with suppress(Py4JError):  # it takes long: what is not known yet is left out
            self._spark.listenerBus().waitUntilEmpty()
        tracker, store, executors = self._context.statusTracker(), self._spark.statusStore(), {}
        for job in tracker.getJobIdsForGroup(group):
            job_info = tracker.getJobInfo(job)
            for stage in job_info.stageIds if job_info is not None else ():
                # The first attempt of the stage alone: an answer of another one is left out, as if the
                # executor had given none.
                tasks = store.taskList(stage, 0, 1 << 20)
                for number in range(tasks.size()):
                    task = tasks.apply(number)
                    executors[task.taskId()] = task.executorId()
        return executors
