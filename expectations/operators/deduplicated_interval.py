"""G14: records that a deduplication keeps are further apart than its interval, and what it refuses has a kept one
(KIP-655).

Owns two counts, of the increment's own records, for deduplications by key. The records of the input are put into
order and judged again. Each record is compared with the newest kept record of its key that was not too old itself,
until stream time is more than the interval past that one. `too_close`: a kept record at most the interval from that
one. `refused`: a record that is not in the output though none is that close. A record without a key is always kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import polars as pl

from ...state.node_rows import NodeRows
from ...state.promises import Deduplicated, InputPromise
from ...state.tables.names import DEAD_LETTER, DROPPED
from ...state.times import END_OF_TIME_MS
from ..audits import Audit, Scope, Unchecked
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule
from ..second_run import judged_again
from .landed_inputs import KEY, PLACE, has_own_offsets, own_records, reached_before, records


def audit_deduplicated_interval(scope: Scope, node: str, promise: Deduplicated) -> Audit | Unchecked:
    """Frame: `rows` (of the increment's input), and `too_close` and `refused` ones."""
    if promise.given is not None and not promise.why_not:
        return _audit(scope, promise, promise.given)

    def again(seen: Scope, rows: NodeRows, inputs: tuple[InputPromise, ...], forwarded: str) -> Audit | Unchecked:
        if rows.several_of_one or rows.same_coordinates:
            return Unchecked("several of its records have the same topic and offset, by which it knows them again")
        return _audit(seen, replace(promise, table=forwarded), inputs[0])

    return judged_again(scope, node, promise.why_not, again)


def _audit(scope: Scope, promise: Deduplicated, given: InputPromise) -> Audit | Unchecked:
    if scope.planned.flushes or any(any(counts.values()) for counts in (scope.planned.recorded_to or {}).values()):
        return Unchecked("recorded times moved the stream time of the deduplication, which its input does not show")
    own = own_records(scope, given)
    if own.is_empty():
        return Audit.of(0, {"too_close": own, "refused": own})
    lowest = _lowest_ms(scope, promise, given, own)
    if has_own_offsets(scope, given, min(lowest, *own.select(pl.col("timestamp").min()).row(0))):
        return Unchecked("records were landed with offsets of their own, by which a deduplication knows them again")
    tape = _tape(scope, promise, given, own, lowest)
    entry_ms = pl.when(pl.col("is_kept") & (pl.col("timestamp") >= pl.col("_stream_time") - promise.interval_ms))
    with_kept_times = tape.with_columns(
        entry_ms.then(pl.col("timestamp")).shift(1).forward_fill().over(KEY).alias("kept_time_ms")
    )
    is_alive = pl.col("kept_time_ms") >= pl.col("_stream_time") - promise.interval_ms
    is_close = is_alive & ((pl.col("timestamp") - pl.col("kept_time_ms")).abs() <= promise.interval_ms)
    judged = with_kept_times.filter("is_own", pl.col("key").is_not_null()).with_columns(
        is_close.fill_null(False).alias("is_close")
    )
    broken = {
        "too_close": judged.filter("is_kept", "is_close"),
        "refused": judged.filter(~pl.col("is_kept"), ~pl.col("is_close")).join(_refusals(scope), on=PLACE, how="anti"),
    }
    shown = [*PLACE, "timestamp", "key", "kept_time_ms"]
    return Audit.of(own.height, {name: rows.select(shown) for name, rows in broken.items()})


def _lowest_ms(scope: Scope, promise: Deduplicated, given: InputPromise, own: pl.DataFrame) -> int:
    """The time from which on an earlier record may still count for own ones."""
    return min(reached_before(scope, given, _begins(own)), default=0) - promise.interval_ms


def _begins(own: pl.DataFrame) -> pl.DataFrame:
    return own.group_by("partition").agg(pl.col("offset").min().alias("_begin"))


def _tape(scope: Scope, promise: Deduplicated, given: InputPromise, own: pl.DataFrame, lowest_ms: int) -> pl.DataFrame:
    """Own records and those before them that may still count, in order: is_own, is_kept, and `_stream_time`."""
    earlier = records(scope, given, lowest_ms, END_OF_TIME_MS).join(_begins(own), on="partition", how="inner")
    earlier = earlier.filter(pl.col("offset") < pl.col("_begin")).drop("_begin")
    tape = pl.concat([earlier.with_columns(is_own=False), own.with_columns(is_own=True)]).sort(PLACE)
    kept = _kept(scope, promise, tape).with_columns(is_kept=True)
    with_kept = tape.join(kept, on=PLACE, how="left", maintain_order="left")
    return with_kept.with_columns(
        pl.col("is_kept").fill_null(False), pl.col("timestamp").cum_max().over("partition").alias("_stream_time")
    )


def _kept(scope: Scope, promise: Deduplicated, tape: pl.DataFrame) -> pl.DataFrame:
    """Places of records that are in the output; its newest files are read until they reach the first of them."""
    path = scope.tables.table(promise.table)
    first = dict(tape.group_by("partition").agg(pl.col("offset").min()).iter_rows())
    kept = [pl.DataFrame(schema={"partition": pl.Int32, "offset": pl.Int64})]
    for partition, low in first.items():
        mine = [file for file in scope.files(promise.table, path) if file.partition == partition and file.records]
        # Causes rise with the output's offsets, so the newest files have the last causes.
        for file in sorted(mine, key=lambda each: each.max_offset or 0, reverse=True):
            rows = scope.scan(path, [file], ["cause_offset"]).collect()
            kept.append(rows.select("partition", pl.col("cause_offset").alias("offset")))
            lowest = rows["cause_offset"].min()
            if isinstance(lowest, int) and lowest <= low:
                break
    return pl.concat(kept).unique()


def _refusals(scope: Scope) -> pl.DataFrame:
    """Places of records that never came to an operator: they were dropped, or cannot be decoded."""
    return pl.concat([scope.own_rows(str(table), ["offset"]).select(PLACE) for table in (DROPPED, DEAD_LETTER)])


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for who, promise in facts.promised(Deduplicated):
        yield promise.table, partial(audit_deduplicated_interval, node=who.node, promise=promise)


G14 = Guarantee(
    id="G14",
    sentence="Records that a deduplication keeps are further apart than its interval, and none else is refused.",
    kip="KIP-655",
    operator="deduplicate_by_key",
    check="kept_records_are_further_apart_than_the_interval",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule(
            "expect_kept_records_apart",
            "too_close",
            "No kept record is within the interval of the kept one before it, while that is not too old itself.",
        ),
        Rule(
            "expect_refused_records_to_have_a_kept_one", "refused", "Every refused record is within it of such a one."
        ),
    ),
    kafka="",
    evidence="records of the input, and which of them the output has",
    cost="the increment's records whole; of history the files with times within the interval of where it begins",
    questions=_questions,
)
