"""The JSON serde's types that JSON has no form for: what is taken, what is written, and what is bad."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde
from tests.sampling import examples
from tests.state.serdes.clicks import decode, texts, unhurried

UTC = dt.timezone.utc  # noqa: UP017 (the zone that values have is another object)


def read_alone(kind: str, text: bytes) -> tuple[object, str | None]:
    """(value, reason) of a field, the same by Arrow's parser and, where a map is declared too, by Python's."""
    whole = b'{"x":' + text + b"}"
    (one,), reasons = decode(Serde.json(f"x {kind}"), whole)
    (other,), others = decode(Serde.json(f"x {kind}, m map<string, int>"), whole)
    assert (one and one["x"]) == (other and other["x"])
    assert bool(reasons) == bool(others)
    return one and one["x"], others.get(0)


# --- the schema


def test_every_type_of_sparks_ddl_has_a_word_and_its_synonyms():
    got = Serde.json(
        "a tinyint, b SMALLINT, c real, d dec(5,2), e numeric(7), f decimal, g binary, h date, i time, j timestamp, "
        "k timestamp_ltz, l timestamp_ntz, m map<string, array<decimal(38,38)>>"
    )

    assert repr(got) == (
        'Serde.json("a byte, b short, c float, d decimal(5,2), e decimal(7,0), f decimal(10,0), g binary, h date, '
        'i time, j timestamp, k timestamp, l timestamp_ntz, m map<string, array<decimal(38,38)>>")'
    )
    assert got == Serde.json(repr(got)[12:-2])


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ("a decimal(39,0)", "expected 1 to 38 digits, and not more of them behind the point, at 10"),
        ("a decimal(3,4)", "expected 1 to 38 digits, and not more of them behind the point, at 10"),
        ("a decimal(x)", "expected a number at 10, got 'x\\)'"),
        ("a map<int, string>", "expected string, which the names in a JSON object are, at 6"),
        ("a map<string>", "expected ',' at 12, got '>'"),
        ("a interval", "expected a type"),
    ],
)
def test_a_type_that_cannot_be_is_refused_where_it_stands(schema, fault):
    with pytest.raises(ConfigError, match=fault):
        Serde.json(schema)


def test_an_object_may_be_written_as_spark_writes_its_type():
    assert Serde.json("struct<a int, b array<string>>") == Serde.json("a int, b array<string>")


# --- what is taken


@pytest.mark.parametrize(
    ("kind", "text", "want"),
    [
        ("byte", b"-128", -128),
        ("short", b"32767", 32767),
        ("float", b"0.1", 0.10000000149011612),  # the float nearest to it
        ("float", b"-Infinity", -math.inf),
        ("float", b"3.4028235e38", 3.4028234663852886e38),  # the largest
        ("decimal(5,2)", b"1.5", Decimal("1.50")),
        ("decimal(5,2)", b"1.500", Decimal("1.50")),  # no digit is lost
        ("decimal(5,2)", b'"-999.99"', Decimal("-999.99")),
        ("decimal(5,2)", b"1e2", Decimal("100.00")),
        ("decimal(38,0)", b"99999999999999999999999999999999999999", Decimal(10**38 - 1)),
        ("decimal(38,2)", b"-999999999999999999999999999999999999.99", Decimal(f"-{'9' * 36}.99")),
        ("decimal(5,2)", b"0e-99999999", Decimal("0.00")),
        ("decimal(5,2)", b"0.00e+99999999", Decimal("0.00")),
        ("decimal(5,2)", b"1." + b"0" * 300, Decimal("1.00")),
        ("map<string, decimal(5,2)>", b'{"a":1.' + b"0" * 300 + b"}", {"a": Decimal("1.00")}),
        ("array<decimal(20,2)>", b'["10e-1",1E+17]', [Decimal("1.00"), Decimal("1E+17")]),
        ("binary", b'"AP8Q"', b"\x00\xff\x10"),
        ("binary", b'""', b""),
        ("date", b'"2024-02-29"', dt.date(2024, 2, 29)),
        ("date", b'"0001-01-01"', dt.date(1, 1, 1)),
        ("time", b'"16:30"', dt.time(16, 30)),
        ("time", b'"23:59:59.999999"', dt.time(23, 59, 59, 999_999)),
        ("time", b'"00:00:00.5"', dt.time(0, 0, 0, 500_000)),
        ("timestamp", b'"1969-12-31T23:59:59.999999Z"', dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        ("timestamp", b'"2026-11-24T17:30+01:00"', dt.datetime(2026, 11, 24, 16, 30, tzinfo=UTC)),
        ("timestamp", b'"2026-01-01T00:00:00.123456000-18:00"', dt.datetime(2026, 1, 1, 18, 0, 0, 123_456, UTC)),
        ("timestamp_ntz", b'"2026-11-24T16:30:05"', dt.datetime(2026, 11, 24, 16, 30, 5)),
        ("array<date>", b'["2024-02-29",null]', [dt.date(2024, 2, 29), None]),
        ("struct<at time>", b'{"at":"01:02:03"}', {"at": dt.time(1, 2, 3)}),
        ("array<struct<d decimal(3,1)>>", b'[{"d":1},null,{}]', [{"d": Decimal("1.0")}, None, {"d": None}]),
    ],
)
def test_a_value_is_read_as_its_declared_type(kind, text, want):
    assert read_alone(kind, text) == (want, None)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("byte", b"128", "field x: expected a byte, got 128"),
        ("short", b"1.0", "field x: expected a short, got 1.0"),
        ("float", b"3.4028235677973367e38", "field x: expected a float, got 3.4028235677973366e+38"),
        ("float", b'"1"', "field x: expected a float, got a string"),
        ("decimal(5,2)", b"1.505", "field x: expected a number that fits decimal(5,2), got 1.505"),
        ("decimal(5,2)", b"1000", "field x: expected a number that fits decimal(5,2), got 1000"),
        (
            "decimal(38,2)",
            b"1000000000000000000000000000000000000",
            "field x: expected a number that fits decimal(38,2), got 1000000000000000000000000000000000000",
        ),
        ("decimal(5,2)", b'"1_0"', "field x: expected a decimal(5,2), got 1_0"),
        ("decimal(5,2)", b"NaN", "field x: expected a decimal(5,2), got NaN"),
        ("decimal(5,2)", b"true", "field x: expected a decimal(5,2), got a boolean"),
        ("decimal(5,2)", b"1e-99999999", "field x: expected a decimal(5,2), got 1e-99999999"),
        ("decimal(5,2)", b"-1e99999999", "field x: expected a decimal(5,2), got -1e99999999"),
        ("decimal(5,2)", b'"1e-0000000000099999999"', "field x: expected a decimal(5,2), got 1e-0000000000099999999"),
        ("decimal(5,2)", b'"1\\u0065-99999999"', "field x: expected a decimal(5,2), got 1e-99999999"),
        ("decimal(5,2)", b'"\\u0031E-99999999"', "field x: expected a decimal(5,2), got 1E-99999999"),
        ("array<decimal(5,2)>", b"[1e-99999999]", "field x[]: expected a decimal(5,2), got 1e-99999999"),
        ("decimal(5,2)", b"0." + b"0" * 300 + b"1", "field x: expected a decimal(5,2), got 0." + "0" * 38),
        (
            "decimal(38,4)",  # times 10**38, in 256 bits, it is 1000000000000000000000000000.7696 * 10**38
            b"673998666678765994866675377175490767840928610563514312027590257",
            "field x: expected a decimal(38,4), got 6739986666787659948666753771754907678409",
        ),
        ("double", b"1" + b"0" * 309, "field x: expected a number that a double holds, got 1" + "0" * 39),
        ("double", b"1e99999999", "field x: expected a number that a double holds, got 1e99999999"),
        ("binary", b'"AP8"', "field x: expected base64, got 'AP8'"),
        ("binary", b'"A_8="', "field x: expected base64, got 'A_8='"),
        ("date", b'"2023-02-29"', "field x: expected a date such as 2026-11-24, got '2023-02-29'"),
        ("date", b'"0000-01-01"', "field x: expected a date such as 2026-11-24, got '0000-01-01'"),
        ("date", b'"2026-1-1"', "field x: expected a date such as 2026-11-24, got '2026-1-1'"),
        ("date", b"20000", "field x: expected a date, got a number"),
        ("time", b'"24:00:00"', "field x: expected a time such as 16:30:05.123456, got '24:00:00'"),
        ("time", b'"10:00:60"', "field x: expected a time such as 16:30:05.123456, got '10:00:60'"),
        (
            "timestamp",
            b'"2026-11-24T16:30:05"',
            "field x: expected a timestamp such as 2026-11-24T16:30:05.123456Z, got '2026-11-24T16:30:05'",
        ),
        (
            "timestamp",
            b'"0001-01-01T00:00+00:01"',  # a minute before the year 1
            "field x: expected a timestamp such as 2026-11-24T16:30:05.123456Z, got '0001-01-01T00:00+00:01'",
        ),
        (
            "timestamp_ntz",
            b'"2026-11-24T16:30:05Z"',
            "field x: expected a timestamp without an offset, such as 2026-11-24T16:30:05.123456, "
            "got '2026-11-24T16:30:05Z'",
        ),
        ("array<time>", b'["10:00","x"]', "field x[]: expected a time such as 16:30:05.123456, got 'x'"),
        ("struct<at time>", b'{"at":"x"}', "field x.at: expected a time such as 16:30:05.123456, got 'x'"),
    ],
)
def test_a_value_that_does_not_fit_makes_its_row_bad(kind, text, reason):
    assert read_alone(kind, text) == (None, reason)


@pytest.mark.parametrize(
    ("schema", "text", "want"),
    [
        ("array<string>", b'["a", null]', ["a", None]),
        ("map<string, int>", b'{"b":1,"a":null}', {"b": 1, "a": None}),
        ("map<string, map<string, date>>", b'{"a":{"b":"2024-02-29"}}', {"a": {"b": dt.date(2024, 2, 29)}}),
        ("decimal(3,1)", b"1.5", Decimal("1.5")),
        ("date", b'"2024-02-29"', dt.date(2024, 2, 29)),
    ],
)
def test_a_value_may_be_no_object(schema, text, want):
    assert decode(Serde.json(schema), text) == ([want], {})


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ("array<string>", b"null", "expected a value, got null"),
        ("array<string>", b"", "expected JSON, got nothing"),
        ("array<string>", b'["a"],["b"]', "expected JSON, got a fault: extra data"),
        ("array<string>", b'["\xff"]', "expected UTF-8, got byte 0xff at 2"),
        ("array<string>", b'["\\ud800"]', "field []: expected text that UTF-8 can write, got half a surrogate pair"),
        ("array<int>", b"[" * 100_000, "expected JSON, got a fault: too many levels"),
        ("map<string, int>", b'{"a":1,"a":1}', "expected each key once, got one twice"),
        ("map<string, int>", b'[["a",1]]', "expected an object, got an array"),
        ("m map<string, int>", b'{"m":{"a":"x"}}', "field m[]: expected an int, got a string"),
        ("m map<string, int>, n int", b'{"n":1,"n":1}', "field n: expected once, got twice"),
    ],
)
def test_a_bad_map_or_plain_value_is_told(schema, text, reason):
    assert decode(Serde.json(schema), text) == ([None], {0: reason})


# --- what is written


def test_values_are_written_as_jackson_writes_them():
    serde = Serde.json(
        "b byte, f float, d decimal(12,2), e decimal(12,10), x binary, day date, t time, u time, v time, ts timestamp, "
        "n timestamp_ntz, m map<string, array<time>>"
    )
    value = {
        "b": -1, "f": 0.1, "d": Decimal("1234567890.10"), "e": Decimal("1E-10"), "x": b"\x00\xff\x10",
        "day": dt.date(1, 2, 3), "t": dt.time(1, 2), "u": dt.time(1, 2, 3, 4000), "v": dt.time(1, 2, 3, 4),
        "ts": dt.datetime(2026, 11, 24, 17, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        "n": dt.datetime(2026, 11, 24, 16, 0, 0, 120_000), "m": {'"': [dt.time(5)], "a": None},
    }  # fmt: skip

    (got,) = serde.encode(serde.from_python([value])).to_pylist()

    assert got.decode() == (
        '{"b":-1,"f":0.1,"d":1234567890.10,"e":1E-10,"x":"AP8Q","day":"0001-02-03","t":"01:02:00","u":"01:02:03.004",'
        '"v":"01:02:03.000004","ts":"2026-11-24T16:00:00Z","n":"2026-11-24T16:00:00.120",'
        '"m":{"\\"":["05:00:00"],"a":null}}'
    )


moments = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
everything = st.fixed_dictionaries(
    {
        "d": st.none() | st.decimals(-(10**6), 10**6, places=3, allow_nan=False),
        "x": st.none() | st.binary(max_size=7),
        "day": st.none() | st.dates(),
        "t": st.none() | st.times(),
        "ts": st.none() | moments.map(lambda moment: moment.replace(tzinfo=UTC)),
        "n": st.none() | moments,
        "f": st.none() | st.floats(width=32, allow_nan=False),
        "m": st.none() | st.dictionaries(texts, st.none() | st.lists(st.none() | st.dates(), max_size=2), max_size=3),
    }
)
EVERYTHING = Serde.json(
    "d decimal(10,3), x binary, day date, t time, ts timestamp, n timestamp_ntz, f float, m map<string, array<date>>"
)
WITHOUT_MAP = Serde.json("d decimal(10,3), x binary, day date, t time, ts timestamp, n timestamp_ntz, f float")


@settings(unhurried, max_examples=examples(100))
@given(st.lists(st.none() | everything, max_size=5))
def test_what_is_written_is_read_back_by_both_readers(values):
    column = EVERYTHING.from_python(values)

    assert decode(EVERYTHING, *EVERYTHING.encode(column).to_pylist()) == (values, {})

    fewer = [value and {name: one for name, one in value.items() if name != "m"} for value in values]
    column = WITHOUT_MAP.from_python(fewer)
    assert decode(WITHOUT_MAP, *WITHOUT_MAP.encode(column).to_pylist()) == (fewer, {})


def test_a_zero_of_any_exponent_is_stored_as_a_zero():
    serde = Serde.json("array<decimal(5,2)>")

    column = serde.from_python([[Decimal("0e-99999999"), Decimal("-0E+99999999"), Decimal("1.50000")]])

    assert serde.encode(column).to_pylist() == [b"[0.00,0.00,1.50]"]


def test_a_slice_of_maps_is_written_like_a_whole_column():
    serde = Serde.json("map<string, int>")
    column = serde.from_python([{"a": 1}, {"b": 2, "c": 3}, None, {}])

    assert serde.encode(column.slice(1, 3)).to_pylist() == [b'{"b":2,"c":3}', None, b"{}"]


def test_what_no_reader_would_take_is_not_written():
    twice = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))
    with pytest.raises(ConfigError, match="expected each key of a map once, got one twice"):
        Serde.json("map<string, int>").encode(twice)

    with pytest.raises(ConfigError, match="expected dates of the years 1 to 9999"):
        Serde.json("date").encode(pa.array([2_932_897], pa.int32()).cast(pa.date32()))


@pytest.mark.parametrize(
    ("schema", "value", "refusal"),
    [
        ("decimal(5,2)", Decimal("1.505"), r"a Decimal that fits decimal\(5,2\), got Decimal\('1.505'\)"),
        ("decimal(5,2)", Decimal("NaN"), r"a Decimal that fits decimal\(5,2\)"),
        ("decimal(5,2)", Decimal("1e-99999999"), r"a Decimal that fits decimal\(5,2\), got Decimal\('1E-99999999'\)"),
        ("decimal(5,2)", Decimal("1e99999999"), r"a Decimal that fits decimal\(5,2\), got Decimal\('1E\+99999999'\)"),
        ("array<decimal(5,2)>", [10**5000], r"a Decimal that fits decimal\(5,2\), got <int, whose repr fails>"),
        ("decimal(5,2)", 1.5, r"a Decimal that fits decimal\(5,2\), got 1.5 \(float\)"),
        ("date", dt.datetime(2026, 1, 1), "a date, got datetime"),
        ("timestamp", dt.datetime(2026, 1, 1), "a datetime with a zone"),
        ("timestamp_ntz", dt.datetime(2026, 1, 1, tzinfo=UTC), "a datetime without a zone"),
        ("time", dt.time(1, tzinfo=UTC), "a time without a zone"),
        ("time", "10:00", "a time without a zone, got '10:00'"),
        ("binary", "x", "bytes, got 'x'"),
        ("byte", 128, "a number of 8 bits"),
        ("float", 1e39, "a float, got 1e\\+39"),
        ("map<string, int>", {1: 1}, "row 0, a key: expected a str, got 1"),
        ("map<string, int>", {"a": "x"}, r"row 0\['a'\]: expected an int"),
        ("map<string, int>", [("a", 1)], "a dict, got"),
    ],
)
def test_a_python_value_of_another_type_is_refused(schema, value, refusal):
    with pytest.raises(ConfigError, match=refusal):
        Serde.json(schema).from_python([value])
