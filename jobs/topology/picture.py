"""Draws a topology as SVG: topics, the processors that Kafka Streams names, their stores, and what flows where.

Owns the layout. Rule: every node and edge of Kafka's description is in the picture, once, and it needs no script, font
or file beside it. A node is below all that it reads; an edge that closes a loop is drawn upwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from ..graph.graph import Graph
from ..graph.kafka_processors import SINK, SOURCE, KafkaNode
from .describe import described_groups

_CHARACTER, _LINE, _PAD, _GAP, _LAYER = 7.3, 16, 10, 28, 56
"""Pixels: of a character of 12 points, a line, within a box, between boxes of a layer, between layers."""
_COLOURS = ("#dbeafe", "#dcfce7", "#fef3c7", "#fae8ff", "#ffe4e6", "#e0f2fe", "#ecfccb", "#ede9fe")
"""Of sub-topologies, one after the other; topics are white."""
_NAMESPACE = f"http://{'.'.join(('www', 'w3', 'org'))}/2000/svg"
_FONT = "font-family: ui-monospace, monospace; font-size: 12px"


@dataclass(eq=False)
class _Box:
    """``lines`` of text; ``group``: number of its sub-topology, None for a topic. ``x`` and ``y``: of its corner."""

    lines: list[str]
    group: int | None
    below: "list[_Box]" = field(default_factory=list)
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * _CHARACTER + 2 * _PAD

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PAD

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def picture(graph: Graph) -> str:
    """The SVG, with its XML declaration left out, so that a page may contain it."""
    boxes = _boxes(described_groups(graph))
    _put_in_layers(boxes)
    width, height = _place(boxes)
    root = ET.Element(
        "svg", xmlns=_NAMESPACE, viewBox=f"0 0 {width:.0f} {height:.0f}", width=f"{width:.0f}",
        height=f"{height:.0f}", role="img", style=_FONT,
    )  # fmt: skip
    ET.SubElement(root, "title").text = "Topology"
    marker = ET.SubElement(
        ET.SubElement(root, "defs"), "marker", id="arrow", viewBox="0 0 8 8", refX="8", refY="4", markerWidth="8",
        markerHeight="8", orient="auto",
    )  # fmt: skip
    ET.SubElement(marker, "path", d="M0,0 L8,4 L0,8 z", fill="#475569")
    for box in boxes:
        for other in box.below:
            _draw_edge(root, box, other)
    for box in boxes:
        _draw_box(root, box)
    return ET.tostring(root, encoding="unicode")


def _boxes(groups: Sequence[Sequence[KafkaNode]]) -> list[_Box]:
    """Of all nodes and topics, with what each sends to."""
    nodes: dict[str, _Box] = {}
    topics: dict[str, _Box] = {}

    def topic(name: str) -> _Box:
        return topics.setdefault(name, _Box([name], None))

    for number, group in enumerate(groups):
        for node in group:
            stores = [f"store {store}" for store in node.stores]
            nodes[node.name] = _Box([f"{node.name}", *stores], number)
    for group in groups:
        for node in group:
            for name in node.above:
                nodes[name].below.append(nodes[node.name])
            if node.kind == SOURCE:
                for name in _topics_of(node):
                    topic(name).below.append(nodes[node.name])
            elif node.kind == SINK:
                nodes[node.name].below.append(topic(node.extractor or node.topic))
    return [*topics.values(), *nodes.values()]


def _topics_of(node: KafkaNode) -> tuple[str, ...]:
    return (node.pattern,) if node.pattern else node.topics or (node.topic,)


def _put_in_layers(boxes: list[_Box]) -> None:
    """Each below the lowest that sends to it, but for edges that lead back to what is above it."""
    done: list[_Box] = []
    at_work: set[_Box] = set()
    back: set[tuple[_Box, _Box]] = set()

    def visit(start: _Box) -> None:
        stack: list[tuple[_Box, Iterator[_Box]]] = [(start, iter(start.below))]
        at_work.add(start)
        while stack:
            box, others = stack[-1]
            other = next(others, None)
            if other is None:
                stack.pop()
                at_work.discard(box)
                seen.add(box)
                done.append(box)
            elif other in at_work:
                back.add((box, other))
            elif other not in seen:
                at_work.add(other)
                stack.append((other, iter(other.below)))

    seen: set[_Box] = set()
    for box in boxes:
        if box not in seen:
            visit(box)
    for box in reversed(done):
        for other in box.below:
            if (box, other) not in back:
                other.layer = max(other.layer, box.layer + 1)


def _place(boxes: list[_Box]) -> tuple[float, float]:
    """Gives each its corner, near the middle of what sends to it; the size of the picture."""
    count = max((box.layer for box in boxes), default=-1) + 1
    layers = [[box for box in boxes if box.layer == number] for number in range(count)]
    widest = max((_width(layer) for layer in layers), default=0.0)
    above: dict[_Box, list[_Box]] = {}
    for box in boxes:
        for other in box.below:
            above.setdefault(other, []).append(box)
    y = float(_GAP)
    for number, layer in enumerate(layers):
        if number:
            layer.sort(key=lambda box: _mean([each.middle for each in above.get(box, []) if each.layer < box.layer]))
        x = _GAP + (widest - _width(layer)) / 2
        for box in layer:
            box.x, box.y = x, y
            x += box.width + _GAP
        y += max(box.height for box in layer) + _LAYER
    return widest + 2 * _GAP, max(y - _LAYER + _GAP, 2.0 * _GAP)


def _width(layer: Sequence[_Box]) -> float:
    return sum(box.width for box in layer) + _GAP * (len(layer) - 1)


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _draw_edge(root: ET.Element, box: _Box, other: _Box) -> None:
    top, bottom = box.y + box.height, other.y
    bend = max(abs(bottom - top) / 2, _GAP)
    path = (
        f"M{box.middle:.1f},{top:.1f} C{box.middle:.1f},{top + bend:.1f} {other.middle:.1f},{bottom - bend:.1f} "
        f"{other.middle:.1f},{bottom:.1f}"
    )
    ET.SubElement(root, "path", {"d": path, "fill": "none", "stroke": "#475569", "marker-end": "url(#arrow)"})


def _draw_box(root: ET.Element, box: _Box) -> None:
    group = ET.SubElement(root, "g")
    where = "topic" if box.group is None else f"sub-topology {box.group}"
    ET.SubElement(group, "title").text = f"{where}: {box.lines[0]}"
    ET.SubElement(
        group, "rect", x=f"{box.x:.1f}", y=f"{box.y:.1f}", width=f"{box.width:.1f}", height=f"{box.height:.1f}",
        rx="14" if box.group is None else "3", stroke="#475569",
        fill="#ffffff" if box.group is None else _COLOURS[box.group % len(_COLOURS)],
    )  # fmt: skip
    for number, line in enumerate(box.lines):
        text = ET.SubElement(group, "text", x=f"{box.x + _PAD:.1f}", y=f"{box.y + _PAD + 12 + number * _LINE:.1f}")
        text.text = line
