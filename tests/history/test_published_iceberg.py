"""Outputs as Iceberg tables over the same files: pyiceberg, DuckDB, polars and Spark read what our own reader reads."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from kstreams_replay.jobs.branches.backfill import backfill
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.spark_session import SCALA, SPARK_LINE, resolve
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history import published_iceberg
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_newest
from kstreams_replay.jobs.history.current_values import keep_current
from kstreams_replay.jobs.history.published_iceberg import publish_iceberg
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, TimeWindows, Topology, fold
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import CommitLost, ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.rest_catalog import RestCatalog, rest_catalog
from tests.planted import LandedRecord, plant

APP = "tests.history.test_published_iceberg:topology"
COLUMNS = ["partition", "offset", "increment", "key", "window_start_ms", "window_end_ms", "value", "record_time_ms"]

SPARK_PACKAGE = f"org.apache.iceberg:iceberg-spark-runtime-{SPARK_LINE}_{SCALA}:1.12.0"
SPARK_READER = """
import json, sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for query in sys.stdin:
    print(json.dumps([row.asDict(recursive=True) for row in spark.sql(query).collect()]), flush=True)
"""
"""Spark with Iceberg's own package and none of our code: a query a line, answered by a line of rows."""


def topology(where: str = "ms >= 0", *, has_last: bool = False) -> Topology:
    """``where``: of the records that are counted. ``has_last``: values have one more field."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.json("page string, ms long")))
    windowed = stream.filter(where).group_by_key().windowed_by(TimeWindows.of_size(10, grace=0))
    folds = {"n": fold.count(), "ms": fold.sum("ms"), "pages": fold.collect("page")}
    if has_last:
        folds["last"] = fold.last("page")
    windowed.aggregate(materialized=Materialized.as_("windows"), **folds).to("out")
    return builder.build()


def land(warehouse: Warehouse, first: int, count: int) -> None:
    records = [
        LandedRecord(n % 2, b"ab"[n % 2 : n % 2 + 1], b'{"page": "p%d", "ms": %d}' % (n, n), 3 * n)
        for n in range(first, first + count)
    ]
    plant(warehouse, "in", records, partitions=2)


def run(warehouse: Warehouse, pipeline: str = "p", code: Topology | None = None, **options: Any) -> None:
    code = topology() if code is None else code
    list(replay(warehouse, code, pipeline=pipeline, runner=LocalRunner(), idle="proceed", **options))


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    warehouse = Warehouse(tmp_path / "w")
    land(warehouse, 0, 10)
    run(warehouse)
    return warehouse


@pytest.fixture
def settings(tmp_path) -> dict[str, str]:
    (tmp_path / "lake").mkdir()
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}


@pytest.fixture
def catalog(settings) -> Catalog:
    return load_catalog("here", **settings)


@pytest.fixture
def rest(tmp_path) -> Iterator[RestCatalog]:
    with rest_catalog(tmp_path / "rest") as rest:
        yield rest


@pytest.fixture
def ask_spark(rest, tmp_path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Rows of a query of Spark, in a process of its own, whose catalog ``lake`` is ``rest``."""
    catalog = {"type": "rest", "uri": rest.uri, "token": rest.token, "cache-enabled": "false"}
    settings = {
        "spark.jars": ",".join(map(str, resolve([SPARK_PACKAGE]))),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.warehouse.dir": str(tmp_path / "spark"),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        **{f"spark.sql.catalog.lake.{name}": value for name, value in catalog.items()},
    }
    command = [sys.executable, "-c", SPARK_READER, json.dumps(settings)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(query: str) -> list[dict[str, Any]]:
            process.stdin.write(f"{query}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask


def rows_of(table: Table) -> list[dict[str, Any]]:
    return in_order(table.scan().to_arrow().select(COLUMNS).to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def want(warehouse: Warehouse, pipeline: str = "p") -> list[dict[str, Any]]:
    return in_order(read_changelog(warehouse, pipeline, "out").select(COLUMNS).to_pylist())


def files_of(table: Table) -> set[str]:
    return {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}


def test_every_reader_has_the_rows_and_no_file_is_copied(warehouse, settings, catalog, tmp_path):
    found = publish_iceberg(warehouse, "p", "here", properties=settings)

    table = catalog.load_table(("p", "out"))
    assert [(each.table, each.increment, each.added, each.removed) for each in found] == [("p.out", 1, 2, 0)]
    assert rows_of(table) == want(warehouse)
    assert all(Path(path).is_relative_to(tmp_path / "w" / "p" / "outputs") for path in files_of(table))
    assert not list((tmp_path / "lake").rglob("*.parquet"))
    asked = "SELECT partition, sum(value.n) FROM out GROUP BY 1 ORDER BY 1"
    counts = {p: sum(row["value"]["n"] for row in want(warehouse) if row["partition"] == p) for p in (0, 1)}
    assert dict(table.scan().to_duckdb("out").execute(asked).fetchall()) == counts
    frame = pl.scan_iceberg(table).select("offset", "partition").collect()
    assert sorted(frame.rows()) == sorted((row["offset"], row["partition"]) for row in want(warehouse))


@pytest.mark.parametrize("name", ["a b", "50%", "ü", "a#b?c"])
def test_readers_open_the_files_of_a_warehouse_whatever_its_folder_is_called(tmp_path, settings, catalog, name):
    warehouse = Warehouse(tmp_path / name)
    land(warehouse, 0, 4)
    run(warehouse)

    publish_iceberg(warehouse, "p", "here", properties=settings)

    table = catalog.load_table(("p", "out"))
    assert rows_of(table) == want(warehouse)
    assert len(pl.scan_iceberg(table).select("offset").collect()) == len(want(warehouse))
    assert all(Path(path).is_file() for path in files_of(table))


def test_it_follows_increments_restores_and_branches(warehouse, settings, catalog):
    publish_iceberg(warehouse, "p", "here", properties=settings)
    fork(warehouse, "p", 1, "branch")
    land(warehouse, 10, 8)
    run(warehouse)
    run(warehouse, "branch")

    (found,) = publish_iceberg(warehouse, "p", "here", properties=settings)
    assert (found.increment, found.added, found.removed) == (2, 2, 0)
    table = catalog.load_table(("p", "out"))
    assert rows_of(table) == want(warehouse)
    assert [each.summary.additional_properties["replay.increment"] for each in table.snapshots() if each.summary] == [
        "1", "2",
    ]  # fmt: skip
    first = table.snapshots()[0].snapshot_id
    assert max(table.scan(snapshot_id=first).to_arrow()["increment"].to_pylist()) == 1

    publish_iceberg(warehouse, "branch", "here", properties=settings, namespace="what_if")
    assert rows_of(catalog.load_table(("what_if", "out"))) == want(warehouse, "branch")

    restore(warehouse, "p", 1)
    (found,) = publish_iceberg(warehouse, "p", "here", properties=settings)
    assert (found.added, found.removed) == (0, 2)
    assert rows_of(catalog.load_table(("p", "out"))) == want(warehouse)
    (found,) = publish_iceberg(warehouse, "p", "here", properties=settings)
    assert (found.added, found.removed) == (0, 0)


@pytest.mark.parametrize("is_later", [False, True])
def test_two_that_publish_at_once_list_each_file_of_the_last_increment_once(
    warehouse, settings, catalog, monkeypatch, is_later
):
    commit = published_iceberg._Target._commit

    def commit_second(*given: Any) -> None:
        monkeypatch.setattr(published_iceberg._Target, "_commit", commit)
        if is_later:
            land(warehouse, 10, 8)
            run(warehouse)
        publish_iceberg(warehouse, "p", "here", properties=settings)
        commit(*given)

    monkeypatch.setattr(published_iceberg._Target, "_commit", commit_second)
    publish_iceberg(warehouse, "p", "here", properties=settings)

    table = catalog.load_table(("p", "out"))
    assert rows_of(table) == want(warehouse)
    assert [each.summary.additional_properties["replay.increment"] for each in table.snapshots() if each.summary] == [
        "2" if is_later else "1"
    ]


def test_a_file_that_is_listed_twice_is_listed_once_after_the_next_publication(warehouse, settings, catalog):
    publish_iceberg(warehouse, "p", "here", properties=settings)
    table = catalog.load_table(("p", "out"))
    listed = [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        for file in listed:
            snapshot.append_data_file(file)
    assert len(rows_of(catalog.load_table(("p", "out")))) == 2 * len(want(warehouse))

    publish_iceberg(warehouse, "p", "here", properties=settings)

    assert rows_of(catalog.load_table(("p", "out"))) == want(warehouse)


def test_a_publication_before_which_others_always_commit_is_given_up(warehouse, settings, monkeypatch):
    def lose(*_: object) -> None:
        raise CommitFailedException("another one was quicker")

    monkeypatch.setattr(published_iceberg._Target, "_commit", lose)

    with pytest.raises(
        CommitLost, match=r"catalog here: expected a commit, got others before each of 5 \(another one was quicker\)"
    ):
        publish_iceberg(warehouse, "p", "here", properties=settings)


THIRDS = "ms % 3 = 0"


def promoted(warehouse: Warehouse, kind: str) -> None:
    """A branch that counts a third of the records, adopted: one that was forked, or one of a range of times."""
    if kind == "fork":
        fork(warehouse, "p", 1, "branch", topology=topology(THIRDS))
        run(warehouse, "branch", topology(THIRDS))
    else:
        backfill(warehouse, topology(THIRDS), pipeline="p", name="branch", from_ms=0, to_ms=20, runner=LocalRunner())
    promote(warehouse, "branch")


@pytest.mark.parametrize("kind", ["fork", "range"])
def test_it_follows_a_promote_and_who_reads_an_older_snapshot_reads_on(warehouse, settings, catalog, kind):
    land(warehouse, 10, 8)
    run(warehouse)
    keep_current(warehouse, "p", "out")
    publish_iceberg(warehouse, "p", "here", properties=settings)
    reader = catalog.load_table(("p", "out"))
    before = rows_of(reader)

    promoted(warehouse, kind)
    keep_current(warehouse, "p", "out")
    publish_iceberg(warehouse, "p", "here", properties=settings)

    table = catalog.load_table(("p", "out"))
    assert rows_of(table) == want(warehouse) != before
    assert rows_of(reader) == before
    assert rows_of(catalog.load_table(("p", "out_current"))) == in_order(
        read_newest(warehouse, "p", "out").select(COLUMNS).to_pylist()
    )


def test_values_that_gain_a_field_have_it_in_the_catalog_too(warehouse, settings, catalog):
    keep_current(warehouse, "p", "out")
    publish_iceberg(warehouse, "p", "here", properties=settings)
    land(warehouse, 10, 8)
    run(warehouse, code=topology(has_last=True))
    keep_current(warehouse, "p", "out")

    publish_iceberg(warehouse, "p", "here", properties=settings)

    newest = in_order(read_newest(warehouse, "p", "out").select(COLUMNS).to_pylist())
    assert newest[-1]["value"]["last"] == "p17"
    assert rows_of(catalog.load_table(("p", "out"))) == want(warehouse)
    assert rows_of(catalog.load_table(("p", "out_current"))) == newest
    before = len(catalog.load_table(("p", "out")).metadata.metadata_log)
    publish_iceberg(warehouse, "p", "here", properties=settings)
    assert len(catalog.load_table(("p", "out")).metadata.metadata_log) == before


def test_a_table_of_other_types_is_refused(warehouse, settings):
    other = StreamsBuilder()
    other.stream("in", Consumed(Serde.string(), Serde.json("page string, ms string"))).to("out")
    run(warehouse, "other", other.build())
    publish_iceberg(warehouse, "p", "here", properties=settings)

    with pytest.raises(ConfigError, match=r"p\.out: expected a table with columns of the output's types, .*value\.ms"):
        publish_iceberg(warehouse, "other", "here", properties=settings, namespace="p")


def test_current_values_are_published_too(warehouse, settings, catalog):
    keep_current(warehouse, "p", "out")
    publish_iceberg(warehouse, "p", "here", properties=settings)

    table = catalog.load_table(("p", "out_current"))
    newest = read_newest(warehouse, "p", "out").select(COLUMNS).to_pylist()
    assert rows_of(table) == in_order(newest)


def test_an_output_with_the_name_of_anothers_current_values_is_refused(warehouse, settings, catalog):
    code = StreamsBuilder()
    stream = code.stream("in", Consumed(Serde.string(), Serde.json("page string, ms long")))
    stream.to("out")
    stream.to("out_current")
    run(warehouse, "both", code.build())
    publish_iceberg(warehouse, "both", "here", properties=settings)
    keep_current(warehouse, "both", "out")

    with pytest.raises(ConfigError, match="the output 'out_current' beside kept current values of 'out'; rename the"):
        publish_iceberg(warehouse, "both", "here", properties=settings, namespace="other")
    assert not catalog.namespace_exists("other")


def test_its_metadata_has_no_values(warehouse, settings, tmp_path):
    publish_iceberg(warehouse, "p", "here", properties=settings)

    table = load_catalog("here", **settings).load_table(("p", "out"))
    bounded = {
        table.schema().find_column_name(column)
        for task in table.scan().plan_files()
        for column in task.file.lower_bounds or {}
    }
    assert bounded == {"offset", "increment", "window_start_ms", "window_end_ms", "record_time_ms"}


def test_the_command_publishes_after_each_increment(warehouse, settings, catalog):
    land(warehouse, 10, 8)
    options = [part for name, value in settings.items() for part in ("--option", f"{name}={value}")]
    place = ["--warehouse", warehouse.root, "--pipeline", "p", "--local", "--idle", "proceed", "--max-records", "4"]

    assert main(["run", APP, *place, "--publish-iceberg", "here", *options, "--current", "out"]) == 0

    table = catalog.load_table(("p", "out"))
    assert rows_of(table) == want(warehouse)
    said = [each.summary.additional_properties["replay.increment"] for each in table.snapshots() if each.summary]
    assert said == ["1", "2", "3"]
    assert catalog.table_exists(("p", "out_current"))


def test_a_catalog_that_does_not_answer_is_named(warehouse):
    with pytest.raises(ConfigError, match="catalog nowhere: expected a catalog that answers"):
        publish_iceberg(warehouse, "p", "nowhere")


def test_a_rest_catalog_is_published_to_and_asked_for_its_token(warehouse, rest, tmp_path):
    (found,) = publish_iceberg(warehouse, "p", "here", properties=rest.properties)
    land(warehouse, 10, 8)
    run(warehouse)
    (later,) = publish_iceberg(warehouse, "p", "here", properties=rest.properties)

    assert [(each.table, each.increment, each.added, each.removed) for each in (found, later)] == [
        ("p.out", 1, 2, 0), ("p.out", 2, 2, 0),
    ]  # fmt: skip
    assert rows_of(load_catalog("here", **rest.properties).load_table(("p", "out"))) == want(warehouse)
    assert not list((tmp_path / "rest").rglob("*.parquet"))
    with pytest.raises(ConfigError, match=r"catalog here: expected a catalog that answers, got .*no such token"):
        publish_iceberg(warehouse, "p", "here", properties={**rest.properties, "token": "another"})


@pytest.mark.jvm
@pytest.mark.nightly
def test_spark_reads_what_was_published_after_each_increment_a_restore_and_a_promote(warehouse, rest, ask_spark):
    def asked(table: str) -> list[dict[str, Any]]:
        return in_order(ask_spark(f"SELECT {', '.join(f'`{name}`' for name in COLUMNS)} FROM lake.{table}"))

    def publish() -> None:
        keep_current(warehouse, "p", "out")
        publish_iceberg(warehouse, "p", "here", properties=rest.properties)

    publish()
    first = want(warehouse)
    assert asked("p.out") == first
    (snapshot,) = ask_spark("SELECT snapshot_id, summary['replay.increment'] AS increment FROM lake.p.out.snapshots")
    assert snapshot["increment"] == "1"

    land(warehouse, 10, 8)
    run(warehouse)
    publish()
    assert asked("p.out") == want(warehouse) != first
    assert asked("p.out_current") == in_order(read_newest(warehouse, "p", "out").select(COLUMNS).to_pylist())
    assert asked(f"p.out VERSION AS OF {snapshot['snapshot_id']}") == first
    (counted,) = ask_spark("SELECT count(*) AS n FROM lake.p.out WHERE partition = 1 AND increment = 2")
    assert counted == {"n": sum(row["partition"] == 1 and row["increment"] == 2 for row in want(warehouse))}

    restore(warehouse, "p", 1)
    publish()
    assert asked("p.out") == want(warehouse) == first

    promoted(warehouse, "fork")
    publish()
    assert asked("p.out") == want(warehouse) != first
    assert asked("p.out_current") == in_order(read_newest(warehouse, "p", "out").select(COLUMNS).to_pylist())
    assert asked(f"p.out VERSION AS OF {snapshot['snapshot_id']}") == first
