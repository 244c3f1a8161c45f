"""What a company has around its topics: a broker, jobs that append the topics to tables of a lake, an owner of the
tables who clusters and vacuums them.

Owns a bronze Delta table of both topics, written by Spark's Kafka source, and an Iceberg table a topic in the layout of
Redpanda's Iceberg topics, in a catalog that is a file of SQLite. The demo replays these; it writes to none of them.
"""

import io
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Message, TopicPartition
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from examples.broker import Broker
from examples.flights.topics import flights

TOPICS = {"departures": ("origin", 2), "aircraft": ("tail_number", 4)}
"""Topic → column of the key, partitions."""

CATALOG = "lake"
NAMESPACE = "redpanda"
_LEFT_OUT = {"departures": ("tail_number", "minutes_in_air"), "aircraft": ("minutes_late",)}


def nights(months: int, count: int) -> list[pl.DataFrame]:
    """The flights of the first ``months`` months, in scheduled order, in ``count`` parts of as many months or one more
    month each.
    """
    flown = flights().filter(pl.col("month") <= months)
    borders = [months * night // count for night in range(count + 1)]
    return [flown.filter(pl.col("month").is_between(low + 1, high)) for low, high in pairwise(borders)]


def produce(broker: Broker, flown: pl.DataFrame) -> int:
    """Send ``flown`` to both topics, each record at the time of the departure; the number of records."""
    settings = {"queue.buffering.max.messages": 1_000_000, "linger.ms": 20, "partitioner": "murmur2"}
    producer = broker.producer(**settings)
    for topic, (key, _) in TOPICS.items():
        lines = io.BytesIO()
        flown.drop("month", *_LEFT_OUT[topic]).write_ndjson(lines)
        values = lines.getvalue().splitlines()
        for value, name, time_ms in zip(values, flown[key], flown["departed_ms"], strict=True):
            producer.produce(topic, value, name, timestamp=time_ms)
    if left := producer.flush(120):
        raise RuntimeError(f"the broker has not taken {left:,} records within 120 s")
    return len(TOPICS) * len(flown)


class BronzeTable:
    """A Delta table to which Spark's Kafka source appends both topics.

    ``folder``: of the table, and beside it of the query's checkpoint.
    """

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.path = spark, broker, str(folder)
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")  # VACUUM spares nothing here

    def append(self) -> None:
        """What the topics have since the last time, as a job of a night does it."""
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "subscribe": ",".join(TOPICS),
            "startingOffsets": "earliest",
            "includeHeaders": "true",
        }
        stream = self.spark.readStream.format("kafka").options(**options).load().writeStream.format("delta")
        query = stream.option("checkpointLocation", f"{self.path}-checkpoint").trigger(availableNow=True)
        query.start(self.path).awaitTermination()

    def cluster(self) -> None:
        """The owner sorts the rows by key, and deletes the files that they were in."""
        self.spark.sql(f"OPTIMIZE delta.`{self.path}` ZORDER BY (key)")
        self.spark.sql(f"VACUUM delta.`{self.path}` RETAIN 0 HOURS")


class IcebergTables:
    """An Iceberg table a topic, as Redpanda writes it. ``folder``: of the catalog and the tables."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        folder.mkdir(parents=True)
        self.properties = {
            "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}",
        }  # fmt: skip
        self.catalog = SqlCatalog(CATALOG, **self.properties)
        self.catalog.create_namespace(NAMESPACE)
        for topic in TOPICS:
            self.catalog.create_table(f"{NAMESPACE}.{topic}", schema=_rows([]).schema)
        self.next_offsets = {(topic, n): 0 for topic, (_, partitions) in TOPICS.items() for n in range(partitions)}

    def append(self) -> None:
        """What the topics have since the last time."""
        for topic, (_, partitions) in TOPICS.items():
            read = [message for partition in range(partitions) for message in self._new(topic, partition)]
            self.catalog.load_table(f"{NAMESPACE}.{topic}").append(_rows(read))

    def cluster(self) -> None:
        """The owner writes the rows again, sorted by key."""
        for topic in TOPICS:
            table = self.catalog.load_table(f"{NAMESPACE}.{topic}")
            rows = table.scan().to_arrow()
            keys = rows["redpanda"].combine_chunks().field("key").cast(pa.string())
            table.overwrite(rows.take(pc.sort_indices(keys)))

    def close(self) -> None:
        self.catalog.engine.dispose()

    def _new(self, topic: str, partition: int) -> list[Message]:
        settings = {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "lake", "enable.auto.commit": False}
        consumer = Consumer(settings)
        try:
            end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1]
            first = self.next_offsets[topic, partition]
            self.next_offsets[topic, partition] = end
            consumer.assign([TopicPartition(topic, partition, first)])
            read: list[Message] = []
            while len(read) < end - first:
                read += consumer.consume(min(10_000, end - first - len(read)), timeout=30)
            return read
        finally:
            consumer.close()


def _rows(messages: list[Message]) -> pa.Table:
    """In the layout of Redpanda's Iceberg topics (mode ``key_value``)."""
    stamps = [message.timestamp() for message in messages]
    header = pa.struct({"key": pa.string(), "value": pa.binary()})
    columns = {
        "partition": pa.array([message.partition() for message in messages], pa.int32()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([ms * 1_000 for _, ms in stamps], pa.timestamp("us", "UTC")),
        "headers": pa.array([[]] * len(messages), pa.list_(header)),
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "timestamp_type": pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
    }
    coordinates = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return pa.table({"redpanda": coordinates, "value": pa.array([m.value() for m in messages], pa.binary())})
