"""The part of a topology of which ranges can be made: what no processor has a hand in.

Rule: a processor may forward a record of any time, at once or when it is punctuated, and may put into every store that
it names. Rows of what is below it, or looks into such a store, may be of any range, so all of that is left out. What is
left runs as a topology of its own. Its tasks read the topics that they read before, since the order of records of equal
times depends on all of them. Where a task would lose a topic beside several others, it is left out, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ..code_changes.code_snapshot import code_snapshot
from ..code_changes.state_migration import is_recorded_as
from ..graph.graph import Graph, Node
from ..graph.reach import NO_REACH, Reach
from ..topology.topology import Topology

Moved = dict[str, str]
"""Nodes that may forward any time, each with the processor that it depends on."""


@dataclass(frozen=True)
class RangePart:
    """``whole``: the topology; ``topology``: what runs of it. ``left_out``: outputs that it does not make, each with
    the processor that it depends on.
    """

    whole: Topology
    topology: Topology
    left_out: Mapping[str, str]

    @property
    def topics_apart(self) -> list[str]:
        """Topics that only what is left out reads."""
        return sorted({*self.whole.source_topics()} - {*self.topology.source_topics()})

    def recorded(self, row: LedgerRow[DoneRow]) -> LedgerRow[DoneRow]:
        """A row of the pipeline as this part alone would have left its record of the code."""
        code = row.content.code
        return row if code is None else replace(row, content=replace(row.content, code=self._of(code)))

    def is_recorded_in(self, row: LedgerRow[DoneRow]) -> bool:
        """Whether the code of this part ran the increment."""
        code = row.content.code
        return code is not None and is_recorded_as(self._of(code), self._code)

    @cached_property
    def _code(self) -> dict[str, Any]:
        return self._of(code_snapshot(self.whole))

    def has_store(self, name: str) -> bool:
        """Whether it keeps a store, or the whole topology does not keep it either."""
        return name in self.topology.stores() or name not in self.whole.stores()

    def _of(self, code: Mapping[str, Any]) -> dict[str, Any]:
        stores = {name: store for name, store in code["stores"].items() if self.has_store(name)}
        outputs = {name: output for name, output in code["outputs"].items() if name not in self.left_out}
        return {**code, "stores": stores, "outputs": outputs}


def range_part(topology: Topology) -> RangePart:
    """The part of ``topology`` without processors and what depends on them."""
    graph = topology.graph
    moved = _moved(graph)
    if not moved:
        return RangePart(topology, topology, {})
    left_out = {sink.topic: moved[sink.name] for sink in topology.sinks() if sink.name in moved}
    kept = {name: node for name, node in graph.nodes.items() if name not in moved}
    read = {name for node in kept.values() for name in (*node.inputs, *node.reads)}
    for group in graph.groups():
        here = [node for node in group if node.name in kept]
        if all(node.is_source and node.name not in read for node in here):
            kept = {name: node for name, node in kept.items() if node not in here}
        elif len(here) < len(group):
            first, *others = (node for node in here if node.is_source)
            beside = _Beside(
                name=f"{first.name}:beside", inputs=(first.name,), shape=first.shape,
                shares=tuple(node.name for node in others),
            )  # fmt: skip
            kept |= {beside.name: beside} if others else {}
    kept = {name: node for name, node in kept.items() if not node.is_global or name in read}
    return RangePart(topology, topology.running(kept), left_out)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Beside(Node):
    """Keeps sources in one sub-topology, ``shares`` beside its input, and does nothing with their records."""

    shares: tuple[str, ...] = ()

    def reach(self, graph: Graph) -> Reach:
        return NO_REACH


def _moved(graph: Graph) -> Moved:
    moved = {name: name for name, node in graph.nodes.items() if node.reach(graph).gives_times}
    for name in tuple(moved):
        stores = (owner for owner in graph.nodes[name].puts_into if not graph.nodes[owner].is_global)
        moved = dict.fromkeys(stores, name) | moved
    while more := {name: by for name, by in (*_below(graph, moved), *_merged(graph, moved)) if name not in moved}:
        moved |= more
    return moved


def _below(graph: Graph, moved: Moved) -> Iterator[tuple[str, str]]:
    """Nodes that get something from a moved one, look into its table or into its failures."""
    for node in graph.nodes.values():
        ends = (end for end in graph.loops if end.rpartition(":")[0] == node.name)
        for above in (*node.inputs, *node.reads, *node.reads_failures_of, *ends):
            if above in moved:
                yield node.name, moved[above]


def _merged(graph: Graph, moved: Moved) -> Iterator[tuple[str, str]]:
    """Nodes of a task that would merge several topics without one that it merges with them now."""
    for group in graph.groups():
        queues = {node.name: moved.get(node.name) for node in group if node.is_source}
        for node in group:
            by = moved.get(node.name)
            for name in node.reads:
                if graph.nodes[name].is_global:
                    queues[name] = None if queues.get(name, by) is None else by
        lost = [by for by in queues.values() if by is not None]
        if lost and len(queues) - len(lost) > 1:
            yield from ((node.name, lost[0]) for node in group)
