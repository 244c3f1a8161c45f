"""Landing from a table of a lake: Delta and Iceberg, where the records of a topic lie already.

Owns which rows are new. Rule: rows are known by partition and offset. A landing takes the rows of one version of the
table; the next takes what came since, by the table's own log, and what only moved (compaction, Z-ORDER) changes
nothing. Where the log says that rows were deleted or changed, or does not say at all, the table is compared with the
landed records. Those that are gone or have other bytes are reported, and refused unless they are to be ignored; those
that are gone may be erased.

Rows are read, sorted and written by the engine of files whose columns have offsets (ordered_plan.py, file_writing.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...state.errors import LandingError
from ...state.tables.files_in_place import files_in_place
from ...state.tables.ledger import LandingLedger, LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from .file_source import KAFKA_OFFSETS
from .files.counting import CountedFiles
from .files.kept_records import KeptRecords
from .files.known_files import PlanOutdated, mapping_changes
from .files.streams import FoundFile
from .first_record import FirstRecord, first_record
from .given_up_plans import kept_plans
from .in_place import CopiedFiles, PlannedInPlace, moved_files, preview_in_place, refuse_other_way, write_registered
from .lake.chosen_columns import lake_mapping, refuse_no_history, table_place
from .lake.lake_rows import LakeMapping, counting_mapping
from .lake.lake_source import LakeSource
from .lake.lake_table import LakeChanges, LakeFile, LakeTable
from .lake.new_files import files_to_read, largest_partition, may_have_topic, refuse_missing, refuse_other_topics
from .lake.opening import open_lake
from .lake_changes import (
    changed_sentence,
    gone_offsets,
    missing_sentences,
    refuse_changed,
    refuse_to_erase,
    without_known,
)
from .landing_preview import LandingPreview, not_finite_sentences, preview_of, twice_sentences, zone_sentences
from .landing_rules import DEAD_LETTER, ERASE, IGNORE, REFUSE, LandingRules, RowRules
from .ordered_plan import with_order
from .planned_writing import write_planned

if TYPE_CHECKING:
    from .files.spark_tasks import Spark

_KEPT = ("topic", "topic_id", "mapping")
"""What the ledger keeps of other sources of the topic."""


@dataclass(frozen=True)
class _FoundTable:
    """A table as a landing finds it: its mapping and ``why`` it is this one. ``changes``: since the ``plans`` of
    landings from tables (None: all of it is new). ``landed``: the last landing of the topic (None: no record).
    """

    table: LakeTable
    mapping: LakeMapping
    why: str
    changes: LakeChanges | None
    plans: Sequence[LandingPlanRow]
    landed: LandingDoneRow | None


@dataclass(frozen=True)
class LakeLander:
    """Lands rows of the table of ``source`` that have not landed. ``spark`` None reads in this process. ``show`` and
    ``preview``: as of FileLander.
    """

    spark: "Spark | None"
    warehouse: Warehouse
    topic: str
    source: LakeSource
    rules: LandingRules = field(default_factory=LandingRules)
    show: Callable[[FirstRecord], None] | None = None
    preview: Callable[[LandingPreview], None] | None = None
    kind: str = "lake"
    schema = LANDED_SCHEMA
    known_offsets = KAFKA_OFFSETS
    _opened: dict[int | None, LakeTable] = field(default_factory=dict)
    """By the version that was asked for."""
    _kept: KeptRecords = field(default_factory=KeptRecords)

    def next_plan(
        self,
        last: LedgerRow[LandingDoneRow] | None,
        planned: Callable[[], list[LedgerRow[LandingPlanRow]]],
        clock_ms: int,
        *,
        must: bool,
        warn: Callable[[str], None],
    ) -> LandingPlanRow | None:
        """What the table has and the topic has not; None where that is nothing, and nothing ``must`` be planned."""
        # A plan that is made again must see the newest version (asked: None) as it is by now.
        self._opened.clear()
        if self.rules.copy:
            return CopiedFiles(self.spark, self.warehouse, self.topic).plan(last)
        refuse_other_way(self.topic, last, in_place=self.source.in_place)
        table = self._table(self.source.asked)
        plans = [row.content for row in planned() if row.content.source["kind"] == self.kind]
        landed = None if last is None or not any(last.content.cut_to.values()) else last.content
        changes = self._changes(table, plans, is_first=landed is None, warn=warn)
        # Signs of upserts are looked for before the first rows land;
        # afterwards the log itself names rows that were changed.
        if changes is None and self.rules.on_change != IGNORE:
            refuse_no_history(table, self.topic)
        if changes is not None and changes.is_nothing and not must:
            return None
        mapping, why = lake_mapping(self.source, table, self.topic)
        mapped: dict[str, list[Any]] = {}
        if plans:
            before = plans[-1].source["lake"]["mapping"]
            mapped = mapping_changes(self.topic, before, mapping, refuse=not self.rules.new_mapping)
        if changes is not None:
            # A DELETE that touched files of other topics alone is
            # no change of this one, and nothing is compared for it.
            own = [bounds for bounds in changes.touched if may_have_topic(mapping, bounds)]
            changes = replace(changes, touched=tuple(own))
        view = _FoundTable(table, mapping, why, changes, plans, landed)
        try:
            look = self._in_place if self.source.in_place else self._plan
            plan = look(view, last, clock_ms, warn)
        except FileNotFoundError:
            refuse_missing(table, self.topic, mapping, table.files)
        # Dead letters are committed by an increment, so rows that are nothing else make one as well.
        has_letters = any("dead_letters" in file for file in plan.files)
        is_quiet = plan.cut_to == plan.cut_from and plan.changed is None and plan.registers is None
        # Noted, so that the next landing begins at this version, and does not compare the whole table again.
        is_quiet = is_quiet and (changes is None or changes.unknown is None)
        if last is not None and not must and is_quiet and not has_letters:
            return None
        if mapped:
            plan = replace(plan, mapping_changes=mapped)
        if self.rules.on_change == ERASE and changes is not None and (gone := (plan.changed or {}).get("gone")):
            place = table_place(self.topic, table)
            refuse_to_erase(place, gone, changes, asked=self.source.asked, mapped=mapped)
            # Noted in the plan and done behind its done row (`_erase_gone`): a plan may still be given up.
            plan = replace(plan, erases=True)
        for sentence in [*twice_sentences(self.topic, plan), *missing_sentences(table, self.topic, plan, landed)]:
            warn(sentence)
        return plan

    def _plan(
        self,
        view: "_FoundTable",
        last: LedgerRow[LandingDoneRow] | None,
        clock_ms: int,
        warn: Callable[[str], None],
    ) -> LandingPlanRow:
        """Read what may be new. Raises FileNotFoundError for a file that the table names and that is gone."""
        table, mapping, changes, landed = view.table, view.mapping, view.changes, view.landed
        began = {} if landed is None else {int(p): offset for p, offset in landed.cut_to.items()}
        files = files_to_read(mapping, table.files, changes, began)
        mapping = replace(mapping, partitions=self._partitions(mapping, files, landed))
        gone: dict[str, list[list[int]]] = {}
        if changes is not None:
            gone = gone_offsets(self.warehouse, self.topic, mapping, table, changes, view.plans, last)
        listed = self._listed(mapping, files)
        rows = self._row_rules(clock_ms)
        counted = CountedFiles.of(
            self.spark, self.warehouse, mapping, rows, listed, kept=self._kept, counting=counting_mapping(mapping),
            takes_digests=False,
        )  # fmt: skip
        if counted is None:
            # A file of a version is never written again: one that changed is gone, and the caller names it.
            raise FileNotFoundError
        counted.refuse_bad(mapping, self.rules.max_bad_share)
        if changes is None and not any(file.rows > file.left_out for file in counted.files):
            refuse_other_topics(table, self.topic, mapping)
        entries = [
            {"name": file.listed.name, "bytes": file.listed.bytes, "records": file.records}
            | ({"dead_letters": file.bad_rows} if file.bad_rows else {})
            for file in counted.files
        ]
        plan = replace(self._without_files(view, mapping, rows, last), files=entries, tasks=counted.tasks)
        ordered = with_order(
            plan, self.spark, self.warehouse, self.topic, mapping, rows, counted.slices, last, self._kept
        )
        if ordered is None:
            raise FileNotFoundError
        plan = self._with_changes(ordered, view, gone, warn)
        for sentence in (*zone_sentences(self.topic, counted), *not_finite_sentences(self.topic, counted)):
            warn(sentence)
        if self.preview is not None and (plan.cut_to != plan.cut_from or landed is None):
            self.preview(replace(preview_of(self.topic, mapping, counted, plan), layout=view.why))
        return plan

    def _in_place(
        self,
        view: "_FoundTable",
        last: LedgerRow[LandingDoneRow] | None,
        clock_ms: int,
        warn: Callable[[str], None],
    ) -> LandingPlanRow:
        """Register what is new, and look at rows alone where the table says that some have changed."""
        table, landed = view.table, view.landed
        declared = self._declared(landed)
        known = declared or (1 if landed is None else landed.partitions)
        mapping = replace(view.mapping, partitions=known)
        self._listed(mapping, table.files)
        # The comparison reads rows as a landing by copy does; its
        # first record and its preview would be shown a second time.
        quiet = replace(self, show=None, preview=None)
        in_place = PlannedInPlace(
            self.warehouse, self.topic, table, mapping, view.changes, last, declared,
            look=lambda: quiet._plan(view, last, clock_ms, warn), on_change=self.rules.on_change, warn=warn,
        )  # fmt: skip
        plan = in_place.plan(self._without_files(view, mapping, self._row_rules(clock_ms), last))
        if self.preview is not None and (plan.registers or landed is None):
            self.preview(replace(preview_in_place(self.topic, mapping, plan), layout=view.why))
        return plan

    def _listed(self, mapping: LakeMapping, files: Sequence[LakeFile]) -> list[FoundFile]:
        """``files``, of which the first record was shown."""
        listed = [FoundFile(file.name, file.bytes, None) for file in files]
        if self.show is not None and (first := first_record(mapping, listed)) is not None:
            self.show(first)
        return listed

    def _row_rules(self, clock_ms: int) -> RowRules:
        return RowRules(self.rules.on_bad_row == DEAD_LETTER, self.rules.latest_ms(clock_ms))

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Write the planned rows of the planned version, by the mapping of the plan; commit them.

        Raises PlanOutdated when the version or a file of it is gone.
        """
        if row.content.copies:
            return CopiedFiles(self.spark, self.warehouse, self.topic).write(row, app_id)
        if row.content.registers is not None:
            return write_registered(self.warehouse, self.topic, row, app_id)
        lake = row.content.source["lake"]
        word = f"{lake['format']} table {lake['place']}"
        try:
            table = self._table(lake["version"])
        except LandingError as error:
            raise PlanOutdated(f"{word} has {error.got}") from error
        if table.id != lake["id"]:
            raise PlanOutdated(f"{table.place} is another table")
        mapping = LakeMapping.from_dict(table.root, lake["mapping"])
        mapping = replace(mapping, columns_of=table.columns, files={file.name: file for file in table.files})
        names = [file["name"] for file in row.content.files]
        for name in names:
            if name not in mapping.files:
                raise PlanOutdated(f"{name} is not in {word} any more")
        write_planned(self.spark, self.warehouse, self.topic, mapping, row, app_id, dict.fromkeys(names), self._kept)
        return {"files": len(names)}

    def _table(self, asked: int | None) -> LakeTable:
        if asked not in self._opened:
            table = open_lake(self.source, asked)
            self._opened.update({asked: table, table.version: table})
        return self._opened[asked]

    def _changes(
        self, table: LakeTable, plans: Sequence[LandingPlanRow], *, is_first: bool, warn: Callable[[str], None]
    ) -> LakeChanges | None:
        """Since the last landing from the table; None: all of it is new."""
        if not plans:
            return None if is_first else LakeChanges(unknown="the topic has not landed from a table before")
        before = plans[-1].source["lake"]
        if before["id"] != table.id:
            return LakeChanges(
                unknown=f"it is another one than {before['place']}, which landed before", is_other_table=True
            )
        # Landings of earlier versions of this package did not keep the digest.
        files = before.get("files")
        if before["version"] == table.version and files in (None, table.files_digest):
            return LakeChanges()
        if table.is_before(before["version"]):
            word = table.version_word
            warn(f"{self.topic}: {word} {table.version} is older than {word} {before['version']}, which has landed")
            return LakeChanges()
        return table.since(before["version"], files)

    def _declared(self, landed: LandingDoneRow | None) -> int | None:
        """The number of partitions that is asked for. LandingError: the topic has another one."""
        asked, known = self.source.partitions, None if landed is None else landed.partitions
        if asked is not None and known not in (None, asked):
            expected, next_step = f"{known} partitions, as in its first landing", "declare the same number, or none"
            raise LandingError(f"topic {self.topic}", expected, str(asked), next_step)
        return asked

    def _partitions(self, mapping: LakeMapping, files: Sequence[LakeFile], landed: LandingDoneRow | None) -> int:
        known = 1 if landed is None else landed.partitions
        return self._declared(landed) or max(known, largest_partition(mapping, files) + 1)

    def _without_files(
        self, view: "_FoundTable", mapping: LakeMapping, rows: RowRules, last: LedgerRow[LandingDoneRow] | None
    ) -> LandingPlanRow:
        """The plan, without files, offsets and tasks in their order."""
        table, landed = view.table, view.landed
        cut = dict.fromkeys(map(str, range(mapping.partitions)), 0) | ({} if landed is None else landed.cut_to)
        kept = {} if last is None else {name: value for name, value in last.content.source.items() if name in _KEPT}
        lake = {
            "format": table.format,
            "place": table.place,
            "id": table.id,
            "version": table.version,
            "files": table.files_digest,
            "layout": view.why,
            "mapping": mapping.to_dict(),
        }
        return LandingPlanRow(
            partitions=mapping.partitions,
            cut_from=cut,
            cut_to=cut,
            source={**kept, "kind": self.kind, "offsets": KAFKA_OFFSETS, "lake": lake},
            files=[],
            rules=rows.to_dict(),
        )

    def _with_changes(
        self,
        plan: LandingPlanRow,
        view: "_FoundTable",
        gone: Mapping[str, list[list[int]]],
        warn: Callable[[str], None],
    ) -> LandingPlanRow:
        """``plan`` with what is gone from the table or changed in it since ``view.plans``; LandingError where that is
        refused.
        """
        table, plans, changes = view.table, view.plans, view.changes
        changed = without_known(dict(plan.changed or {}) | ({"gone": dict(gone)} if gone else {}), plans)
        if changes is None:
            return plan
        if changes.unknown is not None:
            warn(
                f"{self.topic}: all of {table.format} table {table.place} was compared with what has landed, since "
                f"{changes.unknown}"
            )
        if not changed:
            return replace(plan, changed=None)
        if self.rules.on_change == REFUSE or (self.rules.on_change == ERASE and "others" in changed):
            refuse_changed(table_place(self.topic, table), changed, changes)
        stays = "has them as they are in the table now" if self.source.in_place else "keeps the records as they landed"
        stays = "has them erased" if self.rules.on_change == ERASE else stays
        warn(f"{self.topic}: {changed_sentence(changed, changes)}; the topic {stays}")
        return replace(plan, changed=changed)


def new_files(warehouse: Warehouse, topic: str, source: LakeSource) -> tuple[int, int]:
    """The version that a landing of ``topic`` would take, and how many files of it have, as its log says, rows that the
    landing would take or, in place, register. No row is read. Raises LandingError as ``land_lake``.
    """
    table, ledger = open_lake(source, source.asked), LandingLedger(warehouse.landing_ledger(topic))
    plans = [row.content for row in kept_plans(ledger) if row.content.source["kind"] == LakeLander.kind]
    last = ledger.last_done()
    began = {} if last is None else {int(p): offset for p, offset in last.content.cut_to.items()}
    lander = LakeLander(None, warehouse, topic, source)
    changes = lander._changes(table, plans, is_first=not any(began.values()), warn=lambda _: None)
    if changes is not None and changes.is_nothing:
        return table.version, 0
    mapping, _ = lake_mapping(source, table, topic)
    known = files_in_place(warehouse, topic, last) if source.in_place and last is not None else []
    if moved := moved_files(table, known):
        # Where their owner deletes these, nothing can be read before the topic is landed again.
        as_registered = {file.path for file in known} - {file.path for file in moved}
        own = [file for file in table.files if may_have_topic(mapping, file.bounds)]
        return table.version, sum(file.name not in as_registered for file in own) or len(moved)
    # Rows that were deleted or changed are not taken.
    taken = None if changes is None else replace(changes, touched=())
    return table.version, len(files_to_read(mapping, table.files, taken, began))
