"""Nodes at which records come in, leave, or change hands: they run in a task's own way, not as operators.

Owns sources, sinks, repartition tables, global tables, and the change of a table into a stream.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import TaskFailed, TopologyError, shown
from ...state.promises import Promise, RepartitionPromise, WindowedRows
from ...state.tables.names import TableName
from ...state.times import is_int
from ..functions.timestamp_extractors import OWN_TIME, TimestampExtractor
from .graph import Graph, Node
from .kafka_processors import PROCESSOR, SINK, SOURCE, KafkaNode, kafka_processor
from .kafka_traits import KafkaTrait
from .observations import Observation
from .wording import Wording

LONG_BYTES, NUMBER_BYTES = 8, 4

Partitioner = Callable[[str, Any, Any, int], int | Collection[int] | None]
"""Of (topic, key, value, number of partitions): a partition, several, none at all (an empty set), or None for where the
record would go without it (StreamPartitioner).
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceNode(Node):
    """Reads the landed ``topic``. ``extractor``: where the records' times are from."""

    topic: str
    extractor: TimestampExtractor = OWN_TIME

    is_source = True
    target_of = None
    """No field of its values says in which partition a record is."""

    @property
    def landed_topic(self) -> str:
        return self.topic

    @property
    def time_step(self) -> TimestampExtractor | None:
        return None if self.extractor.is_own_time else self.extractor

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        return () if graph.dead_letter_topic is None else (KafkaTrait.DEAD_LETTERS,)

    def check_beside(self, other: Node) -> None:
        if isinstance(other, SourceNode) and self.topic == other.topic:
            raise TopologyError(
                f"topic {self.topic!r}", "one stream()", "two", "keep the first stream and use it in both places"
            )

    @property
    def topic_of_records(self) -> str:
        return self.topic

    def table(self, graph: Graph) -> str:
        return TableName.landed(self.topic)

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        return [KafkaNode(SOURCE, self.name, topic=self.topic)]


@dataclass(frozen=True, eq=False, kw_only=True)
class SinkNode(Node):
    """Writes to the output ``topic``."""

    topic: str

    has_topics = False
    """Each of its rows has a topic of its own, in a column."""

    def may_name(self, topic: str) -> bool:
        """Whether a record of it may have the topic."""
        return False

    @property
    def written_topic(self) -> str:
        return self.topic

    def table(self, graph: Graph) -> str:
        return TableName.output(self.topic)

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        return [KafkaNode(SINK, self.name, self.inputs, topic=self.topic)]

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        return () if self.shape.window is None else (KafkaTrait.WINDOWED_KEYS,)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        """Its rows have the windows of the operator above that gave them, if their keys are still those."""
        for node in graph.above(self) if self.shape.window is not None else ():
            if node.windows_of_rows is not None:
                yield WindowedRows(self.table(graph), node.windows_of_rows.grid)
                return
            if len(node.inputs) != 1 or node.changes_keys:
                return

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        """The offset is that of the output's partition, which is the task's."""
        return [
            f"writes outputs/{self.topic} offset {seen.first_offset + number}: {say.row(row, self.shape.window)}, "
            f"time {say.time(row.record_time_ms)}"
            for number, row in enumerate(seen.rows)
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedSinkNode(SinkNode):
    """Writes to the ``partitions`` (None: as many as a repartition table would have) of the output ``topic``, where
    ``partitioner`` says; None: by the key.
    """

    partitioner: Partitioner | None = None
    partitions: int | None = None

    @property
    def partitioning(self) -> tuple[Partitioner | None, int | None]:
        return self.partitioner, self.partitions

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        return super().kafka_traits(graph) if self.partitioner is None else (KafkaTrait.PARTITIONER,)


def sink_node(partitioner: Partitioner | None, partitions: int | None, **node: Any) -> SinkNode:
    """A sink of these partitions, or one that leaves records in the partition of their task when both are None."""
    if partitioner is None and partitions is None:
        return SinkNode(**node)
    return PartitionedSinkNode(partitioner=partitioner, partitions=partitions, **node)


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicWriterNode(Node):
    """Where records leave for the partitions of a ``topic``, as for one that the topology reads, too: a repartition
    table comes next (jobs/topology/intermediate_topics.py).
    """

    topic: str

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return [f"writes to the partitions of the topic {self.topic}"]


@dataclass(frozen=True, eq=False, kw_only=True)
class RepartitionNode(Node):
    """Ends a sub-topology with a repartition table and begins the next. An intermediate topic has a writer of each
    sub-topology that writes it as an input.

    ``partitions``: None for as many as the largest source topic has. ``keeps_null_keys``: False filters them in
    silence, as Kafka does unless a left or outer stream join is below. ``carries_change``: the value is a table's
    change (new, old), as a grouping of a table writes it. ``target_of``: name of an int32 field of the value that is
    the target partition, None for murmur2 of the serialized key. ``is_replay_only``: Kafka Streams has no such topic
    (deduplication). Its records are taken as part of the record that sent them, keep topic and offset from before, and
    their lateness does not count again.
    """

    topic: str
    sink_name: str
    filter_name: str
    partitions: int | None = None
    keeps_null_keys: bool = False
    carries_change: bool = False
    target_of: str | None = None
    is_replay_only: bool = False
    has_own_offsets: bool = False
    """Of a table that is in the replay alone: operators see its topic and offsets all the same (semantics "kip")."""

    is_source = True

    def partitions_of(self, key: Any, value: Any, partitions: int) -> list[int] | None:
        """Where a partitioner of the user's sends a record; None: where its key says."""
        return None

    def hashed(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        """Of serialized keys the bytes whose murmur2 is the partition."""
        return keys

    @property
    def has_partitioner(self) -> bool:
        return False

    def with_windows_in_keys(self, above: Node) -> Node | None:
        if self.shape.window is None:
            return None
        made = replace(self, inputs=(above.name,), shape=above.shape)
        return made if self.shape.window == "session" else made.of_time_windows()

    def of_time_windows(self) -> "RepartitionNode":
        """The same of keys with the end and start of a time window behind them."""
        return TimeWindowsRepartitionNode(**vars(self))

    @property
    def has_places_of_table(self) -> bool:  # type: ignore[override]
        return not self.is_replay_only

    @property
    def topic_of_records(self) -> str:
        return self.topic

    def table(self, graph: Graph) -> str:
        return TableName.repartition(self.topic)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        """Its records lie by their key; of steps that make at most one of one, each is there once."""
        yield RepartitionPromise(self.table(graph), self.target_of is None, self.makes_at_most_one(graph))

    def makes_at_most_one(self, graph: Graph) -> bool:
        """Whether a record on the tape above makes at most one record here."""
        node: Node = self
        while len(node.inputs) == 1:
            node = graph.parent(node)
            if node.is_source:
                return True
            if not (node.forwards_one or node.forwards_at_most_one):
                return False
        return False

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        above = graph.parent(self).forwarding_processors(graph)
        filters = [kafka_processor(self.filter_name, above)] if self.filter_name else []
        above = (self.filter_name,) if self.filter_name else above
        return [
            *filters,
            KafkaNode(SINK, self.sink_name, above, topic=self.topic),
            KafkaNode(SOURCE, self.name, topic=self.topic),
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedNode(RepartitionNode):
    """A repartition table whose records go where ``partitioner`` says."""

    partitioner: Partitioner

    @property
    def key_step(self) -> Any:
        return self.partitioner

    @property
    def has_partitioner(self) -> bool:
        return True

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        return (KafkaTrait.PARTITIONER,)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        """Nothing of where a record is, nor of how often."""
        yield RepartitionPromise(self.table(graph), by_key=False, at_most_one=False)

    def of_time_windows(self) -> RepartitionNode:
        return PartitionedTimeWindowsNode(**vars(self))

    def partitions_of(self, key: Any, value: Any, partitions: int) -> list[int] | None:
        """Ascending, each once. Raises TaskFailed when the partitioner fails, and for what is no partition."""
        try:
            chosen = self.partitioner(self.topic, key, value, partitions)
        except Exception as error:
            given = f"on key {key!r}"
            raise TaskFailed.by(
                error, self.name, "a partitioner that does not fail", given, "correct the partitioner"
            ) from error
        if chosen is None:
            return None
        several: Collection[Any] = (chosen,)
        if isinstance(chosen, Collection) and not isinstance(chosen, str | bytes):
            several = chosen
        if not all(is_int(one) and 0 <= one < partitions for one in several):
            expected = f"a partition from 0 to {partitions - 1}, a set of them, or None"
            next_step = "give one below the number of partitions that the partitioner is given; a test driver has 1"
            raise TaskFailed(self.name, expected, f"{shown(chosen)} for key {key!r}", next_step)
        return sorted({int(one) for one in several})


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowedRepartitionNode(RepartitionNode):
    """A repartition table of windowed keys, each in the partition of its key without the window
    (WindowedStreamPartitioner). ``window_bytes``: of the window, behind the key's.
    """

    window_bytes: int

    def hashed(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        return pc.binary_slice(keys, 0, -self.window_bytes)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        yield RepartitionPromise(self.table(graph), by_key=False, at_most_one=self.makes_at_most_one(graph))


def _without_end(keys: pa.BinaryArray) -> pa.BinaryArray:
    """Of keys of time windows with end and start behind them what Kafka writes, which has no end."""
    start = pc.binary_slice(keys, -LONG_BYTES)
    return pc.binary_join_element_wise(pc.binary_slice(keys, 0, -2 * LONG_BYTES), start, pa.scalar(b"", pa.binary()))


@dataclass(frozen=True, eq=False, kw_only=True)
class TimeWindowsRepartitionNode(RepartitionNode):
    """A repartition table of keys of time windows, each in the partition of what Kafka writes (KStream.repartition,
    which unlike a sink has no WindowedStreamPartitioner).
    """

    def hashed(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        return _without_end(keys)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        yield RepartitionPromise(self.table(graph), by_key=False, at_most_one=self.makes_at_most_one(graph))


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedTimeWindowsNode(PartitionedNode):
    """As ``PartitionedNode``, of keys of time windows, hashed as those of ``TimeWindowsRepartitionNode`` where the
    partitioner says nothing.
    """

    def hashed(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        return _without_end(keys)


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedChangelogKeysNode(PartitionedNode):
    """As ``PartitionedNode``, of keys of a window store's changelog: Kafka's serde writes them without the number."""

    def hashed(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        return pc.binary_slice(keys, 0, -NUMBER_BYTES)


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTableNode(Node):
    """A global table: every task has all of ``topic``."""

    topic: str
    store: str

    is_global = True
    made_by = ""
    """The function that makes its contents of all records, as ``operator``; empty: of each key the newest is shown."""

    @property
    def replica_counter(self) -> str:
        """Counter of a reader that keeps its replica among its own rows, and need not be shown the topic again."""
        return f"replica of {self.name}"

    def taken(self, key: Any, value: Any) -> str:
        """What becomes of a record, as a sentence."""
        if key is None:
            return "passed over: its key is null"
        return f"{key!r} is {value!r} from here on, for every task that looks into the global table"

    @property
    def landed_topic(self) -> str:
        return self.topic

    view = ".nowhere"

    @property
    def topic_of_records(self) -> str:
        return self.topic

    def table(self, graph: Graph) -> str:
        return TableName.landed(self.topic)

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        """Of no task: every member has all of it."""
        yield from (trait for trait in super().kafka_traits(graph) if trait is not KafkaTrait.TASK_STATE)
        yield KafkaTrait.GLOBAL_TABLE

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        (source,) = graph.parts[self.name]
        return [
            KafkaNode(SOURCE, source, topic=self.topic, is_global=True),
            KafkaNode(PROCESSOR, self.name, (source,), (self.store,), is_global=True),
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class ToStreamNode(Node):
    """A table's changes as a stream of records."""

    forwards_one = forwards_unchanged = True

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return ["goes on"]
