"""The ledger: the table of increments, whose row is the commit point.

Owns two rows an increment: `planned` (the cut) before anything runs, `done` after everything is committed. Rule:
increments are 1, 2, 3 …, the next is planned only when the last is done, and of two runners one wins. Only a
restatement may leave numbers out, so that its own is above those of all rows that it brings. It may give up a plan that
is pending, and so may a plan of corrected code, in its place. So done rows may have gaps: `done_before` says what is
before one. A row without another epoch has that of the row before it.
The winner is named by Delta: both commit under the same app id on a table they opened before they looked, so the
second is refused. Rows decide, marks only guard.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from ..errors import DamagedLedger, LedgerConflict, LedgerError, LedgerGap
from ..times import UNBOUNDED
from .commit import append_row, create_table, was_restored, write_mark
from .compaction import compact
from .data_files import OpenTables, highest, live_files, mark_of, open_table, read_rows
from .ledger_rows import DoneRow, LandingDoneRow, LandingPlanRow, PlanRow
from .log_cleanup import trim_log
from .parquet_reader import how_to_restore, restore_command
from .row_content import RowContent
from .warehouse import LEDGER_SCHEMA

PLANNED, DONE = "planned", "done"
KEPT_VERSIONS = 256
"""So many versions of its log stay, two or three an increment."""
_DONE_MARK = f"ledger/{DONE}"
_DIGEST = "digest"
"""Key in a row's JSON: digest of all columns of the row, itself apart."""
_OLDEST = "ledger/oldest"
"""App id whose number is the oldest increment that can be asked for; vacuum raises it."""

C = TypeVar("C", bound=RowContent, covariant=True)
P = TypeVar("P", bound=RowContent)
D = TypeVar("D", bound=RowContent)


@dataclass(frozen=True)
class LedgerRow(Generic[C]):
    """One row, and what it says; ``written_at_ms`` is wall-clock time, given by the caller."""

    increment: int
    epoch: int
    phase: str
    content: C
    written_at_ms: int


class IncrementRows(NamedTuple, Generic[P, D]):
    """The two rows of an increment, as far as they are written."""

    planned: LedgerRow[P] | None
    done: LedgerRow[D] | None


class LedgerRows(NamedTuple, Generic[P, D]):
    """Rows of several increments, in their order."""

    planned: list[LedgerRow[P]]
    done: list[LedgerRow[D]]

    def last_done(self) -> LedgerRow[D] | None:
        return self.done[-1] if self.done else None

    def pending(self) -> LedgerRow[P] | None:
        """The highest plan, unless something is done at or above it; a plan below another was given up."""
        planned, last = self.planned[-1] if self.planned else None, self.last_done()
        return planned if planned is not None and (last is None or last.increment < planned.increment) else None

    def holds(self, increment: int) -> bool:
        """Whether there is a row of ``increment`` or of a later one."""
        return any(row.increment >= increment for row in (*self.planned, *self.done))


class LedgerOf(Generic[P, D]):
    """A ledger at ``path``, with plans and done rows of one kind; the table is created by the first plan."""

    def __init__(self, path: str, plan_row: type[P], done_row: type[D]) -> None:
        self.path = path
        self._plan_row, self._done_row = plan_row, done_row
        self._opened: OpenTables = {}
        self._last_read: tuple[int, LedgerRows[P, D]] | None = None
        self._kept: dict[str, pa.Table] = {}  # rows of the newest increments, by file

    def rows(self) -> list[LedgerRow[P] | LedgerRow[D]]:
        """Every row, by increment, planned before done; [] when there is no table."""
        by_phase = self._all()
        rows: list[LedgerRow[P] | LedgerRow[D]] = [*by_phase.planned, *by_phase.done]
        return sorted(rows, key=lambda row: row.increment)

    def rows_of(self, increment: int) -> IncrementRows[P, D]:
        """The rows of one increment. Reads no others."""
        by_phase = self._all(increment, increment)
        return IncrementRows(next(iter(by_phase.planned), None), by_phase.last_done())

    def newest(self) -> int:
        """The highest increment that is planned or done; 0: none is."""
        rows = self._newest()
        return max((row.increment for row in (*rows.planned, *rows.done)), default=0)

    def last_done(self) -> LedgerRow[D] | None:
        """The done row of the highest increment that has one. Reads the newest increments only."""
        return self._newest().last_done()

    def pending(self) -> LedgerRow[P] | None:
        """The planned row that has no done row yet. Reads the newest increments only."""
        return self._newest().pending()

    def plans(self, lowest: int = 0, highest: int = UNBOUNDED) -> list[LedgerRow[P]]:
        """Plans of the increments ``[lowest, highest]``, in order."""
        return self._all(lowest, highest).planned

    def done_rows(self, lowest: int = 0, highest: int = UNBOUNDED) -> list[LedgerRow[D]]:
        """Done rows of the increments ``[lowest, highest]``, in order."""
        return self._all(lowest, highest).done

    def done_before(self, increment: int, lowest: int = 0) -> LedgerRow[D] | None:
        """The last done row of ``[lowest, increment)``: what ``increment`` began with. None: there is none.

        Numbers between the two were given up, or left out by a restatement. Reads ever more rows downwards until one is
        done, so mostly those of one increment.
        """
        table = self._open()
        span, most = 1, increment - 1
        while table is not None and most >= lowest:
            least = max(lowest, most - span + 1)
            last = self._read(table, least, most).last_done()
            if last is not None:
                return last
            span, most = 2 * span, least - 1
        return None

    def plan(self, increment: int, content: P, *, epoch: int | None = None, written_at_ms: int) -> LedgerRow[P]:
        """Write the plan of the next increment (the first is 1); return its row. ``epoch`` None: that of the last one.

        Raises LedgerConflict when another runner planned it first; LedgerGap when it is not the next one, or the one
        before it is not done.
        """
        table = self._open_or_create()
        newest = self._read_newest(table)
        if newest.holds(increment):
            raise self._conflict(increment, PLANNED)
        pending, last = newest.pending(), newest.last_done()
        if pending is not None:
            raise LedgerGap(
                self.path,
                f"increment {pending.increment} done before {increment} is planned",
                f"increment {pending.increment} planned only",
                f"run increment {pending.increment} again",
            )
        wanted = 1 if last is None else last.increment + 1
        if increment != wanted:
            raise LedgerGap(self.path, f"increment {wanted}", f"increment {increment}", f"plan increment {wanted}")
        last_epoch = 0 if last is None else last.epoch
        epoch = last_epoch if epoch is None else epoch
        self._refuse_restored(table, increment, epoch, last_epoch)
        return self._append_plan(table, LedgerRow(increment, epoch, PLANNED, content, written_at_ms))

    def plan_restatement(self, increment: int, content: P, *, epoch: int, written_at_ms: int) -> LedgerRow[P]:
        """Write the plan of an increment that puts others' rows in the place of some; return its row.

        It may leave numbers out, continues after a RESTORE of the ledger, and gives up a plan that is pending: that one
        can never be done. Raises LedgerConflict when its number is taken, or when the pending one is done meanwhile.
        """
        table = self._open_or_create()
        if self._read_newest(table).holds(increment):
            raise self._conflict(increment, PLANNED)
        return self._append_plan(table, LedgerRow(increment, epoch, PLANNED, content, written_at_ms), against=[DONE])

    def plan_instead(
        self, pending: LedgerRow[P], increment: int, content: P, *, epoch: int, written_at_ms: int
    ) -> LedgerRow[P]:
        """Write a plan in the place of the one that is ``pending``, which is given up and can never be done; return its
        row. Raises LedgerConflict when it is not pending any more, or another runner planned something.
        """
        table = self._open_or_create()
        newest = self._read_newest(table)
        if newest.holds(increment) or newest.pending() != pending:
            raise self._conflict(increment, PLANNED)
        return self._append_plan(table, LedgerRow(increment, epoch, PLANNED, content, written_at_ms), against=[DONE])

    def begin(self, increment: int, content: D, *, epoch: int, written_at_ms: int) -> LedgerRow[D]:
        """The first row of a branch's ledger: ``increment`` as done, since its parent has done it.

        Raises LedgerConflict when the ledger has rows.
        """
        table = self._open_or_create()
        if self._read_newest(table).holds(0):
            raise LedgerConflict(self.path, "an empty ledger", "one with rows", "choose another name for the branch")
        return self._append_done(table, LedgerRow(increment, epoch, DONE, content, written_at_ms))

    def done(self, increment: int, content: D, *, epoch: int | None = None, written_at_ms: int) -> LedgerRow[D]:
        """Mark the pending increment as done: the commit point. Return its row. ``epoch`` None: that of the plan.

        Raises LedgerConflict when another runner did it first; LedgerGap when it was never planned.
        """
        table = self._open_or_create()
        newest = self._read_newest(table)
        last, pending = newest.last_done(), newest.pending()
        if last is not None and last.increment >= increment:
            raise self._conflict(increment, DONE)
        if pending is None or pending.increment != increment:
            got = "none" if pending is None else f"one of {pending.increment}, which gave it up"
            raise LedgerGap(self.path, f"a plan of increment {increment}", got, "plan the increment first")
        epoch = pending.epoch if epoch is None else epoch
        return self._append_done(table, LedgerRow(increment, epoch, DONE, content, written_at_ms))

    def refuse_done(self, increment: int) -> None:
        """Raises LedgerConflict when ``increment`` is done already: another runner was quicker."""
        last = self.last_done()
        if last is not None and last.increment >= increment:
            raise self._conflict(increment, DONE)

    def refuse_given_up(self, increment: int) -> None:
        """Raises LedgerConflict when ``increment``, which was planned, is done, or another is in its place."""
        pending = self.pending()
        if pending is None or pending.increment != increment:
            raise self._conflict(increment, DONE)

    def next_free(self) -> int:
        """A number above all that were ever planned here, also before a RESTORE of the ledger."""
        return max(self.newest(), self._marked(f"ledger/{PLANNED}")) + 1

    def oldest_kept(self) -> int:
        """The oldest increment that can be asked for; 0: vacuum has taken nothing yet."""
        return self._marked(_OLDEST)

    def version(self) -> int | None:
        """Newest version of its table; None when there is no table."""
        table = self._open()
        return None if table is None else table.version()

    def keep_from(self, increment: int) -> None:
        """From now on increments before ``increment`` cannot be asked for."""
        table = open_table(self.path)
        assert table is not None, f"{self.path}: no ledger to mark"
        if increment > (mark_of(table, self.path, _OLDEST) or 0):
            write_mark(table, self.path, _OLDEST, increment)

    def refuse_vacuumed(self, increment: int) -> None:
        """Raises LedgerError for an increment whose files may be gone."""
        oldest = self.oldest_kept()
        if increment < oldest:
            raise LedgerError(
                self.path,
                f"increment {oldest} or a later one",
                f"increment {increment}, which was {self._why_gone(oldest)}",
                f"the oldest that can be asked for is {oldest}",
            )

    def _why_gone(self, oldest: int) -> str:
        """What became of the increments before ``oldest``, in words."""
        return "vacuumed"

    def compact(self, increment: int) -> None:
        """Merge its small files, if ``increment``, which is at work, is one of those that do
        (state/tables/compaction.py). Forget the log before its newest versions: a runner at work asks for the newest
        only, also after a long pause.
        """
        version = compact(
            self.path,
            app_id="ledger/compaction",
            increment=increment,
            opened=self._opened,
        )
        if version is not None:
            trim_log(self.path, version - KEPT_VERSIONS)

    def _marked(self, app_id: str) -> int:
        """The last increment that its table is marked with under ``app_id``; 0: none."""
        table = self._open()
        return 0 if table is None else mark_of(table, self.path, app_id) or 0

    def _open(self) -> DeltaTable | None:
        return open_table(self.path, opened=self._opened)

    def _open_or_create(self) -> DeltaTable:
        return create_table(self.path, LEDGER_SCHEMA, opened=self._opened)

    def _all(self, lowest: int = 0, most: int = UNBOUNDED) -> LedgerRows[P, D]:
        table = self._open()
        return LedgerRows([], []) if table is None else self._read(table, lowest, most)

    def _newest(self) -> LedgerRows[P, D]:
        table = self._open()
        return LedgerRows([], []) if table is None else self._read_newest(table)

    def _read_newest(self, table: DeltaTable) -> LedgerRows[P, D]:
        """Rows of the last two increments: enough to see the done and the pending one. Where the last is a restatement
        that left numbers out and is pending, all rows. Read once a version of the table, which never changes.
        """
        if self._last_read is not None and self._last_read[0] == table.version():
            return self._last_read[1]
        newest = highest(table, "increment") or 0
        rows = self._read(table, newest - 1, newest, keeps=True)
        if newest >= 2 and not rows.done:
            rows = self._read(table, 0, newest)
        pending = rows.pending()
        self._refuse_lost(table, PLANNED, rows.planned)
        taken = pending.increment if pending is not None and pending.content.replaces else None
        if taken is None or mark_of(table, self.path, _DONE_MARK) != taken:
            self._refuse_lost(table, DONE, rows.done)  # a plan in the place of others has the mark too
        self._last_read = table.version(), rows
        return rows

    def _refuse_lost(self, table: DeltaTable, phase: str, rows: Sequence[LedgerRow[RowContent]]) -> None:
        """The newest row of a phase is that of the mark which was committed with it, unless the ledger was restored."""
        app_id, newest = f"ledger/{phase}", rows[-1].increment if rows else None
        mark = mark_of(table, self.path, app_id)
        if mark != newest and not was_restored(table, self.path, app_id):
            expected = f"the row of increment {mark} that is {phase}" if mark is not None else f"a mark {app_id}"
            got = "none" if newest is None else f"increment {newest} as the newest"
            raise DamagedLedger(self.path, expected, got, how_to_restore(self.path, None))

    def _read(self, table: DeltaTable, lowest: int, most: int, *, keeps: bool = False) -> LedgerRows[P, D]:
        """Rows of the increments ``[lowest, most]``, in order. ``keeps``: each file is read once, since none is written
        twice.
        """
        kept = self._kept if keeps else {}
        files = live_files(table, ("increment", lowest, most))
        parts = {
            file.path: kept[file.path] if file.path in kept else read_rows(self.path, [file], LEDGER_SCHEMA)
            for file in files
        }
        if keeps:
            self._kept = parts
        columns = pa.concat_tables([*parts.values(), LEDGER_SCHEMA.empty_table()])
        number = columns["increment"]
        asked = columns.filter(pc.and_(pc.greater_equal(number, lowest), pc.less_equal(number, most)))
        rows = LedgerRows[P, D]([], [])
        for row in sorted(asked.to_pylist(), key=lambda row: row["increment"]):
            increment, epoch, phase, at_ms = (row[name] for name in ("increment", "epoch", "phase", "written_at_ms"))
            content = self._checked_content(row)
            if phase == PLANNED:
                rows.planned.append(LedgerRow(increment, epoch, phase, self._plan_row.from_json(content), at_ms))
            else:
                rows.done.append(LedgerRow(increment, epoch, phase, self._done_row.from_json(content), at_ms))
        return rows

    def _checked_content(self, row: dict[str, Any]) -> dict[str, Any]:
        """What a row says, without its digest; rows from before have none."""
        content: dict[str, Any] = json.loads(row["content"])
        digest = content.pop(_DIGEST, None)
        if digest is not None and digest != _digest_of({**row, "content": _as_text(content)}):
            place = f"{self.path}, increment {row['increment']} {row['phase']}"
            raise DamagedLedger(place, "the row as it was written", "another", how_to_restore(self.path, None))
        return content

    def _append_plan(self, table: DeltaTable, row: LedgerRow[P], against: Sequence[str] = ()) -> LedgerRow[P]:
        self._append(table, row, against)
        return self._written(row.increment, row.phase, self._read_newest(table).planned)

    def _append_done(self, table: DeltaTable, row: LedgerRow[D]) -> LedgerRow[D]:
        self._append(table, row)
        return self._written(row.increment, row.phase, self._read_newest(table).done)

    def _append(self, table: DeltaTable, row: LedgerRow[RowContent], against: Sequence[str] = ()) -> None:
        """Commit ``row`` on the table that was opened before the checks, so that it can be read back. ``against``:
        phases of which no row may have been written since.
        """
        content = row.content.to_json()
        written = {**vars(row), "content": _as_text(content)}
        written["content"] = _as_text(content | {_DIGEST: _digest_of(written)})
        line = pa.Table.from_pylist([written], LEDGER_SCHEMA)
        try:
            # Of two commits that mark one app id Delta refuses the second, whichever rows they add.
            marks = [f"ledger/{phase}" for phase in against]
            append_row(table, self.path, line, app_id=f"ledger/{row.phase}", increment=row.increment, against=marks)
        except CommitFailedError as error:
            raise self._conflict(row.increment, row.phase) from error
        table.update_incremental()

    def _written(self, increment: int, phase: str, rows: list[LedgerRow[C]]) -> LedgerRow[C]:
        written = [row for row in rows if row.increment == increment]
        assert len(written) == 1, f"{self.path}: {len(written)} rows {phase} for increment {increment}"
        return written[0]

    def _refuse_restored(self, table: DeltaTable, increment: int, epoch: int, last_epoch: int) -> None:
        """A mark without its row: the ledger was restored. It continues only under a higher epoch."""
        mark = mark_of(table, self.path, f"ledger/{PLANNED}")
        if mark is not None and mark >= increment and epoch <= last_epoch:
            expected, next_step = (
                f"no increment after {increment - 1}",
                self._after_restore(increment - 1, last_epoch + 1),
            )
            raise LedgerConflict(
                self.path, expected, f"the mark of increment {mark}: the ledger was restored", next_step
            )

    def _after_restore(self, increment: int, epoch: int) -> str:
        """What to do about a ledger that was restored, and ends with ``increment``; only pipelines have epochs."""
        return how_to_restore(self.path, None)

    def _conflict(self, increment: int, phase: str) -> LedgerConflict:
        return LedgerConflict(
            self.path,
            f"increment {increment} not {phase} yet",
            f"a row of another runner that is {phase}",
            "let the other runner finish, then run again: what it did is skipped",
        )


def _as_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True)


def _digest_of(row: Mapping[str, Any]) -> str:
    """Of all columns of a row."""
    return hashlib.blake2b(repr([row[name] for name in LEDGER_SCHEMA.names]).encode(), digest_size=8).hexdigest()


class Ledger(LedgerOf[PlanRow, DoneRow]):
    """The ledger of a pipeline."""

    def __init__(self, path: str) -> None:
        super().__init__(path, PlanRow, DoneRow)

    def _after_restore(self, increment: int, epoch: int) -> str:
        return f"continue under epoch {epoch}: `{restore_command(self.path.rpartition('/')[0], increment)}`"

    def _why_gone(self, oldest: int) -> str:
        done = self.rows_of(oldest).done
        erased = None if done is None else done.content.erased
        return super()._why_gone(oldest) if erased is None else f"erased (by increment {oldest}: {erased['reason']})"


class LandingLedger(LedgerOf[LandingPlanRow, LandingDoneRow]):
    """The ledger of a topic's landing."""

    def __init__(self, path: str) -> None:
        super().__init__(path, LandingPlanRow, LandingDoneRow)
