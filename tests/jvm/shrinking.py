"""Make a failing scenario small: fewer records, fewer operators, plainer parameters.

Rule: a candidate is kept when it still fails, so the scenario that is left fails for one reason, seen at a glance. All
candidates of a round are asked at once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

Line = dict[str, Any]
Failing = Callable[[Sequence[Line]], list[Line]]
"""Those of the lines that fail."""

OPTIONAL = ("retention", "emit", "materialized", "versioned", "max_records", "max_bytes", "full", "joiner", "value")
BYPASSED = ("filter", "map_values", "select_key", "merge", "suppress", "deduplicate_by_key", "deduplicate_by_key_value")
WRITING = ("to", "to_one_of")
BYPASSED += ("process", "process_values")
BYPASSED += ("deduplicate", "table_table_join", "fk_join", "stream_table_join", "stream_stream_join")


def shrunk(line: Line, failing: Failing, rounds: int = 25) -> Line:
    """The smallest line found that fails."""
    for _ in range(rounds):
        smaller = failing([*_plainer(line), *_shorter(line)])
        if not smaller:
            return line
        line = min(smaller, key=_size)
    return line


def _size(line: Line) -> int:
    topology = line["topology"]
    parameters = sum(len(node) for node in topology["nodes"])
    return 1_000 * len(topology["nodes"]) + 10 * parameters + ("store" in topology) + 20 * len(line["records"])


def _shorter(line: Line) -> Iterator[Line]:
    """Without a run of records, of every length that is half of another."""
    records, length = line["records"], len(line["records"])
    while length > 0:
        for start in range(0, len(records), length):
            yield line | {"records": records[:start] + records[start + length :]}
        length //= 2


def _plainer(line: Line) -> Iterator[Line]:
    """With one operator or parameter less."""
    topology = line["topology"]
    nodes = topology["nodes"]
    if "store" in topology:
        yield _with(line, nodes, store=None)
    for node in nodes:
        if node["op"] in BYPASSED:
            for above in dict.fromkeys(node["inputs"]):
                yield _with(line, _bypassed(nodes, node["id"], above), output=_moved(topology, node["id"], above))
        for name in OPTIONAL:
            if name in node:
                plain = {field: value for field, value in node.items() if field != name}
                yield _with(line, [plain if other is node else other for other in nodes])
        if node["id"] != topology["output"] and node["op"] not in ("window", "group_by", "group_by_key"):
            yield _with(line, nodes, output=node["id"])


def _bypassed(nodes: list[Line], gone: str, above: str) -> list[Line]:
    kept = [node for node in nodes if node["id"] != gone]
    return [
        node | ({"inputs": [above if name == gone else name for name in node["inputs"]]} if "inputs" in node else {})
        for node in kept
    ]


def _moved(topology: Line, gone: str, above: str) -> str:
    return above if topology["output"] == gone else str(topology["output"])


def _with(line: Line, nodes: list[Line], **changes: Any) -> Line:
    """Without the nodes that no longer lead to the output."""
    topology = {name: value for name, value in (line["topology"] | changes).items() if value is not None}
    by_id = {node["id"]: node for node in nodes}
    needed, found = [topology["output"]], set()
    while needed:
        name = needed.pop()
        if name not in found:
            found.add(name)
            needed += _needed(by_id, by_id[name])
    topology["nodes"] = [node for node in nodes if node["id"] in found]
    topics = {topic for node in topology["nodes"] for topic in _topics(node)}
    records = [record for record in line["records"] if record["topic"] in topics]
    return line | {"topology": topology, "records": records}


def _needed(by_id: dict[str, Line], node: Line) -> list[str]:
    """What the node reads: other nodes, its stores, and who writes its topics."""
    topics = set(node["topic"].split("+")) if node["op"] in ("stream", "table") else set()
    writers = [name for name, other in by_id.items() if other["op"] in WRITING and topics & _topics(other)]
    stores = [name for name in node.get("stores", "").split("+") if name in by_id]
    return [*node.get("inputs", ()), *stores, *writers]


def _topics(node: Line) -> set[str]:
    return {topic for name in ("topic", "topics") if name in node for topic in node[name].split("+")}
