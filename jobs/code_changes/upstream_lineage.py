"""What is above a node: its source topics, the step that defines its keys, and the steps on the way.

Owns what decides whether rows of a store continue to mean the same. Rule: the nearest step that changes keys defines
the key. The nearest repartition table, or the topic itself, defines its partition. The old value of a table's change
is computed by the steps of the table on the way from its store.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from ..graph.graph import Graph, Node
from ..graph.nodes import RepartitionNode
from .step_text import STEPS, describe_node, describe_operator, describe_step, describe_times


@dataclass
class Lineage:
    """``spread``: "by topic" or "by key" (after a repartition), whichever there are; ``repartition``: the nearest one's
    topic; ``key_serdes``: those that write the keys whose bytes decide the partition. ``windows``: of windowed keys
    that come to it, without their grace. ``values``: of a table's operator, what it computes and the table steps up to
    the nearest stores. ``steps``: everything that a user wrote from here up to the topics, with Python functions
    distinguished. ``times``: extractors of the topics' times.
    """

    topics: set[str] = field(default_factory=set)
    windows: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    times: set[str] = field(default_factory=set)
    steps: set[str] = field(default_factory=set)
    spread: set[str] = field(default_factory=set)
    key_serdes: set[str] = field(default_factory=set)
    repartition: str | None = None


def lineage(graph: Graph, node: Node) -> Lineage:
    """Of a node that keeps a store."""
    traced = Lineage()
    for other in nodes_upstream(graph, node):
        if any(getattr(other, name, None) is not None for name in STEPS):
            traced.steps.add(describe_node(other, shows_functions=True))
        traced.steps.update(_own_serdes(other))
        if other.time_step is not None:
            traced.times.add(other.time_step.words)
            traced.steps.update(describe_times(other))
    if any(getattr(node, name, None) is not None for name in STEPS):
        traced.steps.add(describe_node(node, shows_functions=True))
    _keys(graph, node, traced, set())
    _spread(graph, node, traced, set())
    for name in node.inputs:
        if graph.nodes[name].shape.window is not None:
            _windows(graph, graph.nodes[name], traced)
    if node.takes_back:
        _values(graph, node, traced, set())
    return traced


def nodes_above(graph: Graph, node: Node) -> list[str]:
    """Texts of all steps above ``node``, sorted."""
    above = list(nodes_upstream(graph, node))
    texts = [
        describe_node(other, shows_functions=True) for other in above if any(hasattr(other, name) for name in STEPS)
    ]
    return sorted([*texts, *(text for other in above for text in (*_own_serdes(other), *describe_times(other)))])


def key_serdes(node: RepartitionNode) -> list[str]:
    """The serde whose bytes of a key decide the partition; none where a number or a function does."""
    return [] if node.target_of is not None or node.has_partitioner else [str(node.shape.key)]


def _own_serdes(node: Node) -> list[str]:
    """Serdes of the user's own with which a source reads, which are steps as functions are."""
    serdes = (node.shape.key, node.shape.value) if node.is_source else ()
    read = "repartition" if node.landed_topic is None else node.landed_topic
    return [f"{read} by {serde}" for serde in serdes if serde.codec.is_own]


def nodes_upstream(graph: Graph, node: Node) -> Iterator[Node]:
    """All whose records or tables decide what ``node`` gets."""
    seen: set[str] = set()
    waiting = [*node.inputs, *node.reads, *node.reads_failures_of]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            other = graph.nodes[name]
            yield other
            waiting += [*other.inputs, *other.reads, *other.reads_failures_of]


def _keys(graph: Graph, node: Node, lineage: Lineage, seen: set[str]) -> None:
    for name in node.inputs:
        above = graph.nodes[name]
        if name in seen:
            continue
        seen.add(name)
        if above.is_source and above.landed_topic is not None:
            lineage.topics.add(above.landed_topic)
        step = above.key_step
        if step is None:
            _keys(graph, above, lineage, seen)
            continue
        if step is above:
            lineage.keys.add(describe_node(above, shows_functions=False))
        else:
            lineage.keys.add(f"{describe_operator(above)} {describe_step(step, shows_functions=False)}")
        _topics(graph, above, lineage)


def _topics(graph: Graph, node: Node, lineage: Lineage) -> None:
    for above in nodes_upstream(graph, node):
        if above.is_source and above.landed_topic is not None:
            lineage.topics.add(above.landed_topic)


def _windows(graph: Graph, node: Node, lineage: Lineage) -> None:
    windows = node.windowed_by
    if windows is None:
        for name in node.inputs:
            _windows(graph, graph.nodes[name], lineage)
        return
    lengths = [
        f"{one.name} {getattr(windows, one.name)}" for one in fields(windows) if one.compare and one.name != "grace_ms"
    ]
    lineage.windows.add(f"{type(windows).__name__} {', '.join(lengths)}")


def _spread(graph: Graph, node: Node, lineage: Lineage, seen: set[str]) -> None:
    for name in node.inputs:
        above = graph.nodes[name]
        if name in seen:
            continue
        seen.add(name)
        if isinstance(above, RepartitionNode):
            lineage.spread.add("by key")
            lineage.repartition = lineage.repartition or above.topic
            lineage.key_serdes.update(key_serdes(above))
        elif above.is_source:
            lineage.spread.add("by topic")
        else:
            _spread(graph, above, lineage, seen)


def _values(graph: Graph, node: Node, lineage: Lineage, seen: set[str]) -> None:
    lineage.values.add(describe_node(node, shows_functions=False))
    for name in (*node.inputs, *node.reads):
        above = graph.nodes[name]
        above = graph.nodes[above.inputs[0]] if isinstance(above, RepartitionNode) else above
        is_step = above.takes_back and graph.store_of(above) is None
        if is_step and above.name not in seen:
            seen.add(above.name)
            _values(graph, above, lineage, seen)
