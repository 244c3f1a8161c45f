"""Columns of writers of tables: which layout a table has, what becomes of its columns, and which tables are none."""

import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kstreams_replay.jobs.landing.landing import LakeSource, preview_landing
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.lake_tables import bronze, in_order, land, records_of, redpanda_rows, rows, spark_rows
from tests.landing.landed_rows import landed


def layout_of(warehouse, path, **source) -> str:
    found = preview_landing(None, warehouse, "clicks", LakeSource(delta=path, **source))
    assert found is not None
    assert found.layout is not None
    return found.layout


def renamed(names: dict[str, str], *drop: str) -> pa.Table:
    """Ten rows of Spark's Kafka source under other names."""
    table = spark_rows(rows(0, 10)).drop_columns(list(drop))
    return table.rename_columns([names.get(name, name) for name in table.column_names])


TABLEFLOW = {
    "key": "$$raw-key", "value": "$$raw-value", "topic": "$$topic", "partition": "$$partition", "offset": "$$offset",
    "timestamp": "$$timestamp", "timestampType": "$$timestamp-type", "headers": "$$headers",
}  # fmt: skip
PORTABLE = {name: column.replace("$$", "cflt_metadata_").replace("-", "_") for name, column in TABLEFLOW.items()}


@pytest.mark.parametrize(("layout", "names"), [("tableflow", TABLEFLOW), ("tableflow-portable", PORTABLE)])
def test_tableflows_raw_bytes_land_and_its_other_columns_do_not(warehouse, tmp_path, layout, names):
    table = renamed(names).append_column("page", pa.array(["home"] * 10))
    write_deltalake(str(tmp_path / "t"), table.append_column(f"{names['topic']}-x", pa.array([1] * 10)))

    assert f"layout {layout} (Confluent's Tableflow" in layout_of(warehouse, tmp_path / "t")
    land(warehouse, tmp_path / "t")

    assert records_of(warehouse) == in_order(rows(0, 10))


def test_without_raw_bytes_the_columns_that_are_not_kafkas_are_the_value(warehouse, tmp_path):
    table = renamed(TABLEFLOW, "key", "value", "headers").append_column("page", pa.array(["home"] * 10))
    table = table.append_column("n", pa.array(range(10))).append_column("$$leader-epoch", pa.array([1] * 10))
    write_deltalake(str(tmp_path / "t"), table)

    land(warehouse, tmp_path / "t", key="page")

    found = landed(warehouse, "clicks", "key", "value")
    assert {key for key, _ in found} == {b"home"}
    assert [json.loads(value) for _, value in found] == [
        {"page": "home", "n": n} for n in (*range(0, 10, 2), *range(1, 10, 2))
    ]


def test_redpandas_struct_is_recognised_and_its_exploded_values_are_json(warehouse, tmp_path):
    write_deltalake(str(tmp_path / "raw"), redpanda_rows(rows(0, 10)))
    exploded = redpanda_rows(rows(0, 10)).drop_columns(["value"])
    exploded = exploded.append_column("value", pa.array(range(10))).append_column("page", pa.array(["a"] * 10))
    write_deltalake(str(tmp_path / "exploded"), exploded)

    assert layout_of(warehouse, tmp_path / "raw") == (
        "layout redpanda (Redpanda's Iceberg topics), since the table has columns redpanda.timestamp, "
        "redpanda.partition, redpanda.offset"
    )
    land(warehouse, tmp_path / "raw")
    assert records_of(warehouse) == in_order(rows(0, 10))
    report = preview_landing(None, warehouse, "exploded", LakeSource(delta=tmp_path / "exploded"))
    assert report is not None
    assert report.records == 10


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_metadata_that_kafka_connects_transform_adds_is_recognised(warehouse, tmp_path, is_nested):
    words = ["topic", "partition", "offset", "timestamp"]
    table = spark_rows(rows(0, 10))
    if is_nested:
        struct = pa.StructArray.from_arrays([table[word].combine_chunks() for word in words], words)
        columns: dict[str, Any] = {"_kafka_metadata": struct}
    else:
        columns = {f"_kafka_metadata_{word}": table[word] for word in words}
    write_deltalake(str(tmp_path / "t"), pa.table({"page": ["home"] * 10, **columns}))

    assert "layout kafka-connect (the Iceberg sink of Kafka Connect" in layout_of(warehouse, tmp_path / "t")
    land(warehouse, tmp_path / "t")

    found = landed(warehouse, "clicks", "offset", "timestamp", "key", "value")
    assert found == [(row.offset, row.ms, None, b'{"page":"home"}') for row in in_order(rows(0, 10))]


def test_columns_that_are_named_win_and_need_no_layout(warehouse, tmp_path):
    names = {"key": "k", "value": "v", "partition": "p", "offset": "o", "timestamp": "t", "headers": "h"}
    write_deltalake(str(tmp_path / "t"), renamed(names, "topic"))

    land(warehouse, tmp_path / "t", timestamp="t", partition="p", offset="o", key="k", value="v", headers="h")
    assert records_of(warehouse) == in_order(rows(0, 10))
    write_deltalake(str(tmp_path / "u"), renamed({"value": "payload"}))
    other = Warehouse(str(tmp_path / "other"))
    land(other, tmp_path / "u", value="payload", layout="spark")
    assert records_of(other) == in_order(rows(0, 10))


def test_a_table_without_kafkas_coordinates_is_refused_with_the_reason(warehouse, tmp_path):
    write_deltalake(str(tmp_path / "t"), pa.table({"page": ["home"], "timestamp": [1]}))

    with pytest.raises(LandingError) as error:
        land(warehouse, tmp_path / "t")

    assert error.value.expected == "the columns of a known layout"
    assert error.value.got == "columns page, timestamp, without partition, offset, value of spark"
    assert "does not say in which order its records came" in error.value.next_step
    with pytest.raises(LandingError, match="expected a column o, got columns page, timestamp"):
        land(warehouse, tmp_path / "t", timestamp="timestamp", partition="page", offset="o")
    with pytest.raises(LandingError, match="expected the columns of layout redpanda"):
        land(warehouse, tmp_path / "t", layout="redpanda")


def test_a_table_that_a_merge_keeps_is_no_history(warehouse, tmp_path):
    table = bronze(tmp_path / "t", rows(0, 10))
    on = "t.partition = s.partition AND t.offset = s.offset"
    merge = table.merge(spark_rows(rows(6, 12)), on, source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()

    with pytest.raises(LandingError) as error:
        land(warehouse, tmp_path / "t")

    assert error.value.got == "one that keeps the last value of a key: version 1 is a MERGE that changes matched rows"
    assert land(warehouse, tmp_path / "t", rules={"on_change": "ignore"}).records == 12


def test_a_merge_that_only_inserts_is_a_history(warehouse, tmp_path):
    table = bronze(tmp_path / "t", rows(0, 10))
    on = "t.partition = s.partition AND t.offset = s.offset"
    merge = table.merge(spark_rows(rows(6, 12)), on, source_alias="s", target_alias="t")
    merge.when_not_matched_insert_all().execute()

    land(warehouse, tmp_path / "t")

    assert records_of(warehouse) == in_order(rows(0, 12))


def test_a_row_without_an_offset_is_kept_as_a_dead_letter(warehouse, tmp_path):
    table = spark_rows(rows(0, 10))
    offsets = pa.array([None, None, *table["offset"].to_pylist()[2:]], pa.int64())
    write_deltalake(str(tmp_path / "t"), table.set_column(4, "offset", offsets))

    with pytest.raises(
        LandingError, match="an offset of 0 or more, got None in column offset; 2 of 10 rows of the file do not"
    ):
        land(warehouse, tmp_path / "t")
    report = land(warehouse, tmp_path / "t", rules={"max_bad_share": 0.5})

    assert (report.records, report.dead_letters) == (8, 2)
    assert DeltaTable(warehouse.landed_dead_letter("clicks")).to_pyarrow_table()["line"].to_pylist() == [1, 2]
