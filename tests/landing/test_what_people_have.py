"""The table "Where your history lies" of docs/landing.md: every line of it lands what it says, as it is written."""

import io
import json
import re
import shlex
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.file_folders import write
from tests.landing.landed_rows import landed
from tests.landing.test_avro_files import container, zigzag
from tests.source_tree import ROOT

AT = 1_767_258_000_000
SINK = "in/topics/t/partition=3/t+3+0000000007"
SPARK = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
SPARK_ROW = {"key": b"ann", "value": b"v", "topic": "t", "partition": 3, "offset": 7, "timestamp": AT * 1000}
KCAT = {"topic": "t", "partition": 3, "offset": 7, "tstype": "create", "ts": AT, "key": "ann", "payload": "v"}


def parquet(schema: pa.Schema, row: dict) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row], schema), out)
    return out.getvalue()


def line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


LONGS = [{"name": name, "type": "long"} for name in ("at", "id")]
BIKES = pa.schema([("started_at", pa.timestamp("us", "UTC")), ("bike", pa.string())])
HAVE: Mapping[str, tuple[dict[str, str | bytes], list[tuple]]] = {
    "JSON lines, also compressed": ({"in/a.jsonl": line(ms=AT, user="ann")}, [(0, 0, b"ann")]),
    "JSON objects one behind the other, in files without an extension (Firehose)": (
        {"in/clicks-1-2026-01-01-09": line(ms=AT, user="ann").strip() * 2}, [(0, 0, b"ann"), (0, 1, b"ann")],
    ),
    "objects within objects": ({"in/a.json": line(payload={"ts_ms": AT, "after": {"id": 1}})}, [(0, 0, b"1")]),
    "changes of Debezium": ({"in/a.json": line(op="c", ts_ms=AT, before=None, after={"id": 1})}, [(0, 0, b"1")]),
    "Connect's JSON with schemas": ({"in/a.json": line(schema={}, payload={"ms": AT, "id": 1})}, [(0, 0, b"1")]),
    "CSV": ({"in/a.csv": "at,item,price,stock\n2026-01-01T09:00:00Z,tea,1.5,2\n"}, [(0, 0, b"tea")]),
    "Parquet": ({"in/a.parquet": parquet(BIKES, {"started_at": AT * 1000, "bike": "b"})}, [(0, 0, b"b")]),
    "Avro containers (`.avro`)": ({"in/a.avro": container(LONGS, [zigzag(AT) + zigzag(1)])}, [(0, 0, b"1")]),
    "lines of `kcat -f` or of the console consumer": ({"dump.txt": f"CreateTime:{AT}\tann\t{{}}\n"}, [(0, 0, b"ann")]),
    "`kcat -J`": ({"in/a.json": line(**KCAT, headers=["h", "x"])}, [(3, 7, b"ann")]),
    "what Spark's Kafka source wrote": (
        {"in/a.parquet": parquet(SPARK, {**SPARK_ROW, "timestampType": 0, "headers": []})}, [(3, 7, b"ann")],
    ),
    "files of Confluent's S3 sink": ({f"{SINK}.json": line(at=AT, id=1)}, [(3, 7, b"1")]),
    "… with its `.keys` and `.headers` files": (
        {f"{SINK}.json": line(at=AT), f"{SINK}.keys.json": '"ann"\n', f"{SINK}.headers.json": line(headers=[])},
        [(3, 7, b"ann")],
    ),
    "files of Aiven's S3 sink": ({"in/t-3-7.json": line(at=AT, id=1)}, [(3, 7, b"1")]),
    "files of Lenses' S3 sink": ({"in/t/3/7.json": line(at=AT, id=1)}, [(3, 7, b"1")]),
    "files without any time (a static table), in a folder `since=2013-01-01/`": (
        {"in/since=2013-01-01/users.csv": "user,city\nann,Bonn\n"}, [(0, 0, b"ann")],
    ),
    "folders of Hive (`partition=3/`, `dt=2026-01-01/`)": (
        {"in/partition=3/dt=2026-01-01/a.json": "{}"}, [(3, 0, None)],
    ),
    "rows in no order, without offsets": (
        {"in/a.jsonl": line(ms=AT + 1, user="late") + line(ms=AT, user="early")}, [(0, 0, b"early"), (0, 1, b"late")],
    ),
}  # fmt: skip
"""By what people have: files, and partition, offset and key of the records."""


def lines_of_the_table() -> dict[str, str]:
    """What people have to the options, of files."""
    _, _, text = (ROOT / "docs" / "landing.md").read_text().partition("## Where your history lies")
    return dict(re.findall(r"^\| (.+?) \| `(--files .+?)` \|", text, re.MULTILINE))


def test_every_line_about_files_has_files_here():
    assert list(lines_of_the_table()) == list(HAVE)


@pytest.mark.parametrize("number", range(len(HAVE)))
def test_a_line_lands_what_it_says(tmp_path, monkeypatch, capsys, number):
    what, (files, want) = list(HAVE.items())[number]
    write(tmp_path, files)
    monkeypatch.chdir(tmp_path)

    code = main(["land", "t", "--warehouse", "W", "--local", *shlex.split(lines_of_the_table()[what])])

    assert code == 0, capsys.readouterr().err
    assert landed(Warehouse("W"), "t", "partition", "offset", "key") == want
