"""Restarts that are found by trial: a task runs again in memory, with a restart at each place that may change a row.

Owns the search. Rule: a difference is explained when the task, with the restarts so far, writes all rows of
production's partition up to it: the same keys, windows, values and times in the same order. A restart matters to a
record that is late by the stream time of the task's life so far, by the times that it takes away, and to what waits in
an outer join. So for each such record one place is tried of those that take away the same, and the place is kept with
which most rows agree. Nothing is tried where records have another order than by time, or where other code made the rows
that are compared.
"""

from bisect import bisect
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from ...state.errors import ReplayError, TaskFailed
from ...state.tables.names import TaskId
from ...state.tables.parquet_writer import stored_as
from ..execution.run_observer import RunObserver, leave_out_lookers
from ..execution.sinks import NoSink
from ..execution.task_description import TaskDescription, TaskReport
from ..execution.task_run import TaskRun
from ..operators.joins.stream_join_node import StreamJoinNode
from ..replay.rerun import Rerun
from ..tape.task_input import TapeChunk
from ..task.task import Result, Task
from ..topology.topology import Topology
from .alignment import RowVerdict
from .case import Case, Cause
from .compared_output import ComparedOutput
from .restarts import Restart
from .sides import digests_of, row_schema

RECORDS_MAX = 1 << 25
"""So many records are taken again for a comparison, in all trials together."""
RECORDS_A_TRIAL = 1 << 13
"""What it takes to begin a task, in records."""
PARTS = 4
"""One partition takes at most one in so many of those that are left: one that is hopeless leaves some to others."""
RESTARTS_MAX = 256
"""Of a partition."""
LATE_MAX, BEFORE_MAX = 512, 1 << 14
"""So many late records before a row that differs may have caused it, and so many records before each are looked at."""


@dataclass(frozen=True, eq=False)
class TriedRestarts:
    """Of a ``partition``. ``restarts``, in order, each with the first row of production that it explains (``begins``)
    and the first of ours that it may change (``begins_ours``). An earlier restart may explain only a later row.
    """

    partition: int
    restarts: tuple[Restart, ...]
    begins: tuple[int, ...]
    begins_ours: tuple[int, ...]
    is_whole: bool
    """All rows of production are explained."""

    def of_row(self, number: int) -> Restart:
        """The one that explains row ``number`` of production."""
        begins = np.array(self.begins)
        return self.restarts[int(np.argmax(np.where(begins <= number, begins, -1)))]

    def of_our_row(self, number: int) -> Restart:
        """The one that explains why production does not have our row ``number``."""
        return self.restarts[max(0, int(np.searchsorted(self.begins_ours, number, side="right")) - 1)]


@dataclass(frozen=True, eq=False)
class _Run:
    """``rows``: digests of all that a task wrote; ``place``: of the record that caused each, on the task's tape.
    ``dropped``: places of records that were refused.
    """

    rows: np.ndarray
    place: np.ndarray
    dropped: np.ndarray


class _Written(RunObserver):
    """What a task takes and writes; functions that only look on are not called."""

    def __init__(self, output: ComparedOutput, ignored: Collection[str]) -> None:
        self._output, self._ignored, self._schema = output, ignored, row_schema(output)

    def begins(self, task: Task, next_offsets: object) -> None:
        """As RunObserver."""
        self.source, self.offset, self.time_ms = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        self._rows, self._place, self._dropped = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        self._begin = 0
        leave_out_lookers(task)

    def took(self, task: Task, part: TapeChunk, result: Result) -> None:
        """As RunObserver."""
        self.source.append(part.source)
        self.offset.append(part.spread("offset", -1))
        self.time_ms.append(part.spread("timestamp", -1))
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
    def run(self) -> _Run:
        none = np.zeros(0, np.int64)
        return _Run(
            np.concatenate([none.view(np.uint64), *self._rows]), np.concatenate([none, *self._place]),
            np.unique(np.concatenate([none, *self._dropped])),
        )  # fmt: skip


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


def try_restarts(case: Case, ignored: Collection[str] = ()) -> list[TriedRestarts]:
    """Give RESTART to what restarts explain that are found by trial, in partitions in which a cause is in doubt.
    ``ignored``: fields of the value that are not compared.
    """
    in_doubt = np.isin(case.theirs_cause, _IN_DOUBT) | _is_read_already(case)
    in_doubt &= np.isin(case.alignment.theirs, _DIFFERENT)
    ours = case.unexplained(RowVerdict.MISSING)
    partitions = np.union1d(case.theirs.partition[in_doubt], case.ours.partition[ours]).tolist()
    if not partitions or not _can_be_tried(case):
        return []
    topology = case.output.topology.reading(case.done.cut_to)
    with TemporaryDirectory() as folder:
        described = _descriptions(case, topology, folder)
        left, attempts = RECORDS_MAX, []
        for number, partition in enumerate(partitions):
            if partition in described:
                most = left // min(len(partitions) - number, PARTS)
                task = _TriedTask(case, topology, described[partition], ignored, most)
                attempts.append(task.search())
                left -= task.taken
    return [tried for tried in attempts if tried is not None]


def _is_read_already(case: Case) -> np.ndarray:
    """Rows of production that are later than all of ours, and no later than what the pipeline has read."""
    sub, is_read = case.output.sub_topology.id, np.zeros(len(case.theirs), np.bool_)
    for partition in np.unique(case.theirs.partition[case.theirs_cause == Cause.NOT_YET]).tolist():
        read_ms = case.done.task(TaskId(sub, partition)).tape_time_ms
        is_read |= (case.theirs.partition == partition) & (case.theirs.time <= read_ms)
    is_read &= case.theirs_cause == Cause.NOT_YET
    return is_read


_IN_DOUBT = (Cause.NOT_EXPLAINED, Cause.PROCESSED_TWICE, Cause.CRASH, Cause.INTERLEAVING)
"""What rows around a row say may be wrong: where restarts give all rows of a partition, it was them."""
_DIFFERENT = (RowVerdict.EXTRA, RowVerdict.OTHER_VALUE, RowVerdict.OTHER_TIME, RowVerdict.OTHER_ORDER)


def _can_be_tried(case: Case) -> bool:
    output, done = case.output, case.done
    has_recorded = any(any(each.values()) for each in (done.recorded_to or {}).values())
    is_by_time = not (done.by_arrival or done.flushed or has_recorded)
    graph = output.topology.graph
    acts = any(node.reach(graph).gives_times for node in graph.nodes.values())  # processors may act on the world
    is_alone = output.sub_topology.reads_landed_alone and not output.moves_keys
    return is_by_time and is_alone and not acts and case.landed.partitions == case.partitions


def _descriptions(case: Case, topology: Topology, folder: str) -> dict[int, TaskDescription]:
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


class _SearchPath(NamedTuple):
    """Restarts at ``places`` of the tape, and of each the number of the row of production from which it ``begins`` to
    explain; ``score``: as of _TriedTask.
    """

    score: tuple[int, int]
    places: tuple[int, ...]
    begins: tuple[int, ...]


class _TriedTask:
    """``most``: so many records may be taken; ``taken``: so many were."""

    def __init__(
        self, case: Case, topology: Topology, description: TaskDescription, ignored: Collection[str], most: int
    ) -> None:
        self.case, self.topology, self.description, self.most, self.taken = case, topology, description, most, 0
        self.sources = topology.sub_topology(description.sub_topology).sources
        self._written = _Written(case.output, ignored)
        partition = description.partition
        self.theirs = np.flatnonzero(case.theirs.partition == partition)
        self.ours = np.flatnonzero(case.ours.partition == partition)
        self.wanted = case.theirs.whole[self.theirs]
        self._cost = RECORDS_A_TRIAL + sum(queue.length for queue in description.queues)
        mine = self.ours[case.alignment.ours[self.ours] == RowVerdict.MISSING]
        self._is_open = bool(np.any(case.ours_cause[mine] == Cause.NOT_YET))
        """Production has not come to the end of what we have."""

    def search(self) -> TriedRestarts | None:
        """None where nothing is explained, or nothing can be tried."""
        if not self._has_room:
            return None
        try:
            base = self._run(())
            if not self._written.source or not np.array_equal(base.rows, self.case.ours.whole[self.ours]):
                return None  # nothing is read, or other code made what the pipeline has
            self._base = base
            self.source, self.offset, self.time_ms = (
                np.concatenate(parts) for parts in (self._written.source, self._written.offset, self._written.time_ms)
            )
            self._is_own = self.source < len(self.sources)  # not of a global table
            return self._search(base)
        except ReplayError:  # an operator that cannot restart, or a callable that fails
            return None

    def _search(self, base: _Run) -> TriedRestarts | None:
        self._best = _SearchPath(self._score(base), (), ())
        self._continue(self._best, base)
        score, places, begins = self._best
        if not places:
            return None
        run = self._run(places)
        self._give(run, score[0])
        begins_ours = np.searchsorted(base.place, places)
        return TriedRestarts(
            self.description.partition, tuple(self._restarts(places, run)),
            tuple(_row_numbers(self.theirs, begins)), tuple(_row_numbers(self.ours, begins_ours)),
            is_whole=score[0] == len(self.wanted),
        )  # fmt: skip

    def _continue(self, path: "_SearchPath", run: _Run) -> bool:
        """Look for restarts besides those of ``path``, which give ``run``; whether all rows agree then. Of two places
        with the same rows so far one may be wrong, which shows behind it: so each is tried until that one is found.
        """
        if path.score == self._best_score:
            return True
        for step in self._steps(path, run):
            self._best = max(self._best, step, key=lambda each: each.score)
            if not self._has_room or len(step.places) > RESTARTS_MAX:
                return False
            if self._continue(step, self._run(step.places)):
                return True
        return False

    def _steps(self, path: "_SearchPath", run: _Run) -> Iterator["_SearchPath"]:
        """With one more restart, by falling score, which is above that of ``path``; those with equal rows once."""
        for some in self._places(path.places, run, path.score[0]):
            by_rows = dict[int, _SearchPath]()
            for place in some:
                if not self._has_room:
                    return
                at = bisect(path.places, place)
                places = *path.places[:at], place, *path.places[at:]
                try:
                    tried = self._run(places)
                except TaskFailed:  # as production did not, so it did not restart here
                    continue
                score = self._score(tried)
                if score > path.score:
                    # Likelier places come first, so of those that give equal rows the first is kept.
                    same = hash(tried.rows.tobytes())
                    begins = *path.begins[:at], path.score[0], *path.begins[at:]
                    by_rows.setdefault(same, _SearchPath(score, places, begins))
                if score == self._best_score:
                    break
            yield from sorted(by_rows.values(), key=lambda each: each.score, reverse=True)

    @property
    def _has_room(self) -> bool:
        """It may run once more."""
        return self.taken + self._cost <= self.most

    def _run(self, places: Sequence[int]) -> _Run:
        """The whole task, with restarts before these places of its tape."""
        self.taken += self._cost
        more: dict[int, set[int]] = {}
        for place in places:
            more.setdefault(int(self.source[place]), set()).add(int(self.offset[place]))
        queues = tuple(
            replace(queue, restarts=tuple(sorted({*queue.restarts, *more.get(queue.source, ())})))
            for queue in self.description.queues
        )
        description = replace(self.description, queues=queues)
        TaskRun(self.topology, description, None, NoSink(), self._written).run()
        return self._written.run

    def _score(self, run: _Run) -> tuple[int, int]:
        """So many rows from the first on are those of production. Where all are, minus the rows beyond them, unless
        production is to have these.
        """
        n = min(len(run.rows), len(self.wanted))
        differing = np.flatnonzero(run.rows[:n] != self.wanted[:n])
        agreed = int(differing[0]) if len(differing) else n
        beyond = 0 if self._is_open or agreed < len(self.wanted) else len(run.rows) - agreed
        return agreed, -beyond

    @property
    def _best_score(self) -> tuple[int, int]:
        return len(self.wanted), 0

    # --- places ----------------------------------------------------------------------------------------------

    def _places(self, given: Sequence[int], run: _Run, agreed: int) -> Iterator[Sequence[int]]:
        """Places before which a restart may be besides those ``given``, the most likely first. Behind these, those that
        matter to a late record which may have caused the first row that differs. Then to any late one before it, whose
        result may leave later. Below a left or outer join of streams the others, too: it also forgets that records
        wait. Last those before a given one: by themselves they had changed no row.
        """
        last = given[-1] if given else -1
        until = int(run.place[agreed]) if agreed < len(run.place) else len(self.time_ms) - 1
        first = int(run.place[agreed - 1]) if agreed else 0
        near = self._near(last, max(first, last + 1), until)
        yield near
        known = {*near}
        before = [place for place in self._near(last, last + 1, first) if place not in known]
        yield before
        if any(isinstance(node, StreamJoinNode) and node.kind != "inner" for node in self.case.output.above):
            known |= {*before}
            others = range(until, max(last, until - LATE_MAX), -1)
            yield [place for place in others if place not in known and self._is_own[place]]
        yield [place for place in self._near(-1, 0, last) if place not in given]

    def _near(self, last: int, first: int, until: int) -> list[int]:
        """Those that matter to late records from place ``first`` to ``until``, the last first."""
        begin = max(last, 0)
        life = self.time_ms[begin : until + 1]
        late = begin + 1 + np.flatnonzero(life[1:] < np.maximum.accumulate(life)[:-1])
        late = late[late >= first][-LATE_MAX:]
        near = {*late.tolist()}
        for at in late.tolist():
            near.update(self._ends(max(begin, at - BEFORE_MAX), at))
        return sorted((place for place in near if place > last and self._is_own[place]), reverse=True)

    def _ends(self, begin: int, at: int) -> Iterator[int]:
        """Positions from ``begin`` to ``at`` whose time is later than all behind it of its source: what a restart takes
        away changes there.
        """
        for source in np.unique(self.source[begin:at]).tolist():
            own = begin + np.flatnonzero(self.source[begin:at] == source)[::-1]
            highest = np.maximum.accumulate(self.time_ms[own])
            yield from own[np.append(True, highest[1:] > highest[:-1])].tolist()

    def _restarts(self, places: Sequence[int], run: _Run) -> Iterator[Restart]:
        """``records``: those that are refused without restarts, and not with them, up to the next one."""
        let_in = np.setdiff1d(self._base.dropped, run.dropped)
        for place, end in zip(places, [*places[1:], len(self.time_ms)], strict=True):
            earlier = self.offset[:place][self.source[:place] == self.source[place]]
            yield Restart(
                str(self.sources[int(self.source[place])].landed_topic), self.description.partition,
                int(earlier[-1]) if len(earlier) else -1, int(self.offset[place]),
                int(np.count_nonzero((let_in >= place) & (let_in < end))),
            )  # fmt: skip

    def _give(self, run: _Run, agreed: int) -> None:
        """Give the cause to what has none, up to the first row that still differs: the ``agreed`` one of ``run``. Where
        all rows of production agree, nothing else was the cause of any.
        """
        case, theirs = self.case, self.theirs[:agreed]
        is_whole = agreed == len(self.wanted)
        end = int(run.place[agreed]) if agreed < len(run.rows) else len(self.time_ms)
        ours = self.ours[self._base.place < end]
        theirs = theirs[np.isin(case.alignment.theirs[theirs], _DIFFERENT)]
        theirs = theirs[_is_open(case.theirs_cause[theirs], is_whole)]
        ours = ours[case.alignment.ours[ours] == RowVerdict.MISSING]
        ours = ours[_is_open(case.ours_cause[ours], is_whole)]
        # No late record is the evidence (-1), so the sentence names the restart that was tried (CauseSentences).
        case.give(theirs, Cause.RESTART, np.full(len(theirs), -1))
        case.give_ours(ours, Cause.RESTART, np.full(len(ours), -1))


def _is_open(causes: np.ndarray, is_whole: bool) -> np.ndarray:
    is_open: np.ndarray = causes != Cause.RESTART if is_whole else causes == Cause.NOT_EXPLAINED
    return is_open


def _row_numbers(rows: np.ndarray, at: Sequence[int] | np.ndarray) -> Iterator[int]:
    """Of ``rows`` those at these indices, the last for one behind them; 0 where there are none."""
    yield from (int(rows[min(int(index), len(rows) - 1)]) if len(rows) else 0 for index in at)
