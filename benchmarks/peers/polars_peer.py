"""Polars' nearest relational forms: a ceiling, for they keep neither order nor lateness nor state. W10 reads the landed
bytes, as ours does.

``python -m kstreams_replay.benchmarks.peers.polars_peer --workload W1 --folder DIR [--runs 3] [--records N]``
"""

import polars as pl

from ..click_events import ROBOT
from ..workloads import GAP_MS, INTERVAL_MS, WINDOW_MS
from .relational import PeerFiles, run_forms

NOTES = {"W3": "compares with the record before, kept or not, in order of time"}


def sessions(files: PeerFiles) -> None:
    """Sorted by key and time, sessions numbered by a running sum."""
    rows = pl.scan_parquet(files.stream).select("key", "ms", "value")
    _in_sessions(rows, total=pl.col("value").sum()).sink_parquet(files.target, compression="snappy")


def event_sessions(files: PeerFiles) -> None:
    """The same of JSON texts, of which the fields that are used are decoded."""
    fields = pl.Struct({"kind": pl.String, "amount": pl.Int64, "seconds": pl.Int64})
    rows = (
        pl.scan_parquet(files.stream)
        .select("key", pl.col("timestamp").alias("ms"), value=pl.col("value").cast(pl.String).str.json_decode(fields))
        .unnest("value")
        .filter(pl.col("kind") != ROBOT)
        .with_columns(pl.col("key").cast(pl.String))
    )
    sums = {"total": pl.col("amount").sum(), "seconds": pl.col("seconds").sum()}
    _in_sessions(rows, **sums).sink_parquet(files.target, compression="snappy")


def _in_sessions(rows: pl.LazyFrame, **sums: pl.Expr) -> pl.LazyFrame:
    is_new = (pl.col("key") != pl.col("key").shift(1)) | (pl.col("ms") - pl.col("ms").shift(1) > GAP_MS)
    return (
        rows.sort("key", "ms")
        .with_columns(session=is_new.fill_null(True).cum_sum())
        .group_by("session")
        .agg(
            pl.col("key").first(), start_ms=pl.col("ms").min(), end_ms=pl.col("ms").max(), clicks=pl.len(), **sums,
        )
        .drop("session")
    )  # fmt: skip


def windows(files: PeerFiles) -> None:
    """Grouped by key and start."""
    (
        pl.scan_parquet(files.stream)
        .group_by("key", start_ms=pl.col("ms") - pl.col("ms") % WINDOW_MS)
        .agg(clicks=pl.len(), total=pl.col("value").sum())
        .sink_parquet(files.target, compression="snappy")
    )


def first_clicks(files: PeerFiles) -> None:
    """Sorted by key and time, and each record compared with the one before."""
    is_first = (pl.col("key") != pl.col("key").shift(1)) | (pl.col("ms") - pl.col("ms").shift(1) > INTERVAL_MS)
    (
        pl.scan_parquet(files.stream)
        .select("key", "ms", "value")
        .sort("key", "ms")
        .filter(is_first.fill_null(True))
        .sink_parquet(files.target, compression="snappy")
    )


def joined_clicks(files: PeerFiles) -> None:
    """The newest row of the key that is not later, both sides sorted by time."""
    stream, table = (
        pl.scan_parquet(side).select("key", "ms", "value").sort("ms") for side in (files.stream, files.table)
    )
    (
        stream.join_asof(table.rename({"value": "user"}), on="ms", by="key", check_sortedness=False)
        .sink_parquet(files.target, compression="snappy")
    )  # fmt: skip


FORMS = {
    "W1": sessions, "W1u": sessions, "W2": windows, "W3": first_clicks, "W4": joined_clicks, "W10": event_sessions,
}  # fmt: skip

if __name__ == "__main__":
    run_forms(__doc__ or "", f"polars {pl.__version__}", FORMS, NOTES)
