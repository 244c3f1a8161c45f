"""Tables that ``kstreams_replay.state.tables.commit`` writes are Spark's to read, and the other way round."""

import pyarrow as pa
import pytest

from kstreams_replay.state.errors import CommitLost
from kstreams_replay.state.tables.commit import commit_files, transaction_version
from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA

pytestmark = pytest.mark.jvm

APP = "landing/clicks/0"


def write(path, offsets, *, increment, partition=0):
    header = [{"key": "h", "value": b"v"}]
    rows = [{"offset": o, "timestamp": 5, "value": b"x", "headers": header, "increment": increment} for o in offsets]
    schema = pa.schema([field for field in LANDED_SCHEMA if field.name != "partition"])
    return write_task_file(path, pa.Table.from_pylist(rows, schema), partition=partition, name="x")


def positions(spark, path):
    rows = spark.read.format("delta").load(path).select("partition", "offset", "increment").collect()
    return sorted(tuple(row) for row in rows)


def test_spark_reads_what_was_committed_with_sparks_types(spark, warehouse):
    path = warehouse.landed("clicks")
    files = [write(path, [0, 1], increment=1), write(path, [7], increment=1, partition=1)]
    commit_files(path, LANDED_SCHEMA, files, app_id=APP, increment=1)

    assert positions(spark, path) == [(0, 0, 1), (0, 1, 1), (1, 7, 1)]
    assert spark.read.format("delta").load(path).dtypes == [
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "bigint"),
        ("timestamp_type", "string"),
        ("key", "binary"),
        ("value", "binary"),
        ("headers", "array<struct<key:string,value:binary>>"),
        ("increment", "bigint"),
    ]


def test_spark_and_commit_files_take_turns_on_one_table(spark, warehouse):
    """
    Spark's append carries the mark of increment 2, so increment 3 may follow and 2 again is skipped.
    """
    path = warehouse.landed("clicks")
    commit_files(path, LANDED_SCHEMA, [write(path, [0], increment=1)], app_id=APP, increment=1)
    moved = {"offset": "offset + 5", "increment": "increment + 1"}
    columns = [f"{moved.get(name, name)} as {name}" for name in LANDED_SCHEMA.names]
    more = spark.read.format("delta").load(path).selectExpr(*columns)
    more.write.format("delta").mode("append").option("txnAppId", APP).option("txnVersion", 2).save(path)

    assert transaction_version(path, APP) == 2
    assert [(file.min_offset, file.bounds["increment"]) for file in read_files(path)] == [(0, (1, 1)), (5, (2, 2))]
    assert (
        read_rows(path, read_files(path), LANDED_SCHEMA)["headers"].to_pylist() == [[{"key": "h", "value": b"v"}]] * 2
    )

    commit_files(path, LANDED_SCHEMA, [write(path, [5], increment=2)], app_id=APP, increment=2)
    commit_files(path, LANDED_SCHEMA, [write(path, [6], increment=3)], app_id=APP, increment=3)
    assert positions(spark, path) == [(0, 0, 1), (0, 5, 2), (0, 6, 3)]


@pytest.mark.nightly
def test_a_restore_by_spark_is_noticed(spark, warehouse):
    path = warehouse.landed("clicks")
    version = commit_files(path, LANDED_SCHEMA, [write(path, [0], increment=1)], app_id=APP, increment=1)
    commit_files(path, LANDED_SCHEMA, [write(path, [1], increment=2)], app_id=APP, increment=2)
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {version}")

    with pytest.raises(CommitLost, match="a table that was restored since; take it back with `replay take-back"):
        commit_files(path, LANDED_SCHEMA, [write(path, [1], increment=2)], app_id=APP, increment=2)
    assert positions(spark, path) == [(0, 0, 1)]
