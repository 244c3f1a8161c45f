"""Every query that docs/asking.md and docs/tables.md show is run as it is written there."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from examples.flights.topology import topology
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.jobs.history.history import AsOf
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.once_a_run import once_a_run
from tests.planted import LandedRecord, plant
from tests.test_docs import code_blocks, document

HOUR = 3_600_000
MIDNIGHT = 1_356_998_400_000
INCREMENTS = 5
LATER = (("retract", "a", 2), ("insert", "a", 3), ("insert", "c", 9))
"""Changes of an output for a reader who has applied increments 1 to 3."""


def shown(path: str, language: str) -> list[str]:
    return ["\n".join(lines) for lines in code_blocks(document(path), language)]


def departure(origin: str, time_ms: int) -> LandedRecord:
    value = {"departed_ms": time_ms, "scheduled_ms": time_ms, "carrier": "UA", "flight": 1, "minutes_late": 0}
    value |= {"origin": origin, "destination": "LAX"}
    return LandedRecord(0, origin.encode(), json.dumps(value).encode(), time_ms)


def _flights(folder: Path) -> None:
    """Five increments of four departures, twelve hours apart, so that each one closes hours of the one before."""
    warehouse = Warehouse(str(folder / "warehouse" / "tables"))
    plant(warehouse, "aircraft", [], partitions=4)
    for day in range(INCREMENTS):
        begin = MIDNIGHT + day * 12 * HOUR
        times = (("JFK", begin), ("LGA", begin + 1), ("JFK", begin + 2), ("JFK", begin + 6 * HOUR))
        plant(warehouse, "departures", [departure(*each) for each in times], partitions=2)
        assert len(list(replay(warehouse, topology, pipeline="flights", runner=LocalRunner(), idle="proceed"))) == 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the tables of the demo as the page names them: five increments of few records."""
    shutil.copytree(once_a_run("asked flights", _flights) / "warehouse", tmp_path / "warehouse")
    monkeypatch.chdir(tmp_path)
    for name, value in (("URI", f"sqlite:///{tmp_path}/catalog.db"), ("WAREHOUSE", f"file://{tmp_path}/lake")):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it was read when PyIceberg was imported
    catalog = load_catalog("lake")
    catalog.create_namespace("shop")
    catalog.create_table("shop.sessions_current", pa.schema([("key", pa.string()), ("window_end_ms", pa.int64())]))
    return tmp_path


def asked(*, spark: Any = None) -> dict[str, Any]:
    """What the page's Python has made; without Spark, all but what asks it."""
    names: dict[str, Any] = {"spark": spark}
    for block in shown("docs/asking.md", "python"):
        if spark is not None or "spark" not in block:
            exec(compile(block, "docs/asking.md", "exec"), names)
    return names


def test_the_python_of_the_page_reads_outputs_and_stores(folder):
    names = asked()

    assert done_row(Warehouse("warehouse/tables"), "flights").content.versions["outputs/departures_per_hour"] == 5
    assert len(names["files"]) > 0
    past = names["past"]
    assert isinstance(past, AsOf)
    assert past.increment == 3
    hours = past.output("departures_per_hour").to_pylist()
    want = [("JFK", 12 * day + hour, n) for day in range(3) for hour, n in ((0, 2), (6, 1))]
    assert [
        (row["key"], (row["window_start_ms"] - MIDNIGHT) // HOUR, row["value"]["departures"])
        for row in sorted(hours, key=lambda row: row["window_start_ms"])
        if row["key"] == "JFK"
    ] == want[:5]


@pytest.mark.jvm
def test_the_sql_of_the_page_asks_spark(spark, folder):
    (sql,) = shown("docs/asking.md", "sql")
    asked(spark=spark)

    rows = spark.sql(sql.replace("warehouse/tables", str(folder / "warehouse" / "tables"))).collect()

    assert [(row.key, row.departures) for row in rows] == [("JFK", 2)] * 3
    assert spark.sql("SELECT count(*) AS n FROM departures_per_hour WHERE key = 'JFK'").first().n == 5


@pytest.mark.jvm
def test_the_sql_of_an_outputs_changes_retracts_and_inserts_what_a_reader_has_not_applied(spark):
    """
    Of the output's rows "a" was published by increment 2 and taken back by 4, which published it again; "b" was taken
    back before the reader began, "d" was published and taken back after it.
    """
    (sql,) = shown("docs/tables.md", "sql")
    gone = [("a", 2, 2, 4), ("b", 5, 1, 3), ("d", 7, 4, 5)]
    spark.createDataFrame(gone, "key string, value int, increment long, retracted_in long").createOrReplaceTempView(
        "retractions"
    )
    present = [("a", 3, 4), ("b", 6, 3), ("c", 9, 5)]
    spark.createDataFrame(present, "key string, value int, increment long").createOrReplaceTempView("outputs")

    rows = spark.sql(sql).collect()

    assert sorted((row.change, row.key, row.value) for row in rows) == sorted(LATER)
