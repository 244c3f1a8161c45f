"""Rows that a restart let in: a record was late by the task's stream time, and early by one that began again at -1.

Owns the evidence, and the places of restarts. Rules: a row of production that we do not have is of a refused record
when both have the key and the window (where there is none, the time). A session has the record's time within it, and so
has a sliding window, or it begins right behind the record. Where keys change on the way to the output, the time alone
is compared. The row's time is not before the record's; where it is later, the row is no copy of another.

The row has to be where the record was processed: behind rows that earlier records caused and before those of later
ones. A result that leaves when its window closes may come later. A restart is behind the last record that closes the
window, and no later than the refused one; the fewest places that are within all these spans are the restarts. A crash
goes back to such a place, too. Then rows of later records may be before, and rows that repeat earlier ones are around,
none of a key and window whose last record is before the place.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from ...state.distinct_numbers import are_among
from ...state.times import UNBOUNDED
from .alignment import RowVerdict
from .case import Case, Cause
from .crashes import ExplainedRows
from .late_records import SCHEMA, LateRecords

LIKE_NONE = (RowVerdict.EXTRA, RowVerdict.OTHER_VALUE, RowVerdict.OTHER_TIME)
"""Rows of production that are like none of ours; a partner differs, and may be another row's that is missing."""


@dataclass(frozen=True)
class Restart:
    """A restart of production, as a ``partition`` of ``topic`` has it: behind the record at ``after`` (-1: not known)
    and no later than before the one at ``before``. ``records``: late ones that it let in, 0 where a trial found it by
    other rows (jobs/compare/tried_restarts.py).
    """

    topic: str
    partition: int
    after: int
    before: int
    records: int

    @property
    def place(self) -> str:
        """PARTITION:OFFSET of the first record that was taken after it, as far as is known."""
        return f"{self.partition}:{self.before}"

    @property
    def record(self) -> str:
        """That record, as TOPIC:PARTITION:OFFSET."""
        return f"{self.topic}:{self.place}"

    def to_json(self) -> dict[str, Any]:
        """With its place."""
        return {**asdict(self), "place": self.place}

    def has(self, other: "Restart") -> bool:
        """Whether ``other`` may be the same one."""
        is_here = (self.topic, self.partition) == (other.topic, other.partition)
        return is_here and self.after < other.before <= self.before


@dataclass(frozen=True, eq=False)
class LetIn:
    """Refusals of which production has rows, and the restarts; ``restart``: of each refusal, its number.
    ``candidates``: rows that may be of a refusal, by their key and window.
    """

    late: LateRecords
    restarts: tuple[Restart, ...]
    restart: np.ndarray
    candidates: np.ndarray

    @classmethod
    def nothing(cls, case: Case) -> "LetIn":
        """Of a case without differences."""
        none = np.zeros(0, np.int64)
        return cls(LateRecords(case, SCHEMA.empty_table()), (), none, none)


def explain_restarts(
    case: Case, late: LateRecords, settled: ExplainedRows, twins: np.ndarray, repeated: np.ndarray
) -> LetIn:
    """Give RESTART to the rows for which there is evidence, and CRASH to those that may repeat an earlier one, too.
    ``settled``: of which partitions more is known; ``twins``, ``repeated``: by row of production an earlier one that is
    the same, or that it may repeat; -1 for none.
    """
    rows = case.unexplained(*LIKE_NONE)
    rows = rows[~np.isin(case.theirs.partition[rows], settled.partitions)]
    pairs = _pairs(case, late, rows) if len(late) and len(rows) else pl.DataFrame()
    candidates = refusals = np.zeros(0, np.int64)
    rows = np.zeros(0, np.int64)
    if not pairs.is_empty():
        candidates = pairs["row"].unique().to_numpy()
        rows, refusals = _chosen(case, late, pairs, twins, repeated)
        case.give(rows[_is_in_doubt(case, rows, candidates, repeated)], Cause.CRASH)
    known = np.flatnonzero(settled.let_in >= 0)
    rows, refusals = np.concatenate([rows, known]), np.concatenate([refusals, settled.let_in[known]])
    chosen, at = np.unique(refusals, return_inverse=True)
    late = late.where(np.isin(np.arange(len(late)), chosen))
    if len(rows):
        case.theirs_evidence[rows] = at
    return LetIn(late, *_fewest(late), candidates)


def _is_in_doubt(case: Case, rows: np.ndarray, candidates: np.ndarray, repeated: np.ndarray) -> np.ndarray:
    """Which of ``rows`` may repeat an earlier one, in partitions where a row that can be of no refusal does."""
    surely = repeated >= 0
    surely[candidates] = False
    has_crash = np.isin(case.theirs.partition[rows], case.theirs.partition[surely])
    in_doubt: np.ndarray = has_crash & (repeated[rows] >= 0)
    return in_doubt


def _chosen(
    case: Case, late: LateRecords, pairs: pl.DataFrame, twins: np.ndarray, repeated: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of production that refused records gave, and the number of the refusal of each."""
    used, numbers = np.unique(pairs["late"].to_numpy(), return_inverse=True)
    late = late.where(np.isin(np.arange(len(late)), used))
    pairs = _in_order(_in_place(case, pairs.with_columns(pl.Series("late", numbers)), late, twins, repeated))
    rows = pairs["row"].to_numpy()
    case.alignment.part(rows)
    case.give(rows, Cause.RESTART)
    return rows, used[pairs["late"].to_numpy()]


def _in_order(pairs: pl.DataFrame) -> pl.DataFrame:
    """One of the ``pairs`` of each row, where there is one. Of rows that may be of the same refusals, the last is of
    the last one that it may be of, the row before of an earlier one, and so on.
    """
    same = ["group", "before", "behind"]
    pairs = pairs.with_columns(
        pl.col("row").rank("dense", descending=True).over(same).alias("number"),
        pl.col("offset").rank("dense", descending=True).over(same).alias("of"),
    )
    in_order = pairs.filter(pl.col("number") == pl.col("of")).unique("row", keep="first", maintain_order=True)
    left = pairs.join(in_order, on="row", how="anti").select(same).unique()
    if left.is_empty():
        return in_order
    # A final result is of several refusals, and none of them may be later than its time: the n-th row is not of the
    # n-th refusal then.
    chosen, last = list[int](), dict[tuple[int, ...], tuple[int, int]]()
    few = pairs.with_row_index("at").join(left, on=same, how="semi").sort("row", "offset", descending=True)
    for at, row, offset, *group in few.select("at", "row", "offset", *same).iter_rows():
        before = last.get(tuple(group), (UNBOUNDED, UNBOUNDED))
        if row < before[0] and offset < before[1]:
            chosen.append(at)
            last[tuple(group)] = (row, offset)
    return pl.concat([in_order.join(left, on=same, how="anti"), pairs[chosen]])


def _pairs(case: Case, late: LateRecords, rows: np.ndarray) -> pl.DataFrame:
    """Rows of production (``row``), each with the refusals (``late``) that it may be of; ``group``: of rows that
    may be of the same ones.
    """
    theirs, output = case.theirs, case.output
    wanted = pl.DataFrame({
        "row": rows, "key": theirs.key[rows], "start": theirs.start[rows], "end": theirs.end[rows],
        "time": theirs.time[rows], "partition": theirs.partition[rows].astype(np.int64),
    })  # fmt: skip
    refused = pl.DataFrame({
        "late": np.arange(len(late)), "offset": late.numbers("offset"),
        "task": late.numbers("partition").astype(np.int64),
        "late_time": late.numbers("record_time_ms"), "late_start": late.numbers("window_start_ms"),
        "late_end": late.numbers("window_end_ms"), "topic": late.rows["topic"].to_numpy(),
        "node": late.rows["node"].to_numpy(),
    })  # fmt: skip
    keeps = {name: output.keeps_key_of(name) for name in refused["node"].unique()}
    refused = refused.with_columns(pl.col("node").replace_strict(keeps, return_dtype=pl.Boolean).alias("keeps"))
    joins = []
    own = refused.filter("keeps")
    if len(own):
        own = own.with_columns(pl.Series("key", late.keys[own["late"].to_numpy()]))
        if output.windows == "sliding":
            joins.append(_around(wanted, own))
        elif output.windows is not None and not output.has_ends:
            joins.append(wanted.join(own, left_on=["key", "start"], right_on=["key", "late_start"], coalesce=False))
        elif output.has_ends:
            within = pl.col("late_time").is_between(pl.col("start"), pl.col("end"))
            joins.append(wanted.join(own, on="key", coalesce=False).filter(within))
        else:
            joins.append(wanted.join(own, left_on=["key", "time"], right_on=["key", "late_time"], coalesce=False))
    other = refused.filter(~pl.col("keeps"))
    if len(other):
        joins.append(wanted.join(other, left_on="time", right_on="late_time", coalesce=False))
    names = ["row", "late", "task", "offset", "topic", "keeps", "partition", "time", "late_time"]
    same = pl.struct("time", pl.when("keeps").then("key"), pl.when("keeps").then("start")).hash()
    if output.windows is not None:
        same = pl.when("keeps").then(pl.struct("key", "start", "end").hash()).otherwise(same)
    pairs = pl.concat([each.select(*names, same.alias("group")) for each in joins])
    return pairs.filter(pl.col("time") >= pl.col("late_time"))  # an aggregate has the latest time of its records


def _around(wanted: pl.DataFrame, refused: pl.DataFrame) -> pl.DataFrame:
    """Rows of sliding windows that have a refused record, and of the one right behind it. Starts are in buckets of a
    window's length, so that of a key with many rows a record comes to those near it.
    """
    length = pl.col("late_end") - pl.col("late_start")
    first, last = pl.col("late_time") - length, pl.col("late_time") + 1
    size = max(1, int(refused.select(length.max()).item()))
    buckets = pl.int_ranges(first // size, last // size + 1).alias("bucket")
    pairs = wanted.with_columns((pl.col("start") // size).alias("bucket")).join(
        refused.with_columns(buckets).explode("bucket"), on=["key", "bucket"], coalesce=False
    )
    return pairs.filter(pl.col("start").is_between(first, last))


def _in_place(
    case: Case, pairs: pl.DataFrame, late: LateRecords, twins: np.ndarray, repeated: np.ndarray
) -> pl.DataFrame:
    """Those that are where the record was processed; ``before`` and ``behind``: causes of the rows around, -1 and
    UNBOUNDED where there is none. Where nobody knows, a row that is there twice is not taken.
    """
    is_known = pl.col("topic") == pl.lit(case.output.cause_topic)
    pairs = pairs.sort("row", "late")
    known = _known(case, pairs)
    around = pairs.join_asof(
        known.rename({"cause": "before"}), on="row", by=["partition", "task"], strategy="backward",
        allow_exact_matches=False, check_sortedness=False,
    ).join_asof(
        known.rename({"cause": "behind"}), on="row", by=["partition", "task"], strategy="forward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    pairs = around.with_columns(pl.col("before").fill_null(-1), pl.col("behind").fill_null(UNBOUNDED))
    up_to, least = _crashes(case, pairs, repeated)
    went_back = late.after[pairs["late"].to_numpy()] < up_to
    is_later = pl.lit(case.output.is_final) | pl.lit(pl.Series(went_back)) | (pl.col("before") <= pl.col("offset"))
    fits = is_later & (pl.col("offset") <= pl.col("behind")) & (pl.col("offset") <= pl.lit(pl.Series(least)))
    is_alone = pl.Series(twins[pairs["row"].to_numpy()] < 0)
    fits &= pl.lit(is_alone) | (pl.col("time") == pl.col("late_time"))
    has_rows_around = (pl.col("before") >= 0) | (pl.col("behind") < UNBOUNDED)
    return pairs.filter(pl.when(is_known & has_rows_around).then(fits).otherwise(is_alone))


def _crashes(case: Case, pairs: pl.DataFrame, repeated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each pair, by row, the last record to which a crash before the row can have gone back, -1 without one. With
    it the last record that can have caused it, since later ones were processed later.

    A crash shows by rows around, none equal to ours, of which one repeats an earlier row and is of no refused record.
    It went back at least to the last record of the key and window of each.
    """
    ours, theirs = case.ours, case.theirs
    is_equal = case.alignment.theirs == RowVerdict.EQUAL
    begins = np.concatenate([[True], theirs.partition[1:] != theirs.partition[:-1]])
    run = np.cumsum(is_equal | begins)
    repeats = (repeated >= 0) & ~is_equal
    repeats[pairs["row"].to_numpy()] = False
    rows = np.flatnonzero(repeats)
    here = np.flatnonzero(are_among(ours.identity, theirs.identity[rows]))
    here = here[np.lexsort((ours.cause[here], ours.identity[here]))]
    last = np.searchsorted(ours.identity[here], theirs.identity[rows], side="right") - 1
    last_cause = ours.cause[here[last]] if len(here) else np.full(len(rows), -1)
    seen = pl.DataFrame({"row": rows, "run": run[rows], "last": last_cause}).with_columns(
        pl.col("last").min().over("run").alias("up_to"), pl.col("last").cum_min(reverse=True).over("run").alias("least")
    )
    wanted = pl.DataFrame({"row": pairs["row"], "run": run[pairs["row"].to_numpy()]})
    up_to = wanted.join(seen.unique("run"), on="run", how="left", maintain_order="left")["up_to"]
    least = wanted.join_asof(
        seen, on="row", by="run", strategy="forward", allow_exact_matches=False, check_sortedness=False
    )["least"]
    return up_to.fill_null(-1).to_numpy(), least.fill_null(UNBOUNDED).to_numpy()


def _known(case: Case, pairs: pl.DataFrame) -> pl.DataFrame:
    """Rows of production that have a partner, with what caused it, by row."""
    mates = case.alignment.theirs_mate
    is_equal = case.alignment.theirs == RowVerdict.EQUAL
    rows = np.flatnonzero(is_equal & np.isin(case.theirs.partition, pairs["partition"].unique().to_numpy()))
    rows = rows[~are_among(rows, pairs["row"].to_numpy())]
    rows = rows[case.ours.cause[mates[rows]] >= 0]
    return pl.DataFrame({
        "row": rows, "partition": case.theirs.partition[rows].astype(np.int64),
        "task": case.ours.partition[mates[rows]].astype(np.int64), "cause": case.ours.cause[mates[rows]],
    })  # fmt: skip


def _fewest(late: LateRecords) -> tuple[tuple[Restart, ...], np.ndarray]:
    """The fewest restarts for all refusals, and of each refusal the number of its restart."""
    topics, partitions = late.rows["topic"].to_numpy(), late.numbers("partition")
    offsets, after = late.numbers("offset"), late.after
    restarts: list[Restart] = []
    number = np.zeros(len(late), np.int64)
    here: list[int] = []

    def close() -> None:
        if here:
            first = here[0]
            at = Restart(
                str(topics[first]), int(partitions[first]), int(after[here].max()), int(offsets[here].min()),
                len({int(offsets[each]) for each in here}),
            )  # fmt: skip
            number[here] = len(restarts)
            restarts.append(at)
            here.clear()

    # A restart is in ``(after, offset]`` of each refusal. By rising end, a group is what contains the end
    # of its first span: no choice of places is smaller.
    for each in np.lexsort((offsets, partitions, topics)).tolist():
        if here:
            first = here[0]
            is_same = (topics[each], partitions[each]) == (topics[first], partitions[first])
            if not is_same or after[each] >= offsets[first]:
                close()
        here.append(each)
    close()
    return tuple(restarts), number
