"""G1: one final result per key and window, over the whole output up to the increment (KIP-328).

Owns the count of repeated final results. Rule: a record of the increment is repeated when a record before it, in this
increment or any earlier one, has the same key and window; tombstones do not count. Every increment is checked once, so
each compares its own records only: with themselves, and with earlier ones that can have the same window.
"""

from collections.abc import Iterator
from functools import partial

import polars as pl

from ..state.tables.data_files import DataFile
from ..state.tables.names import TableName
from ..state.tables.warehouse import WINDOW_KEY
from .audits import Audit, Scope, witness_rows
from .facts import FinalOutput, ReplayFacts
from .guarantee import About, Guarantee, Rule

IDENTITY = [*WINDOW_KEY]
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
    frame = _frame(output, own.height, repeated.height)
    return Audit(frame, witness_rows(repeated), own.height, {"repeated": repeated})


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


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for output in facts.final_outputs:
        yield TableName.output(output.name), partial(audit_final_once, output=output)


G1 = Guarantee(
    id="G1",
    sentence="One final result per key and window.",
    kip="KIP-328",
    operator="suppress until the window closes",
    check="one_final_result_per_key_and_window",
    proof="tests/expectations/test_final_once.py",
    status="done",
    rules=(
        Rule(
            "expect_one_final_row_per_key_window",
            "repeated",
            "No final result has a key and window that an earlier one has.",
        ),
    ),
    kafka="KTableSuppressProcessorSupplier",
    evidence="rows of the output against all earlier ones of the same key and window",
    cost="the increment's rows whole, of history the files with windows that end where theirs do",
    questions=_questions,
)
