"""What ``AsOf.sql`` takes: one query over the pipeline's tables.

Rule: Polars' SQL also has statements that are no queries, and functions that read files of the machine. Both are
refused by the words of the text before Polars sees it, since some of its functions read at once. They are also
refused by the plan that Polars makes, in case that it has another function that reads. A text that only names such a
function is refused too.
"""

import re

import polars as pl

from ...state.errors import ConfigError

QUERY = "a query over the pipeline's tables (SELECT …, or WITH … SELECT …)"
_BEGINS = re.compile(r"(?is)(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*(select|with|from|values)\b")
_READS = re.compile(
    r"(?i)\b((?:read|scan)_(?:csv|parquet|ipc|ipc_stream|json|ndjson|avro|delta|excel|iceberg|lines)\b)"
)
_SCANS = re.compile(r"^\s*(\w+ SCAN \[.*)", re.MULTILINE)
_NAME_MS = r"([\w.\"]*_ms\"?)"
_CASTS_MS = re.compile(
    rf"(?i)\bcast\s*\(\s*{_NAME_MS}\s+as\s+(?:datetime|timestamp)|{_NAME_MS}\s*::\s*(?:datetime|timestamp)"
)


def refuse_what_is_no_query(query: str, tables: str) -> None:
    """Raises ConfigError, which lists ``tables``, for another statement and for a function that reads files."""
    if _BEGINS.match(query) is None:
        first = query.split()[:1]
        raise ConfigError(
            "sql", QUERY, f"a statement {first[0].upper()}" if first else "nothing", f"tables are {tables}"
        )
    reads = _READS.search(query)
    if reads is not None:
        raise ConfigError("sql", QUERY, f"{reads[1]}, which reads files of this machine", f"tables are {tables}")


def refuse_what_reads_files(frame: pl.LazyFrame, tables: str) -> None:
    """Raises ConfigError for a plan that reads anything but tables that were registered."""
    scans = _SCANS.search(frame.explain(optimized=False))
    if scans is not None:
        raise ConfigError("sql", QUERY, f"a plan that reads files ({scans[1]})", f"tables are {tables}")


def time_hint(query: str) -> str | None:
    """What to write in the place of a cast of milliseconds to a datetime, which gives times of 1970; None: no such."""
    cast = _CASTS_MS.search(query)
    if cast is None:
        return None
    column = cast[1] or cast[2]
    return (
        f"{column} is in milliseconds, and a cast to a datetime takes microseconds, so its times are in 1970; "
        f"write CAST({column} * 1000 AS DATETIME)"
    )
