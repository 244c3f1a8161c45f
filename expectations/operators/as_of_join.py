"""G15: a join with a versioned table gives every record the newest version not after its time (KIP-914).

Owns three counts, of the increment's own records. The versions are those of the table's landed (or repartition) table,
and their values are joined again. Two kinds of versions were surely in the table when a record came. An earlier
increment read them, or they came before their partition had passed the record's time, because topics are merged by
time. Any other version may have been there or not. `wrong`: a row that no possible version gives; `missing`: a record
without a row, though every possible version would have made one; `twice`: rows of one record beyond the first.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import polars as pl

from ...state.node_rows import NodeRows
from ...state.promises import InputPromise, JoinedAsOf
from ...state.tables.names import DEAD_LETTER, DROPPED, TableName
from ...state.times import END_OF_TIME_MS, NO_TIMESTAMP_MS
from ..audits import Audit, Scope, Unchecked
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule
from ..second_run import judged_again
from .landed_inputs import KEY, PLACE, begin_of, has_arrivals, own_records, records


def audit_as_of_join(scope: Scope, node: str, promise: JoinedAsOf) -> Audit | Unchecked:
    """Frame: `rows` (of the increment), and `wrong`, `missing` and `twice` ones."""
    if promise.left is not None and promise.right is not None and not promise.why_not:
        return _audit(scope, promise, (promise.left, promise.right))
    if not promise.table_node:
        return Unchecked(promise.why_not)

    def again(seen: Scope, rows: NodeRows, inputs: tuple[InputPromise, ...], forwarded: str) -> Audit | Unchecked:
        if rows.several_of_one:
            return Unchecked("several of its records are of one, and which of them a row is of is not known")
        left, right = inputs
        return _audit(seen, replace(promise, table=forwarded), (left, right), is_in_order=True)

    return judged_again(scope, node, promise.why_not, again, promise.table_node)


def _audit(
    scope: Scope, promise: JoinedAsOf, inputs: tuple[InputPromise, InputPromise], *, is_in_order: bool = False
) -> Audit:
    """``is_in_order``: offsets of both inputs are numbers of one tape."""
    left, right = inputs
    rows = scope.own_rows(promise.table, ["offset", "cause_offset", "value"])
    came = _came(scope, promise, left)
    if rows.is_empty() and came.is_empty():
        return Audit.of(0, {"wrong": rows, "missing": came, "twice": rows})
    got = rows.select("partition", pl.col("cause_offset").alias("offset"), pl.col("value").alias("got"))
    can_be = _with_values(promise, _can_be(scope, promise, right, came, is_in_order=is_in_order))
    wanted = can_be.filter("makes_a_row").join(got.unique(PLACE, keep="first"), on=PLACE, how="inner")
    possible = wanted.filter(pl.col("got").eq_missing(pl.col("joined"))).select(PLACE).unique()
    needs_none = can_be.filter(~pl.col("makes_a_row")).select(PLACE)
    shown = [*PLACE, "timestamp", "key"]
    first = pl.int_range(pl.len()).over("partition", "cause_offset") == 0
    return Audit.of(
        came.height,
        {
            "wrong": got.join(possible, on=PLACE, how="anti").join(came.select(shown), on=PLACE, how="left"),
            "missing": came.select(shown).join(needs_none, on=PLACE, how="anti").join(got, on=PLACE, how="anti"),
            "twice": rows.filter(~first).select("partition", "offset", "cause_offset"),
        },
    )


def _came(scope: Scope, promise: JoinedAsOf, left: InputPromise) -> pl.DataFrame:
    """Own records that the join took, with `value`."""
    # KStreamKTableJoinProcessor drops a null value, and a null key unless the join is a left one (KIP-962).
    own = own_records(scope, left, "value").filter(pl.col("value").is_not_null())
    own = own if promise.is_left else own.filter(pl.col("key").is_not_null())
    topic = TableName(left.table).name
    for table in (DROPPED, DEAD_LETTER):
        refused = scope.own_rows(str(table), ["topic", "offset"])
        if refused.height:
            own = own.join(refused.filter(pl.col("topic") == topic), on=PLACE, how="anti")
    return own


def _can_be(
    scope: Scope, promise: JoinedAsOf, right: InputPromise, came: pl.DataFrame, *, is_in_order: bool
) -> pl.DataFrame:
    """Of each of ``came`` the values that the table can have shown it, `version`; null where there was none."""
    tape = records(scope, right, NO_TIMESTAMP_MS, END_OF_TIME_MS, "value")
    reached = pl.col("timestamp").cum_max().over("partition")
    begins = begin_of(scope, right)
    versions = (
        tape.with_columns(
            reached.alias("_reached"),
            pl.col("timestamp").max().over("partition").alias("_end"),
            # RocksDBVersionedStore.put ignores a record that is older than the history retention.
            (pl.col("timestamp") < reached - promise.history_ms).alias("_is_refused"),
        )
        .join(begins, on="partition", how="left")
        .select(
            *KEY, "_reached", "_end", "_is_refused",
            pl.col("offset").alias("_offset"),
            pl.col("timestamp").alias("valid_from_ms"),
            pl.col("value").alias("version"),
            (pl.col("offset") < pl.col("_begin")).fill_null(False).alias("_was_there"),
        )
    )  # fmt: skip
    is_sure = pl.lit(not has_arrivals(scope, right)) & ~pl.col("_is_refused")
    came_before = pl.col("_offset") < pl.col("offset") if is_in_order else pl.col("_reached") < pl.col("timestamp")
    is_sure &= pl.col("_was_there") | came_before
    pairs = came.join(versions, on=KEY, how="inner").filter(pl.col("valid_from_ms") <= pl.col("timestamp"))
    pairs = pairs.filter(pl.lit(not is_in_order) | (pl.col("_offset") <= pl.col("offset")))
    pairs = pairs.with_columns(is_sure.alias("_is_sure"))
    newest = pl.col("valid_from_ms").filter("_is_sure").max().over(PLACE)
    last = pl.col("_offset").filter(pl.col("_is_sure") & (pl.col("valid_from_ms") == newest)).max().over(PLACE)
    pairs = pairs.with_columns(last.alias("_last"), newest.alias("_newest"))
    shown = pairs.filter(
        pl.col("_last").is_null()
        | (pl.col("_offset") == pl.col("_last"))
        | (~pl.col("_is_sure") & (pl.col("valid_from_ms") >= pl.col("_newest")))
    )
    # Behind the history retention the store returns null (RocksDBVersionedStore.get), whatever it had.
    is_known = pl.col("_last").is_not_null() & (pl.col("timestamp") >= pl.col("_end") - promise.history_ms)
    known = shown.filter(is_known).select(PLACE).unique()
    nothing = came.join(known, on=PLACE, how="anti").with_columns(pl.lit(None, pl.Binary).alias("version"))
    return pl.concat([shown.select(*came.columns, "version"), nothing])


def _with_values(promise: JoinedAsOf, can_be: pl.DataFrame) -> pl.DataFrame:
    """With `joined`, the value that there would be, and whether it `makes_a_row`."""
    assert promise.joined is not None
    columns = (can_be[name].rechunk().to_arrow().cast("binary") for name in ("key", "value", "version"))
    joined = pl.Series("joined", promise.joined(*columns))
    return can_be.with_columns(joined, (pl.lit(promise.is_left) | pl.col("version").is_not_null()).alias("makes_a_row"))


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for who, promise in facts.promised(JoinedAsOf):
        yield promise.table, partial(audit_as_of_join, node=who.node, promise=promise)


G15 = Guarantee(
    id="G15",
    sentence="A join with a versioned table gives the newest version not after the record's time.",
    kip="KIP-914",
    operator="stream-table join with a versioned table",
    check="records_are_joined_as_of_their_times",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule("expect_versions_as_of_times", "wrong", "Every row is the record joined with the version as of its time."),
        Rule("expect_records_to_be_joined", "missing", "Every record with a version, or of a left join, has a row."),
        Rule("expect_records_joined_once", "twice", "No record has a second row."),
    ),
    kafka="KStreamKTableJoin, RocksDBVersionedStore",
    evidence="rows of the output against both inputs, joined again",
    cost="the increment's records whole, and the table's input whole",
    by_steps=True,
    questions=_questions,
)
