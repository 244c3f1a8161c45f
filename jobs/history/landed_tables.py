"""Landed topics as tables that SQL and files can have: every record, its key and its value as text, its time twice.

Rule: a topic belongs to no pipeline, so it is whole whatever the increment. What is out of play (`replay exclude`) is
left out, as everywhere.
"""

from collections.abc import Callable

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PolarsError

from ...state.tables.in_place import no_headers
from ...state.tables.names import LANDED
from ...state.tables.warehouse import HEADERS, Warehouse
from ..tape.landed_slice import Slice
from ..tape.landed_topic import Landed

RECORDS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""Of records of a landed topic; ``timestamp`` in ms."""
_ROWS = 1 << 16


def landed_tables(warehouse: Warehouse) -> dict[str, Callable[[], pl.DataFrame]]:
    """What SQL knows of the topics of ``warehouse``, by the names that `replay show` takes: "landed/clicks"."""
    return {f"{LANDED}/{topic}": lambda topic=topic: _with_fields(landed_table(warehouse, topic))  # type: ignore[misc]
            for topic in warehouse.topics()}  # fmt: skip


def landed_table(warehouse: Warehouse, topic: str) -> pa.Table:
    """All records of ``topic``, by partition and offset. Raises ConfigError for a topic that has not landed.

    Columns are partition, offset, record_time_ms, record_time (a timestamp in UTC), key, value and headers. Keys and
    values are text: their bytes in UTF-8, and others as 0x….
    """
    landed = Landed.of(warehouse, topic)
    parts = [
        records_of(landed.slice(partition, 0, end), int(partition))
        for partition, end in sorted(landed.ends.items(), key=lambda each: int(each[0]))
    ]
    rows = pa.concat_tables([RECORDS.empty_table(), *parts])
    time_ms = rows["timestamp"]
    columns = {
        "partition": rows["partition"], "offset": rows["offset"], "record_time_ms": time_ms,
        "record_time": time_ms.cast(pa.timestamp("ms", "UTC")), "key": _texts(rows["key"]),
        "value": _texts(rows["value"]), "headers": rows["headers"],
    }  # fmt: skip
    return pa.table(columns)


def records_of(part: Slice, partition: int, choose: Callable[[pa.Table], pa.Table] = lambda chunk: chunk) -> pa.Table:
    """Records of a partition of a landed topic, as RECORDS, in bytes as they landed. ``choose``: takes those of a chunk
    that are asked for.
    """
    tables = [RECORDS.empty_table()]
    for whole in part.chunks(_ROWS):
        chunk = choose(whole)
        columns = {name: chunk[name] for name in RECORDS.names if name in chunk.column_names}
        columns["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), len(chunk))
        if "headers" not in columns:
            columns["headers"] = no_headers(len(chunk))
        tables.append(pa.table([columns[name] for name in RECORDS.names], schema=RECORDS))
    return pa.concat_tables(tables)


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if each is None else _text(each) for each in column.to_pylist()], pa.string())


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _with_fields(rows: pa.Table) -> pl.DataFrame:
    """``rows`` with values that are structs, where all of them are JSON objects: SQL has no functions for JSON."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    if not len(frame) or not pc.all(pc.starts_with(rows["value"].drop_null(), "{")).as_py():
        return frame
    try:
        fields = frame["value"].str.json_decode(infer_schema_length=None)
    except PolarsError:  # an object that is none, or fields that no one type fits
        return frame
    return frame.with_columns(fields.alias("value")) if isinstance(fields.dtype, pl.Struct) else frame
