"""What a landing from files is about to land: partitions, offsets, times and the order of the records.

Owns these words, for the command and for Python. Rule: it says what the plan says, before the plan is written.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...state.tables.data_files import DataFile
from ...state.tables.ledger_rows import LandingPlanRow
from ...state.times import NO_TIMESTAMP_MS
from .file_source import KAFKA_OFFSETS, FileSource
from .files.column_types import TypeChange
from .files.columns import time_text
from .files.counting import CountedFiles
from .files.file_order import joined_spans


@dataclass(frozen=True, slots=True)
class PreviewedPartition:
    """Records of a partition: how many, at offsets ``[first_offset, next_offset)``, with times from ``earliest_ms`` to
    ``latest_ms`` in the files (None: no row).
    """

    records: int
    first_offset: int
    next_offset: int
    earliest_ms: int | None
    latest_ms: int | None


@dataclass(frozen=True, slots=True)
class LandingPreview:
    """``files``: how many are new. ``order``: of the records, in words. ``dead_letters``: rows that do not fit.
    ``warnings``: sentences about what is left out or unusual. ``layout``: of a table, by which columns are Kafka's, and
    why; None: of files.
    """

    topic: str
    files: int
    records: int
    dead_letters: int
    order: str
    partitions: Mapping[int, PreviewedPartition]
    warnings: tuple[str, ...] = ()
    layout: str | None = None

    def times(self) -> str | None:
        """From the earliest to the latest; None without records."""
        earliest = [each.earliest_ms for each in self.partitions.values() if each.earliest_ms is not None]
        latest = [each.latest_ms for each in self.partitions.values() if each.latest_ms is not None]
        return f"{time_text(min(earliest))} to {time_text(max(latest))}" if earliest else None

    def implausible(self, earliest_ms: int, latest_ms: int, *, of_files: bool) -> list[str]:
        """What is said of times outside ``[earliest_ms, latest_ms]``; records without a time have none. ``of_files``:
        times come of a column.
        """
        spans = [(each.earliest_ms, each.latest_ms) for each in self.partitions.values()]
        is_odd = any(
            (first is not None and NO_TIMESTAMP_MS != first < earliest_ms) or (last is not None and last > latest_ms)
            for first, last in spans
        )
        if not is_odd:
            return []
        return [
            f"{self.topic}: times reach from {self.times()}, which can hardly be meant; is the unit of the times right"
            f"{' (--timestamp-unit)' if of_files else ''}?"
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Partitions as rows of a table, times as text."""
        return [
            {
                "partition": p,
                "records": each.records,
                "from": each.first_offset,
                "to": each.next_offset,
                "earliest": None if each.earliest_ms is None else time_text(each.earliest_ms),
                "latest": None if each.latest_ms is None else time_text(each.latest_ms),
            }
            for p, each in self.partitions.items()
        ]


def preview_of(topic: str, source: FileSource, counted: CountedFiles, plan: LandingPlanRow) -> LandingPreview:
    """Of a plan that is not written yet."""
    spans = joined_spans(file.spans for file in counted.files)
    counts: dict[str, int] = {}
    for task in plan.tasks or ():
        for p, count in task["counts"].items():
            counts[p] = counts.get(p, 0) + count
    partitions = {}
    for p, begin in sorted((int(p), begin) for p, begin in plan.cut_from.items()):
        span = spans.get(p)
        first = plan.gaps[str(p)][1] if str(p) in plan.gaps else begin
        partitions[p] = PreviewedPartition(
            records=counts.get(str(p), 0),
            first_offset=first,
            next_offset=plan.cut_to[str(p)],
            earliest_ms=None if span is None else span.least_ms,
            latest_ms=None if span is None else span.largest_ms,
        )
    return LandingPreview(
        topic=topic,
        files=len(counted.files),
        records=sum(counts.values()),
        dead_letters=sum(file.bad_rows for file in counted.files),
        order=order_words(source),
        partitions=partitions,
    )


def registered_from(plan: LandingPlanRow) -> list[DataFile]:
    """Files that a plan registers, with records that are new by it."""
    files = [DataFile.from_dict(fields) for fields in plan.registers or ()]
    return [file for file in files if (file.max_offset or 0) >= plan.cut_from.get(str(file.partition), 0)]


def order_words(source: FileSource) -> str:
    """The order of the records of a landing."""
    if source.offset is not None:
        is_column = source.known_offsets == KAFKA_OFFSETS
        return f"by offset in each partition ({f'column {source.offset}' if is_column else 'of the paths of files'})"
    if source.order_by is not None:
        return f"by {', '.join(source.order_by)}, then by name of file"
    return "natural order of the names of files (dump-2 before dump-10)"


def plan_sentences(topic: str, source: FileSource, counted: CountedFiles, plan: LandingPlanRow) -> list[str]:
    """What a landing says of rows that it left out, and of what it could not keep as it is."""
    sentences = []
    if left_out := sum(file.left_out for file in counted.files):
        rows = sum(file.rows for file in counted.files)
        sentences.append(f"{topic}: {left_out:,} of {rows:,} rows are of other topics than {source.topic} and left out")
    sentences += twice_sentences(topic, plan)
    if landed := (plan.repeated or {}).get("landed", 0):
        say = "1 row has" if landed == 1 else f"{landed:,} rows have"
        sentences.append(f"{topic}: {say} the offset and the bytes of a record that has landed before")
    return (
        sentences
        + zone_sentences(topic, counted)
        + not_finite_sentences(topic, counted)
        + absent_sentences(topic, source, counted)
    )


def type_sentences(topic: str, changes: Sequence[TypeChange]) -> list[str]:
    """What a landing says of types that change from file to file, so that equal keys or values have other bytes."""
    sentences = []
    for column, before, now, more in changes:
        times = "" if not more else f" (and changes {more:,} time{'s' if more > 1 else ''} more)"
        sentences.append(
            f"{topic}: column {column} is {before.type} in {before.file} and {now.type} in {now.file}{times}, so equal "
            "values differ in their bytes, as 42 and 42.0 do; write one type, or name it (--key-type, --value-type, "
            "--for)"
        )
    return sentences


def absent_sentences(topic: str, source: FileSource, counted: CountedFiles) -> list[str]:
    """What a landing says of files of which no row has a column of the mapping that rows of other files have."""
    sentences = []
    for column, files in counted.absent_columns(source).items():
        more = len(files) - 1
        others = "" if not more else f" and {more:,} other file{'s' if more > 1 else ''}"
        parts = {"keys": source.key, "values (tombstones)": source.value}
        null = [part for part, of in parts.items() if of == column] or ["cells"]
        sentences.append(
            f"{topic}: no row of {files[0].listed.name}{others} has column {column}, which rows of other files have, "
            f"so its {' and '.join(null)} are null there"
        )
    return sentences


def zone_sentences(topic: str, counted: CountedFiles) -> list[str]:
    """What a landing says of times without a zone beside times that name one."""
    naive, zoned = (sum(getattr(file, name) for file in counted.files) for name in ("naive", "zoned"))
    if not naive or not zoned:
        return []
    file = next(file.listed.name for file in counted.files if file.naive)
    return [
        f"{topic}: {naive:,} of {naive + zoned:,} times name no zone (the first in {file}) and are taken as UTC; the "
        "others name one; where they are of another zone, name it (--zone)"
    ]


def not_finite_sentences(topic: str, counted: CountedFiles) -> list[str]:
    """What a landing says of keys and values that are NaN or infinite and became null."""
    cells = Counter[str]()
    for file in counted.files:
        cells.update(file.not_finite)
    sentences = []
    for name, count in cells.items():
        say = f"1 cell of column {name} is" if count == 1 else f"{count:,} cells of column {name} are"
        sentences.append(
            f"{topic}: {say} NaN or infinite; JSON has no such number, so the key or value is null (--key-type double "
            "and --value-type double keep it)"
        )
    return sentences


def twice_sentences(topic: str, plan: LandingPlanRow) -> list[str]:
    """What a landing says of offsets that come again in it."""
    twice = (plan.repeated or {}).get("twice", 0)
    say = "1 row has" if twice == 1 else f"{twice:,} rows have"
    return [f"{topic}: {say} the offset and the bytes of another one, and each of these lands once"] if twice else []
