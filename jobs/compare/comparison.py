"""What production wrote beside the rows of an output: verdicts, causes, and when differences begin.

Rule: every row of both sides is in one verdict, and every difference has one cause. Numbers are of all rows; only what
is shown is read whole.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from ...state.argument_types import checked_types
from ...state.errors import ConfigError
from ...state.tables.warehouse import Warehouse
from ...state.times import UNBOUNDED
from ..history.committed_tables import done_row
from ..topology.topology import Topology
from .alignment import RowVerdict, align, compare_newest
from .case import Case, Cause
from .cause_sentences import CauseSentences
from .code_versions import CodeVersions, refuse_other_cut
from .compared_output import CHANGELOG, EVENTS, ComparedOutput
from .crashes import explain_crashes
from .late_records import LateRecords
from .missing_rows import explain_missing
from .other_places import explain_append_time, explain_order, explain_places
from .proposed_restarts import Proposal, propose
from .repeated_rows import explain_repeats, find_repeated, find_twins
from .restarts import LetIn, Restart, explain_restarts
from .shown_rows import read_shown
from .sides import ALL_TIMES, ProductionTopic, read_landed, read_output
from .tried_causes import Tried, try_causes
from .wall_clock import explain_wall_clock

BUCKETS_MAX = 24


@dataclass(frozen=True)
class Difference:
    """One difference. ``ours``, ``theirs``: partition, offset, value and time of the row on either side, None where
    there is none; ``window``: its bounds in ms, or None. ``record``: of the cause, TOPIC:PARTITION:OFFSET, which
    `replay explain --record` takes; None where it is not known.
    """

    verdict: str
    cause: str
    sentence: str
    key: Any
    window: tuple[int, int] | None
    ours: Mapping[str, Any] | None
    theirs: Mapping[str, Any] | None
    record: str | None


@dataclass(frozen=True)
class Comparison:
    """``output`` of ``pipeline``, as of ``increment``, beside the landed ``topic``. ``form``: "changelog" or "events";
    ``rows``: of both. ``verdicts``: rows (of a changelog keys and windows) by verdict, "equal" too;
    ``causes``: differences by cause. ``differences``: a row each, by time, with the numbers of both sides. ``first``:
    the first of them, in words. ``restarts``: the fewest that explain what was let in. ``begins``: of each cause the
    record time of its first difference; ``over_time``: differences by spans of record time.
    ``proposal``: which of the restarts to record, where that was asked for.
    """

    output: str
    topic: str
    pipeline: str
    increment: int
    form: str
    rows: tuple[int, int]
    verdicts: Mapping[str, int]
    causes: Mapping[str, int]
    differences: pl.DataFrame
    first: tuple[Difference, ...]
    restarts: tuple[Restart, ...]
    begins: Mapping[str, int]
    over_time: tuple[Mapping[str, int], ...]
    proposal: Proposal | None = None

    @property
    def is_equal(self) -> bool:
        """Production equals its rules."""
        return self.differences.is_empty()

    @property
    def not_explained(self) -> int:
        """Differences without a cause."""
        return self.causes.get(str(Cause.NOT_EXPLAINED), 0)

    def to_json(self) -> dict[str, Any]:
        """All but ``differences``, as JSON values."""
        names = [name for name in vars(self) if name not in ("differences", "first", "restarts", "proposal")]
        return {
            **{name: getattr(self, name) for name in names},
            "restarts": [each.to_json() for each in self.restarts],
            **({} if self.proposal is None else {"proposal": self.proposal.to_json()}),
            "first": [asdict(each) for each in self.first],
        }


@checked_types
def compare(
    warehouse: Warehouse,
    topology: Topology,
    output: str,
    *,
    with_topic: str,
    pipeline: str,
    increment: int | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    form: str | None = None,
    ignore_fields: Collection[str] = (),
    ignore_order: bool = False,
    no_cache: bool = False,
    no_trials: bool = False,
    deployed: str | None = None,
    infer_restarts: bool = False,
    shown: int = 10,
    say_time: Callable[[int], str] = str,
) -> Comparison:
    """Compare ``output`` of ``pipeline``, as of ``increment`` (None: the last), with the landed ``with_topic`` of the
    same ``warehouse``.

    ``since_ms``, ``until_ms``: record times ``[since, until)`` alone. ``form``: "changelog" (the last row of each key
    and window counts) or "events" (every row, in order); None: what the topology says of the output.
    ``ignore_fields``: of the value, which may differ; ``ignore_order``: so may the order. ``no_cache``: production has
    statestore.cache.max.bytes=0, so no cache explains a missing row. ``no_trials``: tasks do not run again to find
    causes (jobs/compare/tried_causes.py). ``deployed``: another pipeline, which ran the versions of the code one after
    the other, as production did (jobs/compare/code_versions.py). ``infer_restarts``: the pipeline runs again in memory
    with the restarts (jobs/compare/proposed_restarts.py). ``shown``: so many differences in words; ``say_time``: how
    sentences say a time. Raises ConfigError for an output, topic, form, field or pipeline that is not there or does not
    fit, LedgerError where nothing is replayed.
    """
    if form not in (None, CHANGELOG, EVENTS):
        raise ConfigError("form", f"{CHANGELOG} or {EVENTS}", repr(form), "name one of them")
    compared, landed = ComparedOutput(topology, output), ProductionTopic.of(warehouse, with_topic)
    form = form or compared.default_form
    row = done_row(warehouse, pipeline, increment, of=[compared.table])
    span = (-UNBOUNDED if since_ms is None else since_ms, UNBOUNDED if until_ms is None else until_ms)
    how: dict[str, Any] = {"span": span, "ignored": tuple(ignore_fields)}
    with ThreadPoolExecutor(2) as sides:  # What one of them waits for, the other has time for.
        reading = (
            sides.submit(read_output, compared, warehouse, pipeline, row.content, partitions=landed.partitions, **how),
            sides.submit(read_landed, compared, landed, **how),
        )
    ours, theirs = (side.result() for side in reading)
    alignment = align(ours, theirs, ignores_order=ignore_order)
    case = Case(compared, warehouse, pipeline, row.content, landed, ours, theirs, alignment, not no_cache)
    versions = None
    if deployed is not None:
        its = done_row(warehouse, deployed, None, of=[compared.table]).content
        refuse_other_cut(pipeline, row.content, deployed, its)
        its_rows = read_output(compared, warehouse, deployed, its, partitions=landed.partitions, **how)
        versions = CodeVersions(case, its_rows)
        versions.explain()
    let_in, partitioner = _explain(case)
    if versions is not None:
        versions.explain()
    clocks = explain_wall_clock(case)
    # A trial writes whole partitions in order, so it cannot be compared with rows of a span or without their order.
    may_try = span == ALL_TIMES and not (ignore_order or no_trials or case.is_equal)
    tried = try_causes(case, ignore_fields) if may_try else Tried()
    sentences = CauseSentences(case, let_in, partitioner, say_time, tried, deployed, clocks)
    differing = _newest if form == CHANGELOG else differing_rows
    differences, same = differing(case)
    proposal = None
    if infer_restarts:
        proposal = propose(
            case, sentences.restarts, lambda case: _counts(None, 0, differing(case)[0]["cause"]), span=span,
            ignored=ignore_fields, ignores_order=ignore_order,
        )  # fmt: skip
    return Comparison(
        output, with_topic, pipeline, row.increment, form, (len(ours), len(theirs)),
        _counts("equal", same, differences["verdict"]), _counts(None, 0, differences["cause"]),
        differences.drop("row", "topic_row"),
        tuple(shown_differences(case, differences.head(shown), sentences.sentence, sentences.record)),
        sentences.restarts,
        dict(differences.group_by("cause", maintain_order=True).agg(pl.col("time_ms").min()).iter_rows()),
        tuple(_over_time(differences)), proposal,
    )  # fmt: skip


def _explain(case: Case) -> tuple[LetIn, str | None]:
    """Give every difference its cause, in the order in which evidence is stronger. Returns what restarts let in, and
    the partitioner of production.
    """
    if case.is_equal:
        return LetIn.nothing(case), None
    case.give(np.flatnonzero(case.theirs.is_unreadable), Cause.UNREADABLE)
    twins = find_twins(case)
    repeated = find_repeated(case, twins)
    late = LateRecords.of(case)
    settled = explain_crashes(case, late, repeated)
    let_in = explain_restarts(case, late, settled, twins, repeated)
    explain_repeats(case, twins, repeated, let_in.candidates)
    partitioner = explain_places(case)
    explain_missing(case)
    explain_append_time(case)
    explain_order(case)
    return let_in, partitioner


def differing_rows(case: Case) -> tuple[pl.DataFrame, int]:
    """All differences, and the number of rows that are equal."""
    alignment = case.alignment
    missing = np.flatnonzero(alignment.ours == RowVerdict.MISSING)
    others = np.flatnonzero(alignment.theirs != RowVerdict.EQUAL)
    differences = _frame(
        case,
        np.concatenate([missing, alignment.theirs_mate[others]]),
        np.concatenate([np.full(len(missing), -1), others]),
        np.concatenate([alignment.ours[missing], alignment.theirs[others]]),
        np.concatenate([case.ours_cause[missing], case.theirs_cause[others]]),
    )
    return differences, int(np.count_nonzero(alignment.ours == RowVerdict.EQUAL))


def _newest(case: Case) -> tuple[pl.DataFrame, int]:
    """Keys and windows that differ, and the number of those that are equal. The cause is that of production's last row,
    or, where we have that row too, the one for which our last row is missing there.
    """
    newest = compare_newest(case.ours, case.theirs)
    differs = np.flatnonzero(newest.verdict != RowVerdict.EQUAL)
    ours, theirs = newest.ours[differs], newest.theirs[differs]
    cause = np.zeros(len(differs), np.int8)
    is_own = ~np.isin(case.alignment.theirs, (RowVerdict.EQUAL, RowVerdict.OTHER_ORDER))
    for rows, causes in ((ours, case.ours_cause), (theirs, np.where(is_own, case.theirs_cause, 0))):
        known = rows >= 0
        given = np.zeros(len(differs), np.int8)
        given[known] = causes[rows[known]]
        cause = np.where(given != Cause.NOT_EXPLAINED, given, cause)
    return _frame(case, ours, theirs, newest.verdict[differs], cause), newest.same


def _frame(case: Case, ours: np.ndarray, theirs: np.ndarray, verdict: np.ndarray, cause: np.ndarray) -> pl.DataFrame:
    """By record time. ``ours``, ``theirs``: rows, -1 where there is none."""

    def column(values: np.ndarray, rows: np.ndarray) -> pl.Series:
        taken = values[np.maximum(rows, 0)] if len(values) else np.zeros(len(rows), values.dtype)
        return pl.Series(taken).to_frame("x").select(pl.when(pl.Series(rows >= 0)).then("x")).to_series()

    frame = pl.DataFrame({
        "row": ours, "topic_row": theirs,
        "verdict": _texts(RowVerdict, verdict), "cause": _texts(Cause, cause),
        "partition": column(case.ours.partition, ours), "offset": column(case.ours.offset, ours),
        "record_time_ms": column(case.ours.time, ours),
        "topic_partition": column(case.theirs.partition, theirs), "topic_offset": column(case.theirs.offset, theirs),
        "topic_time_ms": column(case.theirs.time, theirs),
    })  # fmt: skip
    timed = frame.with_columns(pl.coalesce("topic_time_ms", "record_time_ms").alias("time_ms"))
    return timed.sort("time_ms", "partition", "offset", "topic_partition", "topic_offset", nulls_last=True)


def _texts(kind: type[RowVerdict] | type[Cause], numbers: np.ndarray) -> pl.Series:
    return pl.Series(np.array([str(one) for one in kind], object)[numbers], dtype=pl.String)


def _counts(name: str | None, number: int, texts: pl.Series) -> dict[str, int]:
    counted = texts.value_counts(sort=True).rows()
    return ({} if name is None else {name: number}) | {str(text): int(count) for text, count in counted}


def shown_differences(
    case: Case,
    differences: pl.DataFrame,
    sentence: Callable[[Mapping[str, Any]], str],
    record: Callable[[Mapping[str, Any]], str | None],
) -> Iterator[Difference]:
    """Rows of ``differing_rows`` with keys and values; ``sentence`` and ``record`` say the cause and its record."""
    ours, theirs = read_shown(case, differences["row"].to_numpy(), differences["topic_row"].to_numpy())
    for row in differences.iter_rows(named=True):
        mine, other = ours.get(row["row"]), theirs.get(row["topic_row"])
        some = mine or other
        assert some is not None, "a difference has a row on one side"
        yield Difference(
            row["verdict"], row["cause"], sentence(row), some.key, some.window,
            None if mine is None else mine.fields(), None if other is None else other.fields(),
            record(row),
        )  # fmt: skip


def _over_time(differences: pl.DataFrame) -> Iterator[Mapping[str, int]]:
    """Spans ``[from_ms, to_ms)`` of equal length from the first difference to the last, with the number in each, and of
    each cause.
    """
    times = differences["time_ms"].to_numpy()
    if not len(times):
        return
    first, last = int(times.min()), int(times.max())
    length = -(-(last - first + 1) // BUCKETS_MAX)
    bucket = (times - first) // length
    counted = differences.with_columns(pl.Series("bucket", bucket)).group_by("bucket", "cause").len()
    of: dict[int, dict[str, int]] = {}
    for number, cause, count in counted.sort("bucket", "cause").iter_rows():
        of.setdefault(number, {})[cause] = count
    for number in range(int(bucket.max()) + 1):
        begin = first + number * length
        causes = of.get(number, {})
        yield {"from_ms": begin, "to_ms": begin + length, "differences": sum(causes.values()), **causes}
