"""Where the user wrote what makes a table, as Dagster's code references.

Owns which lines those are. Rule: a table is made by its own node and by all steps between it and the tables above; a
topic by the calls that read it; what was refused by all functions together. First the calls, the table's own before
those above it, then the functions in which they are. A call of which this process knows no file has no reference.
"""

import os
from collections.abc import Iterator
from typing import Any

import dagster as dg

from ..jobs.graph.graph import Graph, Node
from ..state.call_sites import CallSite
from ..state.tables.names import DEAD_LETTER, DROPPED, LANDED, TableName

REFERENCES = "dagster/code_references"


def code_references(graph: Graph, table: str) -> dict[str, Any]:
    """Metadata of the asset ``table``, named as the warehouse spells it; {} where nothing is known."""
    nodes = _nodes_of(graph, table)
    known = [(node, site) for node in nodes if (site := graph.called_in(node)) is not None]
    sites = [(node, site) for node, site in known if os.path.isfile(site.file)]
    functions = [_reference(site, site.begins, site.function) for _, site in sites if not site.function.endswith(">")]
    calls = [] if table in (DROPPED, DEAD_LETTER) else [_reference(site, site.line, node) for node, site in sites]
    found: dict[str, dg.LocalFileCodeReference] = {}
    for each in (*calls, *functions):
        found.setdefault(each.source, each)  # several steps may be of one call, and several calls of one function
    return {REFERENCES: dg.CodeReferencesMetadataValue(code_references=[*found.values()])} if found else {}


def _reference(site: CallSite, line: int, label: str) -> dg.LocalFileCodeReference:
    return dg.LocalFileCodeReference(file_path=os.path.abspath(site.file), line_number=line, label=label)


def _nodes_of(graph: Graph, table: str) -> Iterator[str]:
    if table in (DROPPED, DEAD_LETTER):
        yield from graph.nodes
    elif TableName(table).kind == LANDED:
        yield from (node.name for node in graph.nodes.values() if node.landed_topic == TableName(table).name)
    else:
        steps = [node.name for node in graph.nodes.values() if node.table(graph) == table]
        for name in steps:  # grows
            yield name
            above = [graph.nodes[each] for each in (*graph.nodes[name].inputs, *graph.nodes[name].reads)]
            steps += [each.name for each in above if _is_step(graph, each) and each.name not in steps]


def _is_step(graph: Graph, node: Node) -> bool:
    """Whether it has no table of its own and reads no topic."""
    return node.table(graph) is None and node.landed_topic is None
