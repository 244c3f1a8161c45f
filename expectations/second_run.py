"""What no table has, as tables: the rows that a node got and forwarded when the increment was run a second time.

Owns the way from these rows to an audit. Rule: they are written to files of their own, under names of tables that no
pipeline has, and the same audit reads them which reads the tables of other nodes. It judges by recomputation, so the
engine's word is not taken for its rules. That the run of the audit is the one that was committed is seen in the tables
below the node: `other_rows` counts the rows there that differ.
"""

from collections.abc import Callable
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ..state.node_rows import NodeRows
from ..state.promises import InputPromise
from ..state.tables.data_files import DataFile
from ..state.tables.names import DEAD_LETTER, DROPPED, TableName
from ..state.tables.parquet_writer import write_task_file
from .audits import WITNESSES_MAX, Audit, Scope, Unchecked, shown, with_key_apart

_PLACE = ["partition", "offset"]
_NOT_COMPARED = {"increment", "arrival"}
OTHER_ROWS = "other_rows"
"""Of an audit's frame: rows below the node that a second run wrote otherwise than the increment."""

OfNode = Callable[[Scope, NodeRows, tuple[InputPromise, ...], str], Audit | Unchecked]
"""An audit of the node's inputs and of the table with all that it forwards. The scope has the tasks that ran."""


def judged_again(scope: Scope, node: str, why_not: str, audit: OfNode, beside: str = "") -> Audit | Unchecked:
    """What ``audit`` says of the node's rows in a second run; ``why_not``: why no table has them. ``beside``: a node
    whose inputs are behind those of ``node``, as those of a table that it looks into.
    """
    if scope.again is None:
        return Unchecked(why_not)
    node_rows = scope.again(scope.increment, node)
    unseen = node_rows if isinstance(node_rows, str) else node_rows.unseen
    if isinstance(node_rows, str) or unseen:
        return Unchecked(f"{why_not}, and {unseen}")
    if beside:
        also = scope.again(scope.increment, beside)
        if isinstance(also, str) or also.chosen.tasks != node_rows.chosen.tasks:
            return Unchecked(f"{why_not}, and other tasks have what it looks into")
        inputs, before = (*node_rows.inputs, *also.inputs), (*node_rows.earlier, *also.earlier)
        node_rows = replace(
            node_rows, inputs=inputs, earlier=before, dropped=pa.concat_tables([node_rows.dropped, also.dropped])
        )
    names = [TableName.repartition(f"second-run-{slot}") for slot in range(len(node_rows.inputs))]
    forwarded = TableName.output("second-run-forwarded")
    with TemporaryDirectory() as folder:
        planted = _Planted(scope, folder)
        for name, own, earlier in zip(names, node_rows.inputs, node_rows.earlier, strict=True):
            planted.add(name, (earlier, scope.increment - 1), (own, scope.increment))
        planted.add(forwarded, (_as_kept(node_rows), scope.increment - 1), (node_rows.forwarded, scope.increment))
        dropped = [
            node_rows.dropped.append_column("topic", pa.array([name.name] * len(node_rows.dropped))) for name in names
        ]
        planted.add(DROPPED, (pa.concat_tables(dropped), scope.increment))
        planted.add(DEAD_LETTER)
        partitions = node_rows.partitions if node_rows.chosen.others else None
        seen = scope.with_tables(planted.listed, partitions)
        audited = audit(seen, node_rows, tuple(InputPromise(name) for name in names), forwarded)
    if isinstance(audited, Unchecked):
        return Unchecked(f"{why_not}, and {audited.reason}")
    return _with_comparison(scope, node_rows, audited, why_not)


def _as_kept(node_rows: NodeRows) -> pa.Table:
    """What the node's store had, as rows that it forwarded: their causes are the records."""
    earlier = node_rows.earlier[0]
    columns = {"partition": earlier["partition"], "offset": earlier["offset"], "cause_offset": earlier["offset"]}
    return pa.table({**columns, "record_time_ms": earlier["timestamp"]})


class _Planted:
    """Files of the tables of an increment that are read in place of others."""

    def __init__(self, scope: Scope, folder: str) -> None:
        self._scope, self._folder = scope, folder
        self.listed: dict[str, list[DataFile]] = {}

    def add(self, table: str, *parts: tuple[pa.Table, int]) -> None:
        """``parts``: rows, each with the increment that they are of."""
        files = []
        for rows, increment in parts:
            for partition in rows["partition"].unique().to_pylist() if len(rows) else []:
                mine = rows.filter(pc.equal(rows["partition"], partition))
                mine = mine.append_column("increment", pa.array([increment] * len(mine), pa.int64()))
                name = f"{len(self.listed)}-{increment}"
                files.append(
                    replace(write_task_file(self._folder, mine, partition=partition, name=name), root=self._folder)
                )
        self.listed[self._scope.tables.table(table)] = files


def _with_comparison(scope: Scope, node_rows: NodeRows, audited: Audit, why_not: str) -> Audit:
    """With what differs in the tables below the node, and which tasks ran."""
    chosen = node_rows.chosen
    other = [row for table, again in node_rows.written.items() for row in _differing(scope, table, node_rows, again)]
    frame = audited.frame.with_columns(
        pl.lit(len(other)).alias(OTHER_ROWS), pl.lit(chosen.records).alias("run_again"),
        pl.lit(chosen.others).alias("tasks_left_out"), pl.lit(chosen.seed).alias("seed"),
    )  # fmt: skip
    witnesses = [{"breaks": OTHER_ROWS, **row} for row in other[:WITNESSES_MAX]]
    ran = f"tasks {', '.join(chosen.tasks)} of the increment were run again, {chosen.records:,} records"
    return replace(
        audited, frame=frame, witnesses=[*audited.witnesses, *witnesses][:WITNESSES_MAX], reason=f"{why_not}, so {ran}"
    )


def _differing(scope: Scope, table: str, node_rows: NodeRows, again: pa.Table) -> list[dict[str, Any]]:
    """Rows of the increment that the second run wrote otherwise, or not at all, and those that it alone wrote."""
    names = [name for name in again.column_names if name not in _NOT_COMPARED] or _PLACE
    committed = scope.own_rows(table, [name for name in names if name != "partition"]).select(names)
    if node_rows.chosen.others:
        committed = committed.filter(pl.col("partition").is_in(list(node_rows.partitions)))
    mine = pl.from_arrow(again.select(names)) if again.num_columns else committed.clear()
    assert isinstance(mine, pl.DataFrame)
    mine = with_key_apart(mine)
    if mine.is_empty() and committed.is_empty():
        return []
    if mine.sort(_PLACE).equals(committed.sort(_PLACE)):
        return []
    before, now = ({(row["partition"], row["offset"]): row for row in rows.to_dicts()} for rows in (committed, mine))
    return [
        {"table": table, "partition": at[0], "offset": at[1], "committed": shown(old), "run_again": shown(new)}
        for at in sorted({*before, *now})
        if repr(old := before.get(at)) != repr(new := now.get(at))
    ]
