"""What the rows of a ledger say: the plan of an increment, and what came of it.

Owns the fields of both, and their form as JSON in the column `content` (docs/tables.md says them one by one). Rule: a
new field is one line here (state/tables/row_content.py has the form).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ..times import NO_TIMESTAMP_MS
from .names import TaskId
from .row_content import RowContent
from .task_entry import TaskEntry

Cut = dict[str, dict[str, int]]
"""topic → partition (as text, since it is JSON) → next offset to read."""


def cut_of(cut: Cut, topic: str, partition: int | str) -> int:
    """The next offset to read by ``cut``; 0 where it does not speak of it."""
    return cut.get(topic, {}).get(str(partition), 0)


Excluded = dict[str, dict[str, list[int]]]
"""topic → partition (as text) → offsets, rising, of records that are taken out of play
(jobs/landing/exclusions.py).
"""

Bases = dict[str, list[list[Any]]]
"""Table → [pipeline, version] of every pipeline that has rows of it, oldest first; JSON."""

Digests = dict[str, list[list[Any]]]
"""Table → [pipeline, version, digest of the log at that version] of every pipeline that has rows of it; JSON."""


def behind(cut: Cut, other: Cut) -> list[tuple[str, str, int, int]]:
    """Topic, partition and both next offsets wherever ``cut`` has read less than ``other``."""
    return [
        (topic, partition, at, end)
        for topic, ends in other.items()
        for partition, end in ends.items()
        if (at := cut.get(topic, {}).get(partition, 0)) < end
    ]


@dataclass(frozen=True, kw_only=True)
class PlanRow(RowContent):
    """The plan of a pipeline's increment. ``records`` in ``[cut_from, cut_to)``; ``waiting``: landed, but held back by
    ``idle="wait"``. Where ``restates`` is given, a restatement, which reads nothing by itself.
    """

    topology: str | None = None
    """Fingerprint of the topology that planned it."""
    cut_from: Cut = field(default_factory=dict)
    cut_to: Cut = field(default_factory=dict)
    records: int = 0
    waiting: int = 0
    waits: list[dict[str, Any]] | None = None
    """Of each partition that is held back: how many records, of which times, wait for whom
    (jobs/replay/waiting_inputs.py).
    """
    partitions: dict[str, int] = field(default_factory=dict)
    """Sub-topology (as text) → number of its tasks, "repartition/<name>" → number of its partitions."""
    recorded_from: Cut | None = None
    recorded_to: Cut | None = None
    """How many of the recorded times of each partition were taken before, and are with this increment; both or none."""
    excluded: Excluded | None = None
    """From `cut_from` on: those that were taken out of play when this was planned, so that it does not read them."""
    restarts: Excluded | None = None
    """From `cut_from` on: records before which production restarted, as far as was recorded when this was planned."""
    by_arrival: bool = False
    """Whether records are taken in the order of their arrival."""
    flushes: bool = False
    """At the end of history: every task is advanced to it."""
    until_ms: int | None = None
    """Of each partition only what is before its first record, or recorded time, of that time or later was read."""
    changes: list[dict[str, Any]] | None = None
    """Of the code since the increment before (jobs/code_changes/state_migration.py)."""
    migrate: dict[str, Any] | None = None
    """Stores that this increment rewrites, reading no records."""
    instead_of: dict[str, int] | None = None
    """`increment` and `epoch` of the plan in whose place it is (jobs/replay/takeover.py)."""
    instead_of_why: str | None = None
    """Why the current code could not do that plan."""
    kafka_version: str | None = None
    """Whose rows it makes (state/kafka_version.py); None: planned before this was asked, so 4.3."""
    kind: str | None = None
    """"restore", "promote" or "erase"."""
    restates: int | None = None
    """The last increment that stays; 0: none does."""
    branch: str | None = None
    branch_increment: int | None = None
    """Of a promote: what is promoted, as of which of its increments."""
    range_ms: list[int] | None = None
    """Of the promote of a backfill: rows of which times `[from, to)` it puts in the place of others."""
    erased: dict[str, Any] | None = None
    """Of an erase: the `reason`, and `by` whom."""
    fenced: int | None = None
    """The lowest epoch whose runners are refused from then on: those of all from it up to the plan's own are."""

    def _nulls(self) -> tuple[str, ...]:
        return ("topology",) if self.restates is not None else ()


@dataclass(frozen=True, kw_only=True)
class DoneRow(RowContent):
    """What came of a pipeline's increment, and what the next one continues from; ``DoneRow()``: from nothing."""

    topology: str | None = None
    code: dict[str, Any] | None = None
    """What the rows of the state mean (jobs/code_changes/code_snapshot.py); None: begun again, nothing is known."""
    cut_to: Cut = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    books: dict[str, Any] | None = None
    """As ``Books`` (jobs/replay/books.py), with those of every sub-topology under `by_sub_topology`."""
    outputs: dict[str, int] | None = None
    """Records written, by output."""
    versions: dict[str, int] = field(default_factory=dict)
    """Delta version of every table of the pipeline's own, by its name."""
    bases: Bases | None = None
    """Of a branch: where its rows up to the fork are."""
    digests: Digests | None = None
    """Of the tables at `versions` and `bases`, so that a changed log is known (``table_digest``)."""
    tasks: dict[str, TaskEntry] = field(default_factory=dict)
    """Where each task continues, by its TaskId as text."""
    tape_times: Cut | None = None
    """Largest record time read of each partition of topics that are merged with others in a task."""
    lateness: dict[str, float | int | None] | None = None
    lateness_by_sub_topology: dict[str, dict[str, float | int | None]] | None = None
    lateness_counts_by_sub_topology: dict[str, dict[str, int]] | None = None
    """How many records were so many milliseconds late (as text; the largest of a class of latenesses)."""
    seconds_by_sub_topology: dict[str, dict[str, float]] | None = None
    """Of its tasks, summed, by part."""
    operators: dict[str, dict[str, float | None]] | None = None
    recorded_to: Cut | None = None
    excluded: Excluded | None = None
    """Before `cut_to`: those that no increment up to this one has read, since they were taken out of play."""
    restarts: Excluded | None = None
    """Before `cut_to`: records before which tasks began again with their stream times at -1."""
    impure: dict[str, str] | None = None
    """Steps that answered otherwise when they were asked again about the same records, with what differed first."""
    unused: dict[str, dict[str, Any]] | None = None
    """By topic: how many records, where all of them were left out, and declared fields that none of them has
    (jobs/replay/unused_input.py)."""
    moments: int | None = None
    """How many recorded times tasks took."""
    by_arrival: bool = False
    """Whether it, or an increment that it continues from, took records in the order of their arrival."""
    flushed: bool = False
    seconds: dict[str, float] | None = None
    rss_bytes_max: int | None = None
    spark_tasks: int | None = None
    """How many of its tasks ran on Spark; the others ran in the driver's process. None: an earlier version."""
    requests: dict[str, int] | None = None
    """To an object store, by kind (GET, PUT, LIST, HEAD, DELETE), for files and folders and not for Delta's logs, from
    the row before (or the run's begin) until this row was written. None: the warehouse is on a disk."""
    kafka_version: str | None = None
    """As in its plan; a restatement has that of the rows which it continues from."""
    kind: str | None = None
    restates: int | None = None
    branch: str | None = None
    branch_increment: int | None = None
    range_ms: list[int] | None = None
    """Those five: as in the plan of a restatement."""
    erased: dict[str, Any] | None = None
    """Of an erase: as in its plan, and how many `rows` went, by table; nothing of what they were."""
    forked: dict[str, Any] | None = None
    """Of the first row of a branch: `pipeline` and `increment` that it was forked from."""
    bootstrap: dict[str, Any] | None = None
    """Of the first row of a pipeline that begins with an application's state: whose, and as of what
    (jobs/bootstrap/bootstrapping.py).
    """
    unread: dict[str, dict[str, str]] | None = None
    """Of such a row: repartition topic → partition → file, below the warehouse, of the records that no task of the
    application had taken. The next increment that runs tasks takes them first; migrations before it keep them.
    """
    backfill: dict[str, Any] | None = None
    """Of a branch that is a backfill of a range: `from_ms` and `to_ms`, and `proof` once all of it is there and holds
    (jobs/branches/backfill.py).
    """

    @property
    def has_no_plan(self) -> bool:
        """Whether it is the first row of a branch, or of a pipeline that begins with an application's state."""
        return self.forked is not None or self.bootstrap is not None

    @property
    def is_whole_backfill(self) -> bool:
        """Whether a branch is a backfill of a range of which all is there, and is proved."""
        return self.backfill is not None and "proof" in self.backfill

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """As of RowContent."""
        tasks = {task: TaskEntry.from_json(entry) for task, entry in content.get("tasks", {}).items()}
        return super().from_json({**content, "tasks": tasks})

    def to_json(self) -> dict[str, Any]:
        """As of RowContent."""
        return super().to_json() | {"tasks": {task: entry.to_json() for task, entry in self.tasks.items()}}

    def task(self, task: TaskId) -> TaskEntry:
        """Where a task continues; an empty entry when it has had no records."""
        return self.tasks.get(str(task), TaskEntry())

    @property
    def stream_time_ms(self) -> int:
        """The largest stream time of any task, NO_TIMESTAMP_MS when none had any."""
        return max((entry.stream_time_ms for entry in self.tasks.values()), default=NO_TIMESTAMP_MS)


@dataclass(frozen=True, kw_only=True)
class LandingRow(RowContent):
    """What a landing's plan and done row share. Offsets ``[cut_from, cut_to)`` by partition, as text."""

    partitions: int = 0
    cut_from: dict[str, int] = field(default_factory=dict)
    cut_to: dict[str, int] = field(default_factory=dict)
    gaps: dict[str, list[int]] = field(default_factory=dict)
    """Offsets `[from, to)` that were gone from the broker, or are in no file, and are skipped."""
    source: dict[str, Any] = field(default_factory=dict)
    """`kind`, and what else identifies the source."""
    records: int | None = None
    table_version: int | None = None
    """Of the landed table, at the end of the increment."""
    table_digest: str | None = None
    """Of what its log says at that version (``table_digest``)."""
    files: Any = None
    """Of a source of files. A plan has a list: name, bytes, mtime_ns, digest, digest of the `content` where a file is
    compressed, records, dead_letters; `disorder` of the file behind the border where times go back furthest. A done
    row has their number.
    """
    recorded_time: dict[str, int] | None = None
    """Of an increment that lands no records but recorded times: time in ms by partition. Its plan says all that its
    done row will.
    """
    arrival: int | None = None
    """Of the recorded times, as of a landed record."""
    in_place: int | None = None
    """The first of the increments whose plans register the files of somebody else's table in which records of the topic
    lie (`registers`), up to this one; None: all are in the topic's own table.
    """
    lost: int | None = None
    """Of such a source: landed records that are not in its files any more."""
    is_tick: bool | None = None
    """True: the recorded times are ticks of the wall clock, and stream time stays."""
    excluded: dict[str, list[int]] | None = None
    """Offsets of all records that are taken out of play so far, by partition."""
    exclusion: dict[str, Any] | None = None
    """Of an increment that lands no records but takes some out of play: their offsets by partition (`records`), and
    the `reason`. Where their content was erased: `erased_by` whom.
    """
    restarts: dict[str, list[int]] | None = None
    """Offsets of all records before which production restarted, as far as was recorded, by partition."""
    restart: dict[str, list[int]] | None = None
    """Of an increment that lands no records but records restarts: these, by partition."""
    complete: bool | None = None
    """True: nothing more of the topic comes, as an increment that lands no records has booked. Those that land none
    keep it, one that lands records ends it.
    """

    @property
    def lands_records(self) -> bool:
        """Whether it is of a source: recorded times, exclusions, restarts and what is complete are of none."""
        is_booked = (self.recorded_time, self.exclusion, self.restart) != (None, None, None)
        return not is_booked and not self.complete

    def _nulls(self) -> tuple[str, ...]:
        return ("arrival",) if self.recorded_time is not None else ()


@dataclass(frozen=True, kw_only=True)
class LandingPlanRow(LandingRow):
    """The plan of a topic's landing increment."""

    tasks: list[dict[str, Any]] | None = None
    """Of a source of files: `slices` and `counts` by partition of every task, and where columns order the rows its
    `order`: the `ranges` of keys that it takes, and whether it `streams` them.
    """
    folder: str | None = None
    """Of a source of files: below which their names are."""
    files_again: list[dict[str, Any]] | None = None
    """Files that were known by their digest, as in `files`."""
    rules: dict[str, Any] | None = None
    """What decides about single rows (`RowRules`)."""
    seen: list[str] | None = None
    """Columns of the files that some row had."""
    column_types: dict[str, list[str]] | None = None
    """Of files with types: a column of a key or a value to how it is written, its type, and the file that has it so;
    those that are not as in the plans before.
    """
    times: dict[str, Any] | None = None
    """Of a source of files without offsets, by partition: the largest time of its records, by how much times go back
    within a file, and the file with that time.
    """
    mapping_changes: dict[str, list[Any]] | None = None
    """Field of the mapping to its value in the previous landing and its value now."""
    repeated: dict[str, int] | None = None
    """Of a source of files with offsets: rows that came again with the same bytes, `twice` in the files of this
    landing, or after they had `landed`.
    """
    changed: dict[str, dict[str, list[list[int]]]] | None = None
    """Of a source that is a table: by partition ranges `[from, to)` of offsets that have landed and are `gone` from it,
    or are `others` there.
    """
    erases: bool | None = None
    """True: the records that are `gone` are to be erased as soon as this increment is done."""
    registers: list[dict[str, Any]] | None = None
    """Of a source that is a table whose rows stay where they are: its files, each with the topic's rows of a partition
    in it (`DataFile`).
    """
    base: dict[str, int] | None = None
    """Of the first increment of such a source: offsets, by partition, below which records are in the topic's own table.
    """
    copies: bool | None = None
    """True: it lands no record, but writes those that lie in files of somebody else's table into the topic's own."""
    gives_up: int | None = None
    """The increment whose plan, of which nothing is committed, this one takes the place of."""


@dataclass(frozen=True, kw_only=True)
class LandingDoneRow(LandingRow):
    """What came of a topic's landing increment."""

    dead_letters: int | None = None
    """What was found and became no record."""
    implausible: dict[str, Any] | None = None
    """How many records have times that can hardly be meant, and the first of them (`Implausible`)."""

    @property
    def rows_added(self) -> int:
        """By how many records it made the topic longer."""
        return (self.records or 0) - (self.lost or 0)
