"""Branches of a stream (BranchedKStream): a record goes to the first branch whose predicate is true, or to the default.

Kafka has one node that forwards to the matching child; here every branch is a filter of what the ones before it left,
which is the same records in the same order.
"""

from typing import TYPE_CHECKING

from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...graph.graph import Node
from ...graph.name_rules import check_name
from ...operators.stateless_nodes import FilterNode
from .step_arguments import Step, bind_condition

if TYPE_CHECKING:
    from .kstream import KStream


@checked_class
class BranchedKStream(Hinting):
    """What ``KStream.split`` gives. Branches are named after the split: its name and theirs, or their number."""

    def __init__(self, stream: "KStream", name: str | None) -> None:
        self._stream, self._rest = stream, stream.node
        self._name = stream.graph.name(name, "KSTREAM-BRANCH-")
        self._streams: dict[str, KStream] = {}

    def branch(self, predicate: Step, *, name: str | None = None) -> "BranchedKStream":
        """Records for which ``predicate`` is true and no earlier one was; null is not true."""
        child = self._child(len(self._streams) + 1, name)
        graph, above = self._stream.graph, self._rest
        bound = bind_condition(predicate, above.shape, child)

        def filtered(name: str, keeps: bool) -> Node:
            return graph.add(
                FilterNode(name=name, inputs=(above.name,), shape=above.shape, predicate=bound, keeps=keeps)
            )

        self._take(child, filtered(child, keeps=True))
        self._rest = filtered(f"{child}-rest", keeps=False)
        graph.parts[self._rest.name] = ()
        return self

    def default_branch(self, *, name: str | None = None) -> "dict[str, KStream]":
        """All branches by name, and one for the records that no predicate was true of."""
        child = self._child(0, name)
        above = self._rest
        bound = bind_condition("TRUE", above.shape, child)
        node = FilterNode(name=child, inputs=(above.name,), shape=above.shape, predicate=bound, keeps=True)
        self._take(child, self._stream.graph.add(node))
        return self._streams

    def no_default_branch(self) -> "dict[str, KStream]":
        """All branches by name; records that no predicate was true of end here."""
        return self._streams

    def _child(self, number: int, name: str | None) -> str:
        child = f"{self._name}{number if name is None else check_name(name)}"
        self._stream.graph.next_name(child)
        return child

    def _take(self, child: str, node: Node) -> None:
        stream = self._stream
        self._streams[child] = type(stream)(
            stream.graph, node, is_rekeyed=stream.is_rekeyed, is_scattered=stream.is_scattered
        )
        stream.graph.parts[child] = (self._name, stream.node.name)
