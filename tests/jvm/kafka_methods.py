"""The public methods of Kafka Streams' DSL, Processor API and test driver, as its jars have them (javap).

Data: ``kafka_methods.json`` beside this, by class (the package ``org.apache.kafka.streams`` left out) the number of
overloads of each method. Written again, after an upgrade, by

    .venv/bin/python -m tests.jvm.kafka_methods
"""

import json
import os
import re
import subprocess
from pathlib import Path

from kstreams_replay.jobs.execution.spark_session import resolve
from tests.jvm.streams import STREAMS, TEST_UTILS

METHODS = Path(__file__).parent / "kafka_methods.json"
PACKAGE = "org.apache.kafka.streams."
DSL = """KStream KTable GlobalKTable KGroupedStream KGroupedTable CogroupedKStream TimeWindowedKStream
    SessionWindowedKStream TimeWindowedCogroupedKStream SessionWindowedCogroupedKStream BranchedKStream Branched
    Consumed Produced Materialized Grouped Joined StreamJoined TableJoined Repartitioned Named Printed Suppressed
    Suppressed$BufferConfig EmitStrategy TimeWindows SlidingWindows SessionWindows JoinWindows UnlimitedWindows Windowed
    WindowedSerdes ValueTransformerWithKey"""
PROCESSOR_API = """Processor FixedKeyProcessor ProcessorSupplier FixedKeyProcessorSupplier ContextualProcessor
    ContextualFixedKeyProcessor ProcessingContext ProcessorContext FixedKeyProcessorContext Record FixedKeyRecord
    RecordMetadata"""
PROCESSORS = "Cancellable Punctuator TimestampExtractor TopicNameExtractor StreamPartitioner ConnectedStoreProvider"
STORES = """Stores ReadOnlyKeyValueStore KeyValueStore ReadOnlyWindowStore WindowStore ReadOnlySessionStore SessionStore
    VersionedKeyValueStore"""
CLASSES = (
    *("StreamsBuilder", "Topology"),
    *(f"kstream.{name}" for name in DSL.split()),
    *(f"processor.api.{name}" for name in PROCESSOR_API.split()),
    *(f"processor.{name}" for name in PROCESSORS.split()),
    *(f"state.{name}" for name in STORES.split()),
    *("TopologyTestDriver", "TestInputTopic", "TestOutputTopic"),
)
OF_EVERY_OBJECT = ("equals", "hashCode", "toString")


def methods() -> dict[str, dict[str, int]]:
    """By class, the number of overloads of each public method that it declares."""
    jars = os.pathsep.join(map(str, resolve((STREAMS, TEST_UTILS))))
    command = ["javap", "-public", "-cp", jars, *(PACKAGE + name for name in CLASSES)]
    found: dict[str, dict[str, int]] = {}
    name = ""
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if declared := re.match(r"public .*(?:class|interface) ([\w.$]+)", line):
            name = declared[1].removeprefix(PACKAGE)
            found[name] = {}
        elif (method := re.match(r"  public .*?(\w+)\(", line)) and _counts(method[1], name, line):
            found[name][method[1]] = found[name].get(method[1], 0) + 1
    return found


def _counts(method: str, name: str, line: str) -> bool:
    """Neither a constructor nor what every object has."""
    return method not in OF_EVERY_OBJECT and not line.startswith(f"  public {PACKAGE}{name}(")


if __name__ == "__main__":
    METHODS.write_text(json.dumps(methods(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
