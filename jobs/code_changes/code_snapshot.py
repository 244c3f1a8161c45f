"""What of a topology its state depends on, as JSON: the ledger keeps it with every increment, under ``code``.

Owns the form of that record; jobs/code_changes/compatibility.py compares two. Rule: every setting that decides the
meaning of a stored row is here under a name of its own, so that a refusal can name the old and the new value.
Settings that only change the speed are not here.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pyarrow as pa

from ...state.tables.names import TableName
from ...state.tables.warehouse import output_identity, output_schema
from ..functions.expressions import Call, Expression
from ..functions.folds.fold import Fold
from ..functions.processor_api import KeyValues
from ..graph.graph import Graph, Node
from ..graph.nodes import SinkNode
from ..task.dataflow import dataflows
from ..topology.topology import SubTopology, Topology
from .step_text import describe_fold, describe_operator, describe_step, functions_of, made_with
from .upstream_lineage import key_serdes, lineage, nodes_above

# Names and edges hold Kafka's generated numbers: as settings they would refuse each topology that gained an operator
# elsewhere.
_NOT_SETTINGS = frozenset(
    {"name", "inputs", "reads", "shape", "is_table", "store", "stores", "windows", "semantics", "aggregation"}
)


def code_snapshot(topology: Topology) -> dict[str, Any]:
    """``stores``, ``outputs`` and ``repartitions`` by name, ``sub_topologies`` by id as text; JSON throughout.

    A setting that is null or an empty list is left out.
    """
    stores = {name: store for sub in topology.sub_topologies for name, store in _stores(topology, sub).items()}
    return {
        "semantics": topology.graph.semantics,
        "made_with": made_with(),
        "stores": stores,
        "outputs": {sink.topic: _output(topology.graph, sink) for sink in topology.sinks()},
        "repartitions": {
            node.topic: {"partitions": node.partitions, "key": key_serdes(node)}
            for sub in topology.sub_topologies
            for node in sub.repartitions
        },
        "sub_topologies": {str(sub.id): _sub_topology(topology, sub) for sub in topology.sub_topologies},
    }


def steps_by_table(topology: Topology) -> dict[str, list[str]]:
    """Texts of all steps and functions above each output and store, by table ("outputs/x", "state/y")."""
    code = code_snapshot(topology)
    stores = {TableName.state(name): store["settings"].get("steps", []) for name, store in code["stores"].items()}
    return stores | {TableName.output(name): output["steps"] for name, output in code["outputs"].items()}


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
    imports = dataflows(topology)[sub.id].imports
    queues = [source.landed_topic for source in sub.sources]
    return {
        "queues": queues + [None] * len(imports),
        "globals": [table.topic for table in sub.globals],
        "reads": [source.topic for source in sub.sources],
        "writes": [TableName.output(sink.topic) for sink in sub.sinks],
    }


def _output(graph: Graph, sink: SinkNode) -> dict[str, Any]:
    key, value = sink.shape.key.arrow_type, sink.shape.value.arrow_type
    schema = output_schema(key, value, windowed=sink.shape.window is not None, has_topics=sink.has_topics)
    names = [*output_identity(schema.names), "value"]
    return {"schema": {name: type_record(schema.field(name).type) for name in names}, "steps": nodes_above(graph, sink)}


def _stores(topology: Topology, sub: SubTopology) -> dict[str, Any]:
    graph, stores = topology.graph, {}
    for name, node in sub.stores.items():
        rows, above = node.store_rows(graph), lineage(graph, node)
        stores[name] = {
            "operator": describe_operator(node),
            "node": node.name,
            "sub_topology": sub.id,
            "schema": _schema_record(rows.schema),
            "row_key": rows.key_columns,
            "repartition": above.repartition,
            "settings": _without_nothing(
                _settings(topology, sub, node)
                | {
                    "key_windows": sorted(above.windows),
                    "topics": sorted(above.topics),
                    "keys": sorted(above.keys),
                    "spread": sorted(above.spread),
                    "key_serdes": sorted(above.key_serdes),
                    "values": sorted(above.values),
                    "steps": sorted(above.steps),
                    "times": sorted(above.times),
                }
            ),
        }
    return stores


def _settings(topology: Topology, sub: SubTopology, node: Node) -> dict[str, Any]:
    """Numbers and names of the node, each under its own name."""
    settings = {name: value for name, value in vars(node).items() if name not in _NOT_SETTINGS}
    # What users wrote (expressions, functions, folds, serdes) has no JSON of its own: it comes in as text, by the
    # lineage and by `_own`.
    settings = {name: value for name, value in settings.items() if isinstance(value, int | str | bool | None)}
    windows = node.windowed_by
    if windows is not None:
        settings["windows"] = type(windows).__name__
        # A window class of the user's is kept as an object that no comparison sees (`OwnWindows.given`), and is no
        # JSON.
        settings |= {field.name: getattr(windows, field.name) for field in fields(windows) if field.compare}
    traits = topology.graph.tables.get(node.name)
    if traits is not None and traits.store is not None and topology.graph.store_of(node) == traits.store.name:
        settings |= {
            "is_persistent": traits.store.is_persistent,
            "history_retention_ms": traits.store.history_retention_ms,
        }
    return settings | _own(topology, sub, node)


def _without_nothing(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None and value != []}


def _own(topology: Topology, sub: SubTopology, node: Node) -> dict[str, Any]:
    """What the node names beside its numbers and texts."""
    settings: dict[str, Any] = {}
    for name, setting in node.store_settings(topology.graph).items():
        settings[name] = _said(setting)
        if name == "folds":
            settings["functions"] = [text for fold in setting.values() for text in functions_of(fold)]
    if node.holds_back:
        settings["knows_old"] = dataflows(topology)[sub.id].needs_old(node.inputs[0], counts_bytes=False)
    return settings


def _said(setting: Any) -> Any:
    """A setting as JSON: a fold or a step in words, a store with its types, numbers and texts as they are."""
    if isinstance(setting, Mapping):
        return {name: _said(one) for name, one in setting.items()}
    if isinstance(setting, Fold):
        return describe_fold(setting)
    if isinstance(setting, Expression | Call):
        return describe_step(setting, shows_functions=False)
    if isinstance(setting, KeyValues):
        types = {"key": type_record(setting.key.arrow_type), "value": type_record(setting.value.arrow_type)}
        return types | {"serdes": [str(setting.key), str(setting.value)]} | setting.settings
    return setting
