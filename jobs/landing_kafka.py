"""Landing from Apache Kafka, by Spark's connector as a batch read of planned offset ranges.

Owns which offsets are new and the read of them. Rule: the plan says ``[from, to)`` of each partition and stands in the
ledger before anything is read, so a retry reads the same. ``to`` is the last stable offset: nothing of an open
transaction, and nothing after it. Offsets that hold no record (compaction, transaction markers, aborted records) are no
gaps. Offsets that the broker deleted before they were landed are a RetentionGap.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from jobs.kafka_offsets import TopicState, topic_state
from state.commit import create_table, transaction_version
from state.errors import ConfigError, LandingError, LedgerConflict, RetentionGap
from state.files import live_files, open_table, read_rows
from state.ledger import LedgerRow
from state.tables import LANDED_SCHEMA, Warehouse

ROWS_PER_FILE = 5_000_000
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic of a broker.

    ``topic``: its name there; None: that of the landed topic. ``options``: client settings as Kafka names them
    (``security.protocol``, …); they are never written down. ``on_gap``: what to do when the broker deleted offsets that
    come next: ``"refuse"`` raises RetentionGap, ``"skip"`` goes on behind them and records them in the ledger.
    A first landing begins at the earliest offset there is.
    """

    bootstrap_servers: str
    topic: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    on_gap: str = "refuse"

    def __post_init__(self) -> None:
        if self.on_gap not in ("refuse", "skip"):
            raise ConfigError("KafkaSource on_gap", '"refuse" or "skip"', repr(self.on_gap), "correct the argument")

    def client_settings(self) -> dict[str, str]:
        """Settings of a Kafka client, with the servers."""
        return {**self.options, "bootstrap.servers": self.bootstrap_servers}


@dataclass(frozen=True)
class KafkaLander:
    """Lands what the broker has after the last landed offsets, at most ``max_records`` offsets."""

    spark: SparkSession
    warehouse: Warehouse
    topic: str
    source: KafkaSource
    max_records: int | None = None
    kind: str = "kafka"

    def __post_init__(self) -> None:
        if self.max_records is not None and self.max_records < 1:
            raise ConfigError("max_records", "at least 1", str(self.max_records), "give a number of records or None")

    @property
    def source_topic(self) -> str:
        """The topic's name at the broker."""
        return self.source.topic or self.topic

    def next_plan(self, rows: list[LedgerRow]) -> dict[str, Any] | None:
        """Ranges from the last landed offsets to the last stable ones; None when they are empty."""
        state = topic_state(self.spark, self.source_topic, self.source.client_settings())
        landed = rows[-1].content if rows else None
        following = {int(p): offset for p, offset in landed["cut_to"].items()} if landed is not None else {}
        self._refuse_other_topic(state, landed, following)
        cut_from = {p: following.get(p, earliest) for p, earliest in state.earliest.items()}
        gaps = self._gaps(state, cut_from)
        begins = {p: gaps[p][1] if p in gaps else first for p, first in cut_from.items()}
        available = {p: state.stable[p] - first for p, first in begins.items()}
        taken = share_out(available, self.max_records)
        if landed is not None and not any(taken.values()) and not gaps and len(following) == len(cut_from):
            return None
        return {
            "partitions": len(cut_from),
            "cut_from": _as_json(cut_from),
            "cut_to": _as_json({p: first + taken[p] for p, first in begins.items()}),
            "gaps": {str(p): list(gap) for p, gap in gaps.items()},
            "source": {"kind": self.kind, "topic": self.source_topic, "topic_id": state.topic_id},
        }

    def write(self, row: LedgerRow, app_id: str) -> dict[str, Any]:
        """Append the planned ranges to the landed table; the gaps known when they were read."""
        state = topic_state(self.spark, self.source_topic, self.source.client_settings())
        self._refuse_other_topic(state, row.content, {})
        cut_to = {int(p): offset for p, offset in row.content["cut_to"].items()}
        cut_from = {int(p): offset for p, offset in row.content["cut_from"].items()}
        gaps = self._planned_gaps(row, state, cut_from, cut_to)
        begins = {p: gaps[p][1] if p in gaps else first for p, first in cut_from.items()}
        path = self.warehouse.landed(self.topic)
        create_table(
            path, LANDED_SCHEMA, partition_by=["partition"], storage_options=self.warehouse.storage_options
        )
        records = self._records(begins, cut_to, row.increment)
        try:
            _append(records, path, app_id, row.increment)
        except (PySparkException, Py4JError) as error:
            raise self._explained(error, row, cut_from, cut_to, app_id) from error
        _check_order(path, row.increment, begins, cut_to, self.warehouse)
        return {"gaps": {str(p): list(gap) for p, gap in gaps.items()}}
