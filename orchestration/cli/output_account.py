"""The account of an output: what became of every record on its way there, and what is there now.

Owns the lines, in the numbers that the ledger has. Rule: ``came = applied + left out + dropped + undecodable`` in every
sub-topology, to the unit, and the changelog has the records that the ledger says were written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...jobs.history.committed_tables import read_changelog, read_newest
from ...jobs.replay.increment_report import IncrementReport, report_of
from ...jobs.topology import SubTopology, Topology
from ...state.errors import ConfigError
from ...state.near_names import did_you_mean
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TableName
from ...state.tables.rows_in_force import in_force
from ...state.tables.warehouse import Warehouse
from ..what_waits import results_that_wait
from .book_lines import own_increments


@dataclass(frozen=True)
class StageAccount:
    """One sub-topology. ``reads``: its topics; ``came``: records that its tasks took. ``applied``: an output, a store,
    another task or a function has something of them. ``left_out``: nothing has anything of them, since a filter, a join
    without a match or a deduplication left them out. ``dropped``: reason → records.
    """

    sub_topology: int
    reads: tuple[str, ...]
    came: int
    applied: int
    left_out: int
    undecodable: int
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def balance(self) -> bool:
        """Whether every record is accounted for."""
        return self.came == self.applied + self.left_out + self.undecodable + sum(self.dropped.values())


@dataclass(frozen=True)
class OperatorAccount:
    """An operator above the output that refused some of the records which ``came`` to it, looked for a partner of them,
    or left duplicates out. ``refused``: reason → records; ``unmatched``: of a join, records without a partner when they
    came; ``duplicates``: of a deduplication. Another branch may have taken a record, or a store of a join, so it need
    not be among those that were dropped or left out.
    """

    operator: str
    came: int
    refused: dict[str, int]
    unmatched: int | None = None
    duplicates: int | None = None

    def numbers(self) -> dict[str, int]:
        """What to print of it, with its name. What it does not count is left out, and so is 0 of a reason."""
        lost = {"without a match when they came": self.unmatched, "duplicates": self.duplicates}
        return {
            "came": self.came,
            **{name: number for name, number in lost.items() if number is not None},
            **{f"refused: {reason}": number for reason, number in sorted(self.refused.items())},
        }


@dataclass(frozen=True)
class OutputAccount:
    """``stages`` from the landed topics to the output; ``operators`` that refused, joined or deduplicated some,
    downwards. ``written``: records of its changelog, of which ``tombstones`` delete; ``rows``: keys and windows that
    it has now; ``updates``: records in whose place a later one is, or which a tombstone deleted. ``missing``: records
    that the ledger has since the last restatement, and the changelog has not. ``waiting``: results that a suppress
    holds back.
    """

    output: str
    increments: int
    stages: tuple[StageAccount, ...]
    operators: tuple[OperatorAccount, ...]
    written: int
    tombstones: int
    updates: int
    rows: int
    missing: int
    waiting: int

    @property
    def balance(self) -> bool:
        """Whether every stage balances, and the changelog has every record that was written."""
        return all(stage.balance for stage in self.stages) and self.missing == 0

    def lines(self) -> list[dict[str, Any]]:
        """A row of a table for each number, under the stage that it belongs to."""
        lines = []
        for stage in self.stages:
            numbers = {
                "came": stage.came, "applied": stage.applied, "left out, nothing has them": stage.left_out,
                **{f"dropped: {reason}": number for reason, number in sorted(stage.dropped.items())},
                "undecodable": stage.undecodable,
            }  # fmt: skip
            title = f"sub-topology {stage.sub_topology}, of {', '.join(stage.reads)}"
            lines += _lines(title, numbers)
        for each in self.operators:
            lines += _lines(each.operator, each.numbers(), shows_none=True)
        numbers = {"written": self.written, "rows now": self.rows, "replaced or deleted later": self.updates,
                   "tombstones": self.tombstones, "missing, as the ledger says": self.missing,
                   "results that wait": self.waiting}  # fmt: skip
        return lines + _lines(TableName.output(self.output), numbers)

    def to_json(self) -> dict[str, Any]:
        """All numbers, and whether they balance."""
        return asdict(self) | {"balance": self.balance}


def _lines(title: str, numbers: dict[str, int], *, shows_none: bool = False) -> list[dict[str, Any]]:
    first, *others = numbers.items()
    kept = [first, *((name, number) for name, number in others if number or shows_none)]
    titles = [title, *[""] * len(others)]
    return [
        {"where": where, "what": name, "records": number} for where, (name, number) in zip(titles, kept, strict=False)
    ]


def account_of(warehouse: Warehouse, pipeline: str, topology: Topology, output: str) -> OutputAccount:
    """Of all increments in force that the ledger keeps; of a branch, those of its own. Raises ConfigError for an output
    that the topology does not have.
    """
    stages = _stages(topology, output)
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    rows = ledger.done_rows(ledger.oldest_kept())
    counting = {row.increment for row in in_force(rows)} & set(own_increments(rows))
    pairs = [ledger.rows_of(increment) for increment in sorted(counting)]
    reports = [
        report_of(done.increment, planned.content, done.content)
        for planned, done in pairs
        if planned is not None and done is not None and done.content.books is not None
    ]
    changelog = read_changelog(warehouse, pipeline, output)
    tombstones = len(changelog.filter(pc.is_null(changelog["value"].combine_chunks())))
    now = len(read_newest(warehouse, pipeline, output))
    return OutputAccount(
        output=output,
        increments=len(reports),
        stages=tuple(_account(stage, reports) for stage in stages),
        operators=tuple(_operators(topology, output, stages, reports)),
        written=len(changelog),
        tombstones=tombstones,
        updates=len(changelog) - tombstones - now,
        rows=now,
        missing=_missing(rows, output, changelog["increment"]),
        waiting=_waiting(warehouse, pipeline, topology, output),
    )


def _missing(rows: Sequence[LedgerRow[DoneRow]], output: str, written: pa.ChunkedArray) -> int:
    """Of what the ledger says, how many records are not in the changelog, whose increments are ``written``; below 0
    where there are more. Restatements take rows of others back, so those before the last one do not count.
    """
    first = max((n for n, row in enumerate(rows) if row.content.kind or row.content.has_no_plan), default=-1) + 1
    booked = {row.increment: (row.content.outputs or {}).get(output, 0) for row in rows[first:]}
    there = pc.is_in(written, pa.array([*booked], pa.int64()))
    return sum(booked.values()) - (pc.sum(there).as_py() or 0)


def _stages(topology: Topology, output: str) -> list[SubTopology]:
    """Those whose records may come to the output, in the order in which they run."""
    writers = [sub for sub in topology.sub_topologies if output in {sink.topic for sink in sub.sinks}]
    if not writers:
        known = [sink.topic for sink in topology.sinks()]
        next_step = did_you_mean(output, known, "name one of them")
        raise ConfigError("account", f"one of {', '.join(map(str, known))}", repr(output), next_step)
    by_id = {sub.id: sub for sub in writers}
    unseen = writers
    while unseen:
        above = {other.id: other for sub in unseen for other in topology.sub_topologies
                 if set(other.repartitions) & set(sub.sources)}  # fmt: skip
        # Topics may form a loop, which leads back to a sub-topology that is known already.
        unseen = [sub for number, sub in above.items() if number not in by_id]
        by_id |= above
    return [sub for sub in topology.sub_topologies if sub.id in by_id]


def _account(sub: SubTopology, reports: Sequence[IncrementReport]) -> StageAccount:
    books = [own for report in reports if (own := report.books_by_sub_topology.get(str(sub.id))) is not None]
    dropped: dict[str, int] = {}
    for each in books:
        for reason, number in each.dropped_by_reason.items():
            dropped[reason] = dropped.get(reason, 0) + number
    return StageAccount(
        sub_topology=sub.id,
        reads=tuple(source.landed_topic or source.topic for source in sub.sources),
        came=sum(each.read for each in books),
        applied=sum(each.applied for each in books),
        left_out=sum(each.left_out for each in books),
        undecodable=sum(each.undecodable for each in books),
        dropped=dropped,
    )


def _operators(
    topology: Topology, output: str, stages: Sequence[SubTopology], reports: Sequence[IncrementReport]
) -> Iterator[OperatorAccount]:
    sinks = [sink for sink in topology.sinks() if sink.topic == output]
    names = dict.fromkeys(node.name for sink in sinks for node in topology.graph.above(sink))
    for name in reversed(names):
        came, refused = 0, dict[str, int]()
        counted = [numbers for report in reports if (numbers := report.operators.get(name)) is not None]
        for report in reports:
            for sub in stages:
                books = report.books_by_sub_topology.get(str(sub.id))
                came += 0 if books is None else books.by_operator.get(name, [0])[0]
                for reason, (records, _) in ({} if books is None else books.refused.get(name, {})).items():
                    refused[reason] = refused.get(reason, 0) + records
        looked_up, duplicates = _sum(counted, "looked_up"), _sum(counted, "duplicates")
        unmatched = None if looked_up is None else looked_up - (_sum(counted, "matched") or 0)
        if looked_up is not None:
            came = max(came, looked_up)
        if duplicates is not None:
            came = max(came, duplicates + (_sum(counted, "forwarded") or 0))
        if refused or unmatched is not None or duplicates is not None:
            yield OperatorAccount(name, came, refused, unmatched, duplicates)


def _sum(counted: Sequence[Mapping[str, float | None]], number: str) -> int | None:
    """None: no increment has the number."""
    there = [int(value) for numbers in counted if (value := numbers.get(number)) is not None]
    return sum(there) if there else None


def _waiting(warehouse: Warehouse, pipeline: str, topology: Topology, output: str) -> int:
    above = [topology.suppress_above(sink) for sink in topology.sinks() if sink.topic == output]
    stores = {topology.graph.store_of(node) for node in above if node is not None}
    waits = results_that_wait(warehouse, topology, pipeline=pipeline)
    return sum(each.results for each in waits if each.store in stores)
