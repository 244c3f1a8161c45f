"""Any topic, written to files in any format and layout and landed, is the same topic again."""

import csv
import gzip
import io
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed
from tests.landing.test_avro_files import container, text, zigzag

PARTITIONS = 3
TIMES = (0, 1, 1_767_258_000_000, 253_402_300_800_000, 2**53 - 1)
KEYS = (None, "", "ann", "é €", '"42"', "null", "a,b;c", "-0.10")
VALUES = (
    None,
    "",
    "{}",
    '{"n":1.10,"d":12345678901234567890.5}',
    '{"é":"\\ud83d\\ude00\\n"}',
    "1e400",
    "two\nlines",
    "NULL",
)
HEADERS: tuple[tuple[tuple[str, str], ...], ...] = ((), (("h", "1"),), (("h", "é"), ("h", ""), ("g", "x=y,z")))


class Row(NamedTuple):
    """A record of Kafka; key, value and headers as text."""

    p: int
    o: int
    t: int
    k: str | None
    v: str | None
    h: tuple[tuple[str, str], ...]

    def fields(self) -> dict[str, Any]:
        return {**self._asdict(), "h": [{"key": key, "value": value} for key, value in self.h]}


def topic(seed: int) -> list[Row]:
    """In the order of a log: offsets rise in each partition, with gaps."""
    generator, next_offset = random.Random(seed), dict.fromkeys(range(PARTITIONS), 0)
    rows = []
    for _ in range(40):
        p = generator.randrange(PARTITIONS)
        next_offset[p] += generator.choice((1, 1, 1, 5))
        choices = (generator.choice(of) for of in (TIMES, KEYS, VALUES, HEADERS))
        rows.append(Row(p, next_offset[p], *choices))
    return rows


def jsonl(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row.fields()) + "\n" for row in rows).encode()


def in_one_line(rows: list[Row]) -> bytes:
    return jsonl(rows).replace(b"\n", b"")


def csv_file(rows: list[Row]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(Row._fields)
    for row in rows:
        cells = row.fields() | {"h": json.dumps(row.fields()["h"])}
        writer.writerow(["\\N" if cell is None else cell for cell in cells.values()])
    return out.getvalue().encode()


def parquet(rows: list[Row]) -> bytes:
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    kinds = {"p": pa.int32(), "o": pa.int64(), "t": pa.timestamp("ms"), "k": pa.string(), "v": pa.string(), "h": header}
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row.fields() for row in rows], pa.schema(list(kinds.items()))), out)
    return out.getvalue()


def avro(rows: list[Row]) -> bytes:
    maybe = ["null", "string"]
    pair = {"type": "record", "name": "H", "fields": [{"name": name, "type": "string"} for name in ("key", "value")]}
    kinds = {"p": "int", "o": "long", "t": "long", "k": maybe, "v": maybe, "h": {"type": "array", "items": pair}}

    def optional(value: str | None) -> bytes:
        return zigzag(0) if value is None else zigzag(1) + text(value)

    def of(row: Row) -> bytes:
        pairs = b"".join(text(key) + text(value) for key, value in row.h)
        headers = (zigzag(len(row.h)) + pairs if row.h else b"") + b"\0"
        return zigzag(row.p) + zigzag(row.o) + zigzag(row.t) + optional(row.k) + optional(row.v) + headers

    return container([{"name": name, "type": kind} for name, kind in kinds.items()], [of(row) for row in rows])


FORMATS: dict[str, tuple[str, Callable[[list[Row]], bytes], dict[str, Any]]] = {
    "jsonl": ("jsonl", jsonl, {}),
    "json in one line": ("json", in_one_line, {}),
    "csv": ("csv", csv_file, {"nulls": ["\\N"]}),
    "parquet": ("parquet", parquet, {}),
    "avro": ("avro", avro, {}),
}


def want(rows: list[Row]) -> list[tuple]:
    def data(value: str | None) -> bytes | None:
        return None if value is None else value.encode()

    return sorted(
        (row.p, row.o, row.t, data(row.k), data(row.v), [(key, data(value)) for key, value in row.h]) for row in rows
    )


def found(warehouse) -> list[tuple]:
    rows = landed(warehouse, "t", "partition", "offset", "timestamp", "key", "value", "headers")
    return sorted((*row, [(each["key"], each["value"]) for each in headers]) for *row, headers in rows)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", [1, 2])
def test_with_columns_for_kafkas_coordinates(warehouse, directory, name, seed):
    extension, written, more = FORMATS[name]
    rows, generator = topic(seed), random.Random(seed)
    parts: dict[int, list[Row]] = {}
    for row in rows:
        parts.setdefault(generator.randrange(4), []).append(row)
    for number, part in parts.items():
        generator.shuffle(part)  # offsets order them, wherever they are
        data, is_packed = written(part), extension in ("jsonl", "csv") and number % 2
        write(directory, {f"{number}.{extension}{'.gz' * is_packed}": gzip.compress(data) if is_packed else data})

    coordinates = {"partition": "p", "offset": "o", "headers": "h", "partitions": PARTITIONS}
    land(warehouse, directory, timestamp="t", key="k", value="v", **coordinates, **more)

    assert found(warehouse) == want(rows)


@pytest.mark.parametrize("seed", [3, 4])
def test_as_confluents_sink_lays_them_out(warehouse, directory, seed):
    """
    A file has offsets that follow one another, and its path has the first; keys and headers are beside it.
    """
    rows, runs = topic(seed), list[list[Row]]()
    for row in sorted(rows):
        if not runs or (runs[-1][-1].p, runs[-1][-1].o + 1) != (row.p, row.o):
            runs.append([])
        runs[-1].append(row)
    for run in runs:
        stem = f"topics/t/partition={run[0].p}/t+{run[0].p}+{run[0].o:010}"
        parts = {
            "json": [{"t": row.t, "v": row.v} for row in run],
            "keys.json": [row.k for row in run],
            "headers.json": [{"headers": row.fields()["h"]} for row in run],
        }
        write(
            directory, {f"{stem}.{end}": "".join(f"{json.dumps(of)}\n" for of in part) for end, part in parts.items()}
        )

    layout = {"path_pattern": "confluent", "beside": ["keys", "headers"], "partitions": PARTITIONS}
    land(warehouse, directory, value="v", **layout)

    assert found(warehouse) == want(rows)
