"""Whole columns of Avro: bad rows beside good ones, slices, arrays that grow, and what is refused."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstreams_replay import Consumed, StreamsBuilder, TopologyTestDriver
from kstreams_replay.state.compilation.kernel_compilation import interpreted
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.serdes.handed_over import HandOver

LISTS = Serde.avro({"type": "array", "items": {"type": "array", "items": "int"}})
TEXT = Serde.avro("string")


def record(**fields: Any) -> Serde:
    return Serde.avro(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    )


def test_a_bad_row_is_null_and_harms_no_other():
    decoded = TEXT.decode(pa.array([b"\x02a", b"\x06ab", None, b"\x02b\x00", b"\x04\xff\xfe", b"\x00"], pa.binary()))

    assert decoded.values.to_pylist() == ["a", None, None, None, None, ""]
    assert decoded.reasons == {
        1: "expected more bytes, got the end",
        3: "expected the end of the value, got more bytes",
        4: "expected UTF-8, got other bytes",
    }


@pytest.mark.parametrize("text", ["\x00", "é", "ࠀ", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"])
def test_text_beside_text_that_is_none_is_looked_at_character_by_character(text):
    written = TEXT.encode(pa.array([text]))[0].as_py()

    decoded = TEXT.decode(
        pa.array([written, b"\x06\xed\xa0\x80", b"\x04\xc0\x80", b"\x08\xf4\x90\x80\x80"], pa.binary())
    )

    assert decoded.values.to_pylist() == [text, None, None, None]


def test_arrays_of_any_length_find_room_and_a_bad_one_leaves_none_of_its_items():
    rows = [[[1] * 50] * 3, [], None, [[], [-1, 2]] * 20]
    written = LISTS.encode(pa.array(rows, LISTS.arrow_type)).to_pylist()
    cut = written[3][:-1]

    decoded = LISTS.decode(pa.array([written[0], cut, *written[1:]], pa.binary()))

    assert decoded.values.to_pylist() == [rows[0], None, *rows[1:]]
    assert LISTS.encode(decoded.values.slice(2)).to_pylist() == written[1:]


def test_any_slice_is_decoded_and_encoded():
    serde = record(a=["null", "string"], m={"type": "map", "values": "long"}, d={"type": "int", "logicalType": "date"})
    day = datetime.date(2026, 11, 24)
    rows = [{"a": "x" * at if at % 2 else None, "m": {f"k{at}": at}, "d": day} for at in range(6)]
    column = serde.from_python([*rows[:3], None, *rows[3:]])

    written = serde.encode(column.slice(2, 4))
    decoded = serde.decode(pa.concat_arrays([pa.array([b"?"], pa.binary()), written]).slice(1))

    assert serde.to_python(decoded.values) == [rows[2], None, rows[3], rows[4]]


@pytest.mark.nightly
def test_compiled_and_interpreted_kernels_give_the_same():
    serde = record(l={"type": "array", "items": ["null", "string", "double"]}, n="int", f="float", b="boolean")
    rows = [{"l": [None, "é", 0.5][: at % 4], "n": -at, "f": 0.5, "b": at % 2 == 0} for at in range(50)]
    column = serde.from_python(rows)

    with interpreted():
        interpreted_bytes = serde.encode(column)
        read = serde.decode(interpreted_bytes)
    with interpreted(is_on=False):
        assert serde.encode(column).equals(interpreted_bytes)
        assert serde.decode(interpreted_bytes).values.equals(read.values)


def fixed(logical, size=16, **more):
    return {"type": "fixed", "name": "F", "size": size, "logicalType": logical, **more}


@pytest.mark.parametrize(
    ("kind", "default", "want"),
    [
        (fixed("uuid"), bytes(range(16)).decode("latin-1"), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (["null", fixed("uuid")], "\0" * 15 + "\xff", "00000000-0000-0000-0000-0000000000ff"),
        (fixed("duration", 12), "\1\0\0\0\2\0\0\0\xff\0\0\0", {"months": 1, "days": 2, "millis": 255}),
        (fixed("decimal", 2, precision=4, scale=2), "\xff\x9c", Decimal("-1.00")),
        (["int", "string"], "x", {"int": None, "string": "x"}),
        (["int", "string"], 5, {"int": 5, "string": None}),
        (["null", "int", "string"], "x", {"int": None, "string": "x"}),
        (["null", "int"], 5, 5),
        ({"type": "map", "values": ["int", fixed("uuid")]}, {"a": "\0" * 16}, {
            "a": {"int": None, "F": "00000000-0000-0000-0000-000000000000"},
        }),
    ],
)  # fmt: skip
def test_a_field_that_is_left_out_is_its_default_as_readers_give_it(kind, default, want):
    serde = Serde.avro({"type": "record", "name": "R", "fields": [{"name": "v", "type": kind, "default": default}]})
    older = Serde.avro(
        {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind, "default": default}]},
        writer={"type": "record", "name": "R", "fields": []},
    )

    assert serde.to_python(serde.from_python([{}])) == [{"v": want}]
    assert older.to_python(older.decode(pa.array([b""], pa.binary())).values) == [{"v": want}]


AT = datetime.datetime(1969, 12, 31, 23, 59, 59, 123456)
UPPER = "2C1E2D0E00004000800000000000000A"


@pytest.mark.parametrize(
    ("kind", "value", "want"),
    [
        ("timestamp-millis", AT.replace(tzinfo=datetime.UTC), AT.replace(tzinfo=datetime.UTC, microsecond=123000)),
        ("timestamp-micros", AT.replace(tzinfo=datetime.UTC), AT.replace(tzinfo=datetime.UTC)),
        ("local-timestamp-millis", AT, AT.replace(microsecond=123000)),
        ("local-timestamp-micros", AT, AT),
        ("time-millis", AT.time(), AT.time().replace(microsecond=123000)),
        ("time-micros", AT.time(), AT.time()),
        (fixed("uuid"), UPPER, "2c1e2d0e-0000-4000-8000-00000000000a"),
        ({"type": "string", "logicalType": "uuid"}, UPPER, UPPER),
    ],
)
def test_a_value_is_taken_as_reading_gives_it_after_it_was_written(kind, value, want):
    plain = {"type": "int" if kind == "time-millis" else "long", "logicalType": kind}
    serde = record(v=plain if isinstance(kind, str) else kind)

    read = serde.to_python(serde.decode(serde.encode(serde.from_python([{"v": value}]))).values)

    assert read == [{"v": want}]
    assert serde.to_python(serde.from_python([{"v": value}])) == read
    assert HandOver(serde.codec).take({"v": value}) == read[0]
    assert serde.codec.value_writer()({"v": value}) == serde.encode(serde.from_python([{"v": value}]))[0].as_py()


def test_an_aggregator_sees_what_the_bytes_of_its_aggregate_hold():
    texts, aggregates = Serde.string(), record(t={"type": "long", "logicalType": "timestamp-millis"}, before="string")
    made = {"t": AT.replace(tzinfo=datetime.UTC), "before": ""}
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(texts, texts)).group_by_key()
    seen = grouped.aggregate(
        lambda: made, lambda key, value, aggregate: made | {"before": aggregate["t"].isoformat()}, returns=aggregates
    )
    seen.to_stream().to("out")

    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "a")
    driver.pipe_input("in", "k", "b")

    assert driver.read_outputs("out")[1].value["before"] == "1969-12-31T23:59:59.123000+00:00"


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a null": ("int", {"v": None}, "row 0, field v: expected an int, got None"),
    "a number of another type": ("int", {"v": 1.0}, "row 0, field v: expected an int, got 1.0"),
    "a symbol": ({"type": "enum", "name": "E", "symbols": ["A"]}, {"v": "B"}, "field v: expected one of A, got 'B'"),
    "a digit too many": (
        {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
        {"v": Decimal("1.25")},
        "expected a Decimal of at most 3 digits, 1 of them behind the point",
    ),
    "a decimal far too small": (
        {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
        {"v": Decimal("1e-99999999")},
        "expected a Decimal of at most 3 digits, 1 of them behind the point",
    ),
    "a decimal far too large": (
        {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
        {"v": Decimal("1e99999999")},
        "expected a Decimal of at most 3 digits, 1 of them behind the point",
    ),
    "a time without a zone": (
        {"type": "long", "logicalType": "timestamp-millis"},
        {"v": datetime.datetime(2026, 1, 1)},
        "expected a datetime with a zone",
    ),
    "a field of another name": ("int", {"w": 1}, "expected only the fields v, got the field 'w'"),
    "no field": ("int", {}, "field v: expected a value, since it has no default, got None"),
    "half a surrogate pair": ("string", {"v": "\ud800"}, "field v: expected a str that UTF-8 can write"),
    "half a surrogate pair as a key": (
        {"type": "map", "values": "int"},
        {"v": {"\ud800": 1}},
        "field v: expected a str that UTF-8 can write",
    ),
    "half a surrogate pair as a uuid": (
        {"type": "string", "logicalType": "uuid"},
        {"v": "\ud800"},
        "field v: expected a str that UTF-8 can write",
    ),
    "no uuid": (fixed("uuid"), {"v": "x"}, "field v: expected a str of a UUID, got 'x'"),
    "more than a float has": ("float", {"v": 1e300}, "row 0, field v: expected a float, got 1e+300"),
    "what a float rounds to infinity": (
        "float",
        {"v": -(2.0**128 - 2.0**103)},
        "field v: expected a float, got -3.4028",
    ),
    "a float in a list": ({"type": "array", "items": "float"}, {"v": [1.0, 1e39]}, "field v[1]: expected a float"),
    "no branch": (["string", "long"], {"v": 0.5}, "field v: expected one of string, long, got 0.5"),
}


def test_a_decimal_of_zero_has_any_exponent_and_one_of_38_digits_is_written():
    serde = record(v={"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2})

    column = serde.from_python([{"v": Decimal("0e-99999999")}, {"v": Decimal("9" * 36 + ".99")}])

    written = [b"\x00", (10**38 - 1).to_bytes(16, "big")]
    assert [text.as_py()[1:] for text in serde.encode(column)] == written


@pytest.mark.parametrize("case", REFUSED)
def test_a_python_value_of_another_type_is_refused_by_row_and_field(case):
    kind, value, said = REFUSED[case]

    with pytest.raises(ConfigError) as refused:
        record(v=kind).from_python([value])

    assert said in str(refused.value)


def test_a_number_that_no_float_has_is_the_unions_double():
    assert record(v=["float", "double"]).from_python([{"v": 1e300}]).to_pylist() == [
        {"v": {"float": None, "double": 1e300}}
    ]


def test_a_null_that_the_schema_has_not_is_not_written():
    column = pa.array([{"v": 1}, {"v": None}], record(v="int").arrow_type)

    with pytest.raises(ConfigError, match="v: expected a value, since the schema has no null here, got null"):
        record(v="int").encode(column)


NO_SCHEMAS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "expected a schema in JSON"),
    "a name that is not declared": ('"Order"', "got 'Order', which is not declared before"),
    "a record inside itself": (
        {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]},
        "field next: expected records that end, as columns do, got N inside itself",
    ),
    "null alone": ("null", "expected a type that has values, got null alone"),
    "a decimal too wide": (
        {"type": "bytes", "logicalType": "decimal", "precision": 39}, "expected a decimal of at most 38 digits",
    ),
    "a default of another type": (
        {"type": "record", "name": "R", "fields": [{"name": "v", "type": "int", "default": "x"}]},
        "field v: expected int, got the default 'x'",
    ),
    "a number": (7, "expected a schema's JSON text, a pathlib.Path of a file or a dict, got 7"),
    "no file": (Path("none.avsc"), "got none.avsc (No such file or directory)"),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_SCHEMAS)
def test_what_is_no_schema_of_columns_is_refused_when_the_serde_is_made(case):
    schema, said = NO_SCHEMAS[case]

    with pytest.raises(ConfigError) as refused:
        Serde.avro(schema)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("below", "written"),
    [
        (["null", "N"], b"\x02a\x02\x02b\x00"),
        ({"type": "array", "items": "N"}, b"\x02a\x02\x02b\x00\x00"),
        ({"type": "map", "values": "N"}, b"\x02a\x02\x02k\x02b\x00\x00"),
    ],
    ids=["union", "array", "map"],
)
def test_a_record_inside_itself_is_read_without_the_field_that_has_it_as_its_refusal_says(below, written):
    """
    N of the name a, in which is an N of the name b, in which is none.
    """
    name = {"name": "name", "type": "string"}
    tree = {"type": "record", "name": "N", "fields": [name, {"name": "below", "type": below}]}
    with pytest.raises(ConfigError) as refused:
        Serde.avro(tree)

    reader = Serde.avro({"type": "record", "name": "N", "fields": [name]}, writer=tree)

    assert refused.value.next_step == "leave that field out of the reader's schema"
    assert reader.decode(pa.array([written], pa.binary())).values.to_pylist() == [{"name": "a"}]


def test_a_writers_schema_of_which_nothing_can_be_read_is_refused():
    with pytest.raises(ConfigError, match="expected int, got string"):
        Serde.avro("int", writer="string")


def test_schemas_are_told_apart_by_what_they_read_and_not_by_their_documentation():
    plain = {"type": "fixed", "name": "F", "size": 2}

    assert Serde.avro(plain) == Serde.avro(plain | {"doc": "two bytes", "owner": "shop"})
    assert Serde.avro(plain) != Serde.avro(plain | {"size": 3})
    assert repr(Serde.avro(plain)) != repr(Serde.avro(plain | {"size": 3}))


def test_a_type_of_another_schema_is_known_by_references_and_by_a_file(tmp_path):
    money = '{"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}'
    (tmp_path / "order.avsc").write_text(
        '{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "price", "type": "Money"}]}'
    )

    serde = Serde.avro(tmp_path / "order.avsc", references=(money,))

    assert serde.arrow_type == pa.struct([("price", pa.struct([("cents", pa.int64())]))])
