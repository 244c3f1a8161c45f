"""Names that a class of the DSL does not have, and what they are here.

Owns the words for Kafka's Java names, for names of another class, and for slips of the hand. Rule: an unknown name is
an AttributeError, as everywhere in Python, which says what to write.
"""

import re
from enum import EnumType
from typing import TYPE_CHECKING, Any

from ...state.near_names import did_you_mean

SAID_OTHERWISE = {
    "as": "as_(name)",
    "through": "repartition(), or to() and another stream()",
    "transform": "process(supplier, stores)",
    "transform_values": "process_values(supplier, stores); of a KTable it is transform_values(supplier)",
    "flat_transform": "process(supplier, stores)",
    "flat_transform_values": "process_values(supplier, stores)",
    "for_each": "foreach(function); of a table it is to_stream().foreach(function)",
    "branch": "split().branch(step)",
    "emit_strategy": "emit_strategy(…) of the windowed stream, before the aggregate: windowed_by(…).emit_strategy(…)",
    "windowed_by": "windowed_by(windows) of a grouped stream: group_by_key().windowed_by(…)",
    "aggregate": "aggregate(…) of a grouped stream or table: group_by_key().aggregate(…)",
    "count": "count() of a grouped stream or table: group_by_key().count()",
    "reduce": "reduce(…) of a grouped stream or table: group_by_key().reduce(…)",
    "suppress": "suppress(…) of a table, behind an aggregate",
    "with_caching_disabled": "nothing: there are no record caches, every change is forwarded",
    "with_caching_enabled": "suppress(…) to hold changes back by the records' times: there are no record caches",
    "add_read_only_state_store": "StreamsBuilder.table(topic, consumed, materialized=…), whose store processors name",
    "with_logging_disabled": "nothing: a store's files are its changelog",
    "with_logging_enabled": "nothing: a store's files are its changelog",
    "with_retention": "as_(name, retention=…)",
    "with_": "as_(name): serdes are those of the stream or table, or returns=",
    "with_name": "name=… in the call that makes it",
    "with_store_type": "as_(name, store=…)",
    "number_of_partitions": "as_(name).with_number_of_partitions(number)",
    "stream_partitioner": "as_(name).with_stream_partitioner(function)",
    "key_serde": "nothing: serdes are those of the stream, or returns=",
    "value_serde": "nothing: serdes are those of the stream, or returns=",
    "other_value_serde": "nothing: serdes are those of the stream or table",
    "with_other_value_serde": "nothing: serdes are those of the stream or table",
    "with_key_serde": "nothing: serdes are those of the stream, or returns=",
    "with_value_serde": "nothing: serdes are those of the stream, or returns=",
    "grace": "of_size(size, grace=…), of_time_difference(…, grace=…) or with_inactivity_gap(gap, grace=…)",
    "on_window_close": 'emit_strategy("on_window_close")',
    "avg": "fold.mean(of)",
    "average": "fold.mean(of)",
    "collect_list": "fold.collect(of)",
    "variance": "fold.var_pop(of), or fold.var_samp(of) of a sample",
    "stddev": "fold.stddev_pop(of), or fold.stddev_samp(of) of a sample",
}
"""What Kafka's words, in snake case, are here where it is not the same word."""

_OLD_GRACE = "the grace of the old call was 24 hours less the"

_OF_UNGROUPED = ("to", "filter", "map_values", "to_stream", "process", "join")
_AGGREGATE_FIRST = "an aggregate first, such as count(): grouped records go nowhere by themselves"
_OF_BUILDERS = ("with_logging_disabled", "with_logging_enabled", "with_caching_enabled", "with_caching_disabled")
_WINDOWS_FOR = "nothing: an aggregate finds the windows of its records; an output has the bounds of each"
_JOIN_STORES = (
    'materialized=Materialized(store="in_memory") in the join, for both stores: size and retention are the windows\''
)

_STORE_NAME = "the name that context.store(name) was given: a store has no other"
_OF_STORES = {
    "name": _STORE_NAME,
    "flush": "nothing: an increment commits its stores when it is done",
    "close": "nothing: the task closes its stores",
    "is_open": "nothing: a store is open while its processor runs",
    "persistent": "nothing: a store is a table in the warehouse",
    "init": "nothing: context.store(name) gives a store that is ready",
}

SAID_OF = {
    "TimeWindows": {
        "of": f"TimeWindows.of_size(size, grace=…): {_OLD_GRACE} size, and at least 0",
        "until": "Materialized.as_(name, retention=…) in the aggregate",
        "windows_for": _WINDOWS_FOR,
    },
    "SlidingWindows": {
        "of_size": "SlidingWindows.of_time_difference(difference, grace=…)",
        "with_time_difference_and_grace": "SlidingWindows.of_time_difference(difference, grace=…)",
    },
    "SessionWindows": {
        "with_": f"SessionWindows.with_inactivity_gap(gap, grace=…): {_OLD_GRACE} gap, and at least 0",
        "of": f"SessionWindows.with_inactivity_gap(gap, grace=…): {_OLD_GRACE} gap, and at least 0",
        "inactivity_gap": "gap_ms",
        "until": "Materialized.as_(name, retention=…) in the aggregate",
    },
    "JoinWindows": {
        "until": "nothing: a join keeps what its windows and grace need",
        "size": "before_ms + after_ms",
        "windows_for": "nothing: it is not for users in Kafka Streams either, and throws",
    },
    "UnlimitedWindows": {
        "start_on": "UnlimitedWindows.of(start_ms)",
        "grace_period_ms": "nothing: they never close",
        "size": "nothing: they never end",
        "windows_for": _WINDOWS_FOR,
    },
    "Suppressed": {
        "BufferConfig": "BufferConfig, a name of its own: from kstreams_replay import BufferConfig",
        "buffer_config": "BufferConfig, a name of its own: from kstreams_replay import BufferConfig",
    },
    "Consumed": {
        "as_": "Consumed(key serde, value serde, name=…)",
        "with_key_serde": "Consumed.with_(key serde, value serde)",
        "with_value_serde": "Consumed.with_(key serde, value serde)",
    },
    "Produced": {"with_": "nothing: serdes are those of the stream; Produced.as_(name) names the sink"},
    "Materialized": {
        "with_": "Materialized(store=…), or nothing: serdes are those of the stream or table, that of an aggregate is "
        "returns=",
    },
    "Grouped": {
        "key_serde": "Grouped.with_(key serde, value serde), or returns_key= of a table's group_by and returns= of a "
        "stream's",
        "with_key_serde": "Grouped.with_(key serde, value serde), or returns_key= of a table's group_by and returns= "
        "of a stream's",
        "value_serde": "Grouped.with_(key serde, value serde), or returns= of a table's group_by",
        "with_value_serde": "Grouped.with_(key serde, value serde), or returns= of a table's group_by",
    },
    "Joined": {
        "with_": "nothing: serdes are those of the streams; Joined.as_(name) names the join",
        "grace_period": "Joined().with_grace_period(grace), or grace=… in the join",
    },
    "StreamJoined": {
        "with_": "nothing: serdes are those of the streams; StreamJoined.as_(name) names the join",
        "with_dsl_store_suppliers": _JOIN_STORES,
        "with_this_store_supplier": _JOIN_STORES,
        "with_other_store_supplier": _JOIN_STORES,
    },
    "GlobalKTable": {
        **dict.fromkeys(
            ("filter", "filter_not", "map_values", "group_by", "join", "left_join", "outer_join", "to_stream"),
            "stream.join(table, joiner, selector=…): a global table is only joined; table(topic) gives a KTable",
        ),
        "queryable_store_name": "the name that Materialized.as_(name) gives the store",
    },
    "Repartitioned": {"with_": "nothing: serdes are those of the stream; Repartitioned.as_(name) names the topic"},
    "KTable": {
        "select_key": "group_by(selector) and an aggregate, or to_stream().select_key(selector)",
        **{
            name: f"to_stream().{name}(…)"
            for name in ("flat_map_values", "split", "merge", "repartition", "process_values", "deduplicate")
        },
        "flat_map": "to_stream().flat_map(function, …)",
        "map": "to_stream().map(function, …)",
        "peek": "to_stream().peek(function)",
        "foreach": "to_stream().foreach(function)",
        "print": "to_stream().print(Printed.to_sys_out())",
        "to": "to_stream().to(topic)",
        "process": "to_stream().process(supplier, stores)",
        "queryable_store_name": "the name that Materialized.as_(name) gives the store",
        "windowed_by": "to_stream().group_by_key().windowed_by(windows)",
    },
    "KStream": {
        "to_topic": "to(topic)",
        "join_by_key": "join(table, joiner)",
    },
    "TopologyTestDriver": {
        "pipe_record": "pipe_input(topic, key, value, timestamp_ms=…)",
        "create_consumer_record": "pipe_input(topic, key, value, timestamp_ms=…)",
        "get_state_store": "get_key_value_store(name), get_window_store(name) or get_session_store(name), "
        "of any kind store(name)",
        "producer": "read_outputs(topic)",
    },
    **{
        grouped: dict.fromkeys(
            ("to", "filter", "map_values", "to_stream", "process", "join"),
            "an aggregate first, such as count(): grouped records go nowhere by themselves",
        )
        for grouped in ("KGroupedStream", "KGroupedTable", "CogroupedKStream")
    },
    "ProcessorContext": {
        "get_state_store": "context.store(name)",
        "state_store": "context.store(name)",
        "timestamp": "record.timestamp_ms of the record that process() was given",
        "timestamp_ms": "record.timestamp_ms of the record that process() was given",
        "headers": "record.headers of the record that process() was given",
        "topic": "context.record_metadata.topic",
        "partition": "context.record_metadata.partition",
        "offset": "context.record_metadata.offset",
        "state_dir": "nothing: what outlives an increment is in a store",
        "get": "context.store(name)",
        "commit": "nothing: an increment commits when it is done",
    },
    "Record": {
        "timestamp": "record.timestamp_ms",
        "with_timestamp_ms": "record.with_timestamp(timestamp_ms)",
        "topic": "context.record_metadata.topic",
        "partition": "context.record_metadata.partition",
        "offset": "context.record_metadata.offset",
    },
    "FixedKeyRecord": {
        "timestamp": "record.timestamp_ms",
        "with_key": "process(supplier, stores) in the topology: process_values keeps keys",
    },
    "PunctuationType": {
        "STREAM": "PunctuationType.STREAM_TIME",
        "WALL_CLOCK": "PunctuationType.WALL_CLOCK_TIME",
        "SYSTEM_TIME": "PunctuationType.WALL_CLOCK_TIME",
    },
    "ConsumerRecord": {"timestamp": "record.timestamp_ms"},
    "ValueAndTimestamp": {"timestamp": "its field timestamp_ms"},
    "KeyValueStore": {
        "fetch": "get(key), or range(first, last); fetch(key, time) is a window store's",
        "entries": "all()",
        "items": "all()",
        "keys": "all(), which gives (key, value)",
        **_OF_STORES,
    },
    "WindowStore": {
        **_OF_STORES,
        "get": "fetch(key, window_start_ms)",
        "range": "fetch(first, last, from_ms, to_ms), or fetch_all(from_ms, to_ms)",
        "delete": "put(key, None, window_start_ms)",
    },
    "SessionStore": {
        **_OF_STORES,
        "get": "fetch(key), or fetch_session(key, session_start_ms, session_end_ms)",
        "delete": "remove(Windowed(key, start, end))",
    },
    "VersionedKeyValueStore": {"fetch": "get(key, as_of_ms)", **_OF_STORES},
    "StoreIterator": {
        "has_next": "if rows: …, or for key, value in rows: …",
        "next": "next(rows), or for key, value in rows: …",
        "peek_next_key": "next(rows), and keep what it gives",
    },
    "KeyValues": dict.fromkeys(
        ("with_logging_disabled", "with_logging_enabled", "with_caching_enabled", "with_caching_disabled"),
        "nothing: a store's files are its changelog",
    ),
}
"""What a class's own words of Kafka are here: the word means another thing in another class."""


def hint(name: str, known: list[str], owner: str = "") -> str:
    """What to write instead of ``name`` of the class ``owner`` where names are ``known``; empty when nothing comes
    near.
    """
    owner = re.sub("^(Driver|ReadOnly)", "", owner).replace("DriverVersionedStore", "VersionedKeyValueStore")
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    for said in (SAID_OF.get(owner, {}).get(name), SAID_OF.get(owner, {}).get(snake)):
        if said is not None:
            return f"write {said}"
    if snake != name and snake in known:
        return f"Kafka's {name} is {snake} here"
    if snake in SAID_OTHERWISE:
        return f"write {SAID_OTHERWISE[snake]}"
    return did_you_mean(name if name.isupper() else snake, known, "")


def refuse(what: str, name: str, known: list[str]) -> AttributeError:
    """The error of ``what``, a class or a module, that has no ``name``."""
    said = "" if name.startswith("_") else hint(name, known, what)
    return AttributeError(f"{what} has no {name!r}{f'; {said}' if said else ''}")


def public(names: Any) -> list[str]:
    """Those of ``names`` that a user may write."""
    return [name for name in names if not name.startswith("_")]


class NamesOfEnum(EnumType):
    """An Enum, asked for a name that it does not have: ``PunctuationType.STREAM``."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise refuse(cls.__name__, name, list(cls.__members__))


class _NameHints(type):
    """The class itself, asked for a name that it does not have: ``TimeWindows.ofSizeAndGrace``."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise refuse(cls.__name__, name, public(dir(cls)))


_WORDS_OF_STORES = {
    "KeyValueStore": ("get(key), which gives None where there is none", "put(key, value)", "delete(key)", "all()"),
    "WindowStore": (
        *("fetch(key, window_start_ms), which gives None where there is none", "put(key, value, window_start_ms)"),
        *("put(key, None, window_start_ms)", "all(), or fetch_range(key, from_ms, to_ms) of a key"),
    ),
    "SessionStore": (
        *(
            "fetch(key), or fetch_session(key, session_start_ms, session_end_ms)",
            "put(Windowed(key, start, end), value)",
        ),
        *("remove(Windowed(key, start, end))", "fetch(key)"),
    ),
    "VersionedKeyValueStore": (
        *(
            "get(key), which gives None where there is none",
            "put(key, value, timestamp_ms)",
            "delete(key, timestamp_ms)",
        ),
        "get(key) of each key",
    ),
}
"""What to write to look at one value, to put it, to delete it and to read all, by the store's class."""


class NoDict:
    """A store, which is asked by its methods, as Kafka's: what a dict understands is refused with the method. A store
    is true, also an empty one, as None is not.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return True

    if not TYPE_CHECKING:  # to a type checker it has none of these

        def __contains__(self, key: Any) -> Any:
            raise self._no_dict("'key in store'", 0)

        def __getitem__(self, key: Any) -> Any:
            raise self._no_dict("'store[key]'", 0)

        def __setitem__(self, key: Any, value: Any) -> Any:
            raise self._no_dict("'store[key] = value'", 1)

        def __delitem__(self, key: Any) -> Any:
            raise self._no_dict("'del store[key]'", 2)

        def __iter__(self) -> Any:
            raise self._no_dict("'for … in store'", 3)

    def _no_dict(self, written: str, what: int) -> TypeError:
        kind = next(each.__name__ for each in type(self).__mro__ if _plain_kind(each.__name__) in _WORDS_OF_STORES)
        words = _WORDS_OF_STORES[_plain_kind(kind)][what]
        return TypeError(f"{_plain_kind(kind)} has no {written}; write {words}")


def _plain_kind(name: str) -> str:
    return name.removeprefix("ReadOnly")


class HintingObject:
    """An object whose class has another metaclass, as abstract ones: what users see of the engine while it runs. Errors
    call it ``called``, the name that users know.
    """

    __slots__ = ()

    called = ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise refuse(self.called or type(self).__name__, name, public(dir(type(self))))


class Hinting(metaclass=_NameHints):
    """A class of the DSL, and its instances: unknown names are refused with what to write."""

    __slots__ = ()

    if not TYPE_CHECKING:  # to a type checker an unknown name is one

        def __getattr__(self, name: str) -> Any:
            raise refuse(type(self).__name__, name, public(dir(type(self))))
