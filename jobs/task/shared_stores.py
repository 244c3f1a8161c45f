"""Operators that use the stores of others in their task."""

from collections.abc import Mapping

from ..graph.graph import Graph
from ..operators.base.operator import Operator, SharingOperator
from ..operators.tables.table_source import StoredTableSource
from .dataflow import Dataflow


def connect_stores(graph: Graph, operators: Mapping[str, Operator]) -> None:
    """Processors get the stores of others that they name."""
    for name, operator in operators.items():
        if isinstance(operator, SharingOperator):
            others = (*graph.nodes[name].shares, *graph.nodes[name].reads)
            operator.connect({other: operators[other] for other in others if other in operators})


def let_views_put(dataflow: Dataflow, operators: Mapping[str, Operator]) -> None:
    """The view of a stream-table join puts the changes of a versioned table that the join alone looks into."""
    for name, operator in operators.items():
        reader = dataflow.only_reader(name)
        if isinstance(operator, StoredTableSource) and reader is not None and reader.puts_for_table:
            operator.leave_puts_to(*operators[reader.name].context.views)
