"""What the command `land` does. Rule: as in `orchestration/cli/describe_commands.py`; Spark is imported where landing
needs it.
"""

from argparse import Namespace
from typing import TYPE_CHECKING

from ...jobs.landing.landing import FileSource, KafkaSource, LandingReport, land_files, land_kafka
from ...jobs.landing.recorded_time import record_idle
from ...state.errors import ConfigError
from ...state.tables.warehouse import Warehouse
from ...state.times import duration_ms
from ..text_tables import text_table
from .advance_command import print_recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def land(options: Namespace) -> int:
    """Land what is new in one topic."""
    warehouse, source = Warehouse(options.warehouse), _source(options)
    if isinstance(source, KafkaSource):
        if options.local:
            raise ConfigError(
                f"topic {options.topic!r}", "Spark, whose connector reads Kafka", "--local", "leave it out"
            )
        report = land_kafka(_spark(options), warehouse, options.topic, source, max_records=options.max_records)
    else:
        report = land_files(None if options.local else _spark(options), warehouse, options.topic, source)
    _print_landed(report)
    if options.idle_after is not None:
        recorded = record_idle(warehouse, options.topic, duration_ms(options.idle_after, "--idle-after"))
        print_recorded(options.topic, recorded)
    return 0


def _print_landed(report: LandingReport) -> None:
    if not report.increments:
        print(f"{report.topic}: nothing new")
        return
    increments = ", ".join(map(str, report.increments))
    print(f"{report.topic}: {report.records:,} records landed in {report.seconds:.1f} s (increment {increments})")
    spans = [
        {"partition": p, "from": report.cut_from.get(p, 0), "to": end, "gone": _gap(report.gaps.get(p))}
        for p, end in report.cut_to.items()
    ]
    print(text_table(spans, ["partition", "from", "to", *(["gone"] if report.gaps else [])]))


def _source(options: Namespace) -> FileSource | KafkaSource:
    if options.kafka is not None:
        pairs = [option.partition("=") for option in options.option]
        settings = {name: value for name, _, value in pairs}
        return KafkaSource(options.kafka, topic=options.source_topic, options=settings, on_gap=options.on_gap)
    if options.timestamp is None:
        raise ConfigError(
            f"topic {options.topic!r}", "the column of the record time", "none", "name it with --timestamp COLUMN"
        )
    value = options.value
    return FileSource(
        path=options.files,
        format=options.format,
        timestamp=options.timestamp,
        key=options.key,
        value=value[0] if value is not None and len(value) == 1 else tuple(value) if value else None,
        partition=options.partition,
        partitions=options.partitions,
        timestamp_unit=options.timestamp_unit,
        pattern=options.pattern,
        delimiter=options.delimiter,
    )


def _gap(gap: tuple[int, int] | None) -> str | None:
    return None if gap is None else f"[{gap[0]}, {gap[1]})"


def _spark(options: Namespace) -> "SparkSession":
    from ...jobs.execution.spark_session import open_spark

    return open_spark(options.master)
