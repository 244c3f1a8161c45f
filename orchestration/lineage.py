"""Which table comes from which: the topology's graph, seen through its tables.

Owns the tables of a sub-topology, the edges between them, and those between their columns. Rule: an edge says that
records of the one reach the other with no table between; a step that keeps nothing (a filter, a map) is no node of it.
A repartition table belongs to the sub-topology whose records it holds, as Kafka's description puts its sink there. A
topic that a topology writes and reads again is one table, its output; the copy that it reads is none.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ..jobs.execution.table_schemas import table_schema
from ..jobs.graph.graph import Node
from ..jobs.topology import SubTopology, Topology
from ..state.tables.names import LANDED, TableName
from ..state.tables.warehouse import LANDED_SCHEMA, WINDOW


@dataclass(frozen=True)
class Table:
    """A table that an increment writes.

    ``name``: as in the ledger's versions ("state/x", "outputs/y", "repartition/z").
    ``upstream``: names of the tables it is made from, "landed/<topic>" among them, in order of the graph.
    ``rekeyed``: those of them whose records get other keys on the way.
    """

    name: str
    node: Node
    upstream: tuple[str, ...]
    rekeyed: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        """``state``, ``outputs`` or ``repartition``."""
        return TableName(self.name).kind


def tables_of(topology: Topology, sub: SubTopology) -> list[Table]:
    """Tables of a sub-topology, each after those it is made from."""
    written = {node.name for node in sub.nodes if not node.is_source}
    own = written | {  # its sources are written by others; what several write belongs to the last of them
        node.name for node in sub.repartitions if topology.is_last_writer(node.topic, sub)
    }
    tables, repeated = [], _repeated(topology)
    for node in topology.graph.nodes.values():
        table = node.table(topology.graph) if node.name in own else None
        if table is not None and table not in repeated:
            above = list(_above(topology, node, table, repeated, is_rekeyed=node.key_step is not None))
            rekeyed = frozenset(name for name, is_rekeyed in above if is_rekeyed)
            tables.append(Table(table, node, tuple(dict.fromkeys(name for name, _ in above)), rekeyed))
    return tables


def _repeated(topology: Topology) -> set[str]:
    """Tables of ours whose records are those of an output."""
    return {TableName.repartition(topic) for topic in topology.written_and_read()}


def _above(
    topology: Topology, node: Node, own: str, repeated: set[str], *, is_rekeyed: bool
) -> Iterator[tuple[str, bool]]:
    """Names of the tables that records of the table ``own`` come from with none between, and whether they got other
    keys on the way. Tables that are ``repeated`` are none; the output with their records is.
    """
    for name in (*node.inputs, *node.reads):
        above = topology.graph.nodes[name]
        table = above.table(topology.graph)
        if table in repeated:
            output = TableName.output(TableName(table).name)
            table = None if output == own else output
        if table is None:
            yield from _above(topology, above, own, repeated, is_rekeyed=is_rekeyed or above.key_step is not None)
        else:
            yield table, is_rekeyed


Columns = dict[str, list[tuple[str, str]]]
"""Column → table and column above."""

_VALUES, _TIMES = ("value", "aggregate"), ("timestamp", "record_time_ms")
_MADE_OF = {
    "key": ("key",),
    "headers": ("headers",),
    **dict.fromkeys(_TIMES, _TIMES),
    **dict.fromkeys((*_VALUES, "old", "prior", "id"), _VALUES),
}


def column_lineage(topology: Topology, table: Table) -> Columns:
    """For each column of a table, the upstream columns that it is made from.

    A key is made from keys, and from values too if a step gives new keys. A window is made from windows, else from
    times; values, times and headers are made from their own kind. Columns with the position of a row are made from
    none, and are left out.
    """
    made_from, mine = Columns(), _columns(topology, table.name)
    for above in table.upstream:
        theirs = _columns(topology, above)
        for column in mine:
            wanted = _made_of(column, theirs, is_rekeyed=above in table.rekeyed)
            sources = [(above, name) for name in theirs if name in wanted]
            if sources:
                made_from.setdefault(column, []).extend(sources)
    return made_from


def _made_of(column: str, theirs: list[str], *, is_rekeyed: bool) -> tuple[str, ...]:
    if column in WINDOW:
        return (column,) if column in theirs else _TIMES
    return (*_MADE_OF.get(column, ()), *(_VALUES if column == "key" and is_rekeyed else ()))


def table_types(topology: Topology, table: str) -> dict[str, str]:
    """Arrow's types by column, of a landed topic or a table of the topology, in the table's order."""
    schema = LANDED_SCHEMA if TableName(table).kind == LANDED else table_schema(topology, table)
    return {each.name: str(each.type) for each in schema}


def _columns(topology: Topology, table: str) -> list[str]:
    return list(table_types(topology, table))
