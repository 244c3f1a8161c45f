"""What readers of a topic must get after a restatement: the difference by key and window, in the topic's own bytes.

Owns the comparison of the published rows with the present ones. Rule: of both sides the last record of each key of a
partition counts, as for a reader that keeps those. Where they differ the present row is published. Where there is none
any more a tombstone is, with the time of the row that it takes away. The difference is the same however often it is
made, so that a publisher that died is continued within it.
"""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import PublishError
from .committed_rows import CommittedOutput, first_rows
from .position import Position
from .published_output import OutgoingRows

_KEY = ["to", "key"]
_ORDER = ["increment", "partition", "offset"]
_SAID = ["value", "time", "headers"]


def restated_rows(committed: CommittedOutput, position: Position) -> int:
    """How many rows of increments of which readers have some were taken back since."""
    return len(committed.taken_back(position.newest, position.as_of))


def corrections(committed: CommittedOutput, position: Position, *, tombstones: bool) -> OutgoingRows:
    """From the rows published up to ``position`` to those that the output has as of ``committed``; tombstones first.

    ``tombstones``: whether keys that are gone get one, or stay as they are. Raises PublishError where rows have no key.
    """
    live = committed.all_rows()
    published = _published(live, committed.taken_back(position.newest, position.as_of), position)
    before = _newest(committed, published, position.partitions)
    now = _newest(committed, live, position.partitions)
    both = now.join(before, on=_KEY, how="left", suffix="_before", nulls_equal=True)
    # The time is null only where the join has no partner; the value is null for a tombstone, too.
    had = pl.col("time_before").is_not_null()
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_before")) for name in _SAID)
    shows = had & pl.col("value_before").is_not_null()
    changed = both.filter((pl.col("value").is_not_null() & ~(had & same)) | (pl.col("value").is_null() & shows))
    gone = before.filter(pl.col("value").is_not_null()).join(now, on=_KEY, how="anti", nulls_equal=True)
    taken = gone.with_columns(value=pl.lit(None, pl.Binary), headers=pl.lit(None, gone["headers"].dtype))
    columns = [*_KEY, *_SAID]
    parts = [changed.sort(_ORDER).select(columns)]
    if tombstones:
        parts.insert(0, taken.sort(_ORDER).select(columns))
    return _outgoing(pl.concat(parts))


def _published(live: pa.Table, gone: pa.Table, position: Position) -> pa.Table:
    """Rows that readers have: those that were not taken back, and those that were, as far as they were published."""
    rows = pa.concat_tables([live.filter(pc.less_equal(live["increment"], position.newest)), gone])
    if not position.increment:
        return rows
    is_last = pc.equal(rows["increment"], position.increment)
    some = first_rows(rows.filter(is_last), position.rows)
    return pa.concat_tables([rows.filter(pc.invert(is_last)), some])


def _newest(committed: CommittedOutput, rows: pa.Table, partitions: int) -> pl.DataFrame:
    """The last row of every key of a topic's partition: within the output's partition that of the highest offset, and
    then that of the last increment and partition, as they are published.
    """
    outgoing = committed.output.outgoing(rows, partitions)
    if outgoing.key.null_count:
        place, at = f"output {committed.output.name!r}", int(np.argmax(outgoing.key.is_null().to_numpy(False)))
        got = f"one without, at partition {rows['partition'][at]}, offset {rows['offset'][at]}"
        next_step = "publish this output to a new topic: rows without a key cannot be corrected"
        raise PublishError(place, "a key in every row", got, next_step)
    columns = {name: rows[name].combine_chunks() for name in _ORDER}
    columns |= {"to": pa.array(outgoing.partition), "key": outgoing.key, "value": outgoing.value}
    columns |= {"time": pa.array(outgoing.time_ms), "headers": outgoing.headers}
    frame = pl.from_arrow(pa.table(columns))
    assert isinstance(frame, pl.DataFrame)
    # No headers and an empty list are the same record in Kafka, so they are no difference.
    frame = frame.with_columns(headers=pl.when(pl.col("headers").list.len() > 0).then("headers"))
    within = frame.sort("partition", "offset").unique(["partition", *_KEY], keep="last", maintain_order=True)
    return within.sort("increment", "partition", maintain_order=True).unique(_KEY, keep="last", maintain_order=True)


def _outgoing(frame: pl.DataFrame) -> OutgoingRows:
    table = frame.to_arrow()
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return OutgoingRows(
        columns["to"].to_numpy(zero_copy_only=False), columns["key"].cast(pa.binary()),
        columns["value"].cast(pa.binary()), columns["time"].to_numpy(zero_copy_only=False), columns["headers"],
    )  # fmt: skip
