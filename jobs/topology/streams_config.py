"""The settings of an application, by Kafka's names (StreamsConfig of 4.3 and 4.4): what each does in a replay.

Rule: a setting either decides results and is honoured, or decides them and is refused where it asks for something else
than what is done here, or decides none and is taken without effect. So a port can hand over its whole configuration.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ...state.errors import ConfigError
from ...state.hidden_values import hide
from ...state.near_names import did_you_mean
from ...state.serdes import Serde
from ..functions.exception_handlers import HANDLERS, ExceptionHandlers, exception_handlers
from ..functions.parameters import object_of
from ..functions.timestamp_extractors import (
    BuiltInExtractor,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from ..graph.name_rules import RESERVED, is_legal
from .client_settings import CLIENT_BEGINNINGS, CLIENT_DECIDING, CLIENT_SETTINGS, deciding_client_setting

APPLICATION = "application.id"
EXTRACTOR = "default.timestamp.extractor"
KEY_SERDE, VALUE_SERDE = "default.key.serde", "default.value.serde"
SUPPLIERS, DSL_STORE = "dsl.store.suppliers.class", "default.dsl.store"
DEAD_LETTERS = "errors.dead.letter.queue.topic.name"
HONOURED = (EXTRACTOR, KEY_SERDE, VALUE_SERDE, SUPPLIERS, DSL_STORE, DEAD_LETTERS)
"""Beside exception handlers."""

_PLACE = "StreamsBuilder config"
_NO_CACHE = (
    "there are no record caches, whose updates no replay could repeat: suppress() holds updates back, by the records' "
    "times; write 0, or leave it out"
)
_LISTS = "write the serde of the lists where topics are read, Consumed(…, Serde.list(inner))"
_WINDOWED = "write the serde of the keys where they are read, Consumed(Serde.time_windowed(inner, size), …)"
_EMITS = "the interval is 0: every record looks whether a result is due; leave it out"
DECIDING: dict[str, tuple[tuple[Any, ...], str]] = {
    "statestore.cache.max.bytes": ((0, "0"), _NO_CACHE),
    "cache.max.bytes.buffering": ((0, "0"), _NO_CACHE),
    "topology.optimization": (
        ("none", "reuse.ktable.source.topics"),
        "a topology runs as it is written: share a repartition by stream.repartition(), and a table's topic is its "
        "changelog anyway (jobs/SEMANTICS.md, older versions and settings)",
    ),
    "processing.exception.handler.global.enabled": (
        (False, "false"),
        "a failure in the processor of a global store ends the run; leave it out",
    ),
    "dsl.store.format": (
        ("DEFAULT", "default"),
        "stores of the DSL keep no headers: with HEADERS Kafka's stores and changelogs do, and from 4.4 on suppress "
        "emits those of the value; leave it out",
    ),
    "processor.wrapper.class": (
        ("org.apache.kafka.streams.processor.internals.NoOpProcessorWrapper",),
        "nothing is wrapped around processors: call what the wrapper does in the processors themselves",
    ),
    "default.list.key.serde.inner": ((None,), _LISTS),
    "default.list.key.serde.type": ((None,), _LISTS),
    "default.list.value.serde.inner": ((None,), _LISTS),
    "default.list.value.serde.type": ((None,), _LISTS),
    "window.size.ms": ((None,), _WINDOWED),
    "windowed.inner.class.serde": ((None,), _WINDOWED),
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": ((0, "0"), _EMITS),
    "__emit.interval.ms.kstreams.windowed.aggregation__": ((0, "0"), _EMITS),
    "default.windowed.key.serde.inner": ((None,), _WINDOWED),
    "default.windowed.value.serde.inner": ((None,), _WINDOWED),
    **CLIENT_DECIDING,
}
"""Settings that decide results: the values that ask for what is done here, and what to do instead of others."""

_BROKERS = "a replay reads landed topics and asks no broker; landing has settings of its own (replay land --kafka)"
_MACHINES = "results do not depend on who runs a task: see --placement, and the settings of Spark"
_STATE = "state lies in Delta tables of the warehouse, and no changelog or directory needs care"
_PACE = "no result depends on when an increment reads or commits"
_LOOKS = "it is about logs, metrics and queries, and no result"
HARMLESS: dict[str, str] = {
    APPLICATION: "the name of a replay is its pipeline; an output is not called as an internal topic of this id",
    "application.server": _LOOKS,
    "bootstrap.servers": _BROKERS,
    "client.id": _BROKERS,
    "config.providers": _BROKERS,
    "connections.max.idle.ms": _BROKERS,
    "default.client.supplier": _BROKERS,
    "group.protocol": _BROKERS,
    "metadata.max.age.ms": _BROKERS,
    "metadata.recovery.rebootstrap.trigger.ms": _BROKERS,
    "metadata.recovery.strategy": _BROKERS,
    "receive.buffer.bytes": _BROKERS,
    "reconnect.backoff.max.ms": _BROKERS,
    "reconnect.backoff.ms": _BROKERS,
    "request.timeout.ms": _BROKERS,
    "retry.backoff.ms": _BROKERS,
    "security.protocol": _BROKERS,
    "send.buffer.bytes": _BROKERS,
    "acceptable.recovery.lag": _MACHINES,
    "max.warmup.replicas": _MACHINES,
    "num.standby.replicas": _MACHINES,
    "num.stream.threads": _MACHINES,
    "probing.rebalance.interval.ms": _MACHINES,
    "rack.aware.assignment.non_overlap_cost": _MACHINES,
    "rack.aware.assignment.strategy": _MACHINES,
    "rack.aware.assignment.tags": _MACHINES,
    "rack.aware.assignment.traffic_cost": _MACHINES,
    "task.assignor.class": _MACHINES,
    "task.timeout.ms": _MACHINES,
    "upgrade.from": _MACHINES,
    "allow.os.group.write.access": _STATE,
    "enable.transactional.statestores": _STATE,
    "replication.factor": _STATE,
    "repartition.purge.interval.ms": _STATE,
    "rocksdb.config.setter": _STATE,
    "state.cleanup.delay.ms": _STATE,
    "state.cleanup.dir.max.age.ms": _STATE,
    "state.dir": _STATE,
    "statestore.uncommitted.max.bytes": _STATE,
    "windowstore.changelog.additional.retention.ms": _STATE,
    "buffered.records.per.partition": _PACE,
    "commit.interval.ms": _PACE,
    "poll.ms": _PACE,
    "processing.guarantee": "every increment is committed as a whole or not at all, exactly once",
    "ensure.explicit.internal.resource.naming": "it asks for names, which change no result",
    "built.in.metrics.version": _LOOKS,
    "default.interactive.query.isolation.level": _LOOKS,
    "enable.metrics.push": _LOOKS,
    "log.summary.interval.ms": _LOOKS,
    "metric.reporters": _LOOKS,
    "metrics.num.samples": _LOOKS,
    "metrics.recording.level": _LOOKS,
    "metrics.sample.window.ms": _LOOKS,
    "topology.description.push.enabled": _LOOKS,
}
"""Settings of Kafka Streams' own without effect here, each with the reason."""

_OF_CLIENTS = frozenset(name for names in CLIENT_SETTINGS.values() for name in names)
_EXTRACTORS: dict[str, type[BuiltInExtractor]] = {
    each.__name__: each
    for each in (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )
}
_SERDES: dict[str, Callable[[], Serde]] = {
    "StringSerde": Serde.string,
    "LongSerde": Serde.long,
    "IntegerSerde": Serde.int,
    "ShortSerde": Serde.short,
    "FloatSerde": Serde.float,
    "DoubleSerde": Serde.double,
    "BooleanSerde": Serde.boolean,
    "UUIDSerde": Serde.uuid,
    "VoidSerde": Serde.void,
    "BytesSerde": Serde.bytes,
    "ByteArraySerde": Serde.bytes,
    "ByteBufferSerde": Serde.byte_buffer,
}
_STORES = {
    "rocksDB": "persistent",
    "in_memory": "in_memory",
    "RocksDBDslStoreSuppliers": "persistent",
    "InMemoryDslStoreSuppliers": "in_memory",
}


@dataclass(frozen=True)
class StreamsConfig:
    """What ``config`` decides of a topology. ``extractor``: of sources without one of their own; ``store``: kind of the
    DSL's stores where no Materialized says one; ``key``, ``value``: serdes of sources without a Consumed.
    ``dead_letter_topic``: where what the application continues without is written; ``application_id``: in front of the
    names of internal topics.
    """

    handlers: ExceptionHandlers = field(default_factory=ExceptionHandlers)
    extractor: Any = None
    store: str = "persistent"
    key: Serde | None = None
    value: Serde | None = None
    dead_letter_topic: str | None = None
    application_id: str | None = None


def streams_config(config: Mapping[str, Any] | None) -> StreamsConfig:
    """What ``config`` says by Kafka's names. Exception handlers: a class or an object, the name of Kafka's class, or a
    callable of (context, record, exception), also as a class whose ``handle`` is one. A timestamp extractor: a
    callable or one of Kafka's, as of Consumed. Serdes and suppliers of stores: objects, or Kafka's class names.

    Raises ConfigError for names that neither Kafka Streams nor its clients and serdes have, and for a setting that asks
    for other results than those of a replay. Also for what is no handler, extractor, serde or kind of store.
    """
    if config is not None and not isinstance(config, Mapping):
        expected, next_step = "a mapping of Kafka's names to values", f'write for example {{"{HANDLERS[0]}": …}}'
        raise ConfigError(_PLACE, expected, repr(config), next_step)
    given = dict(config or {})
    hide({name: value for name, value in given.items() if isinstance(value, str)})
    handlers = exception_handlers({name: value for name, value in given.items() if name in HANDLERS})
    for name, value in given.items():
        if name not in HANDLERS and name not in HONOURED:
            _check(name, value)
    # In Kafka, too, dsl.store.suppliers.class comes before default.dsl.store (KIP-954).
    store = _named(given, SUPPLIERS, _STORES) or _named(given, DSL_STORE, _STORES) or "persistent"
    key, value = (_serde(name, given.get(name)) for name in (KEY_SERDE, VALUE_SERDE))
    extractor, letters, application_id = (
        _extractor(given.get(EXTRACTOR)),
        _topic(given.get(DEAD_LETTERS)),
        given.get(APPLICATION),
    )
    return StreamsConfig(
        handlers, extractor, store, key, value, letters, application_id if isinstance(application_id, str) else None
    )


def _check(name: Any, value: Any) -> None:
    """Raises ConfigError for a setting that a replay cannot follow, and for what is none."""
    place = f"{_PLACE} {name}"
    if (plain := deciding_client_setting(str(name)) or name) in DECIDING:
        as_here, next_step = DECIDING[plain]
        if value not in as_here:
            expected = " or ".join(map(repr, as_here))
            raise ConfigError(place, f"{expected}, since it decides results", repr(value), next_step)
    elif name == "max.task.idle.ms":
        if not str(value).isdigit():
            next_step = (
                "leave it out: the oldest record that has landed is taken first; with --idle proceed nobody waits for "
                "a topic without more records, with --order arrival they come as they arrived"
            )
            raise ConfigError(place, "0 or more, since it decides the order of records", repr(value), next_step)
    elif name not in HARMLESS and name not in _OF_CLIENTS and not str(name).startswith(CLIENT_BEGINNINGS):
        known = [*HANDLERS, *HONOURED, *DECIDING, *HARMLESS, *_OF_CLIENTS, "max.task.idle.ms"]
        otherwise = "leave it out, or read it where the topology is built"
        next_step = did_you_mean(str(name), known, otherwise, likeness=0.8)
        raise ConfigError(_PLACE, "names of Kafka Streams' settings", repr(name), next_step)


def _extractor(value: Any) -> Any:
    place = f"{_PLACE} {EXTRACTOR}"
    is_class = isinstance(value, type) and issubclass(value, BuiltInExtractor)
    if value is None or is_class or isinstance(value, BuiltInExtractor | pl.Expr):
        return value
    if isinstance(value, str):
        named = _EXTRACTORS.get(value.rpartition(".")[2])
        if named is None:
            next_step = "give a callable of (record, partition_time_ms), or an extractor to the Consumed of each topic"
            raise ConfigError(place, f"one of Kafka's {sorted(_EXTRACTORS)}", repr(value), next_step)
        return named
    if isinstance(value, type) or not callable(value):
        extract = getattr(object_of(value, place), "extract", None)
        if not callable(extract):
            next_step = "give a callable of (record, partition_time_ms)"
            raise ConfigError(place, "a timestamp extractor", repr(value), next_step)
        return extract
    return value


def _topic(value: Any) -> str | None:
    """That of dead letters."""
    if value is not None and (not is_legal(value) or value in RESERVED):
        expected = f"the name of a topic, and none of {sorted(RESERVED)}"
        raise ConfigError(f"{_PLACE} {DEAD_LETTERS}", expected, repr(value), "choose another name")
    return value


def _serde(name: str, value: Any) -> Serde | None:
    if value is None or isinstance(value, Serde):
        return value
    # Java calls a nested class org.apache.kafka.common.serialization.Serdes$StringSerde.
    made = _SERDES.get(str(value).rpartition(".")[2].rpartition("$")[2])
    if made is None:
        next_step = "give a serde, for example Serde.string(), or a Consumed to each topic"
        raise ConfigError(f"{_PLACE} {name}", f"a serde, or one of Kafka's {sorted(_SERDES)}", repr(value), next_step)
    return made()


def _named(config: Mapping[str, Any], name: str, known: Mapping[str, str]) -> str | None:
    if (value := config.get(name)) is None:
        return None
    kind = known.get(str(value).rpartition(".")[2].rpartition("$")[2])
    if kind is None:
        got, next_step = repr(value), 'give Materialized.as_(name, store="in_memory") where the store is made'
        raise ConfigError(f"{_PLACE} {name}", f"one of {list(known)}", got, next_step)
    return kind
