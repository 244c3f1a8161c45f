"""`current/<output>`: after every increment the rows that `read_newest` gives, whatever files they are in."""

import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kstreams_replay.jobs.branches.erasure import erase
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.branches.vacuum import vacuum
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history import current_values
from kstreams_replay.jobs.history.current_values import keep_current
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.sought import Sought
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

APP = "tests.history.test_current_values:topology"
Values = dict[str, str]


def topology() -> Topology:
    """The values of keys, of which an empty one is a deletion."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    return builder.build()


def land(warehouse: Warehouse, *rows: tuple[str, str | None]) -> None:
    records = [LandedRecord(0, key.encode(), None if v is None else v.encode(), 1) for key, v in rows]
    plant(warehouse, "in", records, partitions=1)


def run(warehouse: Warehouse) -> None:
    list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner(), idle="proceed"))


def kept(warehouse: Warehouse) -> Values:
    """As anybody would read it."""
    files = DeltaTable(warehouse.pipeline("p").current("out")).file_uris()
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows), "a key is there once"
    return found


def touched(warehouse: Warehouse, before: set[str]) -> tuple[int, int]:
    """Files that went, and that came since ``before``."""
    now = set(DeltaTable(warehouse.pipeline("p").current("out")).file_uris())
    return len(before - now), len(now - before)


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    return Warehouse(tmp_path)


def test_it_follows_changes_and_deletions(warehouse):
    land(warehouse, ("ann", "1"), ("bob", "1"), ("ann", "2"))
    run(warehouse)
    assert keep_current(warehouse, "p", "out").increment == 1
    assert kept(warehouse) == {"ann": "2", "bob": "1"}

    land(warehouse, ("bob", None), ("cid", "1"))
    run(warehouse)
    land(warehouse, ("cid", "2"))
    run(warehouse)
    assert keep_current(warehouse, "p", "out").increment == 3
    version = DeltaTable(warehouse.pipeline("p").current("out")).version()
    keep_current(warehouse, "p", "out")

    assert kept(warehouse) == {"ann": "2", "cid": "2"}
    assert DeltaTable(warehouse.pipeline("p").current("out")).version() == version
    frame = pl.read_delta(warehouse.pipeline("p").current("out"))
    assert dict(frame.select("key", "value").iter_rows()) == {"ann": "2", "cid": "2"}
    assert fsck(warehouse).findings == []


@pytest.mark.parametrize("seed", range(3))
def test_any_increments_leave_the_last_value_of_every_key_in_any_number_of_buckets(warehouse, monkeypatch, seed):
    monkeypatch.setattr(current_values, "BUCKET_ROWS", 4)
    monkeypatch.setattr(current_values, "GROWTH", 3)
    dice, want = random.Random(seed), Values()
    for _ in range(6):
        rows: list[tuple[str, Any]] = []
        for _ in range(dice.randrange(1, 12)):
            key, value = f"k{dice.randrange(25)}", dice.choice([None, "a", "b", "c"])
            rows.append((key, value))
            want.pop(key, None)
            want |= {} if value is None else {key: value}
        land(warehouse, *rows)
        run(warehouse)
        if dice.random() < 0.7:
            keep_current(warehouse, "p", "out")
    keep_current(warehouse, "p", "out")

    assert kept(warehouse) == want
    assert len(DeltaTable(warehouse.pipeline("p").current("out")).file_uris()) > 1


def test_an_increment_writes_the_files_of_its_keys_again_and_no_others(warehouse, monkeypatch):
    monkeypatch.setattr(current_values, "BUCKET_ROWS", 16)
    land(warehouse, *((f"k{n}", "1") for n in range(100)))
    run(warehouse)
    keep_current(warehouse, "p", "out")
    before = set(DeltaTable(warehouse.pipeline("p").current("out")).file_uris())
    assert len(before) == 16

    land(warehouse, ("k1", "2"))
    run(warehouse)
    keep_current(warehouse, "p", "out")

    assert touched(warehouse, before) == (1, 1)
    assert kept(warehouse)["k1"] == "2"


def test_what_was_taken_back_or_erased_is_not_in_it(warehouse, tmp_path):
    land(warehouse, ("ann.lee", "1"), ("bob", "1"))
    run(warehouse)
    land(warehouse, ("bob", "2"), ("cid", "1"))
    run(warehouse)
    keep_current(warehouse, "p", "out")

    restore(warehouse, "p", 1)
    keep_current(warehouse, "p", "out")
    assert kept(warehouse) == {"ann.lee": "1", "bob": "1"}

    found = erase(warehouse, ["in"], Sought((b"ann.lee",)), "a request", by="me", delete=True)
    assert found.remains == []
    assert kept(warehouse) == {"bob": "1"}
    keep_current(warehouse, "p", "out")
    assert kept(warehouse) == {"bob": "1"}


def test_vacuum_takes_what_was_replaced(warehouse):
    for value in "123":
        land(warehouse, ("ann", value))
        run(warehouse)
        keep_current(warehouse, "p", "out")

    found = vacuum(warehouse, "p", keep_increments=1, delete=True)

    assert len([each for each in found.waste if each.table == "current/out" and each.name.endswith(".parquet")]) == 2
    assert kept(warehouse) == {"ann": "3"}


def test_the_commands_keep_it(warehouse, capsys):
    land(warehouse, ("ann", "1"), ("bob", "1"))
    place = ["--warehouse", warehouse.root, "--pipeline", "p"]

    assert main(["run", APP, *place, "--local", "--idle", "proceed", "--current", "out"]) == 0
    assert kept(warehouse) == {"ann": "1", "bob": "1"}
    land(warehouse, ("ann", "2"))
    run(warehouse)
    capsys.readouterr()
    assert main(["current", "out", *place]) == 0
    assert capsys.readouterr().out == f"{warehouse.pipeline('p').current('out')}: 2 rows as of increment 2\n"
    assert kept(warehouse) == {"ann": "2", "bob": "1"}
    with pytest.raises(ConfigError, match="one of"):
        keep_current(warehouse, "p", "none")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--current", "nosuch"], "--current: expected one of the outputs out, got 'nosuch'; name one of them"),
        (["--namespace", "n"], "--namespace, --option: expected a catalog that they are of, got none; name the"),
        (["--option", "uri=u"], "--namespace, --option: expected a catalog that they are of, got none; name the"),
        (["--current", "out", "--publish-iceberg", "nowhere"], "catalog nowhere: expected a catalog that answers"),
    ],
)
def test_what_a_run_cannot_keep_is_refused_before_it_writes(warehouse, capsys, options, says):
    land(warehouse, ("ann", "1"))

    code = main(["run", APP, "--warehouse", warehouse.root, "--pipeline", "p", "--local", *options])

    assert (code, says in capsys.readouterr().err) == (2, True)
    assert not Path(warehouse.pipeline("p").root).exists()


@pytest.mark.parametrize("option", ["--until=soon", "--migrate=nothing", "--renamed=nothing"])
def test_an_option_that_cannot_be_read_is_refused_before_values_are_kept(warehouse, option):
    land(warehouse, ("ann", "1"))
    run(warehouse)

    code = main(["run", APP, "--warehouse", warehouse.root, "--pipeline", "p", "--local", "--current", "out", option])

    assert code == 2
    assert not Path(warehouse.pipeline("p").current("out")).exists()


def test_an_output_that_changed_code_adds_is_kept_from_its_first_increment_on(warehouse, tmp_path):
    land(warehouse, ("ann", "1"))
    run(warehouse)
    land(warehouse, ("ann", "2"))
    (tmp_path / "more.py").write_text(
        "from kstreams_replay import Consumed, Serde, StreamsBuilder\nbuilder = StreamsBuilder()\n"
        "read = builder.stream('in', Consumed(Serde.string(), Serde.string()))\nread.to('out')\nread.to('more')\n"
        "topology = builder.build()\n"
    )
    place = ["--warehouse", warehouse.root, "--pipeline", "p", "--local", "--idle", "proceed"]

    assert main(["run", f"{tmp_path}/more.py", *place, "--current", "more"]) == 0

    files = DeltaTable(warehouse.pipeline("p").current("more")).file_uris()
    assert [row["value"] for file in files for row in pq.ParquetFile(file).read().to_pylist()] == ["2"]
