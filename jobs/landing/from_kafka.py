"""Landing from Apache Kafka, by Spark's connector as a batch read of planned offset ranges.

Owns which offsets are new and the read of them. Rule: the plan says ``[from, to)`` of each partition and is in the
ledger before anything is read, so a retry reads the same. ``to`` is the last stable offset: nothing of an open
transaction, and nothing after it. Offsets that hold no record (compaction, transaction markers, aborted records) are no
gaps. Offsets that the broker deleted before they were landed are a RetentionGap.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ...state.errors import ConfigError, LandingError, LedgerConflict, RetentionGap
from ...state.tables.commit import commit_files, properties_of, transaction_version
from ...state.tables.data_files import live_files, open_table, read_rows
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from .file_source import KAFKA_OFFSETS
from .files.columns import time_text
from .kafka_offsets import TopicState, topic_state
from .kafka_source import KafkaSource
from .landing_rules import LandingRules, RowRules

ROWS_PER_FILE = 5_000_000
_HEADERS = "array<struct<key: string, value: binary>>"
_OFFSET_ONLY = pa.schema([LANDED_SCHEMA.field("offset")])
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


@dataclass(frozen=True)
class KafkaLander:
    """Lands what the broker has after the last landed offsets, at most ``max_records`` offsets."""

    spark: SparkSession
    warehouse: Warehouse
    topic: str
    source: KafkaSource
    max_records: int | None = None
    rules: LandingRules = field(default_factory=LandingRules)
    kind: str = "kafka"
    schema = LANDED_SCHEMA
    known_offsets = KAFKA_OFFSETS

    def __post_init__(self) -> None:
        if self.max_records is not None and self.max_records < 1:
            raise ConfigError("max_records", "at least 1", str(self.max_records), "give a number of records or None")

    @property
    def source_topic(self) -> str:
        """The topic's name at the broker."""
        return self.source.topic or self.topic

    def next_plan(
        self, last: LedgerRow[LandingDoneRow] | None, _planned: object, clock_ms: int, *, must: bool, warn: object
    ) -> LandingPlanRow | None:
        """Ranges from the last landed offsets to the last stable ones; None when they are empty."""
        state = topic_state(self.spark, self.source_topic, self.source.client_settings())
        landed = None if last is None else last.content
        following = {int(p): offset for p, offset in landed.cut_to.items()} if landed is not None else {}
        self._refuse_other_topic(state, landed, following)
        cut_from = {p: following.get(p, earliest) for p, earliest in state.earliest.items()}
        gaps = self._gaps(state, cut_from)
        begins = _behind(gaps, cut_from)
        available = {p: state.stable[p] - first for p, first in begins.items()}
        taken = share_out(available, self.max_records)
        is_quiet = landed is not None and not any(taken.values()) and not gaps and len(following) == len(cut_from)
        if is_quiet and not must:
            return None
        return LandingPlanRow(
            partitions=len(cut_from),
            cut_from=_as_json(cut_from),
            cut_to=_as_json({p: first + taken[p] for p, first in begins.items()}),
            gaps={str(p): list(gap) for p, gap in gaps.items()},
            source={**_mapping_of(landed), "kind": self.kind, "topic": self.source_topic, "topic_id": state.topic_id},
            rules=RowRules(latest_ms=self.rules.latest_ms(clock_ms)).to_dict(),
        )

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Append the planned ranges to the landed table; the gaps known when they were read."""
        state = topic_state(self.spark, self.source_topic, self.source.client_settings())
        self._refuse_other_topic(state, row.content, {})
        cut_to = {int(p): offset for p, offset in row.content.cut_to.items()}
        cut_from = {int(p): offset for p, offset in row.content.cut_from.items()}
        gaps = self._planned_gaps(row, state, cut_from, cut_to)
        begins = _behind(gaps, cut_from)
        path = self.warehouse.landed(self.topic)
        ranges = {p: (begin, cut_to[p]) for p, begin in begins.items() if begin < cut_to[p]}
        if ranges:
            try:
                self._append_ranges(ranges, row, app_id)
            except (PySparkException, Py4JError) as error:
                raise self._explained(error, row, cut_from, cut_to, app_id) from error
            _check_order(path, row.increment, begins, cut_to, self.warehouse)
        else:
            commit_files(path, LANDED_SCHEMA, [], app_id=app_id, increment=row.increment)
        return {"gaps": {str(p): list(gap) for p, gap in gaps.items()}}

    def _append_ranges(
        self, ranges: Mapping[int, tuple[int, int]], row: LedgerRow[LandingPlanRow], app_id: str
    ) -> None:
        """Records that are later than the plan allows become dead letters, before the others are committed."""
        records = self._records(ranges, row.increment)
        latest_ms = RowRules.from_dict(row.content.rules or {}).latest_ms
        if latest_ms is not None:
            late = _dead_letters(records.where(f.col("timestamp") > latest_ms), latest_ms)
            if not late.isEmpty():
                _append(late, self.warehouse.landed_dead_letter(self.topic), app_id, row.increment, order="line")
            records = records.where(f.col("timestamp") <= latest_ms)
        _append(records, self.warehouse.landed(self.topic), app_id, row.increment)

    def _records(self, ranges: Mapping[int, tuple[int, int]], increment: int) -> DataFrame:
        """Rows of the landed table for the ranges, one Spark task each range."""
        name = self.source_topic
        options = {
            "assign": json.dumps({name: sorted(ranges)}),
            "startingOffsets": json.dumps({name: {str(p): begin for p, (begin, _) in ranges.items()}}),
            "endingOffsets": json.dumps({name: {str(p): end for p, (_, end) in ranges.items()}}),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "kafka.max.poll.records": "5000",
            **{f"kafka.{key}": setting for key, setting in self.source.client_settings().items()},
            "kafka.isolation.level": "read_committed",
        }
        read = self.spark.read.format("kafka").options(**options).load()
        kind = f.lit(None).cast("string")
        for code, word in _TIMESTAMP_TYPES.items():
            kind = f.when(f.col("timestampType") == code, word).otherwise(kind)
        return read.select(
            f.col("partition"),
            f.col("offset"),
            f.unix_millis("timestamp").alias("timestamp"),
            kind.alias("timestamp_type"),
            f.col("key"),
            f.col("value"),
            f.coalesce(f.col("headers"), f.array().cast(_HEADERS)).alias("headers"),
            f.lit(increment).cast("long").alias("increment"),
        )

    def _gaps(self, state: TopicState, cut_from: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Offsets ``[from, to)`` that come next and are gone; RetentionGap unless they are to be skipped."""
        gaps = {p: (first, state.earliest[p]) for p, first in cut_from.items() if state.earliest[p] > first}
        return self._skipped(gaps)

    def _skipped(self, gaps: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        if gaps and self.source.on_gap == "refuse":
            gone = ", ".join(f"[{first}, {to}) of partition {p}" for p, (first, to) in gaps.items())
            next_offsets = ", ".join(f"{first} in partition {p}" for p, (first, _) in gaps.items())
            raise RetentionGap(
                f"topic {self.topic}",
                f"next offset {next_offsets}",
                f"deleted by the broker's retention before they were landed: {gone}",
                'to continue without them land with on_gap="skip", which records the gap in the ledger',
            )
        return gaps

    def _planned_gaps(
        self, row: LedgerRow[LandingPlanRow], state: TopicState, cut_from: Mapping[int, int], cut_to: Mapping[int, int]
    ) -> dict[int, tuple[int, int]]:
        """Gaps of the plan, and what the broker has deleted of the planned ranges since."""
        gaps = {int(p): (first, to) for p, (first, to) in row.content.gaps.items()}
        begins = _behind(gaps, cut_from)
        grown = {p for p, begin in begins.items() if begin < min(state.earliest[p], cut_to[p])}
        return gaps | self._skipped({p: (cut_from[p], min(state.earliest[p], cut_to[p])) for p in sorted(grown)})

    def _refuse_other_topic(
        self, state: TopicState, landed: LandingDoneRow | LandingPlanRow | None, following: Mapping[int, int]
    ) -> None:
        if landed is not None and landed.source.get("topic_id", state.topic_id) != state.topic_id:
            raise LandingError(
                f"topic {self.topic}",
                f"the topic of id {landed.source['topic_id']}, from which it has been landed",
                f"{self.source_topic} of id {state.topic_id}, created again: its offsets mean other records",
                "land it into a topic of another name",
            )
        if missing := sorted(p for p in following if p not in state.stable):
            raise LandingError(
                f"topic {self.topic}",
                f"{len(following)} partitions, as landed before",
                f"{self.source_topic} without partition {missing[0]}",
                "correct the topic's name (--source-topic), or land it into a topic of another name",
            )
        for p, offset in following.items():
            if state.stable[p] < offset:
                raise LandingError(
                    f"topic {self.topic}, partition {p}",
                    f"offsets up to {offset}, which are landed",
                    f"an end at {state.stable[p]}: the broker lost records",
                    "land the topic again under another name, or wait until the broker has its replica back",
                )

    def _explained(
        self,
        error: Exception,
        row: LedgerRow[LandingPlanRow],
        cut_from: Mapping[int, int],
        cut_to: Mapping[int, int],
        app_id: str,
    ) -> Exception:
        """What made the write fail, if it is one of the things that are known to."""
        path = self.warehouse.landed(self.topic)
        if transaction_version(path, app_id) == row.increment:
            return LedgerConflict(
                path,
                f"increment {row.increment} not committed yet",
                "a commit of another runner",
                "let the other runner finish, then land the topic again",
            )
        state = topic_state(self.spark, self.source_topic, self.source.client_settings())
        self._refuse_other_topic(state, row.content, {})
        self._planned_gaps(row, state, cut_from, cut_to)
        return LandingError(
            f"topic {self.topic}, increment {row.increment}",
            f"the records up to {dict(cut_to)}",
            str(error).splitlines()[0],
            "land the topic again: the plan is kept and reads the same offsets",
        )


def share_out(available: Mapping[int, int], limit: int | None) -> dict[int, int]:
    """How many offsets of each partition to take: all, or ``limit`` in all, as equal as they can be."""
    left = sum(available.values()) if limit is None else limit
    taken = {}
    for place, p in enumerate(sorted(available, key=lambda p: (available[p], p))):
        taken[p] = min(available[p], left // (len(available) - place))
        left -= taken[p]
    return taken if limit is not None else dict(available)


def _dead_letters(late: DataFrame, latest_ms: int) -> DataFrame:
    """Rows of `landed_dead_letter/<topic>`: ``line`` is the offset."""
    got = f.date_format(f.timestamp_millis("timestamp"), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    return late.select(
        "partition",
        "increment",
        f.lit(None).cast("string").alias("file"),
        f.col("offset").alias("line"),
        f.col("value").alias("bytes"),
        f.concat(f.lit(f"expected a time up to {time_text(latest_ms)}, got "), got).alias("reason"),
        "timestamp",
        "key",
        "headers",
    )


def _append(records: DataFrame, path: str, app_id: str, increment: int, order: str = "offset") -> None:
    """Delta's append, once per (app id, increment). Sorted here, because a writer's own sort may mix equal keys.

    The first one creates the table: a table that somebody else created is read by Spark for a second before it appends.
    """
    (
        records.sortWithinPartitions("partition", order)
        .write.format("delta")
        .mode("append")
        .partitionBy("partition")
        .options(**properties_of(path))  # of a new table
        .option("txnAppId", app_id)
        .option("txnVersion", increment)
        .option("maxRecordsPerFile", ROWS_PER_FILE)
        .save(path)
    )


def _check_order(
    path: str, increment: int, begins: Mapping[int, int], cut_to: Mapping[int, int], warehouse: Warehouse
) -> None:
    """Read back: each file rises strictly by offset, and files of a partition follow each other inside the cut."""
    table = open_table(path)
    assert table is not None, f"{path}: written, yet not there"
    following = dict(begins)
    for file in live_files(table):
        if file.bounds.get("increment") != (increment, increment):
            continue
        offset = read_rows(path, [file], _OFFSET_ONLY).column("offset").to_numpy()
        assert np.all(np.diff(offset) > 0), f"{path}/{file.path}: not in offset order"
        assert offset[0] >= following[file.partition], f"{path}/{file.path}: overlaps, or begins before the cut"
        assert offset[-1] < cut_to[file.partition], f"{path}/{file.path}: goes behind the cut"
        following[file.partition] = int(offset[-1]) + 1


def _behind(gaps: Mapping[int, tuple[int, int]], cut_from: Mapping[int, int]) -> dict[int, int]:
    """Where reading begins: behind the gap of a partition that has one."""
    return {p: gaps[p][1] if p in gaps else first for p, first in cut_from.items()}


def _mapping_of(landed: LandingDoneRow | None) -> dict[str, Any]:
    """The mapping of files that have landed before, for those that may come again."""
    kept = {} if landed is None else landed.source
    return {name: kept[name] for name in ("mapping", "offsets") if name in kept}


def _as_json(cut: Mapping[int, int]) -> dict[str, int]:
    return {str(p): offset for p, offset in sorted(cut.items())}
