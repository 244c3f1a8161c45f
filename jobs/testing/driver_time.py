"""Recorded time in the test driver: what every source of every task has been told, and who is to be told next.

Rule: as in a replay by arrival (jobs/tape/source_progress.py, with one task a sub-topology): the topic's readers first;
whoever reads what they write is told when all that the moment caused above has come down to it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jobs.tape.stream_time import UNBOUND_MS, Moment, Reached
from jobs.task.task import Task
from state.times import NO_TIMESTAMP_MS


class Waiting(NamedTuple):
    """A moment on its way to a source. ``level``: how many tasks it was handed on by."""

    level: int
    source: int
    time_ms: int


class DrivenTime:
    """``tasks``: of all sub-topologies."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._recorded: dict[tuple[int, int], int] = {}
        """By sub-topology and number of the source."""
        self._reached: dict[str, int] = {}
        """Largest time of the records of a topic."""
        self._waiting: dict[int, list[Waiting]] = {}
        """By sub-topology."""

    def pipe(self, topic: str, time_ms: int) -> None:
        """A record of ``topic`` comes."""
        if time_ms >= 0:
            self._reached[topic] = max(self._reached.get(topic, 0), time_ms)

    def record(self, topic: str, time_ms: int) -> None:
        """Stream time of ``topic`` has reached ``time_ms``."""
        for task in self._tasks:
            for number, source in enumerate(task.sub_topology.sources):
                if source.landed_topic == topic:
                    self._waiting.setdefault(task.sub_topology.id, []).append(Waiting(0, number, time_ms))

    def tell(self, told: Mapping[str, int], level: int) -> None:
        """A task passes times on, by repartition topic and export, over ``level`` tasks."""
        for task in self._tasks:
            for number, name in enumerate(task.written_as):
                if name in told:
                    waiting = Waiting(level, number, told[name])
                    self._waiting.setdefault(task.sub_topology.id, []).append(waiting)

    def next_of(self, task: Task) -> list[Waiting]:
        """What waits for ``task``, in order; it is taken."""
        return sorted(self._waiting.pop(task.sub_topology.id, []))

    def moment(self, task: Task, waiting: Waiting) -> Moment:
        """The moment itself, with what all sources of the task have reached by now."""
        told = task.sub_topology.id, waiting.source
        self._recorded[told] = max(self._recorded.get(told, NO_TIMESTAMP_MS), waiting.time_ms)
        sources = {}
        for number, source in enumerate(task.sources):
            recorded_ms = self._recorded.get((task.sub_topology.id, number), NO_TIMESTAMP_MS)
            reached_ms = recorded_ms
            if source.landed_topic is not None:
                reached_ms = self._reached.get(source.landed_topic, UNBOUND_MS)
            if not source.is_global:
                sources[number] = Reached(recorded_ms, max(recorded_ms, reached_ms))
        return Moment(waiting.source, sources, waiting.time_ms + 1)
