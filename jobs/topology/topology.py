"""A built topology: sub-topologies, what they read and write, and Kafka's description of them."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from ...state.errors import ConfigError, TopologyError
from ...state.serdes import Serde
from ..functions.call_arguments import checked_class
from ..functions.call_names import Hinting
from ..functions.processor_api import KeyValues
from ..functions.state_stores import store_instead_of
from ..graph import copartitioning
from ..graph.graph import Graph, Node
from ..graph.name_rules import check_name
from ..graph.nodes import GlobalTableNode, Partitioner, RepartitionNode, SinkNode, SourceNode
from ..operators.aggregates.aggregate_nodes import AggregateNode
from ..operators.dynamic_topics_node import with_own_topics
from ..operators.suppress.suppress_node import SuppressNode
from . import processor_topology
from .dead_letter_topic import with_dead_letters
from .describe import describe, settings
from .intermediate_topics import running
from .picture import picture
from .topic_patterns import awaits_topics, check_patterns, reading

_TASKS_MAX = 2**20
"""More than a sub-topology has."""


@dataclass(frozen=True, eq=False)
class SubTopology:
    """Nodes that run together in one task. ``id``: Kafka's number.

    Where a sub-topology reads what it caused itself (the response of a foreign-key join), the nodes below that run as
    a stage of their own. Such a stage has ``level`` 1 or more, an ``id`` after all of Kafka's, and in ``kafka_id``
    the sub-topology that it belongs to.
    """

    id: int
    nodes: tuple[Node, ...]
    repartitions: tuple[RepartitionNode, ...]
    """Repartition tables that this sub-topology writes."""
    stores: Mapping[str, Node]
    """Nodes that keep state, by the name of their store."""
    globals: tuple[GlobalTableNode, ...] = ()
    """Global tables that this sub-topology looks into."""
    kafka_id: int = 0
    level: int = 0

    @property
    def sources(self) -> tuple[SourceNode | RepartitionNode, ...]:
        """What it reads, in the order in which their queues are compared."""
        return tuple(node for node in self.nodes if isinstance(node, SourceNode | RepartitionNode))

    @property
    def reads_landed_alone(self) -> bool:
        """Its tasks read landed topics, and nothing that tasks send."""
        return self.level == 0 and not self.repartition_sources

    @property
    def repartition_sources(self) -> tuple[RepartitionNode, ...]:
        """Repartition tables that it reads."""
        return tuple(node for node in self.nodes if isinstance(node, RepartitionNode))

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        """Nodes that write its outputs."""
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))


class _Settled(NamedTuple):
    """A topology to which nothing is added any more: the graph that Kafka describes, and the one that runs."""

    described: Graph
    graph: Graph
    sub_topologies: tuple[SubTopology, ...]
    awaits_topics: str | None
    reached: Mapping[int, frozenset[int]]
    """By sub-topology, those to which what it sends may come; itself too where it goes round."""


@checked_class
class Topology(Hinting):
    """What ``StreamsBuilder.build`` returns, or the Processor API alone: an empty one, to which sources, processors,
    sinks and stores are added by name. ``graph``: the builder's; None for an empty topology. ``supplier``, of the
    calls, makes the Processor, once a task. A topology can be pickled, so tasks run anywhere.

    ``Topology().add_source("in", Consumed(key, value), "clicks").add_processor("count", Count, "in")`` and so on; each
    call returns the topology. Raises TopologyError, as Kafka's TopologyException, where it is called. One without a
    source has no sub-topologies, and there is nothing to do for it.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            next_step = "leave it out: settings are given to StreamsBuilder(config={…})"
            raise TopologyError("Topology", "no settings", repr(graph), next_step)
        self._own = Graph(names_are_free=True) if graph is None else graph
        self._stores: dict[str, KeyValues] = {}
        self._settled: _Settled | None = None
        self._pipes_into_loops = False
        self._state_schemas: dict[str, pa.Schema] = {}
        self.dataflows: Any = None
        """How the nodes of each sub-topology hang together, worked out by the first task (jobs/task/dataflow.py)."""
        if graph is not None:
            self._settle()

    # --- the Processor API -----------------------------------------------------------------------------------

    def add_source(self, name: str, consumed: Any, *topics: str | re.Pattern[str]) -> "Topology":
        """A source of that name reads the topics, or all that match one pattern. ``consumed``: a ``Consumed``."""
        processor_topology.add_source(self._open(), name, consumed, topics)
        return self

    def add_processor(
        self,
        name: str,
        supplier: Callable[[], Any],
        *parents: str,
        returns_key: Serde | None = None,
        returns: Serde | None = None,
    ) -> "Topology":
        """A processor (jobs/functions/processor_api.py) takes what its parents forward. ``returns_key`` and
        ``returns``: serdes of what it forwards itself, those of its input if not given. There is no repartition.
        """
        processor_topology.add_processor(self._open(), name, supplier, parents, returns_key, returns)
        return self

    def add_sink(
        self,
        name: str,
        topic: Any,
        *parents: str,
        topics: Collection[str] | re.Pattern[str] | None = None,
        partitioner: Partitioner | None = None,
        partitions: int | None = None,
    ) -> "Topology":
        """What the parents forward is written to the output ``topic``, or to topics that ``topic``, a step, names.
        ``topics``, ``partitioner``, ``partitions``: of ``to``.
        """
        processor_topology.add_sink(self._open(), name, topic, parents, topics, partitioner, partitions)
        return self

    def add_state_store(self, store: KeyValues, *processors: str) -> "Topology":
        """A store, connected with these processors. TopologyError for another one of that name."""
        if not isinstance(store, KeyValues):
            raise TopologyError("add_state_store", "a KeyValues", repr(store), store_instead_of(store))
        if self._stores.setdefault(check_name(store.name), store) != store:
            got, next_step = "a different one that is added already", "rename one of them"
            raise TopologyError(f"store {store.name!r}", "stores of different names", got, next_step)
        for processor in processors:
            processor_topology.connect(self._open(), processor, store)
        return self

    def add_global_store(
        self,
        store: KeyValues,
        source: str,
        consumed: Any,
        topic: str,
        processor: str,
        supplier: Callable[[], Any],
    ) -> "Topology":
        """A store that the processor ``processor`` keeps from what the source ``source`` reads, and that every task has
        all of: ``connect_processor_and_state_stores`` says who reads it. ``consumed``: a ``Consumed`` of the topic.
        """
        processor_topology.add_global(self._open(), store, source, consumed, topic, processor, supplier)
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> "Topology":
        """The processor has these stores, too, or reads them if they are global. TopologyError for one that is not
        added.
        """
        if not stores:
            expected, next_step = "the name of a store", "name at least one"
            raise TopologyError("connect_processor_and_state_stores", expected, "none", next_step)
        for store in stores:
            if processor_topology.connect_global(self._open(), processor, store):
                continue
            if store not in self._stores:
                expected, next_step = f"a store that is added, one of {list(self._stores)}", "add_state_store it first"
                raise TopologyError(f"processor {processor!r}", expected, repr(store), next_step)
            processor_topology.connect(self._open(), processor, self._stores[store])
        return self

    def _open(self) -> Graph:
        """The graph, to which something is added."""
        if self._settled is not None:
            expected, next_step = "a topology that is not used yet", "add everything first"
            raise TopologyError("topology", expected, "one that was built, described or run", next_step)
        return self._own

    # --- as it is ------------------------------------------------------------------------------------------------

    def _settle(self) -> _Settled:
        if self._settled is None:
            nodes = self._own.nodes.values()
            self._own.check_stores()
            check_patterns(self._own)
            graph = running(with_own_topics(with_dead_letters(self._own)), pipes_into_loops=self._pipes_into_loops)
            parts = _in_order(_parts(graph))
            self._settled = _Settled(self._own, graph, parts, awaits_topics(nodes), _reached(parts))
        return self._settled

    @property
    def graph(self) -> Graph:
        """What runs. Raises TopologyError while the topics of a pattern are not known."""
        if (name := self._settle().awaits_topics) is not None:
            got, next_step = "a pattern", "use topology.reading([…]), or topology.reading(warehouse.topics())"
            raise TopologyError(name, "the topics that match its pattern", got, next_step)
        return self._settle().graph

    @property
    def described(self) -> Graph:
        """What ``describe`` prints, operators under the names that they have there."""
        return self._settle().described

    @property
    def sub_topologies(self) -> tuple[SubTopology, ...]:
        """In the order in which they can run: each after those whose records it reads."""
        assert self.graph
        return self._settle().sub_topologies

    def describe(self) -> str:
        """The topology as Kafka's ``TopologyDescription.toString`` prints it."""
        return describe(self._settle().described)

    def picture(self) -> str:
        """The topology as a picture: SVG text with every node, store and topic of ``describe``."""
        return picture(self._settle().described)

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that change with the graph, its windows and its limits (not with Python callables)."""
        nodes = (settings(self.graph, node) for node in self.graph.nodes.values())
        said = "\n".join([self.describe(), f"semantics {self.graph.semantics}", *nodes])
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    def with_graces(self, graces: Mapping[str, int]) -> "Topology":
        """The same topology with other graces: ``graces`` has milliseconds by the name of a node with windows. A
        suppress below them waits as long. ConfigError for a negative one, TopologyError for a node that has no grace.
        """
        for name, grace_ms in graces.items():
            if grace_ms < 0 or name not in self._settle().described.nodes:
                expected, got = "a node of the topology, and 0 ms or more", f"{grace_ms} ms"
                raise ConfigError(f"grace of {name!r}", expected, got, "correct the name or the grace")
        graph = copy(self._settle().described)
        graph.nodes = {}
        for name, node in self._own.nodes.items():
            given = node.with_grace(graces[name]) if name in graces else node
            # A node comes after those above it, so ``graph`` has their windows with the other graces.
            graph.nodes[name] = given.below_windows(graph)
        return Topology(graph)

    @property
    def has_patterns(self) -> bool:
        """Whether it reads topics by a pattern."""
        return any(node.topic_pattern is not None for node in self._own.nodes.values())

    def reading(self, topics: Collection[str] | Callable[[], Collection[str]] | None) -> "Topology":
        """The same with these ``topics`` for its patterns, one or more; a function gives them late, None is any."""
        if not self.has_patterns:
            return self
        return Topology(reading(self._settle().described, topics() if callable(topics) else topics))

    @property
    def loop_topics(self) -> dict[str, str]:
        """Topics that it writes below where it reads them, and of each the path from the topic back to it."""
        return {loop.topic: loop.path for loop in self.graph.loops.values()}

    def running(self, nodes: Mapping[str, Node]) -> "Topology":
        """These nodes alone of those that run, and what they have for others. All that they read is among them."""
        graph = copy(self.graph)
        graph.nodes = dict(nodes)
        graph.loops = {name: loop for name, loop in graph.loops.items() if name in nodes}
        graph.copartitioned = [group & frozenset(nodes) for group in graph.copartitioned if group & frozenset(nodes)]
        described = copy(self._settle().described)
        described.nodes = {name: node for name, node in described.nodes.items() if name in nodes}
        parts, made = _in_order(_parts(graph)), Topology()
        made._own, made._settled = described, _Settled(described, graph, parts, None, _reached(parts))
        return made

    def piping_into_loops(self) -> "Topology":
        """The same, in which others may write the topics of loops, too: what the test driver runs."""
        if not self.loop_topics:
            return self
        made = Topology(self._settle().described)
        made._pipes_into_loops = True
        # It settled as it was made, without landed records for its loops.
        made._settled = None
        return made

    def source_topics(self) -> list[str]:
        """Topics to land, global tables' included."""
        topics = (node.landed_topic for node in self.graph.nodes.values() if node.landed_topic is not None)
        return list(dict.fromkeys(topics))

    def intermediate_topics(self) -> list[str]:
        """Topics that it both writes and reads and that nobody lands (jobs/topology/intermediate_topics.py)."""
        landed = {node.landed_topic for node in self._settle().graph.nodes.values()}
        return [topic for topic in self.written_and_read() if topic not in landed]

    def written_and_read(self) -> list[str]:
        """Topics that it both writes and reads, whether others write them, too, or not."""
        read = {node.landed_topic for node in self._settle().described.nodes.values()}
        return list(dict.fromkeys(sink.topic for sink in self.sinks() if sink.topic in read))

    def sinks(self) -> list[SinkNode]:
        """Nodes that write its outputs, in the order of the calls."""
        return [node for node in self.graph.nodes.values() if isinstance(node, SinkNode)]

    def stores(self) -> dict[str, Node]:
        """Nodes that keep state, by the name of their store."""
        return {name: node for sub in self.sub_topologies for name, node in sub.stores.items()}

    def sub_topology(self, number: int) -> SubTopology:
        """The one whose ``id`` is ``number``."""
        return next(sub for sub in self.sub_topologies if sub.id == number)

    def sub_topology_of(self, store: str) -> SubTopology | None:
        """The sub-topology that keeps ``store``; None when there is none."""
        return next((sub for sub in self.sub_topologies if store in sub.stores), None)

    def state_schema(self, store: str) -> pa.Schema:
        """Columns of the table of ``store``: partition, increment, deleted, then the store's own."""
        if store not in self._state_schemas:  # folds are begun to know their types
            sub = self.sub_topology_of(store)
            assert sub is not None, f"no store {store} in the topology"
            own = sub.stores[store].store_rows(self.graph).schema
            columns = [("partition", pa.int32()), ("increment", pa.int64()), ("deleted", pa.bool_()), *own]
            self._state_schemas[store] = pa.schema(columns)
        return self._state_schemas[store]

    def partitions_of(self, landed: Mapping[str, int]) -> dict[str, int]:
        """Partitions of every topic, repartition tables included, where landed topics have so many. Raises
        TopologyError when topics that are joined have different numbers.
        """
        return copartitioning.partitions_of(self.graph, landed)

    def readers_of(self, topic: str) -> list[SubTopology]:
        """Sub-topologies that read ``topic`` as one of their sources."""
        return [sub for sub in self.sub_topologies if topic in [source.topic for source in sub.sources]]

    def writers_of(self, name: str) -> list[SubTopology]:
        """Sub-topologies that write the repartition table ``name``, in the order in which they run; none for what one
        part of a sub-topology hands to a later one.
        """
        return [sub for sub in self.sub_topologies if name in {node.topic for node in sub.repartitions}]

    def reads_written(self, sub: SubTopology) -> bool:
        """Whether Kafka's sub-topology, of which ``sub`` is a part, reads repartition topics."""
        parts = [part for part in self.sub_topologies if part.kafka_id == sub.kafka_id]
        return any(not node.is_replay_only for part in parts for node in part.repartition_sources)

    def goes_round(self, name: str, sub: SubTopology) -> bool:
        """Whether what ``sub`` sends may come back to it in the repartition table ``name``, or in what an earlier part
        of it hands over as ``name``.
        """
        writers = self.writers_of(name) or [part for part in self.sub_topologies if _is_earlier_part(part, sub)]
        return any(writer in self.circle(sub) for writer in writers)

    def circle(self, sub: SubTopology) -> list[SubTopology]:
        """Sub-topologies whose records come to ``sub``, and to which its records come; none where nothing goes round,
        else itself among them.
        """
        reached = self._settle().reached
        return [other for other in self.sub_topologies if other.id in reached[sub.id] and sub.id in reached[other.id]]

    def is_last_writer(self, name: str, sub: SubTopology) -> bool:
        """Whether nothing goes to ``name`` after ``sub``, one of its writers, has run."""
        return sub.id in [writer.id for writer in self.writers_of(name)[-1:] or [sub]]

    def writer_number(self, name: str, sub: SubTopology, partition: int) -> int:
        """Which of the tasks that write ``name`` it is: its partition where they are of one sub-topology."""
        return partition if len(self.writers_of(name)) < 2 else sub.id * _TASKS_MAX + partition

    def suppress_above(self, sink: SinkNode) -> SuppressNode | None:
        """The suppress whose final results ``sink`` writes, or None when it writes something else."""
        for node in self.graph.above(sink):
            if isinstance(node, SuppressNode):
                return node
            if isinstance(node, AggregateNode | RepartitionNode) or len(node.inputs) > 1:
                return None
        return None


def _parts(graph: Graph) -> list[SubTopology]:
    groups = graph.groups()
    group_of = {node.name: number for number, group in enumerate(groups) for node in group}
    levels = _levels(graph, group_of)
    nodes_of: dict[tuple[int, int], list[Node]] = {}
    for name, node in graph.nodes.items():
        if name in group_of:
            nodes_of.setdefault((levels[name], group_of[name]), []).append(node)
    parts: list[SubTopology] = []
    for (level, kafka_id), nodes in sorted(nodes_of.items(), key=lambda item: item[0]):
        number = kafka_id if level == 0 else len(groups) + len([part for part in parts if part.level > 0])
        parts.append(_part(graph, nodes, number, kafka_id, level))
    _check_whole(parts)
    _check_dead_letters(graph, parts)
    return parts


def _check_whole(parts: list[SubTopology]) -> None:
    """Raises TopologyError where a task that runs record by record would run in several parts, one after the other."""
    for part in parts:
        node = next((node for node in part.nodes if node.is_by_record), None)
        if node is not None and any(other.kafka_id == part.kafka_id and other is not part for other in parts):
            got = "one that reads what it caused itself (a foreign-key join, or an intermediate topic)"
            next_step = "give the processor a store of its own, or write what it forwards to a topic of its own"
            raise TopologyError(node.name, "a shared store in a sub-topology that runs at once", got, next_step)


def _check_dead_letters(graph: Graph, parts: list[SubTopology]) -> None:
    """Raises TopologyError where a step that keeps dead letters gets records of an earlier part of its sub-topology.
    These are rows of no topic any more, and the earlier part has counted their records as applied.
    """
    for part in parts:
        here = {node.name for node in part.nodes}
        for step in sorted(graph.dead_lettering & here):
            waiting = [graph.nodes[step]]
            while waiting:
                node = waiting.pop()
                if not here.issuperset(above := () if node.is_source else node.inputs):
                    expected = (
                        'a step that records reach straight from a topic or a repartition, for on_error="dead_letter"'
                    )
                    got = f"one below {node.name}, which also waits for records that this sub-topology writes itself"
                    next_step = f"put the step ahead of {node.name}, once for each of its streams"
                    raise TopologyError(step, expected, got, next_step)
                waiting += [graph.nodes[name] for name in above]


def _part(graph: Graph, nodes: list[Node], number: int, kafka_id: int, level: int) -> SubTopology:
    written = tuple(
        child for node in nodes for child in graph.children(node.name) if isinstance(child, RepartitionNode)
    )
    stores = {store: node for node in nodes if (store := graph.store_of(node)) is not None}
    read = {name: graph.nodes[name] for node in nodes for name in node.reads}
    tables = tuple(node for node in read.values() if isinstance(node, GlobalTableNode))
    return SubTopology(number, tuple(nodes), written, stores, tables, kafka_id, level)


def _levels(graph: Graph, group_of: dict[str, int]) -> dict[str, int]:
    """How often the records of a node have left its sub-topology and come back; and once more where two sub-topologies
    would wait for each other.
    """
    levels: dict[str, int] = {}
    seen: dict[str, dict[int, int]] = {}  # node → group → the highest level there, of the node and all above it
    fed: dict[tuple[int, int], set[tuple[int, int]]] = {}  # (group, level) → those that read what it writes
    for name, node in graph.nodes.items():
        above: dict[int, int] = {}
        for other in (*node.inputs, *node.reads):
            for group, level in seen.get(other, {}).items():  # a store made later is in a part that runs at once
                above[group] = max(above.get(group, 0), level)
        own = group_of.get(name, -1)
        levels[name] = above.get(own, 0)
        if isinstance(node, RepartitionNode):
            writers = [(group_of[other], levels[other]) for other in node.inputs]
            # If its own sub-topology is above, records come back to it, so the table begins a later part; else it is on
            # level 0.
            levels[name] = above.get(own, -1) + 1
            while any(_reaches(fed, (own, levels[name]), writer) for writer in writers):
                levels[name] += 1
            for writer in writers:
                fed.setdefault(writer, set()).add((own, levels[name]))
        seen[name] = above | {own: levels[name]}
    return levels


def _reaches(fed: dict[tuple[int, int], set[tuple[int, int]]], start: tuple[int, int], goal: tuple[int, int]) -> bool:
    """Whether ``goal`` waits for ``start``; each level of a group waits for those below it."""
    reached, waiting = {start}, [start]
    while waiting:
        group, level = waiting.pop()
        later = {part for part in (*fed, goal) if part[0] == group and part[1] > level}
        waiting += (fed.get((group, level), set()) | later) - reached
        reached |= {*waiting}
    return goal in reached


def _in_order(parts: list[SubTopology]) -> tuple[SubTopology, ...]:
    """Each after those that write its repartition tables, and after its own part of a lower level."""
    ordered: list[SubTopology] = []
    waiting = list(parts)
    while waiting:
        # There always is one: ``_levels`` lets no two parts wait for each other.
        ready = next(
            part for part in waiting if not any(other is not part and _feeds(other, part) for other in waiting)
        )
        waiting.remove(ready)
        ordered.append(ready)
    return tuple(ordered)


def _feeds(one: SubTopology, other: SubTopology) -> bool:
    return _is_earlier_part(one, other) or any(node in one.repartitions for node in other.sources)


def _is_earlier_part(one: SubTopology, other: SubTopology) -> bool:
    return one.kafka_id == other.kafka_id and one.level < other.level


def _reached(parts: Collection[SubTopology]) -> dict[int, frozenset[int]]:
    """By sub-topology those that its records come to, over topics of loops, too."""
    next_of = {
        one.id: {
            other.id
            for other in parts
            if _is_earlier_part(one, other)
            or {node.topic for node in one.repartitions} & {source.topic for source in other.repartition_sources}
        }
        for one in parts
    }
    reached: dict[int, frozenset[int]] = {}
    for one in parts:
        below, waiting = set[int](), [one.id]
        while waiting:
            new = next_of[waiting.pop()] - below
            below |= new
            waiting += new
        reached[one.id] = frozenset(below)
    return reached
