"""Landing in place: the records of a topic stay in somebody else's table, whose files the topic's ledger registers.

Owns what is registered, and when. Rule: as long as every registered file is one of the table's newest version, what
was appended is registered beside them. Where its owner has put rows into other files (OPTIMIZE, compaction), all files
of the newest version are registered in their place, and the records are counted: none may be missing. A topic that has
landed before continues after its last offset. Rows that would have to be converted are refused (lake/registering.py).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...state.distinct_numbers import without
from ...state.errors import DamagedFile, LandingError
from ...state.tables.commit import commit_files
from ...state.tables.data_files import DataFile
from ...state.tables.files_in_place import files_in_place, source_in_place
from ...state.tables.in_place import BY_COPY, no_headers
from ...state.tables.ledger import LandingLedger, LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.offset_order import in_offset_order
from ...state.tables.parquet_reader import refuse_missing
from ...state.tables.parquet_writer import write_task_file
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from ...state.times import UNBOUNDED
from .file_writing import FILE_BYTES
from .files.columns import time_text
from .files.known_files import PlanOutdated
from .files.spark_tasks import run_tasks
from .lake.chosen_columns import table_place
from .lake.lake_rows import LakeMapping
from .lake.lake_table import LakeChanges, LakeFile, LakeTable
from .lake.new_files import files_to_read, may_have_topic, refuse_other_topics
from .lake.registering import Registering, deleted_ranges, read_offsets, refuse_other_types
from .lake_changes import changed_sentence
from .landing_preview import LandingPreview, PreviewedPartition, order_words, registered_from
from .landing_rules import ERASE, IGNORE, REFUSE, RowRules
from .ordered_plan import joined_ranges
from .plausible_times import find_implausible

if TYPE_CHECKING:
    from .files.spark_tasks import Spark

BEGINS_HERE = 0
"""In a plan's `in_place`, before it has its number: its own."""

Cut = Mapping[int, int]
Changed = dict[str, dict[str, list[list[int]]]]
"""As in a plan."""


def refuse_other_way(topic: str, last: LedgerRow[LandingDoneRow] | None, *, in_place: bool) -> None:
    """Raises LandingError where a topic that lies in place would be copied from its next record on, unasked."""
    if last is not None and last.content.in_place is not None and not in_place:
        expected = "a landing in place, as the one before"
        next_step = "add --in-place; or --copy, which writes what lies there into the topic's own table"
        raise LandingError(f"topic {topic}", expected, "one by copy", next_step)


@dataclass(frozen=True)
class PlannedInPlace:
    """Plans of a topic that lies in ``table``. ``changes``: since the last landing, None: all is new; ``last``: its
    done row. ``declared``: how many partitions the topic is to have; None: as many as are found. ``look``: what of the
    landed records is gone or others now, by a comparison that reads them. ``on_change``: as of ``LandingRules``.
    """

    warehouse: Warehouse
    topic: str
    table: LakeTable
    mapping: LakeMapping
    changes: LakeChanges | None
    last: LedgerRow[LandingDoneRow] | None
    declared: int | None
    look: Callable[[], LandingPlanRow]
    on_change: str
    warn: Callable[[str], None]

    def plan(self, without_files: LandingPlanRow) -> LandingPlanRow:
        """``without_files`` with what is to be registered, if anything is. Raises LandingError where records that have
        landed are missing, FileNotFoundError for a file that the table names and that is gone.
        """
        refuse_other_types(self.table, self.topic, self.mapping)
        began = {} if self.last is None else {int(p): offset for p, offset in self.last.content.cut_to.items()}
        known = [] if self.last is None else files_in_place(self.warehouse, self.topic, self.last)
        changed, is_anew = None, bool(moved_files(self.table, known))
        if self.changes is not None and (self.changes.touched or self.changes.unknown is not None):
            changed, is_anew = self._changed(known), True
        if is_anew and known:
            return self._anew(without_files, known, began, changed)
        # All that has landed is in the topic's own table: a copy. What is gone
        # from theirs, or others there, concerns that copy and is noted as well.
        without_files = replace(without_files, changed=changed)
        files = files_to_read(self.mapping, self.table.files, self.changes, began)
        base = self._begin(began)
        registered = Registering(self.table, self.topic, self.mapping, base).files(files)
        if not registered and self.last is None and self.table.files:
            refuse_other_topics(self.table, self.topic, self.mapping)
        # A file that was appended with offsets below the landed ones: in place no
        # row is read, so a repetition cannot be distinguished from another record.
        below = [file for file in registered if (file.min_offset or 0) < began.get(file.partition, 0)]
        if below:
            self._refuse_below(below[0], began)
        if not registered and self.last is not None:
            return without_files
        plan = self._with_cut(without_files, registered, began, sum(file.records for file in registered))
        since = None if self.last is None else self.last.content.in_place
        if since is not None:
            return replace(plan, in_place=since)
        return replace(plan, in_place=BEGINS_HERE, base={str(p): offset for p, offset in base.items()})

    def _changed(self, known: Sequence[DataFile]) -> "Changed | None":
        """What of the landed records is gone or others, found by reading them where they were."""
        try:
            refuse_missing("", known)
        except DamagedFile:
            self._refuse_unknown()
            self.warn(
                f"{self.topic}: rows of {self.table.format} table {self.table.place} were changed and the files that "
                "had them are gone; what landed before was counted, not compared"
            )
            return None
        return self.look().changed

    def _refuse_unknown(self) -> None:
        """Raises LandingError where rows of files that are gone may have other bytes now: statements changed them, or
        the table is another one. Deleted rows alone are known by the counts.
        """
        assert self.changes is not None
        did = [each for each in self.changes.did if not each.lower().startswith("delete ")]
        if self.on_change != IGNORE and (did or self.changes.is_other_table):
            why = ", ".join(did) or self.changes.unknown
            got = f"some that may be others ({why}), and the files that had them are gone, so nobody can compare them"
            next_step = "restore the table, or take its records as they are now (--on-change ignore)"
            raise LandingError(self._place, "the records that have landed, as they landed", got, next_step)

    def _anew(
        self, plan: LandingPlanRow, known: Sequence[DataFile], began: Cut, changed: Changed | None
    ) -> LandingPlanRow:
        """All files of the table in the place of those that are registered."""
        assert self.last is not None
        base = self._begin(began)
        own = [file for file in self.table.files if may_have_topic(self.mapping, file.bounds)]
        registered = Registering(self.table, self.topic, self.mapping, base).files(own)
        before, now = _counts(known, {}), _counts(registered, began)
        for p, records in now.items():
            # More rows below the cut than have landed: some came at
            # offsets that pipelines have passed. Only the counts show it.
            if records > before.get(p, 0):
                expected = f"{before.get(p, 0):,} records of partition {p} below offset {began.get(p, 0)}, as landed"
                next_step = "land the table into a topic of another name"
                raise LandingError(f"{self._place}, in place", expected, f"{records:,}", next_step)
        lost = {p: records - now.get(p, 0) for p, records in before.items() if records > now.get(p, 0)}
        changed = self._with_lost(dict(changed or {}), known, registered, lost)
        new = sum(file.records for file in registered) - sum(now.values())
        kept = {str(p): offset for p, offset in base.items()}
        plan = self._with_cut(plan, registered, began, new)
        return replace(plan, in_place=BEGINS_HERE, base=kept, changed=changed or None, lost=sum(lost.values()) or None)

    @property
    def _place(self) -> str:
        return table_place(self.topic, self.table)

    def _with_lost(
        self, changed: Changed, known: Sequence[DataFile], registered: Sequence[DataFile], lost: Mapping[int, int]
    ) -> Changed:
        """``changed`` with the offsets of records that are ``lost`` (how many, by partition), where they were not found
        by reading and are known. LandingError: they may not be.
        """
        assert self.changes is not None
        unsaid = {p: count for p, count in lost.items() if str(p) not in changed.get("gone", {})}
        if not unsaid:
            return changed
        gone = {str(p): ranges for p in unsaid if (ranges := _missing(known, registered, p)) is not None}
        if gone:
            changed = {**changed, "gone": {**changed.get("gone", {}), **gone}}
        said = (
            changed_sentence({"gone": gone}, self.changes)
            if len(gone) == len(unsaid)
            else "; ".join(
                f"{count:,} landed records of partition {p} are gone from the table" for p, count in unsaid.items()
            )
        )
        # An erasure is booked by offsets; where a partition's are not known there is nothing to book.
        if self.on_change == REFUSE or (self.on_change == ERASE and len(gone) < len(unsaid)):
            next_step = "restore them in the table; or continue without them (--on-change ignore)"
            raise LandingError(self._place, "the records that have landed, as they landed", said, next_step)
        stays = "erased" if self.on_change == ERASE else "as they are in the table now"
        self.warn(f"{self.topic}: {said}; the topic has them {stays}")
        return changed

    def _begin(self, began: Cut) -> Cut:
        """The offsets below which records are in the topic's own table; ``began``: of a topic of which all are."""
        if self.last is None or self.last.content.in_place is None:
            return began
        ledger = LandingLedger(self.warehouse.landing_ledger(self.topic))
        first = ledger.rows_of(self.last.content.in_place).planned
        assert first is not None
        return {int(p): offset for p, offset in (first.content.base or {}).items()}

    def _with_cut(self, plan: LandingPlanRow, registered: Sequence[DataFile], began: Cut, new: int) -> LandingPlanRow:
        largest = max((file.partition for file in registered), default=0)
        if self.declared is not None and largest >= self.declared:
            raise LandingError(self._place, f"partitions below {self.declared}", str(largest), "declare more of them")
        self._refuse_later(registered, began, RowRules.from_dict(plan.rules or {}).latest_ms)
        partitions = max(plan.partitions, largest + 1)
        nothing = dict.fromkeys(map(str, range(partitions)), 0)
        cut_from, cut_to, gaps = nothing | plan.cut_from, nothing | plan.cut_to, dict(plan.gaps)
        for p in sorted({file.partition for file in registered}):
            own = [file for file in registered if file.partition == p and (file.max_offset or 0) >= began.get(p, 0)]
            if not own:
                continue
            first = min(file.min_offset or 0 for file in own)
            # As of a copy (`with_offsets`): a topic without records begins
            # at its first offset, and a hole behind landed records is a gap.
            if self.last is None or not any(plan.cut_from.values()):
                cut_from[str(p)] = first
            elif first > began.get(p, 0):
                gaps[str(p)] = [began.get(p, 0), first]
            cut_to[str(p)] = max(cut_to[str(p)], *((file.max_offset or 0) + 1 for file in own))
        # A file with rows of several partitions is registered once for each of them, and is one file of the plan.
        sizes = {file.path: file.bytes for file in registered}
        records = Counter[str]()
        for file in registered:
            records[file.path] += file.records
        return replace(
            plan,
            partitions=partitions,
            cut_from=cut_from,
            cut_to=cut_to,
            gaps=gaps,
            records=new,
            files=[{"name": path, "bytes": size, "records": records[path]} for path, size in sizes.items()],
            registers=[file.to_dict() for file in registered],
        )

    def _refuse_later(self, registered: Sequence[DataFile], began: Cut, latest_ms: int | None) -> None:
        """Raises LandingError for new records with times after ``latest_ms`` (None: any time lands)."""
        if latest_ms is None:
            return
        later = find_implausible("", registered, -UNBOUNDED, latest_ms, began)
        if later is not None:
            got = f"{time_text(later.time_ms)} at offset {later.offset} of partition {later.partition}"
            next_step = f"{BY_COPY}, or without --max-future"
            expected = f"times up to {time_text(latest_ms)}"
            raise LandingError(f"{self._place}, in place", expected, f"{got} ({later.records:,} in all)", next_step)

    def _refuse_below(self, file: DataFile, began: Cut) -> None:
        expected = f"offsets of partition {file.partition} from {began[file.partition]} on"
        next_step = "land the topic by copy (--copy), which compares them with the records that have landed"
        place = f"{self._place}, in place"
        raise LandingError(place, expected, f"offset {file.min_offset} ({file.path})", next_step)


def preview_in_place(topic: str, source: LakeMapping, plan: LandingPlanRow) -> LandingPreview:
    """Of a plan that registers files and is not written yet; times as far as footers say them."""
    began = {int(p): offset for p, offset in plan.cut_from.items()}
    partitions = {}
    for p, begin in sorted(began.items()):
        own = [file for file in registered_from(plan) if file.partition == p]
        times = [file.bounds["timestamp"] for file in own if "timestamp" in file.bounds]
        partitions[p] = PreviewedPartition(
            records=sum(file.records for file in own) - _counts(own, began).get(p, 0),
            first_offset=plan.gaps[str(p)][1] if str(p) in plan.gaps else begin,
            next_offset=plan.cut_to[str(p)],
            earliest_ms=min((least for least, _ in times), default=None),
            latest_ms=max((most for _, most in times), default=None),
        )
    return LandingPreview(topic, len(plan.files or ()), plan.records or 0, 0, order_words(source), partitions)


def moved_files(table: LakeTable, known: Sequence[DataFile]) -> list[DataFile]:
    """Those of the registered files ``known`` that are not in the table as they were."""
    now = {file.name: file for file in table.files}
    return [file for file in known if not _is_same(now.get(file.path), file)]


def _is_same(now: LakeFile | None, file: DataFile) -> bool:
    assert file.in_place is not None
    return now is not None and now.bytes == file.bytes and deleted_ranges(now.deleted) == file.in_place.deleted


def _missing(known: Sequence[DataFile], registered: Sequence[DataFile], p: int) -> list[list[int]] | None:
    """Ranges `[from, to)` of offsets of partition ``p`` that files ``known`` had and ``registered`` do not have; None:
    those of ``known`` did not follow one another, so that the offsets they had are not known.
    """
    own = [file for file in known if file.partition == p]
    spans = [(file.min_offset or 0, (file.max_offset or 0) + 1) for file in own]
    if sum(end - begin for begin, end in spans) != sum(file.records for file in own):
        return None
    had = np.concatenate([np.arange(begin, end) for begin, end in spans])
    has = [offsets for file in registered if file.partition == p for offsets in read_offsets(file)]
    return joined_ranges(without(had, np.concatenate(has) if has else np.array([], np.int64)))


def _counts(files: Sequence[DataFile], below: Cut) -> dict[int, int]:
    """Records of each partition; those of offsets ``below`` (of a partition that it does not name: all)."""
    counts: dict[int, int] = {}
    for file in files:
        end = below.get(file.partition, UNBOUNDED)
        least, most = file.min_offset or 0, file.max_offset or 0
        # No row is beyond the bounds, so only a file on both sides of the border is opened to be counted.
        records = file.records if most < end else 0
        if least < end <= most:
            records = int(sum((each < end).sum() for each in read_offsets(file)))
        counts[file.partition] = counts.get(file.partition, 0) + records
    return counts


def write_registered(warehouse: Warehouse, topic: str, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
    """Commit what a plan registers: the topic's own table gets its mark and no rows. Raises PlanOutdated when one of
    the files is gone.
    """
    files = [DataFile.from_dict(fields) for fields in row.content.registers or ()]
    try:
        refuse_missing("", files)
    except DamagedFile as gone:
        raise PlanOutdated(f"{gone.place}: {gone.got}") from gone
    commit_files(warehouse.landed(topic), LANDED_SCHEMA, [], app_id=app_id, increment=row.increment)
    return {"files": len(row.content.files or ())}


@dataclass(frozen=True)
class CopiedFiles:
    """Makes the records of a topic that lie in somebody else's table its own. ``spark`` None: in this process."""

    spark: "Spark | None"
    warehouse: Warehouse
    topic: str

    def plan(self, last: LedgerRow[LandingDoneRow] | None) -> LandingPlanRow | None:
        """None: nothing lies in place. Raises LandingError where nothing has landed."""
        if last is None:
            next_step = "land the topic, by copy or --in-place"
            raise LandingError(f"topic {self.topic}, copy", "records that lie in place", "no landing", next_step)
        if last.content.in_place is None:
            return None
        content = last.content
        return LandingPlanRow(
            partitions=content.partitions,
            # The records have their offsets already: a copy moves where they lie, and lands none.
            cut_from=content.cut_to,
            cut_to=content.cut_to,
            # As of the table, whatever landed last: a copy is finished by landings from tables alone.
            source=content.source | source_in_place(self.warehouse, self.topic, last),
            files=[],
            records=0,
            copies=True,
        )

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Write all records that lie in place, in the order of their offsets, and commit them."""
        # The plan names no files: those of the row before it count,
        # behind which nothing lands while the plan is pending.
        last = LandingLedger(self.warehouse.landing_ledger(self.topic)).last_done()
        assert last is not None, f"{self.topic}: nothing has landed"
        files = files_in_place(self.warehouse, self.topic, last)
        path = self.warehouse.landed(self.topic)
        partitions = sorted({file.partition for file in files})
        tasks = [_Copy(path, [file for file in files if file.partition == p], p, row.increment) for p in partitions]
        written = run_tasks(self.spark, self.warehouse, [task.run for task in tasks])
        added = [DataFile.from_dict(fields) for each in written for fields in each["files"]]
        counts, expected = (sum(file.records for file in each) for each in (added, files))
        if counts != expected:
            next_step = "land the topic from the table again (--in-place), then copy it"
            raise LandingError(f"topic {self.topic}", f"{expected:,} records, as registered", f"{counts:,}", next_step)
        commit_files(path, LANDED_SCHEMA, added, app_id=app_id, increment=row.increment)
        return {"files": len({file.path for file in files})}


@dataclass(frozen=True)
class _Copy:
    """Writes the records of ``files``, of one partition, into the landed table at ``path``."""

    path: str
    files: Sequence[DataFile]
    partition: int
    increment: int

    def run(self) -> dict[str, Any]:
        """The files that it wrote, as JSON values."""
        files: list[DataFile] = []
        held: list[pa.RecordBatch] = []
        columns = [name for name in LANDED_SCHEMA.names if name != "partition"]
        last = -1
        for batch in in_offset_order(self.path, self.files, columns, (0, UNBOUNDED), 1 << 16):
            offsets = batch.column("offset").to_numpy()
            # Registering compares counts with bounds: an offset that
            # comes twice is not seen where another one is missing.
            if np.any(np.diff(offsets, prepend=last) <= 0):
                place, got = f"{self.path}, in place, partition {self.partition}", "one of them again"
                next_step = "land the table into a topic of another name, by copy (without --in-place)"
                raise LandingError(place, "each offset once", got, next_step)
            last = int(offsets[-1])
            held.append(batch)
            if sum(each.nbytes for each in held) >= FILE_BYTES:
                files.append(self._write(held))
                held = []
        if held:
            files.append(self._write(held))
        return {"files": [file.to_dict() for file in files]}

    def _write(self, batches: Sequence[pa.RecordBatch]) -> DataFile:
        rows = pa.Table.from_batches(batches)
        count = len(rows)
        own = {
            "partition": pa.repeat(pa.scalar(self.partition, pa.int32()), count),
            "increment": pa.repeat(pa.scalar(self.increment, pa.int64()), count),
        }
        if "headers" not in rows.column_names:
            own["headers"] = no_headers(count)
        columns = {name: own[name] if name in own else rows[name] for name in LANDED_SCHEMA.names}
        table = pa.table(columns).cast(LANDED_SCHEMA)
        name = f"{self.increment:08d}-{self.partition:05d}"
        return write_task_file(self.path, table, partition=self.partition, name=name)
