"""Backfills: the rows of a range of time, made again on a branch, and proved to be those of a replay of everything.

Owns the order of steps. Rule: a replay begins so far before the range that nothing older decides a row of it
(jobs/branches/horizon.py), and keeps only state while it warms up. Then it keeps the rows of the range, and continues
until the range is complete. The current topology reads the landed log; where a node keeps what a key has without end,
it continues from the state of an increment of the parent. What is not proved begins earlier, so a backfill is right
or it is not there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...state.errors import CodeChanged, ConfigError, LandingError, LedgerError
from ...state.tables.branch_files import bases_of
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow, PlanRow
from ...state.tables.names import STATE, TableName, TaskId
from ...state.tables.rows_in_force import begins_with_application, in_force
from ...state.tables.task_entry import TaskEntry
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from ..code_changes.code_snapshot import code_snapshot
from ..code_changes.compatibility import Compatibility
from ..code_changes.state_migration import take_over
from ..code_changes.step_text import made_with
from ..execution.kept_range import Range
from ..execution.task_description import Runner
from ..history.committed_tables import done_row
from ..replay.books import add_books
from ..replay.run_settings import OnStep
from ..topology.topology import Topology
from .branches import begin, branches, drop
from .horizon import Horizon, Unsettled
from .overlap import compare
from .range_cuts import Group, RangeCuts, Start
from .range_part import range_part
from .range_run import RangeRun

CHECKPOINTS = 4
"""Parts of a warm-up, after each of which sessions are looked at, where there are any."""


@dataclass(frozen=True)
class Backfill:
    """A range that is there. ``begins``: where it began to read, in words; ``warmed_up`` and ``replayed``: records read
    before the range and from it on. ``rows``: of the range, by output; ``compared``: outputs that are equal to what the
    parent has committed, since nothing above them has changed. ``open``: where results of the range still wait for
    records that have not landed. ``left_out``: outputs that it does not have, since their rows may be of any range,
    each with the processor that they depend on.
    """

    name: str
    pipeline: str
    range: Range
    begins: str
    warmed_up: int
    replayed: int
    rows: dict[str, int]
    compared: list[str]
    open: list[Unsettled]
    left_out: Mapping[str, str] = field(default_factory=dict)


def backfill(
    warehouse: Warehouse,
    topology: Topology,
    *,
    pipeline: str,
    name: str,
    from_ms: int,
    to_ms: int,
    runner: Runner,
    max_records: int | None = None,
    on_step: OnStep = lambda step: None,
    doing: Callable[[str], None] = lambda sentence: None,
    kafka_version: str | None = None,
) -> Backfill:
    """Make the rows of ``pipeline`` with times in ``[from_ms, to_ms)`` again, with ``topology``, as the branch
    ``name``.

    What has landed is read; ``max_records``: of an increment. ``on_step``: as of ``replay``; ``doing``: gets a line
    for each step. ``kafka_version``: as of ``replay``; None: that of ``pipeline``. Outputs that depend on a processor
    are left out.

    Raises ConfigError for a range, a name or a version that cannot be, or where all outputs depend on processors.
    LandingError when records that matter were never landed; BackfillDiffers when the parent has other rows although
    nothing was changed; and what a replay raises. In all these cases there is no branch.
    """
    if not from_ms < to_ms:
        raise ConfigError("range", "an end after its beginning", f"{from_ms} to {to_ms} ms", "correct --from or --to")
    run = _BackfillRun(
        warehouse, topology, pipeline, name, Range(from_ms, to_ms), runner, max_records, on_step, doing,
        kafka_version,
    )  # fmt: skip
    try:
        return run.run()
    # Also for KeyboardInterrupt: half a range left behind would hold the name, and pin files of its parent.
    except BaseException:
        run.drop()
        raise


@dataclass(frozen=True)
class _Beginning:
    """``start``: in the landed log; ``row``: of the parent, with whose state it begins, None for none. ``missing``: the
    latest time that is not read, by group. ``because``: what keeps it from beginning later, in words; "" for nothing.
    """

    start: Start
    row: LedgerRow[DoneRow] | None
    missing: dict[Group, int]
    because: str = ""


@dataclass
class _BackfillRun:
    warehouse: Warehouse
    topology: Topology
    pipeline: str
    name: str
    range: Range
    runner: Runner
    max_records: int | None
    on_step: OnStep
    doing: Callable[[str], None]
    kafka_version: str | None
    warmed_up: int = 0
    replayed: int = 0
    _is_begun: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.warehouse.pipeline(self.pipeline).ledger)
        self.last = done_row(self.warehouse, self.pipeline)
        self.part = range_part(self.topology)
        self._refuse_arrivals()
        self._refuse_given_times()
        self.topology = self.part.topology
        self.doing("looking for the range in the landed log")
        self.log = RangeCuts(self.warehouse, self.topology, self.last.content.partitions)
        self.horizon = Horizon(self.warehouse, self.topology, self.log)

    def run(self) -> Backfill:
        beginning = self._warm_up()
        waiting = self._run_range()
        self.doing("comparing with what is committed")
        compared = compare(self.warehouse, self.part, self.pipeline, self.name, self.range, self._reads_from(beginning))
        self._finish(beginning, compared, waiting)
        rows = self._rows()
        return Backfill(
            self.name, self.pipeline, self.range, self._words(beginning), self.warmed_up, self.replayed, rows, compared,
            waiting, self.part.left_out,
        )  # fmt: skip

    def _refuse_arrivals(self) -> None:
        if self.last.content.by_arrival:
            raise ConfigError(
                f"backfill of {self.pipeline!r}", "a pipeline whose records were taken by time, so that a range of "
                "time is one of them", "records that it took in the order of their arrival",
                "fork the pipeline before the range, run the branch to the end, and promote that",
            )  # fmt: skip

    def _refuse_given_times(self) -> None:
        """ConfigError where every output depends on a processor."""
        left_out = self.part.left_out
        if left_out and len(left_out) == len(self.topology.sinks()):
            processors = ", ".join(sorted({*left_out.values()}))
            raise ConfigError(
                f"backfill of {self.pipeline!r}", "an output whose rows keep the times of their records, so that their "
                "ranges are the same", f"{', '.join(left_out)}, which may have any time, since they depend on the "
                f"processor {processors}",
                "fork the pipeline before the range, run the branch to the end, and promote that",
            )  # fmt: skip

    def drop(self) -> None:
        """Take away what was begun."""
        if self._is_begun and self.name in branches(self.warehouse):
            drop(self.warehouse, self.name)
        self._is_begun = False

    @property
    def _done(self) -> DoneRow:
        return done_row(self.warehouse, self.name).content

    # --- where it begins -----------------------------------------------------------------------------------------

    def _warm_up(self) -> _Beginning:
        """Begin the branch and read up to the range, from so early that what is older does not matter."""
        beginning = self._first()
        while True:
            self._begin(beginning)
            unsettled = self._read(beginning)
            if not unsettled:
                return beginning
            self.drop()
            beginning = self._earlier(beginning, unsettled)

    def _first(self) -> _Beginning:
        # No beginning in the log is early enough: such nodes keep what a key has however old it is, or the first rows
        # of the stores are an application's.
        if self.horizon.unbounded or self._begins_with_state:
            return self._forked(self.ledger.done_rows(), "")
        return self._from_log({group: self.horizon.start(group, self.range.from_ms) for group in self.log.groups})

    def _from_log(self, times: dict[Group, int | None], because: str = "") -> _Beginning:
        lost = self.log.missing_from_start()
        missing = {group: self.log.reached(group, time) for group, time in times.items() if time is not None}
        missing |= {group: lost[group] for group, time in times.items() if time is None and group in lost}
        return _Beginning(Start(times), None, missing, because)

    def _forked(self, rows: list[LedgerRow[DoneRow]], because: str) -> _Beginning:
        """With the state of the last of ``rows`` that is early enough, and that the topology can continue from.
        ``because``: why no later one.
        """
        graph_start = Start({group: self.horizon.start(group, self.range.from_ms) for group in self.log.groups})
        range_start = Start(dict.fromkeys(self.log.groups, self.range.from_ms))
        # The latest first: the later the state, the fewer records are read to warm it up.
        for row in reversed(in_force(rows)):
            try:
                verdict = take_over(self.pipeline, self.part.recorded(row), self.topology).verdict
            except CodeChanged as error:
                because = f"the state of increment {row.increment} cannot be continued: {error.got}"
                continue
            if self._is_vacuumed(row.increment):
                because = f"increment {row.increment} and those before it were vacuumed"
                break
            # What take_over finds changed may be only that processors are left out. Where this part's own code ran the
            # increment, the part's state is right as it is.
            verdict = None if self.part.is_recorded_in(row) else verdict
            cut, _ = self.log.cut(range_start if verdict is None else graph_start)
            if row.content.code is not None and row.increment > 0 and _is_before(row.content, cut):
                # Under the same code this is the state that a replay of everything has there. Under other code, what
                # made it counts as not read.
                missing = {} if verdict is None else self.log.reached_by(row.content.cut_to)
                return _Beginning(range_start, row, missing, because)
            if verdict is not None:
                because = because or self._changed(verdict, row.content)
        if self._begins_with_state:
            first = in_force(self.ledger.done_rows())[0].increment
            expected = f"a range behind all that increment {first} had read, which goes back to an application's state"
            got = f"one from {self.range.from_ms} ms on"
            next_step = "choose a later --from; of a branch, backfill the pipeline that it was forked from"
            raise ConfigError(f"backfill of {self.pipeline!r}", expected, got, next_step)
        return self._from_log(dict.fromkeys(self.log.groups), because)

    @cached_property
    def _begins_with_state(self) -> bool:
        return begins_with_application(self.warehouse, self.pipeline)

    def _changed(self, verdict: Compatibility, done: DoneRow) -> str:
        """What lets a change of the code reach back further than the state of the pipeline."""
        needs = f"needs records from {self.range.from_ms - self.horizon.longest_ms} ms on, which later state has read"
        if not verdict.changes:
            made = "" if done.code is None else done.code["made_with"]
            return f"code that may be other than that of {made}, with which {made_with()} cannot be compared, {needs}"
        stores, first = self.topology.stores(), verdict.changes[0]
        names = [stores[each.store].name for each in verdict.changes if each.store in stores]
        who = f"{names[0]} ({first.place}: {first.what})" if names else f"{first.place} ({first.what})"
        return f"the change of {who} {needs}"

    def _is_vacuumed(self, increment: int) -> bool:
        try:
            self.ledger.refuse_vacuumed(increment)
        except LedgerError:
            return True
        return False

    def _earlier(self, beginning: _Beginning, unsettled: list[Unsettled]) -> _Beginning:
        """Raises LandingError where there is nothing earlier."""
        first = unsettled[0]
        if beginning.row is not None:
            records = f"records from {first.has_ms - first.reach_ms} ms on" if first.has_ms >= 0 else "earlier records"
            because = f"{first.node}, task {first.task}, needs {records}"
            return self._forked(self.ledger.done_rows(highest=beginning.row.increment - 1), because)
        times = dict(beginning.start.times)
        for group in {each.group for each in unsettled}:
            now = times[group]
            if now is None:
                raise self._too_short(first)
            of_group = [each for each in unsettled if each.group == group]
            times[group] = self.horizon.earlier(group, now, self.range.from_ms, of_group)
        return self._from_log(times)

    def _too_short(self, first: Unsettled) -> LandingError:
        begins = self.log.missing_from_start()[first.group]
        return LandingError(
            f"{first.node}, task {first.task}",
            f"records from {first.has_ms - first.reach_ms} ms on, which matter to it at the beginning of the range",
            f"a landed log that begins at {begins} ms, since the broker had deleted what was before",
            "choose a later --from, so that what is missing matters no more",
        )

    def _begin(self, beginning: _Beginning) -> None:
        self.horizon.settled.clear()
        self.warmed_up = 0
        row = beginning.row
        mark: dict[str, Any] = {"from_ms": self.range.from_ms, "to_ms": self.range.to_ms}
        mark |= {"left_out": dict(self.part.left_out)} if self.part.left_out else {}
        if row is None:
            first, increment = self._empty(beginning.start), 0
        else:
            row, bases = self.part.recorded(row), bases_of(self.pipeline, row.content)
            state = {table: parts for table, parts in bases.items() if self._is_kept(TableName(table))}
            first, increment = replace(row.content, versions={}, bases=state), row.increment
        begin(self.warehouse, self.pipeline, increment, self.name, replace(first, backfill=mark), after=row)
        self._is_begun = True

    def _is_kept(self, table: TableName) -> bool:
        return table.kind == STATE and self.part.has_store(table.name)

    def _empty(self, start: Start) -> DoneRow:
        """A row that has read all before ``start`` and keeps nothing of it but how far it has got."""
        cut, recorded = self.log.cut(start)
        times, tasks = self.log.times_at(start), dict[str, TaskEntry]()
        for sub in self.topology.sub_topologies:
            landed = [source for source in sub.sources if source.landed_topic is not None]
            for p in range(self.log.partitions[str(sub.id)]):
                reached = {source.topic: times.get(source.topic, {}).get(str(p)) for source in landed}
                known = {topic: ms for topic, ms in reached.items() if ms is not None}
                if known:
                    extracted = {source.topic for source in landed if source.time_step is not None}
                    tasks[str(TaskId(sub.id, p))] = TaskEntry(
                        tape_time_ms=max(known.values()),
                        partition_times={topic: ms for topic, ms in known.items() if topic in extracted},
                    )
        return DoneRow(
            topology=self.topology.fingerprint, code=code_snapshot(self.topology), cut_to=cut,
            partitions=self.log.partitions, tasks=tasks, tape_times=times, recorded_to=recorded or None,
            excluded=self.log.left_out(cut),
        )  # fmt: skip

    # --- reading -------------------------------------------------------------------------------------------------

    def _read(self, beginning: _Beginning) -> list[Unsettled]:
        """Read up to the range; returns where what was not read may still matter."""
        run = self._at_work
        for time_ms in (*self._checkpoints(beginning), self.range.from_ms):
            self.doing(f"warming up, from {self._words(beginning)}")
            for report in run.run(time_ms):
                self.warmed_up += report.books.read
            unsettled = self.horizon.unsettled(self._done, self.name, beginning.missing)
        return unsettled

    def _checkpoints(self, beginning: _Beginning) -> Iterator[int]:
        # Looked at early, a node of sessions may be known to be right from an earlier time on (Horizon.settled), and
        # with it the nodes below.
        if self.horizon.chained:
            times = [beginning.start.times[group] for group in beginning.missing]
            first = min((time for time in times if time is not None), default=None)
            if first is not None:
                step = (self.range.from_ms - first) / CHECKPOINTS
                yield from (first + int(step * number) for number in range(1, CHECKPOINTS))

    def _run_range(self) -> list[Unsettled]:
        """Read the range, and on until nothing of it is to come; returns what would come with records to come."""
        run, to_ms = self._at_work.keeping(self.range), self.range.to_ms
        # A record of the range may have landed late, behind records past its end: these are read up to there.
        until = max(to_ms + self.horizon.longest_ms, self.log.latest_of_earlier(to_ms) + 1)
        while True:
            self.doing("replaying the range")
            for report in run.run(until):
                self.replayed += report.books.read
            waiting = self.horizon.waiting(self._done, to_ms)
            if all(self.log.is_over(each.group, until) for each in waiting):
                return waiting
            # Twice as far each time: where sessions are, longest_ms is an estimate, and nobody knows how far is enough.
            until = to_ms + 2 * max(until - to_ms, 1)

    @property
    def _at_work(self) -> RangeRun:
        of_branch = self.warehouse, self.topology, self.name
        return RangeRun(*of_branch, self.runner, self.max_records, self.on_step, kafka_version=self.kafka_version)

    # --- the end -------------------------------------------------------------------------------------------------

    def _finish(self, beginning: _Beginning, compared: list[str], waiting: list[Unsettled]) -> None:
        """The row that says that all of it is there."""
        own = Ledger(self.warehouse.pipeline(self.name).ledger)
        last = done_row(self.warehouse, self.name)
        cut, before = last.content.cut_to, last.content
        proof = {
            "begins": self._words(beginning),
            "compared": compared,
            "waits_in": sorted({each.node for each in waiting}),
            "landed": self.last.content.cut_to | self.log.ends,
            "topics_apart": self.part.topics_apart,
        }
        plan = PlanRow(topology=self.topology.fingerprint, cut_from=cut, cut_to=cut, partitions=before.partitions)
        planned = own.plan(last.increment + 1, plan, written_at_ms=now_ms())
        nothing = {str(sub.id): add_books([]) for sub in self.topology.sub_topologies}
        done = replace(
            before,
            backfill={**(before.backfill or {}), "proof": proof},
            books=add_books([]) | {"by_sub_topology": nothing},
            outputs=dict.fromkeys(before.outputs or {}, 0),
        )
        own.done(planned.increment, done, written_at_ms=now_ms())

    def _rows(self) -> dict[str, int]:
        own = Ledger(self.warehouse.pipeline(self.name).ledger)
        written = [row.content.outputs or {} for row in own.done_rows() if row.content.forked is None]
        return {sink.topic: sum(each.get(sink.topic, 0) for each in written) for sink in self.topology.sinks()}

    def _words(self, beginning: _Beginning) -> str:
        if beginning.row is not None:
            kept = ", ".join(self.horizon.unbounded[:3]) + (", …" if len(self.horizon.unbounded) > 3 else "")
            why = f"these keep what is old: {kept}" if kept else "the pipeline begins with an application's state"
            words = f"increment {beginning.row.increment} of {self.pipeline}, since {why}"
            return f"{words}; {beginning.because}" if beginning.because else words
        times = [time for time in beginning.start.times.values() if time is not None]
        if times and len(times) == len(beginning.start.times):
            return f"the landed log at {min(times)} ms"
        return f"the first record, since {beginning.because}" if beginning.because else "the first record"

    def _reads_from(self, beginning: _Beginning) -> dict[str, dict[str, int]]:
        """Offsets from which on the parent's code decided what the range has."""
        return self.log.cut(beginning.start)[0] if beginning.row is None else beginning.row.content.cut_to


def _is_before(done: DoneRow, cut: dict[str, dict[str, int]]) -> bool:
    """Whether an increment has read nothing behind ``cut``."""
    return all(end <= cut.get(topic, {}).get(p, end) for topic, ends in done.cut_to.items() for p, end in ends.items())
