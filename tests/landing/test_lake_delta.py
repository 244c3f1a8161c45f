"""A Delta table that has a topic's records: rows by its own log, version after version."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from kstreams_replay.jobs.landing.landing import FileSource, LakeSource, land_files, land_records, preview_landing
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.file_folders import dies
from tests.landing.lake_tables import START_MS, Row, bronze, in_order, land, records_of, rows, spark_rows
from tests.landing.landed_records import records
from tests.landing.landed_rows import landed


def test_a_bronze_table_lands_as_its_records_do(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(10, 20), rows(0, 10))
    columns = "partition", "offset", "timestamp", "timestamp_type", "key", "value"

    report = land(warehouse, tmp_path / "bronze")
    given = [(row.partition, row.ms, row.key, row.value) for row in rows(0, 20)]
    land_records(warehouse, "same", records(*given), partitions=2)

    assert report.warnings == ()
    assert (report.records, report.partitions, report.cut_to) == (20, 2, {0: 10, 1: 10})
    assert records_of(warehouse) == in_order(rows(0, 20))
    assert landed(warehouse, "clicks", *columns) == landed(warehouse, "same", *columns)


def test_a_clustered_table_lands_in_the_order_of_offsets(warehouse, tmp_path):
    table = bronze(tmp_path / "bronze", rows(0, 30), rows(30, 60))
    table.optimize.z_order(["value"])

    land(warehouse, tmp_path / "bronze")

    assert records_of(warehouse) == in_order(rows(0, 60))


def test_only_what_was_appended_lands_next(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    bronze(tmp_path / "bronze", rows(10, 14))

    report = land(warehouse, tmp_path / "bronze")

    assert (report.records, report.cut_from, report.cut_to) == (4, {0: 5, 1: 5}, {0: 7, 1: 7})
    assert [
        file["records"] for file in LandingLedger(warehouse.landing_ledger("clicks")).plans()[-1].content.files
    ] == [4]
    assert land(warehouse, tmp_path / "bronze").increments == ()
    assert records_of(warehouse) == in_order(rows(0, 14))


def test_compaction_and_clustering_between_versions_change_nothing(warehouse, tmp_path):
    table = bronze(tmp_path / "bronze", rows(0, 10), rows(10, 20))
    land(warehouse, tmp_path / "bronze")

    table.optimize.compact()
    assert land(warehouse, tmp_path / "bronze").increments == ()
    bronze(tmp_path / "bronze", rows(20, 30))
    DeltaTable(str(tmp_path / "bronze")).optimize.z_order(["key"])
    DeltaTable(str(tmp_path / "bronze")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    report = land(warehouse, tmp_path / "bronze")

    assert (report.records, report.warnings) == (10, ())
    assert records_of(warehouse) == in_order(rows(0, 30))


@pytest.mark.parametrize("in_place", [False, True])
def test_a_new_partition_lands_though_its_files_were_compacted_and_have_bounds_of_offsets_alone(
    warehouse, tmp_path, in_place
):
    """Its offsets are below those that have landed, which are of other partitions."""
    settings = {"delta.dataSkippingStatsColumns": "offset"}
    new = [Row(2, offset, START_MS, b"k", b"v", []) for offset in range(4)]

    def append(records: list[Row], day: str) -> None:
        table = spark_rows(records).append_column("day", pa.array([day] * len(records)))
        write_deltalake(str(tmp_path / "t"), table, mode="append", partition_by=["day"], configuration=settings)

    append(rows(100, 110), "1")
    land(warehouse, tmp_path / "t", in_place=in_place)
    append(new[:2], "2")
    append(new[2:], "2")
    DeltaTable(str(tmp_path / "t")).optimize.compact(partition_filters=[("day", "=", "2")])

    assert land(warehouse, tmp_path / "t", in_place=in_place).records == 4
    assert in_order(records_of(warehouse)) == in_order([*rows(100, 110), *new])


def test_partitions_and_offsets_may_be_text_whose_order_is_another_one(warehouse, tmp_path):
    """As text 9 is above 10. Rows were moved between the two landings, and one was deleted behind them."""
    place = str(tmp_path / "bronze")
    names = {"partition": "p", "offset": "o", "timestamp": "t", "key": "key", "value": "v"}

    def append(*places: tuple[str, str]) -> None:
        columns = {"p": [p for p, _ in places], "o": [o for _, o in places], "t": [5] * len(places)}
        write_deltalake(
            place, pa.table({**columns, "key": [b"k"] * len(places), "v": [b"v"] * len(places)}), mode="append"
        )

    append(("9", "9"), ("10", "10"))
    land(warehouse, tmp_path / "bronze", **names)
    append(("10", "11"), ("9", "100"))
    DeltaTable(place).optimize.compact()
    land(warehouse, tmp_path / "bronze", **names)
    assert [row[:2] for row in records_of(warehouse)] == [(9, 9), (9, 100), (10, 10), (10, 11)]

    DeltaTable(place).delete("o = '9'")
    with pytest.raises(LandingError, match="partition 9: offset 9"):
        land(warehouse, tmp_path / "bronze", **names)


def test_topics_may_be_numbers_as_in_files(warehouse, tmp_path):
    columns = {"n": [7, 8, 7], "p": [0, 0, 0], "o": [1, 1, 2], "t": [5, 5, 6], "key": [b"k"] * 3, "v": [b"v"] * 3}
    write_deltalake(str(tmp_path / "bronze"), pa.table(columns))
    names = {"partition": "p", "offset": "o", "timestamp": "t", "key": "key", "value": "v", "topic_column": "n"}

    with pytest.raises(LandingError, match="expected rows whose column n has 'clicks', got rows of 7, 8"):
        land(warehouse, tmp_path / "bronze", **names)
    land(warehouse, tmp_path / "bronze", **names, topic="7")

    assert [row[:2] for row in records_of(warehouse)] == [(0, 1), (0, 2)]


def test_up_to_a_version_lands_what_it_had(warehouse, tmp_path):
    table = bronze(tmp_path / "bronze", rows(0, 10), rows(10, 20))
    table.delete("offset = 3")

    land(warehouse, tmp_path / "bronze", version=0)
    assert records_of(warehouse) == in_order(rows(0, 10))
    land(warehouse, tmp_path / "bronze", version=1)
    assert records_of(warehouse) == in_order(rows(0, 20))
    older = land(warehouse, tmp_path / "bronze", version=0)
    assert older.warnings == ("clicks: version 0 is older than version 1, which has landed",)


def test_rows_that_were_deleted_before_do_not_land(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10)).delete("offset = 1")

    report = land(warehouse, tmp_path / "bronze")

    assert records_of(warehouse) == in_order(row for row in rows(0, 10) if row.offset != 1)
    assert (report.gaps, report.warnings) == ({}, ())


@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_delete_of_landed_rows_is_refused_with_their_offsets(warehouse, tmp_path, vacuumed):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    bronze(tmp_path / "bronze", rows(10, 14)).delete("offset = 1 OR offset = 2 OR offset = 4 AND partition = 1")
    if vacuumed:
        DeltaTable(str(tmp_path / "bronze")).vacuum(0, dry_run=False, enforce_retention_duration=False)

    with pytest.raises(LandingError) as error:
        land(warehouse, tmp_path / "bronze")

    assert error.value.got == (
        "5 landed records are gone from the table (partition 0: offsets 1 to 2; partition 1: offsets 1 to 2, 4), by "
        "DELETE in version 2"
    )
    assert records_of(warehouse) == in_order(rows(0, 10))


def test_a_delete_may_be_ignored_and_is_noted_once(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    bronze(tmp_path / "bronze", rows(10, 14)).delete("offset = 1 AND partition = 0")
    ignoring = {"on_change": "ignore"}

    report = land(warehouse, tmp_path / "bronze", rules=ignoring)

    assert report.warnings == (
        "clicks: 1 landed record is gone from the table (partition 0: offset 1), by DELETE in version 2; the topic "
        "keeps the records as they landed",
    )
    [*_, plan] = LandingLedger(warehouse.landing_ledger("clicks")).plans()
    assert plan.content.changed == {"gone": {"0": [[1, 2]]}}
    assert records_of(warehouse) == in_order(rows(0, 14))
    DeltaTable(str(tmp_path / "bronze")).optimize.compact()
    bronze(tmp_path / "bronze", rows(14, 16)).delete("offset = 3 AND partition = 1")
    again = land(warehouse, tmp_path / "bronze", rules=ignoring)
    assert "1 landed record is gone from the table (partition 1: offset 3)" in again.warnings[0]


def test_an_update_and_a_merge_of_landed_rows_are_noticed(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    table = DeltaTable(str(tmp_path / "bronze"))
    table.update(updates={"topic": "'clicks'", "value": "cast('other' as bytea)"}, predicate="offset = 3")

    with pytest.raises(LandingError, match=r"got 2 landed records are changed in the table .* by UPDATE in version 1"):
        land(warehouse, tmp_path / "bronze")

    changed = spark_rows([Row(0, 0, 7, b"k", b"merged"), *rows(10, 12)])
    merged = DeltaTable(str(tmp_path / "bronze")).merge(
        changed, "t.offset = s.offset AND t.partition = s.partition", source_alias="s", target_alias="t"
    )
    merged.when_matched_update_all().when_not_matched_insert_all().execute()
    report = land(warehouse, tmp_path / "bronze", rules={"on_change": "ignore"})
    assert (
        "3 landed records are changed in the table (partition 0: offsets 0, 3; partition 1: offset 3)"
        in report.warnings[0]
    )
    assert records_of(warehouse) == in_order(rows(0, 12))


def test_a_restore_that_takes_landed_rows_is_noticed(warehouse, tmp_path):
    table = bronze(tmp_path / "bronze", rows(0, 10), rows(10, 20))
    land(warehouse, tmp_path / "bronze")
    table.restore(0)

    with pytest.raises(LandingError, match=r"10 landed records are gone from the table .* by RESTORE in version 2"):
        land(warehouse, tmp_path / "bronze")


def test_a_change_that_a_restore_took_back_is_none(warehouse, tmp_path):
    table = bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    table.delete("offset = 3")
    DeltaTable(str(tmp_path / "bronze")).restore(0)

    assert land(warehouse, tmp_path / "bronze").increments == ()


def test_where_the_log_was_cleaned_up_the_whole_table_is_compared(warehouse, tmp_path):
    path = tmp_path / "bronze"
    bronze(path, rows(0, 10))
    land(warehouse, path)
    bronze(path, rows(10, 14)).delete("offset = 2 AND partition = 1")
    DeltaTable(str(path)).create_checkpoint()
    for number in range(2):
        (path / "_delta_log" / f"{number:020d}.json").unlink()

    with pytest.raises(LandingError, match=r"1 landed record is gone from the table \(partition 1: offset 2\)"):
        land(warehouse, path)
    report = land(warehouse, path, rules={"on_change": "ignore"})

    assert report.records == 4
    assert report.warnings[0] == (
        f"clicks: all of Delta table {path} was compared with what has landed, since its log does not go back to "
        "version 0 any more"
    )


def test_a_version_whose_files_were_vacuumed_says_what_is_missing(warehouse, tmp_path):
    path = tmp_path / "bronze"
    table = bronze(path, rows(0, 10), rows(10, 20))
    table.optimize.compact()
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)

    with pytest.raises(LandingError) as error:
        land(warehouse, path, version=1)

    assert error.value.expected == "the files of version 1"
    assert error.value.got.startswith("2 of 2 that are gone, with 20 rows, at offsets 0 to 9 (part-")
    assert warehouse.topics() == []


def test_what_is_missing_before_the_next_rows_is_a_gap(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    bronze(tmp_path / "bronze", rows(14, 20))

    report = land(warehouse, tmp_path / "bronze")

    assert report.gaps == {0: (5, 7), 1: (5, 7)}
    assert report.warnings == (
        f"clicks: Delta table {tmp_path / 'bronze'} does not have what follows the landed records (partition 0: "
        "offsets 5 to 6; partition 1: offsets 5 to 6)",
    )


@pytest.mark.parametrize("is_compacted", [False, True])
def test_what_is_appended_below_the_landed_offsets_is_refused_also_when_it_was_compacted_meanwhile(
    warehouse, tmp_path, is_compacted
):
    bronze(tmp_path / "bronze", [row for row in rows(0, 20) if row.offset != 4])
    land(warehouse, tmp_path / "bronze")
    table = bronze(tmp_path / "bronze", rows(8, 9), rows(9, 10))  # the offset 4 of both partitions
    if is_compacted:
        table.optimize.compact()

    with pytest.raises(LandingError, match="got offset 4, with which no record has landed"):
        land(warehouse, tmp_path / "bronze")


def test_a_history_that_begins_later_says_so(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(10, 20))

    report = land(warehouse, tmp_path / "bronze")

    assert report.cut_from == {0: 5, 1: 5}
    assert report.warnings == (
        f"clicks: the history in Delta table {tmp_path / 'bronze'} begins at offset 5 of partition 0, 5 of partition "
        "1; what came before is not in it",
    )


def test_an_append_that_came_twice_lands_once(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10), rows(6, 12))

    report = land(warehouse, tmp_path / "bronze")

    assert report.warnings == (
        "clicks: 4 rows have the offset and the bytes of another one, and each of these lands once",
    )
    assert records_of(warehouse) == in_order(rows(0, 12))


def test_an_offset_with_two_values_is_refused(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10), [Row(1, 4, rows(9, 10)[0].ms, b"k0", b"else")])

    with pytest.raises(LandingError, match="offset 4 of partition 1 once, or again with the same bytes"):
        land(warehouse, tmp_path / "bronze")


def test_of_several_topics_only_the_wanted_one_is_taken(warehouse, tmp_path):
    path = str(tmp_path / "bronze")
    both = pa.concat_tables([spark_rows(rows(0, 4)), spark_rows([Row(7, 0, 1, b"o", b"o")], "orders")])
    write_deltalake(path, both)
    write_deltalake(path, spark_rows(rows(4, 8)), mode="append")
    write_deltalake(path, spark_rows([Row(9, 0, 1, b"o", b"o")], "orders"), mode="append")

    report = land(warehouse, tmp_path / "bronze")

    assert (report.partitions, report.warnings) == (2, ())
    assert records_of(warehouse) == in_order(rows(0, 8))


def test_a_topic_that_no_column_has_is_refused(warehouse, tmp_path):
    columns = {"p": [0], "o": [1], "t": [5], "key": [b"k"], "v": [b"v"]}
    write_deltalake(str(tmp_path / "bronze"), pa.table(columns))
    names = {"partition": "p", "offset": "o", "timestamp": "t", "key": "key", "value": "v"}

    with pytest.raises(LandingError, match="expected a column with the topic 'web', got none in columns p, o, t, key"):
        land(warehouse, tmp_path / "bronze", **names, topic="web")


def test_a_topic_that_the_table_does_not_have_is_named_with_those_it_has(warehouse, tmp_path):
    write_deltalake(str(tmp_path / "bronze"), spark_rows(rows(0, 4), "web.clicks"))

    with pytest.raises(
        LandingError, match=r"whose column topic has 'clicks', got rows of web.clicks; .*--source-topic"
    ):
        land(warehouse, tmp_path / "bronze")
    land(warehouse, tmp_path / "bronze", topic="web.clicks")

    assert records_of(warehouse) == in_order(rows(0, 4))


@pytest.mark.parametrize("by", [["topic"], ["partition"], ["topic", "partition"]])
def test_columns_that_are_in_the_path_alone_are_read(warehouse, tmp_path, by):
    path = str(tmp_path / "bronze")
    write_deltalake(path, spark_rows(rows(0, 10)), partition_by=by)
    write_deltalake(path, spark_rows(rows(0, 3), "orders"), mode="append")

    land(warehouse, tmp_path / "bronze")

    assert records_of(warehouse) == in_order(rows(0, 10))


@pytest.mark.parametrize("in_place", [False, True])
def test_folders_whose_names_are_encoded_are_read_where_the_table_is_named_by_a_uri(warehouse, tmp_path, in_place):
    path = tmp_path / "bronze layer"
    write_deltalake(str(path), spark_rows(rows(0, 10), "a/b"), partition_by=["topic"])

    land(warehouse, topic="a/b", delta=f"file://{tmp_path}/bronze%20layer", in_place=in_place)

    assert records_of(warehouse) == in_order(rows(0, 10))


def test_a_table_whose_path_delta_would_decode_into_another_is_refused(warehouse, tmp_path):
    bronze(tmp_path / "a b", rows(0, 10))
    (tmp_path / "a%20b").mkdir()

    with pytest.raises(ConfigError, match=r"a%20b: expected a path without a percent sign .* got %20 in .*"):
        land(warehouse, tmp_path / "a%20b")


def test_a_topic_that_got_more_partitions_has_them(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    bronze(tmp_path / "bronze", [Row(3, 0, 5, b"k", b"v")])

    report = land(warehouse, tmp_path / "bronze")

    assert (report.partitions, report.cut_to) == (4, {0: 5, 1: 5, 2: 0, 3: 1})
    with pytest.raises(LandingError, match="expected 4 partitions, as in its first landing, got 2"):
        land(warehouse, bronze(tmp_path / "bronze", rows(10, 11)) and tmp_path / "bronze", partitions=2)


def test_a_table_at_another_place_is_the_same_table(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    shutil.move(tmp_path / "bronze", tmp_path / "moved")
    bronze(tmp_path / "moved", rows(10, 12))

    assert land(warehouse, tmp_path / "moved").records == 2


def test_a_table_that_was_put_back_from_a_copy_of_it_is_compared_and_none_of_its_rows_is_lost(warehouse, tmp_path):
    path = tmp_path / "bronze"
    bronze(path, rows(0, 4), rows(4, 8))
    shutil.copytree(path, tmp_path / "copy")
    bronze(path, rows(8, 12))
    land(warehouse, path)
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    with pytest.raises(
        LandingError, match=r"got 4 landed records are gone from the table \(partition 0: offsets 4 to 5"
    ):
        land(warehouse, path)  # of the versions 0 to 2, which landed, 0 and 1 are there
    with pytest.raises(LandingError, match="its newest version is 1, and version 2 has landed"):
        land(warehouse, path, rules={"on_change": "erase"})
    bronze(path, rows(8, 20))  # another version 2

    again = land(warehouse, path)
    bronze(path, rows(20, 24))
    appended = land(warehouse, path)

    assert records_of(warehouse) == in_order(rows(0, 24))
    assert (again.records, appended.records, appended.warnings) == (8, 4, ())
    assert again.warnings == (
        f"clicks: all of Delta table {path} was compared with what has landed, since its version 2 has other files "
        "than when it landed",
    )


def test_another_table_is_compared_and_continues_the_topic(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    bronze(tmp_path / "again", rows(0, 12))

    report = land(warehouse, tmp_path / "again")

    assert report.records == 2
    assert "since it is another one than" in report.warnings[0]


def test_another_mapping_is_refused_unless_it_is_meant(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    bronze(tmp_path / "bronze", rows(10, 12))

    with pytest.raises(LandingError, match="expected the mapping of its last landing, value 'value', got value 'key'"):
        land(warehouse, tmp_path / "bronze", value="key")
    assert land(warehouse, tmp_path / "bronze", value="key", rules={"new_mapping": True}).records == 2


def test_files_with_offsets_continue_what_a_table_began_and_the_other_way(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))
    land(warehouse, tmp_path / "bronze")
    (tmp_path / "in").mkdir()
    pq.write_table(spark_rows(rows(10, 14)), tmp_path / "in" / "a.parquet")
    mapping = {"timestamp": "timestamp", "key": "key", "value": "value", "headers": "headers", "partition": "partition"}
    source = FileSource(tmp_path / "in", offset="offset", partitions=2, **mapping)

    land_files(None, warehouse, "clicks", source)
    bronze(tmp_path / "bronze", rows(10, 16))
    report = land(warehouse, tmp_path / "bronze")

    assert report.records == 2
    assert records_of(warehouse) == in_order(rows(0, 16))
    with pytest.raises(
        LandingError, match=r"of the kind lake with Kafka's offsets, .* got files without known offsets"
    ):
        land_files(None, warehouse, "clicks", FileSource(tmp_path / "in", timestamp="timestamp"))


def test_a_dead_landing_is_finished_from_the_planned_version(warehouse, tmp_path, monkeypatch):
    bronze(tmp_path / "bronze", rows(0, 10))
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, tmp_path / "bronze")
    bronze(tmp_path / "bronze", rows(10, 12)).optimize.compact()

    report = land(warehouse, tmp_path / "bronze")

    assert (report.increments, report.records, report.warnings) == ((1, 2), 12, ())
    assert records_of(warehouse) == in_order(rows(0, 12))


def test_a_plan_whose_files_were_vacuumed_is_given_up(warehouse, tmp_path, monkeypatch):
    bronze(tmp_path / "bronze", rows(0, 6), rows(6, 10))
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, tmp_path / "bronze")
    DeltaTable(str(tmp_path / "bronze")).optimize.compact()
    DeltaTable(str(tmp_path / "bronze")).vacuum(0, dry_run=False, enforce_retention_duration=False)

    report = land(warehouse, tmp_path / "bronze")

    assert report.records == 10
    assert "the plan of increment 1 was given up" in report.warnings[0]
    assert records_of(warehouse) == in_order(rows(0, 10))


def test_a_preview_says_the_layout_and_lands_nothing(warehouse, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 10))

    found = preview_landing(None, warehouse, "clicks", LakeSource(delta=tmp_path / "bronze"))

    assert found is not None
    assert found.layout == (
        "layout spark (Spark's Kafka source), since the table has columns timestamp, partition, offset"
    )
    assert (found.records, found.partitions[1].next_offset) == (10, 5)
    assert warehouse.topics() == []


def test_no_table_and_a_version_that_is_not_there_are_named(warehouse, tmp_path):
    with pytest.raises(LandingError, match="expected a Delta table, got none"):
        land(warehouse, tmp_path / "nowhere")
    bronze(tmp_path / "bronze", rows(0, 10))
    with pytest.raises(LandingError, match="expected version 7, got newest version 0"):
        land(warehouse, tmp_path / "bronze", version=7)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "LakeSource delta, iceberg: expected one of both"),
        ({"delta": "a", "iceberg": "c.n.t"}, "expected one of both"),
        ({"delta": "a", "snapshot": 1}, "snapshot: expected nothing: it is of iceberg"),
        ({"iceberg": "t"}, "expected catalog.namespace.table"),
        ({"delta": "a", "layout": "kafka"}, "layout: expected one of auto, redpanda, tableflow"),
    ],
)
def test_a_source_that_cannot_be_is_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        LakeSource(**given)


def test_a_path_may_be_a_path():
    assert LakeSource(delta=Path("bronze")) == LakeSource(delta="bronze/")
