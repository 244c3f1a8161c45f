"""The command `land` of a table of a lake: what it shows, what it refuses, and the dry run."""

import json
import re
from collections.abc import Iterator

import pytest
from pyiceberg.catalog import load_catalog

from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.out_of_play import exclusions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.lake_tables import bronze, in_order, records_of, redpanda_rows, rows
from tests.landing.rest_catalog import rest_catalog
from tests.landing.test_lake_iceberg import Lake

TOPOLOGY = """
from kstreams_replay import Consumed, Serde, StreamsBuilder

builder = StreamsBuilder()
builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string"))).to("pages")
topology = builder.build()
"""


@pytest.fixture
def land(capsys, tmp_path):
    """Lands the Delta table `bronze`; returns exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        where = ["--warehouse", tmp_path / "w", "--delta", tmp_path / "bronze", "--local"]
        code = main([str(argument) for argument in ("land", "clicks", *where, *arguments)])
        said = capsys.readouterr()
        told = [line for line in said.err.splitlines() if line.startswith("replay: ")]
        return code, re.sub(r"\d+\.\d s", "0.0 s", said.out), "\n".join(told)

    return run


def test_the_layout_and_the_first_record_are_shown_before_it_lands(land, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))

    code, out, err = land()

    assert (code, err) == (0, "")
    assert re.sub(r"part-\S+", "FILE", out) == (
        "first record, of FILE (parquet):\n"
        "  key        k0\n"
        "  time       2026-01-01T09:00:00.000Z (1767258000000)\n"
        "  value      v0\n"
        "  partition  0\n"
        "  offset     0\n"
        "  headers    h=0\n"
        "  columns    layout spark (Spark's Kafka source), since the table has columns timestamp, partition, offset\n"
        "  order      by offset in each partition (column offset)\n"
        "  times      2026-01-01T09:00:00.000Z to 2026-01-01T09:00:09.000Z\n"
        "clicks: 10 records landed in 0.0 s (increment 1)\n"
        "partition  from  to\n"
        "---------  ----  --\n"
        "        0     0   5\n"
        "        1     0   5\n"
    )
    assert records_of(Warehouse(str(tmp_path / "w"))) == in_order(rows(0, 10))
    assert land() == (0, "clicks: nothing new\n", "")


def test_a_delete_is_refused_and_may_be_ignored(land, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land()
    bronze(tmp_path / "bronze", rows(10, 12)).delete("offset = 2 AND partition = 0")

    code, _, err = land()
    assert code == 1
    assert "got 1 landed record is gone from the table (partition 0: offset 2), by DELETE in version 2; restore" in err
    code, out, err = land("--on-change", "ignore")
    assert code == 0
    assert "replay: warning: clicks: 1 landed record is gone from the table (partition 0: offset 2)" in err
    assert "clicks: 2 records landed" in out


def test_what_is_gone_may_be_erased(land, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land()
    bronze(tmp_path / "bronze", rows(10, 12)).delete("offset = 2 AND partition = 0")

    dry = land("--on-change", "erase", "--dry-run")
    assert (dry[0], len(exclusions(Warehouse(str(tmp_path / "w")), "clicks"))) == (0, 0)
    code, out, err = land("--on-change", "erase")

    assert code == 0
    assert "(partition 0: offset 2), by DELETE in version 2; the topic has them erased" in err
    assert "clicks: 2 records landed in 0.0 s (increment 2, 3)" in out
    [erased] = exclusions(Warehouse(str(tmp_path / "w")), "clicks")
    assert (erased.partition, erased.offset, erased.is_erased) == (0, 2, True)


def test_a_dry_run_says_what_would_land(land, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))

    code, out, _ = land("--dry-run", "--json", "--version", 0)

    found = json.loads(out)
    assert (code, found["records"], found["layout"][:12]) == (0, 10, "layout spark")
    assert Warehouse(str(tmp_path / "w")).topics() == []


def test_values_that_the_topologys_serde_cannot_read_are_refused(land, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    (tmp_path / "topology.py").write_text(TOPOLOGY)

    code, _, err = land("--for", f"{tmp_path / 'topology.py'}:topology")

    assert code == 1
    assert "expected a value that Serde.json" in err


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (["--files", "in"], "--files and --delta exclude each other"),
        (["--snapshot", 3], "--snapshot: expected a source that reads it: --iceberg, got --delta"),
        (["--layout", "redpanda"], "expected the columns of layout redpanda"),
    ],
)
def test_options_that_do_not_fit_are_refused(land, tmp_path, options, want):
    bronze(tmp_path / "bronze", rows(0, 2))

    code, _, err = land(*options)

    assert code != 0
    assert want in err


@pytest.fixture
def lake(tmp_path, warehouse) -> Iterator[Lake]:
    """An Iceberg catalog that is one file."""
    with Lake(tmp_path / "lake", warehouse) as lake:
        yield lake


def test_an_iceberg_table_lands_by_options_of_its_catalog_as_of_a_snapshot_and_then_the_rest(lake, capsys):
    table = lake.create(redpanda_rows(rows(0, 10)))
    first = table.current_snapshot().snapshot_id
    table.append(redpanda_rows(rows(10, 14)))
    catalog = [word for name, value in lake.properties.items() for word in ("--option", f"{name}={value}")]
    where = ["--warehouse", lake.warehouse.root, "--iceberg", "lake.shop.clicks", *catalog, "--local", "--json"]

    landed = []
    for asked in (["--snapshot", str(first)], []):
        assert main(["land", "clicks", *where, *asked]) == 0
        landed.append(json.loads(capsys.readouterr().out)["records"])
    assert main(["land", "clicks", *where, "--snapshot", "1"]) == 1

    assert landed == [10, 4]
    assert records_of(lake.warehouse) == in_order(rows(0, 14))
    assert "Iceberg table lake.shop.clicks: expected snapshot 1, got 2 snapshots, the newest" in capsys.readouterr().err


@pytest.mark.parametrize("how", [["--in-place"], []])
def test_an_iceberg_table_of_a_rest_catalog_lands_with_its_token_from_the_environment(
    warehouse, capsys, monkeypatch, tmp_path, how
):
    with rest_catalog(tmp_path / "rest") as rest:
        monkeypatch.setenv("LAKE_TOKEN", rest.token)
        catalog = load_catalog("lake", **rest.properties)
        catalog.create_namespace("shop")
        options = ["type=rest", f"uri={rest.uri}", "token=${env:LAKE_TOKEN}"]
        words = [word for option in options for word in ("--option", option)]
        where = ["--warehouse", warehouse.root, "--iceberg", "lake.shop.clicks", *words, "--local", "--json"]
        assert main(["land", "clicks", *where, *how]) == 1
        assert "Iceberg table lake.shop.clicks: expected a table, got none" in capsys.readouterr().err

        table = catalog.create_table("shop.clicks", redpanda_rows(rows(0, 10)).schema)
        landed = []
        for first, end in ((0, 10), (10, 14)):
            table.append(redpanda_rows(rows(first, end)))
            assert main(["land", "clicks", *where, *how]) == 0
            landed.append(json.loads(capsys.readouterr().out)["records"])
        monkeypatch.setenv("LAKE_TOKEN", "another")
        assert main(["land", "clicks", *where, *how]) == 1

    assert landed == [10, 4]
    assert records_of(warehouse) == in_order(rows(0, 14))
    said = capsys.readouterr().err
    assert "expected a catalog that answers, got NotAuthorizedException: no such token" in said


def test_in_place_nothing_is_copied_until_it_is_asked_for(land, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    warehouse = Warehouse(str(tmp_path / "w"))

    code, out, _ = land("--in-place", "--json")
    assert (code, json.loads(out)["records"]) == (0, 10)
    assert list((tmp_path / "w" / "landed" / "clicks").glob("**/*.parquet")) == []
    code, _, err = land()
    assert code == 1
    assert "expected a landing in place, as the one before" in err
    code, out, _ = land("--copy", "--json")

    assert (code, json.loads(out)["records"]) == (0, 0)
    assert len(list((tmp_path / "w" / "landed" / "clicks").glob("**/*.parquet"))) == 2
    assert records_of(warehouse) == in_order(rows(0, 10))


def test_in_place_is_of_a_table(capsys, tmp_path):
    where = ["--warehouse", tmp_path / "w", "--files", tmp_path, "--timestamp", "ms", "--in-place", "--local"]
    code = main([str(argument) for argument in ("land", "clicks", *where)])

    assert code == 2
    assert "--in-place: expected a Delta or Iceberg table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "option", "readers"),
    [
        ("--files", ["--version", "3"], "--delta"),
        ("--files", ["--layout", "spark"], "--delta or --iceberg"),
        ("--files", ["--max-records", "10"], "--kafka"),
        ("--delta", ["--pattern", "*.parquet"], "--files"),
        ("--delta", ["--snapshot", "3"], "--iceberg"),
        ("--kafka", ["--timestamp", "ms"], "--files or --delta or --iceberg"),
    ],
)
def test_an_option_that_the_source_does_not_read_is_refused(capsys, tmp_path, source, option, readers):
    code = main(["land", "clicks", "--warehouse", str(tmp_path / "w"), source, str(tmp_path), *option])

    said = capsys.readouterr().err
    assert code == 2
    assert f"{option[0]}: expected a source that reads it: {readers}, got {source}" in said
