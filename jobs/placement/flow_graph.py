"""A flow through a graph that costs least (Kafka's ``assignment.Graph``).

Rule: of flows that cost the same, Kafka's is found. Edges are tried by ascending node, the first shortest path that has
room is filled, and the first cycle of negative cost is cancelled until there is none. A library's solver may find
another flow.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class _Edge:
    """``room``: for so much more flow. Each has another one back beside it, whose room is what flows along it."""

    start: int
    end: int
    room: int
    cost: int


class FlowGraph:
    """Nodes are whole numbers; an edge of an even number goes forward, the odd one after it goes back."""

    def __init__(self) -> None:
        self._edges: list[_Edge] = []
        self._out: dict[int, list[int]] = {}

    def add(self, start: int, end: int, capacity: int, cost: int = 0) -> None:
        """An edge along which nothing flows yet, the only one between the two nodes."""
        for edge in (_Edge(start, end, capacity, cost), _Edge(end, start, 0, -cost)):
            self._out.setdefault(edge.start, []).append(len(self._edges))
            self._edges.append(edge)

    def solve(self, source: int, sink: int) -> int:
        """Let flow as much as can, at the least cost; how much that is."""
        self._out = {
            start: sorted(numbers, key=lambda number: self._edges[number].end)
            for start, numbers in sorted(self._out.items())
        }
        flow = 0
        while path := self._path(source, sink):
            flow += self._let_flow(path)
        while circle := self._negative_circle():
            self._let_flow(circle)
        return flow

    def ends(self, start: int) -> list[int]:
        """Nodes to which something flows from ``start``, ascending."""
        return [
            self._edges[number].end for number in self._out[start] if number % 2 == 0 and self._edges[number + 1].room
        ]

    def _let_flow(self, numbers: Sequence[int]) -> int:
        """Let flow along edges as much as there is room for; how much that is."""
        flow = min(self._edges[number].room for number in numbers)
        for number in numbers:
            self._edges[number].room -= flow
            self._edges[number ^ 1].room += flow
        return flow

    def _path(self, source: int, sink: int) -> list[int]:
        """Edges with room from ``source`` to ``sink``, as few as there can be; none: there is no way."""
        came_by, queue = dict[int, int](), deque([source])
        while queue:
            for number in self._out[queue.popleft()]:
                edge = self._edges[number]
                if edge.room and edge.end != source and edge.end not in came_by:
                    came_by[edge.end] = number
                    if edge.end == sink:
                        return self._steps_to(came_by, source, sink)
                    queue.append(edge.end)
        return []

    def _negative_circle(self) -> list[int]:
        """Edges with room in a circle whose costs add up to less than 0; none: there is no such (Bellman-Ford)."""
        # All distances begin at 0, as if one node led to all others at no cost: a circle of
        # negative cost need not be reachable from any single node.
        distance, came_by = dict.fromkeys(self._out, 0), dict[int, int]()
        for walked in range(len(self._out) + 1):
            is_shorter = False
            for start, numbers in self._out.items():
                for number in numbers:
                    edge = self._edges[number]
                    if edge.room and distance[edge.end] > distance[start] + edge.cost:
                        distance[edge.end] = distance[start] + edge.cost
                        came_by[edge.end], is_shorter = number, True
                        if walked == len(self._out):
                            return self._circle(came_by, edge.end)
            if not is_shorter:
                break
        return []

    def _circle(self, came_by: dict[int, int], node: int) -> list[int]:
        """The circle that one comes into by going back from ``node``."""
        seen = set[int]()
        while node not in seen:
            seen.add(node)
            node = self._edges[came_by[node]].start
        return self._steps_to(came_by, node, node)

    def _steps_to(self, came_by: dict[int, int], start: int, end: int) -> list[int]:
        """The edges by which one came from ``start`` to ``end``, at least one, the last first."""
        steps = [came_by[end]]
        while (before := self._edges[steps[-1]].start) != start:
            steps.append(came_by[before])
        return steps
