"""An audit: one small frame about one increment, with the rows that speak against it.

Owns the evidence that checks share: what the ledger says of the increment, and columns of pinned Delta tables. Rule:
a check reads tables at the version in the ledger, never "latest" (landed tables only grow, there the cut pins), and
only files that can hold what it looks for. What cannot be read raises; the verdict is then unknown.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.io.plugins import register_io_source

from ..state.errors import ConfigError, LedgerError
from ..state.node_rows import RunAgain
from ..state.tables.branch_files import (
    landed_files,
    refuse_older_landing_ledger,
    refuse_older_ledger,
    table_files,
    table_names,
)
from ..state.tables.data_files import DataFile, OpenTables, conformed, read_files, table_version
from ..state.tables.ledger import LandingLedger, Ledger
from ..state.tables.ledger_rows import DoneRow, PlanRow
from ..state.tables.names import OUTPUTS, TableName
from ..state.tables.parquet_reader import open_file, refuse_missing
from ..state.tables.warehouse import PipelineTables, Warehouse
from ..state.times import END_OF_TIME_MS
from .facts import ReplayFacts, SourceTopic

WITNESSES_MAX = 20
_PIECE_ROWS = 1 << 18


@dataclass(frozen=True)
class Audit:
    """``frame``: the few counts that the guarantee's rules judge. ``witnesses``: at most WITNESSES_MAX rows. ``rows``:
    how many rows were judged. ``violations``: by column of a rule, the rows that it counts, where they are rows.
    ``reason``: of what run it is, where that is not the one that wrote the tables.
    """

    frame: pl.DataFrame
    witnesses: list[dict[str, Any]]
    rows: int = 0
    violations: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    reason: str = ""

    @classmethod
    def of(cls, rows: int, violations: Mapping[str, pl.DataFrame], **counts: int) -> "Audit":
        """Those of the judged ``rows`` that break rules, by the rule's column; ``counts``: reported beside them."""
        by_rule = {column: broken.height for column, broken in violations.items()}
        frame = pl.DataFrame({name: [count] for name, count in {"rows": rows, **counts, **by_rule}.items()})
        witnesses = [{"breaks": column, **row} for column, broken in violations.items() for row in witness_rows(broken)]
        return cls(frame, witnesses[:WITNESSES_MAX], rows, violations)


@dataclass(frozen=True)
class Unchecked:
    """There is nothing to judge by, though every table can be read; ``reason``: a sentence. Never "holds"."""

    reason: str


@dataclass(frozen=True)
class Scope:
    """One increment under audit. ``planned`` and ``done``: its rows in ``ledger``.

    Each table is listed once, whatever the number of guarantees that read it.
    """

    warehouse: Warehouse
    tables: PipelineTables
    facts: ReplayFacts
    ledger: Ledger
    increment: int
    planned: PlanRow
    done: DoneRow
    again: RunAgain | None = None
    """Who runs the increment again for what no table has; None: nobody does."""
    partitions: Collection[int] | None = None
    """Of the tables of the pipeline, those that are looked at; None: all."""
    _listed: dict[str, list[DataFile]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def made_otherwise(self) -> str:
        """Why settings of the current topology say nothing of the increment's rows; "" where they do."""
        by, mine = self.planned.topology or self.done.topology, self.facts.topology
        if self.planned.migrate:
            return "the increment migrated rows that another topology made, by its settings"
        if mine is not None and by not in (None, mine):
            return f"another topology ({by}) ran the increment, whose settings may be others"
        return ""

    def made_by_other_steps(self, table: str) -> str:
        """Why the current steps and functions do not say what is in ``table`` as of the increment; "" where they do."""
        now = self.facts.steps.get(table)
        if now is None:
            return ""
        for row in self.ledger.done_rows(self.ledger.oldest_kept(), self.increment):
            if row.content.code is not None and _steps(row.content.code, table) not in (None, list(now)):
                return (
                    f"increment {row.increment} ran with other steps or functions above {table} than the current ones"
                )
        return ""

    def version(self, table: str) -> int:
        """Version of ``table`` ("outputs/x", "dropped" …) that the increment committed."""
        version = self.done.versions.get(table)
        if version is None:
            raise LedgerError(
                f"{self.tables.ledger}, increment {self.increment}",
                f"a version of {table}",
                "none",
                "run the check on an increment that was run to its end",
            )
        return int(version)

    def cut(self, topic: str) -> dict[int, tuple[int, int]]:
        """The increment's offsets ``[from, to)`` of a landed topic, by partition."""
        if topic not in self.planned.cut_to:
            raise LedgerError(
                f"{self.tables.ledger}, increment {self.increment}",
                f"a cut of topic {topic}",
                "none",
                "check the facts: the plan does not read this topic",
            )
        starts = self.planned.cut_from.get(topic, {})
        ends = self.planned.cut_to[topic]
        return {int(partition): (int(starts.get(partition, 0)), int(end)) for partition, end in ends.items()}

    def files(self, table: str, path: str) -> list[DataFile]:
        """Live files of a table of the pipeline as of the increment; of a branch, its parent's up to the fork too.

        Raises DamagedFile when one is not there, whether it is asked for or not.
        """
        if path not in self._listed:
            if table not in table_names(self.done):
                self.version(table)  # says what is missing
            files = table_files(self.warehouse, self.tables.name, self.done, table)
            refuse_missing(path, files)
            self._listed[path] = files
        listed = self._listed[path]
        return listed if self.partitions is None else [file for file in listed if file.partition in self.partitions]

    def with_tables(self, listed: Mapping[str, list[DataFile]], partitions: Collection[int] | None) -> "Scope":
        """The same, with other files of the tables at these paths, and ``partitions`` alone of the pipeline's tables
        (None: with all).
        """
        changed = replace(self, partitions=partitions)
        changed._listed.update(listed)
        return changed

    def own_rows(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        """``columns`` and `partition` of the rows that the increment wrote to ``table``, read whole."""
        path, number = self.tables.table(table), self.increment
        files = [file for file in self.files(table, path) if file.may_hold("increment", number, number)]
        if not files:
            return pl.DataFrame(schema={name: _type_of(name) for name in (*columns, "partition")})
        wanted = list(dict.fromkeys([*columns, "increment"]))
        rows = self.scan(path, files, wanted).filter(pl.col("increment") == number)
        return rows.select(*columns, "partition").collect()

    def source_files(self, source: SourceTopic) -> tuple[str, list[DataFile]]:
        """Path and live files of the table in which the records of ``source`` lie."""
        if source.kind == "repartition":
            path = self.tables.repartition(source.topic)
            return path, self.files(TableName.repartition(source.topic), path)
        path = self.warehouse.landed(source.topic)
        if path not in self._listed:
            self._listed[path] = [self._in_play(path, file) for file in self._landed(path, source.topic)]
        return path, self._listed[path]

    def _landed(self, path: str, topic: str) -> list[DataFile]:
        if table_version(path) is None:
            raise ConfigError(path, f"a landed table of topic {topic}", "no table", "land the topic")
        ledger = LandingLedger(self.warehouse.landing_ledger(topic))
        last = ledger.last_done()
        if last is None:
            return read_files(path)
        opened: OpenTables = {}
        refuse_older_landing_ledger(self.warehouse, topic, ledger, last, opened)
        return landed_files(self.warehouse, topic, last, opened=opened)

    def _in_play(self, path: str, file: DataFile) -> DataFile:
        """A landed file; without the bounds of its times where some may be of a record that was not read."""
        out = self._excluded(path).get(file.partition, [])
        if not any(file.may_hold("offset", offset, offset) for offset in out):
            return file
        return replace(file, bounds={name: bounds for name, bounds in file.bounds.items() if name != "timestamp"})

    def _excluded(self, path: str) -> dict[int, list[int]]:
        """Of a landed table the offsets, by partition, that the increments up to this one have not read, since they
        were taken out of play.
        """
        for topic, excluded in (self.done.excluded or {}).items():
            if path == self.warehouse.landed(topic):
                return {int(partition): offsets for partition, offsets in excluded.items()}
        return {}

    def scan(self, path: str, files: Sequence[DataFile], columns: Sequence[str]) -> pl.LazyFrame:
        """``columns`` of ``files`` and `partition`; ``files`` is not empty. Read piece by piece by our own reader, as
        Polars looks at no checksum. Of a landed table, what the increments have read. Each file has the types of the
        newest, so what was added later is null in older ones. A `key` has text for floats (``with_key_apart``).
        """
        excluded = self._excluded(path)
        newest = max(files, key=lambda file: file.bounds.get("increment", (0, -1))[1])
        with open_file(path, newest) as opened:
            stored = opened.rows().schema_arrow.remove_metadata()
        stored = pa.schema([stored.field(name) for name in columns])
        first = pl.from_arrow(stored.empty_table())
        assert isinstance(first, pl.DataFrame)
        schema: dict[str, Any] = {**with_key_apart(first).schema, "partition": pl.Int32}

        def read(
            wanted: list[str] | None, predicate: pl.Expr | None, limit: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            left = sum(file.records for file in files) if limit is None else limit
            for file in files if left else []:
                out = excluded.get(file.partition, [])
                for piece in _pieces(path, file, stored, out):
                    rows = piece.head(left).select(wanted or list(schema))
                    left -= len(rows)
                    yield rows if predicate is None else rows.filter(predicate)

        return register_io_source(read, schema=schema)


def _type_of(column: str) -> Any:
    """Of a column that every table has under this name; null for those that are of a topology's types."""
    if column in ("deleted", "is_mark", "is_record"):
        return pl.Boolean
    if column == "partition":
        return pl.Int32
    return pl.Int64 if column.endswith(("_ms", "offset", "increment", "timestamp")) else pl.Null


def _pieces(path: str, file: DataFile, schema: pa.Schema, out: Sequence[int]) -> Iterator[pl.DataFrame]:
    """With the columns of ``schema``, without the rows at the offsets ``out``."""
    read = list(dict.fromkeys([*schema.names, "offset"] if out else schema.names))
    with open_file(path, file) as opened:
        for batch in opened.rows().iter_batches(_PIECE_ROWS, columns=read):
            table = pa.Table.from_batches([batch])
            if out:
                table = table.filter(pc.invert(pc.is_in(table["offset"], pa.array(out, pa.int64()))))
            rows = pl.from_arrow(conformed(table, schema))
            assert isinstance(rows, pl.DataFrame)
            yield with_key_apart(rows).with_columns(pl.lit(file.partition, pl.Int32).alias("partition"))


def with_key_apart(rows: pl.DataFrame) -> pl.DataFrame:
    """``rows`` with text in the place of floats, at any depth, in their `key`, where they have one.

    Polars takes 0.0 and -0.0 for equal. Their bytes differ, so they are two keys in Kafka.
    """
    return rows.cast({"key": _of_text(rows.schema["key"])}) if "key" in rows.columns else rows


def _of_text(kind: Any) -> Any:
    if kind.is_float():
        return pl.String
    if isinstance(kind, pl.Struct):
        return pl.Struct({field.name: _of_text(field.dtype) for field in kind.fields})
    return pl.List(_of_text(kind.inner)) if isinstance(kind, pl.List) else kind


def recorded_times(scope: Scope) -> pl.DataFrame:
    """Recorded times that the increments up to this one took: topic, partition, time_ms."""
    times = [pl.DataFrame(schema={"topic": pl.String, "partition": pl.Int32, "time_ms": pl.Int64})]
    for topic, counts in (scope.planned.recorded_to or {}).items():
        path = scope.warehouse.recorded_time(topic)
        rows = scope.scan(path, read_files(path), ["time_ms", "increment"]).collect()
        for partition, count in counts.items():
            mine = rows.filter(pl.col("partition") == int(partition)).sort("increment").head(count)
            times.append(mine.select(pl.lit(topic).alias("topic"), "partition", "time_ms"))
    if scope.planned.flushes:
        ends = [(topic, int(p), END_OF_TIME_MS) for topic, ps in scope.planned.cut_to.items() for p in ps]
        times.append(pl.DataFrame(ends, times[0].schema, orient="row"))
    return pl.concat(times)


def open_scope(
    warehouse: Warehouse, pipeline: str, facts: ReplayFacts, increment: int | None, again: RunAgain | None = None
) -> Scope:
    """The scope of ``increment`` (None: the last done one). LedgerError when it is not done."""
    tables = warehouse.pipeline(pipeline)
    ledger = Ledger(tables.ledger)
    if increment is None:
        last = ledger.last_done()
        refuse_older_ledger(warehouse, pipeline, ledger, last)
        increment = 0 if last is None else last.increment
    planned, done = ledger.rows_of(increment)
    ledger.refuse_vacuumed(increment)
    if done is None or planned is None:
        number = "" if increment == 0 else f" {increment}"
        raise LedgerError(tables.ledger, f"a done increment{number}", "none", "run the replay first")
    return Scope(warehouse, tables, facts, ledger, increment, planned.content, done.content, again)


def _steps(code: Mapping[str, Any], table: str) -> list[str] | None:
    """Texts of steps above a table in a record of the code; None where it knows no such table."""
    name = TableName(table)
    if name.kind == OUTPUTS:
        return cast("list[str] | None", code["outputs"].get(name.name, {}).get("steps"))
    store = code["stores"].get(name.name)
    return None if store is None else store["settings"].get("steps", [])


def witness_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The first rows as values that JSON can hold; bytes are shown as text."""
    return [{name: shown(value) for name, value in row.items()} for row in rows.head(WITNESSES_MAX).to_dicts()]


def shown(value: Any) -> Any:
    """A value that JSON can hold; bytes are text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {name: shown(part) for name, part in value.items()}
    if isinstance(value, list):
        return [shown(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
