"""Which operators a scenario uses, and which of them this project has.

Rule: an operator is named by its node, what it works on and the parameters that make it another operator, such as
``aggregate of windows, on_update``. A scenario is selected iff all its operators are in COVERED; the next operator is
added here, and the counts in test_goldens.py grow.
"""

from typing import Any

COVERED = frozenset(
    {
        "stream",
        "filter of stream",
        "map_values of stream",
        "select_key of stream",
        "group_by_key of stream",
        "group_by of stream",
        "window tumbling",
        "window hopping",
        "window session",
        "aggregate of stream",
        "aggregate of windows, on_update",
        "suppress until window_closes",
        "to_stream of table",
    }
)

_STREAM, _TABLE, _GROUPED, _GROUPED_TABLE, _WINDOWS, _NOTHING = (
    "stream", "table", "grouped", "grouped table", "windows", "nothing",
)  # fmt: skip

_RESULTS = {
    "stream": _STREAM,
    "table": _TABLE,
    "global_table": _NOTHING,
    "select_key": _STREAM,
    "merge": _STREAM,
    "to_stream": _STREAM,
    "to_table": _TABLE,
    "group_by_key": _GROUPED,
    "window": _WINDOWS,
    "aggregate": _TABLE,
    "table_table_join": _TABLE,
    "fk_join": _TABLE,
}
"""What an operator makes; one that is not here makes what it reads, or a stream."""


def operators_of(nodes: list[dict[str, Any]]) -> set[str]:
    """Names of all operators of a scenario's nodes."""
    made: dict[str, str] = {}
    names = set()
    for node in nodes:
        read = made.get(next(iter(node.get("inputs", ())), ""), _NOTHING)
        names.add(operator_name(node, read))
        made[node["id"]] = _made_by(node["op"], read)
    return names


def operator_name(node: dict[str, Any], read: str) -> str:
    """Name of one operator; ``read``: what its first input is."""
    match node["op"]:
        case "window":
            return f"window {node['type']}"
        case "aggregate" if read == _WINDOWS:
            return f"aggregate of windows, {node.get('emit', 'on_update')}"
        case "aggregate":
            return "aggregate of table" if read == _GROUPED_TABLE else "aggregate of stream"
        case "suppress":
            return f"suppress until {node['until']}"
        case "stream" | "table" | "global_table" | "merge":
            versioned = ", versioned" if "versioned" in node else ""
            return node["op"] + versioned
        case _:
            return f"{node['op']} of {read}"


def _made_by(operator: str, read: str) -> str:
    if operator == "group_by":
        return _GROUPED_TABLE if read == _TABLE else _GROUPED
    if operator in ("filter", "map_values", "suppress"):
        return read
    return _RESULTS.get(operator, _STREAM)
