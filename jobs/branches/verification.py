"""Proof that cuts change nothing: increments are run again on temporary branches, cut differently, and compared.

Owns the proof that anybody can run over their own pipeline. Rule: every table counts, row by row and position by
position: outputs, repartition tables, drops and dead letters whole, stores as their readers see them; only the number
of the increment may differ. The pipeline is only read; each branch is dropped again, whatever came of it. Tasks write
files and continue from them, as in every replay; that these files are committed would prove nothing more, and is saved.
"""

import hashlib
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...state.errors import ConfigError
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow, PlanRow
from ...state.tables.names import DEAD_LETTER, DROPPED, STATE, TableName
from ...state.tables.out_of_play import erased_records, erased_since
from ...state.tables.rows_in_force import in_force
from ...state.tables.warehouse import Warehouse
from ..code_changes.code_of_increment import other_code
from ..code_changes.state_migration import take_over
from ..history.committed_tables import done_row, rows_of
from ..history.exclusions import refuse_erased
from ..history.store_reader import store_in, store_of
from ..replay.landed_times import LandedTimes
from ..replay.rerun import Rerun, recorded_order
from ..tape.shared_reads import sharing_reads
from ..topology.topology import Topology
from .branches import branches, drop, fork

if TYPE_CHECKING:
    from ..execution.task_description import Runner, TaskDescription, TaskReport

RANDOM = "random"
CUTS_MAX = 6
"""Of a range that is cut at random."""
_PLACE = ("partition", "topic", "offset", "node", "window_start_ms", "window_end_ms")


@dataclass(frozen=True)
class FirstDifference:
    """The first row that differs. ``place``: its partition and offset, or the number of a store's row. ``want``: the
    row of the pipeline, ``got``: that of the branch; None if one has no such row.
    """

    table: str
    place: dict[str, Any]
    want: dict[str, Any] | None
    got: dict[str, Any] | None

    def __str__(self) -> str:
        """One sentence."""
        at = ", ".join(f"{name} {value}" for name, value in self.place.items())
        return f"{self.table}, {at}: expected {_shown(self.want, self.got)}, got {_shown(self.got, self.want)}"


@dataclass(frozen=True)
class Cutting:
    """The range, run in other increments. ``sizes``: records of each."""

    name: str
    sizes: list[int]
    seconds: float
    difference: FirstDifference | None
    impure: dict[str, str] = field(default_factory=dict)
    """Nodes whose functions answered otherwise the second time they were asked, and about which record."""


@dataclass(frozen=True)
class Verification:
    """``digests``: of every table's rows in the range, stores as of its end; by its name in the ledger. The same rows
    have the same digest by the same version of Arrow.
    """

    since: int
    until: int
    records: int
    rows: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    cuttings: list[Cutting] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no cutting differs."""
        return all(cutting.difference is None for cutting in self.cuttings)


def verify(
    warehouse: Warehouse,
    topology: Topology,
    *,
    pipeline: str,
    runner: "Runner",
    since: int = 1,
    until: int | None = None,
    increments: Sequence[int | str] = (1, 7, RANDOM),
    seed: int = 0,
    order: str | None = None,
    doing: Callable[[str], None] = lambda sentence: None,
) -> Verification:
    """Run increments ``since`` to ``until`` (None: the last one) again, once for each of ``increments``: in so many, or
    cut at random places that ``seed`` says; and compare.

    ``order``: None for that in which the range took records; another one is refused.
    Raises ConfigError for a range that is not there, that other code ran, in which something was restored, or in which
    topics landed that a pattern matches. Raises LedgerError for one of whose records some were erased, and what a
    replay raises.
    """
    planned, done = _range(warehouse, topology, pipeline, since, until)
    order = recorded_order(f"pipeline {pipeline!r}", [plan.by_arrival for plan in planned], order)
    topology = topology.reading(planned[-1].cut_to)
    since, last = done[0].increment, done[-1]
    earlier = Ledger(warehouse.pipeline(pipeline).ledger).done_before(since)
    want = dict(_tables(warehouse, topology, pipeline, since, last.increment))
    records = sum(plan.records for plan in planned)
    verification = Verification(
        since, last.increment, records,
        {name: len(rows) for name, rows in want.items()}, {name: _digest(rows) for name, rows in want.items()},
    )  # fmt: skip
    times = LandedTimes()
    with sharing_reads():
        for number, each in enumerate(increments):
            words = f"cut at random, seed {seed}" if each == RANDOM else f"in {each}"
            doing(f"running {records:,} records again, {words}")
            begun, asking = time.perf_counter(), _Asking(runner)
            name = f"{pipeline}-verify-{_unique(seed)}"
            sizes: list[int] = []
            try:
                fork(warehouse, pipeline, 0 if earlier is None else earlier.increment, name, topology=topology)
                before = done_row(warehouse, name)
                again = Rerun(
                    warehouse, topology, name, asking, order=order, last=last.content, times=times,
                    # The increment before the range may be of earlier code: its row is carried over, as it was when the
                    # range was first run.
                    before=replace(before, content=take_over(name, before, topology).previous),
                )  # fmt: skip
                for limit in _limits(each, records, seed + number):
                    sizes += _run(again, limit, flushes=planned[-1].flushes)
                doing(f"comparing {len(want)} tables")
                difference = next(_differences(want, _tables_of(again, want)), None)
            finally:
                if name in branches(warehouse):
                    drop(warehouse, name)
            verification.cuttings.append(Cutting(words, sizes, time.perf_counter() - begun, difference, asking.impure))
    return verification


def _unique(seed: int) -> str:
    return hashlib.blake2b(f"{seed}/{time.time_ns()}".encode(), digest_size=4).hexdigest()


def verifiable(warehouse: Warehouse, topology: Topology, pipeline: str) -> list[range]:
    """Increments that ``verify`` replays as one range: done, in force, consecutive, with this topology and the same
    topics; none whose beginning was vacuumed or erased, and none that has read records that were erased since.
    """
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    ranges: list[range] = []
    before, done = "", ledger.done_rows()
    followed_by = {row.increment: following.increment for row, following in pairwise(done)}
    for row, why_not in _judged(warehouse, topology, ledger, done):
        if why_not:
            before = ""
            continue
        is_next, before = before == row.content.topology, row.content.topology or ""
        if ranges and is_next and followed_by[ranges[-1].stop - 1] == row.increment:
            ranges[-1] = range(ranges[-1].start, row.increment + 1)
        else:
            ranges.append(range(row.increment, row.increment + 1))
    return ranges


def why_not_verifiable(warehouse: Warehouse, topology: Topology, pipeline: str) -> str | None:
    """Why ``verify`` cannot replay the last increment, as "increment 3 was run by other code"; None where there is
    none, or it can.
    """
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    judged = list(_judged(warehouse, topology, ledger, ledger.done_rows()))
    return f"increment {judged[-1][0].increment} {judged[-1][1]}" if judged and judged[-1][1] else None


def _judged(
    warehouse: Warehouse, topology: Topology, ledger: Ledger, done: list[LedgerRow[DoneRow]]
) -> Iterator[tuple[LedgerRow[DoneRow], str]]:
    """Increments in force, in order, each with why it cannot be run again; "" where it can."""
    rows, oldest, previous = in_force(done), ledger.oldest_kept(), DoneRow()
    erased = erased_records(warehouse, rows[-1].content.cut_to if rows else ())
    for row in rows:
        own, begin, previous = row.content, previous.cut_to, row.content
        if own.has_no_plan:
            yield row, "has read nothing: a fork or a bootstrap began with it"
        elif own.restates is not None:
            yield row, f"has read nothing: it is a {own.kind}"
        elif own.topology != _fingerprint(topology, own.cut_to) or other_code(own, topology.reading(own.cut_to)):
            yield row, "was run by other code"
        elif oldest > 1 and row.increment <= oldest:
            yield row, "begins with what was vacuumed or erased"
        else:
            yield row, "has read records that were erased since" if erased_since(erased, begin, own) else ""


def _range(
    warehouse: Warehouse, topology: Topology, pipeline: str, since: int, until: int | None
) -> tuple[list[PlanRow], list[LedgerRow[DoneRow]]]:
    """Plans and done rows of the range."""
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    done = ledger.done_rows()
    rows = [row for row in in_force(done) if not row.content.has_no_plan]
    end = rows[-1].increment if until is None and rows else until
    wanted = [row for row in rows if end is not None and since <= row.increment <= end]
    is_there = bool(wanted) and since >= 1 and wanted[-1].increment == end
    # Numbers that were given up are missing in both.
    if not is_there or wanted != [row for row in done if since <= row.increment <= wanted[-1].increment]:
        known = f"{rows[0].increment} to {rows[-1].increment}" if rows else "none"
        raise ConfigError(
            f"pipeline {pipeline!r}", "a range of increments that are done, one after the other, and not withdrawn",
            f"{since} to {end}", f"increments are {known}; a restore is no part of a range",
        )  # fmt: skip
    plans = []
    _refuse_erased(pipeline, wanted)
    for row in wanted:
        planned, _ = ledger.rows_of(row.increment)
        assert planned is not None, f"increment {row.increment} was planned"
        refuse_erased(warehouse, pipeline, row.increment, planned.content)
        own, cut = planned.content.topology, planned.content.cut_to
        other = other_code(row.content, topology.reading(cut)) if own == _fingerprint(topology, cut) else "the topology"
        if other or row.content.restates is not None:
            what = f"was changed ({other})" if other else "was changed"
            raise ConfigError(
                f"pipeline {pipeline!r}, increment {row.increment}", "the topology that is given",
                f"another one: the code {what}, or something was restored",
                "verify a range that one code ran, with that code",
            )  # fmt: skip
        plans.append(planned.content)
    others = [plan for plan in plans if plan.topology != plans[-1].topology]
    if others:
        raise ConfigError(
            f"pipeline {pipeline!r}", "a range in which its patterns match the same topics",
            f"topics that landed after increment {wanted[len(others) - 1].increment}",
            "verify the increments before and after it",
        )  # fmt: skip
    return plans, wanted


def _refuse_erased(pipeline: str, rows: Sequence[LedgerRow[DoneRow]]) -> None:
    """ConfigError for a range with increments of which records were erased since."""
    erased = [row for row in rows if row.content.erased is not None]
    if erased:
        last = erased[-1]
        reason = (last.content.erased or {}).get("reason")
        raise ConfigError(
            f"pipeline {pipeline!r}", "a range of increments whose records are there",
            f"some of which records were erased by increment {last.increment} ({reason})",
            f"verify a range from {last.increment + 1} on",
        )  # fmt: skip


def _fingerprint(topology: Topology, topics: Collection[str]) -> str:
    """Of the topology as it was when its patterns matched those of ``topics``."""
    return topology.reading(topics).fingerprint if topology.has_patterns else topology.fingerprint


def _limits(increments: int | str, records: int, seed: int) -> Iterator[int | None]:
    """Records of the increments to come; None: all that are left."""
    if increments == RANDOM:
        dice = random.Random(seed)
        cuts = sorted(dice.sample(range(1, records), min(dice.randint(2, CUTS_MAX), max(0, records - 1))))
        yield from (end - begin for begin, end in zip([0, *cuts], cuts, strict=False))
        yield None
        return
    for _ in range(int(increments) - 1):
        yield max(1, -(-records // int(increments)))
    yield None


class _Asking:
    """A Runner whose tasks ask functions twice about their first records, in every increment."""

    def __init__(self, runner: "Runner") -> None:
        self._runner = runner
        self.impure: dict[str, str] = {}

    def run(self, topology: Topology, descriptions: list["TaskDescription"]) -> list["TaskReport"]:
        """As a Runner."""
        reports = self._runner.run(topology, [replace(each, checks_purity=True) for each in descriptions])
        for report in reports:
            self.impure |= report.impure
        return reports


def _run(again: Rerun, limit: int | None, *, flushes: bool) -> list[int]:
    """Run an increment of ``limit`` records; None: of all that are left, and the flush. Returns their numbers."""
    sizes = []
    for plan in again.plans(limit, flushes=flushes and limit is None):
        again.go_on(plan)
        sizes.append(plan.row.records)
        if limit is not None:
            break
    return sizes


# --- the comparison ------------------------------------------------------------------------------------------------


def _tables(
    warehouse: Warehouse, topology: Topology, pipeline: str, since: int, until: int | None
) -> Iterator[tuple[str, pa.Table]]:
    """Rows of the range, without the number of the increment, in an order that no cut changes."""
    done = done_row(warehouse, pipeline, until).content
    names = [TableName.output(sink.topic) for sink in topology.sinks()]
    names += [TableName.repartition(node.topic) for sub in topology.sub_topologies for node in sub.repartitions]
    for table in dict.fromkeys([*names, DROPPED, DEAD_LETTER]):
        rows = rows_of(warehouse, pipeline, done, table, after=since - 1)
        yield table, _in_order(rows.drop_columns(["increment"]))
    for store in topology.stores():
        rows = store_of(warehouse, pipeline, topology, store, done)
        yield TableName.state(store), _by_columns(rows)


def _tables_of(again: Rerun, want: dict[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """As ``_tables``, what the increments that ran again came to, with the columns that ``want`` has."""
    stores: dict[str, str] = {TableName.state(store): store for store in again.topology.stores()}
    for table, rows in want.items():
        if table in stores:
            stored = store_in(again.topology, stores[table], again.state_of(stores[table]), again.previous)
            yield table, _by_columns(stored)
        else:
            yield table, _in_order(again.rows_of(table, rows.schema))


def _in_order(rows: pa.Table) -> pa.Table:
    keys = [(name, "ascending") for name in _PLACE if name in rows.column_names]
    return rows.sort_by(keys) if len(rows) else rows


def _by_columns(rows: pa.Table) -> pa.Table:
    """Rows of a store, which have no order, sorted by all columns that are not nested, where these distinguish them."""
    # Arrow sorts by no nested column, and by the text of each row, which always works, is slow.
    flat = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    if not len(rows) or len(rows.group_by(flat).aggregate([])) < len(rows):
        return _sorted(rows)
    return rows.sort_by([(name, "ascending") for name in flat])


def _differences(want: dict[str, pa.Table], got: Iterator[tuple[str, pa.Table]]) -> Iterator[FirstDifference]:
    for table, other in got:
        rows = want[table]
        if rows.equals(other):
            continue
        mine, others = (rows, other) if TableName(table).kind != STATE else (_sorted(rows), _sorted(other))
        yield from _first_difference(table, mine.to_pylist(), others.to_pylist())


def _sorted(rows: pa.Table) -> pa.Table:
    """Rows by what they say as texts."""
    texts = pa.array([repr(row) for row in rows.to_pylist()], pa.string())
    return rows.take(pc.sort_indices(texts))


def _first_difference(table: str, want: list[dict[str, Any]], got: list[dict[str, Any]]) -> Iterator[FirstDifference]:
    for number in range(max(len(want), len(got))):
        mine = want[number] if number < len(want) else None
        other = got[number] if number < len(got) else None
        if repr(mine) != repr(other):  # NaN is NaN
            row = mine or other or {}
            named: dict[str, Any] = {name: row[name] for name in ("topic", "partition", "offset") if name in row}
            yield FirstDifference(table, named or {"row": number}, mine, other)
            return


def _shown(row: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    """Of a row what differs from the other one."""
    if row is None:
        return "no row"
    differing = (
        row if other is None else {name: value for name, value in row.items() if repr(value) != repr(other.get(name))}
    )
    return ", ".join(f"{name} {value!r}" for name, value in differing.items())


def _digest(rows: pa.Table) -> str:
    """Of rows that are in order, as Parquet has their values: nothing of how they lie in memory or in files."""
    written = pa.BufferOutputStream()
    pq.write_table(rows, written, compression="none", use_dictionary=False, write_statistics=False, store_schema=False)
    return hashlib.blake2b(written.getvalue(), digest_size=8).hexdigest()
