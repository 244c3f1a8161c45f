"""An application's settings by Kafka's names: which are honoured, which are harmless, which are refused and why."""

from pathlib import Path

import polars as pl
import pytest

from kstreams_replay import (
    Consumed,
    LogAndContinueExceptionHandler,
    LogAndSkipOnInvalidTimestamp,
    Materialized,
    Serde,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from kstreams_replay.jobs.topology.client_settings import CLIENT_SETTINGS
from kstreams_replay.jobs.topology.streams_config import DECIDING, HARMLESS
from kstreams_replay.state.errors import ConfigError, InvalidTimestamp, TopologyError

TEXT = Serde.string()

KAFKA = [
    "acceptable.recovery.lag",
    "allow.os.group.write.access",
    "application.id",
    "application.server",
    "bootstrap.servers",
    "buffered.records.per.partition",
    "built.in.metrics.version",
    "cache.max.bytes.buffering",
    "client.id",
    "commit.interval.ms",
    "config.providers",
    "connections.max.idle.ms",
    "default.client.supplier",
    "default.deserialization.exception.handler",
    "default.dsl.store",
    "default.key.serde",
    "default.list.key.serde.inner",
    "default.list.key.serde.type",
    "default.list.value.serde.inner",
    "default.list.value.serde.type",
    "default.production.exception.handler",
    "default.timestamp.extractor",
    "default.value.serde",
    "deserialization.exception.handler",
    "dsl.store.format",
    "dsl.store.suppliers.class",
    "enable.metrics.push",
    "ensure.explicit.internal.resource.naming",
    "errors.dead.letter.queue.topic.name",
    "group.protocol",
    "log.summary.interval.ms",
    "max.task.idle.ms",
    "max.warmup.replicas",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "num.standby.replicas",
    "num.stream.threads",
    "poll.ms",
    "probing.rebalance.interval.ms",
    "processing.exception.handler",
    "processing.exception.handler.global.enabled",
    "processing.guarantee",
    "processor.wrapper.class",
    "production.exception.handler",
    "rack.aware.assignment.non_overlap_cost",
    "rack.aware.assignment.strategy",
    "rack.aware.assignment.tags",
    "rack.aware.assignment.traffic_cost",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "repartition.purge.interval.ms",
    "replication.factor",
    "request.timeout.ms",
    "retry.backoff.ms",
    "rocksdb.config.setter",
    "security.protocol",
    "send.buffer.bytes",
    "state.cleanup.delay.ms",
    "state.cleanup.dir.max.age.ms",
    "state.dir",
    "statestore.cache.max.bytes",
    "task.assignor.class",
    "task.timeout.ms",
    "topology.optimization",
    "upgrade.from",
    "window.size.ms",
    "windowed.inner.class.serde",
    "windowstore.changelog.additional.retention.ms",
]
"""All names that StreamsConfig of Kafka Streams 4.3 defines (``StreamsConfig.configDef()``)."""
SINCE_4_4 = [
    "default.interactive.query.isolation.level",
    "enable.transactional.statestores",
    "statestore.uncommitted.max.bytes",
    "topology.description.push.enabled",
]
"""Names of 4.4.0's constants that 4.3.0 has not (``StreamsConfig``, by javap)."""

CLIENTS = [
    "acks",
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "batch.size",
    "bootstrap.controllers",
    "bootstrap.resolve.timeout.ms",
    "bootstrap.servers",
    "buffer.memory",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "config.providers",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.idempotence",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "internal.throw.on.fetch.stable.offset.unsupported",
    "isolation.level",
    "key.deserializer",
    "key.serializer",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "security.protocol",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "ssl.keystore.location",
    "ssl.protocol",
    "transaction.timeout.ms",
    "transaction.two.phase.commit.enable",
    "transactional.id",
    "value.deserializer",
    "value.serializer",
    "schema.registry.url",
    "basic.auth.credentials.source",
    "auto.register.schemas",
    "specific.avro.reader",
    "use.latest.version",
    "key.subject.name.strategy",
    "value.subject.name.strategy",
    "json.value.type",
    "specific.protobuf.value.type",
    "spring.json.trusted.packages",
]
"""Names of ConsumerConfig, ProducerConfig and AdminClientConfig of Kafka 4.3 (``configNames()``; two of ssl. and of
sasl. each), of KIP-909 (4.4), and of serializers beside a registry.
"""
CLIENTS_REFUSED = {
    "auto.offset.reset": ("latest", "a replay reads a topic from its first landed record on"),
    "consumer.auto.offset.reset": ("latest", "a replay reads a topic from its first landed record on"),
    "main.consumer.auto.offset.reset": ("none", "a replay reads a topic from its first landed record on"),
    "interceptor.classes": ("my.Interceptor", "what one changes, do in a step"),
    "consumer.interceptor.classes": (["my.Interceptor"], "what one changes, do in a step"),
    "global.consumer.interceptor.classes": ("my.Interceptor", "what one changes, do in a step"),
    "producer.interceptor.classes": ("my.Interceptor", "what one changes, do in a step"),
    "partitioner.class": ("org.apache.kafka.clients.producer.RoundRobinPartitioner", r"to\(topic, partitioner=…\)"),
    "producer.partitioner.class": ("my.Partitioner", r"to\(topic, partitioner=…\)"),
    "partitioner.ignore.keys": (True, r"to\(topic, partitioner=…\)"),
    "default.windowed.key.serde.inner": ("x", r"Serde.time_windowed\(inner, size\)"),
    "default.windowed.value.serde.inner": ("x", r"Serde.time_windowed\(inner, size\)"),
}
CLIENTS_AS_HERE = {"auto.offset.reset": "earliest", "interceptor.classes": "", "partitioner.ignore.keys": "false"}

HONOURED = {
    "default.deserialization.exception.handler": LogAndContinueExceptionHandler,
    "default.dsl.store": "in_memory",
    "default.key.serde": Serde.long(),
    "default.production.exception.handler": "org.apache.kafka.streams.errors.DefaultProductionExceptionHandler",
    "default.timestamp.extractor": "org.apache.kafka.streams.processor.FailOnInvalidTimestamp",
    "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "deserialization.exception.handler": LogAndContinueExceptionHandler,
    "dsl.store.suppliers.class": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
    "errors.dead.letter.queue.topic.name": "letters",
    "max.task.idle.ms": 5_000,
    "processing.exception.handler": LogAndContinueExceptionHandler,
    "production.exception.handler": LogAndContinueExceptionHandler,
}
REFUSED = {
    "cache.max.bytes.buffering": (10_485_760, "there are no record caches, whose updates no replay could repeat"),
    "default.list.key.serde.inner": ("x", r"Serde.list\(inner\)"),
    "default.list.key.serde.type": ("x", r"Serde.list\(inner\)"),
    "default.list.value.serde.inner": ("x", r"Serde.list\(inner\)"),
    "default.list.value.serde.type": ("x", r"Serde.list\(inner\)"),
    "dsl.store.format": ("HEADERS", "stores of the DSL keep no headers"),
    "processing.exception.handler.global.enabled": (True, "a failure in the processor of a global store ends the run"),
    "processor.wrapper.class": ("my.Wrapper", "nothing is wrapped around processors"),
    "statestore.cache.max.bytes": (10, r"suppress\(\) holds updates back, by the records' times"),
    "topology.optimization": ("all", "a topology runs as it is written"),
    "window.size.ms": (10, r"Serde.time_windowed\(inner, size\)"),
    "windowed.inner.class.serde": ("x", r"Serde.time_windowed\(inner, size\)"),
}


def test_every_setting_of_kafka_streams_is_honoured_harmless_or_refused():
    assert sorted([*KAFKA, *SINCE_4_4]) == sorted([*HONOURED, *REFUSED, *(name for name in HARMLESS)])
    assert set(REFUSED) <= set(DECIDING)


def test_a_whole_configuration_of_harmless_and_honoured_settings_is_taken():
    harmless = dict.fromkeys((name for name in [*KAFKA, *SINCE_4_4] if name not in {*HONOURED, *REFUSED}), "as it was")
    clients = {"consumer.max.poll.records": 5, "producer.acks": "all", "schema.registry.url": "mock://x",
               "sasl.jaas.config": "…", "auto.offset.reset": "earliest", "statestore.cache.max.bytes": 0}  # fmt: skip

    StreamsBuilder(config=harmless | HONOURED | clients)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_setting_of_clients_or_serdes_without_a_prefix_is_taken(name):
    StreamsBuilder(config={name: CLIENTS_AS_HERE.get(name, None if name == "partitioner.class" else "as it was")})


def test_settings_of_consumers_that_kafka_streams_sets_itself_are_taken():
    StreamsBuilder(config={"restore.consumer.auto.offset.reset": "none", "global.consumer.auto.offset.reset": "none"})


@pytest.mark.parametrize("name", REFUSED | CLIENTS_REFUSED)
def test_what_decides_results_and_is_not_followed_says_what_to_do(name):
    value, why = (REFUSED | CLIENTS_REFUSED)[name]

    with pytest.raises(ConfigError, match=f"StreamsBuilder config {name}: .*{why}"):
        StreamsBuilder(config={name: value})


class ExtractorOfField:
    def __init__(self, field):
        self.field = field

    def extract(self, record, partition_time_ms):
        return record.value[self.field]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            {"max.task.idle.ms": -1},
            "since it decides the order of records, got -1; leave it out: .*--idle proceed",
        ),
        ({"auto.offset.reset": "latest"}, "a replay reads a topic from its first landed record on"),
        ({"aplication.id": "a"}, "got 'aplication.id'; did you mean 'application.id'?"),
        ({"specific.avro.raeder": True}, "got 'specific.avro.raeder'; did you mean 'specific.avro.reader'?"),
        ({"linger.msec": 5}, "got 'linger.msec'; did you mean 'linger.ms'?"),
        ({"my.topic": "a"}, "got 'my.topic'; leave it out, or read it where the topology is built"),
        ({"default.timestamp.extractor": "my.Extractor"}, "got 'my.Extractor'; give a callable of"),
        ({"default.timestamp.extractor": 5}, "expected a timestamp extractor, got 5"),
        ({"default.timestamp.extractor": ExtractorOfField}, r"give an object of it: ExtractorOfField\(…\)"),
        ({"default.key.serde": "my.AvroSerde"}, "got 'my.AvroSerde'; give a serde, for example"),
        ({"default.dsl.store": "lucene"}, "got 'lucene'; give Materialized.as_"),
        ({"dsl.store.suppliers.class": "my.Suppliers"}, "got 'my.Suppliers'; give Materialized.as_"),
    ],
)
def test_what_nobody_can_follow_is_refused(config, why):
    with pytest.raises(ConfigError, match=why):
        StreamsBuilder(config=config)


def test_the_clock_of_the_machine_is_no_time_of_records():
    config = {"default.timestamp.extractor": "org.apache.kafka.streams.processor.WallclockTimestampExtractor"}
    builder = StreamsBuilder(config=config)

    with pytest.raises(TopologyError, match="land the records with the time at which they came"):
        builder.stream("in", Consumed(TEXT, TEXT))


class FromValue:
    """As a class of Kafka's interface is ported."""

    def extract(self, record, partition_time_ms):
        return int(record.value)


@pytest.mark.parametrize(
    "extractor",
    [FromValue, FromValue(), lambda record: int(record.value), pl.col("value").cast(pl.Int64),
     LogAndSkipOnInvalidTimestamp(pl.col("value").cast(pl.Int64))],
)  # fmt: skip
def test_the_default_extractor_gives_times_to_sources_without_their_own(extractor):
    builder = StreamsBuilder(config={"default.timestamp.extractor": extractor})
    builder.stream("in", Consumed(TEXT, TEXT)).to("out")
    builder.table("table", Consumed(TEXT, TEXT)).to_stream().to("rows")
    builder.stream("own", Consumed(TEXT, TEXT, timestamp_extractor="record_time_ms + 1")).to("later")
    driver = TopologyTestDriver(builder.build())
    for topic in ("in", "table", "own"):
        driver.pipe_input(topic, "k", "700", 5)

    assert [driver.read_output(name).timestamp_ms for name in ("out", "rows", "later")] == [700, 700, 6]


def test_the_default_extractor_of_kafka_ends_the_run_on_a_negative_time():
    builder = StreamsBuilder(config={"default.timestamp.extractor": "FailOnInvalidTimestamp"})
    builder.stream("in", Consumed(TEXT, TEXT)).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", -1)

    with pytest.raises(InvalidTimestamp):
        driver.run()


@pytest.mark.parametrize(
    ("config", "materialized", "is_late_taken"),
    [
        ({}, None, True),  # RocksDB forgets by whole segments of at least a minute
        ({"default.dsl.store": "in_memory"}, None, False),
        ({"default.dsl.store": "rocksDB"}, None, True),
        ({"default.dsl.store": "in_memory"}, Materialized(store="persistent"), True),
        ({"dsl.store.suppliers.class": "RocksDBDslStoreSuppliers", "default.dsl.store": "in_memory"}, None, True),
    ],
)
def test_the_default_store_says_when_windows_expire(config, materialized, is_late_taken):
    """Two streams share the store, each with a stream time of its own: the late one finds its window, or not."""
    builder = StreamsBuilder(config=config)
    one, other = (builder.stream(topic, Consumed(TEXT, TEXT)).group_by_key() for topic in ("one", "other"))
    both = one.cogroup(lambda k, v, a: a + 1).cogroup(other, lambda k, v, a: a + 1)
    options = {} if materialized is None else {"materialized": materialized}
    both.windowed_by(TimeWindows.of_size(10)).aggregate(lambda: 0, returns=Serde.long(), **options).to_stream().to(
        "out"
    )
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("one", "k", "v", 30_000)
    driver.pipe_input("other", "k", "v", 5)
    driver.run()

    assert [one.reason for one in driver.dropped] == ([] if is_late_taken else ["expired-in-store"])


def test_sources_without_a_consumed_have_the_default_serdes():
    config = {"default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
              "default.value.serde": Serde.long()}  # fmt: skip
    builder = StreamsBuilder(config=config)
    table = builder.table("table")
    builder.stream("in").join(table, "left + right").to("out")
    joined = builder.global_table("everywhere")
    builder.stream(["more"]).join(joined, "left + right", selector="record_key").to("more-out")
    driver = TopologyTestDriver(builder.build())
    for topic, value in (("table", 2), ("everywhere", 5), ("in", 40), ("more", 60)):
        driver.pipe_input(topic, "k", value, 5)

    assert [driver.read_output(name).value for name in ("out", "more-out")] == [42, 65]


def test_without_default_serdes_a_source_needs_a_consumed():
    with pytest.raises(TopologyError, match="topic 'in': expected a Consumed, the serdes of key and value, got None"):
        StreamsBuilder(config={"default.key.serde": TEXT}).stream("in")


def test_the_page_of_settings_has_a_sentence_of_each():
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")

    old_names = ["default.deserialization.exception.handler", "default.production.exception.handler"]
    assert [name for name in KAFKA if f"`{name}`" not in page] == old_names
    assert [why for _, why in DECIDING.values() if why not in page] == []
    assert [name for name, why in HARMLESS.items() if f"| `{name}` | {why} |" not in page] == []
    assert [name for names in CLIENT_SETTINGS.values() for name in names if f"`{name}`" not in page] == []
    assert [why for why in CLIENT_SETTINGS if f" | {why} |" not in page] == []
