"""What is in a warehouse, by `replay pipelines`, and what is said of a pipeline or an output that is not there."""

import json
import shutil

import pytest

from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.state.tables.ledger import LandingLedger, Ledger
from kstreams_replay.state.tables.warehouse import Warehouse


@pytest.fixture
def branched(replayed, tmp_path) -> Warehouse:
    warehouse = Warehouse(shutil.copytree(replayed.root, tmp_path / "w"))
    fork(warehouse, "shop", 1, "what-if")
    return warehouse


def test_topics_pipelines_and_branches_are_listed_with_their_last_run(command, branched):
    code, out, _ = command("pipelines", "--warehouse", branched.root, "--json")

    landed = LandingLedger(branched.landing_ledger("clicks")).last_done()
    runs = {name: Ledger(branched.pipeline(name).ledger).last_done() for name in ("shop", "what-if")}
    assert landed is not None
    assert code == 0
    assert json.loads(out) == {
        "warehouse": branched.root,
        "topics": [
            {
                "topic": "clicks", "partitions": 1, "records": 8, "put_aside": 0, "increments": 2, "kind": "files",
                "landed_at_ms": landed.written_at_ms,
            },
        ],
        "pipelines": [
            {
                "pipeline": "shop", "branch_of": None, "increment": 2, "planned": None, "stream_time_ms": 400,
                "last_run_ms": runs["shop"].written_at_ms, "kafka_version": "4.3",
            },
            {
                "pipeline": "what-if", "branch_of": "shop", "increment": 1, "planned": None, "stream_time_ms": 210,
                "last_run_ms": runs["what-if"].written_at_ms, "kafka_version": "4.3",
            },
        ],
    }  # fmt: skip


def test_people_read_two_tables(command, branched):
    _, out, _ = command("pipelines", "--warehouse", branched.root)

    title, _, topics, _, clicks, _, pipelines, _, shop, what_if = out.splitlines()
    assert title == f"{branched.root}: 1 landed topic, 2 pipelines"
    assert topics.split() == ["topic", "partitions", "records", "put_aside", "increments", "kind", "landed_at"]
    assert clicks.split()[:6] == ["clicks", "1", "8", "0", "2", "files"]
    names = ["pipeline", "branch_of", "increment", "planned", "stream_time", "last_run", "kafka_version"]
    assert pipelines.split() == names
    assert shop.split()[:4] == ["shop", "2", "1970-01-01", "00:00:00.400"]
    assert what_if.split()[:5] == ["what-if", "shop", "1", "1970-01-01", "00:00:00.210"]


def test_a_warehouse_of_nothing_has_nothing(command, tmp_path):
    nothing = tmp_path / "nothing"

    assert command("pipelines", "--warehouse", nothing)[:2] == (0, f"{nothing}: 0 landed topics, 0 pipelines\n")
    assert not nothing.exists()


@pytest.mark.parametrize(
    ("pipeline", "want"),
    [
        ("shp", "got none; did you mean 'shop'? All pipelines in {root}: 'shop'"),
        ("zebra", "got none; run the replay first, or correct the name: the pipelines in {root} are 'shop'"),
    ],
)
def test_a_pipeline_that_is_not_there_lists_those_that_are(command, replayed, pipeline, want):
    code, _, err = command("books", "--warehouse", replayed.root, "--pipeline", pipeline)

    assert code == 1
    assert want.format(root=replayed.root) in err


def test_an_output_that_is_not_there_names_the_one_near_to_it(command, replayed):
    code, _, err = command("show", "sesions", "--warehouse", replayed.root, "--pipeline", "shop")

    assert code == 2
    assert "got 'outputs/sesions'; did you mean 'outputs/sessions'" in err
