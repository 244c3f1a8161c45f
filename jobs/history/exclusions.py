"""Taking records out of play, and who has read them before.

Owns the answer to what a pipeline has of such a record: it left it out, has read it, or has not come to it. Rule: what
was read is not undone by itself; a pipeline goes back for that. What was erased nobody can read again, so that who asks
for the past hears it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from shlex import quote

from ...state.argument_types import checked_types
from ...state.errors import LedgerError
from ...state.tables.ledger import Ledger
from ...state.tables.ledger_rows import DoneRow, LandingDoneRow, PlanRow, cut_of
from ...state.tables.out_of_play import Exclusion, erased_records, erased_since, exclusions
from ...state.tables.parquet_reader import restore_command
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from ..landing.exclusions import book_exclusion
from .fsck import pipelines_of

LEFT_OUT, READ, NOT_REACHED = "left out", "read", "not reached"


@dataclass(frozen=True)
class AffectedPipeline:
    """A pipeline that has read records which are out of play now. ``increment``: that read the first of them, None
    where its parent did; ``before``: the last one in force without them, None where that cannot be gone back to.
    """

    pipeline: str
    records: tuple[tuple[int, int], ...]
    increment: int | None
    before: int | None

    def sentence(self, warehouse: Warehouse) -> str:
        """What it has read, and the commands that make its results without it."""
        read = ", ".join(f"{partition}:{offset}" for partition, offset in self.records)
        by = "before its own first increment" if self.increment is None else f"in increment {self.increment}"
        said = f"{self.pipeline} has read {read} {by}; for results without, "
        if self.before is None:
            return f"{said}replay under another pipeline name"
        where = f"--warehouse {quote(warehouse.root)} --pipeline {self.pipeline}"
        fork = f"replay fork {where} --at {self.before} --as NAME"
        back = restore_command(warehouse.pipeline(self.pipeline).root, self.before)
        return f"{said}go back (`{back}`) and run it again, or run a branch first (`{fork}`)"


@dataclass(frozen=True)
class ExclusionReport:
    """``records`` (partition, offset) are out of play since the landing increment ``increment``. ``readers``: who has
    read some before; ``unfinished``: pipelines with a plan of some that is not done, which is made again without them.
    """

    topic: str
    increment: int
    records: tuple[tuple[int, int], ...]
    readers: tuple[AffectedPipeline, ...]
    unfinished: tuple[str, ...]


@checked_types
def exclude_records(
    warehouse: Warehouse,
    topic: str,
    records: Iterable[tuple[int, int]],
    reason: str,
    *,
    clock_ms: Callable[[], int] = now_ms,
) -> ExclusionReport:
    """Take ``records`` (partition, offset) of the landed ``topic`` of ``warehouse`` out of play, for a ``reason``, and
    name the pipelines that have read them.

    What is planned from now on does not read them; results are those of a topic that was landed without them.
    ``clock_ms``: gives the wall clock. Raises ConfigError for a topic that was never landed, a record that is not there
    or is out of play already, and without a record or a reason. Raises LandingError while a landing is unfinished,
    LedgerConflict when another runner lands meanwhile.
    """
    # Booked before pipelines are looked at: a plan that is made in between leaves the records out, and none is
    # overlooked.
    row = book_exclusion(warehouse, topic, records, reason, clock_ms=clock_ms)
    booked = _booked(row.content)
    readers, unfinished = list[AffectedPipeline](), list[str]()
    for pipeline in pipelines_of(warehouse):
        ledger = Ledger(warehouse.pipeline(pipeline).ledger)
        last, pending = ledger.last_done(), ledger.pending()
        read = [] if last is None else [each for each in booked if _state(last.content, topic, *each) == READ]
        if read:
            readers.append(_reader(ledger, pipeline, topic, tuple(read)))
        cut = {} if pending is None or pending.content.restates is not None else pending.content.cut_to
        if any(each not in read and cut_of(cut, topic, each[0]) > each[1] for each in booked):
            unfinished.append(pipeline)
    return ExclusionReport(topic, row.increment, booked, tuple(readers), tuple(unfinished))


def excluded_by(warehouse: Warehouse, done: DoneRow) -> list[tuple[Exclusion, str]]:
    """What is out of play of the topics that ``done`` has read, and what the pipeline has of each: LEFT_OUT, READ
    before it was taken out, or NOT_REACHED.
    """
    excluded = [each for topic in sorted(done.cut_to) for each in exclusions(warehouse, topic)]
    return [(each, _state(done, each.topic, each.partition, each.offset)) for each in excluded]


def refuse_erased(warehouse: Warehouse, pipeline: str, increment: int, row: PlanRow) -> None:
    """Raises LedgerError for an increment that cannot run again, since it has read a record that was erased since."""
    for gone in erased_since(erased_records(warehouse, row.cut_to), row.cut_from, row):
        record = f"record {gone.topic}:{gone.partition}:{gone.offset}"
        raise LedgerError(
            f"increment {increment} of {pipeline!r}",
            "the records that it read",
            f"{record}, which landing increment {gone.increment} took out ({gone.why})",
            "ask about increments that did not read it; for results without it, replay under another pipeline name",
        )


def _booked(row: LandingDoneRow) -> tuple[tuple[int, int], ...]:
    assert row.exclusion is not None
    return tuple((int(p), offset) for p, offsets in row.exclusion["records"].items() for offset in offsets)


def _state(done: DoneRow, topic: str, partition: int, offset: int) -> str:
    if offset in (done.excluded or {}).get(topic, {}).get(str(partition), ()):
        return LEFT_OUT
    return READ if offset < cut_of(done.cut_to, topic, partition) else NOT_REACHED


def _reader(ledger: Ledger, pipeline: str, topic: str, read: tuple[tuple[int, int], ...]) -> AffectedPipeline:
    """Looks back from the last increment, since one that was restored may have come to the records more than once."""
    first, before = None, 0
    for row in reversed(ledger.done_rows()):
        if not any(_state(row.content, topic, *each) == READ for each in read):
            before = row.increment
            break
        first = row
    assert first is not None, f"{ledger.path}: the last increment has read the records"
    if first.content.has_no_plan:
        return AffectedPipeline(pipeline, read, None, None)
    is_kept = before >= ledger.oldest_kept() or ledger.oldest_kept() == 0
    return AffectedPipeline(pipeline, read, first.increment, before if is_kept else None)
