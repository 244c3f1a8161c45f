"""OpenLineage's events: what an increment was made from, and the same event whenever it is asked for."""

import json
import shutil

import pytest
from deltalake import write_deltalake
from openlineage.client import event_v2
from openlineage.client.naming.dataset import LocalFileSystem
from openlineage.client.serde import Serde as Events

from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.heartbeats import beating
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.openlineage_events import event_of
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.expectations.pipelines import tape
from tests.landing.lake_tables import land, rows, spark_rows
from tests.planted import plant


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(str(tmp_path_factory.mktemp("warehouse")))
    plant(warehouse, "clicks", tape(("ann", "{}", 10), ("bob", "{}", 20)), partitions=1)
    list(replay(warehouse, shop.topology(), pipeline="shop", runner=LocalRunner()))
    return warehouse


def printed(capsys: pytest.CaptureFixture[str], warehouse: Warehouse, *options: str) -> list[dict]:
    place = ["--warehouse", warehouse.root, "--pipeline", "shop"]
    assert main(["lineage", "tests/dagster/shop.py:topology", *place, *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_event_names_topics_tables_versions_and_what_columns_are_made_from(warehouse, capsys):
    (event,) = printed(capsys, warehouse)

    assert (event["eventType"], event["job"]["name"]) == ("COMPLETE", "shop")
    assert event["job"]["namespace"] == f"file://{warehouse.root}"
    assert [each["name"] for each in event["inputs"]] == ["landed/clicks"]
    outputs = {each["name"]: each["facets"] for each in event["outputs"]}
    assert {"shop/outputs/sessions", "shop/outputs/pages", "shop/state/held-pages-store"} <= outputs.keys()
    facets = outputs["shop/repartition/open-pages-repartition"]
    made_of = facets["columnLineage"]["fields"]["key"]["inputFields"]
    assert [(each["name"], each["field"]) for each in made_of] == [("landed/clicks", "key"), ("landed/clicks", "value")]
    above = outputs["shop/outputs/pages"]["columnLineage"]["fields"]["window_start_ms"]["inputFields"]
    assert [(each["name"], each["field"]) for each in above] == [("shop/state/held-pages-store", "window_start_ms")]
    types = {each["name"]: each["type"] for each in outputs["shop/outputs/pages"]["schema"]["fields"]}
    assert (types["key"], types["window_start_ms"]) == ("string", "int64")
    assert facets["version"]["datasetVersion"].isdigit()


def test_an_increment_is_the_same_run_whenever_it_is_asked_for(warehouse):
    (done,) = Ledger(warehouse.pipeline("shop").ledger).done_rows(1)

    first, again = (Events.to_json(event_of(warehouse, "shop", shop.topology(), done)) for _ in range(2))
    other = event_of(warehouse, "other", shop.topology(), done)

    assert first == again
    assert json.loads(first)["run"]["runId"] != other.run.runId


def test_events_are_sent_where_openlineage_is_told_to(warehouse, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    place = ["--warehouse", warehouse.root, "--pipeline", "shop"]

    assert main(["lineage", "tests/dagster/shop.py:topology", *place, "--send"]) == 0

    (event,) = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert f"increment 1: sent as run {event['run']['runId']}" in capsys.readouterr().out


@pytest.fixture
def branched(warehouse: Warehouse, tmp_path) -> Warehouse:
    """The shop, from the start, as a branch too."""
    copy = Warehouse(shutil.copytree(warehouse.root, tmp_path / "w"))
    fork(copy, "shop", 0, "again")
    return copy


def test_a_fork_is_no_run_and_has_no_event(branched, capsys):
    place = ["--warehouse", branched.root, "--pipeline", "again"]

    assert main(["lineage", "tests/dagster/shop.py:topology", *place]) == 0

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "replay lineage: again has run no increment from 0 on, so there is no event\n"


def test_a_promotion_is_made_from_the_tables_of_its_branch(branched, capsys):
    list(replay(branched, shop.topology(), pipeline="again", runner=LocalRunner()))
    promote(branched, "again")

    (event,) = printed(capsys, branched)

    inputs = {each["name"] for each in event["inputs"]}
    assert {"again/outputs/sessions", "again/outputs/pages"} <= inputs
    assert "landed/clicks" not in inputs
    outputs = {each["name"]: each["facets"] for each in event["outputs"]}
    made_of = outputs["shop/outputs/pages"]["columnLineage"]["fields"]["value"]["inputFields"]
    assert [(each["name"], each["field"]) for each in made_of] == [("again/outputs/pages", "value")]


def test_a_restore_is_made_from_no_other_table(branched, capsys):
    restore(branched, "shop", 1)

    (event,) = printed(capsys, branched)

    assert event["inputs"] == []
    assert [each["name"] for each in event["outputs"] if "columnLineage" in each["facets"]] == []


def test_what_was_refused_is_written_too(warehouse, capsys):
    (event,) = printed(capsys, warehouse)

    outputs = {each["name"]: each["facets"] for each in event["outputs"]}
    assert {"shop/dropped", "shop/dead_letter"} <= outputs.keys()
    assert "reason" in {each["name"] for each in outputs["shop/dropped"]["schema"]["fields"]}


LINES = {"key": "k", "value": "v", "partition": "p", "offset": "o", "timestamp": "t"}
"""What a landed record's columns are called in the lake."""


def lines() -> Topology:
    builder = StreamsBuilder()
    builder.stream("clicks", Consumed(Serde.string(), Serde.string())).filter("value <> ''").to("lines")
    return builder.build()


def test_records_in_place_come_from_the_table_in_which_they_lie(tmp_path):
    """The first four records are copied, the others are read in the lake."""
    warehouse, lake = Warehouse(tmp_path / "w"), tmp_path / "lake" / "clicks"
    own = {theirs: name for name, theirs in LINES.items()}

    def append(first: int, end: int) -> None:
        records = spark_rows(rows(first, end)).select(list(own.values()))
        write_deltalake(str(lake), records.rename_columns(list(own)), mode="append")

    append(0, 4)
    land(warehouse, lake, **LINES)
    list(replay(warehouse, lines(), pipeline="steps", runner=LocalRunner()))
    append(4, 8)
    land(warehouse, lake, in_place=True, **LINES)
    for pipeline in ("steps", "at-once"):
        list(replay(warehouse, lines(), pipeline=pipeline, runner=LocalRunner()))

    def events(pipeline: str) -> list[event_v2.RunEvent]:
        done = Ledger(warehouse.pipeline(pipeline).ledger).done_rows()
        return [event_of(warehouse, pipeline, lines(), row) for row in done]

    place = LocalFileSystem(path=str(lake))
    copied, there = (f"file://{warehouse.root}", "landed/clicks"), (place.get_namespace(), place.get_name())
    inputs = [[(each.namespace, each.name) for each in event.inputs] for event in events("steps") + events("at-once")]
    assert inputs == [[copied], [there], [there, copied]]
    (again,) = events("at-once")
    (written,) = [each for each in again.outputs if each.name == "at-once/outputs/lines"]
    fields = written.facets["columnLineage"].fields
    got = {
        column: [(each.namespace, each.name, each.field) for each in fields[column].inputFields]
        for column in ("key", "value")
    }
    assert got == {column: [(*there, LINES[column]), (*copied, column)] for column in ("key", "value")}
    versions = [each.facets["version"].datasetVersion for each in again.inputs if "version" in each.facets]
    assert versions == ["1"], "of the lake, which has had two commits"


FAILING = """\
from pathlib import Path
from kstreams_replay import Consumed, Serde, StreamsBuilder

def mended(value):
    if not Path(__file__).with_name("mended").exists():
        raise ValueError("not yet")
    return value

def topology():
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    clicks.map_values(mended, returns=Serde.string()).to("lines")
    return builder.build()
"""


def test_an_increment_that_failed_is_a_run_that_failed_until_it_is_done(tmp_path, capsys):
    warehouse, file = Warehouse(tmp_path / "w"), tmp_path / "failing.py"
    plant(warehouse, "clicks", tape(("ann", "{}", 10)), partitions=1)
    file.write_text(FAILING)
    place = [f"{file}:topology", "--warehouse", warehouse.root, "--pipeline", "lines"]

    def asked() -> list[tuple[str, str, list[str]]]:
        capsys.readouterr()
        assert main(["lineage", *place]) == 0
        events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [(each["eventType"], each["run"]["runId"], [one["name"] for one in each["inputs"]]) for each in events]

    assert main(["run", *place, "--local"]) == 1
    with beating(warehouse.pipeline("lines"), "another", "replaying"):
        assert main(["lineage", *place]) == 1, "somebody may be at work on it, and nothing is done"
    ((failed, run, inputs),) = asked()
    assert (failed, inputs) == ("FAIL", ["landed/clicks"])

    (tmp_path / "mended").touch()
    assert main(["run", *place, "--local"]) == 0
    assert asked() == [("COMPLETE", run, ["landed/clicks"])]
