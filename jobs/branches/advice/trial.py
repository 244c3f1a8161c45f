"""The landed history of a pipeline, run again in this process through another topology, and counted.

Owns the run. Rule: all tasks of all sub-topologies run as in a replay (jobs/execution/task_run.py), over the whole
range as one increment, since a cut changes nothing. Their results are discarded, so the warehouse is only read.
Repartitioned records wait in a temporary folder.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory

from ....state.records.batches import Batch, Chunk
from ....state.tables.ledger import LedgerRow
from ....state.tables.ledger_rows import DoneRow
from ....state.tables.warehouse import Warehouse
from ...code_changes.state_migration import take_over
from ...execution.run_observer import RunObserver
from ...execution.sinks import NoSink
from ...execution.task_description import TaskDescription, TaskReport
from ...execution.task_run import TaskRun
from ...graph.graph import Node
from ...operators.base.operator import Counters
from ...replay.books import add_refusals
from ...replay.increment_report import total_numbers
from ...replay.rerun import Rerun
from ...tape.task_input import TapeChunk
from ...tape.task_tape import CausalColumns
from ...task.task import Task
from ...topology.topology import Topology
from .lateness import LatenessCount


@dataclass(frozen=True)
class TrialRange:
    """From where the done row ``before`` (None: the beginning) ended to where ``last`` did, or before it to the records
    of time ``until_ms``. ``order``: as the pipeline was replayed.
    """

    warehouse: Warehouse
    pipeline: str
    before: LedgerRow[DoneRow] | None
    last: DoneRow
    order: str = "time"
    until_ms: int | None = None


@dataclass
class Trial:
    """What a run came to. ``refused``: node → reason → [records, refusals]; ``operators``: numbers by node; ``stores``:
    rows, and bytes in memory, of each at the end; ``lateness``: node → partition → count.
    """

    records: int = 0
    refused: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    operators: dict[str, dict[str, float | None]] = field(default_factory=dict)
    stores: dict[str, tuple[int, int]] = field(default_factory=dict)
    lateness: dict[str, dict[int, LatenessCount]] = field(default_factory=dict)
    seconds: float = 0.0


def run_trial(over: TrialRange, topology: Topology, watched: Sequence[str] = ()) -> Trial:
    """Run ``topology`` over the range; ``watched``: nodes of which lateness is counted.

    Raises what a replay raises: CodeChanged when the state at the beginning of the range is not the topology's, and
    BufferFull when a strict buffer is full.
    """
    begun, before = time.perf_counter(), over.before
    if before is not None:
        before = replace(before, content=take_over(over.pipeline, before, topology).previous)
    with TemporaryDirectory() as folder:
        runner = _Counting(watched)
        again = Rerun(
            over.warehouse, topology, over.pipeline, runner, before=before, order=over.order, last=over.last,
            until_ms=over.until_ms, exchange=folder,
        )  # fmt: skip
        plan = next(again.plans(), None)
        reports = [] if plan is None else again.run(plan)
    trial = Trial(
        records=0 if plan is None else plan.row.records,
        refused=add_refusals([report.counts["refused"] for report in reports]),
        operators=total_numbers(reports),
    )
    for task in runner.tasks.values():
        for store, sizes in task.sizes.items():
            rows, size = trial.stores.get(store, (0, 0))
            trial.stores[store] = rows + sizes[0], size + sizes[1]
        for node, count in task.lateness.items():
            trial.lateness.setdefault(node, {})[task.description.partition] = count
    trial.seconds = time.perf_counter() - begun
    return trial


class _Counting:
    """A Runner in this process, which keeps each task's last run: by arrival stages may run more than once."""

    def __init__(self, watched: Sequence[str]) -> None:
        self._watched = watched
        self.tasks: dict[str, _CountingTask] = {}

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """As a Runner, one stage."""
        reports = []
        for description in descriptions:
            counting = _CountingTask(topology, description, self._watched)
            reports.append(TaskRun(topology, description, None, NoSink(), counting).run())
            self.tasks[description.id] = counting
        return reports


class _CountingTask(RunObserver):
    """``sizes``: rows and bytes of each store at the end."""

    counts_bytes = True

    def __init__(self, topology: Topology, description: TaskDescription, watched: Sequence[str]) -> None:
        self.description = description
        sub = topology.sub_topology(description.sub_topology)
        self._nodes = [node.name for node in sub.nodes if node.name in watched]
        self._stores = {node.name: store for store, node in sub.stores.items()}

    def begins(self, task: Task, next_offsets: Mapping[str, int]) -> None:
        """As RunObserver."""
        self.lateness = {name: LatenessCount() for name in self._nodes}
        self.sizes: dict[str, tuple[int, int]] = {}
        self._clocks: dict[str, list[int]] = {}
        task.observer = self if self._nodes else None

    def parts(self, task: Task, chunk: TapeChunk, places: CausalColumns) -> Iterator[tuple[TapeChunk, CausalColumns]]:
        """As RunObserver."""
        self._clocks = {node: _clocks(task.stores[self._stores[node]].counters()) for node in self._nodes}
        yield chunk, places

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        """As RunObserver."""
        if node.name in self.lateness:
            self.lateness[node.name].add(node, inputs, self._clocks[node.name])

    def ended(self, task: Task) -> None:
        """As RunObserver."""
        for store, operator in task.stores.items():
            rows = operator.rows()
            self.sizes[store] = len(rows), rows.nbytes


def _clocks(counters: Counters) -> list[int]:
    """An operator's stream time, or one of each of its inputs."""
    if "stream_time_ms" in counters:
        return [counters["stream_time_ms"]]
    numbers = range(len(counters))
    return [counters[name] for number in numbers if (name := f"stream_time_{number}_ms") in counters]
