"""Landing from a directory of files: the source of a laptop, of tests, and of history that Kafka no longer has.

Owns the offsets of their records. Rule: the order of records is (landing, file name in natural order, place in the
file); offsets follow it without a gap in each partition. The first pass over them checks every row, counts and takes
digests before anything is planned, so that a wrong mapping leaves nothing behind. The second writes into exactly the
planned offsets what the first has kept, and reads the rest again. A file that changed in between makes another plan
necessary.

Where a column has Kafka's offsets, records keep them, and rows of each partition are sorted by them, over all files of
the landing; columns may order rows without offsets, too. Then files whose rows overlap are read once more, before the
plan, to count and to compare what comes twice (ordered_plan.py, settling.py).

The work is cut into tasks of consecutive slices; Spark runs them, and the driver commits their files as one increment.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...state.errors import LandingError
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from .file_source import PATH_PATTERNS, FileSource
from .files.column_types import ColumnType, TypeChange
from .files.counting import CountedFiles
from .files.file_order import (
    Disorder,
    LateBefore,
    Spans,
    find_disorder,
    landed_times,
    late_before,
    sorted_spans,
    times_of_file,
)
from .files.kept_records import KeptRecords
from .files.known_files import (
    KnownFiles,
    PlanOutdated,
    find_files,
    mapping_changes,
    refuse_no_match,
)
from .files.streams import FoundFile
from .files.verified_files import read_verified, write_verified
from .first_record import FirstRecord, first_record
from .landing_preview import LandingPreview, plan_sentences, preview_of, type_sentences
from .landing_rules import DEAD_LETTER, STOP, LandingRules, RowRules
from .ordered_plan import with_order
from .planned_writing import write_planned

if TYPE_CHECKING:
    from .files.spark_tasks import Spark

_ATTEMPTS = 3


@dataclass(frozen=True)
class FileLander:
    """Lands the files of ``source`` that no plan names yet. ``spark`` None reads in this process. ``show`` is called
    with the first new record before anything is planned, ``preview`` with what is about to be planned. ``show`` gets
    one record more of each set of types that keys and values have in other files.
    """

    spark: "Spark | None"
    warehouse: Warehouse
    topic: str
    source: FileSource
    rules: LandingRules = field(default_factory=LandingRules)
    show: Callable[[FirstRecord], None] | None = None
    preview: Callable[[LandingPreview], None] | None = None
    kind: str = "files"
    schema = LANDED_SCHEMA
    _kept: KeptRecords = field(default_factory=KeptRecords)

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
            files = listing.files
            source = self._own(self.source).with_format_of(file.name for file in files)
            changes = self._mapping_changes(source, last)
            is_new_pattern = last is None or self._has_other_pattern(last)
            if not files and is_new_pattern and not self.rules.allow_empty:
                refuse_no_match(source, self.topic, listing)
            verified, allowed = read_verified(verified_files), self.rules.allow_same_content
            known = KnownFiles(source, self.topic, plans, allow_same_content=allowed, verified=verified)
            new = known.new(files)
            known.refuse_other_topics(new)
            if last is not None and not new and not must:
                for sentence in [*known.sentences(), *([] if files else listing.sentences(source, self.topic))]:
                    warn(sentence)
                if known.verified() != verified:
                    write_verified(verified_files, known.verified())
                return None
            first = None if self.show is None else first_record(source, new)
            if self.show is not None and first is not None:
                self.show(first)
            rows = RowRules(self.rules.on_bad_row == DEAD_LETTER, self.rules.latest_ms(clock_ms))
            counted = CountedFiles.of(self.spark, self.warehouse, source, rows, new, kept=self._kept)
            if counted is not None:
                if first is not None:
                    self._show_other_types(source, counted, first)
                disorder, are_sorted = None, source.order_by is not None
                if source.offset is None:
                    before = landed_times(plan.content.times or {} for plan in plans)
                    spans = _spans(source, counted)
                    disorder = find_disorder(spans, before, are_sorted=are_sorted)
                    if disorder is not None and self.rules.on_disorder == STOP:
                        limits = late_before(spans, before, are_sorted=are_sorted)
                        if not self._refuse_late(disorder, source, rows, counted, limits):
                            continue
                retyped, types = counted.type_changes(plans)
                plan = self._plan(source, rows, last, plans, known, counted, changes, types)
                if plan is None:
                    continue
                for sentence in [
                    *known.sentences(),
                    *self._sentences(source, counted, plan, retyped),
                    *listing.sentences(source, self.topic),
                ]:
                    warn(sentence)
                if disorder is not None:
                    plan = replace(plan, files=disorder.booked(plan.files))
                    warn(disorder.sentence(self.topic, are_sorted=are_sorted))
                if self.preview is not None:
                    self.preview(preview_of(self.topic, source, counted, plan))
                return plan
        raise LandingError(
            f"topic {self.topic}, directory {self.source.path}",
            "files that are whole",
            f"files that changed while they were read, {_ATTEMPTS} times",
            "write a file under a name that begins with '.' and rename it when it is whole",
        )

    def _show_other_types(self, source: FileSource, counted: CountedFiles, first: FirstRecord) -> None:
        for file in counted.of_other_types(first.file):
            if self.show is not None and (other := first_record(source, [file])) is not None:
                self.show(replace(other, is_first=False))

    def _refuse_late(
        self, disorder: Disorder, source: FileSource, rows: RowRules, counted: CountedFiles, before: LateBefore
    ) -> bool:
        """Raises LandingError where more records are late than may be; False where a file changed meanwhile."""
        share, are_sorted = self.rules.max_late_share, source.order_by is not None
        if not share:
            disorder.refuse(self.topic, source.path, are_sorted=are_sorted)
        late = counted.late_records(self.spark, self.warehouse, source, rows, before)
        if late is not None and late > share * counted.records:
            of_all = f"{late:,} of {counted.records:,} records late (--max-late-share {share:g})"
            disorder.refuse(self.topic, source.path, f", which makes {of_all}", are_sorted=are_sorted)
        return late is not None

    def _plan(
        self,
        source: FileSource,
        rows: RowRules,
        last: LedgerRow[LandingDoneRow] | None,
        plans: Sequence[LedgerRow[LandingPlanRow]],
        known: KnownFiles,
        counted: CountedFiles,
        changes: dict[str, list[Any]],
        types: Mapping[str, ColumnType],
    ) -> LandingPlanRow | None:
        """None where a file changed meanwhile."""
        counted.refuse_absent_columns(source, plans, [source.timestamp])  # without it all rows are bad
        counted.refuse_bad(source, self.rules.max_bad_share)
        counted.refuse_absent_columns(source, plans, source.named_columns())
        counted.refuse_renamed_columns(source)
        entries = [file.entry() for file in counted.files]
        # With offsets the same content again is a repetition, which lands once (settling.py).
        if not self.rules.allow_same_content and source.offset is None:
            known.refuse_same_content(entries)
        # A topic without records may be declared with another number of partitions, so its cut is made again.
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
            column_types={column: list(each) for column, each in types.items()} or None,
            mapping_changes=changes or None,
        )
        if source.offset is None:
            times = landed_times(times_of_file(name, spans) for name, spans in _spans(source, counted))
            plan = replace(plan, times=dict(times) or None)
        if not source.is_ordered:
            return plan
        return with_order(plan, self.spark, self.warehouse, self.topic, source, rows, counted.slices, last, self._kept)

    def _own(self, source: FileSource) -> FileSource:
        """``source`` with the topic of whose rows it is."""
        return replace(source, topic=self.topic) if source.topic_column and source.topic is None else source

    def _source(self, source: FileSource, last: LedgerRow[LandingDoneRow] | None) -> dict[str, Any]:
        """As the ledger keeps it, with what it knows of the topic at the broker."""
        kept = {} if last is None else {n: v for n, v in last.content.source.items() if n in ("topic", "topic_id")}
        known = {"offsets": source.known_offsets} if source.offset is not None else {}
        return {**kept, "kind": self.kind, "mapping": source.to_dict(), **known}

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Write the planned files' records into their planned offsets, by the mapping of the plan; commit them.

        Raises PlanOutdated when a file is gone or has changed since.
        """
        source = FileSource.from_dict(self.source.path, row.content.source["mapping"])
        present = self._present(source, row)
        times = {name: file.mtime_ns for name, file in present.items()}
        write_planned(self.spark, self.warehouse, self.topic, source, row, app_id, times, self._kept)
        return {"files": len(row.content.files)}

    def _present(self, source: FileSource, row: LedgerRow[LandingPlanRow]) -> dict[str, FoundFile]:
        """The planned files as they lie there now, with the content that was planned."""
        present = {file.name: file for file in find_files(source, self.topic).files}
        # Without its folder the plan knows its files under every one: the directory may have moved since.
        planned = KnownFiles(source, self.topic, [replace(row, content=replace(row.content, folder=None))])
        for file in row.content.files:
            if file["name"] not in present:
                raise PlanOutdated(f"{file['name']} is gone")
            try:
                is_filled = bool(planned.new([present[file["name"]]]))
            except LandingError as error:
                raise PlanOutdated(f"{file['name']} has {error.got}") from error
            if is_filled:
                raise PlanOutdated(f"{file['name']} has records, and was empty")
        return present

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
        return mapping_changes(self.topic, last.content.source["mapping"], source, refuse=not self.rules.new_mapping)

    def _sentences(
        self,
        source: FileSource,
        counted: CountedFiles,
        plan: LandingPlanRow,
        retyped: Sequence[TypeChange],
    ) -> list[str]:
        hint = None if source.is_ordered else _unnamed_coordinates(counted)
        order = [f"{self.topic}: {hint}, so that records land in the order that they had in Kafka"] if hint else []
        return order + type_sentences(self.topic, retyped) + plan_sentences(self.topic, source, counted, plan)

    def _has_other_pattern(self, last: LedgerRow[LandingDoneRow]) -> bool:
        return bool(last.content.source.get("mapping", {}).get("pattern") != self.source.pattern)


def _spans(source: FileSource, counted: CountedFiles) -> list[tuple[str, Spans]]:
    """Names of the new files, and the times that they have where they land."""
    is_by_time = source.order_by is not None and source.order_by[0] == source.timestamp
    return [(file.listed.name, sorted_spans(file.spans) if is_by_time else file.spans) for file in counted.files]


def _unnamed_coordinates(counted: CountedFiles) -> str | None:
    """What to name, where rows or paths have Kafka's offsets and the mapping says nothing of them."""
    for file in counted.files:
        if {"partition", "offset"} <= set(file.columns):
            return "the rows have columns partition and offset; name them (--partition partition --offset offset)"
        if re.search(PATH_PATTERNS["confluent"], file.listed.name):
            return f"{file.listed.name} says partition and offset; take them from the path (--path-pattern confluent)"
    return None
