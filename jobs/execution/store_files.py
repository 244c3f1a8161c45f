"""What a task continues from, and what it leaves: rows of its stores among committed files, and global tables as they
were.

Owns how rows are found among files, and where that is by key. Rule: the newest row of a row key counts, unless it is
deleted or the operator has forgotten it.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from ...state.buffers import only_chunk
from ...state.records.keys import canonical_bytes
from ...state.runs.local_copies import RunWriter, StateFile, open_run
from ...state.runs.sorted_runs import RowForm, SortedRun, every_row, merged, rows_of, run_of, to_merge
from ...state.runs.stored_rows import StoredRows
from ...state.serdes import Serde
from ...state.times import NO_TIMESTAMP_MS
from ..graph.graph import Graph, Node
from ..graph.nodes import GlobalTableNode, RepartitionNode
from ..tape.landed_slice import Slice, in_tape_order
from ..topology.topology import SubTopology

if TYPE_CHECKING:
    from ..operators.base.operator import Counters, StatefulOperator

Hashes = np.ndarray
"""Of serialized keys, uint64, rising and distinct."""


class StoreFiles:
    """Rows of one store and partition as of the increment before. ``files`` are oldest first."""

    def __init__(self, operator: "StatefulOperator", files: Sequence[StateFile], cache: str | None) -> None:
        self.operator, self.files, self.cache = operator, files, cache
        self.form = form_of(operator)

    def __len__(self) -> int:
        """Rows in all files, old ones too."""
        return sum(state_file.file.records for state_file in self.files)

    @cached_property
    def runs(self) -> list[SortedRun]:
        return [open_run(state_file, self.form, self.cache) for state_file in self.files]

    def due(self, counters: "Counters", until_ms: int | None) -> np.ndarray:
        """Hashes of the keys that have rows which may act when stream time gets as far as ``until_ms``; None: of all
        that wait.
        """
        due, above = self.operator.due, counters.get("left_ms", NO_TIMESTAMP_MS)
        hashes = [] if due is None else [run.due(above, due.until(until_ms)) for run in self.runs]
        return np.concatenate([np.zeros(0, np.uint64), *hashes])

    def load(self, counters: "Counters", hashes: Hashes | None = None, *, restarts: bool = False) -> pa.Table:
        """Live rows of the keys with ``hashes`` (None: all), in the operator's ``rows_schema``. ``restarts``: also all
        that the operator does not show, of which its first restart deletes what the store has lost by then.
        """
        if hashes is None or not self.files:
            rows = every_row(self.runs, self.form)
        else:
            rows = rows_of(self.runs, self.form, hashes)
        if not restarts:
            rows = rows.filter(pa.array(~self.operator.forgets(rows, counters)))
        return rows.select(self.operator.rows_schema().names)

    def stored(self) -> StoredRows:
        """Rows that are found when they are asked for."""
        return StoredRows(self.runs, self.form)

    def with_changes(
        self, changes: pa.Table, table: str, counters: "Counters"
    ) -> tuple[list[StateFile], Iterator[pa.Table]]:
        """Files of ``table`` that go into one with ``changes``, and its rows, piece by piece, by rising hash."""
        # Files of an earlier branch are read and never merged. They are the oldest, so ``own`` is the end of
        # ``files``, and the last runs are those of its last files.
        own = [state_file for state_file in self.files if state_file.table == table]
        number = to_merge([state_file.file.records for state_file in own], len(changes))
        fresh = run_of(changes, self.form)
        if number == 0:
            return [], iter([fresh.part(0, len(fresh), self.form.schema)])
        pieces = merged(
            [*self.runs[-number:], fresh],
            self.form,
            # A deleted row is dropped only where no older run remains, in which it hides an earlier row of its key.
            is_whole=number == len(self.files),
            is_forgotten=lambda rows: self.operator.loses(rows, counters),
        )
        return own[-number:], pieces

    def writer(self, table: str) -> RunWriter | None:
        """For the warm copy of a new file of ``table``."""
        return None if self.cache is None else RunWriter(self.cache, table, self.form)


def form_of(operator: "StatefulOperator") -> RowForm:
    """How the rows of ``operator`` are found."""
    own = [*operator.rows_schema(), pa.field("increment", pa.int64()), pa.field("deleted", pa.bool_())]
    return RowForm(
        name=f"{type(operator).__name__} {operator.row_key} {operator.due} {operator.finding_serde}",
        schema=pa.schema(own),
        row_key=operator.row_key,
        found_by=operator.found_by,
        due_ms=None if operator.due is None else operator.due.times,
    )


def may_ask_for_any(graph: Graph, sub: SubTopology) -> set[str]:
    """Stores of ``sub`` whose rows are not found by the keys of the tape alone: keys change above them, or above a node
    that looks into a table of ``sub``.
    """
    stores = set(sub.stores)
    if any(node.reads and (node.is_by_record or not _keeps_keys(graph, node)) for node in sub.nodes):
        return stores
    return {store for store, node in sub.stores.items() if not _keeps_keys(graph, node)}


def _keeps_keys(graph: Graph, node: Node) -> bool:
    """Whether records come to ``node`` with the keys that they have on the tape."""
    if isinstance(node, RepartitionNode):
        return True
    above = [graph.nodes[name] for name in node.inputs]
    return not any(one.changes_keys or not _keeps_keys(graph, one) for one in above)


def global_contents(node: GlobalTableNode, slices: Sequence[Slice], order: str) -> pa.Table:
    """What a reader is shown of the landed records of ``slices``: key, value, record_time_ms, perhaps headers.

    The newest value of every key, of which a null value deletes its key; or, where all of them decide, every record in
    the order of a tape. Undecodable records are passed over, and of newest values null keys.
    """
    keys, values = node.shape.key, node.shape.value
    rows = in_tape_order(slices, order)
    if rows is None:
        kinds = {"key": keys.arrow_type, "value": values.arrow_type, "record_time_ms": pa.int64()}
        return pa.schema(list(kinds.items())).empty_table()
    key, value = keys.decode(only_chunk(rows, "key")), values.decode(only_chunk(rows, "value"))
    times = only_chunk(rows, "timestamp")
    is_read = ~(key.bad | value.bad) & (times.to_numpy() >= 0)
    chosen = pa.array(np.flatnonzero(is_read) if node.made_by else _newest(keys, rows, value.values, is_read))
    columns = {"key": key.values, "value": value.values, "record_time_ms": times}
    if "headers" in rows.column_names and node.made_by:
        columns["headers"] = only_chunk(rows, "headers")
    return pa.table({name: column.take(chosen) for name, column in columns.items()})


def _newest(keys: Serde, rows: pa.Table, values: pa.Array, is_read: np.ndarray) -> np.ndarray:
    """Rows that are the last of their key and no deletion."""
    written = canonical_bytes(keys, only_chunk(rows, "key"))
    frame = pl.DataFrame({"key": pl.Series(written), "row": np.arange(len(rows))})
    read = frame.filter(pl.Series(is_read) & pl.col("key").is_not_null())
    newest: np.ndarray = read.unique("key", keep="last", maintain_order=True)["row"].to_numpy()
    has_value: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
    with_value: np.ndarray = newest[has_value[newest]]
    return with_value
