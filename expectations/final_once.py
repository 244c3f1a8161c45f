"""G1: one final result per key and window, over the whole output up to the increment (KIP-328).

Owns the count of repeated final results. Rule: a record of the increment is repeated when a record before it, in this
increment or any earlier one, has the same key and window; tombstones do not count. Every increment is checked once, so
each compares its own records only: with themselves, and with earlier ones that can have the same window.
"""

import polars as pl

from ..state.tables.data_files import DataFile
from ..state.tables.names import TableName
from .audits import Audit, Scope, witness_rows
from .facts import FinalOutput

IDENTITY = ["key", "window_start_ms", "window_end_ms"]
PLACE = ["increment", "partition", "offset"]
COLUMNS = [*IDENTITY, "offset", "increment", "cause_offset", "stream_time_ms"]


def audit_final_once(scope: Scope, output: FinalOutput) -> Audit:
    """Frame: one row with `finals` (of the increment) and `repeated` among them."""
    path = scope.tables.output(output.name)
    files = scope.files(TableName.output(output.name), path)
    own = finals_of(scope, path, files)
    if own.is_empty():
        return Audit(_frame(output, 0, 0), [])
    every = pl.concat([_earlier(scope, path, files, own), own])
    shared = every.filter(every.select(IDENTITY).is_duplicated()).sort(PLACE)
    first = {name: pl.col(name).first().over(IDENTITY).alias(f"first_{name}") for name in PLACE}
    repeated = (
        shared.with_columns(
            *first.values(),
            pl.int_range(pl.len()).over(IDENTITY).alias("_before"),
            (pl.col("window_end_ms") + output.wait_ms).alias("closed_at_ms"),
        )
        .filter(pl.col("increment") == scope.increment, pl.col("_before") > 0)
        .drop("_before")
    )
    return Audit(_frame(output, own.height, repeated.height), witness_rows(repeated), own.height)


def finals_of(scope: Scope, path: str, files: list[DataFile]) -> pl.DataFrame:
    """Records of the increment that are no tombstones: COLUMNS and `partition`."""
    number = scope.increment
    mine = [file for file in files if file.may_hold("increment", number, number)]
    if not mine:
        return pl.DataFrame(schema=[*COLUMNS, "partition"])
    return _finals(scope, path, mine).filter(pl.col("increment") == number).drop("value").collect()


def _earlier(scope: Scope, path: str, files: list[DataFile], own: pl.DataFrame) -> pl.DataFrame:
    """Earlier records with a key and window of ``own``; opens only files with windows that end where own ones do."""
    lowest, highest = own["window_end_ms"].min(), own["window_end_ms"].max()
    assert isinstance(lowest, int)
    assert isinstance(highest, int)
    old = [
        file
        for file in files
        if file.may_hold("increment", 0, scope.increment - 1) and file.may_hold("window_end_ms", lowest, highest)
    ]
    if not old:
        return own.clear()
    return (
        _finals(scope, path, old)
        .filter(pl.col("increment") < scope.increment, pl.col("window_end_ms").is_between(lowest, highest))
        .join(own.lazy().select(IDENTITY), on=IDENTITY, how="semi", nulls_equal=True)
        .drop("value")
        .collect()
    )


def _finals(scope: Scope, path: str, files: list[DataFile]) -> pl.LazyFrame:
    return scope.scan(path, files, [*COLUMNS, "value"]).filter(pl.col("value").is_not_null())


def _frame(output: FinalOutput, finals: int, repeated: int) -> pl.DataFrame:
    return pl.DataFrame({"output": [output.name], "finals": [finals], "repeated": [repeated]})
