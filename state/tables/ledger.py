"""The ledger: the table of increments, whose row is the commit point.

Owns two rows an increment: `planned` (the cut) before anything runs, `done` after everything is committed. Rule:
increments are 1, 2, 3 … without a gap, the next is planned only when the last is done, and of two runners one wins.
Only a restatement may leave numbers out, so that its own is above those of all rows that it brings, and may give up a
plan that is pending. A row without another epoch has that of the row before it.
The winner is named by Delta: both commit under the same app id on a table they opened before they looked, so the
second is refused. Rows decide, marks only guard.
"""

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from ..errors import LedgerConflict, LedgerError, LedgerGap
from .commit import (
    append_row,
    create_table,
    live_files,
    open_table,
    read_rows,
    transaction_version,
    write_mark,
)
from .compaction import compact
from .data_files import OpenTables, StorageOptions, highest
from .log_cleanup import trim_log
from .warehouse import LEDGER_SCHEMA

PLANNED, DONE = "planned", "done"
_EVERY = 2**63 - 1
KEPT_VERSIONS = 256
"""So many versions of its log stay, two or three an increment."""
_OLDEST = "ledger/oldest"
"""App id whose number is the oldest increment that can be asked for; vacuum raises it."""


@dataclass(frozen=True)
class LedgerRow:
    """One row. ``content`` is JSON; ``written_at_ms`` is wall-clock time, given by the caller."""

    increment: int
    epoch: int
    phase: str
    content: dict[str, Any]
    written_at_ms: int


class Ledger:
    """A ledger at ``path``; the table is created by the first plan."""

    def __init__(self, path: str, storage_options: StorageOptions = None) -> None:
        self.path = path
        self.storage_options = storage_options
        self._opened: OpenTables = {}

    def rows(self) -> list[LedgerRow]:
        """Every row, by increment, planned before done; [] when there is no table."""
        table = self._open()
        return [] if table is None else self._read(table, 0, _EVERY)

    def rows_of(self, increment: int) -> list[LedgerRow]:
        """The rows of one increment, planned before done; [] when it has none. Reads no others."""
        table = self._open()
        return [] if table is None else self._read(table, increment, increment)

    def last_done(self) -> LedgerRow | None:
        """The done row of the highest increment that has one. Reads the newest increments only."""
        return _last(self._newest(), DONE)

    def pending(self) -> LedgerRow | None:
        """The planned row that has no done row yet. Reads the newest increments only."""
        return _pending(self._newest())

    def done_rows(self, lowest: int = 0, highest: int = _EVERY) -> list[LedgerRow]:
        """Done rows of the increments ``[lowest, highest]``, in order."""
        table = self._open()
        return [] if table is None else [row for row in self._read(table, lowest, highest) if row.phase == DONE]

    def plan(
        self, increment: int, content: dict[str, Any], *, epoch: int | None = None, written_at_ms: int
    ) -> LedgerRow:
        """Write the plan of the next increment (the first is 1); return its row. ``epoch`` None: that of the last one.

        Raises LedgerConflict when another runner planned it first; LedgerGap when it is not the next one, or the one
        before it is not done.
        """
        table = self._open_or_create()
        newest = self._read_newest(table)
        if any(row.increment >= increment for row in newest):
            raise self._conflict(increment, PLANNED)
        pending, last = _pending(newest), _last(newest, DONE)
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
        return self._append(table, LedgerRow(increment, epoch, PLANNED, content, written_at_ms))

    def plan_restatement(self, increment: int, content: dict[str, Any], *, epoch: int, written_at_ms: int) -> LedgerRow:
        """Write the plan of an increment that puts others' rows in the place of some; return its row.

        It may leave numbers out, goes on after a RESTORE of the ledger, and gives up a plan that is pending: that one
        can never be done. Raises LedgerConflict when its number is taken.
        """
        table = self._open_or_create()
        if any(row.increment >= increment for row in self._read_newest(table)):
            raise self._conflict(increment, PLANNED)
        return self._append(table, LedgerRow(increment, epoch, PLANNED, content, written_at_ms))

    def begin(self, increment: int, content: dict[str, Any], *, epoch: int, written_at_ms: int) -> LedgerRow:
        """The first row of a branch's ledger: ``increment`` as done, since its parent has done it.

        Raises LedgerConflict when the ledger has rows.
        """
        table = self._open_or_create()
        if self._read_newest(table):
            raise LedgerConflict(self.path, "an empty ledger", "one with rows", "choose another name for the branch")
        return self._append(table, LedgerRow(increment, epoch, DONE, content, written_at_ms))

    def done(
        self, increment: int, content: dict[str, Any], *, epoch: int | None = None, written_at_ms: int
    ) -> LedgerRow:
        """Mark the pending increment as done: the commit point. Return its row. ``epoch`` None: that of the plan.

        Raises LedgerConflict when another runner did it first; LedgerGap when it was never planned.
        """
        table = self._open_or_create()
        newest = self._read_newest(table)
        last, pending = _last(newest, DONE), _pending(newest)
        if last is not None and last.increment >= increment:
            raise self._conflict(increment, DONE)
        if pending is None or pending.increment != increment:
            got = "none" if pending is None else f"one of {pending.increment}, which gave it up"
            raise LedgerGap(self.path, f"a plan of increment {increment}", got, "plan the increment first")
        epoch = pending.epoch if epoch is None else epoch
        return self._append(table, LedgerRow(increment, epoch, DONE, content, written_at_ms))

    def refuse_done(self, increment: int) -> None:
        """Raises LedgerConflict when ``increment`` is done already: another runner was quicker."""
        last = self.last_done()
        if last is not None and last.increment >= increment:
            raise self._conflict(increment, DONE)

    def next_free(self) -> int:
        """A number above all that were ever planned here, also before a RESTORE of the ledger."""
        marked = transaction_version(self.path, f"ledger/{PLANNED}", storage_options=self.storage_options)
        return max([marked or 0, *(row.increment for row in self._newest())]) + 1

    def oldest_kept(self) -> int:
        """The oldest increment that can be asked for; 0: vacuum has taken nothing yet."""
        return transaction_version(self.path, _OLDEST, storage_options=self.storage_options) or 0

    def keep_from(self, increment: int) -> None:
        """From now on increments before ``increment`` cannot be asked for."""
        if increment > self.oldest_kept():
            write_mark(self.path, _OLDEST, increment, storage_options=self.storage_options)

    def refuse_vacuumed(self, increment: int) -> None:
        """Raises LedgerError for an increment whose files may be gone."""
        oldest = self.oldest_kept()
        if increment < oldest:
            raise LedgerError(
                self.path,
                f"increment {oldest} or a later one",
                f"increment {increment}, which was vacuumed",
                f"the oldest that can be asked for is {oldest}",
            )

    def compact(self, increment: int) -> None:
        """Merge its small files, if ``increment``, which is at work, is one of those that do
        (state/tables/compaction.py), and forget the log before its newest versions: who is at work asks for the newest
        only, also after a long pause.
        """
        version = compact(
            self.path,
            app_id="ledger/compaction",
            increment=increment,
            storage_options=self.storage_options,
            opened=self._opened,
        )
        if version is not None:
            trim_log(self.path, version - KEPT_VERSIONS)

    def _open(self) -> DeltaTable | None:
        return open_table(self.path, storage_options=self.storage_options, opened=self._opened)

    def _open_or_create(self) -> DeltaTable:
        return create_table(self.path, LEDGER_SCHEMA, storage_options=self.storage_options, opened=self._opened)

    def _newest(self) -> list[LedgerRow]:
        table = self._open()
        return [] if table is None else self._read_newest(table)

    def _read_newest(self, table: DeltaTable) -> list[LedgerRow]:
        """Rows of the last two increments: enough for what is done and what is pending. Where the last is a restatement
        that left numbers out and is pending, all rows.
        """
        newest = highest(table, "increment") or 0
        rows = self._read(table, newest - 1, newest)
        return rows if newest < 2 or _last(rows, DONE) is not None else self._read(table, 0, newest)

    def _read(self, table: DeltaTable, lowest: int, most: int) -> list[LedgerRow]:
        """Rows of the increments ``[lowest, most]``, in order."""
        found = read_rows(self.path, live_files(table, ("increment", lowest, most)), LEDGER_SCHEMA)
        number = found["increment"]
        asked = found.filter(pc.and_(pc.greater_equal(number, lowest), pc.less_equal(number, most)))
        rows = [
            LedgerRow(row["increment"], row["epoch"], row["phase"], json.loads(row["content"]), row["written_at_ms"])
            for row in asked.to_pylist()
        ]
        return sorted(rows, key=lambda row: (row.increment, row.phase != PLANNED))

    def _append(self, table: DeltaTable, row: LedgerRow) -> LedgerRow:
        """Commit ``row`` on the table that was opened before the checks, then read it back."""
        content = json.dumps(row.content, sort_keys=True)
        columns = [row.increment], [row.epoch], [row.phase], [content], [row.written_at_ms]
        line = pa.table([pa.array(c, f.type) for c, f in zip(columns, LEDGER_SCHEMA, strict=True)], LEDGER_SCHEMA)
        try:
            append_row(table, self.path, line, app_id=f"ledger/{row.phase}", increment=row.increment)
        except CommitFailedError as error:
            raise self._conflict(row.increment, row.phase) from error
        table.update_incremental()
        written = [r for r in self._read_newest(table) if (r.increment, r.phase) == (row.increment, row.phase)]
        assert len(written) == 1, f"{self.path}: {len(written)} rows {row.phase} for increment {row.increment}"
        return written[0]

    def _refuse_restored(self, table: DeltaTable, increment: int, epoch: int, last_epoch: int) -> None:
        """A mark without its row: the ledger was restored. It goes on only under a higher epoch."""
        marked = table.transaction_version(f"ledger/{PLANNED}")
        if marked is not None and marked >= increment and epoch <= last_epoch:
            raise LedgerConflict(
                self.path,
                f"no increment after {increment - 1}",
                f"the mark of increment {marked}: the ledger was restored",
                f"go on under epoch {last_epoch + 1}: `replay restore --to {increment - 1}`",
            )

    def _conflict(self, increment: int, phase: str) -> LedgerConflict:
        return LedgerConflict(
            self.path,
            f"increment {increment} not {phase} yet",
            f"a row of another runner that is {phase}",
            "let the other runner finish, then run again: what it did is skipped",
        )


def _last(rows: list[LedgerRow], phase: str) -> LedgerRow | None:
    return next((row for row in reversed(rows) if row.phase == phase), None)


def _pending(rows: list[LedgerRow]) -> LedgerRow | None:
    """The highest plan, unless something is done at or above it; a plan below another was given up."""
    last, planned = _last(rows, DONE), _last(rows, PLANNED)
    return planned if planned is not None and (last is None or last.increment < planned.increment) else None
