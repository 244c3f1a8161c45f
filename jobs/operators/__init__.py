"""Operators, and which node each one runs.

Rule: every file has a ``build`` that makes its running operator of a node and its place in a task; it is imported when
the first such node is met.
"""

from importlib import import_module

from jobs.operators.operator import Clocks, MultiOperator, Operator, Place, StatefulOperator, TableView
from jobs.topology import nodes
from jobs.topology.nodes import Node

OPERATORS: dict[type[Node], str] = {
    nodes.AggregateNode: "aggregates.build.build",
    nodes.CogroupNode: "aggregates.cogroup.build",
    nodes.DeduplicateNode: "deduplicate.build",
    nodes.DistinctNode: "aggregates.distinct.build",
    nodes.FilterNode: "stateless.build_filter",
    nodes.FlatMapNode: "stateless.build_flat_map",
    nodes.ForeignKeyJoinNode: "joins.foreign_key_join.build",
    nodes.ForeignKeyResponseNode: "joins.foreign_key_ends.build_response",
    nodes.ForeignKeySendNode: "joins.foreign_key_ends.build_send",
    nodes.MapNode: "stateless.build_map",
    nodes.MapValuesNode: "stateless.build_map_values",
    nodes.MergeNode: "stateless.build_merge",
    nodes.PeekNode: "stateless.build_peek",
    nodes.ProcessNode: "processor.process.build",
    nodes.ReorderNode: "reorder.build",
    nodes.SelectKeyNode: "stateless.build_select_key",
    nodes.StreamGlobalTableJoinNode: "joins.stream_table_join.build_global",
    nodes.StreamJoinNode: "joins.stream_join.build",
    nodes.StreamTableJoinNode: "joins.stream_table_join.build",
    nodes.SuppressNode: "suppress.suppress.build",
    nodes.TableAggregateNode: "table_aggregates.table_aggregate.build",
    nodes.TableFilterNode: "tables.table_steps.build",
    nodes.TableGroupByNode: "tables.table_group_by.build",
    nodes.TableJoinNode: "joins.complete_history_join.build",
    nodes.TableMapValuesNode: "tables.table_steps.build",
    nodes.TableNode: "tables.table_source.build",
}
"""Nodes that are not here (source, repartition, to_stream, sink, global table) are the task's own."""


def build(node: Node, place: Place) -> Operator | None:
    """The running operator of ``node``, or None for one that hands on what it gets."""
    if type(node) not in OPERATORS:
        return None
    module, _, function = OPERATORS[type(node)].rpartition(".")
    operator: Operator = getattr(import_module(f"jobs.operators.{module}"), function)(node, place)
    return operator


__all__ = ["OPERATORS", "Clocks", "MultiOperator", "Operator", "Place", "StatefulOperator", "TableView", "build"]
