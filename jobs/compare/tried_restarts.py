"""Restarts that are found by trial: a task runs again in memory, with a restart at each place that may change a row.

Owns the search. Rule: a difference is explained when the task, with the restarts so far, writes all rows of
production's partition up to it: the same keys, windows, values and times in the same order. A restart matters to a
record that is late by the stream time of the task's life so far, and by nothing but the times that it takes away. So
for each such record one place is tried of those that take away the same, and the place is kept with which most rows
agree. Nothing is tried where records have another order than by time, or where other code made the rows that are
compared.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from ...state.errors import CodeChanged, ReplayError
from ...state.tables.parquet_writer import stored_as
from ...state.tables.warehouse import WINDOW
from ..execution.run_observer import RunObserver
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
from .sides import digests_of

RECORDS_MAX = 1 << 25
"""So many records are taken again for a comparison, in all trials together."""
RECORDS_A_TRIAL = 1 << 13
"""What it takes to begin a task, in records."""
LATE_MAX, BEFORE_MAX = 512, 1 << 14
"""So many late records before a row that differs may have caused it, and so many records before each are looked at."""


@dataclass(frozen=True, eq=False)
class TriedRestarts:
    """Of a ``partition``. ``restarts``, in order, each with the first row of production that it explains (``begins``)
    and the first of ours that it may change (``begins_ours``).
    """

    partition: int
    restarts: tuple[Restart, ...]
    begins: tuple[int, ...]
    begins_ours: tuple[int, ...]

    def of_row(self, number: int) -> Restart:
        """The one that explains row ``number`` of production."""
        return self.restarts[max(0, int(np.searchsorted(self.begins, number, side="right")) - 1)]

    def of_our_row(self, number: int) -> Restart:
        """The one that explains why production does not have our row ``number``."""
        return self.restarts[max(0, int(np.searchsorted(self.begins_ours, number, side="right")) - 1)]


@dataclass(frozen=True, eq=False)
class _Run:
    """``rows``: digests of all that a task wrote; ``position``: of the record that caused each, on the task's tape.
    ``dropped``: positions of records that were refused.
    """

    rows: np.ndarray
    position: np.ndarray
    dropped: np.ndarray


class _Written(RunObserver):
    """What a task takes and writes; functions that only look on are not called."""

    def __init__(self, output: ComparedOutput, ignored: Collection[str]) -> None:
        shape = output.sink.shape
        windows = [(name, pa.int64()) for name in (WINDOW if output.windows else ())]
        self._schema = pa.schema([
            ("key", shape.key.arrow_type), *windows, ("value", shape.value.arrow_type), ("record_time_ms", pa.int64()),
        ])  # fmt: skip
        self._output, self._ignored = output, ignored

    def begins(self, task: Task, next_offsets: object) -> None:
        """As RunObserver."""
        self.source, self.offset, self.time_ms = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        self._rows, self._position, self._dropped = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        self._begin = 0
        for node in task.sub_topology.nodes:
            if node.keeps_records:
                task.operators.pop(node.name, None)

    def took(self, task: Task, part: TapeChunk, result: Result) -> None:
        """As RunObserver."""
        self.source.append(part.source)
        self.offset.append(part.spread("offset", -1))
        self.time_ms.append(part.spread("timestamp", -1))
        rows = result.outputs.get(self._output.name)
        if rows is not None and len(rows):
            written = stored_as(rows, self._schema).cast(self._schema)
            self._rows.append(digests_of(self._output, written, self._ignored))
            self._position.append(self._begin + rows["cause"].to_numpy())
        self._dropped.append(self._begin + result.dropped["cause"].to_numpy())

    def wrote(self, part: TapeChunk) -> None:
        """As RunObserver."""
        self._begin += len(part)

    @property
    def run(self) -> _Run:
        none = np.zeros(0, np.int64)
        return _Run(
            np.concatenate([none.view(np.uint64), *self._rows]), np.concatenate([none, *self._position]),
            np.unique(np.concatenate([none, *self._dropped])),
        )  # fmt: skip


class _Found(Exception):
    """The tasks are described, and none is to run."""


class _Describing:
    """A Runner that runs nothing: the descriptions of the first stage, by partition of a sub-topology."""

    def __init__(self, sub_topology: int) -> None:
        self._sub_topology = sub_topology
        self.found: dict[int, TaskDescription] = {}

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """As a Runner; raises _Found."""
        self.found = {each.partition: each for each in descriptions if each.sub_topology == self._sub_topology}
        raise _Found


def try_restarts(case: Case, ignored: Collection[str] = ()) -> list[TriedRestarts]:
    """Give RESTART to what restarts explain that are found by trial, in partitions in which a cause is in doubt.
    ``ignored``: fields of the value that are not compared.
    """
    in_doubt = np.isin(case.theirs_cause, _IN_DOUBT) & np.isin(case.found.theirs, _DIFFERENT)
    ours = case.unexplained(RowVerdict.MISSING)
    partitions = np.union1d(case.theirs.partition[in_doubt], case.ours.partition[ours]).tolist()
    if not partitions or not _can_be_tried(case):
        return []
    found, left = [], RECORDS_MAX
    with TemporaryDirectory() as folder:
        described = _descriptions(case, folder)
        for partition in partitions:
            if partition in described and left > 0:
                task = _TriedTask(case, described[partition], ignored, left)
                tried = task.search()
                left = task.left
                if tried is not None:
                    found.append(tried)
    return found


_IN_DOUBT = (Cause.NOT_EXPLAINED, Cause.PROCESSED_TWICE, Cause.CRASH, Cause.INTERLEAVING)
"""What rows around a row say may be wrong: where restarts give all rows of a partition, it was them."""
_DIFFERENT = (RowVerdict.EXTRA, RowVerdict.OTHER_VALUE, RowVerdict.OTHER_TIME, RowVerdict.OTHER_ORDER)


def _can_be_tried(case: Case) -> bool:
    output, done = case.output, case.done
    reads_landed = all(source.landed_topic is not None for source in output.sources)
    has_recorded = any(any(each.values()) for each in (done.recorded_to or {}).values())
    is_by_time = not (done.by_arrival or done.flushed or has_recorded)
    graph = output.topology.graph
    acts = any(node.reach(graph).gives_times for node in graph.nodes.values())  # processors may act on the world
    is_alone = output.sub_topology.level == 0 and reads_landed and not output.moves_keys
    return is_by_time and is_alone and not acts and case.landed.partitions == case.partitions


def _descriptions(case: Case, folder: str) -> dict[int, TaskDescription]:
    """Of the tasks that write the output, by partition: over all records that the pipeline has read. None where the
    topology cannot continue with the pipeline's state.
    """
    describing, topology = _Describing(case.output.sub_topology.id), case.output.topology.reading(case.done.cut_to)
    with suppress(_Found, CodeChanged):
        again = Rerun(
            case.warehouse, topology, case.pipeline, describing, before=None, order="time", last=case.done,
            exchange=folder,
        )  # fmt: skip
        plan = next(again.plans(), None)
        if plan is not None and plan.row.migrate is None:
            again.run(plan)
    return describing.found


class _TriedTask:
    """``left``: so many records may still be taken."""

    def __init__(self, case: Case, description: TaskDescription, ignored: Collection[str], left: int) -> None:
        self.case, self.description, self.left = case, description, left
        self._written = _Written(case.output, ignored)
        partition = description.partition
        self.theirs = np.flatnonzero(case.theirs.partition == partition)
        self.ours = np.flatnonzero(case.ours.partition == partition)
        self.wanted = case.theirs.whole[self.theirs]
        self._cost = RECORDS_A_TRIAL + sum(queue.length for queue in description.queues)

    def search(self) -> TriedRestarts | None:
        """None where nothing is explained, or nothing can be tried."""
        if self.left < self._cost:
            return None
        try:
            base = self._run(())
            if not np.array_equal(base.rows, self.case.ours.whole[self.ours]):
                return None  # other code made what the pipeline has
            self._base = base
            self.source, self.offset, self.time_ms = (
                np.concatenate(parts) for parts in (self._written.source, self._written.offset, self._written.time_ms)
            )
            self._is_own = self.source < len(self.case.output.sub_topology.sources)  # not of a global table
            return self._search(base)
        except ReplayError:  # an operator that cannot restart, or a callable that fails
            return None

    def _search(self, base: _Run) -> TriedRestarts | None:
        places, begins, run = list[int](), list[int](), base
        score = self._score(run)
        while score != (len(self.wanted), 0):
            chosen = None
            for some in self._places(places[-1] if places else -1, run, score[0]):
                chosen = self._best(places, some, score)
                if chosen is not None:
                    break
            if chosen is None:
                break
            begins.append(int(self.theirs[min(score[0], len(self.wanted) - 1)]) if len(self.theirs) else 0)
            score, place, run = chosen
            places.append(place)
        if not places:
            return None
        self._give(run, score[0])
        begins_ours = self.ours[np.minimum(np.searchsorted(base.position, places), len(self.ours) - 1)].tolist()
        restarts = tuple(self._restarts(places, run))
        return TriedRestarts(self.description.partition, restarts, tuple(begins), tuple(begins_ours))

    def _best(
        self, places: Sequence[int], some: Sequence[int], score: tuple[int, int]
    ) -> tuple[tuple[int, int], int, _Run] | None:
        """Of ``some`` places for one more restart the one with the highest score, if it is above ``score``."""
        found = None
        for place in some:
            if self.left < self._cost:
                break
            run = self._run((*places, place))
            got = self._score(run)
            if got > (score if found is None else found[0]):
                found = got, place, run
        return found

    def _run(self, places: Sequence[int]) -> _Run:
        """The whole task, with restarts before these positions of its tape."""
        self.left -= self._cost
        more: dict[int, set[int]] = {}
        for place in places:
            more.setdefault(int(self.source[place]), set()).add(int(self.offset[place]))
        queues = tuple(
            replace(queue, restarts=tuple(sorted({*queue.restarts, *more.get(queue.source, ())})))
            for queue in self.description.queues
        )
        description = replace(self.description, queues=queues)
        TaskRun(self.case.output.topology, description, None, NoSink(), self._written).run()
        return self._written.run

    def _score(self, run: _Run) -> tuple[int, int]:
        """So many rows from the first on are those of production; where all are, minus the rows beyond them."""
        n = min(len(run.rows), len(self.wanted))
        differing = np.flatnonzero(run.rows[:n] != self.wanted[:n])
        agreed = int(differing[0]) if len(differing) else n
        return agreed, len(self.wanted) - len(run.rows) if agreed == len(self.wanted) else 0

    # --- places ----------------------------------------------------------------------------------------------

    def _places(self, last: int, run: _Run, agreed: int) -> Iterator[Sequence[int]]:
        """Positions behind ``last`` before which a restart may be, the most likely first. Those that matter to a late
        record which may have caused the first row that differs. Then to any late one before it, whose result may leave
        later. Below a left or outer join of streams all others, too: it also forgets that records wait.
        """
        until = int(run.position[agreed]) if agreed < len(run.position) else len(self.time_ms) - 1
        first = int(run.position[agreed - 1]) if agreed else 0
        near = self._near(last, max(first, last + 1), until)
        yield near
        before = [place for place in self._near(last, last + 1, first) if place not in near]
        yield before
        if any(isinstance(node, StreamJoinNode) and node.kind != "inner" for node in self.case.output.above):
            known = {*near, *before}
            yield [place for place in range(until, last, -1) if place not in known and self._is_own[place]]

    def _near(self, last: int, first: int, until: int) -> list[int]:
        """Those that matter to late records from position ``first`` to ``until``, the last first."""
        begin = max(last, 0)
        life = self.time_ms[begin : until + 1]
        late = begin + 1 + np.flatnonzero(life[1:] < np.maximum.accumulate(life)[:-1])
        late = late[late >= first][-LATE_MAX:]
        found = {*late.tolist()}
        for at in late.tolist():
            found.update(self._ends(max(begin, at - BEFORE_MAX), at))
        return sorted((place for place in found if place > last and self._is_own[place]), reverse=True)

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
        sources = self.case.output.sub_topology.sources
        for place, end in zip(places, [*places[1:], len(self.time_ms)], strict=True):
            earlier = self.offset[:place][self.source[:place] == self.source[place]]
            yield Restart(
                str(sources[int(self.source[place])].landed_topic), self.description.partition,
                int(earlier[-1]) if len(earlier) else -1, int(self.offset[place]),
                int(np.count_nonzero((let_in >= place) & (let_in < end))),
            )  # fmt: skip

    def _give(self, run: _Run, agreed: int) -> None:
        """Give the cause to what has none, up to the first row that still differs: the ``agreed`` one of ``run``. Where
        all rows of production agree, nothing else was the cause of any.
        """
        case, theirs = self.case, self.theirs[:agreed]
        is_whole = agreed == len(self.wanted)
        end = int(run.position[agreed]) if not is_whole and agreed < len(run.rows) else len(self.time_ms)
        ours = self.ours[self._base.position < end]
        theirs = theirs[np.isin(case.found.theirs[theirs], _DIFFERENT)]
        theirs = theirs[_is_open(case.theirs_cause[theirs], is_whole)]
        ours = ours[case.found.ours[ours] == RowVerdict.MISSING]
        ours = ours[_is_open(case.ours_cause[ours], is_whole)]
        case.give(theirs, Cause.RESTART, np.full(len(theirs), -1))
        case.give_ours(ours, Cause.RESTART, np.full(len(ours), -1))


def _is_open(causes: np.ndarray, is_whole: bool) -> np.ndarray:
    found: np.ndarray = causes != Cause.RESTART if is_whole else causes == Cause.NOT_EXPLAINED
    return found
