"""The command `land` (docs/landing.md)."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import click

from ....jobs.history.passed_restarts import pipelines_past
from ....jobs.landing.complete_topics import record_complete
from ....jobs.landing.file_formats import FORMATS
from ....jobs.landing.file_source import BAD, BESIDE, NULL_LINES, SERDE_TYPES, TIMESTAMP_UNITS, UTF_8, csv_types
from ....jobs.landing.files.envelopes import ENVELOPES
from ....jobs.landing.files.known_files import find_files
from ....jobs.landing.files.named_files import named_files
from ....jobs.landing.first_record import FirstRecord
from ....jobs.landing.lake.layouts import AUTO, LAYOUTS
from ....jobs.landing.landing import (
    FileSource,
    KafkaSource,
    LakeSource,
    LandingReport,
    LandingRules,
    land_files,
    land_kafka,
    land_lake,
    preview_kafka,
    preview_landing,
)
from ....jobs.landing.landing_preview import LandingPreview
from ....jobs.landing.landing_rules import DEAD_LETTER, ERASE, IGNORE, REFUSE, STOP, WARN
from ....jobs.landing.recorded_restarts import record_restarts
from ....jobs.landing.recorded_time import record_idle, record_tick
from ....jobs.landing.serde_mapping import Serdes, refuse_undecodable, with_serdes
from ....state.errors import ConfigError
from ....state.near_names import did_you_mean
from ....state.tables.warehouse import Warehouse
from ....state.times import duration_ms
from ...engines import spark_to_land
from ...progress_lines import ProgressBar, ProgressLines, progress_on
from ...text_tables import print_json, print_table
from .. import options
from ..command import OneOf, argument, command, is_given, option, partition_and_offset
from ..exit_codes import ExitCode
from ..unread_topics import unread_topic
from .advance import print_complete, print_recorded

FILES, LAKE, KAFKA = "Files", "Tables of a lake (columns are named as those of files)", "Kafka"
RULES, ONCE = "What is wrong or unusual", "For one call"
"""Sections of the help."""


Source = FileSource | LakeSource | KafkaSource


@dataclass(frozen=True)
class LandOptions:
    """What the command was given: a field for each parameter that is declared above ``land``."""

    topic: str
    warehouse: str
    local: bool
    master: str | None
    idle_after: str | None
    tick: bool
    restart: tuple[str, ...]
    complete: bool
    detailed_exit_code: bool
    files: str | None
    format: str | None
    timestamp: str | None
    timestamp_unit: str
    key: tuple[str, ...]
    value: tuple[str, ...]
    partition: str | None
    partitions: int | None
    offset: str | None
    headers: str | None
    timestamp_type: str | None
    topic_column: str | None
    path_pattern: str | None
    beside: tuple[str, ...]
    order_by: str | None
    pattern: str
    delimiter: str
    types: str | None
    key_type: str | None
    value_type: str | None
    envelope: str | None
    null_lines: str
    columns: tuple[str, ...]
    nulls: tuple[str, ...]
    encoding: str
    decimal_comma: bool
    zone: str | None
    topology: str | None
    delta: str | None
    iceberg: str | None
    version: int | None
    snapshot: int | None
    layout: str
    in_place: bool
    copy: bool
    kafka: str | None
    source_topic: str | None
    option: tuple[str, ...]
    kafka_config: str | None
    on_gap: str
    max_records: int | None
    on_bad_row: str
    on_disorder: str
    max_late_share: float
    on_change: str
    max_bad_share: float
    max_future: str | None
    plausible_since: str
    allow_same_content: bool
    new_mapping: bool
    allow_empty: bool
    abandon: bool
    reopen: bool
    dry_run: bool
    as_json: bool

    def rules(self) -> LandingRules:
        """How the landing handles bad or unusual input."""
        return LandingRules(
            on_bad_row=self.on_bad_row,
            on_disorder=self.on_disorder,
            max_late_share=self.max_late_share,
            on_change=self.on_change,
            max_bad_share=self.max_bad_share,
            max_future=self.max_future,
            plausible_since=self.plausible_since,
            allow_same_content=self.allow_same_content,
            new_mapping=self.new_mapping,
            allow_empty=self.allow_empty,
            abandon=self.abandon,
            reopen=self.reopen,
            copy=self.copy,
        )


@command(one_of=[OneOf(("files", "delta", "iceberg", "kafka"), required=True, unless="restart")])
@argument("topic", help="name of the landed topic")
@options.warehouse
@options.local
@options.master
@option(
    "--idle-after",
    metavar="DURATION",
    help="record the time of partitions that lag behind the newest record by more, as in 5m (default: never)",
)
@option("--tick", is_flag=True, help="record what the clock says: schedules by wall-clock time are called")
@option(
    "--restart",
    multiple=True,
    metavar="P:O",
    help="record that production restarted before this record, so that replays do too; repeatable; needs no source",
)
@option("--complete", is_flag=True, help="nothing more of the topic comes, as of a static table: no other waits for it")
@options.detailed_exit_code
@option(
    "--files",
    metavar="PATH",
    section=FILES,
    help="a directory, a file or a glob (in quotes); files are read in natural order of their names unless --offset or "
    "--order-by gives the order",
)
@option(
    "--format", type=click.Choice(list(FORMATS)), help="of the files (default: as their extension says)", section=FILES
)
@option("--timestamp", metavar="COLUMN", help="column of the record time; a.b: field b of the object a", section=FILES)
@option("--timestamp-unit", type=click.Choice(TIMESTAMP_UNITS), default="ms", section=FILES, help="default ms")
@option(
    "--key",
    metavar="COLUMN…",
    takes_many=True,
    section=FILES,
    help="column of the key, or some, as a JSON object; without it all keys are null",
)
@option(
    "--value", metavar="COLUMN…", takes_many=True, section=FILES, help="columns of the value; without it the whole row"
)
@option("--partition", metavar="COLUMN", section=FILES, help="column of the partition; without it murmur2 of the key")
@option("--offset", metavar="COLUMN", section=FILES, help="column of Kafka's offset: rows land at it, sorted by it")
@option("--headers", metavar="COLUMN", section=FILES, help="column of the headers, as a list of {key, value} or a map")
@option("--timestamp-type", metavar="COLUMN", section=FILES, help="column with CreateTime or LogAppendTime, or 0 or 1")
@option("--topic-column", metavar="COLUMN", section=FILES, help="column of the topic: rows of others are left out")
@option(
    "--path-pattern",
    metavar="PATTERN",
    section=FILES,
    help="columns of the path: confluent, aiven, lenses, or a regular expression with (?P<partition>[0-9]+)",
)
@option(
    "--beside",
    type=click.Choice(BESIDE),
    takes_many=True,
    section=FILES,
    help="keys and headers are in files of their own beside each file, as Connect's S3 sink stores them",
)
@option("--order-by", metavar="COLUMN[,COLUMN]", section=FILES, help="sort the rows by these, not by names of files")
@option(
    "--partitions",
    type=options.COUNT,
    metavar="N",
    section=FILES,
    help="partitions of the topic (default 1; of a table: as many as it has)",
)
@option("--pattern", default="*", metavar="GLOB", help="names of the files, as in *.jsonl", section=FILES)
@option("--delimiter", default="", metavar="TEXT", help="of CSV (default ,), of lines (default a tab)", section=FILES)
@option(
    "--columns",
    metavar="NAME…",
    takes_many=True,
    section=FILES,
    help="of lines, and of CSV without a header line",
)
@option(
    "--nulls",
    metavar="TEXT…",
    takes_many=True,
    default=("",),
    section=FILES,
    help="cells of CSV and lines that are null (default: empty ones)",
)
@option("--encoding", default=UTF_8, metavar="NAME", section=FILES, help="of CSV and lines, as in cp1252")
@option("--decimal-comma", is_flag=True, section=FILES, help="fractions of CSV and lines have a comma")
@option("--zone", metavar="NAME", section=FILES, help="of times that name none, as in Europe/Berlin (default: UTC)")
@option("--types", metavar="TYPES", help='of CSV columns, as in "ms long, price double" (default: text)', section=FILES)
@option("--key-type", type=click.Choice(SERDE_TYPES), section=FILES, help="write the key as Kafka's serializer does")
@option("--value-type", type=click.Choice(SERDE_TYPES), section=FILES, help="write the one column of the value so")
@option("--envelope", type=click.Choice(list(ENVELOPES)), section=FILES, help="take rows of JSON lines out of it")
@option(
    "--null-lines",
    type=click.Choice(NULL_LINES),
    default=BAD,
    section=FILES,
    help="a line null deletes the key of the row before it, or is a bad row (default)",
)
@option("--for", "topology", metavar="TOPOLOGY", section=FILES, help="take these types from the serdes of a topology")
@option("--delta", metavar="URI", section=LAKE, help="a Delta table that has Kafka's partitions and offsets")
@option(
    "--version", type=options.Whole(min=0), metavar="N", section=LAKE, help="of the Delta table (default: the newest)"
)
@option(
    "--iceberg", metavar="CATALOG.NAMESPACE.TABLE", section=LAKE, help="such a table of Iceberg, as PyIceberg names it"
)
@option(
    "--snapshot",
    type=options.Whole(),
    metavar="N",
    section=LAKE,
    help="of the Iceberg table (default: the current one)",
)
@option(
    "--layout",
    type=click.Choice([AUTO, *LAYOUTS]),
    default=AUTO,
    section=LAKE,
    help="whose columns they are (default auto: as the table's columns say); columns that are named win over it",
)
@option("--in-place", is_flag=True, section=LAKE, help="copy nothing: the topic reads the table's files where they are")
@option("--copy", is_flag=True, section=LAKE, help="write what lies in place into the topic's own table; land nothing")
@option("--kafka", metavar="SERVERS", help="bootstrap servers of a broker", section=KAFKA)
@option(
    "--source-topic", metavar="NAME", section=KAFKA, help="its name there, in --topic-column or in a table, if another"
)
@option(
    "--option",
    metavar="NAME=VALUE",
    multiple=True,
    help="a setting of the client, or of Iceberg's catalog; a secret as ${env:VARIABLE}",
    section=KAFKA,
)
@options.kafka_config(section=KAFKA)
@option(
    "--on-gap",
    type=click.Choice(["refuse", "skip"]),
    default="refuse",
    section=KAFKA,
    help="when the broker deleted offsets",
)
@option("--max-records", type=options.COUNT, metavar="N", help="land at most so many", section=KAFKA)
@option(
    "--on-bad-row",
    type=click.Choice([STOP, DEAD_LETTER]),
    default=DEAD_LETTER,
    section=RULES,
    help="a row of a file that does not fit stops the landing, or is kept in landed_dead_letter/TOPIC (default)",
)
@option(
    "--on-disorder",
    type=click.Choice([STOP, WARN]),
    default=WARN,
    section=RULES,
    help="when times go back further from one file to the next than within a file: stop, or warn (default)",
)
@option(
    "--max-late-share",
    type=options.SHARE,
    default=0.0,
    metavar="SHARE",
    section=RULES,
    help="with --on-disorder stop: only where that makes more of the records late (default 0)",
)
@option(
    "--on-change",
    type=click.Choice([REFUSE, IGNORE, ERASE]),
    default=REFUSE,
    section=RULES,
    help="when landed records are gone from a table or changed in it: refuse (default), ignore, or erase those gone",
)
@option(
    "--max-bad-share",
    type=options.SHARE,
    default=0.01,
    metavar="SHARE",
    section=RULES,
    help="stop where more of a file's rows do not fit (default 0.01: 1 %); one bad row of several is allowed unless 0",
)
@option("--max-future", metavar="DURATION", section=RULES, help="records later than the clock by more are dead letters")
@option("--plausible-since", default="1980-01-01", metavar="DAY", section=RULES, help="warn of times before it")
@option(
    "--allow-same-content",
    is_flag=True,
    section=ONCE,
    help="land files whose content landed under another name or from another folder",
)
@option("--new-mapping", is_flag=True, section=ONCE, help="continue with another mapping than the last landing had")
@option("--allow-empty", is_flag=True, section=ONCE, help="the pattern may match none of the files")
@option("--abandon", is_flag=True, section=ONCE, help="give up an increment that is planned and not committed")
@option("--reopen", is_flag=True, section=ONCE, help="land more of a topic that was recorded to be complete")
@option("--dry-run", is_flag=True, section=FILES, help="say what would land: partitions, offsets, times, order; stop")
@option("--json", "as_json", is_flag=True, help="print one JSON object, of what landed or would land")
def land(**given: Any) -> int:
    """Land what is new in a topic, from files, from a table of a lake or from Kafka."""
    asked = LandOptions(**given)
    restarts = [partition_and_offset(each, "--restart") for each in asked.restart]
    if restarts and (asked.files, asked.delta, asked.iceberg, asked.kafka) == (None,) * 4:
        _refuse_what_needs_a_source(asked.topic, given)
        return _land_restarts(asked, Warehouse(asked.warehouse), restarts)
    _refuse_unread(asked.topic, given)
    idle_after_ms = None if asked.idle_after is None else duration_ms(asked.idle_after, "--idle-after")
    warehouse, source = Warehouse(asked.warehouse), _source(asked)
    unread = unread_topic(warehouse, asked.topic) if asked.topology is None else None
    if unread is not None:
        print(f"replay: warning: {unread}", file=sys.stderr)
    if asked.dry_run:
        return _dry_run(asked, warehouse, source)
    with closing(progress_on(sys.stderr)) as progress:
        report = _landed(asked, warehouse, source, progress)
    recorded: dict[int, int] = {}
    if idle_after_ms is not None:  # before anything is printed, since a closed pipe ends the command
        recorded = record_idle(warehouse, asked.topic, idle_after_ms)
    ticked = record_tick(warehouse, asked.topic) if asked.tick else {}
    restarted = _record_restarts(warehouse, asked.topic, restarts) if restarts else {}
    is_completed = record_complete(warehouse, asked.topic) if asked.complete else False
    if asked.as_json:
        times = {"stream_time_ms": recorded, "tick_ms": ticked, "is_completed": is_completed}
        warnings = {"warnings": [*([] if unread is None else [unread]), *report.warnings]}
        print_json(asdict(report) | warnings | times | restarted)
    else:
        _print_landed(report)
        if asked.idle_after is not None:
            print_recorded(asked.topic, recorded)
        if asked.tick:
            print_recorded(asked.topic, ticked, what="a tick of the wall clock")
        if asked.complete:
            print_complete(asked.topic, is_completed)
        if restarts:
            _print_restarts(asked.topic, restarted)
    quiet = ExitCode.DONE if report.increments else ExitCode.NOTHING_NEW
    code = ExitCode.WARNINGS if report.warnings or unread is not None else quiet
    return code.unless_detailed(asked.detailed_exit_code)


def _land_restarts(asked: LandOptions, warehouse: Warehouse, restarts: Sequence[tuple[int, int]]) -> int:
    """Of records that have landed, without a source; the exit code."""
    restarted = _record_restarts(warehouse, asked.topic, restarts)
    if asked.as_json:
        print_json(restarted)
    else:
        _print_restarts(asked.topic, restarted)
    return (ExitCode.DONE if restarted["restarts"] else ExitCode.NOTHING_NEW).unless_detailed(asked.detailed_exit_code)


def _record_restarts(warehouse: Warehouse, topic: str, restarts: Sequence[tuple[int, int]]) -> dict[str, list[str]]:
    """Those that are new, and the pipelines that had read their records already."""
    new = record_restarts(warehouse, topic, restarts)
    beyond = pipelines_past(warehouse, topic, new) if new else []
    return {"restarts": [f"{p}:{offset}" for p, offset in new], "pipelines_beyond": list(beyond)}


def _print_restarts(topic: str, restarted: Mapping[str, Sequence[str]]) -> None:
    named = restarted["restarts"]
    if not named:
        print(f"{topic}: no restart to record that is not recorded already")
        return
    what = "restart" if len(named) == 1 else "restarts"
    print(f"{topic}: {len(named):,} {what} recorded before {', '.join(named)}; what is planned from now on takes it")
    for pipeline in restarted["pipelines_beyond"]:
        print(f"{pipeline} was beyond it already and stays as it is: replay under another pipeline name, or on a fork")


def _dry_run(asked: LandOptions, warehouse: Warehouse, source: Source) -> int:
    """Print what would land; the exit code."""
    if isinstance(source, KafkaSource):
        return _print_lag(asked, preview_kafka(warehouse, asked.topic, source, max_records=asked.max_records))
    with closing(progress_on(sys.stderr)) as progress:
        source, show = _with_mapping(asked, warehouse, source, progress)
        spark = spark_to_land(local=asked.local, master=asked.master, say=progress.doing)
        progress.doing(f"reading {asked.topic}")
        preview = preview_landing(spark, warehouse, asked.topic, source, rules=asked.rules(), show=show)
    warnings = () if preview is None else preview.warnings
    if asked.as_json:
        print(json.dumps(None if preview is None else asdict(preview)))
    elif preview is None:
        print(f"{asked.topic}: nothing new")
    else:
        _print_preview(preview)
        for warning in warnings:
            print(f"replay: warning: {warning}", file=sys.stderr)
        rows = "1 row" if preview.dead_letters == 1 else f"{preview.dead_letters:,} rows"
        letters = f", and {rows} would become none" if preview.dead_letters else ""
        print(f"{asked.topic}: {preview.records:,} records of {preview.files:,} files would land{letters}")
        print_table(preview.rows())
    quiet = ExitCode.NOTHING_NEW if preview is None else ExitCode.DONE
    return (ExitCode.WARNINGS if warnings else quiet).unless_detailed(asked.detailed_exit_code)


def _print_lag(asked: LandOptions, ranges: Mapping[int, tuple[int, int]]) -> int:
    """Offsets that would land from Kafka; the exit code."""
    spans = [{"partition": p, "from": begin, "to": end, "offsets": end - begin} for p, (begin, end) in ranges.items()]
    offsets = sum(end - begin for begin, end in ranges.values())
    if asked.as_json:
        print_json({"topic": asked.topic, "offsets": offsets, "partitions": spans})
    else:
        print(f"{asked.topic}: {offsets:,} offsets of Kafka would land" if offsets else f"{asked.topic}: nothing new")
        print_table(spans, ["partition", "from", "to", "offsets"])
    return (ExitCode.DONE if offsets else ExitCode.NOTHING_NEW).unless_detailed(asked.detailed_exit_code)


def _print_preview(preview: LandingPreview) -> None:
    if not preview.files:
        return
    if preview.layout is not None:
        print(f"  columns    {preview.layout}")
    print(f"  order      {preview.order}")
    if (times := preview.times()) is not None:
        print(f"  times      {times}")
    sys.stdout.flush()


def _landed(
    asked: LandOptions,
    warehouse: Warehouse,
    source: Source,
    progress: ProgressBar | ProgressLines,
) -> LandingReport:
    rules = asked.rules()
    show: Callable[[FirstRecord], None] | None = None
    if not isinstance(source, KafkaSource):
        source, show = _with_mapping(asked, warehouse, source, progress)
    in_process = asked.local or isinstance(source, KafkaSource)
    spark = spark_to_land(local=in_process, master=asked.master, say=progress.doing)
    progress.doing(f"landing {asked.topic}")

    def preview(previewed: LandingPreview) -> None:
        progress.close()
        if not asked.as_json:
            _quietly(lambda: _print_preview(previewed))
        progress.doing(f"landing {asked.topic}")

    if isinstance(source, FileSource):
        return land_files(spark, warehouse, asked.topic, source, rules=rules, show=show, preview=preview)
    if isinstance(source, LakeSource):
        return land_lake(spark, warehouse, asked.topic, source, rules=rules, show=show, preview=preview)
    return land_kafka(None, warehouse, asked.topic, source, max_records=asked.max_records, rules=rules)


def _quietly(print_it: Callable[[], None]) -> None:
    """Where nobody reads it, `head` for one, the landing continues without words."""
    try:
        print_it()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _with_mapping(
    asked: LandOptions, warehouse: Warehouse, source: FileSource | LakeSource, progress: ProgressBar | ProgressLines
) -> tuple[FileSource | LakeSource, Callable[[FirstRecord], None]]:
    """The source as the serdes of a topology say, where one is named, and what shows its first record."""
    serdes = None
    if asked.topology is not None:
        progress.doing("loading the topology; on the first use of this installation Python compiles its libraries")
        serdes = _serdes(asked.topology, asked.topic, warehouse.topics())
        if isinstance(source, FileSource):
            known = source.with_format_of(file.name for file in find_files(source, asked.topic).files)
            source = with_serdes(known, asked.topic, serdes)

    def show(first: FirstRecord) -> None:
        progress.close()  # a bar and this must not share a line
        if first.is_first and not asked.as_json:
            _quietly(lambda: _print_first(first))
        if serdes is not None and first.source is not None:
            progress.doing("decoding the first records; on the first use of a serde on this machine it is compiled")
            refuse_undecodable(asked.topic, first.source, first, serdes, asked.rules().max_bad_share)
        progress.doing(f"landing {asked.topic}")

    return source, show


def _print_first(first: FirstRecord) -> None:
    print(f"first record, of {first.file} ({first.format}):")
    for name, text in first.described().items():
        print(f"  {name:<9}  {text}")
    sys.stdout.flush()


def _print_landed(report: LandingReport) -> None:
    for warning in report.warnings:
        print(f"replay: warning: {warning}", file=sys.stderr)
    if not report.increments:
        print(f"{report.topic}: nothing new")
        return
    increments = ", ".join(map(str, report.increments))
    records = "1 record" if report.records == 1 else f"{report.records:,} records"
    print(f"{report.topic}: {records} landed in {report.seconds:.1f} s (increment {increments})")
    spans = [
        {"partition": p, "from": report.cut_from.get(p, 0), "to": end, "gone": _gap(report.gaps.get(p))}
        for p, end in report.cut_to.items()
    ]
    print_table(spans, ["partition", "from", "to", *(["gone"] if report.gaps else [])])


SOURCES = ("files", "delta", "iceberg", "kafka")
READ_BY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "format", "path_pattern", "beside", "order_by", "pattern", "delimiter", "types", "envelope", "null_lines",
            "columns", "nulls", "encoding", "decimal_comma", "on_disorder", "max_late_share",
            "allow_same_content", "allow_empty",
        ),
        ("files",),
    ),
    **dict.fromkeys(
        (
            "timestamp", "timestamp_unit", "key", "value", "partition", "offset", "headers", "timestamp_type",
            "topic_column", "partitions", "key_type", "value_type", "zone", "topology", "on_bad_row", "max_bad_share",
            "new_mapping",
        ),
        ("files", "delta", "iceberg"),
    ),
    "version": ("delta",),
    "snapshot": ("iceberg",),
    "layout": ("delta", "iceberg"),
    "on_change": ("delta", "iceberg"),
    "option": ("iceberg", "kafka"),
    "kafka_config": ("kafka",),
    "on_gap": ("kafka",),
    "max_records": ("kafka",),
}  # fmt: skip
"""Options by the sources that read them; the others are read whatever the source is."""


RECORDED = ("idle_after", "tick", "restart", "complete")
"""Options that record something after a landing."""
RESTARTS_READ = ("topic", "warehouse", "local", "master", "restart", "detailed_exit_code", "as_json")
"""What may be beside ``--restart`` without a source. Where Spark runs does not matter, since it is not needed."""


def _refuse_unread(topic: str, given: Mapping[str, Any]) -> None:
    """Raises ConfigError for an option on the command line that the source does not read."""
    chosen = next(name for name in SOURCES if given[name] is not None)
    for name, sources in READ_BY.items():
        if is_given(name) and chosen not in sources:
            readers = " or ".join(f"--{source}" for source in sources)
            raise ConfigError(
                f"topic {topic!r}, {_flag(name)}", f"a source that reads it: {readers}", f"--{chosen}", "leave it out"
            )
    _refuse_recording(topic, given)
    if chosen == "files" and is_given("source_topic") and given["topic_column"] is None:
        expected, got = "--topic-column, in which files have the name of their topic", "--files without it"
        next_step = "name the column, or leave --source-topic out: all rows are then of the landed topic"
        raise ConfigError(f"topic {topic!r}, --source-topic", expected, got, next_step)


def _refuse_recording(topic: str, given: Mapping[str, Any]) -> None:
    """Raises ConfigError for an option that records something beside ``--dry-run``, which would leave it undone."""
    for name in RECORDED if given["dry_run"] else ():
        if is_given(name):
            raise ConfigError(
                f"topic {topic!r}, {_flag(name)}", "a landing, after which it is recorded",
                "--dry-run, which records nothing", "leave one of both out",
            )  # fmt: skip


def _refuse_what_needs_a_source(topic: str, given: Mapping[str, Any]) -> None:
    """Raises ConfigError for an option on the command line that ``--restart`` alone would leave undone."""
    for name in given:
        if name not in RESTARTS_READ and is_given(name):
            raise ConfigError(
                f"topic {topic!r}, {_flag(name)}", f"a source: {' or '.join(f'--{source}' for source in SOURCES)}",
                "--restart alone, which records restarts and lands nothing", "name the source, or leave it out",
            )  # fmt: skip


def _flag(name: str) -> str:
    return next(p for p in click.get_current_context().command.params if p.name == name).opts[0]


def _source(asked: LandOptions) -> Source:
    settings = options.client_settings_of(asked.kafka_config, asked.option)
    if asked.delta is not None or asked.iceberg is not None:
        return _lake_source(asked, settings)
    if asked.kafka is not None and not asked.in_place:
        return KafkaSource(asked.kafka, topic=asked.source_topic, options=settings, on_gap=asked.on_gap)
    if asked.in_place:
        expected, next_step = "a Delta or Iceberg table", "name it (--delta, --iceberg), or leave --in-place out"
        raise ConfigError(f"topic {asked.topic!r}, --in-place", expected, "another source", next_step)
    if asked.timestamp is None and "(?P<timestamp>" not in (asked.path_pattern or ""):
        raise ConfigError(
            f"topic {asked.topic!r}",
            "the column of the record time",
            "none",
            "name it with --timestamp COLUMN; if no "
            "column has a time, as of a static table, move the files into a folder since=2013-01-01, and land with "
            "--timestamp since --timestamp-unit iso",
        )
    assert asked.files is not None, "one of both is given"
    path, pattern = named_files(asked.files, asked.pattern)
    return FileSource(
        path=path,
        format=asked.format,
        timestamp=asked.timestamp or "",
        key=_one_or_some(asked.key),
        value=_one_or_some(asked.value),
        partition=asked.partition,
        partitions=1 if asked.partitions is None else asked.partitions,
        offset=asked.offset,
        headers=asked.headers,
        timestamp_type=asked.timestamp_type,
        topic_column=asked.topic_column,
        topic=asked.source_topic,
        path_pattern=asked.path_pattern,
        beside=asked.beside,
        order_by=None if asked.order_by is None else tuple(asked.order_by.split(",")),
        timestamp_unit=asked.timestamp_unit,
        pattern=pattern,
        delimiter=asked.delimiter,
        types={} if asked.types is None else csv_types(asked.types),
        key_type=asked.key_type,
        value_type=asked.value_type,
        envelope=asked.envelope,
        null_lines=asked.null_lines,
        columns=asked.columns or None,
        nulls=asked.nulls,
        encoding=asked.encoding,
        decimal_comma=asked.decimal_comma,
        zone=asked.zone,
    )


def _lake_source(asked: LandOptions, catalog: dict[str, str]) -> LakeSource:
    return LakeSource(
        delta=asked.delta,
        iceberg=asked.iceberg,
        version=asked.version,
        snapshot=asked.snapshot,
        layout=asked.layout,
        topic=asked.source_topic,
        partitions=asked.partitions,
        timestamp=asked.timestamp,
        timestamp_unit=asked.timestamp_unit,
        key=_one_or_some(asked.key),
        value=_one_or_some(asked.value),
        key_type=asked.key_type,
        value_type=asked.value_type,
        partition=asked.partition,
        offset=asked.offset,
        headers=asked.headers,
        timestamp_type=asked.timestamp_type,
        topic_column=asked.topic_column,
        zone=asked.zone,
        in_place=asked.in_place,
        catalog=catalog,
    )


def _one_or_some(columns: tuple[str, ...]) -> str | tuple[str, ...] | None:
    return columns[0] if len(columns) == 1 else columns or None


def _serdes(reference: str, topic: str, landed: list[str]) -> Serdes:
    """Key's and value's, of the topic in the topology that ``reference`` names; ``landed``: other topics."""
    from ...settings.topology_loading import load_topology

    topology = load_topology(reference).reading([topic, *landed])
    for node in topology.graph.nodes.values():
        if node.landed_topic == topic:
            return Serdes(node.shape.key, node.shape.value)
    topics = topology.source_topics()
    next_step = did_you_mean(topic, topics, "name another one")
    raise ConfigError(f"--for {reference}", f"a topology that reads {topic}", f"one of {', '.join(topics)}", next_step)


def _gap(gap: tuple[int, int] | None) -> str | None:
    return None if gap is None else f"[{gap[0]}, {gap[1]})"
