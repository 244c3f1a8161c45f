"""The proof of a backfill over what was committed: where no code has changed, the parent has the very same rows.

Owns the comparison. Rule: an output is compared when every increment of the parent that decided its rows of the range
was run by the same steps and stores. Then the records of each partition are the same, in the same order, but for their
offsets and increments.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ...state.errors import BackfillDiffers
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import Cut, DoneRow, behind
from ...state.tables.names import TableName
from ...state.tables.rows_in_force import in_force
from ...state.tables.warehouse import Warehouse
from ..code_changes.code_snapshot import code_snapshot
from ..code_changes.upstream_lineage import nodes_upstream
from ..execution.kept_range import CAUSE, Range
from ..graph.nodes import SinkNode
from ..history.committed_tables import done_row, read_table
from ..topology.topology import Topology
from .range_part import RangePart
from .range_run import is_below_repartition


def compare(warehouse: Warehouse, part: RangePart, pipeline: str, branch: str, range_: Range, begins: Cut) -> list[str]:
    """Outputs that ``part`` makes in ``branch`` whose rows in the range equal those of ``pipeline``, where both ran the
    same code. ``begins``: offsets of the first records that decided rows of the range. Raises BackfillDiffers for the
    first row that differs.
    """
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    ran = in_force(ledger.done_rows())
    ends = done_row(warehouse, branch).content.cut_to
    # The parent has not read as far as the backfill: it may have fewer rows of the range, and all of them right.
    if not ran or behind(ran[-1].content.cut_to, ends):
        return []

    def read(row: LedgerRow[DoneRow]) -> Cut:
        return {topic: row.content.cut_to[topic] for topic in begins if topic in row.content.cut_to}

    deciding = [row.content for row in ran if behind(begins, read(row))]
    topology, outputs = part.whole, list[str]()
    now = code_snapshot(topology)
    for sink in topology.sinks():
        if sink.topic in part.left_out:
            continue
        if all(_is_same(topology, sink, done, now) for done in deciding):
            nameless = [CAUSE] if is_below_repartition(topology, sink) else []
            _compare(warehouse, pipeline, branch, sink.topic, range_, ran[-1], nameless)
            outputs.append(sink.topic)
    return outputs


def _is_same(topology: Topology, sink: SinkNode, done: DoneRow, now: Mapping[str, Any]) -> bool:
    """Whether the increment was run by the steps and stores of today above an output; not if something was restated."""
    code = done.code
    if code is None or done.kind is not None or code["made_with"] != now["made_with"]:
        return False
    above = {topology.graph.store_of(node) for node in nodes_upstream(topology.graph, sink)}
    stores = above & {*topology.stores()}  # a global table has a store and no task that keeps it
    return (
        code["outputs"].get(sink.topic) == now["outputs"][sink.topic]
        and _read_beside(code, sink) == _read_beside(now, sink)
        and all(_settings(code["stores"].get(name)) == _settings(now["stores"][name]) for name in stores)
    )


def _read_beside(code: Mapping[str, Any], sink: SinkNode) -> set[str]:
    """What the sub-topologies read that write an output."""
    output = TableName.output(sink.topic)
    return {topic for sub in code["sub_topologies"].values() if output in sub["writes"] for topic in sub["reads"]}


def _settings(store: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if store is None else {name: value for name, value in store.items() if name != "known"}


def _compare(
    warehouse: Warehouse,
    pipeline: str,
    branch: str,
    output: str,
    range_: Range,
    last: LedgerRow[DoneRow],
    not_compared: list[str],
) -> None:
    table = TableName.output(output)
    want = _in_order(read_table(warehouse, pipeline, table, increment=last.increment), range_, not_compared)
    got = _in_order(read_table(warehouse, branch, table), range_, not_compared)
    if want.equals(got):
        return
    wanted, others = want.to_pylist(), got.to_pylist()
    for number in range(max(len(wanted), len(others))):
        one = wanted[number] if number < len(wanted) else None
        other = others[number] if number < len(others) else None
        if repr(one) != repr(other):  # NaN is NaN
            raise BackfillDiffers(
                f"backfill {branch!r}, {table}, row {number} of the range",
                f"what {pipeline} has committed, {one or 'no row'}",
                f"{other or 'no row'}",
                "the code above it is the same. So a function answers differently each time, or the pipeline began "
                "with other state, or it read its topics in another order (by arrival, or with --idle proceed while "
                "one was late). Look at the row with `replay explain`",
            )


def _in_order(rows: pa.Table, range_: Range, not_compared: list[str]) -> pa.Table:
    """Rows of the range by partition and offset, without what a cut may change."""
    rows = rows.filter(range_.has(rows)).sort_by([("partition", "ascending"), ("offset", "ascending")])
    return rows.drop_columns(["offset", "increment", *not_compared]).combine_chunks()
