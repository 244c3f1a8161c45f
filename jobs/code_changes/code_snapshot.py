"""What of a topology its state depends on, as JSON: the ledger keeps it with every increment, under ``code``.

Owns the form of that record; jobs/code_changes/compatibility.py compares two. Rule: whatever decides what a row of a
store means stands here by a name of its own, so that a refusal can say what was and what is; and nothing does that only
says how fast it comes about.
"""

from dataclasses import fields
from typing import Any

import pyarrow as pa

from jobs.code_changes.step_text import fold_words, functions_of, made_with, operator_words, words
from jobs.code_changes.upstream_lineage import lineage, nodes_above
from jobs.functions.processor_api import KeyValues
from jobs.task.task import Task, wirings
from jobs.topology.graph import Graph
from jobs.topology.nodes import (
    AggregateNode,
    CogroupNode,
    DeduplicateNode,
    DistinctNode,
    ForeignKeyJoinNode,
    Node,
    ProcessNode,
    SinkNode,
    SourceNode,
    SuppressNode,
)
from jobs.topology.topology import SubTopology, Topology
from state.tables.warehouse import output_schema

_NOT_SETTINGS = frozenset(
    {"name", "inputs", "reads", "shape", "is_table", "store", "stores", "windows", "semantics", "aggregation"}
)


def code_record(topology: Topology) -> dict[str, Any]:
    """``stores``, ``outputs`` and ``repartitions`` by name, ``sub_topologies`` by id as text; JSON throughout.

    A setting that is null or an empty list is left out.
    """
    stores = {name: found for sub in topology.sub_topologies for name, found in _stores(topology, sub).items()}
    return {
        "semantics": topology.graph.semantics,
        "made_with": made_with(),
        "stores": stores,
        "outputs": {sink.topic: _output(topology.graph, sink) for sink in topology.sinks()},
        "repartitions": {
            node.topic: {"partitions": node.partitions} for sub in topology.sub_topologies for node in sub.repartitions
        },
        "sub_topologies": {str(sub.id): _sub_topology(topology, sub) for sub in topology.sub_topologies},
    }


def type_record(kind: pa.DataType) -> Any:
    """A type as JSON: text, {"struct": {name: type}} or {"list": type}."""
    if pa.types.is_struct(kind):
        return {"struct": {field.name: type_record(field.type) for field in kind}}
    if pa.types.is_list(kind):
        return {"list": type_record(kind.value_type)}
    return str(kind)


def _schema_record(schema: pa.Schema) -> dict[str, Any]:
    return {field.name: type_record(field.type) for field in schema}


def _sub_topology(topology: Topology, sub: SubTopology) -> dict[str, Any]:
    """``queues``: of a task, in order, the landed topic of each, null for others; global tables' partitions follow.
    ``reads``: topics and repartition tables.
    """
    imports = wirings(topology)[sub.id].imports
    queues = [source.topic if isinstance(source, SourceNode) else None for source in sub.sources]
    return {
        "queues": queues + [None] * len(imports),
        "globals": [table.topic for table in sub.globals],
        "reads": [source.topic for source in sub.sources],
        "writes": [f"outputs/{sink.topic}" for sink in sub.sinks],
    }


def _output(graph: Graph, sink: SinkNode) -> dict[str, Any]:
    key, value = sink.shape.key.arrow_type, sink.shape.value.arrow_type
    schema = output_schema(key, value, windowed=sink.shape.window is not None)
    names = [name for name in ("key", "window_start_ms", "window_end_ms", "value") if name in schema.names]
    return {"schema": {name: type_record(schema.field(name).type) for name in names}, "steps": nodes_above(graph, sink)}


def _stores(topology: Topology, sub: SubTopology) -> dict[str, Any]:
    graph, task = topology.graph, Task(topology, sub)
    found = {}
    for name, node in sub.stores.items():
        operator, above = task.stores[name], lineage(graph, node)
        schema = operator.rows_schema()
        found[name] = {
            "operator": operator_words(node),
            "node": node.name,
            "sub_topology": sub.id,
            "schema": _schema_record(schema),
            "row_key": [column for column in operator.row_key if column in schema.names],
            "repartition": above.repartition,
            "settings": _without_nothing(
                _settings(topology, sub, node)
                | {
                    "key_windows": sorted(above.windows),
                    "topics": sorted(above.topics),
                    "keys": sorted(above.keys),
                    "spread": sorted(above.spread),
                    "values": sorted(above.values),
                    "steps": sorted(above.steps),
                }
            ),
        }
    return found


def _settings(topology: Topology, sub: SubTopology, node: Node) -> dict[str, Any]:
    """Numbers and names of the node, each under its own name."""
    found = {name: value for name, value in vars(node).items() if name not in _NOT_SETTINGS}
    found = {name: value for name, value in found.items() if isinstance(value, int | str | bool | None)}
    windows = getattr(node, "windows", None)
    if windows is not None and not isinstance(node, SuppressNode):  # whose windows are those of its keys
        found["windows"] = type(windows).__name__
        found |= {field.name: getattr(windows, field.name) for field in fields(windows)}
    traits = topology.graph.tables.get(node.name)
    if traits is not None and traits.store is not None and topology.graph.store_of(node) == traits.store.name:
        found |= {
            "is_persistent": traits.store.is_persistent,
            "history_retention_ms": traits.store.history_retention_ms,
        }
    return found | _own(topology, sub, node)


def _without_nothing(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None and value != []}


def _own(topology: Topology, sub: SubTopology, node: Node) -> dict[str, Any]:
    """What only one kind of node has."""
    graph = topology.graph
    if isinstance(node, AggregateNode):
        folds = node.aggregation.folds
        functions = [text for fold in folds.values() for text in functions_of(fold)]
        return {"folds": {name: fold_words(fold) for name, fold in folds.items()}, "functions": functions}
    if isinstance(node, CogroupNode):
        return {"streams": len(node.inputs)}
    if isinstance(node, SuppressNode):
        wiring = wirings(topology)[sub.id]
        return {"knows_old": wiring.needs_old(node.inputs[0], lambda below: below.max_bytes is not None)}
    if isinstance(node, DeduplicateNode | DistinctNode):
        selector = node.id_selector
        return {"id": None if selector is None else words(selector, shows_functions=False)}
    if isinstance(node, ForeignKeyJoinNode):
        send = graph.nodes[graph.nodes[node.inputs[0]].inputs[0]]
        return {"left_value": repr(send.left_value)}  # type: ignore[attr-defined]
    if isinstance(node, ProcessNode):
        return {"stores": {store.name: _key_values(store) for store in _specs(node, graph)}}
    return {}


def _specs(node: ProcessNode, graph: Graph) -> list[KeyValues]:
    shape = graph.parent(node).shape
    return [KeyValues(store, shape.key, shape.value) if isinstance(store, str) else store for store in node.stores]


def _key_values(store: KeyValues) -> dict[str, Any]:
    return {
        "key": type_record(store.key.arrow_type),
        "value": type_record(store.value.arrow_type),
    }
