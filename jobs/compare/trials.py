"""A task that runs again in memory as production may have run it: with restarts, or with its topics in another order.

Owns what may be tried, and what it costs. Rule: nothing is tried where records have another order than by time, where
other code made the rows that are compared, or where callables may act on the world.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...state.buffers import only_chunk
from ...state.errors import ReplayError
from ...state.tables.parquet_writer import stored_as
from ..execution.run_observer import RunObserver, leave_out_lookers
from ..execution.sinks import NoSink
from ..execution.task_description import TaskDescription, TaskReport
from ..execution.task_run import TaskRun
from ..replay.rerun import Rerun
from ..tape.task_input import TapeChunk
from ..task.task import Result, Task
from ..topology.topology import Topology
from .alignment import RowVerdict
from .case import Case, Cause
from .compared_output import ComparedOutput
from .sides import digests, digests_of, row_schema

RECORDS_MAX = 1 << 25
"""So many records are taken again for a comparison, in all trials together."""
RECORDS_A_TRIAL = 1 << 13
"""What it takes to begin a task, in records."""
PARTS = 4
"""One partition takes at most one in so many of those that are left: one that is hopeless leaves some to others."""
DIFFERENT = (RowVerdict.EXTRA, RowVerdict.OTHER_VALUE, RowVerdict.OTHER_TIME, RowVerdict.OTHER_ORDER)
"""Of rows of production."""


@dataclass(frozen=True, eq=False)
class Run:
    """``rows``: digests of all that a task wrote; ``place``: of the record that caused each, on the task's tape.
    ``dropped``: places of records that were refused.
    """

    rows: np.ndarray
    place: np.ndarray
    dropped: np.ndarray


class _Written(RunObserver):
    """What a task takes and writes; functions that only look on are not called."""

    def __init__(self, output: ComparedOutput, ignored: Collection[str], *, wants_keys: bool) -> None:
        self.wants_keys = wants_keys
        self._output, self._ignored, self._schema = output, ignored, row_schema(output)

    def begins(self, task: Task, next_offsets: object) -> None:
        """As RunObserver."""
        self.source, self.offset, self.time_ms = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        self._rows, self._place, self._dropped = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        self.key = list[np.ndarray]()
        self._begin = 0
        leave_out_lookers(task)

    def took(self, task: Task, part: TapeChunk, result: Result) -> None:
        """As RunObserver."""
        self.source.append(part.source)
        self.offset.append(part.spread("offset", -1))
        self.time_ms.append(part.spread("timestamp", -1))
        if self.wants_keys:
            self.key.append(_key_digests(part))
        rows = result.outputs.get(self._output.name)
        if rows is not None and len(rows):
            written = stored_as(rows, self._schema).cast(self._schema)
            self._rows.append(digests_of(self._output, written, self._ignored))
            self._place.append(self._begin + rows["cause"].to_numpy())
        self._dropped.append(self._begin + result.dropped["cause"].to_numpy())

    def wrote(self, part: TapeChunk) -> None:
        """As RunObserver."""
        self._begin += len(part)

    @property
    def run(self) -> Run:
        none = np.zeros(0, np.int64)
        return Run(
            np.concatenate([none.view(np.uint64), *self._rows]), np.concatenate([none, *self._place]),
            np.unique(np.concatenate([none, *self._dropped])),
        )  # fmt: skip


def _key_digests(part: TapeChunk) -> np.ndarray:
    """Of the bytes, so that a key is the same in all topics."""
    found = np.zeros(len(part), np.uint64)
    for number, table in enumerate(part.tables):
        found[part.rows(number)] = digests(only_chunk(table, "key").cast(pa.binary()))
    return found


class _StageFound(Exception):
    """The tasks are described, and none is to run."""


class _Describing:
    """A Runner that runs nothing: the descriptions of a sub-topology's tasks, by partition."""

    def __init__(self, sub_topology: int) -> None:
        self._sub_topology = sub_topology
        self.descriptions: dict[int, TaskDescription] = {}

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """As a Runner, one stage; raises _StageFound at that of the sub-topology."""
        self.descriptions = {each.partition: each for each in descriptions if each.sub_topology == self._sub_topology}
        if self.descriptions:
            raise _StageFound
        return []


def can_be_tried(case: Case) -> bool:
    """Whether the tasks of the output can run again as the pipeline ran them."""
    output, done = case.output, case.done
    has_recorded = any(any(each.values()) for each in (done.recorded_to or {}).values())
    is_by_time = not (done.by_arrival or done.flushed or has_recorded)
    graph = output.topology.graph
    acts = any(node.reach(graph).gives_times for node in graph.nodes.values())  # processors may act on the world
    is_alone = output.sub_topology.reads_landed_alone and not output.moves_keys
    return is_by_time and is_alone and not acts and case.landed.partitions == case.partitions


def descriptions(case: Case, topology: Topology, folder: str) -> dict[int, TaskDescription]:
    """Of the tasks that write the output, by partition: over all records that the pipeline has read. Empty where the
    topology cannot continue with the pipeline's state, or what it has cannot be read: a trial is no reason to fail.
    """
    describing = _Describing(case.output.sub_topology.id)
    with suppress(_StageFound, ReplayError):
        again = Rerun(
            case.warehouse, topology, case.pipeline, describing, before=None, order="time", last=case.done,
            exchange=folder,
        )  # fmt: skip
        plan = next(again.plans(), None)
        if plan is not None and plan.row.migrate is None:
            again.run(plan)
    return describing.descriptions


class TrialTask:
    """The task of ``description``. Arrays of its tape, by record in order: ``source``, ``offset``, ``time_ms``, and
    ``key``, digests, with ``wants_keys``. ``theirs``, ``ours``: rows of its partition; ``wanted``: digests of
    production's. ``most``: so many records may be taken; ``taken``: so many were.
    """

    def __init__(
        self, case: Case, topology: Topology, description: TaskDescription, ignored: Collection[str], most: int, *,
        wants_keys: bool = False,
    ) -> None:  # fmt: skip
        self.case, self.topology, self.description, self.most, self.taken = case, topology, description, most, 0
        self.wants_keys = wants_keys
        self.sources = topology.sub_topology(description.sub_topology).sources
        self._written = _Written(case.output, ignored, wants_keys=wants_keys)
        self._queues = {queue.source: number for number, queue in enumerate(description.queues)}
        self.theirs = np.flatnonzero(case.theirs.partition == description.partition)
        self.ours = np.flatnonzero(case.ours.partition == description.partition)
        self.wanted = case.theirs.whole[self.theirs]
        self._cost = RECORDS_A_TRIAL + sum(queue.length for queue in description.queues)
        mine = self.ours[case.alignment.ours[self.ours] == RowVerdict.MISSING]
        self._is_open = bool(np.any(case.ours_cause[mine] == Cause.NOT_YET))
        """Production has not come to the end of what we have."""

    def begin(self) -> bool:
        """Run it as it was; whether anything can be tried: something is read, and no other code made our rows."""
        if not self.has_room:
            return False
        self.base = self.run()
        if not self._written.source or not np.array_equal(self.base.rows, self.case.ours.whole[self.ours]):
            return False
        self.source, self.offset, self.time_ms = (
            np.concatenate(parts) for parts in (self._written.source, self._written.offset, self._written.time_ms)
        )
        self.key = np.concatenate([np.zeros(0, np.uint64), *self._written.key])
        self._written.wants_keys = False
        self.is_own = self.source < len(self.sources)  # not of a global table
        return True

    @property
    def has_room(self) -> bool:
        """It may run once more."""
        return self.taken + self._cost <= self.most

    def run(self, places: Sequence[int] = (), order: np.ndarray | None = None) -> Run:
        """The whole task, with restarts before these places of its tape. ``order``: places in the order in which they
        are taken, None: as they are; then of a run in this order.
        """
        self.taken += self._cost
        more: dict[int, set[int]] = {}
        for place in places:
            more.setdefault(int(self.source[place]), set()).add(int(self.offset[place]))
        queues = tuple(
            replace(queue, restarts=tuple(sorted({*queue.restarts, *more.get(queue.source, ())})))
            for queue in self.description.queues
        )
        description = replace(self.description, queues=queues)
        given = None
        if order is not None:
            numbers = np.array([self._queues.get(source, -1) for source in range(len(self.sources))], np.int16)
            given = numbers[self.source[order]]
        TaskRun(self.topology, description, None, NoSink(), self._written, given=given).run()
        return self._written.run

    def score(self, run: Run) -> tuple[int, int]:
        """So many rows from the first on are those of production. Where all are, minus the rows beyond them, unless
        production is to have these.
        """
        n = min(len(run.rows), len(self.wanted))
        differing = np.flatnonzero(run.rows[:n] != self.wanted[:n])
        agreed = int(differing[0]) if len(differing) else n
        beyond = 0 if self._is_open or agreed < len(self.wanted) else len(run.rows) - agreed
        return agreed, -beyond

    @property
    def best_score(self) -> tuple[int, int]:
        """Of a run that gives all rows of production."""
        return len(self.wanted), 0
