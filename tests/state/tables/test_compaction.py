"""Small files become larger ones: the same rows in the same order, no change of data, and few files however many
increments.
"""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from kstreams_replay.state.errors import LedgerConflict
from kstreams_replay.state.tables import compaction, log_cleanup
from kstreams_replay.state.tables import ledger as ledgers
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.compaction import compact
from kstreams_replay.state.tables.data_files import DataFile, read_files, read_rows, table_version
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.ledger_rows import DoneRow, PlanRow
from kstreams_replay.state.tables.parquet_writer import TaskFile
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, LEDGER_SCHEMA

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("increment", pa.int64()), ("key", pa.string())])
APP = "p/outputs/x/0"


@pytest.fixture
def path(tmp_path, monkeypatch) -> str:
    monkeypatch.setattr(compaction, "EVERY", 4)
    return str(tmp_path / "table")


def write(path: str, increment: int, partition: int, offsets: list[int], key: str = "k") -> DataFile:
    target = TaskFile(path, partition=partition, name=f"{increment:08d}-0_{partition}")
    numbers, keys = pa.array([increment] * len(offsets), pa.int64()), [f"{key}{offset}" for offset in offsets]
    target.write(pa.table({"offset": pa.array(offsets, pa.int64()), "increment": numbers, "key": keys}))
    file = target.close()
    assert file is not None
    return file


def increments(path: str, first: int, last: int) -> None:
    """Each writes two rows into each of two partitions, and merges when it is its turn."""
    for increment in range(first, last + 1):
        offsets = [2 * increment, 2 * increment + 1]
        files = [write(path, increment, partition, offsets) for partition in (0, 1)]
        commit_files(path, SCHEMA, files, app_id=APP, increment=increment)
        compact(path, app_id=APP, increment=increment)


def rows(path: str, version: int | None = None) -> list[tuple[int, int, int, str]]:
    found = read_rows(path, read_files(path, version=version), SCHEMA).to_pylist()
    return [(row["partition"], row["offset"], row["increment"], row["key"]) for row in found]


def expected(last: int) -> list[tuple[int, int, int, str]]:
    offsets = [(2 * increment + each, increment) for increment in range(1, last + 1) for each in (0, 1)]
    return [(p, offset, increment, f"k{offset}") for p in (0, 1) for offset, increment in offsets]


def test_rows_and_their_order_stay_what_they_are(path):
    increments(path, 1, 13)

    assert rows(path) == expected(13)


def test_rows_without_offsets_stay_in_order_of_their_increments_however_often_they_are_merged(path):
    schema = pa.schema([("partition", pa.int32()), ("increment", pa.int64()), ("key", pa.string())])
    for increment in range(1, 14):
        target = TaskFile(path, partition=0, name=f"{increment:08d}-0_0")
        target.write(pa.table({"increment": pa.array([increment], pa.int64()), "key": [f"k{increment}"]}))
        file = target.close()
        assert file is not None
        commit_files(path, schema, [file], app_id=APP, increment=increment)
        compact(path, app_id=APP, increment=increment)

    found = read_rows(path, read_files(path), schema)

    assert len(read_files(path)) < 8
    assert found["increment"].to_pylist() == list(range(1, 14))


def test_files_of_all_but_the_newest_increments_become_one_a_partition(path):
    increments(path, 1, 8)

    assert [(file.partition, file.bounds["increment"]) for file in read_files(path)] == [
        (0, (1, 6)), (0, (7, 7)), (0, (8, 8)), (1, (1, 6)), (1, (7, 7)), (1, (8, 8)),
    ]  # fmt: skip


def test_a_merge_of_a_run_that_died_is_the_version_of_the_run_after_it(path):
    increments(path, 1, 8)

    assert compact(path, app_id=APP, increment=8) == table_version(path)
    assert compact(path, app_id="q/outputs/x/0", increment=8) is None


def test_increments_between_merges_leave_the_table_alone(path):
    increments(path, 1, 7)
    before = [file.path for file in read_files(path)]

    assert compact(path, app_id=APP, increment=7) is None
    assert [file.path for file in read_files(path)] == before


def test_a_version_before_is_read_as_it_was(path):
    increments(path, 1, 3)
    commit_files(path, SCHEMA, [write(path, 4, 0, [8])], app_id=APP, increment=4)
    version = compact(path, app_id=APP, increment=4)
    assert version is not None

    assert len(read_files(path, version=version)) < len(read_files(path, version=version - 1))
    assert rows(path, version - 1) == rows(path, version)


def test_a_merge_changes_no_data(path):
    increments(path, 1, 4)

    newest = max(Path(path, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    changed = [action[kind]["dataChange"] for action in actions for kind in ("add", "remove") if kind in action]
    assert changed == [False] * (2 + 4)


def test_large_files_stay_and_part_the_small_ones_on_both_sides(path, monkeypatch):
    many = write(path, 3, 0, list(range(100, 3_000)), key="a key that takes room, number ")
    sides = [write(path, number, 0, [offset]) for number, offset in ((1, 1), (2, 2), (4, 5_000), (5, 6_000))]
    monkeypatch.setattr(compaction, "SMALL_BYTES", max(file.bytes for file in sides))
    assert many.bytes > compaction.SMALL_BYTES
    commit_files(path, SCHEMA, [*sides, many], app_id=APP, increment=5)

    compact(path, app_id=APP, increment=8)

    assert [(f.min_offset, f.max_offset) for f in read_files(path)] == [(1, 2), (100, 2_999), (5_000, 6_000)]


def sized(number: int, size: int) -> DataFile:
    return DataFile(f"{number}", size, 1, 0, number, number, {"increment": (number, number)})


def test_a_merge_holds_no_more_than_its_bound(monkeypatch):
    monkeypatch.setattr(compaction, "MERGED_BYTES", 10)
    sizes = [4, 6, 1, 10, 5, 4, 2, 9]

    runs = compaction.runs_to_merge([sized(number, size) for number, size in enumerate(sizes)], 99)

    assert [[file.bytes for file in run] for run in runs] == [[4, 6], [5, 4]], "one file alone is left as it is"


def test_a_runner_that_merges_second_goes_on_with_what_the_first_made(path, monkeypatch):
    increments(path, 1, 3)
    commit_files(path, SCHEMA, [write(path, 4, 0, [8])], app_id=APP, increment=4)
    swap = compaction.swap_files

    def overtaken(*arguments, **mark):
        monkeypatch.setattr(compaction, "swap_files", swap)
        assert compact(path, app_id=APP, increment=4) is not None
        swap(*arguments, **mark)

    monkeypatch.setattr(compaction, "swap_files", overtaken)

    version = compact(path, app_id=APP, increment=4)
    assert version == table_version(path)
    assert rows(path, version) == [*expected(3)[:6], (0, 8, 4, "k8"), *expected(3)[6:]]


def test_landed_rows_keep_their_headers(path):
    for increment in (1, 2):
        target = TaskFile(path, partition=0, name=f"{increment:08d}")
        header = [{"key": "h", "value": b"%d" % increment}] if increment == 1 else None
        row = {"offset": increment, "timestamp": 5, "timestamp_type": "CreateTime", "key": b"k", "value": None,
               "headers": header, "increment": increment}  # fmt: skip
        stored = pa.schema([field for field in LANDED_SCHEMA if field.name in row])
        target.write(pa.Table.from_pylist([row], stored))
        file = target.close()
        assert file is not None
        commit_files(path, LANDED_SCHEMA, [file], app_id="landing/x/0", increment=increment)
    before = read_rows(path, read_files(path), LANDED_SCHEMA)

    assert compact(path, app_id=APP, increment=4) is not None
    assert len(read_files(path)) == 1
    assert read_rows(path, read_files(path), LANDED_SCHEMA).equals(before)


def keep_books(ledger: Ledger, first: int, last: int) -> None:
    for increment in range(first, last + 1):
        ledger.plan(increment, PlanRow(unknown={"cut": increment}), written_at_ms=increment)
        ledger.compact(increment)
        ledger.done(increment, DoneRow(unknown={"done": increment}), written_at_ms=increment)


def test_a_ledger_of_many_increments_has_few_files_and_all_rows(path):
    ledger = Ledger(path)
    keep_books(ledger, 1, 10)

    assert [(row.increment, row.phase) for row in ledger.rows()] == [
        (increment, phase) for increment in range(1, 11) for phase in ("planned", "done")
    ]
    assert [row.content.unknown for row in ledger.rows_of(5)] == [{"cut": 5}, {"done": 5}]
    assert len(read_files(path)) == 1 + 8, "1 to 6 in one file, planned and done of the others"
    assert read_rows(path, read_files(path), LEDGER_SCHEMA).num_rows == 20


def log_versions(path: str) -> list[int]:
    return sorted(int(entry.name[:20]) for entry in Path(path, "_delta_log").glob("*.json"))


@pytest.fixture
def few_versions(path, monkeypatch) -> str:
    monkeypatch.setattr(ledgers, "KEPT_VERSIONS", 12)
    return path


@pytest.mark.slow
def test_the_log_of_a_ledger_stays_short_and_its_rows_are_all_there(few_versions):
    keep_books(Ledger(few_versions), 1, 60)

    versions = log_versions(few_versions)
    assert versions == list(range(versions[0], versions[-1] + 1)), "what is left is whole"
    assert Path(few_versions, "_delta_log", f"{versions[0]:020d}.checkpoint.parquet").exists()
    assert 12 <= len(versions) <= 12 + 10 + 3 * 4, "kept ones, up to the checkpoint before, and those since the merge"
    assert [row.increment for row in Ledger(few_versions).done_rows()] == list(range(1, 61))


def test_a_log_that_is_short_enough_stays(few_versions):
    keep_books(Ledger(few_versions), 1, 4)

    assert log_versions(few_versions)[0] == 0


@pytest.mark.slow
def test_of_two_that_forget_the_same_log_neither_stops(few_versions, monkeypatch):
    keep_books(Ledger(few_versions), 1, 20)
    newest, find = log_versions(few_versions)[-1], log_cleanup.entries_before

    def overtaken(*arguments):
        found = find(*arguments)
        monkeypatch.setattr(log_cleanup, "entries_before", find)
        log_cleanup.trim_log(few_versions, newest)
        return found

    monkeypatch.setattr(log_cleanup, "entries_before", overtaken)

    log_cleanup.trim_log(few_versions, newest)
    assert newest - 10 < log_versions(few_versions)[0] <= newest
    assert [row.increment for row in Ledger(few_versions).done_rows()] == list(range(1, 21))


@pytest.mark.slow
def test_a_runner_that_paused_until_its_version_was_forgotten_sees_what_happened(few_versions):
    paused = Ledger(few_versions)
    keep_books(paused, 1, 3)
    keep_books(Ledger(few_versions), 4, 60)

    with pytest.raises(LedgerConflict, match="increment 4"):
        paused.plan(4, PlanRow(unknown={"cut": 4}), written_at_ms=4)
    assert [row.content.unknown for row in paused.rows_of(4)] == [{"cut": 4}, {"done": 4}]
    keep_books(paused, 61, 61)
    assert Ledger(few_versions).last_done() == paused.last_done()
