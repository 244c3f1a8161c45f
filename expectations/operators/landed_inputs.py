"""Records that an operator in the middle of a topology got, as the table of its input has them.

Owns reading them. Rule: the operator's input is a landed topic or a repartition table, with steps between that make
one record of one and keep its key. So a row of an output is of the record at its `cause_offset`, in the same
partition.
"""

import polars as pl

from ...state.promises import InputPromise
from ...state.tables.data_files import DataFile
from ...state.tables.names import DROPPED, LANDED, TableName
from ...state.tables.parquet_reader import open_file
from ...state.times import END_OF_TIME_MS
from ..audits import Scope
from ..facts import SourceTopic

OWN_OFFSET, ARRIVAL = "context_offset", "arrival"
"""Columns that a landed table may have: the offset by which operators know a record, its number among all topics'."""
PLACE, KEY = ["partition", "offset"], ["partition", "key"]
"""Columns by which a record is found, and by which its key is: keys are in one partition each."""
SCHEMA = {"partition": pl.Int32, "offset": pl.Int64, "timestamp": pl.Int64, "key": pl.Binary}
"""Of the records that are read; times in milliseconds, keys serialized."""


def end_of(scope: Scope, given: InputPromise) -> dict[int, int]:
    """By partition, the offset after the last record that the increments up to this one read."""
    if TableName(given.table).kind == LANDED:
        return {partition: end for partition, (_, end) in scope.cut(TableName(given.table).name).items()}
    ends: dict[int, int] = {}
    for file in scope.files(given.table, scope.tables.table(given.table)):
        if file.max_offset is not None:
            ends[file.partition] = max(ends.get(file.partition, 0), file.max_offset + 1)
    return ends


def begin_of(scope: Scope, given: InputPromise) -> pl.DataFrame:
    """`partition` and `_begin`: the offset from which on the increment read; where it read nothing, where it ends."""
    begins = end_of(scope, given)
    if TableName(given.table).kind == LANDED:
        begins = {partition: begin for partition, (begin, _) in scope.cut(TableName(given.table).name).items()}
    else:
        own = scope.own_rows(given.table, ["offset"]).group_by("partition").agg(pl.col("offset").min())
        begins |= dict(own.iter_rows())
    return pl.DataFrame(
        {"partition": list(begins), "_begin": list(begins.values())}, {"partition": pl.Int32, "_begin": pl.Int64}
    )


def records(scope: Scope, given: InputPromise, lowest_ms: int, highest_ms: int, *more: str) -> pl.DataFrame:
    """Records of ``given`` with a time in ``[lowest_ms, highest_ms]`` that were read up to this increment: SCHEMA and
    ``more`` columns. Opens only files that can hold some.
    """
    path, files = scope.source_files(_source(given))
    chosen = [file for file in files if file.may_hold("timestamp", lowest_ms, highest_ms)]
    return _read(scope, path, chosen, given, more).filter(pl.col("timestamp").is_between(lowest_ms, highest_ms))


def at_offsets(scope: Scope, given: InputPromise, offsets: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Records of ``given`` at ``offsets`` (partition, offset): SCHEMA and ``more`` columns."""
    if offsets.is_empty():
        return pl.DataFrame(schema={**SCHEMA, **dict.fromkeys(more, pl.Binary)})
    path, files = scope.source_files(_source(given))
    spans = {row[0]: (row[1], row[2]) for row in offsets.group_by("partition").agg(
        pl.col("offset").min().alias("low"), pl.col("offset").max().alias("high")).iter_rows()}  # fmt: skip
    chosen = [file for file in files if file.partition in spans and file.may_hold("offset", *spans[file.partition])]
    records = _read(scope, path, chosen, given, more)
    return records.join(offsets.select("partition", "offset").unique(), on=["partition", "offset"], how="semi")


def without_refused(scope: Scope, given: InputPromise, records: pl.DataFrame) -> pl.DataFrame:
    """``records`` of ``given`` without those that an operator refused, up to this increment: for their keys or
    values, or as late ones.
    """
    low, high = records["offset"].min(), records["offset"].max()
    if not isinstance(low, int) or not isinstance(high, int):
        return records
    path, topic = scope.tables.dropped, TableName(given.table).name
    files = [file for file in scope.files(DROPPED, path) if file.records and file.may_hold("offset", low, high)]
    if not files:
        return records
    refused = scope.scan(path, files, ["topic", "offset"]).filter(pl.col("topic") == topic).select(PLACE).collect()
    return records.join(refused.unique(), on=PLACE, how="anti")


def own_records(scope: Scope, given: InputPromise, *more: str) -> pl.DataFrame:
    """Records of ``given`` that the increment read: SCHEMA and ``more`` columns, by partition and offset."""
    if TableName(given.table).kind != LANDED:
        rows = scope.own_rows(given.table, ["offset", "timestamp", "key", *more])
        return rows.select(*SCHEMA, *more).sort("partition", "offset")
    cut = {partition: span for partition, span in scope.cut(TableName(given.table).name).items() if span[0] < span[1]}
    path, files = scope.source_files(SourceTopic(TableName(given.table).name))
    chosen = [
        file
        for file in files
        if file.partition in cut and file.may_hold("offset", cut[file.partition][0], cut[file.partition][1] - 1)
    ]
    begins = pl.DataFrame(
        {"partition": list(cut), "_begin": [begin for begin, _ in cut.values()]},
        {"partition": pl.Int32, "_begin": pl.Int64},
    )
    rows = _read(scope, path, chosen, given, more).join(begins, on="partition", how="inner")
    return rows.filter(pl.col("offset") >= pl.col("_begin")).drop("_begin")


def newest_values(
    scope: Scope, given: InputPromise, keys: pl.Series | None = None, without: pl.DataFrame | None = None
) -> pl.DataFrame:
    """`key`, `value` and `partition` of the newest record of each key, of ``keys`` alone, read up to this increment; a
    tombstone's value is null. Records ``without`` (partition, offset) are none. Keys are in one partition each.
    """
    path, files = scope.source_files(_source(given))
    records = _read(scope, path, [file for file in files if file.records], given, ("value",), keys)
    records = records.filter(pl.col("key").is_not_null())
    if without is not None and without.height:
        records = records.join(without, on=PLACE, how="anti")
    return records.unique("key", keep="last", maintain_order=True).select("key", "value", "partition")


def has_own_offsets(scope: Scope, given: InputPromise, lowest_ms: int) -> bool:
    """Whether records of ``given`` from a time on were landed with offsets by which operators know them, and which are
    not those of the table: a topic that was copied.
    """
    is_other = pl.col(OWN_OFFSET) != pl.col("offset")
    return _has_some(scope, given, OWN_OFFSET, is_other, lowest_ms)


def has_arrivals(scope: Scope, given: InputPromise) -> bool:
    """Whether records of ``given`` were landed with their number among those of all topics."""
    return _has_some(scope, given, ARRIVAL, pl.col(ARRIVAL).is_not_null())


def _has_some(scope: Scope, given: InputPromise, column: str, wanted: pl.Expr, lowest_ms: int | None = None) -> bool:
    """Whether a column that a landed table may have has ``wanted`` values, of records from a time on."""
    path, files = scope.source_files(_source(given))
    for file in files:
        is_late = lowest_ms is None or file.may_hold("timestamp", lowest_ms, END_OF_TIME_MS)
        if not file.records or not is_late:
            continue
        with open_file(path, file) as opened:
            if column not in opened.rows().schema_arrow.names:
                continue
        if not scope.scan(path, [file], ["offset", column]).filter(wanted).head(1).collect().is_empty():
            return True
    return False


def reached_before(scope: Scope, given: InputPromise, begins: pl.DataFrame) -> list[int]:
    """For partitions of ``begins`` with records before `_begin`: a time that these had reached, by the bounds of
    files; 0 if the bounds do not say.
    """
    _path, files = scope.source_files(_source(given))
    reached = []
    for partition, begin in begins.select("partition", "_begin").iter_rows():
        chosen = [file for file in files if file.partition == partition and file.records]
        whole = [file for file in chosen if file.max_offset is not None and file.max_offset < begin]
        times = [file.bounds["timestamp"][1] for file in whole if "timestamp" in file.bounds]
        if any((file.min_offset or 0) < begin for file in chosen):
            reached.append(max(times, default=0))
    return reached


def _source(given: InputPromise) -> SourceTopic:
    name = TableName(given.table)
    return SourceTopic(name.name, "landed" if name.kind == LANDED else "repartition")


def _read(
    scope: Scope,
    path: str,
    files: list[DataFile],
    given: InputPromise,
    more: tuple[str, ...],
    keys: pl.Series | None = None,
) -> pl.DataFrame:
    if not files:
        return pl.DataFrame(schema={**SCHEMA, **dict.fromkeys(more, pl.Binary)})
    wanted = ["offset", "timestamp", "key", *more]
    tape = scope.scan(path, files, wanted)
    tape = tape if keys is None else tape.filter(pl.col("key").is_in(keys.implode()))
    rows = tape.select("partition", *wanted).collect()
    ends = end_of(scope, given)
    limits = pl.DataFrame(
        {"partition": list(ends), "_end": list(ends.values())}, {"partition": pl.Int32, "_end": pl.Int64}
    )
    # A landed file may reach beyond the cut: landing and replay cut a topic at offsets of their own.
    inside = rows.join(limits, on="partition", how="inner").filter(pl.col("offset") < pl.col("_end"))
    return inside.drop("_end").sort("partition", "offset")
