"""Paths that say partitions, offsets and times: folders as in Hive, the names of Kafka Connect's sinks, patterns."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.landing import FileSource, land_files
from kstreams_replay.state.errors import ConfigError, LandingError
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed

T0 = 1_767_258_000_000
"""2026-01-01T09:00:00Z."""
PLACE = ("partition", "offset", "value")


def lines(*values: str, key: str = "same") -> str:
    return "".join(json.dumps({"t": T0, "k": key, "v": value}) + "\n" for value in values)


def test_files_of_confluents_sink_keep_their_partition_and_offsets(warehouse, tmp_path):
    """Keys that librdkafka placed are of one partition there and of another by murmur2."""
    files = {
        "topics/t/partition=1/t+1+0000000000.json": lines("a", "b"),
        "topics/t/partition=0/t+0+0000000100.json": lines("y"),
        "topics/t/partition=1/t+1+0000000002.json": lines("c"),
        "topics/t/partition=0/t+0+0000000099.json": lines("x"),
    }
    directory = write(tmp_path / "in", files)

    land(warehouse, directory, key="k", value="v", path_pattern="confluent", partitions=2)

    assert landed(warehouse, "t", *PLACE) == [(0, 99, b"x"), (0, 100, b"y"), (1, 0, b"a"), (1, 1, b"b"), (1, 2, b"c")]


def test_files_of_confluents_sink_whose_offsets_are_not_one_by_one_are_refused(warehouse, tmp_path):
    """As a partitioner by time leaves them: two files are open at once."""
    files = {"hour=9/t+0+0000000000.json": lines("a", "c"), "hour=10/t+0+0000000001.json": lines("b", "d")}
    directory = write(tmp_path / "in", files)

    with pytest.raises(LandingError, match=r"expected offset 1 of partition 0 once, .* got another value than in "):
        land(warehouse, directory, value="v", path_pattern="confluent")


def test_files_of_aivens_sink(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a-topic-1-10.json": lines("c"), "a-topic-1-8.json": lines("a", "b")})

    land(warehouse, directory, value="v", path_pattern="aiven", partitions=2)

    assert landed(warehouse, "t", *PLACE) == [(1, 8, b"a"), (1, 9, b"b"), (1, 10, b"c")]


def test_files_of_lenses_sink_are_named_by_their_last_offset(warehouse, tmp_path):
    files = {
        "t/0/1.json": lines("a", "b"), "t/0/12.json": lines("e", "f"), "t/0/3.json": lines("c", "d"),
        "t/1/000000000005_1_2.json": lines("z"),
    }  # fmt: skip
    directory = write(tmp_path / "in", files)

    report = land(warehouse, directory, value="v", path_pattern="lenses", partitions=2)

    assert landed(warehouse, "t", *PLACE) == [
        (0, 0, b"a"), (0, 1, b"b"), (0, 2, b"c"), (0, 3, b"d"), (0, 11, b"e"), (0, 12, b"f"), (1, 5, b"z"),
    ]  # fmt: skip
    assert report.cut_to == {0: 13, 1: 6}


TWO_TOPICS = {
    "confluent": {
        "topics/clicks/partition=0/clicks+0+0000000000.json": lines("a", "b"),
        "topics/views/partition=1/views+1+0000000007.json": lines("v"),
        "topics/clicks/partition=1/clicks+1+0000000004.json": lines("c"),
    },
    "aiven": {
        "clicks-0-0.json": lines("a", "b"), "views-1-7.json": lines("v"), "clicks-1-4.json": lines("c"),
    },
    "lenses": {
        "x/clicks/0/1.json": lines("a", "b"), "x/views/1/7.json": lines("v"), "x/clicks/1/4.json": lines("c"),
    },
    r"(?P<topic>\w+)/p(?P<partition>\d+)from(?P<offset>\d+)": {
        "clicks/p0from0.json": lines("a", "b"), "views/p1from7.json": lines("v"), "clicks/p1from4.json": lines("c"),
    },
}  # fmt: skip
"""By pattern, files of the topics clicks and views."""


@pytest.mark.parametrize("pattern", TWO_TOPICS)
def test_paths_of_two_topics_are_refused_unless_a_column_names_the_one_to_land(warehouse, tmp_path, pattern):
    files = TWO_TOPICS[pattern]
    directory = write(tmp_path / "in", {**files, **dict.fromkeys([name for name in files if "views" in name], "no\n")})
    first, views, _ = files
    mapping = {"path_pattern": pattern, "partitions": 2, "value": "v"}

    with pytest.raises(LandingError) as raised:
        land(warehouse, directory, topic="clicks", **mapping)
    report = land(warehouse, directory, topic="clicks", topic_column="topic", **mapping)
    again = land(warehouse, directory, topic="clicks", topic_column="topic", **mapping)

    assert str(raised.value) == (
        f"topic clicks, directory {directory}: expected paths of one topic, got clicks ({first}), views ({views}); "
        "name the one to land (--topic-column topic --source-topic clicks), or land the directory of one of them "
        "(--files)"
    )
    assert landed(warehouse, "clicks", *PLACE) == [(0, 0, b"a"), (0, 1, b"b"), (1, 4, b"c")]
    assert report.warnings == (f"clicks: 1 file is of another topic than clicks and left out ({views})",)
    assert again.warnings == ()


def test_a_path_of_another_topic_than_the_landed_ones_is_refused_later_too(warehouse, tmp_path):
    mapping = {"path_pattern": "confluent", "partitions": 2, "value": "v"}
    land(warehouse, write(tmp_path / "in", {"clicks+0+0.json": lines("a")}), **mapping)  # into topic t: one is enough
    other = write(tmp_path / "other", {"views+1+0.json": lines("b")})

    with pytest.raises(LandingError, match=r"got clicks \(clicks\+0\+0\.json\), views \(views\+1\+0\.json\); name"):
        land(warehouse, other, **mapping)

    column = {**mapping, "topic_column": "topic", "topic": "views"}
    assert land(warehouse, other, rules={"new_mapping": True}, **column).records == 1


def test_paths_of_other_topics_alone_are_refused_and_named(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"clicks+0+0.json": lines("a"), "views+0+0.json": lines("b")})
    mapping = {"path_pattern": "confluent", "topic_column": "topic"}

    with pytest.raises(LandingError) as raised:
        land(warehouse, directory, **mapping)

    assert str(raised.value) == (
        f"topic t, directory {directory}: expected files whose paths have the topic t, got none of 2 (clicks+0+0.json, "
        "views+0+0.json); name the topic as the paths do (--source-topic), or let it be none of the files "
        "(--allow-empty)"
    )
    assert land(warehouse, directory, rules={"allow_empty": True}, **mapping).records == 0


UNDER = {
    "confluent": ("topics/_s/partition=0/_s+0+{}.json", "topics/_s/partition=0/_s+0+{}.tmp/_s+0+{}.json"),
    "aiven": ("_s-0-{}.json", "_s-0-{}/_s-0-{}.json"),
    "lenses": ("_s/0/{}.json", "_s/0/_{}.json"),
}


@pytest.mark.parametrize("pattern", UNDER)
@pytest.mark.parametrize("by", ["topic", "source topic", "folder"])
def test_a_topic_that_begins_with_an_underscore_lands_where_it_is_named(warehouse, tmp_path, pattern, by):
    seen, hidden = UNDER[pattern]
    folder = tmp_path / ("_s" if by == "folder" else "in")
    write(folder, {seen.format(n, n): lines(f"v{n}") for n in (1, 2)})
    write(folder, {hidden.format(5, 5): lines("tmp"), seen.format(9, 9).replace("_s", "_other"): lines("other")})
    named = {"topic_column": "topic", "topic": "_s"} if by == "source topic" else {}
    source = FileSource(str(folder), timestamp="t", value="v", path_pattern=pattern, **named)
    topic = "_s" if by == "topic" else "t"

    report = land_files(None, warehouse, topic, source)

    assert landed(warehouse, topic, "offset", "value") == [(1, b"v1"), (2, b"v2")]
    assert any("2 files are left out, as names that begin with . or _ are" in said for said in report.warnings)


def test_the_topic_of_files_that_are_left_out_for_their_names_is_the_next_step(warehouse, tmp_path):
    write(tmp_path / "in", {f"_s+0+{n}.json": lines(f"v{n}") for n in (1, 2)})

    report = land(warehouse, tmp_path / "in", path_pattern="confluent")

    assert "to land topic _s, name it (--topic-column topic --source-topic _s)" in report.warnings[0]


def test_keys_beside_the_values_of_other_topics_are_not_read(warehouse, tmp_path):
    files = {
        "t+0+0.json": lines("a"), "t+0+0.keys.json": '"k"\n', "u+0+0.json": "no\n", "u+0+0.keys.json": "no\n",
        "v+0+0.json": lines("c"),
    }  # fmt: skip
    directory = write(tmp_path / "in", files)

    land(warehouse, directory, value="v", path_pattern="confluent", topic_column="topic", beside=("keys",))

    assert landed(warehouse, "t", "offset", "key", "value") == [(0, b"k", b"a")]


def test_a_folder_of_another_topic_leaves_no_hole_where_rows_count_offsets(warehouse, tmp_path):
    files = {"topic=t/0-5.json": lines("a", "b"), "topic=u/0-0.json": lines("c")}
    own_column = json.dumps({"t": T0, "topic": "u", "v": "x"}) + "\n" + json.dumps({"t": T0, "topic": "t", "v": "y"})
    mapping = {"path_pattern": r"(?P<partition>\d+)-(?P<offset>\d+)", "topic_column": "topic", "value": "v"}

    report = land(warehouse, write(tmp_path / "in", files), **mapping)

    assert landed(warehouse, "t", *PLACE) == [(0, 5, b"a"), (0, 6, b"b")]
    assert report.warnings == ("t: 1 of 3 rows are of other topics than t and left out",)
    with pytest.raises(LandingError, match="a record in each row, since rows count offsets, got 1 rows that are none"):
        land(warehouse, write(tmp_path / "mixed", {"0-9.json": own_column}), **mapping)


def test_a_last_offset_below_the_number_of_rows_is_refused(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"t/0/1.json": lines("a", "b", "c")})

    with pytest.raises(LandingError) as raised:
        land(warehouse, directory, path_pattern="lenses")

    assert str(raised.value) == (
        f"{directory}/t/0/1.json: expected a last offset of 2 or more, for 3 rows, got last_offset 1; correct the "
        "file's name, or the pattern (--path-pattern): a first offset is its group offset"
    )


def test_folders_as_in_hive_are_columns_that_the_rows_do_not_have(warehouse, tmp_path):
    files = {
        "dt=2026-01-02/partition=1/a.json": lines("c"),
        "dt=2026-01-01/partition=1/b.json": lines("b"),
        "dt=2026-01-01/partition=0/a.json": lines("a"),
        "dt=2026-01-01/partition=0/name=M%C3%BCnchen/a.csv.json": lines("d"),
    }
    directory = write(tmp_path / "in", files)

    land(
        warehouse, directory, timestamp="dt", timestamp_unit="iso", partition="partition", partitions=2, value="v"
    )  # fmt: skip

    day = 86_400_000
    midnight = 1_767_225_600_000  # 2026-01-01T00:00:00Z
    assert landed(warehouse, "t", "partition", "timestamp", "value") == [
        (0, midnight, b"a"), (0, midnight, b"d"), (1, midnight, b"b"), (1, midnight + day, b"c"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "column"), [("city", "city"), ("a%3Ab", "a:b"), ("a%3Db", "a=b"), ("100%", "100%"), ("x.%C3%BC", "x.ü")]
)
@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_folder_gives_a_key_with_its_letters(warehouse, tmp_path, folder, column, form):
    text = lines("a") if form == "json" else "t\n1\n"
    land(warehouse, write(tmp_path / "in", {f"{folder}=M%C3%BCnchen/a.{form}": text}), key=column)

    assert landed(warehouse, "t", "key") == [("München".encode(),)]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.json"])
def test_rows_have_their_own_column_where_a_folder_has_one_of_its_name(warehouse, tmp_path, name):
    directory = write(tmp_path / "in", {f"k=folder/{name}": "t,k\n1,row\n" if name == "a.csv" else '{"t":1,"k":"row"}'})
    if name == "a.parquet":
        pq.write_table(pa.table({"t": [1], "k": ["row"]}), directory / "k=folder/a.parquet")

    land(warehouse, directory, key="k")

    assert landed(warehouse, "t", "key") == [(b"row",)]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_columns_of_folders_are_no_part_of_a_value_of_all_columns(warehouse, tmp_path, name):
    directory = write(tmp_path / "in", {f"p=1/{name}": "t\n1\n"})
    if name == "a.parquet":
        pq.write_table(pa.table({"t": ["1"]}), directory / "p=1/a.parquet")

    land(warehouse, directory, partition="p", partitions=2)

    assert landed(warehouse, "t", "partition", "value") == [(1, b'{"t":"1"}')]


def test_a_pattern_of_ones_own_names_partition_offset_and_time(warehouse, tmp_path):
    pattern = r"p(?P<partition>\d+)-(?P<timestamp>\d+)-from(?P<offset>\d+)"
    files = {"p1-1767258000001-from7.json": lines("b"), "p1-1767258000000-from5.json": lines("a", "a2")}
    directory = write(tmp_path / "in", files)

    land(warehouse, directory, timestamp="", value="v", path_pattern=pattern, partitions=2)

    assert landed(warehouse, "t", "partition", "offset", "timestamp", "value") == [
        (1, 5, T0, b"a"), (1, 6, T0, b"a2"), (1, 7, T0 + 1, b"b"),
    ]  # fmt: skip


def test_a_path_that_the_pattern_does_not_match_is_named(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"t+0+0.json": lines("a"), "readme.json": lines("b")})

    with pytest.raises(LandingError, match=r"readme\.json: expected a path that matches 'confluent'"):
        land(warehouse, directory, path_pattern="confluent")


@pytest.mark.parametrize("first", [2**63 - 1, 10**20])
def test_an_offset_in_a_path_that_no_log_has_is_refused(warehouse, tmp_path, first):
    directory = write(tmp_path / "in", {f"t+0+{first}.json": lines("a")})

    with pytest.raises(LandingError, match=rf"t\+0\+{first}\.json: expected an offset up to {2**63 - 2} in its path"):
        land(warehouse, directory, path_pattern="confluent")


def test_rows_that_count_offsets_beyond_the_last_are_refused(warehouse, tmp_path):
    last = 2**63 - 2
    for folder, first in (("in", last - 1), ("beyond", last)):
        write(tmp_path / folder, {f"t+0+{first}.json": lines("a", "b")})

    land(warehouse, tmp_path / "in", path_pattern="confluent", value="v")
    with pytest.raises(LandingError, match=f"expected offsets up to {last}, got offset {last} and 2 rows"):
        land(warehouse, tmp_path / "beyond", topic="u", path_pattern="confluent", value="v")

    assert landed(warehouse, "t", *PLACE) == [(0, last - 1, b"a"), (0, last, b"b")]


@pytest.mark.parametrize("pattern", ["(", "confluence"])
def test_a_pattern_that_says_nothing_is_refused(pattern):
    with pytest.raises(ConfigError, match="path_pattern"):
        FileSource("in", timestamp="t", path_pattern=pattern)


def test_a_bad_row_where_rows_count_offsets_is_refused(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"t+0+0.json": lines("a") + "no\n" + lines("b")})

    with pytest.raises(LandingError, match="expected a record in each row, since rows count offsets"):
        land(warehouse, directory, path_pattern="confluent", rules={"max_bad_share": 1})


def test_a_column_of_offsets_wins_over_the_path(warehouse, tmp_path):
    text = json.dumps({"t": 1, "o": 8, "v": "b"}) + "\n" + json.dumps({"t": 1, "o": 5, "v": "a"}) + "\n"
    directory = write(tmp_path / "in", {"t+0+5.json": text})

    land(warehouse, directory, path_pattern="confluent", offset="o", value="v")

    assert landed(warehouse, "t", *PLACE) == [(0, 5, b"a"), (0, 8, b"b")]


def test_lines_with_separators_take_partition_and_time_from_the_path(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"p=1/dt=2026-01-01/a.txt": "k\tCreateTime:1\n"})

    land(
        warehouse, directory, timestamp="dt", timestamp_unit="iso", partition="p", partitions=2,
        format="lines", columns=("k", "v"), key="k", value="v",
    )  # fmt: skip

    assert landed(warehouse, "t", "partition", "key", "value") == [(1, b"k", b"CreateTime:1")]


def test_decimals_within_an_object_have_no_exponent(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    money = pa.array(["0", "0.000000000000001164"]).cast(pa.decimal128(38, 18))
    pq.write_table(pa.table({"t": [1, 2], "m": money}), tmp_path / "in/a.parquet")

    land(warehouse, tmp_path / "in", value=["m"])

    assert landed(warehouse, "t", "value") == [
        (b'{"m":"0.000000000000000000"}',), (b'{"m":"0.000000000000001164"}',),
    ]  # fmt: skip


NULLS = {
    "json": (f'{{"t": {T0}, "k": null, "v": "a"}}\n{{"t": {T0}, "v": "b"}}\n', [None, b"path"]),
    "csv": (f"t,k,v\n{T0},,a\n{T0},,b\n", [None, None]),
    "tsv": (f"{T0}\t\\N\ta\n{T0}\t\\N\tb\n", [None, None]),
    "parquet": (pa.table({"t": [T0, T0], "k": pa.nulls(2, pa.string()), "v": ["a", "b"]}), [None, None]),
}


@pytest.mark.parametrize("form", NULLS)
def test_a_null_of_the_rows_is_their_own_value_though_a_folder_has_the_name(warehouse, tmp_path, form):
    """Whatever other rows of its block have: the row of JSON that lacks the name alone takes it from the folder."""
    content, want = NULLS[form]
    (tmp_path / "in" / "k=path").mkdir(parents=True)
    if isinstance(content, str):
        (tmp_path / "in" / "k=path" / f"a.{form}").write_text(content)
    else:
        pq.write_table(content, tmp_path / "in" / "k=path" / "a.parquet")
    given = {"tsv": {"format": "lines", "columns": ["t", "k", "v"], "nulls": ("\\N",)}, "csv": {"nulls": ("",)}}

    land(warehouse, tmp_path / "in", key="k", value="v", **given.get(form, {}))

    assert landed(warehouse, "t", "key", "value") == list(zip(want, [b"a", b"b"], strict=True))
