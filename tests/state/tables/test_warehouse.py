"""Where tables lie, and what a name may be."""

import pickle

import pyarrow as pa
import pytest

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.warehouse import (
    DEAD_LETTER_SCHEMA,
    DROPPED_SCHEMA,
    LANDED_SCHEMA,
    LEDGER_SCHEMA,
    Warehouse,
    output_schema,
)


def test_a_warehouse_spells_every_path():
    warehouse = Warehouse("/data/wh/")
    pipeline = warehouse.pipeline("flights")

    got = [
        warehouse.landed("departures"),
        warehouse.landing_ledger("departures"),
        pipeline.output("sessions"),
        pipeline.state("store-0"),
        pipeline.repartition("by-tail"),
        pipeline.dropped,
        pipeline.dead_letter,
        pipeline.ledger,
    ]

    assert got == [
        "/data/wh/landed/departures",
        "/data/wh/landing/departures/ledger",
        "/data/wh/flights/outputs/sessions",
        "/data/wh/flights/state/store-0",
        "/data/wh/flights/repartition/by-tail",
        "/data/wh/flights/dropped",
        "/data/wh/flights/dead_letter",
        "/data/wh/flights/ledger",
    ]


def test_a_warehouse_without_landed_tables_has_no_topics(tmp_path):
    assert Warehouse(str(tmp_path / "none")).topics() == []


def test_topics_are_the_landed_tables_in_order_of_name(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    for topic in ("weather", "aircraft"):
        commit_files(warehouse.landed(topic), LANDED_SCHEMA, [], app_id=f"landing/{topic}/0", increment=1)
    (tmp_path / "landed" / "half-written").mkdir()

    assert warehouse.topics() == ["aircraft", "weather"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", "x" * 250])
def test_a_name_that_is_no_topic_name_is_refused(name):
    with pytest.raises(ConfigError, match=r"topic: expected letters, digits"):
        Warehouse("/data").landed(name)


@pytest.mark.parametrize("name", ["landed", "landing"])
def test_a_pipeline_cannot_take_a_folder_of_the_warehouse(name):
    with pytest.raises(ConfigError, match="choose another name"):
        Warehouse("/data").pipeline(name)


def test_an_empty_root_is_refused():
    with pytest.raises(ConfigError, match="warehouse: expected a directory or a URI"):
        Warehouse("")


@pytest.mark.parametrize("root", ["/data/a%20b/wh", "a%3Db", "file:///data/a%2520b"])
def test_a_path_that_delta_would_decode_into_another_is_refused(root):
    with pytest.raises(ConfigError, match=r"warehouse: expected a path without a percent sign .* got %(20|3D) in .*"):
        Warehouse(root)


@pytest.mark.parametrize("root", ["/data/a%b", "/data/50%", "/data/a%2/0", "file:///data/a%20b", "s3://bucket/a%20b"])
def test_other_percent_signs_are_taken_as_they_are(root):
    assert Warehouse(root).root == root


def test_a_warehouse_travels_to_a_worker():
    warehouse = Warehouse("s3://bucket/data", {"aws_region": "eu"})

    assert pickle.loads(pickle.dumps(warehouse)) == warehouse


def test_an_output_has_a_window_only_when_it_is_windowed():
    plain = output_schema(pa.string(), pa.int64(), windowed=False)
    windowed = output_schema(pa.string(), pa.int64(), windowed=True)

    assert plain.names == [
        "partition", "offset", "increment", "cause_offset", "key", "value", "record_time_ms", "stream_time_ms",
        "headers", "arrival",
    ]  # fmt: skip
    assert [name for name in windowed.names if name not in plain.names] == ["window_start_ms", "window_end_ms"]


def test_every_time_is_a_long_and_every_partition_an_integer():
    fields = [
        field for schema in (LANDED_SCHEMA, DROPPED_SCHEMA, DEAD_LETTER_SCHEMA, LEDGER_SCHEMA) for field in schema
    ]

    assert {field.type for field in fields if field.name.endswith("_ms") or field.name == "timestamp"} == {pa.int64()}
    assert {field.type for field in fields if field.name == "partition"} == {pa.int32()}
    assert {field.type for field in fields if field.name in ("offset", "increment")} == {pa.int64()}


def test_a_relative_directory_is_made_absolute_as_workers_run_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert Warehouse("w/of ours").root == f"{tmp_path}/w/of ours"
    assert Warehouse("s3://bucket/w").root == "s3://bucket/w"
