"""What a task goes on from: live rows of its stores, and global tables as they were, out of committed files."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from jobs.expressions import Shape
from jobs.operators import StatefulOperator
from jobs.tape import Slice
from state.buffers import only_chunk
from state.files import DataFile, read_rows


def load_rows(path: str, files: Sequence[DataFile], operator: StatefulOperator) -> pa.Table:
    """Live rows of one partition of a store: the newest of every key, unless it is deleted."""
    schema = operator.rows_schema().append(pa.field("increment", pa.int64())).append(pa.field("deleted", pa.bool_()))
    rows = read_rows(path, files, schema)
    if len(files) > 1:
        rows = newest_rows(rows, operator.row_key)
    return rows.filter(pc.invert(rows["deleted"])).drop_columns(["increment", "deleted"])


def newest_rows(rows: pa.Table, row_key: Sequence[str] = StatefulOperator.row_key) -> pa.Table:
    """The newest row of every key and window (in each partition), or of what else names a row of the store
    (``row_key``); deleted marks included. Files stand in order of their increments.
    """
    keys = [name for name in ("partition", *row_key) if name in rows.column_names]
    frame = pl.from_arrow(rows.select(keys).append_column("row", pa.array(np.arange(len(rows)))))
    assert isinstance(frame, pl.DataFrame)
    frame = frame.with_columns(increment=pl.Series(rows["increment"].to_numpy())).sort("increment", maintain_order=True)
    newest = frame.unique(subset=keys, keep="last", maintain_order=True)["row"].to_numpy()
    return rows.take(pa.array(np.sort(newest)))


def global_contents(shape: Shape, slices: Sequence[Slice], order: str) -> pa.Table:
    """Newest value of every key among the landed records of ``slices``: key, value, record_time_ms.

    Undecodable records and null keys are passed over, and a null value deletes its key.
    """
    found = [chunk for slice_ in slices for chunk in slice_.chunks(1 << 20)]
    names = ["key", "value", "record_time_ms"]
    if not found:
        kinds = (shape.key.arrow_type, shape.value.arrow_type, pa.int64())
        return pa.table([pa.array([], kind) for kind in kinds], names=names)
    rows = pa.concat_tables(found, promote_options="default").combine_chunks()
    if order == "arrival":
        rows = rows.sort_by("arrival")
    key, value = shape.key.decode(only_chunk(rows, "key")), shape.value.decode(only_chunk(rows, "value"))
    frame = pl.DataFrame({"key": pl.Series(only_chunk(rows, "key")), "row": np.arange(len(rows))})
    read = frame.filter(pl.Series(~(key.bad | value.bad)) & pl.col("key").is_not_null())
    newest = read.unique("key", keep="last", maintain_order=True)["row"].to_numpy()
    has_value: np.ndarray = value.values.is_valid().to_numpy(zero_copy_only=False)
    chosen = pa.array(newest[has_value[newest]])
    columns = [key.values.take(chosen), value.values.take(chosen), only_chunk(rows, "timestamp").take(chosen)]
    return pa.table(columns, names=names)
