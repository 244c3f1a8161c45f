"""`erase`: the records of a key go from every file; others keep their rows, and all that asks later says "erased"."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from kstreams_replay.jobs.branches.branches import branches, fork
from kstreams_replay.jobs.branches.erasure import Erasure, erase
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.branches.verification import verify
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.history.committed_tables import done_row, read_newest
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing.bad_rows import commit_dead_letters
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError, LedgerError, TaskFailed
from kstreams_replay.state.tables.ledger import LandingLedger, Ledger
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.sought import Sought
from kstreams_replay.state.tables.warehouse import LANDED_DEAD_LETTER_SCHEMA, Warehouse
from tests.laws.object_stores import played_store
from tests.planted import LandedRecord, plant, tables_of

ANN, BOB = "ann.lee/4711", "bob.lee/4712"
TEXT = Serde.string()


def topology() -> Topology:
    """Counts by key and by value, final counts of windows of 10 ms, and the last value of each key."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT))
    windows = TimeWindows.of_size(10, grace=0)
    stream.group_by_key().windowed_by(windows).count().suppress(Suppressed.until_window_closes()).to("final")
    stream.group_by_key().count().to_stream().to("counts")
    stream.group_by("value").count().to_stream().to("by_value")
    stream.to_table().to_stream().to("last")
    return builder.build()


def land(warehouse: Warehouse, *rows: tuple[str, str, int]) -> None:
    """(key, value, time) in partition 0."""
    plant(warehouse, "in", [LandedRecord(0, k.encode(), v.encode(), ms) for k, v, ms in rows], partitions=1)


def run(warehouse: Warehouse, pipeline: str = "p", **options: Any) -> None:
    list(replay(warehouse, topology(), pipeline=pipeline, runner=LocalRunner(), **options))


def words_of(root: Path) -> Iterator[tuple[str, str]]:
    """Every file's path, bytes and, of Parquet, rows, as text; by the test's own reading."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            yield str(path), str(path)
            yield str(path), path.read_bytes().decode("latin-1")
            if name.endswith(".parquet"):
                with pa.OSFile(str(path)) as source:
                    yield str(path), repr(pq.ParquetFile(source).read().to_pylist())


def holding(root: Path, word: str) -> set[str]:
    return {path for path, text in words_of(root) if word in text}


def others(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [row for row in rows if row.get("key") not in (ANN, ANN.encode())] for name, rows in tables.items()}


APP = "tests.branches.test_erasure:topology"
REQUEST = "request 4711"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Two increments of a pipeline and of its branch, and a warm cache. Nobody writes to it."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("made")
        patch.setenv("REPLAY_CACHE", str(root / "cache"))
        warehouse = Warehouse(root / "w")
        land(warehouse, (ANN, "tea", 1), (BOB, "tea", 2), (ANN, "mug", 3))
        run(warehouse)
        fork(warehouse, "p", 1, "branch")
        land(warehouse, (BOB, "cup", 4), (ANN, "cup", 15), (BOB, "tea", 16))
        run(warehouse)
        run(warehouse, "branch")
    return root


@pytest.fixture
def root(made, tmp_path, monkeypatch) -> Path:
    """A copy."""
    shutil.copytree(made, tmp_path / "of", copy_function=shutil.copy)
    monkeypatch.setenv("REPLAY_CACHE", str(tmp_path / "of" / "cache"))
    return tmp_path / "of"


@pytest.fixture
def warehouse(root) -> Warehouse:
    return Warehouse(root / "w")


def erased(warehouse: Warehouse, key: str = ANN, *also: str, **options: Any) -> Erasure:
    sought = Sought((key.encode(),), tuple(word.encode() for word in also))
    return erase(warehouse, ["in"], sought, REQUEST, by="me", **{"delete": True} | options)


def state_of(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def newest(warehouse: Warehouse, output: str, pipeline: str = "p") -> dict[str, Any]:
    return {row["key"]: row["value"] for row in read_newest(warehouse, pipeline, output).to_pylist()}


def test_no_file_holds_the_key_and_the_rows_of_others_stay(root, warehouse):
    before = tables_of(warehouse, "p", topology())
    assert holding(root / "w", ANN)

    found = erased(warehouse)

    assert holding(root, ANN) == set()
    assert (dict(found.landed), found.remains) == ({"in": 3}, [])
    assert tables_of(warehouse, "p", topology()) == others(before)
    assert fsck(warehouse).findings == []


def test_what_is_found_before_is_what_goes_and_finding_changes_nothing(root, warehouse):
    before = state_of(root)

    found = erased(warehouse, delete=False)

    assert state_of(root) == before
    done = erased(warehouse)
    assert dict(found.landed) == dict(done.landed) == {"in": 3}
    assert [(part.pipeline, dict(part.rows)) for part in found.pipelines] == [
        (part.pipeline, dict(part.rows)) for part in done.pipelines
    ]
    assert (found.is_done, done.is_done) == (False, True)
    assert [part.oldest for part in done.pipelines] == [3, 3]


def test_who_and_why_is_booked_and_not_what(warehouse):
    erased(warehouse)

    landing = LandingLedger(warehouse.landing_ledger("in")).last_done()
    done = done_row(warehouse, "p").content
    assert landing is not None
    assert landing.content.exclusion == {"records": {"0": [0, 2, 4]}, "reason": REQUEST, "erased_by": "me"}
    assert done.kind == "erase"
    assert done.erased is not None
    assert (done.erased["reason"], done.erased["by"]) == (REQUEST, "me")
    assert done.erased["rows"]["outputs/counts"] == 3
    with pytest.raises(ConfigError, match="a reason that does not say what is erased"):
        erase(warehouse, ["in"], Sought((ANN.encode(),)), f"{ANN} asked", by="me")


def test_a_pipeline_goes_on_as_if_the_key_had_never_been_there(warehouse):
    erased(warehouse)
    land(warehouse, (ANN, "tea", 17), (BOB, "tea", 30))
    run(warehouse)

    assert newest(warehouse, "counts") == {ANN: 1, BOB: 4}
    assert newest(warehouse, "last") == {ANN: "tea", BOB: "tea"}
    assert fsck(warehouse).findings == []


def test_a_pipeline_that_begins_later_reads_the_topic_without_the_records(warehouse, tmp_path):
    erased(warehouse)
    run(warehouse, "later")

    without = Warehouse(tmp_path / "without")
    rows = ((ANN, "tea", 1), (BOB, "tea", 2), (ANN, "mug", 3), (BOB, "cup", 4), (ANN, "cup", 15), (BOB, "tea", 16))
    records = [LandedRecord(0, k.encode(), v.encode(), ms) for k, v, ms in rows]
    plant(without, "in", records, partitions=1, gone=[(0, 0), (0, 2), (0, 4)])
    run(without, "later")
    assert tables_of(warehouse, "later", topology()) == tables_of(without, "later", topology())


def test_a_branch_gets_its_own_rows_and_is_not_promoted(warehouse):
    erased(warehouse)

    assert done_row(warehouse, "branch").content.bases is None
    assert branches(warehouse)["branch"].bases == {}
    assert newest(warehouse, "counts", "branch") == {BOB: 3}
    with pytest.raises(LedgerError, match=r"increment 1, which was erased \(by increment 3: request 4711\)"):
        promote(warehouse, "branch")
    land(warehouse, (BOB, "tea", 30))
    run(warehouse, "branch")
    assert newest(warehouse, "counts", "branch") == {BOB: 4}


def test_all_that_asks_for_what_is_gone_hears_that_it_was_erased(warehouse, capsys):
    erased(warehouse)
    land(warehouse, (BOB, "tea", 30))
    run(warehouse)

    with pytest.raises(LedgerError, match=r"which was erased \(by increment 3: request 4711\)"):
        read_newest(warehouse, "p", "counts", increment=2)
    with pytest.raises(ConfigError, match=r"some of which records were erased by increment 3 \(request 4711\)"):
        verify(warehouse, topology(), pipeline="p", runner=LocalRunner())
    with pytest.raises(LedgerError, match=r"took out of play \(erased: request 4711\); .* nothing of it is left"):
        explain(warehouse, "p", topology(), ("in", 0, 2))
    place = ["--warehouse", warehouse.root, "--pipeline", "p"]
    assert main(["verify", APP, *place, "--from", "4", "--increments", "1"]) == 0
    assert main(["check", APP, *place, "--engine", "plain"]) == 0
    capsys.readouterr()
    assert main(["books", *place]) == 0
    said = capsys.readouterr().out
    assert [line.split() for line in said.splitlines() if line.startswith("in:0:2")] == [
        ["in:0:2", "left", "out", "erased:", "request", "4711"]
    ]


def test_what_stands_under_other_keys_is_reported_and_goes_when_it_is_named(root, warehouse):
    land(warehouse, (BOB, f"knows {ANN}", 31))
    run(warehouse)

    found = erased(warehouse, delete=False)
    assert {each.place for each in found.remains} >= {"landed/in", "p/outputs/last"}
    done = erased(warehouse)
    assert {each.place.partition("/partition=")[0] for each in done.remains} >= {"landed/in", "p/outputs/last"}
    assert all("column" in each.what for each in done.remains)

    again = erased(warehouse, ANN, "knows ann.lee")

    assert again.remains == []
    assert holding(root, ANN) == set()


def test_rows_that_were_taken_back_and_dead_letters_go_too(root, warehouse):
    restore(warehouse, "p", 1)
    path = warehouse.landed_dead_letter("in")
    row = {"partition": 0, "increment": 2, "file": None, "line": 4, "bytes": b"x", "reason": "r", "timestamp": 1,
           "key": ANN.encode(), "headers": []}  # fmt: skip
    rows = pa.Table.from_pylist([row, row | {"key": BOB.encode()}], LANDED_DEAD_LETTER_SCHEMA)
    written = write_task_file(path, rows, partition=0, name="00000002")
    commit_dead_letters(warehouse, "in", [written], "landing/in/0", 2)
    assert any("retractions" in place for place in holding(root, ANN))

    found = erased(warehouse)

    assert dict(found.beside) == {"landed_dead_letter/in": 1}
    assert holding(root, ANN) == set()
    assert holding(root / "w" / "landed_dead_letter", BOB)
    assert fsck(warehouse).findings == []


def test_a_short_key_is_compared_whole(root, warehouse):
    land(warehouse, ("a", "tea", 31), ("ab", "tea", 32))
    run(warehouse)

    assert erased(warehouse, "a").remains == []

    assert newest(warehouse, "counts") == {ANN: 3, BOB: 3, "ab": 1}


def test_an_erasure_waits_for_increments_that_are_not_done(root, warehouse, monkeypatch):
    land(warehouse, (ANN, "tea", 40))
    monkeypatch.setattr(LocalRunner, "run", _dies)
    with pytest.raises(TaskFailed):
        run(warehouse)
    monkeypatch.undo()
    monkeypatch.setenv("REPLAY_CACHE", str(root / "cache"))

    with pytest.raises(LedgerError, match="planned and not done; run it to its end first"):
        erased(warehouse)
    run(warehouse)
    assert erased(warehouse).remains == []


def _dies(*_: Any) -> None:
    raise TaskFailed("a task", "no end", "one", "run it again")


class Died(BaseException):
    pass


def steps(count: int) -> Any:
    left = [count]

    def on_step(step: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Died(step)

    return on_step


@pytest.mark.sampled
@pytest.mark.parametrize("at", range(0, 30, 3))
def test_an_erasure_that_died_anywhere_is_finished_by_the_same_command(root, warehouse, at):
    want = others(tables_of(warehouse, "p", topology()))
    with pytest.raises(Died):
        erased(warehouse, on_step=steps(at))

    assert erased(warehouse).remains == []

    assert holding(root, ANN) == set()
    assert tables_of(warehouse, "p", topology()) == want
    assert newest(warehouse, "counts", "branch") == {BOB: 3}
    assert fsck(warehouse).findings == []


def test_a_branch_that_has_its_own_rows_and_still_pins_its_parents_files_lets_them_go(root, warehouse):
    def on_step(step: str) -> None:
        if step == "branch: done 3":
            raise Died(step)

    with pytest.raises(Died):
        erased(warehouse, on_step=on_step)
    assert branches(warehouse)["branch"].bases != {}

    assert erased(warehouse).remains == []

    assert holding(root, ANN) == set()
    assert branches(warehouse)["branch"].bases == {}


@pytest.mark.parametrize("again", ["erase", "advance"])
def test_a_landed_topic_is_finished_by_whoever_comes_next(root, warehouse, monkeypatch, again):
    """
    The plan names the offsets, so the key is not needed.
    """
    monkeypatch.setattr(LandingLedger, "done", lambda *_, **__: steps(0)("done"))
    with pytest.raises(Died):
        erased(warehouse)
    monkeypatch.undo()
    monkeypatch.setenv("REPLAY_CACHE", str(root / "cache"))
    if again == "advance":
        record_time(warehouse, "in", 50)
        last = LandingLedger(warehouse.landing_ledger("in")).last_done()
        assert last is not None
        assert last.content.excluded == {"0": [0, 2, 4]}

    assert erased(warehouse).remains == []

    assert holding(root, ANN) == set()
    assert newest(warehouse, "counts") == {BOB: 3}


def test_a_run_is_refused_while_an_erasure_is_unfinished(warehouse):
    first = 6
    with pytest.raises(Died):
        erased(warehouse, on_step=steps(first))
    assert Ledger(warehouse.pipeline("p").ledger).pending() is not None
    land(warehouse, (BOB, "tea", 50))

    with pytest.raises(LedgerError, match="give that command again, with the same key and --delete"):
        run(warehouse)


def test_the_command_counts_first_and_proves_at_last(warehouse, capsys):
    asked = ["erase", "--warehouse", warehouse.root, "--key", ANN, "--topics", "in", "--reason", REQUEST]

    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "would be erased by --delete" in said
    assert [line.split() for line in said.splitlines() if line.startswith("landed/in ")] == [["landed/in", "3"]]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["is_done"], found["remains"], found["rows"][0]) == (False, [], {"table": "landed/in", "rows": 3})
    assert found["oldest_increment"] == {"branch": None, "p": None}
    assert main([*asked, "--delete"]) == 0
    said = capsys.readouterr().out
    assert "proved: no file of the warehouse holds it" in said
    assert "p: increment 3 is the oldest that can be asked for" in said
    assert main([*asked, "--delete"]) == 0
    assert "nothing to erase" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--topics", "in"], "a key that has bytes"),
        (["--topics", "in", "--key-hex", "0g"], "--key-hex"),
        (["--topics", "in", "--also-bytes", "ann"], "4 bytes or more"),
        (["--topics", "on", "--key", ANN], "a landed topic"),
    ],
)
def test_the_command_says_what_is_wrong_with_what_it_was_asked(warehouse, capsys, options, wrong):
    assert main(["erase", "--warehouse", warehouse.root, "--reason", REQUEST, *options]) == 2
    assert wrong in capsys.readouterr().err


@pytest.mark.nightly
def test_it_is_the_same_on_an_object_store(root):
    with played_store() as store:
        warehouse = store.filled(root / "w")

        assert erased(warehouse).remains == []

        files, below = store.files(), fs.FileSelector(warehouse.root.partition("://")[2], recursive=True)
        for name in [info.path for info in files.get_file_info(below) if info.is_file]:
            with files.open_input_file(name) as file:
                data = file.read()
            assert ANN.encode() not in data, name
            if name.endswith(".parquet"):
                assert ANN not in repr(pq.ParquetFile(pa.BufferReader(data)).read().to_pylist()), name
        assert newest(warehouse, "counts") == {BOB: 3}
