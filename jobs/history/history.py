"""Asking a pipeline what it was: outputs, stores and positions as of any increment that is done.

Owns the choice of the increment and the names that SQL knows. Rule: everything is read at the table versions in the
increment's done row, through jobs/history/committed_tables.py and jobs/history/store_reader.py, so that all answers
of one ``AsOf`` are of one increment.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ...state.errors import ConfigError, LedgerError
from ...state.tables.branch_files import TablePart, table_names, table_parts
from ...state.tables.data_files import live_files, open_table, read_rows
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow, PlanRow, cut_of
from ...state.tables.names import OUTPUTS, QUALITY_METRICS, QUALITY_RESULTS, STATE, TableName
from ...state.tables.rows_in_force import in_force
from ...state.tables.warehouse import Warehouse
from ..topology.topology import Topology
from .committed_tables import done_row, read_changelog, read_newest, read_state, read_table
from .landed_tables import landed_tables
from .queries import run_query
from .store_reader import read_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class History:
    """Everything that a pipeline ever was. ``topology``: with it stores are shown as their operators would show them,
    without it as their live rows.
    """

    warehouse: Warehouse
    pipeline: str
    topology: Topology | None = None

    @property
    def ledger(self) -> Ledger:
        """The pipeline's ledger."""
        return Ledger(self.warehouse.pipeline(self.pipeline).ledger)

    def at(self, increment: int | None = None, *, stream_time_ms: int | None = None) -> "AsOf":
        """The pipeline as of ``increment`` (None: the last done one).

        ``stream_time_ms``: as of the last increment at whose end no task had gone past that stream time. Raises
        LedgerError for an increment that is not done, or when the first one had gone past the time already.
        """
        if stream_time_ms is None:
            return AsOf(self, done_row(self.warehouse, self.pipeline, increment))
        if increment is not None:
            raise ConfigError("history", "an increment or a stream time", "both", "leave one of them out")
        row, began = self._around(lambda row: row.content.stream_time_ms <= stream_time_ms)
        if row is None:
            got = (
                "none"
                if began is None
                else f"increment {began.increment}, which went up to {began.content.stream_time_ms}"
            )
            raise LedgerError(
                self.ledger.path, f"an increment up to stream time {stream_time_ms}", got, "ask for a later time"
            )
        return AsOf(self, row)

    def increments(self) -> list[LedgerRow[DoneRow]]:
        """Done rows of all increments, in order."""
        return self.ledger.done_rows()

    def reading(self, topic: str, partition: int, offset: int) -> int | None:
        """The increment that read the landed record; None when none has yet, or a restore undid those
        that had. Looks at few rows of the ledger where nothing was ever restated.
        """
        _, reader = self._around(lambda row: cut_of(row.content.cut_to, topic, partition) <= offset)
        return None if reader is None else reader.increment

    def plan(self, increment: int) -> LedgerRow[PlanRow] | None:
        """The planned row of ``increment``, or None (a branch has none of its parent's)."""
        return self.ledger.rows_of(increment).planned

    def _around(
        self, holds: Callable[[LedgerRow[DoneRow]], bool]
    ) -> tuple[LedgerRow[DoneRow] | None, LedgerRow[DoneRow] | None]:
        """Of the rows in force, the last for which ``holds``, which once false stays false, and the first for which it
        does not.
        """
        newest = done_row(self.warehouse, self.pipeline)
        first, last = 1, newest.increment
        before = behind = None
        ledger = self.ledger
        while first <= last:
            middle = (first + last) // 2
            # Given-up numbers have no done row, and a branch has none up to its fork: the next below stands for them.
            row = ledger.done_before(middle + 1, first)
            if row is not None and row.epoch != newest.epoch:
                # A restatement begins an epoch, and may have gone back to less than rows before it have read.
                rows = in_force(ledger.done_rows())
                at = bisect_left(rows, True, key=lambda row: not holds(row))
                return (rows[at - 1] if at else None), (rows[at] if at < len(rows) else None)
            if row is not None and not holds(row):
                behind, last = row, row.increment - 1
            else:
                before, first = row or before, middle + 1
        return before, behind


@dataclass(frozen=True)
class AsOf:
    """A pipeline as of one increment. Tables come as Arrow: ``.to_pandas()``, ``polars.from_arrow(...)``."""

    history: History
    row: LedgerRow[DoneRow]

    @property
    def increment(self) -> int:
        """Its number."""
        return self.row.increment

    def increments(self) -> list[LedgerRow[DoneRow]]:
        """Done rows up to this increment, in order."""
        return [row for row in self.history.increments() if row.increment <= self.increment]

    def output(self, name: str) -> pa.Table:
        """The newest record of every key (and window) of an output, as ``read_newest``."""
        return read_newest(*self._pipeline, name, increment=self.increment)

    def changelog(self, name: str) -> pa.Table:
        """Every record of an output, as ``read_changelog``."""
        return read_changelog(*self._pipeline, name, increment=self.increment)

    def state(self, store: str) -> pa.Table:
        """Rows of a store: as its operator would show them (``read_store``), or live ones (``read_state``) where the
        history has no topology.
        """
        if self.history.topology is None:
            return read_state(*self._pipeline, store, increment=self.increment)
        return read_store(*self._pipeline, self.history.topology, store, increment=self.increment)

    def table(self, name: str) -> pa.Table:
        """All rows of a table by its name in the ledger ("dropped", "state/y", ...), as ``read_table``."""
        return read_table(*self._pipeline, name, increment=self.increment)

    def tables(self) -> list[str]:
        """Names in the ledger of the tables that the increment has."""
        return sorted(self.row.content.versions)

    def names(self) -> dict[str, Callable[[], pa.Table]]:
        """What ``sql`` knows, by name. Where an output and a store have one name, it means the output."""
        names: dict[str, Callable[[], pa.Table]] = {}
        for table in self.tables():
            named = TableName(table)
            kind, name = named.kind, named.name
            names[table] = lambda table=table: self.table(table)  # type: ignore[misc]
            if kind == OUTPUTS:
                names[name] = lambda name=name: self.output(name)  # type: ignore[misc]
            elif kind == STATE and TableName.output(name) not in self.tables():
                names[name] = lambda name=name: self.state(name)  # type: ignore[misc]
        for table in (QUALITY_RESULTS, QUALITY_METRICS):
            path = self._pipeline[0].pipeline(self._pipeline[1]).table(table)
            opened = open_table(path)
            if opened is not None:
                names.setdefault(table, lambda path=path, opened=opened: self._quality(path, opened))  # type: ignore[misc]
        return names

    def _quality(self, path: str, table: DeltaTable) -> pa.Table:
        """Rows of a quality table on increments up to this one, whenever they were recorded."""
        rows = read_rows(path, live_files(table), pa.schema(table.schema().to_arrow()))
        return rows.filter(pc.less_equal(rows["increment"], self.increment))

    def sql(self, query: str) -> pl.DataFrame:
        """Answer of a SELECT, by polars' SQLContext. Only tables that it names are read.

        An output's name means its newest records, a store's its rows; ``"outputs/x"``, ``"state/y"``, ``dropped`` and
        so on, in double quotes where they have a slash, mean every row of the table up to the increment.
        ``"landed/clicks"`` is a landed topic, whole whatever the increment. Raises ConfigError as ``run_query``.
        """
        return run_query(query, self.names() | landed_tables(self._pipeline[0]))

    def register(self, spark: "SparkSession") -> list[str]:
        """Register what ``sql`` knows as temporary views of Spark, under the same names (backquote those with a slash
        or a dash); returns the names.

        Whole tables are read by Spark at their Delta versions; newest records and stores come through this process.
        """
        for name, read in self.names().items():
            if name in self.tables():
                frames = [
                    spark.read.format("delta").option("versionAsOf", part.version).load(part.path)
                    for part in self.parts(name)
                ]
                frame = frames[0]
                for more in frames[1:]:
                    frame = frame.unionByName(more)
            else:
                frame = spark.createDataFrame(read())
            frame.createOrReplaceTempView(f"`{name}`")
        return list(self.names())

    def parts(self, name: str) -> list[TablePart]:
        """Where the rows of a table are, by its name in the ledger: Delta tables with a version each, oldest first."""
        names = table_names(self.row.content)
        if name not in names:
            pipeline = f"pipeline {self.history.pipeline!r}"
            raise ConfigError(pipeline, f"one of {', '.join(names)}", repr(name), "name one of them")
        return table_parts(*self._pipeline, self.row.content, name)

    @property
    def _pipeline(self) -> tuple[Warehouse, str]:
        return self.history.warehouse, self.history.pipeline
