"""Kafka Streams' semantics, replayed over Delta tables: what a topology, a notebook or a project needs.

Owns the one name that is installed. Its packages import one another relative to themselves, so a project may have
packages called ``jobs`` or ``state`` of its own. In a checkout they are the folders beside this one. Python imports
them from there, so stack traces name the paths that git knows. The links in this folder are for tools that read files.
Rule: importing this loads nothing; a name is loaded when it is asked for, and brings only what it needs (a
topology neither Spark nor Dagster).
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .jobs.branches.erasure import erase as erase
    from .jobs.compare.comparison import Comparison as Comparison
    from .jobs.compare.comparison import compare as compare
    from .jobs.execution.spark_runner import SparkRunner as SparkRunner
    from .jobs.execution.spark_session import open_spark as open_spark
    from .jobs.execution.task_run import LocalRunner as LocalRunner
    from .jobs.functions.exception_handlers import CONTINUE as CONTINUE
    from .jobs.functions.exception_handlers import FAIL as FAIL
    from .jobs.functions.exception_handlers import ErrorHandlerContext as ErrorHandlerContext
    from .jobs.functions.exception_handlers import LogAndContinueExceptionHandler as LogAndContinueExceptionHandler
    from .jobs.functions.exception_handlers import LogAndFailExceptionHandler as LogAndFailExceptionHandler
    from .jobs.functions.expressions import Windowed as Windowed
    from .jobs.functions.processor_api import AggregationWithHeaders as AggregationWithHeaders
    from .jobs.functions.processor_api import FixedKeyProcessor as FixedKeyProcessor
    from .jobs.functions.processor_api import FixedKeyProcessorContext as FixedKeyProcessorContext
    from .jobs.functions.processor_api import FixedKeyRecord as FixedKeyRecord
    from .jobs.functions.processor_api import KeyValues as KeyValues
    from .jobs.functions.processor_api import Processor as Processor
    from .jobs.functions.processor_api import ProcessorContext as ProcessorContext
    from .jobs.functions.processor_api import PunctuationType as PunctuationType
    from .jobs.functions.processor_api import Record as Record
    from .jobs.functions.processor_api import ValueAndTimestamp as ValueAndTimestamp
    from .jobs.functions.processor_api import ValueTimestampHeaders as ValueTimestampHeaders
    from .jobs.functions.processor_api import ValueTransformerWithKey as ValueTransformerWithKey
    from .jobs.functions.session_and_versioned_stores import SessionStore as SessionStore
    from .jobs.functions.session_and_versioned_stores import VersionedKeyValueStore as VersionedKeyValueStore
    from .jobs.functions.session_and_versioned_stores import VersionedRecord as VersionedRecord
    from .jobs.functions.state_stores import Stores as Stores
    from .jobs.functions.state_stores import WindowStore as WindowStore
    from .jobs.history.exclusions import exclude_records as exclude_records
    from .jobs.landing.complete_topics import record_complete as record_complete
    from .jobs.landing.landing import FileSource as FileSource
    from .jobs.landing.landing import KafkaSource as KafkaSource
    from .jobs.landing.landing import LakeSource as LakeSource
    from .jobs.landing.landing import LandingRules as LandingRules
    from .jobs.landing.landing import land_files as land_files
    from .jobs.landing.landing import land_kafka as land_kafka
    from .jobs.landing.landing import land_lake as land_lake
    from .jobs.landing.landing import land_records as land_records
    from .jobs.landing.recorded_restarts import record_restarts as record_restarts
    from .jobs.landing.recorded_time import record_tick as record_tick
    from .jobs.publish.kafka_target import KafkaTarget as KafkaTarget
    from .jobs.publish.publishing import PublishReport as PublishReport
    from .jobs.publish.publishing import PublishSettings as PublishSettings
    from .jobs.publish.publishing import publish as publish
    from .jobs.replay.pipeline_run import replay as replay
    from .jobs.testing.driver_records import TestRecord as TestRecord
    from .jobs.testing.driver_topics import TestInputTopic as TestInputTopic
    from .jobs.testing.driver_topics import TestOutputTopic as TestOutputTopic
    from .jobs.testing.output_assertion import assert_outputs as assert_outputs
    from .jobs.testing.test_driver import TopologyTestDriver as TopologyTestDriver
    from .jobs.topology import Branched as Branched
    from .jobs.topology import BranchedKStream as BranchedKStream
    from .jobs.topology import BufferConfig as BufferConfig
    from .jobs.topology import CogroupedKStream as CogroupedKStream
    from .jobs.topology import Consumed as Consumed
    from .jobs.topology import ConsumerRecord as ConsumerRecord
    from .jobs.topology import FailOnInvalidTimestamp as FailOnInvalidTimestamp
    from .jobs.topology import GlobalKTable as GlobalKTable
    from .jobs.topology import JoinWindows as JoinWindows
    from .jobs.topology import KGroupedStream as KGroupedStream
    from .jobs.topology import KGroupedTable as KGroupedTable
    from .jobs.topology import KStream as KStream
    from .jobs.topology import KTable as KTable
    from .jobs.topology import LogAndSkipOnInvalidTimestamp as LogAndSkipOnInvalidTimestamp
    from .jobs.topology import Materialized as Materialized
    from .jobs.topology import Printed as Printed
    from .jobs.topology import Serde as Serde
    from .jobs.topology import SessionWindows as SessionWindows
    from .jobs.topology import SlidingWindows as SlidingWindows
    from .jobs.topology import StreamsBuilder as StreamsBuilder
    from .jobs.topology import SubTopology as SubTopology
    from .jobs.topology import Suppressed as Suppressed
    from .jobs.topology import TimeWindows as TimeWindows
    from .jobs.topology import Topology as Topology
    from .jobs.topology import UnlimitedWindows as UnlimitedWindows
    from .jobs.topology import UsePartitionTimeOnInvalidTimestamp as UsePartitionTimeOnInvalidTimestamp
    from .jobs.topology import WallclockTimestampExtractor as WallclockTimestampExtractor
    from .jobs.topology import fold as fold
    from .jobs.topology.call_options import Grouped as Grouped
    from .jobs.topology.call_options import Joined as Joined
    from .jobs.topology.call_options import Named as Named
    from .jobs.topology.call_options import Produced as Produced
    from .jobs.topology.call_options import Repartitioned as Repartitioned
    from .jobs.topology.call_options import StreamJoined as StreamJoined
    from .jobs.topology.call_options import TableJoined as TableJoined
    from .orchestration.automation.lag_sensor import LagSensor as LagSensor
    from .orchestration.component.replay_pipeline import ReplayPipelineComponent as ReplayPipelineComponent
    from .orchestration.definitions import replay_definitions as replay_definitions
    from .orchestration.settings.connections import FilesResource as FilesResource
    from .orchestration.settings.connections import KafkaResource as KafkaResource
    from .orchestration.settings.connections import KafkaTargetResource as KafkaTargetResource
    from .orchestration.settings.connections import LakeResource as LakeResource
    from .orchestration.settings.connections import LandedBy as LandedBy
    from .orchestration.settings.connections import WarehouseResource as WarehouseResource
    from .orchestration.settings.translator import ReplayTranslator as ReplayTranslator
    from .state.errors import ReplayError as ReplayError
    from .state.tables.sought import Sought as Sought
    from .state.tables.warehouse import Warehouse as Warehouse

_STATE = os.path.join(__path__[0], "state")
if os.path.islink(_STATE) or not os.path.isdir(_STATE):  # a checkout
    __path__.insert(0, os.path.dirname(os.path.abspath(__path__[0])))

from .state import extras, version  # noqa: E402 - the path above says where they are

__version__ = version.VERSION
extras.name_missing_extras()

_MODULES: dict[str, str] = {
    "AggregationWithHeaders": ".jobs.functions.processor_api",
    "Grouped": ".jobs.topology.call_options",
    "Joined": ".jobs.topology.call_options",
    "Named": ".jobs.topology.call_options",
    "Produced": ".jobs.topology.call_options",
    "Repartitioned": ".jobs.topology.call_options",
    "StreamJoined": ".jobs.topology.call_options",
    "TableJoined": ".jobs.topology.call_options",
    "Branched": ".jobs.topology",
    "BranchedKStream": ".jobs.topology",
    "BufferConfig": ".jobs.topology",
    "CONTINUE": ".jobs.functions.exception_handlers",
    "CogroupedKStream": ".jobs.topology",
    "Consumed": ".jobs.topology",
    "ConsumerRecord": ".jobs.topology",
    "Comparison": ".jobs.compare.comparison",
    "ErrorHandlerContext": ".jobs.functions.exception_handlers",
    "FAIL": ".jobs.functions.exception_handlers",
    "FailOnInvalidTimestamp": ".jobs.topology",
    "FileSource": ".jobs.landing.landing",
    "FilesResource": ".orchestration.settings.connections",
    "FixedKeyProcessor": ".jobs.functions.processor_api",
    "FixedKeyProcessorContext": ".jobs.functions.processor_api",
    "FixedKeyRecord": ".jobs.functions.processor_api",
    "GlobalKTable": ".jobs.topology",
    "JoinWindows": ".jobs.topology",
    "KGroupedStream": ".jobs.topology",
    "KGroupedTable": ".jobs.topology",
    "KStream": ".jobs.topology",
    "KTable": ".jobs.topology",
    "KafkaResource": ".orchestration.settings.connections",
    "KafkaSource": ".jobs.landing.landing",
    "KafkaTarget": ".jobs.publish.kafka_target",
    "KafkaTargetResource": ".orchestration.settings.connections",
    "KeyValues": ".jobs.functions.processor_api",
    "LakeResource": ".orchestration.settings.connections",
    "LakeSource": ".jobs.landing.landing",
    "LandedBy": ".orchestration.settings.connections",
    "LagSensor": ".orchestration.automation.lag_sensor",
    "LandingRules": ".jobs.landing.landing",
    "LocalRunner": ".jobs.execution.task_run",
    "LogAndContinueExceptionHandler": ".jobs.functions.exception_handlers",
    "LogAndFailExceptionHandler": ".jobs.functions.exception_handlers",
    "LogAndSkipOnInvalidTimestamp": ".jobs.topology",
    "Materialized": ".jobs.topology",
    "Processor": ".jobs.functions.processor_api",
    "ProcessorContext": ".jobs.functions.processor_api",
    "PublishReport": ".jobs.publish.publishing",
    "PublishSettings": ".jobs.publish.publishing",
    "PunctuationType": ".jobs.functions.processor_api",
    "Record": ".jobs.functions.processor_api",
    "ReplayError": ".state.errors",
    "ReplayPipelineComponent": ".orchestration.component.replay_pipeline",
    "ReplayTranslator": ".orchestration.settings.translator",
    "Printed": ".jobs.topology",
    "Serde": ".jobs.topology",
    "SessionStore": ".jobs.functions.session_and_versioned_stores",
    "SessionWindows": ".jobs.topology",
    "SlidingWindows": ".jobs.topology",
    "SparkRunner": ".jobs.execution.spark_runner",
    "Sought": ".state.tables.sought",
    "Stores": ".jobs.functions.state_stores",
    "StreamsBuilder": ".jobs.topology",
    "SubTopology": ".jobs.topology",
    "Suppressed": ".jobs.topology",
    "TestInputTopic": ".jobs.testing.driver_topics",
    "TestOutputTopic": ".jobs.testing.driver_topics",
    "TestRecord": ".jobs.testing.driver_records",
    "TimeWindows": ".jobs.topology",
    "Topology": ".jobs.topology",
    "TopologyTestDriver": ".jobs.testing.test_driver",
    "UnlimitedWindows": ".jobs.topology",
    "UsePartitionTimeOnInvalidTimestamp": ".jobs.topology",
    "ValueAndTimestamp": ".jobs.functions.processor_api",
    "ValueTimestampHeaders": ".jobs.functions.processor_api",
    "ValueTransformerWithKey": ".jobs.functions.processor_api",
    "WallclockTimestampExtractor": ".jobs.topology",
    "VersionedKeyValueStore": ".jobs.functions.session_and_versioned_stores",
    "VersionedRecord": ".jobs.functions.session_and_versioned_stores",
    "Warehouse": ".state.tables.warehouse",
    "WarehouseResource": ".orchestration.settings.connections",
    "WindowStore": ".jobs.functions.state_stores",
    "Windowed": ".jobs.functions.expressions",
    "assert_outputs": ".jobs.testing.output_assertion",
    "compare": ".jobs.compare.comparison",
    "fold": ".jobs.topology",
    "erase": ".jobs.branches.erasure",
    "exclude_records": ".jobs.history.exclusions",
    "land_files": ".jobs.landing.landing",
    "land_kafka": ".jobs.landing.landing",
    "land_lake": ".jobs.landing.landing",
    "land_records": ".jobs.landing.landing",
    "open_spark": ".jobs.execution.spark_session",
    "publish": ".jobs.publish.publishing",
    "record_restarts": ".jobs.landing.recorded_restarts",
    "record_complete": ".jobs.landing.complete_topics",
    "record_tick": ".jobs.landing.recorded_time",
    "replay": ".jobs.replay.pipeline_run",
    "replay_definitions": ".orchestration.definitions",
}
"""Where each name of the face is."""

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
    "Serdes": "Serde.string(), Serde.long() and so on",
}
"""Classes of Kafka's that are none here."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """A name of the face, loaded now. ImportError, which Python shows as it is, for a class that Kafka has there."""
    if name in _SAID_OTHERWISE:
        raise ImportError(f"kstreams_replay has no {name!r}; write {_SAID_OTHERWISE[name]}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
