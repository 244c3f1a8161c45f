"""What a Delta log says of files beside their names: column mapping, deletion vectors, values in the path, features.

Logs are written here by hand, as Delta's protocol has them; Spark's own are in test_lake_of_spark.py.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from kstreams_replay.state.errors import LandingError
from tests.landing.lake_tables import in_order, land, records_of, rows, spark_rows

TYPES = {"key": "binary", "value": "binary", "topic": "string", "partition": "integer", "offset": "long",
         "timestamp": "timestamp", "timestampType": "integer"}  # fmt: skip
IDS = {name: number for number, name in enumerate([*TYPES, "headers", "headers.key", "headers.value"], 1)}


def told(name: str, *, mapped: bool) -> dict[str, Any]:
    return (
        {"delta.columnMapping.id": IDS[name], "delta.columnMapping.physicalName": f"col-{IDS[name]}"} if mapped else {}
    )


def metadata(*, mode: str | None = None, partitioned: list[str] | None = None) -> dict[str, Any]:
    """Of a table with the columns of Spark's Kafka source."""
    mapped = mode is not None
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": told(name, mapped=mapped)}
        for name, kind in TYPES.items()
    ]
    parts = [
        {"name": part, "type": kind, "nullable": True, "metadata": told(f"headers.{part}", mapped=mapped)}
        for part, kind in (("key", "string"), ("value", "binary"))
    ]
    element = {"type": "struct", "fields": parts}
    headers = {"type": "array", "elementType": element, "containsNull": True}
    fields.append({"name": "headers", "type": headers, "nullable": True, "metadata": told("headers", mapped=mapped)})
    return {
        "id": "one-table",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": partitioned or [],
        "configuration": {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "10"} if mode else {},
        "createdTime": 0,
    }


def commit(path: Path, number: int, *actions: Mapping[str, Any]) -> None:
    log = path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{number:020d}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def protocol(*features: str) -> dict[str, Any]:
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": list(features),
        }
    }


def add(path: Path, name: str, table: pa.Table, **more: Any) -> dict[str, Any]:
    """Write a data file, and the action that adds it; paths in a log are percent-encoded."""
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path / name)
    stats = json.dumps({"numRecords": len(table)})
    return {
        "add": {
            "path": name.replace(" ", "%20"),
            "size": (path / name).stat().st_size,
            "partitionValues": {},
            "modificationTime": 0,
            "dataChange": True,
            "stats": stats,
            **more,
        }
    }


def physical(table: pa.Table, *, names: Mapping[str, str], ids: bool) -> pa.Table:
    """Files' names for the table's columns, at every depth, and ids of Parquet where wanted."""

    def field(name: str, path: str, kind: pa.DataType) -> pa.Field:
        metadata = {b"PARQUET:field_id": str(IDS[path]).encode()} if ids else None
        return pa.field(names.get(path, path), kind, metadata=metadata)

    fields = []
    for name in table.column_names:
        kind = table.schema.field(name).type
        if name == "headers":
            parts = [field(part, f"headers.{part}", of) for part, of in (("key", pa.string()), ("value", pa.binary()))]
            kind = pa.list_(pa.struct(parts))
        fields.append(field(name, name, kind))
    columns = [column.combine_chunks() for column in table.columns]
    if "headers" in table.column_names:
        place = table.column_names.index("headers")
        lists = columns[place]
        inner = fields[place].type.value_type
        structs = pa.StructArray.from_arrays(lists.values.flatten(), fields=list(inner))
        columns[place] = pa.ListArray.from_arrays(lists.offsets, structs, type=fields[place].type)
    return pa.table(columns, schema=pa.schema(fields))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_found_by_their_physical_names_or_ids_at_every_depth(warehouse, tmp_path, mode):
    """In the mode id a file's names say nothing: another engine has written it with names of its own."""
    path = tmp_path / "t"
    by_name = {name: f"col-{number}" for name, number in IDS.items()}
    other = {name: f"x{10 - number}" for name, number in IDS.items()}
    table = physical(spark_rows(rows(0, 10)), names=by_name if mode == "name" else other, ids=mode == "id")
    commit(path, 0, protocol("columnMapping"), {"metaData": metadata(mode=mode)}, add(path, "a b/c.parquet", table))

    land(warehouse, path)

    assert records_of(warehouse) == in_order(rows(0, 10))


def test_values_in_the_log_alone_are_of_the_right_column_under_column_mapping(warehouse, tmp_path):
    path = tmp_path / "t"
    names = {name: f"col-{number}" for name, number in IDS.items()}
    actions = []
    for p in range(2):
        own = [row for row in rows(0, 10) if row.partition == p]
        table = physical(spark_rows(own).drop_columns(["partition", "topic"]), names=names, ids=False)
        constants = {f"col-{IDS['partition']}": str(p), f"col-{IDS['topic']}": "clicks"}
        actions.append(add(path, f"partition=9/{p}.parquet", table, partitionValues=constants))
    told = {"metaData": metadata(mode="name", partitioned=["topic", "partition"])}
    commit(path, 0, protocol("columnMapping"), told, *actions)

    land(warehouse, path)

    assert records_of(warehouse) == in_order(rows(0, 10))


def vector(path: Path, deleted: list[int]) -> dict[str, Any]:
    """A deletion vector in a file of its own: version, then size, bitmap (portable, 64 bits) and CRC-32."""
    data = struct.pack("<I", 1681511377) + BitMap64(deleted).serialize()
    name = "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin"
    framed = b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (path / name).write_bytes(framed)
    return {
        "storageType": "p",
        "pathOrInlineDv": f"file://{path}/{name}",
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(deleted),
    }


def test_rows_of_a_deletion_vector_do_not_land_and_later_ones_are_noticed(warehouse, tmp_path):
    path = tmp_path / "t"
    first = add(path, "a.parquet", spark_rows(rows(0, 10)))
    commit(path, 0, protocol("deletionVectors"), {"metaData": metadata()}, first)
    hidden = vector(path, [0, 3])
    remove = {"remove": {"path": "a.parquet", "dataChange": True, "deletionTimestamp": 1}}
    commit(path, 1, remove, {"add": first["add"] | {"deletionVector": hidden}})

    land(warehouse, path)
    assert records_of(warehouse) == in_order(row for n, row in enumerate(rows(0, 10)) if n not in (0, 3))

    more = vector(path / "..", [0, 3, 4])
    told = {"commitInfo": {"operation": "DELETE"}}
    before = {"remove": remove["remove"] | {"deletionVector": hidden}}
    commit(path, 2, told, before, {"add": first["add"] | {"deletionVector": more}})
    with pytest.raises(LandingError, match=r"1 landed record is gone .*\(partition 0: offset 2\), by DELETE in"):
        land(warehouse, path)


def test_a_column_that_came_later_is_null_before_and_narrow_numbers_are_wide(warehouse, tmp_path):
    path = tmp_path / "t"
    early = spark_rows(rows(0, 6)).drop_columns(["headers", "timestampType"])
    early = early.set_column(4, "offset", early["offset"].cast(pa.int32()))
    commit(path, 0, protocol("typeWidening"), {"metaData": metadata()}, add(path, "a.parquet", early))
    commit(path, 1, add(path, "b.parquet", spark_rows(rows(6, 10))))

    land(warehouse, path)

    expected = [row._replace(headers=[]) if row in rows(0, 6) else row for row in rows(0, 10)]
    assert records_of(warehouse) == in_order(expected)


def test_values_without_room_in_the_tables_type_are_refused_with_what_helps(warehouse, tmp_path):
    """The column of the times cannot be left out."""
    table = spark_rows(rows(0, 6))
    times = pa.array([row.ms * 1_000_000 + 1 for row in rows(0, 6)], pa.timestamp("ns", "UTC"))
    path = tmp_path / "t"
    file = add(path, "a.parquet", table.set_column(5, "timestamp", times))
    commit(path, 0, protocol("timestampNtz"), {"metaData": metadata()}, file)

    with pytest.raises(
        LandingError, match=r"a column timestamp of type .*; have its files written again, with timestamp"
    ) as error:
        land(warehouse, path)
    assert "--value" not in error.value.next_step


@pytest.mark.parametrize("feature", ["allPresent", "variantType"])
def test_a_reader_feature_that_is_not_known_is_refused_by_its_name(warehouse, tmp_path, feature):
    path = tmp_path / "t"
    commit(path, 0, protocol(feature), {"metaData": metadata()}, add(path, "a.parquet", spark_rows(rows(0, 10))))

    with pytest.raises(LandingError) as error:
        land(warehouse, path)

    assert error.value.expected.startswith("reader features that are known here (columnMapping, deletionVectors")
    assert feature in error.value.got
    assert warehouse.topics() == []


def test_a_damaged_log_is_named(warehouse, tmp_path):
    path = tmp_path / "t"
    commit(path, 0, protocol("timestampNtz"), {"metaData": metadata()}, add(path, "a.parquet", spark_rows(rows(0, 10))))
    (path / "_delta_log" / f"{1:020d}.json").write_text('{"add":')

    with pytest.raises(LandingError, match="expected a Delta log that can be read, got "):
        land(warehouse, path)


def test_a_property_that_says_upsert_is_no_history(warehouse, tmp_path):
    path = tmp_path / "t"
    told = metadata() | {"configuration": {"tableflow.write.mode": "UPSERT"}}
    commit(path, 0, protocol("timestampNtz"), {"metaData": told}, add(path, "a.parquet", spark_rows(rows(0, 10))))

    with pytest.raises(LandingError, match=r"last value of a key: its property tableflow\.write\.mode is UPSERT"):
        land(warehouse, path)
