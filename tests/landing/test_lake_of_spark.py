"""Delta tables that Spark has written, with every feature of its own that changes how files are read."""

from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.state.errors import LandingError
from tests.landing.lake_tables import Row, in_order, land, records_of, rows

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset {offset}, timestamp timestamp, timestampType int, "
    "headers array<struct<key string, value binary>>"
)


class SparkTable:
    """A Delta table at ``path``, made and filled by Spark."""

    def __init__(self, spark: Any, path: Path, properties: str = "", by: str = "", offset: str = "long") -> None:
        self.spark, self.path = spark, path
        told = f"TBLPROPERTIES ({properties})" if properties else ""
        self.sql(f"CREATE TABLE {{}} ({COLUMNS.format(offset=offset)}) USING delta {by} {told}")

    def sql(self, text: str) -> None:
        """``{}`` is the table."""
        self.spark.sql(text.format(f"delta.`{self.path}`"))

    def append(self, records: list[Row], topic: str = "clicks", offset: str = "long") -> None:
        """In one file."""
        given = [
            (row.key, row.value, topic, row.partition, row.offset, row.ms, 0, [tuple(pair) for pair in row.headers])
            for row in records
        ]
        schema = COLUMNS.format(offset="long").replace("timestamp timestamp", "ms long")
        frame = self.spark.createDataFrame(given, schema)
        frame = frame.selectExpr(
            "key", "value", "topic", "partition", f"cast(offset AS {offset}) offset", "timestamp_millis(ms) timestamp",
            "timestampType", "headers",
        )  # fmt: skip
        frame.coalesce(1).write.format("delta").mode("append").save(str(self.path))


def test_what_deletion_vectors_hide_does_not_land_and_later_ones_are_noticed(spark, warehouse, tmp_path):
    table = SparkTable(spark, tmp_path / "t", "'delta.enableDeletionVectors'='true'")
    table.append(rows(0, 200))
    table.sql("DELETE FROM {} WHERE offset IN (3, 12)")
    table.sql("DELETE FROM {} WHERE offset = 13 AND partition = 1")
    assert list((tmp_path / "t").glob("deletion_vector_*.bin"))

    land(warehouse, tmp_path / "t")
    there = [row for row in rows(0, 200) if row.offset not in (3, 12) and row[:2] != (1, 13)]
    assert records_of(warehouse) == in_order(there)

    table.append(rows(200, 210))
    table.sql("DELETE FROM {} WHERE offset = 20 AND partition = 0")
    with pytest.raises(LandingError, match=r"1 landed record is gone .*\(partition 0: offset 20\), by DELETE in"):
        land(warehouse, tmp_path / "t")
    land(warehouse, tmp_path / "t", rules={"on_change": "ignore"})
    assert records_of(warehouse) == in_order([*there, *rows(200, 210)])
    table.sql("OPTIMIZE {} ZORDER BY (key)")
    table.append(rows(210, 212))
    assert land(warehouse, tmp_path / "t").records == 2


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_were_renamed_and_dropped_and_added_again(spark, warehouse, tmp_path, mode):
    table = SparkTable(spark, tmp_path / "t", f"'delta.columnMapping.mode'='{mode}'")
    table.append(rows(0, 10))
    for change in ("RENAME COLUMN value TO payload", "ADD COLUMN value binary", "DROP COLUMN value",
                   "RENAME COLUMN payload TO value"):  # fmt: skip
        table.sql(f"ALTER TABLE {{}} {change}")
    table.append(rows(10, 20))

    land(warehouse, tmp_path / "t")

    assert records_of(warehouse) == in_order(rows(0, 20))


@pytest.mark.parametrize(
    ("properties", "by"),
    [
        ("", "PARTITIONED BY (topic, partition)"),
        ("'delta.columnMapping.mode'='name'", "PARTITIONED BY (topic, partition)"),
        ("'delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2'", ""),
        ("'delta.feature.timestampNtz'='supported', 'delta.enableRowTracking'='true'", ""),
        ("'delta.enableDeletionVectors'='true'", "CLUSTER BY (offset)"),
    ],
)
def test_the_same_rows_land_whatever_the_table_is(spark, warehouse, tmp_path, properties, by):
    table = SparkTable(spark, tmp_path / "t", properties, by)
    table.append(rows(0, 10))
    table.append(rows(0, 3), "other")
    land(warehouse, tmp_path / "t")
    table.append(rows(10, 20))
    table.sql("OPTIMIZE {}")

    report = land(warehouse, tmp_path / "t")

    assert (report.records, report.warnings) == (10, ())
    assert records_of(warehouse) == in_order(rows(0, 20))


def test_a_column_that_was_made_wider_keeps_its_numbers(spark, warehouse, tmp_path):
    table = SparkTable(spark, tmp_path / "t", "'delta.enableTypeWidening'='true'", offset="int")
    table.append(rows(0, 10), offset="int")
    table.sql("ALTER TABLE {} ALTER COLUMN offset TYPE long")
    table.append(rows(10, 20))

    land(warehouse, tmp_path / "t")

    assert records_of(warehouse) == in_order(rows(0, 20))


def test_a_variant_is_a_feature_that_is_refused_by_its_name(spark, warehouse, tmp_path):
    table = SparkTable(spark, tmp_path / "t")
    table.append(rows(0, 10))
    table.sql("ALTER TABLE {} ADD COLUMN more variant")

    with pytest.raises(LandingError, match=r"reader features that are known here .* got .*variantType"):
        land(warehouse, tmp_path / "t")
