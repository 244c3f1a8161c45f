"""What an erasure takes away, found in the tables as they are, without changing any.

Owns the search. Rule: a pipeline is concerned when it has rows of the key, has read records that were erased, or has
files of earlier increments with some. What would make an erasure half done is refused here, before it begins: landings
and increments that were planned and are not done.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...state.errors import ConfigError, LandingError
from ...state.tables.branch_files import (
    current_tables,
    landed_files,
    refuse_older_landing_ledger,
    table_files,
    table_names,
)
from ...state.tables.data_files import read_files
from ...state.tables.files_in_place import source_in_place
from ...state.tables.kept_below import below, files_below
from ...state.tables.ledger import LandingLedger, Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow, Excluded, LandingDoneRow, PlanRow
from ...state.tables.names import CURRENT, LEDGER, QUALITY_METRICS, QUALITY_RESULTS, TableName
from ...state.tables.object_stores import open_filesystem
from ...state.tables.out_of_play import erased_offsets
from ...state.tables.parquet_reader import DataFile, open_file
from ...state.tables.sought import Sought
from ...state.tables.warehouse import Warehouse
from ..history.fsck import pipelines_of
from ..landing.erased_records import Offsets, offsets_of
from ..replay.unfinished import refuse_pending, unfinished
from .branches import branches
from .bytes_proof import Remains
from .erased_tables import ERASE, ErasedRows, rows_that_go

_NO_INCREMENTS = (LEDGER, QUALITY_RESULTS, QUALITY_METRICS, CURRENT)
"""Tables of a pipeline that are none of its increments'."""


@dataclass(frozen=True)
class PipelinePart:
    """What an erasure does to a pipeline. ``rows``: how many go, by table. ``restates``: an increment of its own leaves
    them out; else only files go that earlier increments need. ``oldest``: the increment from which on it can be asked
    for afterwards; None: before it is done.
    """

    pipeline: str
    rows: Mapping[str, int]
    restates: bool
    oldest: int | None = None


@dataclass(frozen=True)
class WhatGoes:
    """Of a warehouse: what is ``sought`` in the records of ``topics``, and in all that was made of any."""

    warehouse: Warehouse
    topics: Sequence[str]
    sought: Sought

    def landed(self) -> dict[str, Offsets]:
        """Offsets by partition, by topic. Raises ConfigError for a topic that was never landed, or lies in place, and
        LandingError while a landing is unfinished.
        """
        offsets = dict[str, Offsets]()
        for topic in self.topics:
            last = self._last_landing(topic)
            if last.content.in_place is not None:
                place = source_in_place(self.warehouse, topic, last)["lake"]["place"]
                expected, got = "records in its own table", f"some in place, in {place}"
                next_step = "write them into its own first (replay land --copy), then erase it there too"
                raise ConfigError(f"topic {topic!r}", expected, got, next_step)
            files = landed_files(self.warehouse, topic, last)
            offsets[topic] = offsets_of(self.warehouse.landed(topic), files, self.sought)
        return offsets

    def places(self, landed: Mapping[str, Offsets]) -> Excluded:
        """Of all records that were erased so far, and of those ``landed``."""
        places: Excluded = {}
        for topic in self.warehouse.topics():
            by_partition = {p: {*of} for p, of in landed.get(topic, {}).items()}
            for partition, offsets in erased_offsets(self.warehouse, topic).items():
                by_partition.setdefault(str(partition), set()).update(offsets)
            if by_partition:
                places[topic] = {p: sorted(of) for p, of in by_partition.items()}
        return places

    def pipelines(self) -> Iterator[str]:
        """Parents before their branches."""
        known, pipelines = branches(self.warehouse), pipelines_of(self.warehouse)
        yield from (name for name in pipelines if name not in known)
        yield from (name for name in known if name in pipelines)

    def part(self, pipeline: str, landed: Mapping[str, Offsets], places: Excluded) -> PipelinePart | None:
        """None: it has nothing of it, and has read nothing of what is erased (``places``). Raises LedgerError where it
        is concerned, and an increment is unfinished.
        """
        ledger = Ledger(self.warehouse.pipeline(pipeline).ledger)
        last, pending = ledger.last_done(), ledger.pending()
        done = DoneRow() if last is None else last.content
        rows = rows_that_go(self.warehouse, pipeline, done, ErasedRows(self.sought, places))
        restates = bool(rows) or _has_read(done, places)
        is_touched = restates or self._is_in_other_files(pipeline, done)
        # An erasure that died is given up and begun again (erase_rows), also where its tables have lost all rows
        # already.
        if pending is not None and pending.content.kind == ERASE:
            restates = is_touched = True
        elif pending is not None and (is_touched or any(landed.get(topic) for topic in pending.content.cut_to)):
            self._refuse(pipeline, pending)
        return PipelinePart(pipeline, rows, restates) if is_touched and last is not None else None

    def _refuse(self, pipeline: str, pending: LedgerRow[PlanRow]) -> None:
        refuse_pending(self.warehouse, pipeline, pending)
        raise unfinished(pipeline, pending, "run it to its end first, or give it up with `replay restore --abandon`")

    def _last_landing(self, topic: str) -> LedgerRow[LandingDoneRow]:
        ledger = LandingLedger(self.warehouse.landing_ledger(topic))
        last, pending = ledger.last_done(), ledger.pending()
        if last is None:
            raise ConfigError(f"topic {topic!r}", "a landed topic", "one that was never landed", "check the name")
        if pending is not None and pending.content.lands_records:
            expected, got = "no unfinished landing", f"increment {pending.increment} planned only"
            raise LandingError(f"topic {topic}", expected, got, "land the topic again, which finishes it")
        if pending is None:
            refuse_older_landing_ledger(self.warehouse, topic, ledger, last)
        return last

    def _is_in_other_files(self, pipeline: str, done: DoneRow) -> bool:
        """Whether files in the pipeline's folder that it does not need any more have some."""
        root, live = self.warehouse.pipeline(pipeline).root, set[str]()
        for table in table_names(done):
            files = table_files(self.warehouse, pipeline, done, table)
            live |= {f"{table}/{file.path}" for file in files if file.root is None}
        return any(
            self._is_in(root, name)
            for name in files_below(root)
            if name.endswith(".parquet")
            and name not in live
            and "/_delta_log/" not in name
            and TableName(name).kind not in _NO_INCREMENTS
        )

    def _is_in(self, root: str, name: str) -> bool:
        filesystem, path = open_filesystem(below(root, name))
        try:
            with filesystem.open_input_file(path) as source:
                batches = pq.ParquetFile(source).iter_batches()
                return any(self.sought.rows(pa.Table.from_batches([batch])).any() for batch in batches)
        except (pa.ArrowException, OSError, ValueError):  # half written; the proof looks at its bytes
            return False

    # --- tables whose versions no ledger names ------------------------------------------------------------------

    def tables_beside(self) -> dict[str, str]:
        """Landed dead letters, verdicts, and current values: path by name."""
        tables = {str(TableName.landed_dead_letter(t)): self.warehouse.landed_dead_letter(t) for t in self.topics}
        for pipeline in pipelines_of(self.warehouse):
            own = self.warehouse.pipeline(pipeline)
            tables[f"{pipeline}/{QUALITY_RESULTS}"] = own.quality_results
            tables |= {f"{pipeline}/{table}": own.table(table) for table in current_tables(own.root)}
        return tables

    def goes(self, table: str, rows: pa.Table) -> np.ndarray:
        """Of rows of such a table which go: of verdicts, whose witnesses are JSON, those that mention a key."""
        return self.sought.rows(rows, mentions=table.endswith(f"/{QUALITY_RESULTS}"))

    def beside(self) -> dict[str, int]:
        """How many rows of them go."""
        counts = dict[str, int]()
        for table, path in self.tables_beside().items():
            going = partial(self.goes, table)
            counts[table] = sum(self._count(path, file, going) for file in read_files(path))
        return {table: count for table, count in counts.items() if count}

    # --- what stays ---------------------------------------------------------------------------------------------

    def mentions(self, landed: Mapping[str, Offsets]) -> Iterator[Remains]:
        """Tables with rows that mention something and stay: records under other keys or in other topics, and what was
        made of them.
        """
        for topic in self.warehouse.topics():
            last = LandingLedger(self.warehouse.landing_ledger(topic)).last_done()
            if last is not None:
                path, files = self.warehouse.landed(topic), landed_files(self.warehouse, topic, last)
                count = sum(self._count(path, file, self._is_mentioned) for file in files)
                count -= sum(map(len, landed.get(topic, {}).values()))
                yield from _mentioned(TableName.landed(topic), count)
        erased = ErasedRows(self.sought, self.places(landed))
        for pipeline in self.pipelines():
            last_done = Ledger(self.warehouse.pipeline(pipeline).ledger).last_done()
            for table in table_names(DoneRow() if last_done is None else last_done.content):
                assert last_done is not None, "it has tables"
                path = self.warehouse.pipeline(pipeline).table(table)
                count = 0
                for file in table_files(self.warehouse, pipeline, last_done.content, table):
                    gone = erased.count(table, path, file)
                    count += max(0, self._count(path, file, self._is_mentioned) - gone)
                yield from _mentioned(f"{pipeline}/{table}", count)

    def _is_mentioned(self, rows: pa.Table) -> np.ndarray:
        return self.sought.rows(rows, mentions=True)

    def _count(self, path: str, file: DataFile, is_one: Callable[[pa.Table], np.ndarray]) -> int:
        with open_file(path, file) as opened:
            return sum(int(is_one(pa.Table.from_batches([one])).sum()) for one in opened.rows().iter_batches())


def _mentioned(table: str, count: int) -> Iterator[Remains]:
    if count > 0:
        yield Remains(table, f"{count:,} {'row mentions it and stays' if count == 1 else 'rows mention it and stay'}")


def _has_read(done: DoneRow, places: Excluded) -> bool:
    """Whether records at ``places`` were read, and nobody has taken what was made of them out since."""
    for topic, by_partition in places.items():
        for p, offsets in by_partition.items():
            end = done.cut_to.get(topic, {}).get(p, 0)
            out = {*(done.excluded or {}).get(topic, {}).get(p, ())}
            if any(offset < end and offset not in out for offset in offsets):
                return True
    return False
