"""Which tasks of an increment run again to explain one landed record.

Owns the choice. Rule: the task that read the record runs, then those that read what it sent, each with all tasks that
send to it, since a tape is only right when it is whole. No other task runs, and none runs twice. But where records go
round a loop all tasks run, as often as it takes. So they do with order="arrival" where the records of one task may
change the order of what another took before. If nobody asks for later effects, and no other task reads what this one
sends, the task ends right behind the record.
"""

from tempfile import TemporaryDirectory

import numpy as np

from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse
from ..execution.task_description import TaskDescription, TaskReport
from ..replay.plan import Plan
from ..replay.rerun import Rerun
from ..tape.causal_order import is_known_late
from ..tape.input_queues import PLACE_COLUMNS
from ..tape.task_input import TapeChunk
from ..tape.task_tape import CausalColumns
from ..task.dataflow import dataflows
from ..task.task import Task
from ..topology.topology import SubTopology, Topology
from .observations import Position
from .observed_task import ObservedTask

IDENTITY = PLACE_COLUMNS[:4]
"""Columns of a place that are equal in all that one landed record causes."""

Identity = tuple[int, ...]
"""Their values."""


def rerun(
    warehouse: Warehouse,
    pipeline: str,
    topology: Topology,
    plan: Plan,
    before: LedgerRow[DoneRow] | None,
    record: Position,
    order: str,
    *,
    cause: Identity | None = None,
    stops: bool = False,
) -> list[ObservedTask]:
    """Runs of the tasks that the record got to, in the order in which they ran. ``before``: the done row that the
    increment continued from. ``cause``: of a record of a repartition topic, the landed record that caused it, with all
    of whose rows the runs are. ``stops``: nobody asks what came of it later.
    """
    runs_all = bool(topology.loop_topics) or (order == "arrival" and is_known_late(topology))
    stops = stops and order == "time" and not runs_all
    chosen = _Chosen(topology, record, order, cause, runs_all=runs_all, stops=stops)
    # The exchange folder of the increment is the pipeline's: a run that is at work on it may be writing there.
    with TemporaryDirectory() as folder:
        again = Rerun(warehouse, topology, pipeline, chosen, before=before, order=order, exchange=folder)
        again.run(plan)
        while chosen.asks_for_more():
            again.run(plan)
    return [run for run, _ in chosen.runs.values() if run.taken]


class _Chosen:
    """A Runner of the tasks that matter."""

    def __init__(
        self,
        topology: Topology,
        record: Position,
        order: str,
        cause: Identity | None,
        *,
        runs_all: bool,
        stops: bool,
    ) -> None:
        self.topology, self.record, self.runs_all, self._stops = topology, record, runs_all, stops
        self.runs: dict[str, tuple[ObservedTask, TaskReport]] = {}
        self._cause = self._identity = cause
        self._is_by_time = order == "time"
        self._reached: set[tuple[str, int]] = set()
        """Sources (topics and imports) that the record got to, each with the partition of the task."""
        self._whole = {sub.id for sub in topology.sub_topologies} if runs_all else set()
        """Sub-topologies of which every task has to run."""
        self._missing: set[int] = set()

    def asks_for_more(self) -> bool:
        """Whether tasks waited for others, which run the next time."""
        more = self._missing - self._whole
        self._whole |= more
        return bool(more)

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """As a Runner, one stage."""
        sub = topology.sub_topology(descriptions[0].sub_topology)
        above = _above(topology, sub)
        reports = []
        for description in descriptions:
            is_reached = self._is_reached(sub, description.partition)
            # Its tape is not whole yet. It runs the next time, when every task that sends to it has run.
            if is_reached and above - self._whole:
                self._missing |= above
            elif is_reached or sub.id in self._whole:
                reports.append(self._run(description, is_reached))
        return reports

    def _run(self, description: TaskDescription, is_reached: bool) -> TaskReport:
        # A task that ran the last time wrote its pieces then, and its report still names them.
        if self.runs_all or description.id not in self.runs:
            find = self._find if is_reached else _nothing
            stops = self._stops and is_reached and self._may_stop(description.sub_topology)
            run = ObservedTask(self.topology, description, find, stops=stops)
            self.runs[description.id] = run, run.run()
            for sent in (sent for taken in run.taken for sent in taken.sent):
                self._reached.add((sent.name, description.partition if sent.partition is None else sent.partition))
        return self.runs[description.id][1]

    def _is_reached(self, sub: SubTopology, partition: int) -> bool:
        sources = [source.topic for source in sub.sources]
        if self._is_first(sub) and (self._own is None or self._own == partition):
            return True
        names = [*sources, *(imported.name for imported in dataflows(self.topology)[sub.id].imports)]
        return any((name, partition) in self._reached for name in names)

    @property
    def _own(self) -> int | None:
        """The partition of the task that read the landed record; None: it is not known."""
        if self._cause is None:
            return self.record[1]
        return self._cause[2] if self._is_by_time else None

    def _is_first(self, sub: SubTopology) -> bool:
        """Whether a task of it may have read the landed record."""
        if self._cause is None:
            return self.record[0] in [source.topic for source in sub.sources]
        has_landed = any(source.landed_topic is not None for source in sub.sources)
        return sub.id == self._cause[1] if self._is_by_time else has_landed

    def _may_stop(self, number: int) -> bool:
        """Whether a task of the sub-topology may end with the record. It reads landed topics alone, along whose tapes
        places rise. No other task reads what it sends, since it would take the rest in another order.
        """
        sub, dataflow = self.topology.sub_topology(number), dataflows(self.topology)[number]
        reads_landed_alone = not dataflow.imports and all(source.landed_topic is not None for source in sub.sources)
        return reads_landed_alone and not dataflow.written

    def _find(self, task: Task, chunk: TapeChunk, places: CausalColumns) -> np.ndarray:
        """Rows that go back to the record, which is looked for by its offset first. Where all tasks run again, it is
        looked for each time, since its position on the tape may be another one.
        """
        topic, partition, offset = self.record
        topics = [source.topic for source in task.sub_topology.sources]
        is_looked_for = self._cause is None and (self._identity is None or self.runs_all)
        if is_looked_for and task.partition == partition and topic in topics:
            is_topic = chunk.source == topics.index(topic)
            rows = np.flatnonzero(is_topic & (chunk.spread("offset", -1) == offset))
            if len(rows):
                self._identity = tuple(int(places.columns[name][rows[0]]) for name in IDENTITY)
        if self._identity is None:
            return _nothing(task, chunk, places)
        same = [places.columns[name] == wanted for name, wanted in zip(IDENTITY, self._identity, strict=True)]
        every: np.ndarray = np.logical_and.reduce(same)
        return every


def _nothing(task: Task, chunk: TapeChunk, places: CausalColumns) -> np.ndarray:
    return np.zeros(len(chunk), np.bool_)


def _above(topology: Topology, sub: SubTopology) -> set[int]:
    """Sub-topologies whose records reach ``sub``, through others too."""
    above: set[int] = set()
    for other in topology.sub_topologies:
        is_earlier_part = other.kafka_id == sub.kafka_id and other.level < sub.level
        if is_earlier_part or set(other.repartitions) & set(sub.sources):
            above |= {other.id} | _above(topology, other)
    return above
