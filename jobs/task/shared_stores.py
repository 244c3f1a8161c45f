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


def lend_stores(dataflow: Dataflow, operators: Mapping[str, Operator]) -> None:
    """A versioned table that a stream-table join alone looks into is put by the join's view."""
    for name, operator in operators.items():
        reader = dataflow.only_reader(name)
        if isinstance(operator, StoredTableSource) and reader is not None and reader.puts_for_table:
            operator.lend_to(*operators[reader.name].context.views)
