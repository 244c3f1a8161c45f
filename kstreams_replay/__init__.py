"""Kafka Streams' semantics, replayed over Delta tables: what a topology, a notebook or a project needs.

Owns the one name that is installed. Its packages import one another relative to themselves, so a project may have
packages called ``jobs`` or ``state`` of its own. In a checkout they are the folders beside this one. Python imports
them from there, so stack traces name the paths that git knows. The links in this folder are for tools that read files.
Rule: importing this loads nothing; a name is loaded when it is asked for, and brings only what it needs (a
topology neither Spark nor Dagster).
"""

import os
from importlib import import_module
from pkgutil import get_data
from typing import Any

_STATE = os.path.join(__path__[0], "state")
if os.path.islink(_STATE) or not os.path.isdir(_STATE):  # a checkout
    __path__.insert(0, os.path.dirname(os.path.abspath(__path__[0])))

from .state import extras, version  # noqa: E402 - the path above says where they are

__version__ = version.VERSION
extras.name_missing_extras()

_STUB = get_data(__name__, "__init__.pyi").decode().splitlines()
_MODULES = {words[3]: words[1] for words in map(str.split, _STUB) if words[:1] == ["from"]}
"""Where each name of the face is, from the stub that type checkers read: ``from module import name as name``."""

_PROCESSOR = "Processor, whose init(context) and process(record) are called, for stream.process(supplier, stores)"
_TRANSFORMER = (
    "ValueTransformerWithKey for table.transform_values(supplier); of a stream FixedKeyProcessor and process_values"
)

_SAID_OTHERWISE = {
    "AbstractProcessor": _PROCESSOR,
    "ContextualProcessor": _PROCESSOR,
    "ContextualFixedKeyProcessor": "FixedKeyProcessor, for stream.process_values(supplier, stores)",
    "ProcessorSupplier": "any callable without parameters that gives a Processor, such as its class",
    "Transformer": _PROCESSOR,
    "ValueTransformer": _TRANSFORMER,
    "KeyValue": "a tuple (key, value)",
    "KafkaStreams": "TopologyTestDriver(topology) in a test, or replay(…), the command replay run, over landed topics",
    "StreamsConfig": "StreamsBuilder(config={…}) for handlers; the rest configures live applications",
    "StoreBuilder": "KeyValues(name, key serde, value serde), or a builder of Stores",
    "Serialized": "Grouped, or nothing: serdes are those of the stream",
    "WindowedSerdes": "Serde.time_windowed(inner, size_ms) or Serde.session_windowed(inner)",
    "Duration": 'milliseconds or text such as "5m"',
    "PunctuationCallback": "any callable of the time in ms",
    "Punctuator": "any callable of the time in ms",
    "TimestampExtractor": "a callable of (record) or (record, partition_time_ms) in Consumed(timestamp_extractor=…)",
    "ForeachAction": "any callable of (key, value)",
    "ValueMapper": "any callable of the value",
    "ValueJoiner": "any callable of (left, right)",
    "StreamPartitioner": "any callable of (topic, key, value, partitions)",
    "EmitStrategy": 'emit_strategy("on_window_close") or emit_strategy("on_window_update") of the windowed stream',
    "To": "context.forward(record, child=name), and record.with_timestamp(timestamp_ms) for a time",
    "Cancellable": "what context.schedule(…) returns; its cancel() ends the schedule",
    "ReadOnlyKeyValueStore": "what driver.get_key_value_store(name) gives, or context.store(name) in a processor",
    "Serdes": "Serde.string(), Serde.long() and so on",
}
"""Classes of Kafka's that are none here."""


def __getattr__(name: str) -> Any:
    """A name of the face, loaded now. ImportError, which Python shows as it is, for a class that Kafka has there."""
    if name == "__all__":  # ``from kstreams_replay import *`` asks for it
        return [each for each in sorted(_MODULES) if _loads(each)]
    if name in _SAID_OTHERWISE:
        raise ImportError(f"kstreams_replay has no {name!r}; write {_SAID_OTHERWISE[name]}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def _loads(name: str) -> bool:
    """Whether a name of the face can be loaded: False if it needs a package that is not installed."""
    try:
        __getattr__(name)
    except ModuleNotFoundError as error:
        if (error.name or __name__).partition(".")[0] == __name__:
            raise
        return False
    return True


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
