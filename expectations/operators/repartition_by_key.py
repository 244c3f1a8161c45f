"""G10: a repartition table has every record once, in the partition of its key (BuiltInPartitioner.partitionForKey).

Owns three counts of the increment's own records. `misplaced`: the partition is not murmur2 of the serialized key,
modulo the number of partitions; a null key may lie in any, as Kafka's producer then takes any. `gaps`: offsets of a
partition that are missing, or there twice, from the last one of the increment before on. `repeated`: of steps that make
at most one record of one, a cause that has several. The hash is computed here, in NumPy, and not by the code that chose
the partition.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from ...state.promises import RepartitionPromise
from ..audits import Audit, Scope
from ..facts import Promised, ReplayFacts
from ..guarantee import About, Guarantee, Rule

CAUSE = ["cause_time_ms", "cause_sub", "cause_partition", "cause_offset", "cause_depth"]
_M, _MASK = 0x5BD1E995, 0xFFFFFFFF


def audit_repartition_by_key(scope: Scope, who: Promised, promise: RepartitionPromise) -> Audit:
    """Frame: `rows` (of the increment), and `misplaced`, `gaps` and `repeated` ones."""
    rows = scope.own_rows(promise.table, ["offset", "key", *CAUSE]).sort("partition", "offset")
    partitions = scope.done.partitions.get(str(who.sub_topology))
    misplaced = rows.clear()
    if promise.by_key and partitions and rows.height:
        wanted = pl.Series(partitions_of(rows["key"], partitions))
        misplaced = rows.with_columns(wanted.alias("belongs_in")).filter(
            pl.col("key").is_not_null(), pl.col("partition") != pl.col("belongs_in")
        )
    repeated = rows.clear()
    if promise.at_most_one and rows.height:
        # Below 0 the cause is a recorded time, which may send any number of records, or is unknown (a backfill).
        sent = rows.filter(pl.col("cause_offset") >= 0)
        repeated = sent.filter(sent.select(CAUSE).is_duplicated())
    return Audit.of(rows.height, {"misplaced": misplaced, "gaps": _gaps(scope, promise, rows), "repeated": repeated})


def _gaps(scope: Scope, promise: RepartitionPromise, rows: pl.DataFrame) -> pl.DataFrame:
    """Records that do not follow the one before them; before the first of the increment, by the bounds of files."""
    path, number = scope.tables.table(promise.table), scope.increment
    last: dict[int, int] = {}
    for file in scope.files(promise.table, path):
        lowest, highest = file.bounds.get("increment", (0, number))
        if highest < number and file.max_offset is not None:
            last[file.partition] = max(last.get(file.partition, -1), file.max_offset)
        elif lowest < number:  # merged with older ones, whose last offset the bounds do not tell
            last[file.partition] = -2
    before = pl.DataFrame(
        {"partition": list(last), "_last": list(last.values())}, {"partition": pl.Int32, "_last": pl.Int64}
    )
    followed = rows.join(before, on="partition", how="left").with_columns(
        pl.col("offset").shift(1).over("partition").fill_null(pl.col("_last").fill_null(-1)).alias("after_offset")
    )
    is_known = pl.col("after_offset") != -2
    return followed.filter(is_known, pl.col("offset") != pl.col("after_offset") + 1).drop("_last")


def partitions_of(keys: pl.Series, partitions: int) -> np.ndarray:
    """Partition of each serialized key by its hash, int32 in [0, partitions); 0 of a null key (Utils.murmur2)."""
    # keys of one length are hashed together
    numbers = np.zeros(len(keys), np.int32)
    lengths = keys.bin.size().fill_null(-1).to_numpy()
    for length in np.unique(lengths[lengths >= 0]):
        mine = np.flatnonzero(lengths == length)
        data = np.frombuffer(b"".join(keys.gather(mine).to_list()), np.uint8).reshape(len(mine), int(length))
        # Utils.toPositive clears the sign bit; an absolute value leads to other partitions.
        numbers[mine] = ((_murmur2(data) & 0x7FFFFFFF) % partitions).astype(np.int32)
    return numbers


def _murmur2(data: np.ndarray) -> np.ndarray:
    """32-bit MurmurHash2 with Kafka's seed of every row of bytes (Utils.murmur2)."""
    rows, length = data.shape
    hashed = np.full(rows, 0x9747B28C ^ length, np.uint64)
    words = data[:, : length // 4 * 4].astype(np.uint64).reshape(rows, -1, 4)
    for index in range(words.shape[1]):
        word = words[:, index]
        k = word[:, 0] | word[:, 1] << np.uint64(8) | word[:, 2] << np.uint64(16) | word[:, 3] << np.uint64(24)
        k = _times(k)
        k = _times(k ^ (k >> np.uint64(24)))
        hashed = _times(hashed) ^ k
    rest = length % 4
    if rest:
        for index in range(rest):
            hashed ^= data[:, length - rest + index].astype(np.uint64) << np.uint64(8 * index)
        hashed = _times(hashed)
    hashed = _times(hashed ^ (hashed >> np.uint64(13)))
    return hashed ^ (hashed >> np.uint64(15))


def _times(numbers: np.ndarray) -> np.ndarray:
    return (numbers * np.uint64(_M)) & np.uint64(_MASK)


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for who, promise in facts.promised(RepartitionPromise):
        yield promise.table, partial(audit_repartition_by_key, who=who, promise=promise)


G10 = Guarantee(
    id="G10",
    sentence="A repartition table has every record once, in the partition of its key.",
    kip="KIP-221",
    operator="repartition",
    check="repartitioned_records_lie_by_their_key_once",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule("expect_records_by_key", "misplaced", "Every record lies in the partition of its key's murmur2."),
        Rule("expect_offsets_without_gaps", "gaps", "Offsets of a partition follow one another without a hole."),
        Rule(
            "expect_causes_once",
            "repeated",
            "Where steps make at most one record of one, no record above caused more than one.",
        ),
    ),
    kafka="BuiltInPartitioner, RecordCollectorImpl",
    evidence="keys, offsets and causes of the repartition table",
    cost="the increment's rows whole: positions and keys; of history the bounds of files",
    questions=_questions,
)
