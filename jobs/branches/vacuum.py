"""Vacuum: files that nobody can ask for any more, and those that were never committed.

Owns the decision of what may go. Rule: a file stays when it is live now, or at a version that a retained increment,
an unfinished restatement or a branch names. It also stays when an increment after the last done one wrote it (its
name begins with the number), since that one may be at work now. The ledger is read first, folders are listed next,
live files last, so whatever is committed in between stays too. Nothing is deleted before the ledger says from which
increment on it can be asked. What a topic's landing has committed always stays: records, dead letters, recorded
times. The heartbeat of a run that was lost stays as long as a schedule may go by it.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from deltalake.exceptions import DeltaError
from pyarrow import fs

from ...state.errors import ConfigError, Damaged
from ...state.tables.branch_files import current_tables
from ...state.tables.data_files import OpenTables, table_version
from ...state.tables.kept_below import files_below
from ...state.tables.ledger import LandingLedger, Ledger, LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow
from ...state.tables.log_cleanup import entries_before
from ...state.tables.names import LEDGER, TableName
from ...state.tables.replaced_files import (
    BY_INCREMENT,
    LOG,
    NOT_RETAINED,
    Waste,
    added_files,
    delete_files,
    live_paths,
)
from ...state.tables.warehouse import Warehouse, is_name
from ...state.wall_clock import now_ms
from .branches import pinned_versions

DAY_MS = 86_400_000
_LEDGER_VERSIONS = 20
"""So many versions of the ledger's log stay; nobody reads any but the newest."""
HEARTBEAT_DAYS = 30
"""So long after its last beat nobody waits for a run, whatever says that it is at work."""
UNCOMMITTED, LOST_RUN = "never committed", "of a run that was lost"


@dataclass(frozen=True)
class Vacuumed:
    """What may go, or went. ``oldest``: the first increment that can be asked for from now on; 0: all that could be."""

    waste: list[Waste]
    oldest: int
    is_deleted: bool

    def lines(self) -> list[dict[str, Any]]:
        """How many files and bytes, by table and reason: columns table, why, files, bytes."""
        lines: dict[tuple[str, str], dict[str, Any]] = {}
        for waste in self.waste:
            first = {"table": waste.table, "why": waste.reason, "files": 0, "bytes": 0}
            line = lines.setdefault((waste.table, waste.reason), first)
            line["files"] += 1
            line["bytes"] += waste.bytes
        return list(lines.values())


def vacuum(
    warehouse: Warehouse,
    pipeline: str,
    *,
    keep_increments: int | None = None,
    keep_days: float | None = None,
    delete: bool = False,
    clock_ms: Callable[[], int] = now_ms,
) -> Vacuumed:
    """Find files of a pipeline, and of the topics it reads, that may go; with ``delete``, delete them.

    ``keep_increments``: so many of the last can be asked for afterwards; ``keep_days``: those done since; neither: all,
    so that only files go that were never committed. Landed rows and their dead letters always stay. Safe at any time,
    beside a run too; one that died is run again. Raises ConfigError when both or less than 1 are given, and
    StorageError for a symbolic link among the files.
    """
    if keep_increments is not None and (keep_days is not None or keep_increments < 1):
        raise ConfigError("keep_increments", "1 or more, and no keep_days", str(keep_increments), "name one of both")
    # Written so that nan, which is neither less nor more than any number, is refused: no increment would be kept by it.
    if keep_days is not None and not 0 <= keep_days < math.inf:
        raise ConfigError("keep_days", "0 or more", str(keep_days), "give a number of days")
    work = _Vacuum(warehouse, pipeline, clock_ms())
    oldest = work.oldest(keep_increments, keep_days)
    if delete and oldest:
        work.ledger.keep_from(oldest)
    waste = list(work.find(oldest))
    if delete:
        delete_files(waste)
    return Vacuumed(waste, oldest, delete)


class _Vacuum:
    def __init__(self, warehouse: Warehouse, pipeline: str, at_ms: int) -> None:
        self.warehouse, self.pipeline, self.at_ms = warehouse, pipeline, at_ms
        self.tables = warehouse.pipeline(pipeline)
        self.ledger = Ledger(self.tables.ledger)
        self.pending = self.ledger.pending()
        self.done = self.ledger.done_rows()
        if not self.done and self.pending is None:
            raise ConfigError(f"pipeline {pipeline!r}", "a pipeline that was run", "no increment", "check the name")
        self.last = self.done[-1].increment if self.done else 0

    def oldest(self, keep_increments: int | None, keep_days: float | None) -> int:
        """The first increment to retain; never before what can be asked for already, never after the last."""
        retained = self.done
        if keep_increments is not None:
            retained = self.done[-keep_increments:]
        elif keep_days is not None:
            retained = [row for row in self.done if row.written_at_ms >= self.at_ms - keep_days * DAY_MS]
        first = (retained or self.done[-1:])[:1]
        is_asked = keep_increments is not None or keep_days is not None
        return max([self.ledger.oldest_kept(), *(row.increment for row in first if is_asked)])

    def find(self, oldest: int) -> Iterator[Waste]:
        """Of the pipeline's own tables, then of the topics that it reads."""
        listed = files_below(self.tables.root)
        pinned, begins = self._pinned(), self._begins(oldest)
        tables = {path.partition("/_delta_log/")[0] for path in listed if "/_delta_log/" in path}
        for table in sorted(table for table in tables if all(map(is_name, table.split("/")))):
            of_table = {p.removeprefix(f"{table}/"): info for p, info in listed.items() if p.startswith(f"{table}/")}
            begin = begins.get(table) if oldest else None
            yield from self._of_table(
                table, self.tables.table(table), of_table, begin, pinned.get(table, set()), self.last
            )
        for path, info in listed.items():
            number = re.match(r"_exchange/(\d+)/", path)
            if number is not None and int(number[1]) <= self.last:
                yield Waste("_exchange", self.tables.root, path, info.size, UNCOMMITTED)
            if path.startswith("_heartbeats/") and self._is_old(info, HEARTBEAT_DAYS):
                yield Waste("_heartbeats", self.tables.root, path, info.size, LOST_RUN)
        for topic in sorted({topic for row in self.done for topic in row.content.cut_to}):
            yield from self._of_topic(topic)

    def _begins(self, oldest: int) -> dict[str, int]:
        """The first version of each table that can be asked for; of the ledger, read at the newest, a late one; of
        current values the newest.
        """
        begins: dict[str, int] = {}
        for row in self.done:
            for table, version in row.content.versions.items():
                if row.increment >= oldest:
                    begins.setdefault(table, version)
        newest = table_version(self.tables.ledger) or 0
        for table in current_tables(self.tables.root):
            begins[table] = table_version(self.tables.table(table)) or 0
        return begins | {LEDGER: max(newest - _LEDGER_VERSIONS, 0)}

    def _pinned(self) -> dict[str, set[int]]:
        """Versions before that which branches and unfinished restatements need."""
        pinned = pinned_versions(self.warehouse, self.pipeline)
        for increment in self._unfinished():
            for row in self.done:
                if row.increment == increment:
                    for table, version in row.content.versions.items():
                        pinned.setdefault(table, set()).add(version)
        return pinned

    def _unfinished(self) -> Iterator[int]:
        """Increments of this pipeline that an unfinished restatement, its own or of its parent, goes back to."""
        pending = self.ledger.pending()  # a restatement that is planned after this looks at what can be asked for
        if pending is not None and pending.content.restates is not None:
            yield pending.content.restates
        forked = self.done[0].content.forked if self.done else None
        if forked is not None:
            parent = Ledger(self.warehouse.pipeline(forked["pipeline"]).ledger).pending()
            if parent is not None and parent.content.branch == self.pipeline:
                assert parent.content.branch_increment is not None
                yield parent.content.branch_increment

    def _of_topic(self, topic: str) -> Iterator[Waste]:
        ledger = self.warehouse.landing_ledger(topic)
        done = LandingLedger(ledger).last_done()
        if done is not None:
            for table, path in (
                (TableName.landed(topic), self.warehouse.landed(topic)),
                (TableName.landed_dead_letter(topic), self.warehouse.landed_dead_letter(topic)),
                (f"landing/{topic}/recorded_time", self.warehouse.recorded_time(topic)),
                (f"landing/{topic}/ledger", ledger),
            ):
                yield from self._of_table(table, path, files_below(path), None, set(), done.increment, done)

    def _of_table(
        self,
        table: str,
        path: str,
        listed: "dict[str, fs.FileInfo]",
        begin: int | None,
        pinned: set[int],
        last: int,
        landing: LedgerRow[LandingDoneRow] | None = None,
    ) -> Iterator[Waste]:
        """``begin``: the first version that can be asked for; None: all that was ever committed stays."""
        log = {p.removeprefix("_delta_log/"): info for p, info in listed.items() if p.startswith("_delta_log/")}
        try:
            committed, stays = self._named(path, begin, pinned)
        except (FileNotFoundError, DeltaError, Damaged):  # a merge trims a ledger's log meanwhile (Ledger.compact)
            committed, stays = self._named(path, begin, pinned)
        for name, info in listed.items():
            is_file = name.endswith(".parquet") and not name.startswith("_")
            if is_file and name not in stays and not self._may_be_at_work(name, info, last, landing):
                yield Waste(table, path, name, info.size, NOT_RETAINED if name in committed else UNCOMMITTED)
        for name, info in log.items():
            # What a killed commit leaves: an entry is written under another name first, by delta-rs as
            # "_commit_….json.tmp", by object_store in a local folder as "…#1".
            if (name.endswith(".tmp") or "#" in name) and self._is_old(info):
                yield Waste(table, path, f"_delta_log/{name}", info.size, UNCOMMITTED)
        if begin is not None:
            yield from self._old_log(table, path, log, min({begin, *pinned}))

    def _named(self, path: str, begin: int | None, pinned: set[int]) -> tuple[set[str], set[str]]:
        """Files that the log names, and those of them that versions from ``begin`` on and the ``pinned`` ones have.
        Where there is no table yet: none.
        """
        log = files_below(f"{path}/_delta_log")
        if not log:
            return set(), set()
        added = added_files(path, log)
        first = min(added, default=0) if begin is None else begin
        opened: OpenTables = {}
        stays = live_paths(path, None, opened)
        stays |= added[0] if first == 0 and 0 in added else live_paths(path, first, opened)
        stays |= {file for version, files in added.items() if version > first for file in files}
        for version in pinned:
            stays |= live_paths(path, version, opened)
        return {file for files in added.values() for file in files}, stays

    def _may_be_at_work(
        self, name: str, info: "fs.FileInfo", last: int, landing: LedgerRow[LandingDoneRow] | None
    ) -> bool:
        """Whether a file that nobody names may be of an increment after the last. Spark's names do not say of which."""
        numbered = BY_INCREMENT.match(name.rpartition("/")[2])
        if numbered is not None:
            return int(numbered[1]) > last
        return landing is None or _mtime_ms(info) >= landing.written_at_ms - DAY_MS

    def _old_log(self, table: str, path: str, log: "dict[str, fs.FileInfo]", oldest: int) -> Iterator[Waste]:
        """Entries before the newest checkpoint from which every version from ``oldest`` on can be read, if it was there
        long enough that nobody still reads from the one before.
        """
        settled = [name for name, info in log.items() if self._is_old(info)]
        for name in entries_before(log, settled, oldest):
            yield Waste(table, path, f"_delta_log/{name}", log[name].size, LOG)

    def _is_old(self, info: "fs.FileInfo", days: int = 1) -> bool:
        return _mtime_ms(info) < self.at_ms - days * DAY_MS


def _mtime_ms(info: "fs.FileInfo") -> int:
    return 0 if info.mtime_ns is None else int(info.mtime_ns // 1_000_000)
