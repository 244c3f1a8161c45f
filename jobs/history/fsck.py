"""Fsck: all that a warehouse holds is read and compared, so that damage is known before somebody needs what it hit.

Owns the comparisons: rows of ledgers with their digests and marks, Delta's logs with the digests in ledgers, and what
commits of others have left. Also the length, seal and page checksums of every file with its log, and rows of outputs
and landed topics with the books.
Rule: nothing is written; every finding says what is wrong and how to repair it. It reads everything, unlike
runs, whose cost follows the change. Damage of a whole warehouse that was put back as it once was cannot be known.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc
from pyarrow import fs

from ...state.errors import ConfigError, DamagedFile, DamagedLedger, DamagedTable, ReplayError, TouchedTable
from ...state.tables.branch_files import (
    current_tables,
    existing_tables,
    landed_files,
    refuse_older_landing_ledger,
    refuse_older_ledger,
    table_files,
    table_names,
    table_parts,
)
from ...state.tables.data_files import DataFile, OpenTables, open_table, read_files
from ...state.tables.delta_log import refuse_unknown_features
from ...state.tables.foreign_commits import refuse_ever_altered, refuse_touched
from ...state.tables.ledger import LandingLedger, Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import LEDGER, TableName
from ...state.tables.object_stores import open_filesystem
from ...state.tables.parquet_reader import how_to_restore, open_file
from ...state.tables.warehouse import Warehouse, is_name
from ...state.times import UNBOUNDED
from ..tape.landed_slice import Slice

_NO_PIPELINES = ("landed", "landed_dead_letter", "landing", "branches")


@dataclass(frozen=True)
class Finding:
    """What is wrong at ``place``, and how to repair it."""

    place: str
    wrong: str
    repair: str


@dataclass
class Examined:
    """What was read, and what was found; [] when all is as it was committed."""

    files: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)


def fsck(
    warehouse: Warehouse, pipeline: str | None = None, on_table: Callable[[str], None] = lambda table: None
) -> Examined:
    """Examine ``pipeline`` and the topics that it reads; None: all pipelines and topics.

    ``on_table``: called with each table before it is read. Raises nothing for damage, ConfigError for a pipeline that
    is not there.
    """
    known = pipelines_of(warehouse)
    if pipeline is not None and pipeline not in known:
        raise ConfigError("fsck", f"a pipeline, one of {', '.join(known) or '(none)'}", pipeline, "check the name")
    work = _Fsck(warehouse, on_table)
    topics: set[str] = set() if pipeline is not None else set(warehouse.topics())
    for name in known if pipeline is None else [pipeline]:
        topics |= work.examine_pipeline(name)
    for topic in sorted(topics):
        work.examine_topic(topic)
    if pipeline is None:
        work.examine_commits(warehouse.branches)
    return work.examined


class _Fsck:
    def __init__(self, warehouse: Warehouse, on_table: Callable[[str], None]) -> None:
        self.warehouse, self.on_table, self.examined = warehouse, on_table, Examined()
        self._read: dict[str, bool] = {}
        """Of every file that was read, by its path, whether it was whole."""
        self._restorable: dict[str, list[int]] = {}
        """Of the folder of a pipeline, where it was needed, the numbers to which it can go back."""

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """What is wrong is written down, and the next thing looked at."""
        try:
            yield
        except ReplayError as error:
            repair = error.next_step
            if isinstance(error, DamagedFile) and error.increment is not None:
                repair = how_to_restore(error.table, error.increment, self._numbers_of)
            self._note(error.place, f"expected {error.expected}, got {error.got}", repair)
        except OSError as error:
            self._note(str(error.filename or self.warehouse.root), str(error), "let this user read it")

    def _note(self, place: str, wrong: str, repair: str) -> None:
        finding = Finding(place, wrong, repair)
        if finding not in self.examined.findings:
            self.examined.findings.append(finding)

    def _numbers_of(self, folder: str) -> list[int]:
        """To which the pipeline can go back: none that was given up or vacuumed; none where its ledger is damaged."""
        if folder not in self._restorable:
            self._restorable[folder] = []
            with suppress(ReplayError, OSError):
                ledger = Ledger(f"{folder}/{LEDGER}")
                oldest, done = ledger.oldest_kept(), [row.increment for row in ledger.done_rows()]
                self._restorable[folder] = [each for each in (0, *done) if each >= oldest]
        return self._restorable[folder]

    # --- a pipeline ------------------------------------------------------------------------------------------

    def examine_pipeline(self, pipeline: str) -> set[str]:
        """Its ledger and tables; the topics that it reads, as far as the ledger can say."""
        ledger = Ledger(self.warehouse.pipeline(pipeline).ledger)
        rows: list[LedgerRow[DoneRow]] = []
        with self._noting():
            self.on_table(f"{pipeline}/ledger")
            self._examine_files(ledger.path, read_files(ledger.path))
            oldest = ledger.oldest_kept()
            # Files of earlier increments may be gone: vacuum wrote this number down before it deleted them.
            rows = [row for row in ledger.done_rows() if row.increment >= oldest]
            last = ledger.last_done()
            with suppress(TouchedTable):  # every table is looked at by itself
                refuse_older_ledger(self.warehouse, pipeline, ledger, last)
            self._refuse_gap(ledger, rows)
        self.examine_commits(ledger.path)
        for table in sorted({name for row in rows for name in table_names(row.content)}):
            self.on_table(f"{pipeline}/{table}")
            self._examine_table(pipeline, table, rows)
            self.examine_commits(self.warehouse.pipeline(pipeline).table(table), rows[-1].content.versions.get(table))
        tables = self.warehouse.pipeline(pipeline)
        kept = [tables.table(name) for name in current_tables(tables.root)]
        for path in (tables.quality_results, tables.quality_metrics, *kept):
            with self._noting():
                self._examine_files(path, read_files(path))
            self.examine_commits(path)
        if rows:
            self._compare_books(pipeline, rows)
        return {topic for row in rows for topic in row.content.cut_to}

    @staticmethod
    def _refuse_gap(ledger: Ledger, rows: list[LedgerRow[DoneRow]]) -> None:
        """Increments follow each other; only one in the place of others leaves numbers out."""
        replacing = {plan.increment for plan in ledger.plans() if plan.content.replaces}
        for before, row in pairwise(rows):
            if row.increment != before.increment + 1 and row.increment not in replacing:
                expected, got = f"a done row of increment {before.increment + 1}", f"{row.increment} as the next"
                raise DamagedLedger(ledger.path, expected, got, how_to_restore(ledger.path, None))

    def _examine_table(self, pipeline: str, table: str, rows: list[LedgerRow[DoneRow]]) -> None:
        """As of every increment that can be asked for; the newest first, which says most."""
        seen: set[tuple[str, int]] = set()
        for row in reversed(rows):
            parts = [(part.path, part.version) for part in table_parts(self.warehouse, pipeline, row.content, table)]
            if set(parts) <= seen:
                continue
            seen |= set(parts)
            with self._noting():
                files = table_files(self.warehouse, pipeline, row.content, table)
                self._examine_files(self.warehouse.pipeline(pipeline).table(table), files)

    def _examine_files(self, path: str, files: Iterable[DataFile]) -> None:
        """Every page of every file, each once."""
        for file in files:
            name = _name_of(path, file)
            if name not in self._read:
                # False until the end of the file: what is compared with the books below leaves out a table with damaged
                # files, of which that damage is reported already.
                self._read[name] = False
                self.examined.files += 1
                self.examined.bytes += file.bytes
                with self._noting():
                    self._read_whole(path, file)
                    self._read[name] = True

    def _read_whole(self, path: str, file: DataFile) -> None:
        with open_file(path, file) as opened:
            rows = sum(batch.num_rows for batch in opened.rows().iter_batches())
        if rows != file.records:
            place = f"{file.root or path}/{file.path}"
            raise DamagedTable(place, f"{file.records} rows, as the log says", f"{rows}", how_to_restore(path, None))

    def examine_commits(self, path: str, since: int | None = None) -> None:
        """Of others: what is left of those since the version ``since`` that the ledger names, or of earlier ones."""
        with self._noting():
            table = open_table(path)
            if table is not None:
                refuse_unknown_features(table, path, writes=True)
                refuse_touched(table, path, table.version() if since is None else since)
                refuse_ever_altered(table, path)

    def _compare_books(self, pipeline: str, rows: list[LedgerRow[DoneRow]]) -> None:
        """Rows of outputs by increment, with what the ledger says was written since the last restatement or fork."""
        first = max((n for n, row in enumerate(rows) if row.content.kind or row.content.forked), default=-1) + 1
        for name in sorted({name for row in rows[first:] for name in row.content.outputs or {}}):
            path = self.warehouse.pipeline(pipeline).output(name)
            with self._noting():
                files = table_files(self.warehouse, pipeline, rows[-1].content, TableName.output(name))
                counts = self._rows_by_increment(path, files)
                if counts is None:
                    continue
                for row in rows[first:]:
                    booked = (row.content.outputs or {}).get(name, 0)
                    if counts[row.increment] != booked:
                        place, got = f"{path}, increment {row.increment}", f"{counts[row.increment]}"
                        raise DamagedTable(place, f"{booked} rows, as the ledger says", got, how_to_restore(path, None))

    def _rows_by_increment(self, path: str, files: list[DataFile]) -> Counter[int] | None:
        """None where a file is damaged, which has been said."""
        counts: Counter[int] = Counter()
        for file in files:
            if not self._read.get(_name_of(path, file)):
                return None
            with open_file(path, file) as opened:
                for batch in opened.rows().iter_batches(columns=["increment"]):
                    for pair in pc.value_counts(batch.column(0)).to_pylist():
                        counts[pair["values"]] += pair["counts"]
        return counts

    # --- a topic ---------------------------------------------------------------------------------------------

    def examine_topic(self, topic: str) -> None:
        """The ledger of its landing, its rows, its recorded times."""
        ledger, path = LandingLedger(self.warehouse.landing_ledger(topic)), self.warehouse.landed(topic)
        with self._noting():
            self.on_table(f"landing/{topic}/ledger")
            self._examine_files(ledger.path, read_files(ledger.path))
            done, last = ledger.done_rows(), ledger.last_done()
            self.examine_commits(ledger.path)
            self.examine_commits(path, None if last is None else last.content.table_version)
            opened: OpenTables = {}
            try:
                refuse_older_landing_ledger(self.warehouse, topic, ledger, last, opened)
            except TouchedTable:
                opened = {}  # said already; what the ledger names is examined
            if last is None:
                return
            self.on_table(TableName.landed(topic))
            files = landed_files(self.warehouse, topic, last, None, opened or None)
            self._examine_files(path, files)
            landed = sum(file.records for file in files)
            booked = sum(row.content.rows_added for row in done)
            if landed != booked:
                raise DamagedTable(
                    path, f"{booked} records, as its ledger says", f"{landed}", how_to_restore(path, None)
                )
            self._examine_offsets(path, files, last.content.cut_to)
        with self._noting():
            dead = self.warehouse.landed_dead_letter(topic)
            self.examine_commits(dead)
            self._examine_files(dead, read_files(dead))
        with self._noting():
            times = self.warehouse.recorded_time(topic)
            self.examine_commits(times)
            time_files = read_files(times)
            wanted = sum(len(row.content.recorded_time or {}) for row in ledger.done_rows())
            self._examine_files(times, time_files)
            if sum(file.records for file in time_files) < wanted:
                got = f"{sum(file.records for file in time_files)}"
                raise DamagedTable(
                    times, f"{wanted} recorded times, as the ledger says", got, how_to_restore(times, None)
                )

    def _examine_offsets(self, path: str, files: list[DataFile], cut_to: dict[str, int]) -> None:
        """They rise in each partition, and end before what landing will write next."""
        for partition, end in cut_to.items():
            own = tuple(file for file in files if file.partition == int(partition))
            if not all(self._read.get(f"{path}/{file.path}") for file in own):
                return
            last = -1
            for offsets in Slice(path, own, 0, UNBOUNDED).offsets():
                if offsets[0] <= last or (np.diff(offsets) <= 0).any():
                    raise DamagedTable(path, f"offsets that rise after {last}", "others", how_to_restore(path, None))
                last = int(offsets[-1])
            if last >= end:
                expected, got = f"offsets below {end} in partition {partition}", f"offset {last}"
                raise DamagedTable(path, expected, got, how_to_restore(path, None))


def pipelines_of(warehouse: Warehouse) -> list[str]:
    """Folders of the warehouse that have a table of a pipeline, in alphabetical order."""
    filesystem, path = open_filesystem(warehouse.root)
    entries = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    folders = [entry.base_name for entry in entries if entry.type == fs.FileType.Directory]
    return sorted(
        name
        for name in folders
        if name not in _NO_PIPELINES and is_name(name) and existing_tables(warehouse.pipeline(name).root)
    )


def _name_of(path: str, file: DataFile) -> str:
    """By which a file is known; one in place has a part for each partition."""
    part = "" if file.in_place is None else f", partition {file.partition}"
    return f"{file.root or path}/{file.path}{part}"
