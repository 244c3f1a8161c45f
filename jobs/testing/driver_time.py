"""Recorded time in the test driver: the time signalled to each source of each task, and the next source to receive it.

Rule: as in a replay by arrival (jobs/tape/source_progress.py, with one task a sub-topology): the topic's readers
first. Readers of what those write receive the time when everything that the advance caused upstream has reached them,
and a tick of the wall clock before all that.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...state.times import FOREVER, NO_TIMESTAMP_MS
from ..tape.stream_time import HOLDS_NONE_BACK, SourceProgress, StreamTimeAdvance
from ..task.task import Task
from ..topology.topology import Topology


class WaitingAdvance(NamedTuple):
    """A recorded time on its way to a source. ``level``: how many tasks it was handed on by."""

    level: int
    source: int
    time_ms: int
    is_tick: bool = False


class DrivenTime:
    """``tasks``: of all sub-topologies."""

    def __init__(self, topology: Topology, tasks: Sequence[Task]) -> None:
        self._topology, self._tasks = topology, tasks
        self._passed: dict[str, dict[int, int]] = {}
        """By repartition topic and sub-topology that writes it: the time that this one forwarded last."""
        self._recorded: dict[tuple[int, int], int] = {}
        """By sub-topology and number of the source."""
        self._reached: dict[str, int] = {}
        """Largest time of the records of a topic."""
        self._waiting: dict[int, list[WaitingAdvance]] = {}
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
                    self._waiting.setdefault(task.sub_topology.id, []).append(WaitingAdvance(0, number, time_ms))

    def tick(self, time_ms: int) -> None:
        """The wall clock has reached ``time_ms``; each task that reads a topic takes it once, and passes it on."""
        for task in self._tasks:
            landed = [number for number, one in enumerate(task.sub_topology.sources) if one.landed_topic is not None]
            for number in landed[:1]:
                waiting = WaitingAdvance(0, number, time_ms, is_tick=True)
                self._waiting.setdefault(task.sub_topology.id, []).append(waiting)

    def signal(self, writer: Task, signals: Mapping[str, int], level: int) -> None:
        """``writer`` passes times on, by repartition topic and export, over ``level`` tasks. A reader receives what all
        who write for it have forwarded.
        """
        for name, time_ms in signals.items():
            if name in self._topology.loop_topics:
                continue  # recorded times do not go round
            passed = self._passed.setdefault(name, {})
            passed[writer.sub_topology.id] = max(time_ms, passed.get(writer.sub_topology.id, NO_TIMESTAMP_MS))
            writers = self._topology.writers_of(name) or [writer.sub_topology]
            reached_ms = min(passed.get(sub.id, NO_TIMESTAMP_MS) for sub in writers)
            for task in self._tasks:
                for number, written_name in enumerate(task.written_names):
                    if written_name == name and reached_ms != NO_TIMESTAMP_MS:
                        waiting = WaitingAdvance(level, number, reached_ms)
                        self._waiting.setdefault(task.sub_topology.id, []).append(waiting)

    def pass_tick(self, signals: Mapping[str, int]) -> None:
        """A tick goes to the readers of repartition topics and exports, which take it before what it caused above."""
        for task in self._tasks:
            passed = [(number, signals[name]) for number, name in enumerate(task.written_names) if name in signals]
            for number, time_ms in passed[:1]:
                self._waiting.setdefault(task.sub_topology.id, []).append(
                    WaitingAdvance(0, number, time_ms, is_tick=True)
                )

    def next_of(self, task: Task) -> list[WaitingAdvance]:
        """What waits for ``task``, in order; it is taken."""
        return sorted(self._waiting.pop(task.sub_topology.id, []))

    def first_level(self, task: Task) -> int | None:
        """Of what waits for ``task`` the lowest level; None when nothing does."""
        return min((waiting.level for waiting in self._waiting.get(task.sub_topology.id, ())), default=None)

    def take_first(self, task: Task) -> WaitingAdvance:
        """The first that waits for ``task``; there must be one."""
        waiting = self._waiting[task.sub_topology.id]
        waiting.remove(first := min(waiting))
        return first

    def step(self, task: Task, waiting: WaitingAdvance) -> StreamTimeAdvance:
        """The advance itself, with what all sources of the task have reached by now."""
        signals = task.sub_topology.id, waiting.source
        if not waiting.is_tick:
            self._recorded[signals] = max(self._recorded.get(signals, NO_TIMESTAMP_MS), waiting.time_ms)
        sources = {}
        for number, source in enumerate(task.sources):
            recorded_ms = self._recorded.get((task.sub_topology.id, number), NO_TIMESTAMP_MS)
            reached_ms = recorded_ms
            if source.landed_topic is not None:
                # A topic without records holds nobody back, as in a replay (SourceClock).
                reached_ms = self._reached.get(source.landed_topic, FOREVER)
            if task.written_names[number] in self._topology.loop_topics:
                sources[number] = HOLDS_NONE_BACK
            elif not source.is_global:
                sources[number] = SourceProgress(recorded_ms, max(recorded_ms, reached_ms))
        tick_ms = waiting.time_ms if waiting.is_tick else None
        return StreamTimeAdvance(waiting.source, sources, waiting.time_ms + 1, tick_ms)
