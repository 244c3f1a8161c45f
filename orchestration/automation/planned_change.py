"""What changed code would mean: for the state, and, by a branch that is replayed with it, for the results.

Owns the steps of a plan. Rule: the pipeline itself is only read. A whole plan leaves a branch, which may be promoted.
A sample is replayed twice, with the current code and with the changed code, from one increment to one cut. So all
differences come from the code. Its branches are dropped again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...jobs.branches.branches import drop, fork
from ...jobs.code_changes.state_migration import verdict_on
from ...jobs.execution.task_description import Runner
from ...jobs.history.committed_tables import done_row
from ...jobs.history.output_diff import OutputDiff, diff_output, outputs_of
from ...jobs.replay.pipeline_run import replay
from ...jobs.topology import Topology
from ...state.errors import ConfigError
from ...state.tables.ledger import Ledger
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.rows_in_force import in_force
from ..pipeline import Pipeline

Say = Callable[[str], None]


@dataclass(frozen=True)
class PlannedChange:
    """Of the code, judged on the last increment. ``sentences``: what differs; ``goes_on``: whether the state does."""

    sentences: list[str]
    goes_on: bool


@dataclass(frozen=True)
class Planned:
    """``branch``: that was replayed, from ``at`` on; ``records``: that it read. ``cuts``: a warning where both sides
    have not read the same. ``one_sided``: outputs that only one side has. ``diffs``: of the others, with the current
    code as A and the changed code as B.
    """

    branch: str
    at: int
    records: int
    cuts: str | None
    one_sided: list[str] = field(default_factory=list)
    diffs: list[OutputDiff] = field(default_factory=list)


def change_of(pipeline: Pipeline, changed: Topology) -> PlannedChange:
    """What the changed code means for the state of the last increment; nothing is written."""
    last = done_row(pipeline.warehouse, pipeline.name)
    if last.content.code is None:
        is_same = last.content.topology == changed.fingerprint
        made = "the topology that made the state" if is_same else "another topology than that which made the state"
        return PlannedChange([made], is_same)
    verdict = verdict_on(last.content, changed)
    sentences = [f"{'goes on' if each.goes_on else 'refused'}: {each.sentence()}" for each in verdict.changes]
    same = f"nothing differs that the state of increment {last.increment} depends on"
    return PlannedChange(sentences or [same], verdict.goes_on)


def fork_point(pipeline: Pipeline, at: int | None, *, goes_on: bool) -> int:
    """After which increment the branch begins: ``at``; None: before the last increment where the state continues, else
    from the start.
    """
    if at is not None:
        return at
    rows = in_force(pipeline.ledger.done_rows())
    return rows[-2].increment if goes_on and len(rows) > 1 else 0


def plan_whole(
    pipeline: Pipeline, changed: Topology, branch: str, at: int, runner: Runner, run: str, say: Say
) -> Planned:
    """Fork after ``at``, replay what has landed since with the changed code, and compare with the pipeline."""
    fork(pipeline.warehouse, pipeline.name, at, branch, topology=changed)
    say(f"{branch} begins after increment {at} of {pipeline.name}")
    records = _replayed(pipeline, changed, branch, runner, run, say, None)
    return _compared(pipeline, pipeline.name, branch, at, records)


def plan_sample(
    pipeline: Pipeline, changed: Topology, branch: str, at: int, records: int, runner: Runner, run: str, say: Say
) -> Planned:
    """Replay at most ``records`` after ``at`` twice, compare, and drop both branches again."""
    if records < 1:
        raise ConfigError("records", "1 or more", str(records), "give a larger number, or leave it out for all")
    now = f"{branch}-now"
    with _dropped(pipeline, now), _dropped(pipeline, branch):
        for name, topology in ((now, pipeline.topology), (branch, changed)):
            fork(pipeline.warehouse, pipeline.name, at, name, topology=topology)
            read = _replayed(pipeline, topology, name, runner, run, say, records)
        return _compared(pipeline, now, branch, at, read)


def _replayed(
    pipeline: Pipeline, topology: Topology, name: str, runner: Runner, run: str, say: Say, most: int | None
) -> int:
    say(f"replaying {name}")
    reports = replay(
        pipeline.warehouse,
        topology,
        pipeline=name,
        runner=runner,
        max_records=most or pipeline.max_records,
        increments=None if most is None else 1,
        idle=pipeline.idle,
        kafka_version=pipeline.kafka_version,
        run=run,
    )
    return sum(report.books.read for report in reports)


def _compared(pipeline: Pipeline, now: str, branch: str, at: int, records: int) -> Planned:
    """Their outputs as of the last increment of each."""
    warehouse = pipeline.warehouse
    mine, other = outputs_of(warehouse, now), outputs_of(warehouse, branch)
    is_one_cut = _cut(done_row(warehouse, now).content) == _cut(done_row(warehouse, branch).content)
    caveat = None if is_one_cut else f"{branch} has read further than {now}: replay {now}, then plan again"
    diffs = [diff_output(warehouse, now, branch, name) for name in mine if name in other]
    return Planned(branch, at, records, caveat, sorted({*mine} ^ {*other}), diffs)


def _cut(done: DoneRow) -> dict[str, dict[str, int]]:
    """Where something was read."""
    cuts = {topic: {p: end for p, end in ends.items() if end} for topic, ends in done.cut_to.items()}
    return {topic: ends for topic, ends in cuts.items() if ends}


@contextmanager
def _dropped(pipeline: Pipeline, name: str) -> Iterator[None]:
    """The branch goes, whatever came of it; one that was there before is refused by ``fork`` and stays."""
    before = done_or_none(pipeline, name)
    try:
        yield
    finally:
        if before is None and done_or_none(pipeline, name) is not None:
            drop(pipeline.warehouse, name)


def done_or_none(pipeline: Pipeline, name: str) -> int | None:
    """The last increment of a pipeline or branch; None where there is none."""
    last = Ledger(pipeline.warehouse.pipeline(name).ledger).last_done()
    return None if last is None else last.increment
