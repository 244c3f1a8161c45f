"""Topics with partitions of their own: those that a topology both writes and reads (Kafka's intermediate topics), and
outputs whose ``to()`` says partitions or a partitioner, or that several sub-topologies write.

Owns the graph that runs, where there are some or where windowed keys are repartitioned. Rule: such a topic is a
repartition table under the user's name, ordered by cause and with offsets of its own, so that cuts change nothing. Its
readers run after all its writers. Its records are an output as well, in their order in the topic. In the table a
windowed key has its window in its bytes. The topic has the partitions of a repartition table, not of who wrote it. The
graph that the DSL built stays as it is: it is what Kafka describes.

A *loop*: a topic that is written below where it is read. The graph that runs is cut there: what writes it below leads
to a node of its own (``Graph.loops``), and not to the one that reads it, so that nodes still have an order. What goes
round is played until nothing is written any more (jobs/replay/stage_exchange.py, jobs/testing/driver_tasks.py).

Who reads a topic that *others write, too* (``Consumed(others=)``) gets their landed records merged with the table's.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace

from ...state.errors import TopologyError
from ...state.serdes import Serde
from ...state.tables.names import TableName
from ..functions.expressions import Shape
from ..functions.timestamp_extractors import OWN_TIME
from ..graph.graph import Graph, LoopTopic, Node, OthersWrite
from ..graph.nodes import (
    LONG_BYTES,
    PartitionedChangelogKeysNode,
    PartitionedNode,
    PartitionedTimeWindowsNode,
    RepartitionNode,
    SinkNode,
    SourceNode,
    TopicWriterNode,
    WindowedRepartitionNode,
)
from ..operators.stateless_nodes import FilterNode, MergeNode, WindowInKeyNode, WindowOfKeyNode

Writers = dict[str, list[Node]]
"""Sinks by topic."""


def running(graph: Graph, *, pipes_into_loops: bool = False) -> Graph:
    """What runs of the ``graph`` that the DSL built; raises what ``connected`` raises. ``pipes_into_loops``: topics of
    loops have landed records, too, those of other producers.
    """
    return _with_windows_in_keys(connected(graph, pipes_into_loops=pipes_into_loops))


def connected(graph: Graph, *, pipes_into_loops: bool = False) -> Graph:
    """``graph``, or one in which what is written to a topic comes to its partitions, and to who reads it there.

    An output that several sub-topologies write is such a topic, too. Raises TopologyError for serdes that differ
    between writer and reader or between writers, and for a global table of such a topic.
    """
    writers: Writers = {}
    for node in graph.nodes.values():
        if node.written_topic is not None:
            writers.setdefault(node.written_topic, []).append(node)
    read: dict[str, Node] = {}
    for node in graph.nodes.values():
        if node.landed_topic is not None and node.landed_topic in writers:
            read[node.landed_topic] = node
    group_of = _group_of(graph)
    for topic, sinks in writers.items():
        is_shared = len({group_of[sink.name] for sink in sinks}) > 1
        if topic not in read and (is_shared or any(sink.partitioning is not None for sink in sinks)):
            read[topic] = SourceNode(name=_made(sinks[0].name, "topic"), inputs=(), shape=sinks[0].shape, topic=topic)
    built = graph.nodes
    _check_others(graph, writers)
    graph = _with_sources(graph, read)
    several = {topic: sinks for topic, sinks in writers.items() if topic not in read and len(sinks) > 1}
    if several:
        graph = _with_one_sink_each(graph, several)
    if not read:
        return graph
    tables = {node.table(graph) for node in graph.nodes.values()}
    for topic, source in read.items():
        if TableName.repartition(topic) in tables:
            expected = "a name that no repartition of this topology has"
            got, next_step = "the topic of a repartition", "call one of the two otherwise"
            raise TopologyError(f"topic {topic!r}", expected, got, next_step)
        for sink in writers[topic]:
            _check(topic, source, sink, is_read=source.name in built)
    writers = {topic: writers[topic] for topic in read}
    ends, loops = _loops(graph, writers)
    above = {topic: [sink for sink in sinks if sink not in ends.get(topic, ())] for topic, sinks in writers.items()}
    made = copy.copy(graph)
    made.ranks = {name: rank for rank, name in enumerate(graph.nodes)} | graph.ranks
    made.loops = loops
    ordered = _in_order(graph, above)
    nodes = _running(ordered, writers, ends, graph.others_write, pipes_into_loops=pipes_into_loops)
    made.nodes = {node.name: node for node in nodes}
    for name in made.nodes.keys() - made.ranks.keys():
        made.ranks[name] = made.ranks[name.rpartition(":")[0]]  # the user's node that it stands beside
    _merge_writers(made)
    return made


def _with_sources(graph: Graph, read: dict[str, Node]) -> Graph:
    """``graph`` with those sources of ``read`` that it does not have, after all that is there."""
    added = {source.name: source for source in read.values() if source.name not in graph.nodes}
    if added:
        graph = copy.copy(graph)
        graph.nodes = graph.nodes | added
    return graph


def _group_of(graph: Graph) -> dict[str, int]:
    """The number of each node's sub-topology, whatever number Kafka gives it."""
    return {node.name: number for number, group in enumerate(graph.groups()) for node in group}


def _with_one_sink_each(graph: Graph, several: Writers) -> Graph:
    """``graph`` with one sink in the place of those that write the same output."""
    made, nodes = copy.copy(graph), dict(graph.nodes)
    made.ranks = {name: rank for rank, name in enumerate(graph.nodes)} | graph.ranks
    for topic, sinks in several.items():
        first = sinks[0]
        if any(sink.shape != first.shape for sink in sinks):
            raise _several_serdes(topic)
        for sink in sinks:
            nodes[sink.name] = TopicWriterNode(name=sink.name, inputs=sink.inputs, shape=sink.shape, topic=topic)
        merge = MergeNode(name=_made(first.name, "merge"), inputs=tuple(sink.name for sink in sinks), shape=first.shape)
        output = SinkNode(name=_made(first.name, "output"), inputs=(merge.name,), shape=first.shape, topic=topic)
        made.ranks |= dict.fromkeys((merge.name, output.name), made.ranks[first.name])
        nodes |= {merge.name: merge, output.name: output}
    made.nodes = nodes
    return made


def _made(name: str, what: str) -> str:
    """Of a node that is beside ``name``: no user's node is called so, since names have no colon."""
    return f"{name}:{what}"


def _check_others(graph: Graph, writers: Writers) -> None:
    """Raises TopologyError where a condition is said to choose the records that others write to a topic, and this
    topology writes none.
    """
    for topics in graph.others_named:
        if not any(topic in writers or graph.others_write[topic] is None for topic in topics):
            next_step = "write others=True, or leave it out: all landed records are read. A filter chooses among them"
            place, got = f"Consumed of {' and '.join(map(repr, topics))}", "a topic that only others write"
            raise TopologyError(place, "no condition in others=", got, next_step)


def _check(topic: str, source: Node, sink: Node, *, is_read: bool) -> None:
    """Raises TopologyError when ``sink`` writes another type than ``source`` reads. ``is_read``: by the topology, not
    only by the output below the partitions.
    """
    place = f"topic {topic!r}"
    if source.is_global:
        next_step = (
            "read it by table(), and bring the stream to the table's keys by select_key(…) before join(). A record "
            "then finds all that was written before it, which Kafka does not promise for a global table"
        )
        raise TopologyError(place, "a global table of a landed topic", "one that the topology writes itself", next_step)
    if source.time_step is not None and not source.time_step.keeps_valid_times:
        next_step = (
            "give records their times before to(): in a processor, or by the extractor of the topic they come from. "
            "If it is the default.timestamp.extractor, it counts for this topic, too: "
            "Consumed(…, timestamp_extractor=LogAndSkipOnInvalidTimestamp) leaves it out"
        )
        expected = "records at the times at which they were written"
        raise TopologyError(place, expected, "a timestamp extractor that gives them others", next_step)
    if is_read and (sink.shape.window is not None or sink.shape.key.codec.is_windowed):
        next_step = 'use select_key("record_key") before to()'
        raise TopologyError(place, "plain keys in a topic that the topology reads", "windowed ones", next_step)
    if sink.shape != source.shape and not is_read:
        raise _several_serdes(topic)
    if sink.shape != source.shape:
        expected = f"what it is read as, {source.shape.key} and {source.shape.value}, to be written by {sink.name}"
        got = f"{sink.shape.key} and {sink.shape.value}"
        raise TopologyError(place, expected, got, "use the same serdes on both sides")


def _several_serdes(topic: str) -> TopologyError:
    expected, next_step = "records of one key and value serde", "map them to the same"
    return TopologyError(f"output {topic!r}", expected, "of several", next_step)


def _in_order(graph: Graph, writers: Writers) -> list[Node]:
    """Nodes, each after those whose records it gets, else as they were added. ``writers``: without those of loops."""
    above = {
        node.name: {*node.inputs, *node.reads} | {sink.name for sink in writers.get(node.landed_topic or "", ())}
        for node in graph.nodes.values()
    }
    ordered: dict[str, Node] = {}
    waiting = dict(graph.nodes)
    while waiting:
        # There always is one: writers that would close a circle are not in ``writers``.
        ready = next(node for node in waiting.values() if above[node.name] <= ordered.keys())
        ordered[ready.name] = waiting.pop(ready.name)
    return list(ordered.values())


def _loops(graph: Graph, writers: Writers) -> tuple[Writers, dict[str, LoopTopic]]:
    """Of every topic of a loop the sinks that are below its source; and the loops by their ends' names."""
    sources = {node.landed_topic: node for node in graph.nodes.values() if node.landed_topic in writers}
    below: dict[str, list[str]] = {}
    for node in graph.nodes.values():
        for name in (*node.inputs, *node.reads):
            below.setdefault(name, []).append(node.name)
    for topic, sinks in writers.items():
        # A sink has no children, so no entry is lost.
        below |= {sink.name: [sources[topic].name] for sink in sinks if topic in sources}
    ends, loops = Writers(), dict[str, LoopTopic]()
    for topic, source in sources.items():
        paths = _paths_down(source.name, below)
        if topic is not None and (looping := [sink for sink in writers[topic] if sink.name in paths]):
            ends[topic] = looping
            path = [graph.nodes[name] for name in (*paths[looping[0].name], source.name)]
            said = " → ".join(
                node.name if node.landed_topic is None else f"topic {node.landed_topic!r}" for node in path
            )
            loops[_made(source.name, "loop")] = LoopTopic(topic, said)
    return ends, loops


def _paths_down(start: str, below: dict[str, list[str]]) -> dict[str, list[str]]:
    """The shortest path from ``start`` to every node that is below it, both included."""
    paths, waiting = {start: [start]}, [start]
    # The list grows while it is iterated: breadth first, so the first path to a node is a shortest one.
    for name in waiting:
        for child in below.get(name, ()):
            if child not in paths:
                paths[child] = [*paths[name], child]
                waiting.append(child)
    return paths


def _running(
    nodes: list[Node], writers: Writers, ends: Writers, others_write: OthersWrite, *, pipes_into_loops: bool
) -> Iterator[Node]:
    """What runs in their place: writers for sinks, and for sources a repartition table with an output below.

    ``ends``: of the writers those of loops, which lead to a node of their own behind all others. ``others_write``: of
    the graph; sources of these topics get landed records, too, and with ``pipes_into_loops`` those of all loops.
    """
    loops: list[Node] = []
    for node in nodes:
        topic = node.written_topic or node.landed_topic
        if topic is None or topic not in writers:
            yield node
        elif node.written_topic is not None:
            yield TopicWriterNode(name=node.name, inputs=node.inputs, shape=node.shape, topic=topic)
            if node.shape.window is not None:
                windows = _made(node.name, "windows")
                yield WindowInKeyNode(name=windows, inputs=(node.name,), shape=_plain(node.shape))
        else:
            above = node.name
            table, sinks = _table(node, topic, writers[topic]), ends.get(topic, ())
            others = [sink for sink in writers[topic] if sink not in sinks]
            if sinks:
                inputs = tuple(sink.name for sink in sinks)
                loops.append(replace(table, name=_made(node.name, "loop"), inputs=inputs))
                table = replace(table, inputs=tuple(sink.name for sink in others))
            if topic in others_write or (sinks and pipes_into_loops):
                landed, above = _made(node.name, "landed"), _made(node.name, "written")
                extractor = node.time_step or OWN_TIME
                yield SourceNode(name=landed, inputs=(), shape=node.shape, topic=topic, extractor=extractor)
                if (predicate := others_write.get(topic)) is not None:
                    above_all, landed = landed, _made(node.name, "others")
                    yield FilterNode(
                        name=landed, inputs=(above_all,), shape=node.shape, predicate=predicate, keeps=True
                    )
                yield replace(table, name=above)
                yield MergeNode(name=node.name, inputs=(landed, above), shape=node.shape)
            else:
                yield table
            if node.shape.window is not None:
                above = _made(node.name, "windows")
                yield WindowOfKeyNode(name=above, inputs=(node.name,), shape=node.shape)
            yield SinkNode(name=_made(node.name, "output"), inputs=(above,), shape=node.shape, topic=topic)
    yield from loops


def _with_windows_in_keys(graph: Graph) -> Graph:
    """``graph``, whose repartition tables have windowed keys with their windows in the keys' bytes."""
    made, nodes, below = copy.copy(graph), dict[str, Node](), dict[str, str]()
    made.ranks = {name: rank for rank, name in enumerate(graph.nodes)} | graph.ranks
    for node in graph.nodes.values():
        if below:
            node = replace(node, inputs=tuple(below.get(name, name) for name in node.inputs))
        if node.shape.window is None:
            nodes[node.name] = node
            continue
        above = WindowInKeyNode(name=_made(node.name, "keys"), inputs=node.inputs, shape=_plain(node.shape))
        table = node.with_windows_in_keys(above)
        if table is None:
            nodes[node.name] = node
            continue
        windows = WindowOfKeyNode(name=_made(node.name, "windows"), inputs=(node.name,), shape=node.shape)
        made.ranks |= {above.name: made.ranks[node.inputs[0]], windows.name: made.ranks[node.name]}
        nodes |= {one.name: one for one in (above, table, windows)}
        below[node.name] = windows.name
    made.nodes = nodes
    return made if below else graph


def _plain(shape: Shape) -> Shape:
    """Keys with their windows in them, start and end, of whatever kind they are."""
    return Shape(Serde.session_windowed(shape.key), shape.value)


def _table(source: Node, topic: str, sinks: list[Node]) -> RepartitionNode:
    """In the place of ``source``. Raises TopologyError when ``sinks`` want other partitions than one another."""
    wanted = [sink.partitioning or (None, None) for sink in sinks]
    partitioner, partitions = wanted[0]
    if any(one is not partitioner or count != partitions for one, count in wanted):
        next_step = "give each the same partitioner= and partitions=, or merge() the streams"
        expected = "every to() to say the same partitioner and number of partitions"
        raise TopologyError(f"topic {topic!r}", expected, "others", next_step)
    window, codec = source.shape.window, source.shape.key.codec
    table = RepartitionNode(
        name=source.name,
        inputs=tuple(sink.name if window is None else _made(sink.name, "windows") for sink in sinks),
        shape=source.shape if window is None else _plain(source.shape),
        topic=topic,
        sink_name="",
        filter_name="",
        partitions=partitions,
        keeps_null_keys=True,
    )
    if partitioner is None:
        window_bytes = codec.window_bytes if window is None else 2 * LONG_BYTES
        return WindowedRepartitionNode(**vars(table), window_bytes=window_bytes) if window_bytes else table
    if window is None and getattr(codec, "changelog", False):
        return PartitionedChangelogKeysNode(**vars(table), partitioner=partitioner)
    if window in (None, "session"):
        return PartitionedNode(**vars(table), partitioner=partitioner)
    return PartitionedTimeWindowsNode(**vars(table), partitioner=partitioner)


def _merge_writers(graph: Graph) -> None:
    """Several writers of one sub-topology become one, so that what they write is in the order in which it was sent."""
    group_of = {node.name: number for number, group in enumerate(graph.groups()) for node in group}
    nodes: dict[str, Node] = {}
    for name, node in graph.nodes.items():
        if isinstance(node, RepartitionNode) and len(node.inputs) > 1:
            together: dict[int, list[str]] = {}
            for above in node.inputs:
                together.setdefault(group_of[above], []).append(above)
            inputs: list[str] = []
            for several in together.values():
                if len(several) > 1:
                    merge = MergeNode(name=_made(several[0], "merge"), inputs=tuple(several), shape=node.shape)
                    graph.ranks[merge.name] = graph.ranks[several[0]]
                    nodes[merge.name] = merge
                    several = [merge.name]
                inputs += several
            node = replace(node, inputs=tuple(inputs))
        nodes[name] = node
    graph.nodes = nodes
