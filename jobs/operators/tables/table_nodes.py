"""Nodes of tables and of the steps over them: how each is configured, and what it says of itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import only_chunk
from ...functions.expressions import Call, Expression, Struct
from ...graph.graph import Graph, Node
from ...graph.table_traits import send_old


@dataclass(frozen=True, eq=False, kw_only=True)
class TableNode(Node):
    """A topic, a stream (to_table) or a response of a foreign-key join read as a table (KTableSource)."""

    operator = ".table_source:build"
    is_table_of_records = judged_by_values = True

    def records_kept(self, rows: pa.Table) -> tuple[pa.Table, ...]:
        """Versions by time, and a tombstone where one ends: before the version that begins there, if there is one."""
        if "valid_from_ms" not in rows.column_names:
            return ()
        ended = rows.filter(pc.is_valid(rows["valid_to_ms"]))
        none = pa.nulls(len(ended), pa.binary())
        ends = pa.table({"timestamp": ended["valid_to_ms"], "key": self._keys(ended), "value": none})
        values = self.shape.value.encode(only_chunk(rows, "value")).cast(pa.binary())
        begins = pa.table({"timestamp": rows["valid_from_ms"], "key": self._keys(rows), "value": values})
        records = pa.concat_tables([ends, begins])
        order = np.argsort(records["timestamp"].to_numpy(), kind="stable")
        return (records.take(pa.array(order)),)

    def _keys(self, rows: pa.Table) -> pa.Array:
        return self.shape.key.encode(only_chunk(rows, "key")).cast(pa.binary())


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
