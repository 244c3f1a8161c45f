"""What a row means is declared once: absent columns and changed mappings are refused, types are those of the serde."""

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed

# Columns that are not there


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [("a.jsonl", '{"t":1,"user":"ann"}\n', "t, user"), ("a.csv", "t,user\n1,ann\n", "t, user")],
)
@pytest.mark.parametrize("mapping", [{"key": "nope"}, {"value": ["user", "nope"]}, {"partition": "nope"}])
def test_a_column_that_no_row_has_is_refused_and_nothing_lands(warehouse, tmp_path, name, content, columns, mapping):
    directory = write(tmp_path / "in", {name: content})

    with pytest.raises(LandingError) as raised:
        land(warehouse, directory, **mapping)

    assert f"a.{name[2:]}" in raised.value.place
    if "partition" not in mapping or name == "a.csv":
        assert (raised.value.expected, raised.value.got) == ("a column nope", f"columns {columns}")
    assert warehouse.topics() == []


def test_a_column_that_some_row_has_may_be_missing_in_others(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": '{"t":1}\n', "b.jsonl": '{"t":2,"k":"x"}\n'})

    land(warehouse, directory, key="k")
    write(directory, {"c.jsonl": '{"t":3}\n'})  # it had it once
    land(warehouse, directory, key="k")

    assert landed(warehouse, "t", "timestamp", "key") == [(1, None), (2, b"x"), (3, None)]


@pytest.mark.parametrize(
    ("mapping", "null"),
    [
        ({"key": "k"}, "keys"),
        ({"value": "k"}, "values (tombstones)"),
        ({"key": "k", "value": "k"}, "keys and values (tombstones)"),
        ({"key": ["k", "t"]}, "cells"),
        ({"key": "k.id"}, "keys"),
    ],
)
def test_a_file_of_which_no_row_has_a_column_that_others_have_is_named(warehouse, tmp_path, mapping, null):
    lines = {"a.jsonl": '{"t":1,"k":{"id":1}}\n{"t":2}\n', "b.jsonl": '{"t":3,"user":5}\n', "c.jsonl": "\n"}
    directory = write(tmp_path / "in", lines)
    column = "k.id" if mapping == {"key": "k.id"} else "k"

    first = land(warehouse, directory, **mapping).warnings
    write(directory, {f"{name}.jsonl": f'{{"t":{n}}}\n' for n, name in enumerate("def", 4)})
    later = land(warehouse, directory, **mapping).warnings

    why = f"has column {column}, which rows of other files have, so its {null} are null there"
    assert [first[0], later[0]] == [f"t: no row of b.jsonl {why}", f"t: no row of d.jsonl and 2 other files {why}"]


@pytest.mark.parametrize(("column", "near"), [("user", "User"), ("user_id", "userId"), ("user_id", "USER-ID")])
@pytest.mark.parametrize("part", ["key", "value", "headers"])
def test_a_column_that_another_file_spells_otherwise_is_refused(warehouse, tmp_path, column, near, part):
    known = f'{{"t":1,"{column}":{{}}}}\n'
    many = ",".join(f'"x{n}":1' for n in range(40))
    other = f'{{"t":3,{many},"{near}":{{}}}}\n{{"t":4,"{near}":{{}}}}\n'
    together = write(tmp_path / "in", {"a.jsonl": other, "b.jsonl": known})
    later = write(tmp_path / "later", {"b.jsonl": known})

    with pytest.raises(LandingError) as raised:
        land(warehouse, together, topic="together", **{part: column})
    land(warehouse, later, topic="later", **{part: column})
    write(later, {"c.jsonl": other})
    with pytest.raises(LandingError) as raised_later:
        land(warehouse, later, topic="later", **{part: column})

    for error, name in ((raised.value, "in/a.jsonl"), (raised_later.value, "later/c.jsonl")):
        assert error.place == str(tmp_path / name)
        assert error.expected == f"a column {column}, as in other files"
        assert error.got.startswith(f"{near} (columns t, x0, x1")
    assert "together" not in warehouse.topics()
    report = land(warehouse, later, topic="later", **{part: near}, rules={"new_mapping": True})
    assert report.records == 2


def test_columns_that_differ_by_case_and_are_both_there_are_two_columns(warehouse, tmp_path):
    lines = {"a.jsonl": '{"t":1,"k":"x","K":"y"}\n', "b.jsonl": '{"t":2,"K":"z"}\n'}

    land(warehouse, write(tmp_path / "in", lines), key="k")

    assert landed(warehouse, "t", "key") == [(b"x",), (None,)]


def test_files_without_records_need_no_columns(warehouse, tmp_path):
    assert land(warehouse, write(tmp_path / "in", {"a.jsonl": "\n"}), key="nope").records == 0


# Mappings that change


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"key": "user"}, {"key": "page"}, ("key 'user'", "key 'page'")),
        ({}, {"timestamp_unit": "s"}, ("timestamp_unit 'ms'", "timestamp_unit 's'")),
        ({"value": "user"}, {"value": ["user", "page"]}, ("value 'user'", r"value \['user', 'page'\]")),
    ],
)
def test_another_mapping_is_refused_and_a_new_one_is_noted_in_the_ledger(warehouse, tmp_path, before, after, told):
    row = '{{"t":{},"user":"ann","page":"home"}}\n'
    directory = write(tmp_path / "in", {"a.jsonl": row.format(1)})
    land(warehouse, directory, **before)
    write(directory, {"b.jsonl": row.format(2)})

    with pytest.raises(
        LandingError, match=f"expected the mapping of its last landing, {told[0]}, got {told[1]}; .*--new-"
    ):
        land(warehouse, directory, **after)
    assert land(warehouse, directory, **before, pattern="a*").increments == ()
    land(warehouse, directory, **after, rules={"new_mapping": True})
    write(directory, {"c.jsonl": row.format(3)})
    land(warehouse, directory, **after)  # that is the mapping now

    plans = [row for row in LandingLedger(warehouse.landing_ledger("t")).rows() if row.phase == "planned"]
    [name] = after
    noted = [plan.content.mapping_changes for plan in plans]
    assert [change and list(change) for change in noted] == [None, [name], None]
    assert len(landed(warehouse, "t", "offset")) == 3


# Types


@pytest.mark.parametrize(
    ("kind", "text", "want"),
    [
        ("long", "-2", (-2).to_bytes(8, "big", signed=True)),
        ("int", "7", (7).to_bytes(4, "big")),
        ("double", "2.5", struct.pack(">d", 2.5)),
        ("boolean", "true", b"\x01"),
        ("string", "2.5", b"2.5"),
    ],
)
def test_a_column_lands_as_kafkas_serializer_writes_it(warehouse, tmp_path, kind, text, want):
    """
    LongSerializer, IntegerSerializer, DoubleSerializer: big-endian; BooleanSerializer: one byte.
    """
    quoted = f'"{text}"' if kind == "string" else text
    csv = write(tmp_path / "csv", {"a.csv": f"t,v\n1,{text}\n2,\n"})
    json = write(tmp_path / "json", {"a.jsonl": f'{{"t":1,"v":{quoted}}}\n{{"t":2,"v":null}}\n'})

    for topic, directory in (("csv", csv), ("json", json)):
        land(warehouse, directory, topic=topic, value="v", value_type=kind, key="v", key_type=kind)
        assert landed(warehouse, topic, "key", "value") == [(want, want), (None, None)]


def test_parquet_numbers_land_as_kafkas_serializers_write_them(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": [1, 2], "k": [5, None], "v": [1, 2.5]}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", key="k", key_type="long", value="v", value_type="double")

    want = [((5).to_bytes(8, "big"), struct.pack(">d", 1.0)), (None, struct.pack(">d", 2.5))]
    assert landed(warehouse, "t", "key", "value") == want


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("long", '"2.5"', "a long"),
        ("long", "2.25", "a long"),
        ("long", "9223372036854775808", "a long"),
        ("int", "2147483648", "an int"),
        ("double", "true", "a double"),
        ("boolean", "1", "a boolean"),
    ],
)
def test_a_value_that_is_not_of_the_type_is_a_bad_row(warehouse, tmp_path, kind, value, expected):
    directory = write(tmp_path / "in", {"a.jsonl": f'{{"t":1,"v":{value}}}\n'})

    with pytest.raises(LandingError, match=f"line 1: expected {expected}, got"):
        land(warehouse, directory, value="v", value_type=kind)


def test_csv_columns_have_the_types_that_are_declared_in_the_words_of_a_serde(warehouse, tmp_path):
    content = 't,ms,price,ok,tags,note\n1,5,2.5,true,"[""a""]",5\n'

    land(
        warehouse,
        write(tmp_path / "in", {"a.csv": content}),
        types="ms long, price double, ok boolean, tags array<string>",
        value=["ms", "price", "ok", "tags", "note"],
    )

    assert landed(warehouse, "t", "value") == [(b'{"ms":5,"price":2.5,"ok":true,"tags":["a"],"note":"5"}',)]


@pytest.mark.parametrize(
    ("text", "got"), [("double", "the end"), ("price=double", "'=double'"), ("price doubl", "'doubl'")]
)
def test_types_without_columns_and_those_that_nobody_knows_are_refused(text, got):
    with pytest.raises(ConfigError) as raised:
        FileSource("in", timestamp="t", format="csv", types=text)

    assert raised.value.place == "FileSource types"
    assert raised.value.got == got
    assert "write it like" in raised.value.next_step


def test_a_whole_number_beyond_64_bits_is_no_long(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": "t,n\n1,9223372036854775808\n"})

    with pytest.raises(LandingError, match="line 2: expected a long, got '9223372036854775808'"):
        land(warehouse, directory, types="n long")
