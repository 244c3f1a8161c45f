"""Workers of a cluster that is played in this process: executors with caches of their own, one task after the other.

Rule: a task runs where Spark would run it. That is the first of its preferred places that is there, else the worker
that has run least of the stage, since its core is free first. Learners copy only when ``learn`` is called, so that
nothing depends on which process was quicker.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...jobs.execution.placed_stages import PlacedStages
from ...jobs.execution.spark_members import Executor
from ...jobs.execution.state_learner import Lesson, StateLearner
from ...jobs.execution.task_description import TaskDescription, TaskReport
from ...jobs.execution.task_run import run_task
from ...jobs.placement.settings import PlacementSettings
from ...jobs.topology import Topology
from ...state.runs.local_copies import CACHE_VARIABLE

Answer = TypeVar("Answer")
RunOne = Callable[[Topology, TaskDescription, str | None], TaskReport]


@dataclass
class PlayedWorkers:
    """``folder``: of the caches. ``lost``: executors that die when a task of a stage is to run there."""

    folder: Path
    there: list[Executor] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    _lessons: dict[str, Lesson] = field(default_factory=dict)

    def start(self, number: int, member: str | None = None) -> Executor:
        """A worker more, whose learner is played, too. ``member``: its id, by which ties are broken; None: one by
        chance, as members have it.
        """
        executor = Executor(str(number), f"host-{number}", 1)
        cache = Path(self.cache(executor))
        cache.mkdir(parents=True, exist_ok=True)
        if member is not None:
            (cache / "member").write_text(member)
        self.there.append(executor)
        return executor

    def cache(self, executor: Executor) -> str:
        """Directory of its warm copies; executors of one host share one."""
        return str(self.folder / executor.host)

    def executors(self) -> list[Executor]:
        """See ``Workers``, as the next two."""
        return list(self.there)

    def ask_each(self, asked: Sequence[Executor], question: Callable[[], Answer]) -> dict[str, Answer]:
        return {executor.id: self._on(executor, question) for executor in asked}

    def run_placed(self, work: Callable[[int], Iterable[Answer]], locations: Sequence[Sequence[str]]) -> list[Answer]:
        ran = dict.fromkeys((executor.location for executor in self.there), 0)
        return [each for number, preferred in enumerate(locations) for each in self._run(work, number, preferred, ran)]

    def learn(self) -> None:
        """Every learner copies all that it was asked to."""
        for executor in self.there:
            cache = self.cache(executor)
            if cache in self._lessons:
                StateLearner(cache, os.getpid(), self._lessons[cache]).copy_what_is_new()

    def keep_lesson(self, cache: str, lesson: Lesson) -> None:
        """In place of a process that is started."""
        self._lessons[cache] = lesson

    def _run(
        self, work: Callable[[int], Iterable[Answer]], number: int, preferred: Sequence[str], ran: dict[str, int]
    ) -> list[Answer]:
        for location in [*preferred, *sorted(ran, key=ran.__getitem__)]:
            for executor in [one for one in self.there if location in (one.location, one.host)]:
                if executor.id not in self.lost:
                    ran[executor.location] += 1
                    return self._on(executor, lambda: list(work(number)))
                self.there.remove(executor)
        raise AssertionError("nobody is left")

    def _on(self, executor: Executor, work: Callable[[], Answer]) -> Answer:
        before = os.environ.get(CACHE_VARIABLE)
        os.environ[CACHE_VARIABLE] = self.cache(executor)
        try:
            return work()
        finally:
            if before is None:
                del os.environ[CACHE_VARIABLE]
            else:
                os.environ[CACHE_VARIABLE] = before


class PlayedRunner:
    """Places tasks as SparkRunner does on a cluster. ``ran``: host of every task of the increment, by id.
    ``run_one``: runs one, else ``run_task`` does.
    """

    def __init__(self, workers: PlayedWorkers, settings: PlacementSettings, run_one: RunOne = run_task) -> None:
        self.workers, self.ran, self._run_one = workers, dict[str, str](), run_one
        self._stages = PlacedStages(settings, "every worker has a cache of its own", workers.keep_lesson)

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """See ``Runner``."""

        def run_tasks(numbers: Iterable[int]) -> Iterable[tuple[int, dict[str, Any]]]:
            for number in numbers:
                cache = os.environ[CACHE_VARIABLE]
                self.ran[descriptions[number].id] = Path(cache).name
                yield number, asdict(self._run_one(topology, descriptions[number], cache))

        outcomes = self._stages.run(self.workers, topology, descriptions, run_tasks)
        return [TaskReport(**outcome) for _, outcome in sorted(outcomes, key=lambda pair: pair[0])]
