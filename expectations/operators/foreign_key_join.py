"""G16: a join of tables by foreign key is, when an increment ends, the join of both tables as they are then (KIP-213).

Owns one count. The newest record of every left key, and of the right key that it names, is read from the landed (or
repartition) tables, and both are joined again. The newest row of the output under that left key is `different` if it is
not this result. Of more than 10,000 left keys a sample is judged, whose seed the verdict has. A foreign key is looked
for in the partition of its hash alone: where the right table's records lie elsewhere, Kafka's join does not find them,
and nothing is judged.
"""

import zlib
from collections.abc import Iterator
from functools import partial

import polars as pl

from ...state.promises import InputPromise, JoinedByForeignKey
from ...state.tables.names import DEAD_LETTER, TableName
from ..audits import Audit, Scope, Unchecked, with_key_apart
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule
from .landed_inputs import newest_values
from .repartition_by_key import partitions_of

KEYS_MAX = 10_000


def audit_foreign_key_join(scope: Scope, facts: ReplayFacts, promise: JoinedByForeignKey) -> Audit | Unchecked:
    """Frame: `rows` (left keys that were judged), `unread` ones, `seed`, and `different` ones."""
    if promise.left is None or promise.right is None or promise.why_not:
        return Unchecked(promise.why_not)
    if scope.done.kind is not None:
        return Unchecked("the increment restates what others wrote, and did not join what there is")
    assert promise.keys is not None
    assert promise.foreign_keys is not None
    assert promise.joined is not None
    # Of names and numbers alone, so that whoever checks the increment again judges the same keys.
    seed = zlib.crc32(f"{scope.tables.name}/{promise.table}/{scope.increment}".encode())
    left, unread = _some(_newest(scope, promise.left), seed)
    if left.is_empty():
        return Audit.of(0, {"different": left}, unread=unread, seed=seed)
    keys, values = (left[name].rechunk().to_arrow().cast("binary") for name in ("key", "value"))
    foreign = left.with_columns(pl.Series("foreign_key", promise.foreign_keys(keys, values), pl.Binary))
    right = _newest(scope, promise.right, foreign["foreign_key"].drop_nulls().unique())
    if not _lie_by_their_hashes(scope, facts, promise.right, right):
        return Unchecked(
            "records of the right table do not lie in the partitions of their keys, where they are asked for"
        )
    sent = pl.when(pl.col("value").bin.size() > 0).then(pl.col("value"))  # Kafka sends a value of no bytes as null
    both = foreign.join(
        right.select(pl.col("key").alias("foreign_key"), sent.alias("right")),
        on="foreign_key", how="left", maintain_order="left",
    )  # fmt: skip
    is_joined = pl.col("value").is_not_null() & (pl.lit(promise.is_left) | pl.col("right").is_not_null())
    joined = pl.Series("joined", promise.joined(keys, values, both["right"].rechunk().to_arrow().cast("binary")))
    named = with_key_apart(pl.Series("key", promise.keys(keys)).to_frame())
    wanted = both.select(named["key"], pl.col("foreign_key"), pl.when(is_joined).then(joined).alias("want"))
    got = _rows(scope, promise.table, wanted)
    compared = wanted.join(got, on="key", how="left", nulls_equal=True)
    return Audit.of(
        wanted.height,
        {"different": compared.filter(pl.col("want").ne_missing(pl.col("got")))},
        unread=unread,
        seed=seed,
    )


def _newest(scope: Scope, given: InputPromise, keys: pl.Series | None = None) -> pl.DataFrame:
    """Newest record of each key, of ``keys`` alone: `key` and `value`; a record that cannot be decoded is none."""
    topic = TableName(given.table).name
    path = scope.tables.table(DEAD_LETTER)
    files = [file for file in scope.files(str(DEAD_LETTER), path) if file.records]
    dead = scope.scan(path, files, ["topic", "offset"]).filter(pl.col("topic") == topic).collect() if files else None
    return newest_values(scope, given, keys, dead)


def _lie_by_their_hashes(scope: Scope, facts: ReplayFacts, given: InputPromise, rows: pl.DataFrame) -> bool:
    """Whether each of ``rows`` of a table lies in the partition to which its key's hash leads a subscription."""
    topic = TableName(given.table).name
    reads = [each.id for each in facts.sub_topologies if topic in {source.topic for source in each.sources}]
    partitions = max((scope.done.partitions.get(str(number), 0) for number in reads), default=0)
    return partitions > 0 and bool((rows["partition"] == pl.Series(partitions_of(rows["key"], partitions))).all())


def _some(rows: pl.DataFrame, seed: int) -> tuple[pl.DataFrame, int]:
    if rows.height <= KEYS_MAX:
        return rows, 0
    return rows.sample(KEYS_MAX, seed=seed), rows.height - KEYS_MAX


def _rows(scope: Scope, table: str, wanted: pl.DataFrame) -> pl.DataFrame:
    """Newest row of the output under each wanted key: `key` and `got`; a tombstone is null."""
    path = scope.tables.table(table)
    files = [file for file in scope.files(table, path) if file.records]
    if not files:
        return pl.DataFrame(schema={"key": wanted.schema["key"], "got": wanted.schema["want"]})
    rows = (
        scope.scan(path, files, ["key", "value", "offset"])
        .filter(pl.col("key").is_in(wanted["key"].implode()))
        .collect()
    )
    # Rows of a left key are all in one partition, so their offsets can be compared.
    return rows.sort("offset").unique("key", keep="last").select("key", pl.col("value").alias("got"))


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for _, promise in facts.promised(JoinedByForeignKey):
        yield promise.table, partial(audit_foreign_key_join, facts=facts, promise=promise)


G16 = Guarantee(
    id="G16",
    sentence="A join by foreign key is the join of both tables as they are when the increment ends.",
    kip="KIP-213",
    operator="table-table join by foreign key",
    check="foreign_key_joins_are_those_of_both_tables",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule("expect_rows_of_both_tables", "different", "The newest row of a left key is its join, or there is none."),
    ),
    kafka="SubscriptionSendProcessorSupplier, ResponseJoinProcessorSupplier",
    evidence="newest rows of the output against the newest records of both inputs, joined again",
    cost="keys of both inputs and the output whole; at most 10,000 left keys, a sample whose seed is kept, are joined",
    by_steps=True,
    questions=_questions,
)
