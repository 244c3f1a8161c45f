"""A table that every task has all of (GlobalKTable): only streams join it."""

from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Shape
from ...graph.graph import Graph, Node


@checked_class
class GlobalKTable(Hinting):
    """What ``StreamsBuilder.global_table`` gives."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node

    @property
    def shape(self) -> Shape:
        return self.node.shape
