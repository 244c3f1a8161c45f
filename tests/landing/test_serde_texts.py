"""A column of Parquet is written as the serde of the topology reads it, or not at all: no value becomes another."""

from datetime import date, time
from decimal import Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files.known_files import find_files
from kstreams_replay.jobs.landing.first_record import first_record
from kstreams_replay.jobs.landing.landing import FileSource, LandingRules, land_files
from kstreams_replay.jobs.landing.serde_mapping import Serdes, refuse_undecodable, with_serdes
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.serdes import Serde
from tests.landing.landed_rows import landed, values

AT = 1_767_268_800_123_456
"""2026-01-01 12:00:00.123456."""


def parquet(tmp_path, **columns):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")
    return tmp_path / "in"


def land_for(warehouse, directory, value_serde, key_serde=None, topic="t", **mapping):
    serdes = Serdes(key_serde or Serde.string(), value_serde)
    source = with_serdes(FileSource(directory, "parquet", timestamp="t", **mapping), topic, serdes)
    first = first_record(source, find_files(source, topic).files)
    if first is not None:
        refuse_undecodable(topic, source, first, serdes, most=0.01)
    land_files(None, warehouse, topic, source, rules=LandingRules(max_bad_share=1.0))


def reasons(warehouse, topic="t"):
    return [letter["reason"] for letter in landed_dead_letters(warehouse, topic).to_pylist()]


FORMS = {
    "{}": lambda column: column,
    "{} ": lambda column: pa.nulls(1, column.type),
    "array<{}>": lambda column: pa.ListArray.from_arrays([0, 1], column),
    "map<string, {}>": lambda column: pa.MapArray.from_arrays([0, 1], pa.array(["k"]), column),
    "struct<v: {}>": lambda column: pa.StructArray.from_arrays([column], ["v"]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([1_700_000_000_000]), "timestamp"),
        (pa.array([1_700_000_000_000]), "timestamp_ntz"),
        (pa.array([3_600_000]), "time"),
        (pa.array([20_454], pa.int32()), "date"),
        (pa.array([True]), "double"),
        (pa.array([AT], pa.timestamp("us", "UTC")), "date"),
        (pa.array([AT], pa.timestamp("us", "UTC")), "time"),
        (pa.array([date(2026, 1, 1)]), "timestamp"),
        (pa.array([AT], pa.timestamp("us", "UTC")), "string"),
    ],
)
def test_a_type_that_the_serde_does_not_read_is_refused_whatever_arrow_makes_of_it(
    warehouse, tmp_path, column, words, form
):
    directory = parquet(tmp_path, t=[1], v=FORMS[form](column))

    with pytest.raises(LandingError, match=r"got .*expected a"):
        land_for(warehouse, directory, Serde.json(f"t long, v {form.format(words)}"))

    assert warehouse.topics() == []


def test_text_is_no_number_as_to_the_serde(warehouse, tmp_path):
    with pytest.raises(LandingError, match="field v: expected a double, got a string"):
        land_for(warehouse, parquet(tmp_path, t=[1], v=["1.5"]), Serde.json("v double"))


@pytest.mark.parametrize(
    ("cells", "words", "want"),
    [
        (pa.array([2**53 + 1, -(2**62), 7]), "double", [2.0**53, -(2.0**62), 7.0]),
        (pa.array([2**64 - 1], pa.uint64()), "double", [2.0**64]),
        (pa.array([Decimal("1.10")]), "double", [1.1]),
        (pa.array([0.1, 1e300]), "float", [0.10000000149011612]),
        (pa.array([42.0, 1e10, 1e11, 2.0**62], pa.float32()), "long", [42, 10**10, 10**11, 4_611_686_000_000_000_000]),
        (pa.array([np.float16(42)], pa.float16()), "int", [42]),
        (pa.array([42.0, 42.5]), "int", [42]),
        (pa.array([date(2026, 1, 2)], pa.date64()), "date", [date(2026, 1, 2)]),
        (pa.array([3_600], pa.time32("s")), "time", [time(1)]),
        (pa.array(["2026-01-02"]).dictionary_encode(), "date", [date(2026, 1, 2)]),
    ],
)
def test_a_number_is_the_one_that_the_serde_reads_from_its_digits(warehouse, tmp_path, cells, words, want):
    serde = Serde.json(f"v {words}")

    land_for(warehouse, parquet(tmp_path, t=range(len(cells)), v=cells), serde, value=["v"])

    decoded = serde.decode(pa.array(values(warehouse), pa.binary()))
    assert decoded.reasons == {}
    assert [row["v"] for row in decoded.values.to_pylist()] == want
    assert len(reasons(warehouse)) == len(cells) - len(want)


@pytest.mark.parametrize("cells", [pa.array([7.25, 0.125, None]), pa.array([Decimal("7.250"), Decimal("0.125"), None])])
def test_a_decimal_beside_a_double_loses_no_digit(warehouse, tmp_path, cells):
    column = pa.StructArray.from_arrays([cells, pa.array([1.5, 1.5, 1.5])], ["d", "x"])

    land_for(warehouse, parquet(tmp_path, t=[1, 2, 3], v=column), Serde.json("v struct<d decimal(9,2), x double>"))

    assert values(warehouse) == [b'{"t":1,"v":{"d":7.25,"x":1.5}}', b'{"t":3,"v":{"d":null,"x":1.5}}']
    assert len(reasons(warehouse)) == 1


def nested(cells):
    """Three rows of each kind: one with the cell, one whose cell is null, and null."""
    return {
        "s": pa.StructArray.from_arrays([cells], ["at"], mask=pa.array([False, False, True])),
        "l": pa.ListArray.from_arrays([0, 1, 2, 3], cells, mask=pa.array([False, False, True])),
        "m": pa.MapArray.from_arrays([0, 1, 2, 2], pa.array(["k", "k"]), cells[:2]),
    }


NESTED = Serde.json("s struct<at: timestamp>, l array<timestamp>, m map<string, timestamp>")


def test_a_naive_time_within_a_map_a_list_or_a_struct_is_one_of_the_zone(warehouse, tmp_path):
    columns = nested(pa.array([AT, None, AT], pa.timestamp("us")))

    land_for(warehouse, parquet(tmp_path, t=[1, 2, 3], **columns), NESTED, value=["s", "l", "m"], zone="Europe/Berlin")

    at = '"2026-01-01T11:00:00.123456Z"'
    assert [value.decode() for value in values(warehouse)] == [
        f'{{"s":{{"at":{at}}},"l":[{at}],"m":{{"k":{at}}}}}',
        '{"s":{"at":null},"l":[null],"m":{"k":null}}',
        '{"s":null,"l":null,"m":{}}',
    ]


@pytest.mark.parametrize("column", ["s", "l", "m"])
def test_a_naive_time_within_another_is_a_bad_row_without_a_zone(warehouse, tmp_path, column):
    columns = nested(pa.array([AT, None, None], pa.timestamp("us")))

    land_for(warehouse, parquet(tmp_path, t=[1, 2, 3], **columns), NESTED, value=[column])

    assert len(values(warehouse)) == 2
    assert [reason.partition("got ")[2] for reason in reasons(warehouse)] == [
        f"a time without a zone (--zone) in column {column}"
    ]


def test_a_struct_has_the_fields_of_the_serde_in_its_order_and_a_uuid_is_its_text(warehouse, tmp_path):
    text = "12345678-1234-5678-1234-567812345678"
    fields = {
        "x": pa.array([0.5]), "id": pa.array([UUID(text).bytes], pa.uuid()), "d": pa.array([Decimal("1.50")]),
        "on": pa.array([date(2026, 1, 2)]),
    }  # fmt: skip
    column = pa.StructArray.from_arrays(list(fields.values()), list(fields))

    land_for(
        warehouse,
        parquet(tmp_path, t=[1], v=column),
        Serde.json("v struct<on date, d string, id string, n long, x double>"),
        value=["v"],
    )

    assert values(warehouse) == [f'{{"v":{{"on":"2026-01-02","d":"1.50","id":"{text}","n":null,"x":0.5}}}}'.encode()]


@pytest.mark.parametrize(
    ("key", "words", "key_serde", "want"),
    [
        ("v", "v double", Serde.string(), b"42"),
        ("v", "v double", Serde.json("long"), b"42"),
        ("v", "v long", Serde.json("double"), b"42.0"),
        (["v"], "v double", Serde.json("v long"), b'{"v":42}'),
        ("at", "at timestamp", Serde.string(), b"1767268800123"),
        ("at", "at timestamp", Serde.json("timestamp"), b'"2026-01-01T12:00:00.123456Z"'),
        ("on", "on date", Serde.string(), b"20454"),
    ],
)
def test_the_types_of_a_value_are_not_those_of_the_key(warehouse, tmp_path, key, words, key_serde, want):
    columns = {"v": [42], "at": pa.array([AT], pa.timestamp("us", "UTC")), "on": [date(2026, 1, 1)]}
    directory = parquet(tmp_path, t=[1], **columns)

    land_for(warehouse, directory, Serde.json(words), key_serde, key=key)

    assert landed(warehouse, "t", "key") == [(want,)]


@pytest.mark.parametrize(("key_serde", "want"), [(Serde.json("double"), b"42"), (Serde.json("date"), b"42")])
def test_the_type_of_a_key_is_not_that_of_the_value(warehouse, tmp_path, key_serde, want):
    cells = pa.array([42]) if key_serde == Serde.json("double") else pa.array([42], pa.int32()).cast(pa.date32())

    land_for(warehouse, parquet(tmp_path, t=[1], v=cells), Serde.json("v long"), key_serde, key="v")

    assert values(warehouse) == [b'{"t":1,"v":%s}' % want]


@pytest.mark.parametrize("cells", [pa.array([42]), pa.array([42.0, None])])
def test_a_key_is_the_whole_number_that_the_serde_of_the_value_reads(warehouse, tmp_path, cells):
    directory = parquet(tmp_path, t=range(len(cells)), v=cells)

    land_for(warehouse, directory, Serde.json("v long"), key="v")

    assert landed(warehouse, "t", "key")[0] == (b"42",)


def test_a_mapping_of_one_type_for_each_column_is_what_it_was_in_older_ledgers():
    source = FileSource("in", "parquet", timestamp="t", key="k", value=["t", "v"])
    serdes = Serdes(Serde.json("double"), Serde.json("t long, v double"))

    mapping = with_serdes(source, "t", serdes).to_dict()

    assert mapping["json_types"] == {"t": "long", "v": "double", "k": "double"}
    assert mapping["key_json_types"] is None


def test_a_struct_that_is_the_value_has_its_fields_as_columns_have_them(warehouse, tmp_path):
    fields = {
        "at": pa.array([AT, None, AT], pa.timestamp("us", "UTC")), "n": pa.array([42.0, None, 1]),
        "more": pa.array([AT, None, AT], pa.timestamp("us", "UTC")),
    }  # fmt: skip
    column = pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=pa.array([False, False, True]))
    serde = Serde.json("at timestamp, n long")

    land_for(warehouse, parquet(tmp_path, t=[1, 2, 3], p=column, k=column), serde, serde, value="p", key="k")

    text = b'{"at":"2026-01-01T12:00:00.123456Z","n":42,"more":1767268800123}'
    rows = [text, b'{"at":null,"n":null,"more":null}', None]
    assert landed(warehouse, "t", "key", "value") == [(row, row) for row in rows]


def test_a_number_in_a_struct_that_is_the_value_is_whole_in_every_file(warehouse, tmp_path):
    directory = parquet(tmp_path, t=[1], p=[{"n": 42}])
    pq.write_table(pa.table({"t": [2], "p": [{"n": 42.0}]}), directory / "b.parquet")
    source = FileSource(directory, "parquet", timestamp="t", value="p")

    report = land_files(None, warehouse, "t", with_serdes(source, "t", Serdes(Serde.string(), Serde.json("n long"))))

    assert values(warehouse) == [b'{"n":42}'] * 2
    assert not any("column p" in warning for warning in report.warnings)


def test_a_field_of_a_struct_that_is_the_value_is_named_where_it_is_bad(warehouse, tmp_path):
    column = pa.StructArray.from_arrays([pa.array([AT, None], pa.timestamp("us"))], ["at"])

    land_for(warehouse, parquet(tmp_path, t=[1, 2], p=column), Serde.json("at timestamp"), value="p")

    assert reasons(warehouse) == [
        "expected a value that is a timestamp, got a time without a zone (--zone) in column p.at"
    ]


def test_a_column_of_json_text_that_is_the_value_stays_as_it_is(warehouse, tmp_path):
    text = '{"at":"2026-01-01T12:00:00Z", "n":42}'

    land_for(warehouse, parquet(tmp_path, t=[1], p=[text]), Serde.json("at timestamp, n long"), value="p")

    assert values(warehouse) == [text.encode()]


def test_a_struct_that_is_the_value_is_refused_where_the_serde_does_not_read_a_field(warehouse, tmp_path):
    column = pa.StructArray.from_arrays([pa.array([AT])], ["at"])

    with pytest.raises(LandingError, match="field at: expected a timestamp, got a number"):
        land_for(warehouse, parquet(tmp_path, t=[1], p=column), Serde.json("at timestamp"), value="p")
