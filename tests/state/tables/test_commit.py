"""One table, one increment, one transaction: written once, or refused with a reason."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from kstreams_replay.state.errors import CommitLost, ConfigError, DamagedTable
from kstreams_replay.state.tables.commit import commit_files, create_table, replace_files, transaction_version
from kstreams_replay.state.tables.data_files import DataFile, open_table, read_files, read_rows, table_version
from kstreams_replay.state.tables.parquet_writer import write_task_file

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("increment", pa.int64()), ("key", pa.string())])
APP = "flights/outputs/counts/0"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table")


def rows(offsets: list[int], increment: int = 1) -> pa.Table:
    keys = [f"k{offset}" for offset in offsets]
    columns = {"offset": offsets, "increment": [increment] * len(offsets), "key": keys}
    return pa.table(columns, pa.schema([field for field in SCHEMA if field.name != "partition"]))


def write(path: str, offsets: list[int], *, increment: int = 1, partition: int = 0) -> DataFile:
    return write_task_file(path, rows(offsets, increment), partition=partition, name=f"{increment:08d}")


def without_rows(path: str) -> DataFile:
    """As another writer may leave one."""
    (Path(path) / "partition=0").mkdir(parents=True, exist_ok=True)
    pq.write_table(rows([]), f"{path}/partition=0/empty.parquet")
    size = (Path(path) / "partition=0/empty.parquet").stat().st_size
    return DataFile("partition=0/empty.parquet", size, 0, 0, None, None)


def commit(path: str, files: list[DataFile], increment: int, *, app_id: str = APP) -> int:
    return commit_files(path, SCHEMA, files, app_id=app_id, increment=increment)


def offsets_in(path: str) -> list[tuple[int, int]]:
    table = read_rows(path, read_files(path), SCHEMA)
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def test_a_file_is_invisible_until_it_is_committed(path):
    commit(path, [write(path, [0, 1])], 1)
    write(path, [2, 3], increment=2)

    assert offsets_in(path) == [(0, 0), (0, 1)]


def test_a_committed_file_comes_back_as_it_was_written(path):
    files = [write(path, [4, 5, 6], partition=1), write(path, [0, 1], partition=0)]

    commit(path, files, 1)

    assert read_files(path) == [files[1], files[0]]
    assert (files[0].records, files[0].min_offset, files[0].max_offset, files[0].partition) == (3, 4, 6, 1)
    assert files[0].path.startswith("partition=1/00000001-")


def test_files_stand_in_order_of_partition_and_first_offset(path):
    commit(path, [write(path, [10], partition=1), write(path, [100], partition=0), write(path, [9], partition=0)], 1)

    assert [(file.partition, file.min_offset) for file in read_files(path)] == [(0, 9), (0, 100), (1, 10)]


def test_a_description_of_a_file_survives_json(path):
    file = write(path, [7, 8])

    assert DataFile.from_dict(json.loads(json.dumps(file.to_dict()))) == file


def test_delta_learns_the_bounds_of_offset_and_increment(path):
    commit(path, [write(path, [7, 8, 9], increment=1)], 1)

    added = [json.loads(line)["add"] for line in log_lines(path) if "add" in json.loads(line)]
    assert [json.loads(add["stats"]) for add in added] == [
        {"numRecords": 3, "minValues": {"offset": 7, "increment": 1}, "maxValues": {"offset": 9, "increment": 1}}
    ]
    assert [add["partitionValues"] for add in added] == [{"partition": "0"}]


def log_lines(path: str) -> list[str]:
    return [line for log in sorted(Path(path, "_delta_log").glob("*.json")) for line in log.read_text().splitlines()]


def test_delta_knows_the_columns_by_sparks_names(path):
    commit(path, [], 1)

    fields = json.loads(DeltaTable(path).schema().to_json())["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [
        ("partition", "integer"),
        ("offset", "long"),
        ("increment", "long"),
        ("key", "string"),
    ]
    assert DeltaTable(path).metadata().partition_columns == ["partition"]


def test_the_same_increment_twice_is_written_once(path):
    first = commit(path, [write(path, [0, 1])], 1)
    again = commit(path, [write(path, [0, 1])], 1)

    assert again == first
    assert offsets_in(path) == [(0, 0), (0, 1)]


def test_an_increment_without_files_is_marked_all_the_same(path):
    commit(path, [], 1)
    commit(path, [], 2)

    assert transaction_version(path, APP) == 2
    assert read_files(path) == []


def test_a_file_without_rows_has_no_bounds(path):
    commit(path, [without_rows(path)], 1)

    assert [(file.records, file.min_offset, file.max_offset) for file in read_files(path)] == [(0, None, None)]


def test_a_lower_increment_is_lost_and_says_so(path):
    commit(path, [write(path, [0])], 2)

    with pytest.raises(CommitLost, match=r"expected no increment after 1, got increment 2; fork under a new epoch"):
        commit(path, [write(path, [1])], 1)
    assert offsets_in(path) == [(0, 0)]


def test_of_two_runners_with_one_increment_the_second_skips(path):
    commit(path, [write(path, [0])], 1)
    files = [write(path, [1], increment=2)], [write(path, [1], increment=2)]

    versions = [commit(path, mine, 2) for mine in files]

    assert versions[0] == versions[1]
    assert offsets_in(path) == [(0, 0), (0, 1)]


def test_a_runner_that_looked_before_the_other_wrote_skips(path, monkeypatch):
    """
    Both opened the table at increment 1; Delta refuses the second commit, and what is there is as good as ours.
    """
    commit(path, [write(path, [0])], 1)
    stale = open_table(path)
    version = commit(path, [write(path, [1], increment=2)], 2)
    mine = write(path, [1], increment=2)
    answers = iter([stale])
    monkeypatch.setattr(
        "kstreams_replay.state.tables.commit.open_table",
        lambda path, **options: next(answers, None) or open_table(path),
    )

    assert commit(path, [mine], 2) == version
    assert offsets_in(path) == [(0, 0), (0, 1)]


def test_a_runner_overtaken_by_a_later_increment_is_told(path, monkeypatch):
    commit(path, [write(path, [0])], 1)
    stale = open_table(path)
    commit(path, [write(path, [1], increment=2)], 2)
    commit(path, [write(path, [2], increment=3)], 3)
    mine = write(path, [1], increment=2)
    answers = iter([stale])
    monkeypatch.setattr(
        "kstreams_replay.state.tables.commit.open_table",
        lambda path, **options: next(answers, None) or open_table(path),
    )

    with pytest.raises(CommitLost, match="expected no increment after 2, got increment 3"):
        commit(path, [mine], 2)
    assert offsets_in(path) == [(0, 0), (0, 1), (0, 2)]


def test_a_commit_that_is_not_there_when_read_back_is_lost(path, monkeypatch):
    """
    Spark skips a mark that is not higher without a word; here the writer is made to do the same.
    """
    commit(path, [write(path, [0])], 1)
    file = write(path, [1], increment=2)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", lambda *args, **options: None)

    with pytest.raises(CommitLost, match=r"expected increment 2 when read back, got increment 1"):
        commit(path, [file], 2)


@pytest.mark.parametrize("increment", [2, 3])
def test_a_restored_table_refuses_the_old_epoch(path, increment):
    """
    RESTORE takes the files of increment 2 away and keeps its mark: neither a skip nor a next increment is true.
    """
    version = commit(path, [write(path, [0])], 1)
    commit(path, [write(path, [1], increment=2)], 2)
    DeltaTable(path).restore(version)
    assert transaction_version(path, APP) == 2  # the trap

    with pytest.raises(CommitLost, match="got a table that was restored since; continue under a new epoch"):
        commit(path, [write(path, [1], increment=increment)], increment)
    assert offsets_in(path) == [(0, 0)]


def test_a_restored_table_goes_on_under_a_new_epoch(path):
    version = commit(path, [write(path, [0])], 1)
    commit(path, [write(path, [1], increment=2)], 2)
    DeltaTable(path).restore(version)

    commit(path, [write(path, [1], increment=2)], 2, app_id="flights/outputs/counts/1")
    commit(path, [write(path, [2], increment=3)], 3, app_id="flights/outputs/counts/1")

    assert offsets_in(path) == [(0, 0), (0, 1), (0, 2)]


def test_another_writer_between_two_increments_is_no_restore(path):
    commit(path, [write(path, [0])], 1)
    for n in range(20):
        mark = CommitProperties(app_transactions=[Transaction("somebody", n)])
        open_table(path).create_write_transaction([], "append", SCHEMA, ["partition"], commit_properties=mark)

    commit(path, [write(path, [1], increment=2)], 2)

    assert offsets_in(path) == [(0, 0), (0, 1)]


def test_an_old_version_shows_what_it_showed(path):
    version = commit(path, [write(path, [0])], 1)
    commit(path, [write(path, [1], increment=2)], 2)

    assert [file.min_offset for file in read_files(path, version=version)] == [0]
    assert [file.min_offset for file in read_files(path)] == [0, 1]


def test_a_missing_table_has_no_files_no_version_and_no_mark(path):
    assert (read_files(path), table_version(path), transaction_version(path, APP)) == ([], None, None)


def test_a_version_that_is_not_there_is_refused(path):
    with pytest.raises(DamagedTable, match="expected a Delta table with version 3, got no table"):
        read_files(path, version=3)
    version = commit(path, [], 1)
    with pytest.raises(DamagedTable, match=f"expected version 9, got newest version {version}"):
        read_files(path, version=9)


def test_a_file_that_is_gone_or_cut_short_is_not_committed(path):
    gone, short = write(path, [0]), write(path, [1])
    Path(path, gone.path).unlink()
    Path(path, short.path).write_bytes(b"PAR1")

    with pytest.raises(CommitLost, match=r"bytes, got no file; run the increment again"):
        commit(path, [gone], 1)
    with pytest.raises(CommitLost, match=r"bytes, got 4 bytes; run the increment again"):
        commit(path, [short], 1)
    assert read_files(path) == []


def test_other_columns_are_refused_by_name(path):
    commit(path, [], 1)
    other = pa.schema([*(field for field in SCHEMA if field.name != "key"), ("key", pa.int64())])

    with pytest.raises(ConfigError, match=r"expected columns key .*long.*, got key .*string"):
        commit_files(path, other, [], app_id=APP, increment=2)


def test_two_runners_may_create_the_table(path):
    create_table(path, SCHEMA, partition_by=["partition"])

    assert create_table(path, SCHEMA, partition_by=["partition"]).version() == 0


def test_a_file_says_what_it_may_hold(path):
    file, empty = write(path, [5, 7], increment=3), without_rows(path)
    unknown = DataFile("partition=0/spark.parquet", 10, 5, 0, None, None)

    assert file.bounds == {"offset": (5, 7), "increment": (3, 3)}
    assert [file.may_hold("offset", *span) for span in ((0, 4), (0, 5), (6, 6), (7, 9), (8, 9))] == [
        False, True, True, True, False,
    ]  # fmt: skip
    assert [each.may_hold("increment", 3, 3) for each in (file, empty, unknown)] == [True, False, True]


def test_only_whole_numbers_have_bounds(path):
    """
    A store may have a column of that name with another type.
    """
    file = write_task_file(path, pa.table({"offset": [1, 2], "timestamp": ["b", "a"]}), partition=0, name="x")

    assert file.bounds == {"offset": (1, 2)}


# --- replace_files -------------------------------------------------------------------------------------------


def replace(path: str, files: list[DataFile], increment: int, *, schema: pa.Schema = SCHEMA) -> int:
    return replace_files(
        path, schema, files, app_id="flights/outputs/counts/1", fenced=[APP], increment=increment, written_at_ms=1
    )


def test_a_table_becomes_the_files_that_are_named_and_forgets_no_version(path):
    kept, gone = write(path, [0]), write(path, [1], increment=2)
    commit(path, [kept], 1)
    before = commit(path, [gone], 2)

    replace(path, [kept, write(path, [5], increment=3)], 3)

    assert offsets_in(path) == [(0, 0), (0, 5)]
    assert [file.min_offset for file in read_files(path, version=before)] == [0, 1]
    replace(path, [gone], 4)
    assert offsets_in(path) == [(0, 1)]


def test_a_replacement_is_made_once_and_shuts_the_epoch_before_out(path):
    file = write(path, [0])
    commit(path, [file], 1)
    first = replace(path, [], 5)

    assert replace(path, [file], 5) == first
    assert offsets_in(path) == []
    with pytest.raises(CommitLost, match="expected no increment after 2, got increment 5"):
        commit(path, [write(path, [1], increment=2)], 2)


def test_a_table_whose_files_stay_gains_columns(path):
    file = write(path, [0])
    commit(path, [file], 1)
    other = pa.schema([*SCHEMA, ("value", pa.int64())])
    wide = pa.table({"offset": [7], "increment": [2], "key": ["a"], "value": [1]})

    replace(path, [file, write_task_file(path, wide, partition=0, name="00000002")], 2, schema=other)

    assert [field.name for field in DeltaTable(path).schema().fields] == other.names
    assert offsets_in(path) == [(0, 0), (0, 7)]


def test_columns_of_other_types_are_taken_over_only_where_nothing_stays(path):
    file = write(path, [0])
    commit(path, [file], 1)
    other = pa.schema([*(field for field in SCHEMA if field.name != "key"), ("key", pa.int64())])
    numbers = pa.table({"offset": [7], "increment": [2], "key": [1]})

    with pytest.raises(ConfigError, match="expected column key int64, got key string"):
        replace(path, [file], 2, schema=other)
    replace(path, [write_task_file(path, numbers, partition=0, name="00000002")], 2, schema=other)

    assert pa.schema(DeltaTable(path).schema().to_arrow()).field("key").type == pa.int64()
    assert offsets_in(path) == [(0, 7)]
