"""Which tables show what comes to a node and what leaves it, for its promises (state/promises.py).

Rule: a table shows it when the steps between make one record of one, under the same key, and nobody else writes there.
"""

from ...state.promises import Input
from ..graph.graph import Graph, Node


def input_of(graph: Graph, name: str) -> Input | None:
    """The table with the records that come from the node ``name``, by key and time; None when there is none."""
    node = graph.nodes[name]
    while not node.is_source:
        if not node.forwards_one or node.changes_keys or len(node.inputs) != 1:
            return None
        node = graph.parent(node)
    table = node.table(graph)
    shows_it = node.time_step is None and node.has_places_of_table and node.shape.key.codec.is_canonical
    return Input(table) if table is not None and shows_it else None


def outputs_of(graph: Graph, node: Node, *, unchanged: bool) -> tuple[str, ...]:
    """Outputs that have all that ``node`` forwards, and nothing else, under its keys; with ``unchanged`` its values."""
    found, begun = list[str](), [node.name]
    while begun:
        for child in graph.children(begun.pop()):
            if len(child.inputs) != 1:
                continue
            topic = child.written_topic
            if topic is not None and _writers(graph, topic) == 1:
                table = child.table(graph)
                found += [] if table is None else [table]
            elif child.passes_on or (child.forwards_one and not child.changes_keys and not unchanged):
                begun.append(child.name)
    return tuple(found)


def _writers(graph: Graph, topic: str) -> int:
    return sum(node.written_topic == topic for node in graph.nodes.values())
