"""Nodes of tables and of the steps over them: how each is configured, and what it says of itself."""

from dataclasses import dataclass
from typing import Any

from ...functions.expressions import Call, Expression, Struct
from ...graph.graph import Graph, Node
from ...graph.table_traits import send_old


@dataclass(frozen=True, eq=False, kw_only=True)
class TableNode(Node):
    """A topic, a stream (to_table) or a response of a foreign-key join read as a table (KTableSource)."""

    operator = ".table_source:build"
    is_table_of_records = True


@dataclass(frozen=True, eq=False, kw_only=True)
class TableStepNode(Node):
    """A step on the values of a table: without a store its table is the step on what the table above shows."""

    shows_inputs = True
    keeps_versions = True
    takes_back = True

    def can_send_old(self, graph: Graph, *, force: bool) -> bool:
        return graph.tables[self.name].store is not None or send_old(graph, self.inputs[0], force=force)


@dataclass(frozen=True, eq=False, kw_only=True)
class TableFilterNode(TableStepNode):
    """KTableFilter: what does not pass is deleted."""

    predicate: Expression | Call
    keeps: bool

    operator = ".table_steps:build"
    view = ".table_views:step_view"


@dataclass(frozen=True, eq=False, kw_only=True)
class TableMapValuesNode(TableStepNode):
    """KTableMapValues; a deletion stays one."""

    mapper: Expression | Struct | Call

    operator = ".table_steps:build"
    view = ".table_views:step_view"


@dataclass(frozen=True, eq=False, kw_only=True)
class TableGroupByNode(Node):
    """KTableRepartitionMap: new keys and values of a table's changes; a RepartitionNode with a change comes next."""

    selector: Expression | Call
    mapper: Expression | Struct | Call

    operator = ".table_group_by:build"
    takes_back = True

    @property
    def key_step(self) -> Any:
        return self.selector
