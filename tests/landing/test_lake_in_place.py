"""A topic that lies in somebody else's table: nothing is copied, and all reads as if it had been."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from kstreams_replay.jobs.branches.erasure import erase
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing.landing import FileSource, LandingRules, land_files, land_lake, preview_landing
from kstreams_replay.jobs.landing.recorded_time import record_idle
from kstreams_replay.jobs.tape.landed_topic import Landed
from kstreams_replay.state.errors import ConfigError, DamagedFile, LandingError
from kstreams_replay.state.tables import key_dictionaries, offset_order
from kstreams_replay.state.tables.branch_files import landed_files
from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.sought import Sought
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse
from tests.landing.file_folders import NOON, dies
from tests.landing.lake_tables import (
    START_MS,
    LakeSource,
    Row,
    bronze,
    in_order,
    land,
    records_of,
    redpanda_rows,
    rows,
    spark_rows,
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "bronze"


def read(warehouse: Warehouse, *, chunk: int = 4) -> list[Row]:
    """The topic, as a replay reads it."""
    landed, found = Landed.of(warehouse, "clicks"), []
    for partition, end in landed.ends.items():
        for table in landed.slice(partition, 0, end).chunks(chunk, dictionary_keys=True):
            for row in table.to_pylist():
                headers = [(header["key"], header["value"]) for header in row.get("headers") or ()]
                found.append(Row(int(partition), row["offset"], row["timestamp"], row["key"], row["value"], headers))
    return found


def vacuum(path: Path) -> None:
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)


def own_files(warehouse: Warehouse) -> list[str]:
    return [file.path for file in read_files(warehouse.landed("clicks"))]


def test_nothing_is_copied_and_all_records_are_read(warehouse, lake):
    bronze(lake, rows(0, 10), rows(10, 20))

    report = land(warehouse, lake, in_place=True)

    assert (report.records, report.partitions, report.cut_to) == (20, 2, {0: 10, 1: 10})
    assert own_files(warehouse) == []
    assert read(warehouse) == records_of(warehouse) == in_order(rows(0, 20))
    assert land(warehouse, lake, in_place=True).increments == ()


def test_what_is_appended_is_registered_next(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    bronze(lake, rows(10, 14))

    report = land(warehouse, lake, in_place=True)

    assert (report.records, report.cut_from, report.cut_to) == (4, {0: 5, 1: 5}, {0: 7, 1: 7})
    plans = LandingLedger(warehouse.landing_ledger("clicks")).plans()
    assert [len(plan.content.registers) for plan in plans] == [2, 2]
    assert read(warehouse) == in_order(rows(0, 14))


def test_registering_reads_footers_alone(warehouse, lake):
    """Each file has one partition; its pages are destroyed, and only reading notices it."""
    for p in range(2):
        write_deltalake(str(lake), spark_rows(row for row in rows(0, 40) if row.partition == p), mode="append")
    for file in lake.glob("*.parquet"):
        whole = bytearray(file.read_bytes())
        begin = pq.read_metadata(file).row_group(0).column(0).data_page_offset
        whole[begin : begin + 20] = bytes(20)
        file.write_bytes(whole)

    assert land(warehouse, lake, in_place=True).records == 40
    with pytest.raises((DamagedFile, OSError)):
        read(warehouse)


@pytest.mark.parametrize("clusters", [["key"], ["value"]])
def test_clustering_and_vacuum_between_landings_change_nothing(warehouse, lake, monkeypatch, clusters):
    monkeypatch.setattr(offset_order, "_SORTED_ROWS", 7)
    table = bronze(lake, rows(0, 30), rows(30, 60))
    land(warehouse, lake, in_place=True)
    before = read(warehouse)

    bronze(lake, rows(60, 70))
    table.update_incremental()
    table.optimize.z_order(clusters)
    vacuum(lake)
    with pytest.raises(DamagedFile, match=r"got no file; .* land the topic again .*--in-place"):
        read(warehouse)
    report = land(warehouse, lake, in_place=True)

    assert before == in_order(rows(0, 60))
    assert (report.records, report.warnings) == (10, ())
    assert read(warehouse) == in_order(rows(0, 70))
    assert fsck(warehouse).findings == []


def test_rows_that_are_gone_are_refused_with_their_offsets_and_may_be_ignored(warehouse, lake):
    table = bronze(lake, rows(0, 10), rows(10, 20))
    land(warehouse, lake, in_place=True)
    table.delete("offset = 3 and partition = 1")
    bronze(lake, rows(20, 24))

    with pytest.raises(LandingError, match=r"1 landed record is gone from the table \(partition 1: offset 3\)"):
        land(warehouse, lake, in_place=True)
    assert read(warehouse) == in_order(rows(0, 20))
    report = land(warehouse, lake, in_place=True, rules={"on_change": "ignore"})

    assert report.records == 4
    assert "the topic has them as they are in the table now" in report.warnings[0]
    left = [row for row in rows(0, 24) if row[:2] != (1, 3)]
    assert read(warehouse) == in_order(left)
    assert fsck(warehouse).findings == []


def test_where_all_rows_are_gone_none_are_left(warehouse, lake):
    bronze(lake, rows(0, 10)).delete()
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    DeltaTable(str(lake)).delete()
    vacuum(lake)

    report = land(warehouse, lake, in_place=True, rules={"on_change": "ignore"})

    assert (report.records, report.cut_to) == (0, {0: 5, 1: 5})
    assert read(warehouse) == []
    assert fsck(warehouse).findings == []


def test_a_table_is_found_from_every_folder(warehouse, lake, tmp_path, monkeypatch):
    bronze(lake, rows(0, 10))
    monkeypatch.chdir(lake.parent)
    land(warehouse, Path(lake.name), in_place=True)

    monkeypatch.chdir("/")

    assert read(warehouse) == in_order(rows(0, 10))


def test_rows_that_are_gone_with_their_files_are_counted_and_named(warehouse, lake):
    table = bronze(lake, rows(0, 10), rows(10, 20))
    land(warehouse, lake, in_place=True)
    table.delete("offset = 3 and partition = 1")
    vacuum(lake)

    with pytest.raises(LandingError, match=r"1 landed record is gone from the table \(partition 1: offset 3\)"):
        land(warehouse, lake, in_place=True)
    report = land(warehouse, lake, in_place=True, rules={"on_change": "ignore"})

    assert report.records == 0
    assert read(warehouse) == in_order([row for row in rows(0, 20) if row[:2] != (1, 3)])
    assert fsck(warehouse).findings == []


@pytest.mark.parametrize("is_other_table", [True, False])
def test_rows_that_may_be_others_are_refused_where_the_files_that_landed_are_gone(warehouse, lake, is_other_table):
    """A table that was deleted and created again has other rows behind the same offsets; so has one after UPDATE."""
    table = bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    if is_other_table:
        shutil.rmtree(lake)
        table = bronze(lake, rows(0, 10))
    table.update(predicate="offset = 2 and partition = 0", updates={"value": "key"})
    vacuum(lake)

    with pytest.raises(LandingError, match=r"some that may be others .* nobody can compare them; .*--on-change ignore"):
        land(warehouse, lake, in_place=True)
    report = land(warehouse, lake, in_place=True, rules={"on_change": "ignore"})

    assert any("counted, not compared" in warning for warning in report.warnings)
    assert [row[:2] for row in read(warehouse) if row[3] == row[4]] == [(0, 2)]
    assert len(read(warehouse)) == 10


def test_rows_with_other_bytes_are_refused(warehouse, lake):
    table = bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    table.update(predicate="offset = 2 and partition = 0", updates={"timestampType": "1", "key": "value"})

    with pytest.raises(LandingError, match=r"1 landed record is changed in the table \(partition 0: offset 2\)"):
        land(warehouse, lake, in_place=True)


def test_a_file_of_other_content_is_noticed_where_it_is_read(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    [file] = lake.glob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.slice(0, 9), file)

    with pytest.raises(DamagedFile, match="expected the file as it was registered"):
        read(warehouse)
    assert len(fsck(warehouse).findings) > 0


def test_of_several_topics_and_partitions_in_a_file_each_has_its_own(warehouse, lake):
    both = pa.concat_tables([spark_rows(rows(0, 20)), spark_rows(rows(0, 6), topic="views")])
    write_deltalake(str(lake), both.take(pa.array(np.random.default_rng(3).permutation(26))), mode="append")

    report = land(warehouse, lake, in_place=True)

    assert report.records == 20
    assert read(warehouse) == in_order(rows(0, 20))
    assert fsck(warehouse).findings == []


def test_rows_of_no_topic_are_left_out(warehouse, lake):
    """The column of topics came later, so that files from before have none of it."""
    write_deltalake(str(lake), spark_rows(rows(0, 10)).drop_columns(["topic"]))
    write_deltalake(str(lake), spark_rows(rows(10, 20)), mode="append", schema_mode="merge")

    assert land(warehouse, lake, in_place=True).records == 10
    assert read(warehouse) == in_order(rows(10, 20))


def test_rows_without_a_time_are_refused(warehouse, lake):
    table = spark_rows(row for row in rows(0, 10) if row.partition == 0)
    times = pa.array([None, *table["timestamp"].to_pylist()[1:]], table["timestamp"].type)
    write_deltalake(str(lake), table.set_column(5, "timestamp", times))

    with pytest.raises(LandingError, match="a time in every row"):
        land(warehouse, lake, in_place=True)


def test_keys_of_a_dictionary_are_read_as_such(warehouse, lake, monkeypatch):
    monkeypatch.setattr(key_dictionaries, "_DICTIONARY_ROWS", 1)
    monkeypatch.setattr(key_dictionaries, "_KEY_BYTES", 1_000)
    table = spark_rows(row for row in rows(0, 40) if row.partition == 0)
    write_deltalake(str(lake / "bytes"), table)
    write_deltalake(str(lake / "text"), table.set_column(0, "key", table["key"].cast(pa.string())))
    for rest in (0, 1):  # two files, whose offsets are sorted together
        own = pa.array([(row // 2) % 2 == rest for row in range(len(table))])
        write_deltalake(str(lake / "clustered"), table.filter(own), mode="append")

    for name in ("bytes", "text", "clustered"):
        of = Warehouse(f"{warehouse.root}-{name}")
        land(of, lake / name, in_place=True)
        landed = Landed.of(of, "clicks")
        (chunk,) = landed.slice("0", 0, landed.ends["0"]).chunks(100, dictionary_keys=True)
        assert pa.types.is_dictionary(chunk["key"].type)
        assert chunk["key"].num_chunks == 1
        assert read(of) == in_order(row for row in rows(0, 40) if row.partition == 0)


def test_offsets_that_no_float_holds_are_read_all(warehouse, lake):
    beyond = 2**53
    for offset in (1, 3, 5):
        one = {"p": [0], "o": [beyond + offset], "t": [offset], "key": [b"k"], "v": [b"v"]}
        write_deltalake(str(lake), pa.table(one), mode="append")

    land(warehouse, lake, in_place=True, partition="p", offset="o", timestamp="t", key="key", value="v")

    assert [row[1] - beyond for row in read(warehouse)] == [1, 3, 5]


def test_copy_is_of_tables_alone(warehouse, tmp_path):
    source = FileSource(path=str(tmp_path), timestamp="ms")

    with pytest.raises(ConfigError, match="a Delta or Iceberg table"):
        land_files(None, warehouse, "clicks", source, rules=LandingRules(copy=True), clock_ms=lambda: NOON)


def test_a_topic_that_the_table_does_not_have_is_named_with_those_it_has(warehouse, lake):
    write_deltalake(str(lake), spark_rows(rows(0, 6), topic="views"))

    with pytest.raises(LandingError, match="got rows of views"):
        land(warehouse, lake, in_place=True)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit_are_those_that_a_copy_has(tmp_path, lake, unit):
    seconds = [row._replace(ms=row.ms // 1_000 * 1_000) for row in rows(0, 10)]
    table = spark_rows(seconds)
    given = table["timestamp"].cast(pa.int64()).to_numpy() // {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[unit]
    given = given * (1_000 if unit == "ns" else 1)
    times = pa.array(given, pa.int64()).cast(pa.timestamp(unit, "UTC"))
    lake.mkdir()
    plain = table.set_column(5, "timestamp", times)
    found = []
    for in_place in (True, False):
        warehouse = Warehouse(str(tmp_path / f"of {in_place}"))
        folder = lake / f"{unit} {in_place}"
        write_deltalake(str(folder), table)
        [file] = folder.glob("*.parquet")
        pq.write_table(plain, file, coerce_timestamps=None, use_deprecated_int96_timestamps=unit == "ns")
        _say_the_size(folder, file)
        land(warehouse, folder, in_place=in_place)
        found.append(read(warehouse))

    assert found[0] == found[1] == in_order(seconds)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_timestamp_type_is_read_in_every_word_that_tools_write(warehouse, lake, in_place):
    written = {
        "CreateTime": "CreateTime", "LogAppendTime": "LogAppendTime", "NoTimestampType": "NoTimestampType",
        "logappendtime": "LogAppendTime", "create": "CreateTime", "logappend": "LogAppendTime",
        "unknown": "NoTimestampType", "1": "LogAppendTime", "0": "CreateTime", "-1": "NoTimestampType",
    }  # fmt: skip
    one = [row for row in rows(0, 2 * len(written)) if row.partition == 0]
    table = spark_rows(one)
    kinds = pa.array(list(written)[: len(one)])
    write_deltalake(str(lake), table.set_column(6, "timestampType", kinds))

    land(warehouse, lake, in_place=in_place)

    last = LandingLedger(warehouse.landing_ledger("clicks")).last_done()
    [file] = landed_files(warehouse, "clicks", last)
    found = read_rows(warehouse.landed("clicks"), [file], LANDED_SCHEMA)["timestamp_type"].to_pylist()
    assert found == list(written.values())


def _say_the_size(folder: Path, file: Path) -> None:
    """In the log, of a file that was written again."""
    [log] = (folder / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["size"] = file.stat().st_size
    log.write_text("\n".join(json.dumps(action) for action in actions))


def test_integers_as_times_have_the_unit_that_is_named(warehouse, lake):
    table = spark_rows(rows(0, 10))
    times = table["timestamp"].cast(pa.int64())
    write_deltalake(str(lake), table.set_column(5, "timestamp", times))

    land(warehouse, lake, in_place=True, timestamp_unit="us")

    assert read(warehouse) == in_order(rows(0, 10))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": ("key", "offset")}, "several columns"),
        ({"value_type": "long", "value": "offset"}, "offset: int64"),
        ({"headers": "key"}, "key: "),
    ],
)
def test_what_would_have_to_be_converted_is_refused_with_the_way_by_copy(warehouse, lake, columns, words):
    bronze(lake, rows(0, 10))

    with pytest.raises(LandingError, match=words) as caught:
        land(warehouse, lake, in_place=True, **columns)

    assert "by copy" in str(caught.value)
    assert warehouse.topics() == []


def test_a_row_without_an_offset_is_refused_since_there_is_no_dead_letter(warehouse, lake):
    table = spark_rows(rows(0, 10))
    offsets = pa.array([None, *table["offset"].to_pylist()[1:]], pa.int64())
    write_deltalake(str(lake), table.set_column(4, "offset", offsets))

    with pytest.raises(LandingError, match="an offset in every row, got 1 rows without"):
        land(warehouse, lake, in_place=True)


def test_an_offset_that_comes_twice_is_refused(warehouse, lake):
    bronze(lake, rows(0, 10), rows(6, 12))

    with pytest.raises(LandingError, match=r"partition 0: expected each offset once, got offset 3 again \(2 in all\)"):
        land(warehouse, lake, in_place=True)


@pytest.mark.parametrize(("offsets", "is_seen_at_once"), [([0, 1, 1, 2], True), ([0, 1, 1, 5], False)])
def test_an_offset_that_one_file_has_twice_is_refused_before_a_record_is_taken(
    warehouse, lake, offsets, is_seen_at_once
):
    """Where gaps hide it from the footer, those who read the rows refuse it, and so does a copy."""
    table = spark_rows(rows(0, 4)).set_column(4, "offset", pa.array(offsets, pa.int64()))
    write_deltalake(str(lake), table.set_column(3, "partition", pa.array([0] * 4, pa.int32())))
    if is_seen_at_once:
        with pytest.raises(LandingError, match="each offset once, got offset 1 again"):
            land(warehouse, lake, in_place=True)
        return
    land(warehouse, lake, in_place=True)

    with pytest.raises(LandingError, match=r"offsets that rise .* another name, by copy"):
        read(warehouse)
    with pytest.raises(LandingError, match="each offset once, got one of them again"):
        land(warehouse, lake, rules={"copy": True})


def test_what_comes_below_the_landed_offsets_is_refused(warehouse, lake):
    bronze(lake, rows(10, 20))
    land(warehouse, lake, in_place=True)
    bronze(lake, rows(0, 4))

    with pytest.raises(LandingError, match="offsets of partition 0 from 10 on, got offset 0"):
        land(warehouse, lake, in_place=True)


def test_a_landing_by_copy_does_not_follow_one_in_place_unasked(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    bronze(lake, rows(10, 20))

    with pytest.raises(LandingError, match=r"expected a landing in place, .* add --in-place; or --copy"):
        land(warehouse, lake)


def test_a_copy_makes_the_records_our_own_and_changes_none(warehouse, lake):
    bronze(lake, rows(0, 10), rows(10, 20)).optimize.z_order(["value"])
    land(warehouse, lake, in_place=True)
    before = read(warehouse)

    report = land(warehouse, lake, rules={"copy": True})
    shutil.rmtree(lake)

    assert (report.increments, report.records) == ((2,), 0)
    assert read(warehouse) == before == in_order(rows(0, 20))
    assert len(own_files(warehouse)) == 2
    assert fsck(warehouse).findings == []


def test_a_copy_of_records_without_headers_has_none(warehouse, lake):
    write_deltalake(str(lake), spark_rows(rows(0, 10)).drop_columns(["headers", "timestampType"]))
    land(warehouse, lake, in_place=True)

    land(warehouse, lake, rules={"copy": True})

    assert read(warehouse) == in_order(row._replace(headers=[]) for row in rows(0, 10))


def test_after_a_copy_the_table_goes_on_by_copy_or_in_place(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    land(warehouse, lake, rules={"copy": True})
    bronze(lake, rows(10, 20))
    assert land(warehouse, lake).records == 10
    table = bronze(lake, rows(20, 30))

    assert land(warehouse, lake, in_place=True).records == 10
    assert read(warehouse) == in_order(rows(0, 30))
    table.update_incremental()
    table.optimize.z_order(["value"])
    vacuum(lake)
    assert land(warehouse, lake, in_place=True).records == 0

    assert read(warehouse) == in_order(rows(0, 30))
    assert sum(file.records for file in read_files(warehouse.landed("clicks"))) == 20
    assert fsck(warehouse).findings == []


@pytest.mark.parametrize("dies_in", [None, "before_the_commit", "between_commit_and_ledger"])
def test_what_lies_in_place_is_copied_also_behind_a_landing_from_files(warehouse, lake, tmp_path, monkeypatch, dies_in):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    (tmp_path / "in").mkdir()
    pq.write_table(spark_rows(rows(10, 14)), tmp_path / "in" / "a.parquet")
    mapping = {"timestamp": "timestamp", "key": "key", "value": "value", "headers": "headers", "partition": "partition"}
    files = FileSource(tmp_path / "in", offset="offset", partitions=2, **mapping)
    land_files(None, warehouse, "clicks", files)
    with pytest.raises(
        ConfigError, match=rf"expected records in its own table, got some in place, in {lake}; .*--copy"
    ):
        erase(warehouse, ["clicks"], Sought((b"k1",)), "a request", by="us", clock_ms=lambda: NOON)
    if dies_in is not None:
        with dies(monkeypatch, in_=dies_in):
            land(warehouse, lake, rules={"copy": True})
        with pytest.raises(LandingError, match=r"unfinished: expected the source of the kind lake, .* got files"):
            land_files(None, warehouse, "clicks", files)

    assert land(warehouse, lake, rules={"copy": True}).increments == (3,)
    pq.write_table(spark_rows(rows(14, 18)), tmp_path / "in" / "b.parquet")
    land_files(None, warehouse, "clicks", files)

    assert read(warehouse) == in_order(rows(0, 18))
    assert fsck(warehouse).findings == []


def test_a_copy_of_nothing_lands_nothing(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake)

    assert land(warehouse, lake, rules={"copy": True}).increments == ()


@pytest.mark.parametrize("copies", [False, True])
def test_a_landing_that_dies_before_its_done_row_is_finished(warehouse, lake, monkeypatch, copies):
    bronze(lake, rows(0, 10))
    if copies:
        land(warehouse, lake, in_place=True)
    how = {"rules": {"copy": True}} if copies else {"in_place": True}

    with dies(monkeypatch, in_="between_commit_and_ledger"):
        land(warehouse, lake, **how)
    report = land(warehouse, lake, **how)

    assert report.records == (0 if copies else 10)
    assert read(warehouse) == in_order(rows(0, 10))
    assert fsck(warehouse).findings == []


def test_a_plan_whose_files_are_gone_is_given_up(warehouse, lake, monkeypatch):
    table = bronze(lake, rows(0, 10), rows(10, 20))
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, lake, in_place=True)
    table.optimize.compact()
    vacuum(lake)

    report = land(warehouse, lake, in_place=True)

    assert "the plan of increment 1 was given up" in report.warnings[0]
    assert read(warehouse) == in_order(rows(0, 20))


def test_a_preview_says_what_would_be_registered_and_registers_nothing(warehouse, lake):
    bronze(lake, rows(0, 10))
    source = LakeSource(delta=str(lake), in_place=True)

    preview = preview_landing(None, warehouse, "clicks", source, clock_ms=lambda: NOON)

    assert preview is not None
    assert (preview.records, preview.files, preview.dead_letters) == (10, 1, 0)
    assert {p: (each.records, each.next_offset) for p, each in preview.partitions.items()} == {0: (5, 5), 1: (5, 5)}
    assert warehouse.topics() == []


def test_a_preview_counts_what_is_new_in_files_that_were_compacted(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    table = bronze(lake, rows(10, 14))
    table.optimize.compact()
    source = LakeSource(delta=str(lake), in_place=True)

    preview = preview_landing(None, warehouse, "clicks", source, clock_ms=lambda: NOON)

    assert preview is not None
    assert preview.records == 4
    assert {p: (each.records, each.next_offset) for p, each in preview.partitions.items()} == {0: (2, 7), 1: (2, 7)}


def test_what_is_compared_with_changed_rows_is_shown_once(warehouse, lake):
    table = bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    table.delete("offset = 3 and partition = 1")
    bronze(lake, rows(10, 14))
    firsts, previews = [], []

    land_lake(
        None, warehouse, "clicks", LakeSource(delta=str(lake), in_place=True),
        rules=LandingRules(on_change="ignore"), show=firsts.append, preview=previews.append, clock_ms=lambda: NOON,
    )  # fmt: skip

    assert (len(firsts), len(previews)) == (1, 1)


def test_the_time_of_quiet_partitions_is_recorded_by_what_lies_there(warehouse, lake):
    bronze(lake, [*rows(0, 10), Row(0, 5, START_MS + 100_000, b"k", b"v")])
    land(warehouse, lake, in_place=True)

    assert record_idle(warehouse, "clicks", 10_000, clock_ms=lambda: NOON) == dict.fromkeys((0, 1), START_MS + 90_000)


def test_what_lies_in_place_is_not_erased_before_it_is_ours(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)

    with pytest.raises(ConfigError, match=r"clicks.*in place.*--copy"):
        erase(warehouse, ["clicks"], Sought((b"k1",)), "a request", by="us", clock_ms=lambda: NOON)


def test_redpandas_struct_is_read_in_place(warehouse, lake):
    write_deltalake(str(lake), redpanda_rows(rows(0, 20)))

    land(warehouse, lake, in_place=True)

    assert read(warehouse) == in_order(rows(0, 20))
