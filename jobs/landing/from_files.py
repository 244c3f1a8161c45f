"""Landing from a directory of files: the source of a laptop, of tests, and of history that Kafka no longer has.

Owns the offsets of their records. Rule: the order of records is (landing, file name in natural order, place in the
file); offsets follow it without a gap in each partition. Files are read twice. The first time checks every row, counts
and takes digests before anything is planned, so that a wrong mapping leaves nothing behind. The second time writes,
into exactly the planned offsets. A file that changed in between makes another plan necessary.

Where a column has Kafka's offsets, records keep them, and rows of each partition are sorted by them, over all files of
the landing; columns may order rows without offsets, too. Then files whose rows overlap are read once more, before the
plan, to count and to compare what comes twice (ordered_plan.py, settling.py).

The work is cut into tasks of consecutive slices; Spark runs them, and the driver commits their files as one increment.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...state.errors import LandingError
from ...state.tables.commit import commit_files
from ...state.tables.data_files import DataFile, read_files
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from . import file_writing
from .bad_rows import commit_dead_letters, refuse_too_many
from .file_source import PATH_PATTERNS, FileSource
from .file_writing import Order, WriteTask
from .files import streams
from .files.counting import CountedFiles
from .files.file_order import find_disorder
from .files.known_files import (
    KnownFiles,
    PlanOutdated,
    find_files,
    mapping_changes,
    refuse_no_match,
)
from .files.ordered_tasks import ordered_tasks
from .files.spark_tasks import run_tasks
from .files.streams import FileSlice, FoundFile
from .files.verified_files import read_verified, write_verified
from .first_record import FirstRecord, first_record
from .landing_preview import LandingPreview, preview_of
from .landing_rules import DEAD_LETTER, STOP, LandingRules, RowRules
from .ordered_plan import OrderedPlan, with_offsets
from .settling import Landed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ATTEMPTS = 3


@dataclass(frozen=True)
class FileLander:
    """Lands the files of ``source`` that no plan names yet. ``spark`` None reads in this process. ``show`` is called
    with the first new record before anything is planned, ``preview`` with what is about to be planned.
    """

    spark: "SparkSession | None"
    warehouse: Warehouse
    topic: str
    source: FileSource
    rules: LandingRules = field(default_factory=LandingRules)
    show: Callable[[FirstRecord], None] | None = None
    preview: Callable[[LandingPreview], None] | None = None
    kind: str = "files"
    schema = LANDED_SCHEMA

    @property
    def known_offsets(self) -> str | None:
        """As of ``FileSource``."""
        return self.source.known_offsets

    def next_plan(
        self,
        last: LedgerRow[LandingDoneRow] | None,
        planned: Callable[[], list[LedgerRow[LandingPlanRow]]],
        clock_ms: int,
        *,
        must: bool,
        warn: Callable[[str], None],
    ) -> LandingPlanRow | None:
        """Check and count the new files; None when there are none, the topic has been landed before and nothing
        ``must`` be planned. ``warn`` gets a line for files that are left out.
        """
        plans = [plan for plan in planned() if plan.content.source["kind"] == self.kind]
        verified_files = self.warehouse.verified_files(self.topic)
        for _ in range(_ATTEMPTS):
            listing = find_files(self.source, self.topic)
            found, others = listing.files, listing.unmatched
            source = self._own(self.source).with_format_of(file.name for file in found)
            changes = self._mapping_changes(source, last)
            is_new_pattern = last is None or self._has_other_pattern(last)
            if not found and others and is_new_pattern and not self.rules.allow_empty:
                refuse_no_match(source, self.topic, others)
            verified, allowed = read_verified(verified_files), self.rules.allow_same_content
            known = KnownFiles(source, self.topic, plans, allow_same_content=allowed, verified=verified)
            new = known.new(found)
            if last is not None and not new and not must:
                _warn_of(known, warn)
                if known.verified() != verified:
                    write_verified(verified_files, known.verified())
                return None
            if self.show is not None and (first := first_record(source, new)) is not None:
                self.show(first)
            rows = RowRules(self.rules.on_bad_row == DEAD_LETTER, self.rules.latest_ms(clock_ms))
            counted = CountedFiles.of(self.spark, self.warehouse, source, rows, new)
            if counted is not None:
                disorder = None
                if not source.is_ordered:
                    disorder = find_disorder([(file.found.name, file.spans) for file in counted.files])
                if disorder is not None and self.rules.on_disorder == STOP:
                    disorder.refuse(self.topic, source.path)
                plan = self._plan(source, rows, last, plans, known, counted, changes)
                if plan is None:
                    continue
                _warn_of(known, warn)
                for sentence in _sentences(self.topic, source, counted, plan):
                    warn(sentence)
                if (hidden := listing.sentence(self.topic)) is not None:
                    warn(hidden)
                if disorder is not None:
                    warn(disorder.sentence(self.topic))
                if self.preview is not None:
                    self.preview(preview_of(self.topic, source, counted, plan))
                return plan
        raise LandingError(
            f"topic {self.topic}, directory {self.source.path}",
            "files that are whole",
            f"files that changed while they were read, {_ATTEMPTS} times",
            "write a file under a name that begins with '.' and rename it when it is whole",
        )

    def _plan(
        self,
        source: FileSource,
        rows: RowRules,
        last: LedgerRow[LandingDoneRow] | None,
        plans: Sequence[LedgerRow[LandingPlanRow]],
        known: KnownFiles,
        counted: CountedFiles,
        changes: dict[str, list[Any]],
    ) -> LandingPlanRow | None:
        """None where a file changed meanwhile."""
        counted.refuse_absent_columns(source, plans, [source.timestamp])  # without it all rows are bad
        for file in counted.files:
            if file.bad_rows:
                refuse_too_many(
                    source, file.found.name, file.rows, file.bad_rows, file.first_bad, self.rules.max_bad_share
                )
        counted.refuse_absent_columns(source, plans, source.named_columns())
        entries = [file.entry() for file in counted.files]
        if not self.rules.allow_same_content and source.offset is None:
            known.refuse_same_content(entries)
        cut_from = dict.fromkeys(map(str, range(source.partitions)), 0)
        if last is not None and any(last.content.cut_to.values()):
            cut_from = last.content.cut_to
        plan = LandingPlanRow(
            partitions=source.partitions,
            cut_from=cut_from,
            cut_to={
                p: first + sum(task["counts"].get(p, 0) for task in counted.tasks) for p, first in cut_from.items()
            },
            source=self._source(source, last),
            folder=known.folder,
            files=entries,
            files_again=known.again or None,
            tasks=counted.tasks,
            rules=rows.to_dict(),
            seen=sorted({name for file in counted.files for name in file.seen}),
            mapping_changes=changes or None,
        )
        return self._ordered(plan, source, rows, counted) if source.is_ordered else plan

    def _own(self, source: FileSource) -> FileSource:
        """``source`` with the topic of whose rows it is."""
        return replace(source, topic=self.topic) if source.topic_column and source.topic is None else source

    def _source(self, source: FileSource, last: LedgerRow[LandingDoneRow] | None) -> dict[str, Any]:
        """As the ledger keeps it, with what it knows of the topic at the broker."""
        kept = {} if last is None else {n: v for n, v in last.content.source.items() if n in ("topic", "topic_id")}
        known = {"offsets": source.known_offsets} if source.offset is not None else {}
        return {**kept, "kind": self.kind, "mapping": source.to_dict(), **known}

    def _ordered(
        self, plan: LandingPlanRow, source: FileSource, rows: RowRules, counted: CountedFiles
    ) -> LandingPlanRow | None:
        """``plan`` with tasks by which rows land in the order of their offsets, or of the columns that order them; None
        where a file changed meanwhile.
        """
        slices, spans = counted.slices, [each.keys for each in counted.slices]
        weights = [each.piece.bytes for each in slices]
        cut = {int(p): offset for p, offset in plan.cut_from.items()}
        tasks = [
            OrderedPlan(slices, task)
            for task in ordered_tasks(spans, weights, file_writing.FILE_BYTES, streams.SLICE_BYTES)
        ]
        begins = cut if source.offset is not None else None
        to_check = [task for task in tasks if task.needs_check(begins)]
        landed = Landed(self.warehouse.landed(self.topic), ())
        if begins is not None and any(task.is_below(begins) for task in to_check):
            landed = Landed(landed.path, read_files(landed.path))
        directories = self.warehouse.landed(self.topic), self.warehouse.landed_dead_letter(self.topic)
        checks = [
            WriteTask(source, task.slices, rows, cut, directories, 0, "", task.order(), landed) for task in to_check
        ]
        found = run_tasks(self.spark, self.warehouse, [check.check for check in checks])
        if any(check["changed"] is not None for check in found):
            return None
        for task, check in zip(to_check, found, strict=True):
            task.checked = check
        written = [task.to_dict() for task in tasks]
        if letters := [each.piece.to_list() for task in tasks for each in task.with_letters()]:
            unique = list({json.dumps(piece): piece for piece in letters}.values())
            written.append({"slices": unique, "counts": {}, "order": {"ranges": [], "streams": False}})
        counts = _counts(written)
        if source.offset is None:
            cut_to = {p: first + counts[p] for p, first in plan.cut_from.items()}
            return replace(plan, tasks=written, cut_to=cut_to)
        return with_offsets(replace(plan, tasks=written), tasks, found)

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Write the planned files' records into their planned offsets, by the mapping of the plan; commit them.

        Raises PlanOutdated when a file is gone or has changed since.
        """
        plan = row.content
        source = FileSource.from_dict(self.source.path, plan.source["mapping"])
        present = self._present(source, row)
        rules = RowRules.from_dict(plan.rules or {})
        first = {int(p): offset for p, offset in plan.cut_from.items()}
        directories = self.warehouse.landed(self.topic), self.warehouse.landed_dead_letter(self.topic)
        work = []
        for number, task in enumerate(plan.tasks or ()):
            slices = [FileSlice.from_list(values) for values in task["slices"]]
            slices = [replace(piece, mtime_ns=present[piece.name].mtime_ns) for piece in slices]
            name = f"{row.increment:08d}-{number:05d}"
            order = None if "order" not in task else Order.from_dict(task["order"])
            work.append(WriteTask(source, slices, rules, dict(first), directories, row.increment, name, order))
            if source.offset is None:
                first = {p: offset + task["counts"].get(str(p), 0) for p, offset in first.items()}
        assert source.offset is not None or {str(p): offset for p, offset in first.items()} == plan.cut_to
        written = run_tasks(self.spark, self.warehouse, [task.run for task in work])
        for task in written:
            if task["changed"] is not None:
                raise PlanOutdated(f"{task['changed']} changed while it was read")
        files = [DataFile.from_dict(fields) for task in written for fields in task["files"]]
        if source.offset is None:
            _check_cut(self.topic, files, plan)
        else:
            _check_offsets(self.topic, files, plan)
        letters = [DataFile.from_dict(fields) for task in written for fields in task["dead_letters"]]
        commit_dead_letters(self.warehouse, self.topic, letters, app_id, row.increment)
        commit_files(directories[0], LANDED_SCHEMA, files, app_id=app_id, increment=row.increment)
        return {"files": len(plan.files)}

    def _present(self, source: FileSource, row: LedgerRow[LandingPlanRow]) -> dict[str, FoundFile]:
        """The planned files as they lie there now, with the content that was planned."""
        found = {file.name: file for file in find_files(source, self.topic).files}
        planned = KnownFiles(source, self.topic, [replace(row, content=replace(row.content, folder=None))])
        for file in row.content.files:
            if file["name"] not in found:
                raise PlanOutdated(f"{file['name']} is gone")
            try:
                planned.new([found[file["name"]]])
            except LandingError as error:
                raise PlanOutdated(f"{file['name']} has {error.got}") from error
        return found

    def _mapping_changes(self, source: FileSource, last: LedgerRow[LandingDoneRow] | None) -> dict[str, list[Any]]:
        if last is None:
            return {}
        if source.partitions != last.content.partitions and any(last.content.cut_to.values()):
            raise LandingError(
                f"topic {self.topic}",
                f"{last.content.partitions} partitions, as in its first landing",
                str(source.partitions),
                "declare the same number, or land into a topic of another name: keys would change their partition",
            )
        if "mapping" not in last.content.source:  # landed from Kafka so far
            return {}
        changes = mapping_changes(last.content.source["mapping"], source)
        if changes and not self.rules.new_mapping:
            raise LandingError(
                f"topic {self.topic}",
                "the mapping of its last landing, "
                + ", ".join(f"{name} {before!r}" for name, (before, _) in changes.items()),
                ", ".join(f"{name} {now!r}" for name, (_, now) in changes.items()),
                "correct the mapping, land into a topic of another name, or continue with the new one (--new-mapping)",
            )
        return changes

    def _has_other_pattern(self, last: LedgerRow[LandingDoneRow]) -> bool:
        return bool(last.content.source.get("mapping", {}).get("pattern") != self.source.pattern)


def _sentences(topic: str, source: FileSource, counted: CountedFiles, plan: LandingPlanRow) -> list[str]:
    """What a landing says of rows that it left out, and of coordinates that it does not take."""
    found = []
    if not source.is_ordered and (hint := _unnamed_coordinates(counted)) is not None:
        found.append(f"{topic}: {hint}, so that records land in the order that they had in Kafka")
    if left_out := sum(file.left_out for file in counted.files):
        rows = sum(file.rows for file in counted.files)
        found.append(f"{topic}: {left_out:,} of {rows:,} rows are of other topics than {source.topic} and left out")
    repeated = plan.repeated or {}
    if twice := repeated.get("twice", 0):
        say = "1 row has" if twice == 1 else f"{twice:,} rows have"
        found.append(f"{topic}: {say} the offset and the bytes of another one, and each of these lands once")
    if landed := repeated.get("landed", 0):
        say = "1 row has" if landed == 1 else f"{landed:,} rows have"
        found.append(f"{topic}: {say} the offset and the bytes of a record that has landed before")
    return found


def _warn_of(known: KnownFiles, warn: Callable[[str], None]) -> None:
    for sentence in known.sentences():
        warn(sentence)


def _unnamed_coordinates(counted: CountedFiles) -> str | None:
    """What to name, where rows or paths have Kafka's offsets and the mapping says nothing of them."""
    for file in counted.files:
        if {"partition", "offset"} <= set(file.columns):
            return "the rows have columns partition and offset; name them (--partition partition --offset offset)"
        if re.search(PATH_PATTERNS["confluent"], file.found.name):
            return f"{file.found.name} says partition and offset; take them from the path (--path-pattern confluent)"
    return None


def _counts(tasks: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Records by partition."""
    counts = Counter[str]()
    for task in tasks:
        counts.update(task["counts"])
    return counts


def _check_offsets(topic: str, files: Sequence[DataFile], plan: LandingPlanRow) -> None:
    """The files hold as many records of each partition as planned, each offset once and within the cut."""
    counts = _counts(plan.tasks or ())
    for p, first in plan.cut_from.items():
        own = sorted((file for file in files if str(file.partition) == p), key=lambda file: file.min_offset or 0)
        following = first
        for file in own:
            assert file.min_offset is not None
            assert file.max_offset is not None
            assert following <= file.min_offset, f"{file.path}: overlaps another one, or begins before the cut"
            following = file.max_offset + 1
        records = sum(file.records for file in own)
        if records != counts[p] or following > plan.cut_to[p]:
            raise LandingError(
                f"topic {topic}, partition {p}",
                f"{counts[p]:,} records below offset {plan.cut_to[p]}, as counted for the plan",
                f"{records:,} below {following}",
                "a file changed while it was read: put the planned one back, then land the topic again",
            )


def _check_cut(topic: str, files: Sequence[DataFile], plan: LandingPlanRow) -> None:
    """The files hold exactly the planned offsets, each once; else LandingError."""
    following = {int(p): offset for p, offset in plan.cut_from.items()}
    is_dense = True
    for file in sorted(files, key=lambda file: (file.partition, file.min_offset or 0)):
        bounds = following[file.partition], following[file.partition] + file.records - 1
        is_dense = is_dense and (file.min_offset, file.max_offset) == bounds
        following[file.partition] += file.records
    if not is_dense or {str(p): offset for p, offset in following.items()} != plan.cut_to:
        raise LandingError(
            f"topic {topic}",
            f"every offset up to {plan.cut_to} once, as counted for the plan",
            str(following),
            "a file changed while it was read: put the planned one back, then land the topic again",
        )
