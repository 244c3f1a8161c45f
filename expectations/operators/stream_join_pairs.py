"""G13: a join of two streams gives pairs within the window, records alone that have no partner, and nothing twice
(KIP-633).

Owns one count. A row of the output names its cause (partition, offset) and a time, which is that of the later record of
a pair. The pairs that can be behind it are recomputed from both inputs. A pair is the record at that position, on
either side, and a record of the other side with the same key. The later of both has that time, and the right one is
in ``[left - before, left + after]``, both ends included. `outside`: rows of one cause and time beyond the pairs that
there are and, where a side is outer, the records of that time that match none of earlier increments. Records are not
identified by value, since a joiner may make anything of them.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import polars as pl

from ...state.node_rows import NodeRows
from ...state.promises import InputPromise, JoinedStreams
from ..audits import Audit, Scope, Unchecked
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule
from ..second_run import judged_again
from .landed_inputs import SCHEMA, at_offsets, begin_of, records, without_refused

GROUP = ["partition", "cause_offset", "record_time_ms"]
TIME = ["partition", "record_time_ms"]
RECORD = ["partition", "key"]


def audit_stream_join_pairs(scope: Scope, node: str, promise: JoinedStreams) -> Audit | Unchecked:
    """Frame: `rows` (of the increment) and those `outside` what can be joined."""
    if promise.left is not None and promise.right is not None and not promise.why_not:
        return _audit(scope, promise, (promise.left, promise.right))

    def again(seen: Scope, rows: NodeRows, inputs: tuple[InputPromise, ...], forwarded: str) -> Audit | Unchecked:
        if rows.several_of_one and promise.kind != "inner":
            return Unchecked("several of its records are of one, and which of them are alone is not known")
        left, right = inputs
        return _audit(seen, replace(promise, table=forwarded), (left, right))

    return judged_again(scope, node, promise.why_not, again)


def _audit(scope: Scope, promise: JoinedStreams, inputs: tuple[InputPromise, InputPromise]) -> Audit:
    rows = scope.own_rows(promise.table, ["offset", *GROUP[1:], "key"])
    if rows.is_empty():
        return Audit.of(0, {"outside": rows})
    lowest, highest = rows["record_time_ms"].min(), rows["record_time_ms"].max()
    assert isinstance(lowest, int)
    assert isinstance(highest, int)
    reach = max(promise.before_ms, promise.after_ms, promise.before_ms + promise.after_ms)
    sides = [records(scope, each, lowest - reach, highest + reach) for each in inputs]
    left, right = (side.filter(pl.col("key").is_not_null()) for side in sides)
    pairs = pl.concat([
        _pairs(scope, inputs[0], rows, right, promise.before_ms, promise.after_ms),
        _pairs(scope, inputs[1], rows, left, promise.after_ms, promise.before_ms),
    ])  # fmt: skip
    alone = _alone(scope, promise, rows, inputs, (left, right))
    can_be = rows.group_by(GROUP).len("rows").join(pairs.group_by(GROUP).len("pairs"), on=GROUP, how="left")
    beyond = can_be.with_columns(
        (pl.col("rows").cast(pl.Int64) - pl.col("pairs").cast(pl.Int64).fill_null(0)).alias("beyond")
    ).filter(pl.col("beyond") > 0)
    wanted = beyond.group_by(TIME).agg(pl.col("beyond").sum())
    short = wanted.join(alone.group_by(TIME).len("alone"), on=TIME, how="left").filter(
        pl.col("beyond") > pl.col("alone").cast(pl.Int64).fill_null(0)
    )
    outside = rows.join(beyond.select(GROUP), on=GROUP, how="semi").join(short.select(TIME), on=TIME, how="semi")
    return Audit.of(rows.height, {"outside": outside})


def _pairs(
    scope: Scope, given: InputPromise, rows: pl.DataFrame, others: pl.DataFrame, back: int, ahead: int
) -> pl.DataFrame:
    """GROUP of every pair of a cause, as a record of this side, with a record of the other one."""
    offsets = rows.select("partition", pl.col("cause_offset").alias("offset")).unique()
    causes = at_offsets(scope, given, offsets).filter(pl.col("key").is_not_null())
    partnered = _with_partners(causes, others, back, ahead, earliest=0)
    later = pl.max_horizontal("timestamp", "timestamp_right")
    return partnered.select("partition", pl.col("offset").alias("cause_offset"), later.alias("record_time_ms"))


def _with_partners(
    side: pl.DataFrame, others: pl.DataFrame, back: int, ahead: int, earliest: int | None = None
) -> pl.DataFrame:
    """Pairs of records of one key, of which the other one is in ``[time - back, time + ahead]``. ``earliest``: Kafka
    takes this for an end before it, as where ``ahead`` is below 0.
    """
    end = pl.max_horizontal(pl.col("timestamp") + ahead, pl.lit(earliest, pl.Int64))
    span = pl.col("timestamp_right").is_between(pl.col("timestamp") - back, end)
    return side.join(others, on=RECORD, how="inner").filter(span)


def _alone(
    scope: Scope,
    promise: JoinedStreams,
    rows: pl.DataFrame,
    inputs: tuple[InputPromise, InputPromise],
    records_of: tuple[pl.DataFrame, pl.DataFrame],
) -> pl.DataFrame:
    """TIME of records of an outer side that may be forwarded alone: they match none of an earlier increment, or are
    the cause themselves, as one that comes when its window has closed. A record with a partner of its time or before
    is not among them, since that would be a pair of this cause and time.
    """
    offsets = rows.select("partition", pl.col("cause_offset").alias("offset")).unique()
    alone = [pl.DataFrame(schema={"partition": pl.Int32, "record_time_ms": pl.Int64})]
    (left, right), (of_left, of_right) = inputs, records_of
    sides = [
        (left, of_left, right, of_right, promise.before_ms, promise.after_ms),
        (right, of_right, left, of_left, promise.after_ms, promise.before_ms),
    ]
    for given, side, beside, others, back, ahead in sides[: {"inner": 0, "left": 1, "outer": 2}[promise.kind]]:
        begins = begin_of(scope, beside)
        before = others.join(begins, on="partition", how="left").filter(
            pl.col("offset") < pl.col("_begin").fill_null(0)
        )
        before = without_refused(scope, beside, before.drop("_begin"))
        partnered = side.clear() if promise.emits_at_once else _with_partners(side, before, back, ahead)
        causes = at_offsets(scope, given, offsets)
        with_partner = _with_partners(causes, others, back, min(ahead, 0)).select("partition", "offset").unique()
        causes = causes.join(with_partner, on=["partition", "offset"], how="anti")
        free = side.join(partnered.select("partition", "offset").unique(), on=["partition", "offset"], how="anti")
        both = pl.concat([free.select(*SCHEMA), causes.select(*SCHEMA)]).unique(["partition", "offset"])
        alone.append(both.select("partition", pl.col("timestamp").alias("record_time_ms")))
    return pl.concat(alone)


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for who, promise in facts.promised(JoinedStreams):
        yield promise.table, partial(audit_stream_join_pairs, node=who.node, promise=promise)


G13 = Guarantee(
    id="G13",
    sentence="A join of streams gives pairs within its window, and alone only what has no partner, once.",
    kip="KIP-633",
    operator="stream-stream join",
    check="joined_streams_are_pairs_within_the_window",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule(
            "expect_pairs_within_the_window",
            "outside",
            "No more rows of a cause and time than pairs of its record in the window, and records without a match.",
        ),
    ),
    kafka="KStreamKStreamJoin",
    evidence="causes and times of the output against both inputs, joined again",
    cost="the increment's rows whole, and of both inputs the files with times within the window of theirs",
    questions=_questions,
)
