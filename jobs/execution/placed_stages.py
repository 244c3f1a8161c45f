"""Stages of an increment whose tasks run where their state is warm.

Owns one group of members a pipeline, from increment to increment. Rule: this decides where a task runs and never
what it does; whatever goes wrong here (a hint that lies, a member that does not answer) costs time.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from ...state.errors import ReplayError
from ...state.runs.local_copies import StateFile, copy_name, own_cache
from ...state.tables.data_files import DataFile
from ...state.tables.names import TableName, TaskId
from ...state.tables.warehouse import PipelineTables
from ..placement.group import Present
from ..placement.settings import PlacementSettings
from ..topology.topology import Topology
from .placement_hint import group_of, read_hint, write_hint
from .spark_members import Executor, Workers
from .state_learner import Learned, Lesson, MemberAnswer, StartLearner, answer_of, learn, member_id, start_process
from .task_description import TaskDescription, TaskReport

T = TypeVar("T")
RunTasks = Callable[[Iterable[int]], Iterator[tuple[int, Any]]]
"""Runs the tasks of numbers on a worker; number and outcome of each."""

Described = tuple[int, str | None, Any]
"""Number of a task, the member that ran it, its outcome."""


@dataclass(slots=True)
class _Seat:
    """A member that is there: its executors, which share its cache, and its tags."""

    member: str
    executors: list[Executor]
    tags: dict[str, str]

    def present(self) -> Present:
        return Present(self.member, sum(executor.cores for executor in self.executors), self.tags)


class PlacedStages:
    """Runs stages of one pipeline after the other. ``cache``: directory of warm copies on every worker.
    ``start_learner``: called on a worker that is to learn.
    """

    def __init__(self, settings: PlacementSettings, cache: str, start_learner: StartLearner = start_process) -> None:
        self.settings, self.cache, self._start_learner = settings, cache, start_learner
        self._lesson: Lesson | None = None
        self._tables: PipelineTables | None = None
        self._increment = 0
        self._answers: dict[str, MemberAnswer] = {}
        self._state: dict[TaskId, dict[str, tuple[StateFile, ...]]] = {}
        self._announced: dict[str, tuple[Learned, ...]] = {}
        self._elsewhere: set[str] = set()
        self._seconds: dict[str, float] = {}

    def run(
        self, workers: Workers, topology: Topology, descriptions: list[TaskDescription], run_tasks: RunTasks
    ) -> list[tuple[int, Any]]:
        """(number, outcome) of every task."""
        first = descriptions[0]
        tables = first.warehouse.pipeline(first.pipeline)
        if self._tables != tables:
            self._tables, self._increment = tables, 0
            self._warehouse, self._pipeline = first.warehouse, first.pipeline
            self._group = group_of(read_hint(tables), self.settings)
            self._state, self._announced, self._lesson = {}, {}, None
        self._note_tasks(topology, descriptions)
        if self._increment != first.increment:
            self._increment, self._elsewhere, self._seconds = first.increment, set(), {}
            self._survey(workers)
            self._assign()
            self._announce(workers, topology)
        elif not {_id(description) for description in descriptions} <= set(self._group.assignment.owners()):
            self._assign()
        outcomes = self._run(workers, descriptions, run_tasks)
        self._book(descriptions, outcomes)
        self._announce(workers, topology)
        return [(number, outcome) for number, _, outcome in outcomes]

    def _note_tasks(self, topology: Topology, descriptions: list[TaskDescription]) -> None:
        """Know the tasks that are to run, and forget those that the topology has no longer."""
        subs = {sub.id for sub in topology.sub_topologies}
        for gone in [task for task in self._group.tasks if task.sub_topology not in subs]:
            del self._group.tasks[gone]
        for description in descriptions:
            self._knows(_id(description), dict(description.state))

    def _knows(self, task: TaskId, state: dict[str, tuple[StateFile, ...]]) -> None:
        self._state[task] = state
        self._group.note_files(task, _sizes(state))

    # --- who is there -------------------------------------------------------------------------------------------

    def _survey(self, workers: Workers) -> None:
        """Ask every executor who it is and what it has warm."""
        cache = self.cache
        there = workers.executors()
        asked = workers.ask_each(there, lambda: _unless_disk_fails(lambda: answer_of(own_cache(cache))))
        answers = {name: answer for name, answer in asked.items() if answer is not None}
        self._seats: dict[str, _Seat] = {}
        for executor in there:
            # An executor that was too busy to answer keeps its seat by its last answer; its copies are
            # those that the group noted of what it ran since.
            answer = answers.get(executor.id) or self._answers.get(executor.id)
            if answer is None:
                continue
            self._answers[executor.id] = answer
            seat = self._seats.setdefault(answer.member, _Seat(answer.member, [], dict(answer.tags)))
            seat.executors.append(executor)
            if executor.id in answers:
                self._group.has_warm(answer.member, answer.copies)

    def _assign(self) -> None:
        if self._seats:
            self._group.assign([seat.present() for seat in self._seats.values()])

    # --- carrying it out ----------------------------------------------------------------------------------------

    def _run(self, workers: Workers, descriptions: list[TaskDescription], run_tasks: RunTasks) -> list[Described]:
        cache = self.cache

        def run(number: int) -> Iterable[Described]:
            for _, outcome in run_tasks([number]):
                has_failed = isinstance(outcome, ReplayError)
                yield number, None if has_failed else _unless_disk_fails(lambda: member_id(own_cache(cache))), outcome

        return workers.run_placed(run, [self._locations(_id(description)) for description in descriptions])

    def _locations(self, task: TaskId) -> list[str]:
        """The executors of its owner, then the hosts of its standbys: Spark takes those once the owner is lost."""
        assignment = self._group.assignment
        owner = self._seats.get(assignment.owners().get(task, ""))
        if owner is None:
            return []
        standbys = [self._seats[name] for name in assignment.standbys(task) if name in self._seats]
        hosts = {executor.host for seat in standbys for executor in seat.executors}
        return [*(executor.location for executor in owner.executors), *sorted(hosts)]

    def _book(self, descriptions: list[TaskDescription], outcomes: list[Described]) -> None:
        """Who ran what, and which files its state has now."""
        for number, member, outcome in outcomes:
            if not isinstance(outcome, ReplayError):
                description = descriptions[number]
                state = _after(description, TaskReport(**outcome))
                self._state[_id(description)] = state
                self._group.ran(_id(description), member, _sizes(state))
        planned = self._group.assignment.owners()
        self._elsewhere |= {
            str(_id(descriptions[number]))
            for number, member, _ in outcomes
            if planned.get(_id(descriptions[number])) != member
        }
        self._seconds |= {str(_id(descriptions[number])): _seconds(outcome) for number, _, outcome in outcomes}
        self._write_hint()

    def _write_hint(self) -> None:
        members = {
            seat.member: {
                "hosts": sorted({executor.host for executor in seat.executors}),
                "cores": seat.present().capacity,
                "tags": seat.tags,
            }
            for seat in self._seats.values()
        }
        assert self._tables is not None
        write_hint(
            self._tables,
            self._group,
            increment=self._increment, members=members, elsewhere=sorted(self._elsewhere), seconds=self._seconds,
        )  # fmt: skip

    def _announce(self, workers: Workers, topology: Topology) -> None:
        """Send members the list of tasks whose state they keep warm, where that has changed."""
        wanted = {
            name: tuple(Learned(*task, self._state[task]) for task in self._group.to_learn(name) if task in self._state)
            for name in self._seats
        }
        news = {name: learned for name, learned in wanted.items() if learned != self._announced.get(name, ())}
        if not news:
            return
        # Another topology object may have other code. With a new key, learners that run the old
        # code end (StateLearner).
        if self._lesson is None or self._lesson.topology is not topology:
            self._lesson = Lesson(uuid.uuid4().hex, self._warehouse, self._pipeline, topology)
        cache, lesson, start = self.cache, self._lesson, self._start_learner
        alive = {executor.id for executor in workers.executors()}  # Spark would wait for one that was lost meanwhile
        there = [executor for name in news for executor in self._seats[name].executors if executor.id in alive]
        answers = workers.ask_each(
            there, lambda: _unless_disk_fails(lambda: _hear(own_cache(cache), lesson, news, start))
        )
        # Only who has answered counts as informed; the others get their list after the next stage.
        self._announced |= {name: news[name] for name in answers.values() if name is not None}


def _hear(cache: str, lesson: Lesson, news: dict[str, tuple[Learned, ...]], start: StartLearner) -> str | None:
    """On a worker: carry out the instructions to the member here. Returns its name, or None where there is nothing
    new for it.
    """
    member = member_id(cache)
    if member not in news:
        return None
    learn(cache, lesson, news[member], start)
    return member


def _unless_disk_fails(ask: Callable[[], T]) -> T | None:
    """On a worker: None where the disk of its cache is full, read-only or gone, so that it is no member."""
    with suppress(OSError):
        return ask()
    return None


def _id(description: TaskDescription) -> TaskId:
    return TaskId(description.sub_topology, description.partition)


def _sizes(state: dict[str, tuple[StateFile, ...]]) -> dict[str, int] | None:
    """Bytes of a task's state files by the name of their warm copy; None: it has no stores."""
    if not state:
        return None
    return {copy_name(each): each.file.bytes for files in state.values() for each in files}


def _seconds(outcome: Any) -> float:
    return 0.0 if isinstance(outcome, ReplayError) else float(sum(outcome["seconds"].values()))


def _after(description: TaskDescription, report: TaskReport) -> dict[str, tuple[StateFile, ...]]:
    """State files of a task once it has run."""
    tables, state = description.warehouse.pipeline(description.pipeline), {}
    for store, files in description.state.items():
        gone = {file["path"] for file in report.removed.get(TableName.state(store), ())}
        added = [
            StateFile(tables.state(store), DataFile.from_dict(file))
            for file in report.files.get(TableName.state(store), ())
        ]
        state[store] = (*(kept for kept in files if kept.file.path not in gone), *added)
    return state
