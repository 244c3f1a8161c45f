"""Tables of columns as files of every format, written without the project's code: pyarrow, json, csv and, for Avro,
what the specification says of its bytes.

Owns how a kind of column is written. A column is a kind and its values, of which None is null:

    long    int                         id      int, as a decimal of 38 digits without a fraction
    text    str                         money   Decimal of 18 places
    bytes   bytes (Parquet and Avro)    bool    bool
    ms, us  int milliseconds, as timestamps of that unit (Parquet and Avro), as numbers of it elsewhere
    list    headers, as a list of {key, value}; map: as a map (Parquet and Avro); turn: names and values in turn (JSON)
    row     columns by name, or None for a row that has none of it (not CSV)
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

SYNC = bytes(range(16))


@dataclass(frozen=True)
class Column:
    """``of``: the columns of a ``row``; its ``values`` are None where a row does not have it."""

    kind: str
    values: Sequence[Any]
    of: "Mapping[str, Column] | None" = None

    def take(self, rows: Sequence[int]) -> "Column":
        """Those rows, in that order."""
        of = None if self.of is None else take(self.of, rows)
        return Column(self.kind, [self.values[row] for row in rows], of)


Columns = Mapping[str, Column]


def take(columns: Columns, rows: Sequence[int]) -> dict[str, Column]:
    return {name: column.take(rows) for name, column in columns.items()}


def rows_in(columns: Columns) -> int:
    return len(next(iter(columns.values())).values)


# --- text ----------------------------------------------------------------------------------------------------------


def _lz4(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as packed:
        packed.write(data)
    return sink.getvalue().to_pybytes()


PACKED: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "bz2": bz2.compress,
    "lz4": _lz4,
}
"""Whole files, by the extension that says so."""


def json_cell(column: Column, row: int) -> str:
    """JSON text of a value; numbers with all their digits."""
    value = column.values[row]
    if value is None:
        return "null"
    match column.kind:
        case "row":
            assert column.of is not None
            return json_row(column.of, row)
        case "list":
            return _dumps([{"key": name, "value": _text(of)} for name, of in value])
        case "turn":
            return _dumps([each for name, of in value for each in (name, _text(of))])
        case "money" | "id":
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
        case "us":
            return str(value * 1000)
    return _dumps(value)


def json_row(columns: Columns, row: int) -> str:
    return "{" + ",".join(f"{_dumps(name)}:{json_cell(column, row)}" for name, column in columns.items()) + "}"


def json_lines(columns: Columns) -> bytes:
    return "".join(json_row(columns, row) + "\n" for row in range(rows_in(columns))).encode()


def csv_lines(columns: Columns, null: str) -> bytes:
    """With a header line."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(columns)
    for row in range(rows_in(columns)):
        writer.writerow([_cell(column, row, null) for column in columns.values()])
    return file.getvalue().encode()


def separated_lines(columns: Columns, null: str, delimiter: str) -> bytes:
    """Without a header line and without quotes."""
    rows = ([_cell(column, row, null) for column in columns.values()] for row in range(rows_in(columns)))
    return "".join(delimiter.join(cells) + "\n" for cells in rows).encode()


def _cell(column: Column, row: int, null: str) -> str:
    value = column.values[row]
    if value is None:
        return null
    return str(value) if column.kind == "text" else json_cell(column, row)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


# --- Parquet -------------------------------------------------------------------------------------------------------

_PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
_ARROW = {
    "long": pa.int64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "id": pa.decimal128(38, 0),
    "money": pa.decimal128(38, 18),
    "bool": pa.bool_(),
    "ms": pa.timestamp("ms", "UTC"),
    "us": pa.timestamp("us", "UTC"),
    "list": pa.list_(_PAIR),
    "map": pa.map_(pa.string(), pa.binary()),
}

_LARGE = {
    pa.string(): pa.large_string(),
    pa.binary(): pa.large_binary(),
    pa.list_(_PAIR): pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
}


def parquet(columns: Columns, *, is_large: bool, **options: Any) -> bytes:
    """``is_large``: text, bytes and lists have offsets of 64 bits, as Polars writes them. ``options`` are those of
    ``pq.write_table``.
    """
    table = arrow_table(columns)
    if is_large:
        table = table.cast(
            pa.schema([pa.field(field.name, _LARGE.get(field.type, field.type)) for field in table.schema])
        )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def arrow_table(columns: Columns) -> pa.Table:
    """As a writer of a lake's tables takes it."""
    return pa.table({name: _arrow(column) for name, column in columns.items()})


def _arrow(column: Column) -> pa.Array:
    values = column.values
    match column.kind:
        case "row":
            assert column.of is not None
            fields = [_arrow(of) for of in column.of.values()]
            nothing = pa.array([value is None for value in values], pa.bool_())
            return pa.StructArray.from_arrays(fields, list(column.of), mask=nothing)
        case "us":
            values = [None if value is None else value * 1000 for value in values]
        case "id":
            values = [None if value is None else Decimal(value) for value in values]
        case "list":
            values = [None if of is None else [{"key": n, "value": v} for n, v in of] for of in values]
    kind = _ARROW[column.kind]
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


# --- Avro ----------------------------------------------------------------------------------------------------------


def zigzag(number: int) -> bytes:
    rest, found = (number << 1) ^ (number >> 63), bytearray()
    while rest > 127:
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def avro_text(of: str | bytes) -> bytes:
    data = of.encode() if isinstance(of, str) else of
    return zigzag(len(data)) + data


def _snappy(data: bytes) -> bytes:
    return pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


AVRO_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": zstandard.ZstdCompressor().compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
"""Blocks of containers, by the names of the specification."""


def container(
    fields: list[dict[str, Any]],
    *blocks: list[bytes],
    codec: str = "null",
    pack: Callable[[bytes], bytes] = bytes,
    name: str = "R",
) -> bytes:
    """A file of records of that ``name`` with ``fields``; each block has its records' bytes."""
    schema = json.dumps({"type": "record", "name": name, "fields": fields})
    metadata = avro_text("avro.schema") + avro_text(schema) + avro_text("avro.codec") + avro_text(codec)
    header = b"Obj\x01" + zigzag(2) + metadata + b"\0" + SYNC
    return header + b"".join(zigzag(len(rows)) + avro_text(pack(b"".join(rows))) + SYNC for rows in blocks)


def avro(columns: Columns, codec: str, block_rows: int, name: str = "R") -> bytes:
    rows = [_avro_row(columns, row) for row in range(rows_in(columns))]
    blocks = [rows[at : at + block_rows] for at in range(0, len(rows), block_rows)]
    return container(_avro_fields(columns, name), *blocks, codec=codec, pack=AVRO_CODECS[codec], name=name)


_LOGICAL = {
    "ms": {"type": "long", "logicalType": "timestamp-millis"},
    "us": {"type": "long", "logicalType": "timestamp-micros"},
    "id": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
    "money": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18},
    "text": "string",
    "bool": "boolean",
    "map": {"type": "map", "values": ["null", "bytes"]},
}


def _avro_fields(columns: Columns, path: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": ["null", _avro_type(column, f"{path}_{name}")]} for name, column in columns.items()]


def _avro_type(column: Column, path: str) -> Any:
    if column.kind == "row":
        assert column.of is not None
        return {"type": "record", "name": path, "fields": _avro_fields(column.of, path)}
    if column.kind == "list":
        pair = [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}]
        return {"type": "array", "items": {"type": "record", "name": path, "fields": pair}}
    return _LOGICAL.get(column.kind, column.kind)


def _avro_row(columns: Columns, row: int) -> bytes:
    return b"".join(_avro_value(column, row) for column in columns.values())


def _avro_value(column: Column, row: int) -> bytes:
    value = column.values[row]
    return zigzag(0) if value is None else zigzag(1) + _avro_content(column, row, value)


def _avro_content(column: Column, row: int, value: Any) -> bytes:
    match column.kind:
        case "row":
            assert column.of is not None
            return _avro_row(column.of, row)
        case "list" | "map":
            pairs = [avro_text(name) + (zigzag(0) if of is None else zigzag(1) + avro_text(of)) for name, of in value]
            return (zigzag(len(pairs)) + b"".join(pairs) if pairs else b"") + zigzag(0)
        case "long" | "ms":
            return zigzag(value)
        case "us":
            return zigzag(value * 1000)
        case "bool":
            return bytes([value])
        case "id" | "money":
            unscaled = int(value) if column.kind == "id" else int(f"{value:f}".replace(".", ""))
            return avro_text(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))
    return avro_text(value)
