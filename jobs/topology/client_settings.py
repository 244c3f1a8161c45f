"""Settings that Kafka Streams hands on to its clients and serdes, written without a prefix: ``acks``, ``group.id``.

Owns their names (ConsumerConfig, ProducerConfig and AdminClientConfig 4.3, and those of serializers beside a schema
registry) by the reason for which they have no effect in a replay, and the few that decide results. Names that begin
with ``ssl.``, ``sasl.`` and the like are known by their beginning.
"""

from typing import Any

_SERDES = "a serde has what it needs in itself: Serde.confluent_avro(schema, ids=…) and its like ask no registry"
_BROKERS = "a replay reads landed topics and asks no broker"
_GROUPS = "no consumers share topics in a replay, whose tasks are planned"
_SENDING = "outputs are written to tables, each record once and in order"
_READING = "no result depends on how many records are read at once, or when"

CLIENT_SETTINGS: dict[str, tuple[str, ...]] = {
    _BROKERS: (
        *("allow.auto.create.topics", "bootstrap.controllers", "bootstrap.resolve.timeout.ms"),
        *("client.dns.lookup", "client.rack"),
        *(
            "default.api.timeout.ms",
            "exclude.internal.topics",
            "metadata.max.idle.ms",
            "retries",
            "retry.backoff.max.ms",
        ),
        *("security.providers", "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms"),
    ),
    _GROUPS: (
        *("auto.commit.interval.ms", "enable.auto.commit", "group.id", "group.instance.id", "group.remote.assignor"),
        *("heartbeat.interval.ms", "max.poll.interval.ms", "partition.assignment.strategy", "session.timeout.ms"),
        *("share.acknowledgement.mode", "share.acquire.mode"),
    ),
    _READING: (
        *("check.crcs", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes"),
        *("internal.throw.on.fetch.stable.offset.unsupported", "max.partition.fetch.bytes", "max.poll.records"),
    ),
    "landing reads what was committed": ("isolation.level",),
    _SENDING: (
        *("acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level", "compression.type"),
        *("compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.block.ms"),
        *("max.in.flight.requests.per.connection", "max.request.size", "partitioner.adaptive.partitioning.enable"),
        *("partitioner.availability.timeout.ms", "transaction.timeout.ms", "transaction.two.phase.commit.enable"),
        "transactional.id",
    ),
    _SERDES: (
        *("key.deserializer", "key.serializer", "value.deserializer", "value.serializer"),
        *("auto.register.schemas", "avro.reflection.allow.null", "avro.remove.java.properties"),
        *("avro.use.logical.type.converters", "context.name.strategy", "derive.type", "id.compatibility.strict"),
        *("json.fail.invalid.schema", "json.fail.unknown.properties", "json.key.type", "json.value.type"),
        *("key.subject.name.strategy", "latest.cache.size", "latest.cache.ttl.sec", "latest.compatibility.strict"),
        *("max.schemas.per.subject", "normalize.schemas", "reference.subject.name.strategy", "schema.reflection"),
        *("specific.avro.key.type", "specific.avro.reader", "specific.avro.value.type", "specific.protobuf.key.type"),
        *("specific.protobuf.value.type", "use.latest.version", "use.latest.with.metadata", "use.schema.id"),
        "value.subject.name.strategy",
    ),
}
"""Names without effect, by the reason."""

CLIENT_BEGINNINGS = (
    *("consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "producer.", "admin.", "topic."),
    *("client.tag.", "ssl.", "sasl.", "schema.registry.", "basic.auth.", "bearer.auth.", "proxy.", "spring.json."),
    *("spring.deserializer.", "apicurio.", "confluent."),
)
"""Begin the names of settings of clients, of internal topics, of connections and of serdes."""

_OFFSETS = "a replay reads a topic from its first landed record on: land what is to be replayed, and leave it out"
_INTERCEPTORS = "interceptors are not called: what one changes, do in a step of the topology; leave the others out"
_PARTITIONER = "write to(topic, partitioner=…), and repartition(partitioner=…) where the topology has a repartition"
CLIENT_DECIDING: dict[str, tuple[tuple[Any, ...], str]] = {
    "auto.offset.reset": (("earliest",), _OFFSETS),
    "interceptor.classes": ((None, "", [], ()), _INTERCEPTORS),
    "partitioner.class": ((None, "", "org.apache.kafka.clients.producer.internals.DefaultPartitioner"), _PARTITIONER),
    "partitioner.ignore.keys": ((None, False, "false"), _PARTITIONER),
}
"""Settings of clients that decide results: the values that ask for what is done here, and what to do instead."""

_DECIDING_BEHIND = {
    "consumer.": ("auto.offset.reset", "interceptor.classes"),
    "main.consumer.": ("auto.offset.reset", "interceptor.classes"),
    "global.consumer.": ("interceptor.classes",),
    "producer.": ("interceptor.classes", "partitioner.class", "partitioner.ignore.keys"),
}
"""Of the others Kafka Streams sets its own values."""


def deciding_client_setting(name: str) -> str | None:
    """The name without prefix of a client's setting that decides results; None for any other one."""
    if name in CLIENT_DECIDING:
        return name
    for prefix, names in _DECIDING_BEHIND.items():
        if name.startswith(prefix) and (plain := name.removeprefix(prefix)) in names:
            return plain
    return None
