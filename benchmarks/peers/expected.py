"""What the exact workloads have to give, by a relational form over the same rows.

Rule: the form shares no code with any engine. It is exact because no record of the benchmark is later than the grace
and all windows but those of the closing records are closed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ..workloads import GAP_MS, WINDOW_MS


@dataclass(frozen=True)
class Answer:
    """``rows`` of all outputs; ``checks``: the sums of the first and of the second number of their values, and how many
    have a second one.
    """

    rows: int
    checks: dict[str, int]


def expected(workload: str, rows: Mapping[str, Sequence[pl.DataFrame]]) -> Answer | None:
    """The answer to ``workload`` over the partitions' rows of each topic; None where no relational form is exact."""
    stream, *tables = rows.values()
    if workload in ("W1", "W1u", "W7"):
        return _windows(_open_rows(stream).with_columns(window=_session()))
    if workload == "W2":
        return _windows(_open_rows(stream).with_columns(window=pl.col("ms") // WINDOW_MS))
    if workload == "W4":
        return _joined(pl.concat(stream), pl.concat(tables[0]))
    if workload == "W9":
        return _running_totals(stream)
    return None


def _open_rows(stream: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Without the last record of each partition, which closes the windows of the others and has an open one itself."""
    return pl.concat([part.head(-1) for part in stream]).sort("key", "ms")


def _session() -> pl.Expr:
    """A number for each session of rows that are sorted by key and time."""
    begins = (pl.col("key") != pl.col("key").shift()) | (pl.col("ms").diff() > GAP_MS)
    return begins.fill_null(True).cum_sum()


def _windows(rows: pl.DataFrame) -> Answer:
    windows = rows.select("key", "window").n_unique()
    return Answer(windows, {"first": len(rows), "second": int(rows["value"].sum()), "present": windows})


def _running_totals(stream: Sequence[pl.DataFrame]) -> Answer:
    """Of every record the number of its key's records so far, and the sum of their values."""
    of_key = pl.col("value").cum_count().over("key").alias("clicks"), pl.col("value").cum_sum().over("key")
    rows = pl.concat([part.sort("offset").select(*of_key) for part in stream])
    sums = {"first": int(rows["clicks"].sum()), "second": int(rows["value"].sum())}
    return Answer(len(rows), sums | {"present": len(rows)})


def _joined(stream: pl.DataFrame, table: pl.DataFrame) -> Answer:
    """Every row with the newest value of its key in the table that is not newer than itself, if there is one."""
    versions = table.sort("ms", "offset").select("key", "ms", user="value")
    joined = stream.sort("ms").join_asof(versions, on="ms", by="key", strategy="backward", check_sortedness=False)
    users = joined["user"].drop_nulls()
    checks = {"first": int(joined["value"].sum()), "second": int(users.sum()), "present": len(users)}
    return Answer(len(joined), checks)
