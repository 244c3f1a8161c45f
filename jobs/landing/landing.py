"""Landing: records of a topic come into its landed table, increment by increment.

Owns the way of one landing increment: plan into the ledger, rows into the table in one Delta transaction marked with
the increment, done row. Rule: nothing is interpreted, so nothing can be lost to a parser; a plan lands the same
records, however often it is run. A call first finishes an increment that an earlier one left behind, then lands what is
new. The sources (`from_files`, `from_kafka`, `from_records`) say what is new and write it. A plan whose source is not
any more what it was is given up (`given_up_plans`), and another is made.

A topic's first landing is always written, even without records, so that its partitions are known.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable

from ...state.argument_types import checked_types
from ...state.errors import CommitLost, ConfigError, LandingError, LedgerConflict
from ...state.tables.branch_files import refuse_older_landing_ledger
from ...state.tables.commit import settle, transaction_version
from ...state.tables.compaction import compact
from ...state.tables.data_files import live_files, open_table, read_files, table_digest
from ...state.tables.ledger import LandingLedger, LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.names import TableName
from ...state.tables.parquet_reader import show_command
from ...state.tables.replaced_files import delete_files, replaced_files
from ...state.tables.warehouse import Warehouse
from ...state.tracing import span
from ...state.wall_clock import now_ms
from .complete_topics import refuse_complete
from .exclusions import book_erasure
from .file_source import KAFKA_OFFSETS, PATH_OFFSETS, FileSource
from .files.known_files import PlanOutdated
from .first_record import FirstRecord
from .from_files import FileLander
from .from_kafka import KafkaLander
from .from_lake import LakeLander
from .from_records import RecordLander
from .given_up_plans import give_up, is_given_up, kept_plans, landing_app_id
from .in_place import BEGINS_HERE
from .kafka_source import KafkaSource
from .lake.lake_source import LakeSource
from .lake_changes import gone_to_erase, refuse_unfinished
from .landing_preview import LandingPreview, registered_from
from .landing_rules import DAY_MS, ERASE, LandingRules
from .plausible_times import Implausible, find_implausible
from .recorded_time import finish_without_records

if TYPE_CHECKING:
    from .files.spark_tasks import Spark

__all__ = [
    "FileSource",
    "KafkaSource",
    "LakeSource",
    "LandingReport",
    "LandingRules",
    "land_files",
    "land_kafka",
    "land_lake",
    "land_records",
    "preview_kafka",
    "preview_landing",
]

_ATTEMPTS = 3


@dataclass(frozen=True)
class LandingReport:
    """What one call landed. ``increments`` is () when nothing was new.

    ``cut_from``/``cut_to``: per partition, the first offset landed by this call and the one after the last.
    ``gaps``: offsets ``[from, to)`` that were gone from the broker and skipped on request.
    ``dead_letters``: what was found and became no record. ``warnings``: sentences about what is unusual.
    """

    topic: str
    increments: tuple[int, ...]
    records: int
    partitions: int
    cut_from: Mapping[int, int]
    cut_to: Mapping[int, int]
    gaps: Mapping[int, tuple[int, int]]
    table_version: int | None
    seconds: float
    dead_letters: int = 0
    warnings: tuple[str, ...] = ()


PlannedRows = Callable[[], list[LedgerRow[LandingPlanRow]]]


class Lander(Protocol):
    """A source, seen by the landing of one topic."""

    @property
    def kind(self) -> str:
        """What gives the topic its offsets; a topic keeps to one."""
        ...

    @property
    def known_offsets(self) -> str | None:
        """KAFKA_OFFSETS: each record has the offset that Kafka gave it; PATH_OFFSETS: as paths of files say, which name
        one of a file; None: the landing gives them.
        """
        ...

    @property
    def schema(self) -> pa.Schema:
        """Columns of the landed table."""
        ...

    def next_plan(
        self,
        last: LedgerRow[LandingDoneRow] | None,
        planned: PlannedRows,
        clock_ms: int,
        *,
        must: bool,
        warn: Callable[[str], None],
    ) -> LandingPlanRow | None:
        """The next plan after ``last``; None when nothing is new and nothing ``must`` be planned.

        ``clock_ms``: what the machine's clock shows. ``warn`` takes a sentence about what is left out.
        """
        ...

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Write the planned increment and commit it once, marked with it; what to add to the done row.

        Raises PlanOutdated when the source is not what it was when it was planned; then nothing is committed.
        """
        ...


@checked_types
def land_files(
    spark: "Spark | None",
    warehouse: Warehouse,
    topic: str,
    source: FileSource,
    *,
    rules: LandingRules | None = None,
    show: Callable[[FirstRecord], None] | None = None,
    preview: Callable[[LandingPreview], None] | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> LandingReport:
    """Land the files of ``source`` that are not landed yet in ``topic`` of ``warehouse``, in the order of their names
    or, where the source names columns for it, of their rows.

    ``spark`` None reads them in this process, and a function that gives a session is called where the files are large.
    ``clock_ms``: gives the wall clock, by which future times are refused.
    ``rules``: None for their defaults. ``show`` is called with the first new record, as it will be landed, before
    anything is planned, ``preview`` with what is about to be planned. ``show`` gets one record more of each set of
    types that keys and values have in other files (``is_first`` False). Raises LandingError for rows that do not fit
    (file and line) where they stop the landing, and for a file that changed after it was landed. Raises it too for
    content that has landed under another name, for an offset that comes with other bytes, and for a topic landed
    otherwise. Raises LedgerConflict when another runner lands the same increment.
    """
    lander = FileLander(spark, warehouse, topic, source, rules or LandingRules(), show, preview)
    return _land(warehouse, topic, lander, lander.rules, clock_ms or now_ms)


def preview_landing(
    spark: "Spark | None",
    warehouse: Warehouse,
    topic: str,
    source: FileSource | LakeSource,
    *,
    rules: LandingRules | None = None,
    show: Callable[[FirstRecord], None] | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> LandingPreview | None:
    """What ``land_files`` or ``land_lake`` of the same arguments would land; None: nothing is new. Nothing is planned,
    and nothing lands.

    Raises as they do, and LandingError while a landing is unfinished.
    """
    previews: list[LandingPreview] = []
    given = (spark, warehouse, topic)
    lander = (
        FileLander(*given, source, rules or LandingRules(), show, previews.append)
        if isinstance(source, FileSource)
        else LakeLander(*given, source, rules or LandingRules(), show, previews.append)
    )
    return _preview(warehouse, topic, lander, lander.rules, previews, clock_ms or now_ms)


@checked_types
def land_lake(
    spark: "Spark | None",
    warehouse: Warehouse,
    topic: str,
    source: LakeSource,
    *,
    rules: LandingRules | None = None,
    show: Callable[[FirstRecord], None] | None = None,
    preview: Callable[[LandingPreview], None] | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> LandingReport:
    """Land the rows of a Delta or Iceberg table that are not landed yet in ``topic`` of ``warehouse``, in the order of
    their offsets in each partition.

    ``spark``, ``rules``, ``show``, ``preview`` and ``clock_ms``: as of ``land_files``; ``source``: the table, and which
    of its columns are Kafka's. Raises LandingError for a table that cannot be read, whose columns do not have Kafka's
    partitions and offsets, or that keeps the last value of a key. So it does for records that have landed and are gone
    from it or changed (``LandingRules.on_change``), and as ``land_files`` for rows. Raises LedgerConflict when another
    runner lands the same increment.
    """
    lander = LakeLander(spark, warehouse, topic, source, rules or LandingRules(), show, preview)
    return _land(warehouse, topic, lander, lander.rules, clock_ms or now_ms)


def _preview(
    warehouse: Warehouse,
    topic: str,
    lander: Lander,
    rules: LandingRules,
    previews: Sequence[LandingPreview],
    clock_ms: Callable[[], int],
) -> LandingPreview | None:
    """What ``lander`` has put into ``previews``, with what it warns of."""
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    last, warnings = _last_finished(warehouse, topic, lander), list[str]()
    now = clock_ms()
    lander.next_plan(last, lambda: kept_plans(ledger), now, must=False, warn=warnings.append)
    if not previews:
        return None
    odd = previews[0].implausible(rules.earliest_ms(), now + DAY_MS, of_files=lander.kind == FileLander.kind)
    return replace(previews[0], warnings=(*warnings, *odd))


def _last_finished(warehouse: Warehouse, topic: str, lander: Lander) -> LedgerRow[LandingDoneRow] | None:
    """The last landing. Raises LandingError while one is unfinished, or where the topic has another source."""
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    pending, last = ledger.pending(), ledger.last_done()
    if pending is not None:
        expected, got = "no unfinished landing", f"increment {pending.increment} planned only"
        raise LandingError(f"topic {topic}", expected, got, "land the topic, which finishes it")
    if last is not None:
        _refuse_other_source(topic, last.content, lander, is_pending=False)
    return last


@checked_types
def land_kafka(
    spark: "Spark | None",
    warehouse: Warehouse,
    topic: str,
    source: KafkaSource,
    *,
    max_records: int | None = None,
    rules: LandingRules | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> LandingReport:
    """Land what the broker of ``source`` has after the last landed offsets of ``topic`` in ``warehouse``, up to the
    last stable ones, at most ``max_records``.

    ``spark``: None will do; the broker is read in this process. ``clock_ms``: gives the wall clock, by which future
    times are refused. ``rules``: those about times, and ``abandon``. Raises RetentionGap when offsets that come next
    are gone (see ``KafkaSource.on_gap``); LandingError when the broker does not answer, or its topic is another one;
    LedgerConflict when another runner lands the same increment.
    """
    lander = KafkaLander(warehouse, topic, source, max_records, rules or LandingRules())
    return _land(warehouse, topic, lander, lander.rules, clock_ms or now_ms)


def preview_kafka(
    warehouse: Warehouse, topic: str, source: KafkaSource, *, max_records: int | None = None
) -> dict[int, tuple[int, int]]:
    """Offsets ``[from, to)`` of each partition that ``land_kafka`` would land now: how far the topic lags behind its
    broker. Nothing is planned or landed. Raises as ``land_kafka``, and LandingError while a landing is unfinished.
    """
    lander = KafkaLander(warehouse, topic, source, max_records, LandingRules())
    last = _last_finished(warehouse, topic, lander)
    plan = lander.next_plan(last, list, now_ms(), must=True, warn=print)
    assert plan is not None, "it had to be made"
    begins = {p: plan.gaps[p][1] if p in plan.gaps else first for p, first in plan.cut_from.items()}
    return {int(p): (begin, plan.cut_to[p]) for p, begin in begins.items()}


@checked_types
def land_records(
    warehouse: Warehouse,
    topic: str,
    records: pa.Table,
    *,
    partitions: int = 1,
    abandon: bool = False,
    clock_ms: Callable[[], int] | None = None,
) -> LandingReport:
    """Land ``records`` (see RecordLander for the columns) in ``topic`` of ``warehouse``, after those landed before and
    in their order. ``partitions``: how many the topic has, fixed by its first landing. ``clock_ms``: gives the wall
    clock.

    ``abandon``: give up an increment that is planned and not committed. Raises LandingError when an unfinished landing
    was of other records, LedgerConflict when another runner lands the same increment.
    """
    lander = RecordLander(warehouse, topic, records, partitions)
    return _land(warehouse, topic, lander, LandingRules(abandon=abandon), clock_ms or now_ms)


def _land(
    warehouse: Warehouse, topic: str, lander: Lander, rules: LandingRules, clock_ms: Callable[[], int]
) -> LandingReport:
    if rules.copy and lander.kind != LakeLander.kind:
        expected, got = "a Delta or Iceberg table, whose records lie in place", f"a source of the kind {lander.kind}"
        raise ConfigError(f"topic {topic!r}, copy", expected, got, "name the table, or leave it out")
    started = time.monotonic()
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    pending, last = ledger.pending(), ledger.last_done()
    newest = pending or last
    refuse_older_landing_ledger(warehouse, topic, ledger, newest)
    if newest is not None:
        _refuse_other_source(topic, newest.content, lander, is_pending=pending is not None)
    run = _LandingRun(warehouse, topic, ledger, lander, rules, clock_ms)
    # What `exclude` or `record_time` has planned needs no source, so a landing
    # finishes it, too: the ledger takes no plan while one is unfinished.
    if pending is not None and not pending.content.lands_records:
        last, pending = finish_without_records(warehouse, topic, pending, clock_ms), None
    if pending is not None:
        finished = run.finish(pending)
        # Records in memory come by one call; that which planned them died, and its caller gives them again.
        if finished is not None and isinstance(lander, RecordLander) and lander.has(pending.content):
            return _report(warehouse.root, topic, run, finished, time.monotonic() - started)
        last = finished or last
    elif rules.abandon:
        run.warnings.append(f"{topic}: no increment is planned and unfinished, so nothing was given up")
    last = run.land_new(last)
    return _report(warehouse.root, topic, run, last, time.monotonic() - started)


class _LandingRun:
    """One call: the increments that it has ``done``, the plan that it has ``given_up`` last, and what it has to say."""

    def __init__(
        self,
        warehouse: Warehouse,
        topic: str,
        ledger: LandingLedger,
        lander: Lander,
        rules: LandingRules,
        clock_ms: Callable[[], int],
    ) -> None:
        self.warehouse, self.topic, self.ledger, self.lander = warehouse, topic, ledger, lander
        self.rules, self.clock_ms = rules, clock_ms
        self.done: list[LedgerRow[LandingDoneRow]] = []
        self.given_up: LedgerRow[LandingPlanRow] | None = None
        self.warnings: list[str] = []

    def finish(self, pending: LedgerRow[LandingPlanRow]) -> LedgerRow[LandingDoneRow] | None:
        """Land what an earlier call has planned; None: it was given up."""
        if self.rules.abandon:
            if self._give_up(pending, "as asked"):
                return None
            self.warnings.append(
                f"{self.topic}: increment {pending.increment} was committed already, so it is finished, not given up"
            )
        return self._try(pending)

    def land_new(self, last: LedgerRow[LandingDoneRow] | None) -> LedgerRow[LandingDoneRow]:
        """Plan and land what is new; the last done row."""
        last = self._erase_gone(last)
        for _ in range(_ATTEMPTS):
            # The plan that was given up is pending until another follows it, so one is made even where nothing is new.
            must = self.given_up is not None
            plan = self.lander.next_plan(last, self._kept_plans, self.clock_ms(), must=must, warn=self._warn)
            if plan is None:
                assert last is not None, f"{self.topic}: a first landing always has an increment"
                return last
            # Not asked before: a landing of a complete topic that finds nothing new is no error.
            if not self.rules.reopen:
                refuse_complete(self.topic, last)
            done = self._try(self._plan(plan, last))
            if done is not None:
                erased = self._erase_gone(done)
                assert erased is not None, "it is done"
                return erased
        raise LandingError(
            f"topic {self.topic}",
            "a source that stays as it is while it is landed",
            f"one that changed {_ATTEMPTS} times after it was planned",
            "land the topic again when nobody writes there",
        )

    def _erase_gone(self, last: LedgerRow[LandingDoneRow] | None) -> LedgerRow[LandingDoneRow] | None:
        """Erase what plans have found gone from the table, where that is asked for, also where a landing died before it
        did; and the files that had it. The last done row.
        """
        # While the plan that was given up has no successor it is pending,
        # and an erasure, an increment of its own, cannot be booked.
        if self.rules.on_change != ERASE or last is None or self.given_up is not None:
            return last
        own = [row.content for row in self._kept_plans() if row.content.erases]
        gone = gone_to_erase(self.warehouse, self.topic, own)
        if gone:
            refuse_unfinished(self.warehouse, self.topic, gone)
            lake = own[-1].source["lake"]
            table = f"{lake['format']} table {lake['place']}"
            reason, by = f"gone from {table} as of version {lake['version']}", f"its owner ({table})"
            last = book_erasure(self.warehouse, self.topic, gone, reason, by, clock_ms=self.clock_ms)
            self.done.append(last)
        # Also of an erasure that an earlier call has booked: it may
        # have died before it deleted the files that have the content.
        if (last.content.exclusion or {}).get("erased_by") is not None:
            delete_files(list(replaced_files(self.warehouse.landed(self.topic), last.increment)))
        return last

    def _warn(self, sentence: str) -> None:
        """Once, also where a plan was made again."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def _kept_plans(self) -> list[LedgerRow[LandingPlanRow]]:
        return kept_plans(self.ledger, self.given_up)

    def _plan(self, plan: LandingPlanRow, last: LedgerRow[LandingDoneRow] | None) -> LedgerRow[LandingPlanRow]:
        """In the place of the plan that was given up, if one was."""
        now, gone = self.clock_ms(), self.given_up
        if last is not None:
            # Each row repeats what holds from then on: readers look at the last done row alone.
            plan = replace(plan, excluded=last.content.excluded, restarts=last.content.restarts)
            # A topic in place may continue from Kafka or from files: what lies in place stays there. A copy ends that.
            if plan.registers is None and not plan.copies:
                plan = replace(plan, in_place=last.content.in_place)
        increment, epoch = (0, 0) if last is None else (last.increment, last.epoch)
        if gone is not None:
            increment, epoch = gone.increment, gone.epoch
            plan = replace(plan, gives_up=gone.increment)
        increment += 1
        if plan.in_place == BEGINS_HERE:
            plan = replace(plan, in_place=increment)
        if gone is not None:
            # `plan` refuses while another plan is pending; this one gives it up, and fails where it is done meanwhile.
            return self.ledger.plan_restatement(increment, plan, epoch=epoch, written_at_ms=now)
        return self.ledger.plan(increment, plan, epoch=epoch, written_at_ms=now)

    def _try(self, planned: LedgerRow[LandingPlanRow]) -> LedgerRow[LandingDoneRow] | None:
        """Land a planned increment; None where its source is another one now, so that it was given up."""
        with span("landing", topic=self.topic, warehouse=self.warehouse.root, increment=planned.increment) as said:
            try:
                row = self._run(planned)
            except PlanOutdated as outdated:
                # Where it cannot be given up, another runner has committed
                # it meanwhile, and only its done row may be missing.
                if not self._give_up(planned, str(outdated)):
                    row = self._run(planned)
                else:
                    return None
            said.update(records=row.content.records or 0, dead_letters=row.content.dead_letters or 0)
        self.given_up = None
        self.done.append(row)
        return row

    def _give_up(self, planned: LedgerRow[LandingPlanRow], why: str) -> bool:
        """False: it is committed, so that it cannot be given up."""
        if not give_up(self.warehouse, self.topic, planned, self.lander.schema):
            return False
        self.given_up = planned
        self.warnings.append(
            f"{self.topic}: the plan of increment {planned.increment} was given up ({why}); nothing of it had landed"
        )
        return True

    def _run(self, planned: LedgerRow[LandingPlanRow]) -> LedgerRow[LandingDoneRow]:
        """Commit the planned increment unless the table has it already; then its done row."""
        warehouse, number = self.warehouse, planned.increment
        path, app_id = warehouse.landed(self.topic), landing_app_id(self.topic, planned)
        if is_given_up(warehouse, self.topic, planned):
            # Asked before `_is_committed`: giving up sets the increment's
            # own mark as well, so the plan would look committed.
            raise PlanOutdated("given up by a landing that died then")
        since = self._known_version()
        # What others did to the table is put back, or refused, before anything of ours follows it.
        self._settle(since)
        added: dict[str, Any] = {}
        if not _is_committed(path, app_id, number, warehouse):
            added = self.lander.write(planned, app_id)
        if is_given_up(warehouse, self.topic, planned):
            # Another runner gave it up while this one wrote, so `commit_files` saw its mark and added nothing.
            got = "one that another runner has given up"
            raise LedgerConflict(path, f"the plan of increment {number}", got, "land the topic again")
        if not _is_committed(path, app_id, number, warehouse):
            raise CommitLost(path, f"increment {number} when read back", "a table without it", "land the topic again")
        compact(path, app_id=app_id, increment=number)
        self.ledger.compact(number)
        table = self._settle(since, but_for=1)
        assert table is not None, f"{path}: committed, yet not there"
        own = number, number
        plan = planned.content
        if plan.registers is None:
            files = [file for file in live_files(table, ("increment", *own)) if file.bounds.get("increment") == own]
            began = dict[int, int]()
        else:
            files = registered_from(plan)
            # A file that its owner wrote anew has records that landed before, which were warned of then.
            began = {int(p): offset for p, offset in plan.cut_from.items()}
        now = self.clock_ms()
        odd = find_implausible(path, files, self.rules.earliest_ms(), now + DAY_MS, began)
        row = LandingDoneRow(
            partitions=plan.partitions,
            cut_from=plan.cut_from,
            cut_to=plan.cut_to,
            gaps=plan.gaps,
            excluded=plan.excluded,
            restarts=plan.restarts,
            in_place=plan.in_place,
            lost=plan.lost,
            source=plan.source,
            records=sum(file.records for file in files) if plan.records is None else plan.records,
            dead_letters=self._dead_letters(own),
            implausible=None if odd is None else asdict(odd),
            table_version=table.version(),
            table_digest=table_digest(path, table.version()),
        )
        return self.ledger.done(number, replace(row, **added), epoch=planned.epoch, written_at_ms=now)

    def _known_version(self) -> int | None:
        """Of the landed table, in the last done row; -1: there is none. None: it does not say."""
        last = self.ledger.last_done()
        return -1 if last is None else last.content.table_version

    def _settle(self, since: int | None, but_for: int = 0) -> DeltaTable | None:
        """The landed table without what others did to it since the version ``since`` (``settle``). ``but_for``: so many
        commits of our own are expected, and only more are looked at.
        """
        path = self.warehouse.landed(self.topic)
        table = open_table(path)
        if table is None or since is None or table.version() <= since + but_for:
            return table
        return settle(table, path, since)

    def _dead_letters(self, own: tuple[int, int]) -> int:
        path = self.warehouse.landed_dead_letter(self.topic)
        return sum(file.records for file in read_files(path, within=("increment", *own)))


def _is_committed(path: str, app_id: str, increment: int, warehouse: Warehouse) -> bool:
    committed = transaction_version(path, app_id)
    if committed is not None and committed > increment:
        raise CommitLost(
            f"{path}, {app_id}",
            f"no increment after {increment}",
            f"increment {committed}",
            "the ledger is older than the table: restore the ledger that belongs to it",
        )
    return committed == increment


def _refuse_other_source(
    topic: str, newest: LandingDoneRow | LandingPlanRow, lander: Lander, *, is_pending: bool
) -> None:
    """Kafka, tables, and files with a column of Kafka's offsets, land a topic in turn; all else keeps to one source."""
    landed, known = newest.source["kind"], _known_offsets(newest)
    # As long as no record has landed no offset is given, so the
    # same source may still be declared with or without offsets.
    if landed == lander.kind and (known == lander.known_offsets or not any(newest.cut_to.values())):
        return
    if known == lander.known_offsets == KAFKA_OFFSETS:
        if not is_pending:
            return
        expected = f"the source of the kind {landed}, which planned it"
        next_step = f"land from {landed} first, which finishes it, or give it up there (--abandon)"
        raise LandingError(f"topic {topic}, whose last landing is unfinished", expected, lander.kind, next_step)
    expected, got, next_step = f"a source of the kind {landed}", lander.kind, "land into a topic of another name"
    if {landed, lander.kind} <= {"files", "kafka", "lake"}:
        expected, got = f"{expected} {_OFFSETS[known]}", f"{got} {_OFFSETS[lander.known_offsets]}"
        next_step += "; files that follow Kafka or a table, or come before, need a column of the offsets (--offset)"
    raise LandingError(f"topic {topic}", f"{expected}, which gave it its offsets", got, next_step)


_OFFSETS = {None: "without known offsets", PATH_OFFSETS: "with offsets of paths", KAFKA_OFFSETS: "with Kafka's offsets"}


def _known_offsets(row: LandingDoneRow | LandingPlanRow) -> str | None:
    """As ``Lander.known_offsets``."""
    offsets: str | None = KAFKA_OFFSETS if row.source["kind"] == "kafka" else row.source.get("offsets")
    return offsets


def _report(
    warehouse: str, topic: str, run: _LandingRun, last: LedgerRow[LandingDoneRow], seconds: float
) -> LandingReport:
    cut_from: dict[int, int] = {}
    gaps: dict[int, tuple[int, int]] = {}
    done = run.done
    for row in done or [last]:
        begun = row.content.cut_from if done else row.content.cut_to
        # The first increment of the call wins: later ones begin where it ends.
        cut_from = {int(p): offset for p, offset in begun.items()} | cut_from
        gaps |= {int(p): (a, b) for p, (a, b) in row.content.gaps.items()} if done else {}
    return LandingReport(
        topic=topic,
        increments=tuple(row.increment for row in done),
        records=sum(row.content.records or 0 for row in done),
        partitions=last.content.partitions,
        cut_from=dict(sorted(cut_from.items())),
        cut_to={int(p): offset for p, offset in sorted(last.content.cut_to.items(), key=lambda item: int(item[0]))},
        gaps=gaps,
        table_version=last.content.table_version,
        seconds=seconds,
        dead_letters=sum(row.content.dead_letters or 0 for row in done),
        warnings=(
            *run.warnings,
            *(sentence for row in done for sentence in warnings_of(warehouse, topic, row.content)),
        ),
    )


def warnings_of(warehouse: str, topic: str, done: LandingDoneRow) -> list[str]:
    """Sentences about what is unusual in a done landing increment of the warehouse at ``warehouse``."""
    warnings = []
    if done.files == 0 and not any(done.cut_to.values()):
        what = "row" if done.source["kind"] == LakeLander.kind else "file"
        warnings.append(f"{topic}: no {what} has landed yet, so no record; its number of partitions may still change")
    if (letters := dead_letters_sentence(warehouse, topic, done)) is not None:
        warnings.append(letters)
    if done.implausible is not None:
        odd, of_files = Implausible(**done.implausible), done.source["kind"] == FileLander.kind
        warnings.append(odd.sentence(topic, done.records or 0, of_files=of_files))
    return warnings


def dead_letters_sentence(warehouse: str, topic: str, done: LandingDoneRow) -> str | None:
    """A sentence about the rows of a done landing increment that became no record; None: every row became one."""
    records, letters = done.records or 0, done.dead_letters or 0
    if not letters:
        return None
    show = show_command(TableName.landed_dead_letter(topic), warehouse, None)
    share = f"{letters:,} of {records + letters:,} rows ({letters / (records + letters):.1%})"
    return f"{topic}: {share} became no record; see `{show}`"
