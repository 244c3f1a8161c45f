"""G8: recorded times and stream times never go back (Kafka's stream time, PartitionGroup.streamTime).

Owns two counts. `recorded_back`: a recorded time of a partition that the increment took is below one that was recorded
before it, or is before a record of an earlier place. `stream_back`: a task's stream time, as the ledger has it, is
below that of the increment before.
"""

from collections.abc import Iterator

import polars as pl

from ...state.tables.data_files import read_files
from ...state.tables.names import LEDGER
from ..audits import Audit, Scope
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule

_TASK = {"task": pl.String, "was_ms": pl.Int64, "is_ms": pl.Int64}


def audit_stream_time_rises(scope: Scope) -> Audit:
    """Frame: `rows` (tasks and recorded times that were compared), and those that went back."""
    tasks = _tasks(scope)
    times, compared = _recorded(scope)
    stream_back = tasks.filter(pl.col("is_ms") < pl.col("was_ms"))
    return Audit.of(tasks.height + compared, {"recorded_back": times, "stream_back": stream_back})


def _tasks(scope: Scope) -> pl.DataFrame:
    """A restatement goes back on purpose, so nothing is compared across it."""
    before = scope.ledger.done_before(scope.increment)
    if scope.done.kind is not None or before is None or before.content.kind is not None:
        return pl.DataFrame(schema=_TASK)
    was = before.content.tasks
    rows = [
        (task, was[task].stream_time_ms, entry.stream_time_ms)
        for task, entry in scope.done.tasks.items()
        if task in was
    ]
    return pl.DataFrame(rows, _TASK, orient="row")


def _recorded(scope: Scope) -> tuple[pl.DataFrame, int]:
    """Recorded times of the increment that are below one before them, and how many there are."""
    falling = [pl.DataFrame(schema={"topic": pl.String, "partition": pl.Int32, "before_offset": pl.Int64,
                                  "time_ms": pl.Int64, "earlier_ms": pl.Int64})]  # fmt: skip
    compared = 0
    for topic, counts in (scope.planned.recorded_to or {}).items():
        taken = (scope.planned.recorded_from or {}).get(topic, {})
        if all(taken.get(partition, 0) == count for partition, count in counts.items()):
            continue
        path = scope.warehouse.recorded_time(topic)
        files = read_files(path)
        rows = scope.scan(path, files, ["before_offset", "time_ms", "increment"]).collect()
        for partition, count in counts.items():
            # Plans count recorded times in the order of their booking; those behind the count are of later increments.
            mine = rows.filter(pl.col("partition") == int(partition)).sort("increment").head(count)
            # Shifted before the slice, so that the first of this increment is compared with the last one before it.
            ranked = mine.with_columns(
                pl.lit(topic).alias("topic"),
                pl.col("time_ms").shift(1).alias("earlier_ms"),
                pl.col("before_offset").shift(1).alias("_offset"),
            ).slice(taken.get(partition, 0))
            compared += ranked.height
            back = (pl.col("time_ms") < pl.col("earlier_ms")) | (pl.col("before_offset") < pl.col("_offset"))
            falling.append(ranked.filter(back).select(falling[0].columns))
    return pl.concat(falling), compared


def _questions(_: ReplayFacts) -> Iterator[About]:
    yield LEDGER, audit_stream_time_rises


G8 = Guarantee(
    id="G8",
    sentence="Recorded times and stream times never go back.",
    kip="",
    operator="all",
    check="stream_time_never_goes_back",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule("expect_recorded_times_to_rise", "recorded_back", "No recorded time is below an earlier one."),
        Rule("expect_stream_times_to_rise", "stream_back", "No task's stream time is below its earlier one."),
    ),
    kafka="PartitionGroup",
    evidence="recorded times against those before them, stream times in the ledger against the increment before",
    cost="two rows of the ledger; recorded times of topics of which the increment took some",
    by_settings=False,
    questions=_questions,
)
