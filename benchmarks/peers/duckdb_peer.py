"""DuckDB's nearest relational forms: a ceiling, for they keep neither order nor lateness nor state.

``python -m kstreams_replay.benchmarks.peers.duckdb_peer --workload W1 --folder DIR [--runs 3] [--records N]``
"""

from collections.abc import Callable

import duckdb

from .. import THREADS
from ..workloads import GAP_MS, INTERVAL_MS, WINDOW_MS
from .relational import PeerFiles, run_forms

SESSIONS = f"""
    SELECT key, min(ms) AS start_ms, max(ms) AS end_ms, count(*) AS clicks, sum(value)::BIGINT AS total
    FROM (
        SELECT key, ms, value, sum(is_new) OVER (PARTITION BY key ORDER BY ms ROWS UNBOUNDED PRECEDING) AS session
        FROM (
            SELECT key, ms, value,
                CASE WHEN ms - lag(ms) OVER (PARTITION BY key ORDER BY ms) <= {GAP_MS} THEN 0 ELSE 1 END AS is_new
            FROM stream
        )
    )
    GROUP BY key, session
"""
WINDOWS = f"""
    SELECT key, ms - ms % {WINDOW_MS} AS start_ms, count(*) AS clicks, sum(value)::BIGINT AS total
    FROM stream GROUP BY ALL
"""
FIRST_CLICKS = f"""
    SELECT key, ms, value
    FROM (SELECT key, ms, value, lag(ms) OVER (PARTITION BY key ORDER BY ms) AS before_ms FROM stream)
    WHERE before_ms IS NULL OR ms - before_ms > {INTERVAL_MS}
"""
JOINED_CLICKS = """
    SELECT stream.key, stream.ms, stream.value, rows.value AS user
    FROM stream ASOF LEFT JOIN rows ON stream.key = rows.key AND stream.ms >= rows.ms
"""
NOTES = {"W3": "compares with the record before, kept or not, in order of time"}


def form(query: str) -> Callable[[PeerFiles], None]:
    """``query`` over the views ``stream`` and ``rows`` (of the table), in a database of its own, to a file."""

    def run(files: PeerFiles) -> None:
        with duckdb.connect(config={"threads": THREADS}) as database:
            for view, paths in (("stream", files.stream), ("rows", files.table)):
                if paths:
                    database.execute(f"CREATE VIEW {view} AS SELECT key, ms, value FROM read_parquet({paths!r})")
            database.execute(f"COPY ({query}) TO '{files.target}' (FORMAT parquet, COMPRESSION snappy)")

    return run


FORMS = {
    "W1": form(SESSIONS),
    "W1u": form(SESSIONS),
    "W2": form(WINDOWS),
    "W3": form(FIRST_CLICKS),
    "W4": form(JOINED_CLICKS),
}

if __name__ == "__main__":
    run_forms(__doc__ or "", f"duckdb {duckdb.__version__}", FORMS, NOTES)
