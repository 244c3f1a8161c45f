"""Landed topics as tables of SQL and of files: what is in them, and what a wrong name is answered with."""

import datetime as dt
import json

import pytest

from kstreams_replay.jobs.history.landed_tables import landed_table, landed_tables
from kstreams_replay.jobs.history.queries import run_query
from kstreams_replay.jobs.history.query_rules import time_hint
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

NINE_MS = 1_767_258_000_000
"""2026-01-01T09:00:00Z."""


@pytest.fixture
def warehouse(tmp_path):
    """Topic clicks of two partitions, the later time first, and topic raw, whose bytes are no text."""
    opened = Warehouse(tmp_path)
    clicks = [
        LandedRecord(1, b"bob", b'{"page": "cart", "n": 2}', NINE_MS),
        LandedRecord(0, b"ann", b'{"page": "home", "n": 1}', NINE_MS + 3_600_500),
        LandedRecord(0, b"ann", None, NINE_MS + 1),
    ]
    plant(opened, "clicks", clicks, partitions=2)
    plant(opened, "raw", [LandedRecord(0, b"\xff", b"x", 5)], partitions=1)
    return opened


def test_records_are_in_the_order_of_their_partitions_with_their_time_twice(warehouse):
    rows = landed_table(warehouse, "clicks").drop_columns("headers").to_pylist()

    assert [(row["partition"], row["offset"], row["key"], row["value"]) for row in rows] == [
        (0, 0, "ann", '{"page": "home", "n": 1}'), (0, 1, "ann", None), (1, 0, "bob", '{"page": "cart", "n": 2}'),
    ]  # fmt: skip
    assert rows[2]["record_time_ms"] == NINE_MS
    assert rows[2]["record_time"] == dt.datetime(2026, 1, 1, 9, tzinfo=dt.UTC)


def test_bytes_that_are_no_text_are_hexadecimal(warehouse):
    assert landed_table(warehouse, "raw")["key"].to_pylist() == ["0xff"]


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ('SELECT key, value.page FROM "landed/clicks" WHERE value.n >= 1', [("ann", "home"), ("bob", "cart")]),
        (
            'SELECT floor(record_time_ms / 3600000) * 3600000 AS hour, count(*) FROM "landed/clicks" GROUP BY hour '
            "ORDER BY hour",
            [(NINE_MS, 2), (NINE_MS + 3_600_000, 1)],
        ),
        (
            'SELECT CAST(record_time_ms * 1000 AS DATETIME) AS at FROM "landed/clicks" WHERE partition = 1',
            [(dt.datetime(2026, 1, 1, 9),)],
        ),
        ('SELECT value FROM "landed/raw"', [("x",)]),
    ],
)
def test_sql_knows_a_topic_by_its_name_and_its_values_by_their_fields(warehouse, query, want):
    assert run_query(query, landed_tables(warehouse)).rows() == want


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ('SELECT page FROM "landed/clicks"', "did you mean value.page?"),
        ('SELECT value.Pages FROM "landed/clicks"', "did you mean value.page?"),
        ('SELECT c.pagee FROM "landed/clicks" AS c', "did you mean value.page?"),
        (
            'SELECT wrong FROM "landed/clicks"',
            "columns are partition, offset, record_time_ms, record_time, key, value, value.page, value.n, headers",
        ),
        ("SELECT * FROM click", 'tables are "landed/clicks", "landed/raw"; did you mean "landed/clicks"?'),
        ("SELECT * FROM landed/clicks", 'write "landed/clicks", in double quotes'),
    ],
)
def test_a_wrong_name_is_answered_with_those_that_may_be_meant(warehouse, query, want):
    with pytest.raises(ConfigError) as refused:
        run_query(query, landed_tables(warehouse))

    assert refused.value.next_step == want


@pytest.mark.parametrize(
    "query",
    ["SELECT CAST(c.record_time_ms AS DATETIME) FROM c", 'SELECT cast("window_start_ms" as timestamp) FROM c',
     "SELECT record_time_ms::timestamp FROM c"],
)  # fmt: skip
def test_a_cast_of_milliseconds_to_a_datetime_is_warned_of(query):
    assert "takes microseconds" in str(time_hint(query))


@pytest.mark.parametrize(
    "query", ["SELECT CAST(record_time_ms * 1000 AS DATETIME) FROM c", "SELECT CAST(record_time_ms AS BIGINT) FROM c"]
)
def test_other_casts_are_not(query):
    assert time_hint(query) is None


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_a_topic_is_exported_without_a_pipeline(warehouse, tmp_path, capsys, suffix):
    from kstreams_replay.orchestration.cli.main import main

    path = tmp_path / f"clicks.{suffix}"
    assert main(["export", "landed/clicks", "--out", str(path), "--warehouse", str(warehouse.root)]) == 0

    assert "landed/clicks: 3 rows" in capsys.readouterr().out
    if suffix == "jsonl":
        first = json.loads(path.read_text().splitlines()[0])
        assert (first["key"], first["record_time_ms"]) == ("ann", NINE_MS + 3_600_500)
        assert first["record_time"].startswith("2026-01-01 10:00:00.5")
