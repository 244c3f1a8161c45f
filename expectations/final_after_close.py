"""G2: no final result before its window closed (KIP-328).

Owns two counts. `early`: the record's own stream time is below ``window_end_ms + wait_ms``; equal is closed.
`unproven`: its stream time is above the highest record time landed for its task up to its cause, and above every
recorded time of the task. So no input explains that stream time. Rule: the evidence comes from the landed (or
repartition) table, and from that of recorded times as far as the plan takes them, never from the engine. Where a topic
has a timestamp extractor, its table does not have the times, nor has a repartition table those of a backfill, and
nothing is counted as unproven.
"""

from collections.abc import Iterator
from functools import partial

import polars as pl

from ..state.tables.data_files import DataFile
from ..state.tables.names import TableName
from .audits import Audit, Scope, recorded_times, witness_rows
from .facts import FinalOutput, ReplayFacts, SourceTopic
from .final_once import finals_of
from .guarantee import About, Guarantee, Rule


def audit_final_after_close(scope: Scope, output: FinalOutput) -> Audit:
    """Frame: one row with `finals` (of the increment), `early` and `unproven` among them."""
    path = scope.tables.output(output.name)
    own = finals_of(scope, path, scope.files(TableName.output(output.name), path))
    if own.is_empty():
        return Audit(_frame(output, 0, 0, 0), [])
    sources = scope.facts.sub_topology(output.sub_topology).sources
    is_of_range = scope.done.backfill is not None or scope.done.range_ms is not None
    has_evidence = pl.lit(
        all(source.has_own_times and not (is_of_range and source.kind == "repartition") for source in sources)
    )
    judged = (
        _with_recorded(scope, output, _with_evidence(scope, output, own))
        .with_columns((pl.col("window_end_ms") + output.wait_ms).alias("closed_at_ms"))
        .with_columns(
            (pl.col("stream_time_ms") < pl.col("closed_at_ms")).alias("is_early"),
            (has_evidence & (pl.col("stream_time_ms") > pl.col("highest_landed_ms")).fill_null(True)).alias(
                "is_unproven"
            ),
        )
    )
    against = judged.filter(pl.col("is_early") | pl.col("is_unproven")).sort("partition", "offset")
    frame = _frame(output, own.height, int(judged["is_early"].sum()), int(judged["is_unproven"].sum()))
    violations = {column: judged.filter(f"is_{column}") for column in ("early", "unproven")}
    return Audit(frame, witness_rows(against), own.height, violations)


def _with_evidence(scope: Scope, output: FinalOutput, own: pl.DataFrame) -> pl.DataFrame:
    """``own`` with `highest_landed_ms`: the highest record time of the task's input up to `cause_offset`.

    A task with several inputs: `cause_offset` does not say of which, so the bound is the highest time inside the cut.
    """
    sources = scope.facts.sub_topology(output.sub_topology).sources
    if len(sources) == 1:
        path, files = scope.source_files(sources[0])
        parts = own.partition_by("partition")
        return pl.concat([_with_running_highest(scope, path, files, part) for part in parts])
    highest = pl.concat([_highest_of_cut(scope, source) for source in sources])
    return own.join(highest.group_by("partition").max(), on="partition", how="left")


def _with_recorded(scope: Scope, output: FinalOutput, own: pl.DataFrame) -> pl.DataFrame:
    """``own`` with recorded times as evidence: of its partition, and of every one where a repartition lies between."""
    sources = scope.facts.sub_topology(output.sub_topology).sources
    times = recorded_times(scope)
    everywhere = times["time_ms"].max() if any(source.kind == "repartition" for source in sources) else None
    here = times.filter(pl.col("topic").is_in([source.topic for source in sources]))
    evidence = own.join(here.group_by("partition").agg(pl.col("time_ms").max()), on="partition", how="left")
    highest = pl.max_horizontal("highest_landed_ms", "time_ms", pl.lit(everywhere, pl.Int64))
    return evidence.select(*own.columns[:-1], highest.alias("highest_landed_ms"))


def _with_running_highest(scope: Scope, path: str, files: list[DataFile], part: pl.DataFrame) -> pl.DataFrame:
    """For records of one partition; files that end before the first cause give their highest time unopened."""
    partition = part["partition"][0]
    first, last = part["cause_offset"].min(), part["cause_offset"].max()
    assert isinstance(first, int)
    assert isinstance(last, int)
    landed = [file for file in files if file.partition == partition and (file.min_offset or 0) <= last]
    before, opened = _split_known(landed, first)
    tape = _tape(scope, path, opened).filter(pl.col("offset") <= last).sort("offset")
    running = tape.select(
        pl.col("offset").alias("landed_offset"),
        pl.max_horizontal(pl.col("timestamp").cum_max(), pl.lit(before, pl.Int64)).alias("highest_landed_ms"),
    )
    joined = part.sort("cause_offset").join_asof(
        running, left_on="cause_offset", right_on="landed_offset", strategy="backward"
    )
    return joined.select(*part.columns, pl.col("highest_landed_ms").fill_null(pl.lit(before, pl.Int64)))


def _highest_of_cut(scope: Scope, source: SourceTopic) -> pl.DataFrame:
    """Highest time of ``source`` by partition, over all records before the end of the increment's cut."""
    path, files = scope.source_files(source)
    ends = {p: end for p, (_, end) in scope.cut(source.topic).items()} if source.kind == "landed" else {}
    rows = []
    for partition in sorted({file.partition for file in files}):
        mine = [file for file in files if file.partition == partition]
        end = ends.get(partition, 1 + max(file.max_offset or 0 for file in mine))
        known, opened = _split_known([file for file in mine if (file.min_offset or 0) < end], end)
        read = _tape(scope, path, opened).filter(pl.col("offset") < end)["timestamp"].max()
        times = [time for time in (known, read) if isinstance(time, int)]
        rows.append((partition, max(times, default=None)))
    return pl.DataFrame(rows, {"partition": pl.Int32, "highest_landed_ms": pl.Int64}, orient="row")


def _split_known(files: list[DataFile], first: int) -> tuple[int | None, list[DataFile]]:
    """Highest time of the files that end before offset ``first``, by their bounds; and the files to open."""
    known = [f for f in files if f.max_offset is not None and f.max_offset < first and "timestamp" in f.bounds]
    opened = [file for file in files if file not in known and file.records != 0]
    return max((file.bounds["timestamp"][1] for file in known), default=None), opened


def _tape(scope: Scope, path: str, files: list[DataFile]) -> pl.DataFrame:
    if not files:
        return pl.DataFrame(schema={"offset": pl.Int64, "timestamp": pl.Int64})
    return scope.scan(path, files, ["offset", "timestamp"]).select("offset", "timestamp").collect()


def _frame(output: FinalOutput, finals: int, early: int, unproven: int) -> pl.DataFrame:
    return pl.DataFrame({"output": [output.name], "finals": [finals], "early": [early], "unproven": [unproven]})


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for output in facts.final_outputs:
        yield TableName.output(output.name), partial(audit_final_after_close, output=output)


G2 = Guarantee(
    id="G2",
    sentence="No final result before its window closed.",
    kip="KIP-328",
    operator="suppress until the window closes",
    check="no_final_result_before_its_window_closed",
    proof="tests/expectations/test_final_after_close.py",
    status="done",
    rules=(
        Rule(
            "expect_no_final_before_close",
            "early",
            "Every final result has stream_time_ms >= window_end_ms + wait (wait: grace; for sessions gap + grace).",
        ),
        Rule(
            "expect_stream_time_to_be_landed",
            "unproven",
            "No final result has a stream time above the highest landed record time up to its cause.",
        ),
    ),
    kafka="KTableSuppressProcessorSupplier",
    evidence="rows of the output against record times of the landed or repartition table, and recorded times",
    cost="the increment's rows whole, of history the bounds of files",
    questions=_questions,
)
