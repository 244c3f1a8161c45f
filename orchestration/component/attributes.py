"""Attributes of the component, as they are in its ``defs.yaml``.

Owns their names and words, which `dg list components` and editors show. Rule: an attribute is called as the argument of
``replay_definitions`` or the field of the source that it becomes; what contradicts is refused when it is loaded.
"""

from typing import Any, Literal

import dagster as dg
from pydantic import Field

from ...jobs.landing.file_formats import FormatName
from ...jobs.landing.landing import FileSource, KafkaSource, LakeSource, LandingRules
from ...jobs.publish.kafka_target import KafkaTarget
from ...jobs.publish.publishing import ROWS_PER_TRANSACTION, PublishSettings
from ...state.errors import ConfigError
from ..automation.lag_sensor import LagSensor
from ..resources import Engine, LocalEngine, SparkEngine
from ..settings.connections import LandedBy, Source
from ..settings.translator import ReplayTranslator


def said(default: Any, words: str) -> Any:
    """A field of an attribute with its default, and its words."""
    return Field(default=default, description=words)


class KafkaAttributes(dg.Model, dg.Resolvable):
    """A topic of a broker; its password may be `{{ env.NAME }}`."""

    bootstrap_servers: str = Field(description="Addresses of the brokers, host:port, separated by commas.")
    topic: str | None = said(None, "Its name there; default: that of the landed topic.")
    options: dict[str, str] = said({}, "Client settings as Kafka names them: security.protocol …")
    on_gap: Literal["refuse", "skip"] = said("refuse", "What to do when the broker deleted offsets that come next.")


class PublishAttributes(dg.Model, dg.Resolvable):
    """A topic to which an output is published; its password may be `{{ env.NAME }}`."""

    bootstrap_servers: str = Field(description="Addresses of the brokers, host:port, separated by commas.")
    topic: str = Field(description="The topic, which must be there.")
    options: dict[str, str] = said({}, "Client settings as librdkafka names them: security.protocol …")
    position_topic: str | None = said(None, "A compacted topic for the position; default: TOPIC-replay-position.")
    registry: str | None = said(None, "Address of a Schema Registry whose ids are written.")
    registry_options: dict[str, str] = said({}, "Settings of its client, as confluent-kafka names them.")
    register_schemas: bool = said(False, "Register a schema that its subject does not have; else that is refused.")

    def target(self) -> KafkaTarget:
        """As ``replay_definitions`` takes it."""
        return KafkaTarget(**self.model_dump())


class PublishSettingsAttributes(dg.Model, dg.Resolvable):
    """How outputs are published."""

    on_restated: Literal["refuse", "corrections"] = said("refuse", "When published rows were taken back.")
    tombstones: Literal["write", "leave"] = said("write", "Of corrections: for keys and windows that are gone.")
    rows_per_transaction: int = said(ROWS_PER_TRANSACTION, "At most so many rows are in a transaction.")

    def settings(self) -> PublishSettings:
        """As ``replay_definitions`` takes it."""
        return PublishSettings(**self.model_dump())


class LakeAttributes(dg.Model, dg.Resolvable):
    """A table of a lake that has Kafka's partitions and offsets: `delta` or `iceberg`."""

    delta: str | None = said(None, "Path of a Delta table, below the project's root, or a URI.")
    iceberg: str | None = said(None, "catalog.namespace.table, as PyIceberg names it.")
    version: int | None = said(None, "Of the Delta table; default: the newest.")
    snapshot: int | None = said(None, "Of the Iceberg table; default: the current one.")
    layout: Literal["auto", "redpanda", "tableflow", "tableflow-portable", "kafka-connect", "spark"] = said(
        "auto", "Whose columns they are; auto: as the table's columns say."
    )
    topic: str | None = said(None, "What its column of topics says; default: the name of the landed topic.")
    partitions: int | None = said(None, "Partitions of the topic; default: as many as the table has.")
    timestamp: str | None = said(None, "Column of the record time; this and the next win over the layout.")
    timestamp_unit: Literal["ms", "s", "us", "ns", "iso"] = said("ms", "Its unit; iso: ISO 8601 text.")
    key: list[str] | str | None = said(None, "Column of the record's key, or some.")
    value: list[str] | str | None = said(None, "Column of the value, or some.")
    key_type: str | None = said(None, "Write the key as Kafka's serializer of this type does.")
    value_type: str | None = said(None, "Write the value's one column so.")
    partition: str | None = said(None, "Column of the partition.")
    offset: str | None = said(None, "Column of Kafka's offset.")
    headers: str | None = said(None, "Column of the headers: a list of {key, value}, or a map.")
    timestamp_type: str | None = said(None, "Column with CreateTime or LogAppendTime, or 0 or 1.")
    topic_column: str | None = said(None, "Column of the topic: rows of others are left out.")
    zone: str | None = said(None, "Of times that name none, as in Europe/Berlin; default: UTC.")
    in_place: bool = said(False, "Copy nothing: the topic reads the table's files where they are.")
    catalog: dict[str, str] = said({}, "Properties of the Iceberg catalog, over PyIceberg's own configuration.")

    def source(self, root: str) -> LakeSource:
        """``root``: of the project."""
        given = self.model_dump()
        return LakeSource(**given | {"delta": None if self.delta is None else below(root, self.delta)})


class SourceAttributes(dg.Model, dg.Resolvable):
    """Where a topic is landed from: one of `files`, `lake`, `kafka` and `landed_by`. All else is about files."""

    files: str | None = said(None, "Folder of files, below the project's root, or a URI.")
    lake: LakeAttributes | None = said(None, "A Delta or Iceberg table.")
    kafka: KafkaAttributes | None = said(None, "A topic of a broker.")
    landed_by: str | None = said(None, "Another pipeline of the same warehouse, which lands the topic.")
    pattern: str = said("*", "Names of the files that count: *.csv.")
    format: FormatName | None = said(None, "Default: what their extension says.")
    timestamp: str | None = said(None, "Column of the record time.")
    timestamp_unit: Literal["ms", "s", "us", "ns", "iso"] = said("ms", "Its unit; iso: ISO 8601 text.")
    key: list[str] | str | None = said(None, "Column of the record's key, or some; default: keys are null.")
    value: list[str] | None = said(None, "Columns of the value; default: the line, or all of them as JSON.")
    partition: str | None = said(None, "Column of the partition; default: Kafka's murmur2 of the key.")
    partitions: int = said(1, "Partitions of the topic, fixed by its first landing.")
    delimiter: str = said("", "Of CSV (default: a comma), of lines (default: a tab).")
    columns: list[str] | None = said(None, "Names, of lines and of CSV without a header line.")
    types: dict[str, str] = said({}, "CSV column to int, long, double, boolean or json; else it is text.")
    nulls: list[str] = said([""], "CSV fields that mean null.")
    key_type: str | None = said(None, "Write the key as Kafka's serializer of this type does.")
    value_type: str | None = said(None, "Write the value's one column so.")
    offset: str | None = said(None, "Column of Kafka's offset: rows land at it, sorted by it.")
    order_by: list[str] | None = said(None, "Columns by which rows are sorted; default: by names of files.")
    headers: str | None = said(None, "Column of the headers: a list of {key, value}, or a map.")
    timestamp_type: str | None = said(None, "Column with CreateTime or LogAppendTime, or 0 or 1.")
    topic_column: str | None = said(None, "Column of the topic: rows of others are left out.")
    topic: str | None = said(None, "What that column says; default: the name of the landed topic.")
    path_pattern: str | None = said(None, "Columns of the path: confluent, aiven, lenses or a regular expression.")
    beside: list[Literal["keys", "headers"]] = said([], "What is in files of its own beside each file.")
    envelope: Literal["debezium", "connect"] | None = said(None, "The envelope in which rows of JSON lines are.")
    null_lines: Literal["bad", "tombstone"] = said("bad", "What a line null is: tombstone deletes the key before it.")
    encoding: str = said("utf-8", "Of CSV and lines, as in cp1252.")
    decimal_comma: bool = said(False, "Fractions of CSV and lines have a comma.")
    zone: str | None = said(None, "Of times that name none, as in Europe/Berlin; default: UTC.")

    def source(self, topic: str, root: str) -> Source | LandedBy:
        """What ``replay_definitions`` takes for it. ``root``: of the project. Raises ConfigError unless it is one of
        `files`, `lake`, `kafka` and `landed_by`, and for a mapping that cannot be.
        """
        given = [name for name in ("files", "lake", "kafka", "landed_by") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ConfigError(
                f"sources: {topic}", "one of files, lake, kafka and landed_by", ", ".join(given) or "none",
                "give one of them",
            )  # fmt: skip
        if self.files is None:
            self._refuse_beside(topic, *given)
        if self.landed_by is not None:
            return LandedBy(self.landed_by)
        if self.kafka is not None:
            return KafkaSource(**self.kafka.model_dump())
        if self.lake is not None:
            return self.lake.source(root)
        rest = self.model_dump(exclude={"files", "lake", "kafka", "landed_by", "value", "timestamp"})
        value = self.value[0] if self.value is not None and len(self.value) == 1 else self.value
        assert self.files is not None
        path = below(root, self.files)
        return FileSource(path, timestamp=self.timestamp or "", value=value, **rest)  # type: ignore[arg-type]

    def _refuse_beside(self, topic: str, given: str) -> None:
        """ConfigError for what is about files beside the source ``given``, which would not see it."""
        fields = type(self).model_fields
        beside = [name for name, field in fields.items() if name != given and getattr(self, name) != field.default]
        if beside:
            known = getattr(type(getattr(self, given)), "model_fields", {})  # of lake and kafka; landed_by is a name
            meant = [name for name in beside if name in known]
            raise ConfigError(
                f"sources: {topic}", f"nothing of files beside {given}", ", ".join(beside),
                f"indent {', '.join(meant)} below {given}, or leave it out" if meant else "leave it out",
            )  # fmt: skip


class LandingAttributes(dg.Model, dg.Resolvable):
    """How a landing handles bad input."""

    on_bad_row: Literal["dead_letter", "stop"] = said("dead_letter", "What becomes of a row that does not fit.")
    on_disorder: Literal["warn", "stop"] = said("warn", "What the landing does where times go back between files.")
    max_late_share: float = said(0.0, "It stops only where the order of files makes more of the records late.")
    on_change: Literal["refuse", "ignore", "erase"] = said(
        "refuse", "What it does where landed records are gone from a table."
    )
    max_bad_share: float = said(0.01, "The landing stops where more than this share does not fit.")
    max_future: str | None = said(None, 'Records later than the clock by more are put aside: "1d".')
    plausible_since: str = said("1980-01-01", "The landing warns of records before this day.")

    def rules(self) -> LandingRules:
        """As a landing takes them."""
        return LandingRules(**self.model_dump())


class SparkAttributes(dg.Model, dg.Resolvable):
    """Spark, where the engine is Spark."""

    master: str | None = said(None, "Default: the environment's REPLAY_SPARK_MASTER, else all cores here.")
    settings: dict[str, str] = said({}, "Settings of Spark.")


def engine_of(name: str, spark: SparkAttributes) -> Engine:
    """The engine called ``name``. Raises ConfigError for settings of Spark beside the local engine."""
    if name == "spark":
        return SparkEngine(master=spark.master, settings=spark.settings)
    if spark.master is not None or spark.settings:
        raise ConfigError("spark", "no settings of Spark beside `engine: local`", "some", "leave one of them out")
    return LocalEngine()


class CheckAttributes(dg.Model, dg.Resolvable):
    """How guarantees are checked."""

    engine: Literal["gx", "plain"] = said("gx", "Great Expectations, or plain SQL, which begins at once.")
    expectations: str | None = said(None, "Folder of suites of your own, below the project's root (docs/quality.md).")
    data_docs: str | None = said(None, "Folder for Great Expectations' pages, below the project's root, or a URI.")
    refused_max: float = said(0.01, "Above it refused and undecodable records are an alarm, from 0 to 1.")
    refused_severity: Literal["warning", "error"] = said("warning", "Of this alarm; an error fails the run.")
    fresh_within: str | None = said(None, 'Warn when stream time is further behind the clock: "2h".')
    freshness_policy: bool = said(False, "Dagster's own policy too: an output fails with nothing new for so long.")
    verify_increments: int | None = said(None, "Every run runs so many increments again, cut otherwise.")
    production: dict[str, str] = said({}, "Of outputs the landed topics that a live application wrote, to compare.")


class SensorAttributes(dg.Model, dg.Resolvable):
    """When a run is started by what is new: `sensor: {}` for these defaults."""

    min_records: int = said(1, "So many records at the broker, or landed and not replayed.")
    min_files: int = said(1, "Or so many new files.")
    max_wait: str = said("1h", "Less than that waits no longer than this.")
    every: str = said("1m", "Time between two looks.")
    starts_on: bool = said(False, "Whether it is on when definitions are loaded.")

    def sensor(self) -> LagSensor:
        """As ``replay_definitions`` takes it."""
        return LagSensor(**self.model_dump())


class TranslatorAttributes(dg.Model, dg.Resolvable):
    """What assets are called, and what is on their pages."""

    key_prefix: list[str] = said([], "Before every asset key.")
    group: str | None = said(None, "Of all assets; default: one of the pipeline's name.")
    internal_group: str | None = said(None, "Of stores and repartition tables that the topology does not name.")
    owners: list[str] = said([], 'Mail addresses, or teams: "team:web".')
    tags: dict[str, str] = said({}, "Of all assets.")
    kinds: list[str] = said([], "Added to those of engine and files.")
    descriptions: dict[str, str] = said({}, "Table, topic or store to its text.")

    def translator(self) -> ReplayTranslator:
        """As ``replay_definitions`` takes it."""
        return ReplayTranslator(**self.model_dump())


def below(root: str, path: str) -> str:
    """``path``, where it is neither a URI nor absolute, below ``root``."""
    return path if "://" in path or path.startswith("/") else f"{root}/{path}"
