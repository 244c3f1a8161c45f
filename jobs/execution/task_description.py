"""What a task needs to run anywhere, and what it reports: values that travel between the driver and Spark's workers.

Rule: everything that a task does is a function of its description, so a task that died is simply run again.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from ...state.runs.local_copies import StateFile
from ...state.tables.names import TaskId
from ...state.tables.task_entry import TaskEntry
from ...state.tables.warehouse import PipelineTables, Warehouse
from ..tape.input_queues import Queue
from ..tape.landed_slice import Slice
from ..tape.stream_time import TimeSignal
from ..topology.topology import Topology
from .kept_range import KeptRange
from .progress_notes import Notes
from .task_stores import ImportedStore


@dataclass(frozen=True, slots=True)
class TaskDescription:
    """What a task needs to run anywhere. ``before``: the task's entry of the last done row.

    ``exchange``: folder for rows on their way to other tasks. ``queues``: what it reads, in the order of the task's
    sources; ``order``: "time" or "arrival". ``state``: store → committed files of the task's partition, oldest first;
    ``imported``: node of an earlier part of the sub-topology → its store; ``globals``: global table → what was read of
    its topic before. ``repartitions``: topic → number of partitions.
    """

    warehouse: Warehouse
    pipeline: str
    increment: int
    sub_topology: int
    partition: int
    exchange: str
    queues: tuple[Queue, ...]
    order: str
    state: dict[str, tuple[StateFile, ...]]
    imported: dict[str, "ImportedStore"]
    globals: dict[str, tuple[Slice, ...]]
    repartitions: dict[str, int]
    before: TaskEntry
    notes: Notes | None = None
    """Where it writes its progress; None: nowhere."""
    checks_purity: bool = False
    """Whether it tries if steps answer alike twice (jobs/task/pure_steps.py)."""
    is_trial: bool = False
    """Whether it may read what is not written in the end, so that nobody knows yet if a failure is one."""
    kept: KeptRange | None = None
    """Which rows stay; None: all."""

    @property
    def id(self) -> str:
        """As Kafka's TaskId prints."""
        return str(TaskId(self.sub_topology, self.partition))

    @property
    def size(self) -> int:
        """Offsets or files to read: how long the task will take, compared with others of its stage."""
        return sum(queue.size for queue in self.queues)


@dataclass(slots=True)
class TaskReport:
    """What a task did. ``after``: its TaskEntry for the done row; ``files`` by table ("outputs/x", "dropped", ...),
    and those that are ``removed``, since their rows are in the new ones; JSON throughout.

    ``counts``: verdicts on all records read, ``landed``: on those from landed topics. ``pieces``: repartition topic or
    exported node → target partition (as text) → path. ``rss_bytes``: the most memory its process ever held.
    """

    sub_topology: int
    partition: int
    after: dict[str, Any]
    counts: dict[str, Any]
    landed: dict[str, Any]
    lateness: dict[str, Any]
    operators: dict[str, dict[str, Any]]
    files: dict[str, list[dict[str, Any]]]
    removed: dict[str, list[dict[str, Any]]]
    pieces: dict[str, dict[str, str]]
    seconds: dict[str, float]
    rss_bytes: int = 0
    signals: list[tuple[str, TimeSignal]] = field(default_factory=list)
    """Recorded times that it forwards, by repartition topic or exported node."""
    advances: int = 0
    """Recorded times that it took."""
    impure: dict[str, str] = field(default_factory=dict)
    """Steps that answered otherwise the second time, and about which record."""
    unused: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By topic: what of it came to nothing (jobs/task/unused_input.py)."""
    requests: dict[str, int] = field(default_factory=dict)
    """To an object store, by kind, that another process than the driver made for it."""
    has_failed: bool = False
    """Whether something failed in a trial: what was sent up to there is whole, and nothing else."""
    on_spark: bool = False
    """Whether Spark ran it, and not the driver's process."""


class Runner(Protocol):
    """Runs tasks somewhere and returns their reports in the order of the descriptions."""

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]: ...


def exchange_folder(tables: PipelineTables, increment: int) -> str:
    """Where the rows of an increment wait between two stages; gone when it is done."""
    return f"{tables.root}/_exchange/{increment:08d}"
