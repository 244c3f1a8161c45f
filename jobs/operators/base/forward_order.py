"""Where branches of a topology merge again: the order in which Kafka Streams would have forwarded their records.

Kafka forwards depth first: an output of a node runs through the whole tree below the node's first child, then its
second, and so on, before the node's next output starts. So the place of a record is (record of the tape, output and
child of the first node on its way with several children, the same of the next such node, ...). ``Batch.cause`` and
``Batch.path`` are these columns, and rows of one batch are in their order.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ....state.records.batches import OF_CAUSE, Batch, Values
from ...kernels.forward_order import merge_two


class MergedRows(NamedTuple):
    """Rows of several batches in one order: ``which`` batch (int8), and its ``row`` (int64)."""

    which: np.ndarray
    row: np.ndarray


def merge_in_forward_order(batches: Sequence[Batch]) -> MergedRows:
    """The rows of ``batches`` in the order in which they happen."""
    if len(batches) == 2 and not batches[0].path and not batches[1].path:
        return _merge_two(*batches)
    lengths = [len(batch) for batch in batches]
    which = np.repeat(np.arange(len(batches), dtype=np.int8), lengths)
    row = np.concatenate([np.arange(n, dtype=np.int64) for n in lengths]) if batches else np.zeros(0, np.int64)
    occupied = [number for number, n in enumerate(lengths) if n]
    # One batch alone is in order already.
    if len(occupied) < 2:
        return MergedRows(which, row)
    cause = np.concatenate([batch.cause for batch in batches])
    # Batches that branched more often have longer paths. The missing end of a shorter one is -1 (``_path``), which is
    # before every number.
    depth = max(len(batches[number].path) for number in occupied)
    columns = [np.concatenate([_path(batch, level) for batch in batches]) for level in range(depth)]
    # np.lexsort takes the most important key last: the cause, then the path from its beginning. Rows of one batch are
    # in order already, so that the row comes last.
    order = np.lexsort((row, *columns[::-1], cause)) if columns else np.argsort(cause, kind="stable")
    return MergedRows(which[order], row[order])


def _merge_two(first: Batch, second: Batch) -> MergedRows:
    """Without branches that merge again, as in most joins."""
    length = len(first) + len(second)
    merged = MergedRows(np.empty(length, np.int8), np.empty(length, np.int64))
    merge_two(first.cause, second.cause, *merged)
    return merged


def joined_batch(batches: Sequence[Batch], merged: MergedRows, *, with_values: bool = True) -> Batch:
    """All rows of ``batches`` as one batch, in the order of ``merged``. Their keys must have the same codes.

    ``with_values`` False: no values, neither new nor old, since those of the batches are of different types.
    """
    if len(batches) == 1:
        return batches[0]
    starts = np.cumsum([0, *(len(batch) for batch in batches[:-1])])
    # Rows of all batches are numbered one batch after the other.
    rows = starts[merged.which] + merged.row
    depth = max(len(batch.path) for batch in batches)

    def numbers(name: str, missing: int | bool) -> np.ndarray | None:
        columns = [getattr(batch, name) for batch in batches]
        if all(column is None for column in columns):
            return None
        whole: np.ndarray = np.concatenate(
            [
                np.full(len(batch), missing) if column is None else column
                for batch, column in zip(batches, columns, strict=True)
            ]
        )
        chosen: np.ndarray = whole[rows]
        return chosen

    def values(columns: list[pa.Array | None]) -> pa.Array | None:
        known = next((column for column in columns if column is not None), None)
        if known is None:
            return None
        whole = [
            pa.nulls(len(batch), known.type) if column is None else column
            for batch, column in zip(batches, columns, strict=True)
        ]
        return pa.concat_arrays(whole).take(pa.array(rows))

    if not with_values:
        batches = [replace(batch, value=Values(pa.nulls(len(batch))), old=None) for batch in batches]
    old = values([None if batch.old is None else batch.old.all() for batch in batches])
    return Batch(
        cause=np.concatenate([batch.cause for batch in batches])[rows],
        key=np.concatenate([batch.key for batch in batches])[rows],
        keys=batches[0].keys,
        time_ms=np.concatenate([batch.time_ms for batch in batches])[rows],
        valid=np.concatenate([batch.valid for batch in batches])[rows],
        value=Values(values([batch.value.all() for batch in batches])),
        window_start_ms=numbers("window_start_ms", -1),
        window_end_ms=numbers("window_end_ms", -1),
        old=None if old is None else Values(old),
        old_valid=numbers("old_valid", False),
        stream_time_ms=numbers("stream_time_ms", -1),
        latest=numbers("latest", True),
        headers=values([batch.headers for batch in batches]),
        path=tuple(np.concatenate([_path(batch, level) for batch in batches])[rows] for level in range(depth)),
        context=_context(batches, rows),
    )


def _context(batches: Sequence[Batch], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    if all(batch.context is None for batch in batches):
        return None
    own = [batch.context or (np.full(len(batch), OF_CAUSE), np.full(len(batch), OF_CAUSE)) for batch in batches]
    return np.concatenate([source for source, _ in own])[rows], np.concatenate([offset for _, offset in own])[rows]


def _path(batch: Batch, level: int) -> np.ndarray:
    return batch.path[level] if level < len(batch.path) else np.full(len(batch), -1, np.int64)
