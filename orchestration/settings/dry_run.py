"""What a run would do, before it does it: records that it would read, what would wait, what changed code means.

Owns the asking; the answers are the planner's and the code rule's own. Rule: nothing is landed, planned or written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...jobs.code_changes.state_migration import take_over
from ...jobs.replay.landed_times import LandedTimes
from ...jobs.replay.plan import Plan
from ...jobs.replay.planner import Planner
from ...jobs.replay.takeover import refusal_of
from ...jobs.replay.unfinished import refuse_after_flush, refuse_backfill, refuse_lost_between
from ...jobs.replay.waiting_inputs import WaitingInput
from ...jobs.topology import Topology
from ...state.errors import CodeChanged, LedgerError
from ...state.tables.ledger import Ledger
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse
from .run_settings import RequestedRun


@dataclass(frozen=True)
class DryRun:
    """``increments`` with ``records`` would be replayed of what has landed, and ``waits`` held back. ``refusal``: why a
    run would be refused; None: it would not be. ``sentences``: all of it in words, without what waits.
    """

    increments: int
    records: int
    waits: list[WaitingInput]
    refusal: str | None
    sentences: tuple[str, ...]


def dry_run_of(
    warehouse: Warehouse,
    topology: Topology,
    *,
    pipeline: str,
    asked: RequestedRun,
    ends: Sequence[int] = (),
    after: int | None = None,
) -> DryRun:
    """What a replay with these settings would do now with the landed records. ``ends``: in ms, of partitions that it
    would go through one after the other. ``after``: it would go back to this increment first, 0: to the start.
    """
    topology = topology.reading(warehouse.topics)
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    last, pending = ledger.last_done(), ledger.pending()
    if after is not None:
        last = next(iter(ledger.done_rows(after, after)), None) if after else None
        pending = None  # the way back gives it up
    previous, said = DoneRow() if last is None else last.content, list[str]()
    refusal: LedgerError | None = None
    given_up: CodeChanged | None = None
    try:
        change = take_over(pipeline, last, topology, asked.wanted)
        refuse_backfill(warehouse, pipeline, change.previous, False)
        refuse_lost_between(pipeline, change.previous, topology)
        given_up = refusal_of(warehouse, pipeline, pending, topology, change, 0 if last is None else last.increment)
    except LedgerError as error:
        refusal = error
    else:
        previous = change.previous
        if change.verdict is not None:
            said += [f"changed code: {each.sentence()}" for each in change.verdict.changes]
        said += [f"store {store} would be made again, of store {one.store}" for store, one in change.rewrites.items()]
    if pending is not None and refusal is None:
        ending = "given up, since other code planned it" if given_up is not None else "finished first"
        said.append(f"increment {pending.increment} is planned and would be {ending}")
    plans, waits = _planned(warehouse, topology, previous, asked, ends or [asked.until_ms])
    if refusal is None:
        refusal = _refusal_of_plans(pipeline, previous, plans, asked, given_up)
    if refusal is not None:
        said.append(f"refused: {refusal}")
    records = sum(plan.row.records for plan in plans)
    said.insert(0, f"dry run: {records:,} records would be read, in {len(plans)} increments")
    said += [
        f"{topic}, partition {partition}: offsets {begin} to {plans[-1].row.cut_to[topic][partition]}"
        for topic, cut in (plans[0].row.cut_from.items() if plans else ())
        for partition, begin in cut.items()
        if begin != plans[-1].row.cut_to[topic][partition]
    ]
    if asked.flush and not previous.flushed:
        said.append("all windows would be closed, and the pipeline would take no records after that")
    return DryRun(len(plans), records, waits, None if refusal is None else str(refusal), tuple(said))


def _refusal_of_plans(
    pipeline: str, previous: DoneRow, plans: Sequence[Plan], asked: RequestedRun, given_up: CodeChanged | None
) -> LedgerError | None:
    """Why a run with these plans is refused: history was closed, or none takes the place of one that is given up."""
    if not plans:
        return None if asked.flush and not previous.flushed else given_up
    try:
        refuse_after_flush(pipeline, previous)
    except LedgerError as error:
        return error
    return None


def _planned(
    warehouse: Warehouse, topology: Topology, previous: DoneRow, asked: RequestedRun, ends: Sequence[int | None]
) -> tuple[list[Plan], list[WaitingInput]]:
    """Increments up to each of ``ends`` (None: of all that has landed), and what the last one would leave waiting."""
    plans, waits, times = list[Plan](), list[WaitingInput](), LandedTimes()
    for end in ends:
        planner = Planner(
            warehouse, topology, increment=len(plans) + 1, previous=previous, idle=asked.idle, until_ms=end, times=times
        )
        planned = list(planner.plans(asked.max_records))
        plans, waits = [*plans, *planned], planner.waits
        if planned:
            row = planned[-1].row
            recorded = row.recorded_to or previous.recorded_to
            previous = replace(previous, cut_to=row.cut_to, recorded_to=recorded, unread=None)
    return plans[: asked.increments], waits
