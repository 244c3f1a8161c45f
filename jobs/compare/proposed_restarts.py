"""The restarts that are proposed for recording, and what a replay with them leaves: it is run to find out.

Owns the check. Rule: nothing is proposed that no replay can take: a restart is recorded before a record of a landed
topic that is in play. All tasks of the pipeline then run again in memory over what it has read, with the restarts as if
they were recorded. They leave the differences between the rows of that run and production's. Where an operator cannot
restart, or as many differences are left, none is proposed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.errors import ReplayError
from ...state.tables.names import OUTPUTS
from ...state.tables.warehouse import Warehouse
from ..execution.run_observer import RunObserver, leave_out_lookers
from ..execution.sinks import MemorySink
from ..execution.task_description import TaskDescription, TaskReport
from ..execution.task_run import TaskRun
from ..landing.exclusions import with_more
from ..replay.rerun import Rerun
from ..tape.landed_topic import Landed
from ..task.task import Task
from ..topology.topology import Topology
from .alignment import RowVerdict, align
from .case import Case, Cause
from .compared_output import ComparedOutput
from .repeated_rows import explain_repeats, find_repeated, find_twins
from .restarts import Restart
from .sides import PLACE, Side, Span, row_schema, side_of, within


@dataclass(frozen=True)
class Proposal:
    """``restarts``: to be recorded. ``impossible``: of others, as TOPIC:PARTITION:OFFSET, why no replay takes them.
    ``leaves``: differences by cause after a replay with ``restarts``; None: none was run, as ``reason`` says.
    """

    restarts: tuple[Restart, ...]
    impossible: Mapping[str, str]
    leaves: Mapping[str, int] | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**vars(self), "restarts": [each.to_json() for each in self.restarts]}


def propose(
    case: Case, restarts: Sequence[Restart], count: Callable[[Case], Mapping[str, int]], *,
    span: Span, ignored: Collection[str], ignores_order: bool,
) -> Proposal:  # fmt: skip
    """Run the pipeline of ``case`` with those of ``restarts`` that can be recorded. ``count``: its differences by
    cause; the others are parameters of the comparison.
    """
    topology = case.output.topology.reading(case.done.cut_to)
    impossible = {place: why for each in restarts for place, why in _obstacles(case.warehouse, topology, each)}
    possible = tuple(each for each in restarts if each.record not in impossible)
    if not possible:
        return Proposal((), impossible, None, None)
    graph = topology.graph
    if case.done.flushed or any(node.reach(graph).gives_times for node in graph.nodes.values()):
        what = "its history is closed" if case.done.flushed else "processors may act on the world"
        return Proposal(possible, impossible, None, f"no replay with them was run, since {what}")
    try:
        rows = _rows_with(case, topology, possible)
    except ReplayError as error:
        return Proposal((), impossible | {each.record: str(error) for each in possible}, None, None)
    ours = side_of(case.output, within(rows, "record_time_ms", span), case.landed.partitions, ignored)
    now, leaves = count(case), count(_case_of(case, ours, ignores_order=ignores_order))
    if sum(leaves.values()) >= sum(now.values()):
        why = f"differences after a replay with them: {sum(leaves.values()):,}; without them: {sum(now.values()):,}"
        return Proposal((), impossible, None, why)
    return Proposal(possible, impossible, leaves, None)


def _obstacles(warehouse: Warehouse, topology: Topology, restart: Restart) -> list[tuple[str, str]]:
    """Why it cannot be recorded, by its place; nothing where it can."""
    if restart.topic not in {source.landed_topic for sub in topology.sub_topologies for source in sub.sources}:
        return [
            (restart.record, f"{restart.topic} has not landed, and tasks that read a repartition topic do not restart")
        ]
    if restart.before in Landed.of(warehouse, restart.topic).excluded.get(str(restart.partition), ()):
        return [(restart.record, "its record was taken out of play")]
    return []


def _case_of(case: Case, ours: Side, *, ignores_order: bool) -> Case:
    """``case`` with these rows of ours. A row keeps its cause; what restarts were to explain, and differs all the same,
    is not explained, unless it repeats a row.
    """
    again = replace(case, ours=ours, alignment=align(ours, case.theirs, ignores_order=ignores_order))
    again.theirs_cause = np.where(case.theirs_cause == Cause.RESTART, np.int8(Cause.NOT_EXPLAINED), case.theirs_cause)
    missing = np.flatnonzero((case.alignment.ours == RowVerdict.MISSING) & (case.ours_cause != Cause.RESTART))
    known, first = np.unique(case.ours.whole[missing], return_index=True)
    if len(known):
        at = np.minimum(np.searchsorted(known, ours.whole), len(known) - 1)
        again.ours_cause = np.where(known[at] == ours.whole, case.ours_cause[missing[first[at]]], again.ours_cause)
    # A late record that a restart let in may be processed again after a crash, so that its row is there once more.
    twins = find_twins(again)
    explain_repeats(again, twins, find_repeated(again, twins), np.array([], np.int64))
    return again


# --- the run -------------------------------------------------------------------------------------------------


def _rows_with(case: Case, topology: Topology, restarts: Sequence[Restart]) -> pa.Table:
    """All rows of the output. Raises as a replay does."""
    wanted: dict[str, dict[str, list[int]]] = {}
    for each in restarts:
        wanted.setdefault(each.topic, {}).setdefault(str(each.partition), []).append(each.before)
    recorded = {topic: Landed.of(case.warehouse, topic).restarts for topic in case.done.cut_to}
    taken = {topic: with_more(known, wanted.get(topic, {})) for topic, known in recorded.items()}
    order = "arrival" if case.done.by_arrival else "time"
    runner = _Keeping(case.output)
    with TemporaryDirectory() as folder:
        again = Rerun(
            case.warehouse, topology, case.pipeline, runner, before=None, order=order,
            last=replace(case.done, restarts=taken), exchange=folder,
        )  # fmt: skip
        plan = next(again.plans(), None)
        if plan is not None:
            again.run(plan)
    return pa.concat_tables([runner.schema.empty_table(), *(runner.rows[p] for p in sorted(runner.rows))])


class _Keeping:
    """A Runner in this process that keeps each partition's rows of the output: by arrival a task may run again."""

    def __init__(self, output: ComparedOutput) -> None:
        self.output, self.schema = output, pa.schema([*PLACE, *row_schema(output)])
        self.rows: dict[int, pa.Table] = {}

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """As a Runner, one stage."""
        reports = []
        for description in descriptions:
            sink = MemorySink(topology, [OUTPUTS])
            reports.append(TaskRun(topology, description, None, sink, _LeavingOut()).run())
            if description.sub_topology == self.output.sub_topology.id:
                self.rows[description.partition] = self._placed(sink, description.partition)
        return reports

    def _placed(self, sink: MemorySink, partition: int) -> pa.Table:
        written = sink.written.get(self.output.table)
        if written is None:
            return self.schema.empty_table()
        rows = pa.concat_tables(written)
        here = pa.repeat(pa.scalar(partition, pa.int32()), len(rows))
        return rows.append_column("partition", here).select(self.schema.names).cast(self.schema)


class _LeavingOut(RunObserver):
    """Functions that only look on are not called."""

    def begins(self, task: Task, next_offsets: Mapping[str, int]) -> None:
        """As RunObserver."""
        leave_out_lookers(task)
