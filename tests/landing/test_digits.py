"""Between a file and a record no digit is lost, no year wraps, and one cell decides about its own row alone."""

import struct
from decimal import Decimal, localcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files.columns import time_text
from kstreams_replay.jobs.landing.landing import FileSource, land_files
from kstreams_replay.jobs.landing.serde_mapping import Serdes, with_serdes
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.serdes import Serde
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed, values
from tests.landing.written_tables import container, zigzag

DIGITS = "1234567.123456789012345678"
NO_NUMBER = (
    "NaN or infinite; JSON has no such number, so the key or value is null (--key-type double and --value-type double "
    "keep it)"
)


@pytest.mark.parametrize("number", [DIGITS, "1.10", "1e400", "-0.0", "1E5", "0.1000000000000000055511151231257827"])
def test_a_number_of_json_keeps_its_text(warehouse, tmp_path, number):
    line = f'{{"t":1,"k":{number},"after":{{"n":{number},"list":[{number},"{number}"]}}}}\n'
    directory = write(tmp_path / "in", {"a.jsonl": line})

    land(warehouse, directory, key="k", value="after")

    want = f'{{"n":{number},"list":[{number},"{number}"]}}'
    assert landed(warehouse, "t", "key", "value") == [(number.encode(), want.encode())]


def test_half_a_surrogate_pair_before_digits_makes_no_number_of_a_text(warehouse, tmp_path):
    """No UTF-8 can carry it, so the row is bad, as with any other text behind it."""
    rows = "".join(
        f'{{"t":{n},"v":{{"a":"{text}","b":1.50}}}}\n' for n, text in enumerate([r"\udfff42", r"\udfffx", "42"])
    )

    land(warehouse, write(tmp_path / "in", {"a.jsonl": rows}), value="v", rules={"max_bad_share": 0.9})

    assert values(warehouse) == [b'{"a":"42","b":1.50}']
    assert landed_dead_letters(warehouse, "t").column("line").to_pylist() == [1, 2]


def test_a_number_in_a_csv_cell_of_json_keeps_its_text(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": f't,n,list\n1,{DIGITS},"[1.10,2]"\n'})

    land(warehouse, directory, types="n decimal(38,18), list array<double>")

    assert values(warehouse) == [f'{{"t":"1","n":{DIGITS},"list":[1.10,2]}}'.encode()]


def test_a_sum_of_decimals_is_the_same_by_declared_types_and_by_the_serde_of_the_topology(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": f"t,amount\n1,{DIGITS}\n2,12345678901234567890.5\n"})
    serde = Serde.json("t long, amount decimal(38,18)")
    source = FileSource(str(directory), "csv", timestamp="t")

    land(warehouse, directory, topic="types", types="t long, amount decimal(38,18)")
    land_files(None, warehouse, "for", with_serdes(source, "for", Serdes(Serde.string(), serde)))

    for topic in ("types", "for"):
        read = serde.decode(pa.array(values(warehouse, topic), pa.binary()))
        assert read.reasons == {}
        with localcontext() as context:
            context.prec = 50
            total = sum((row["amount"] for row in read.values.to_pylist()), Decimal(0))
        assert total == Decimal("12345678901235802457.623456789012345678")


@pytest.mark.parametrize(
    ("cell", "want"),
    [
        (DIGITS, DIGITS), ("1.10", "1.10"), ("1e400", "1e400"), ("7", "7"), ("-0.0", "-0.0"), (".50", "0.50"),
        ("+1.5", "1.5"), ("007.10", "7.10"), ("5.", "5"), ("NaN", "null"), ("-Infinity", "null"),
    ],
)  # fmt: skip
def test_a_double_in_a_csv_cell_keeps_its_digits(warehouse, tmp_path, cell, want):
    directory = write(tmp_path / "in", {"a.csv": f"t,n\n1,{cell}\n"})

    land(warehouse, directory, types="n double")

    assert values(warehouse) == [f'{{"t":"1","n":{want}}}'.encode()]


FAR = {"large": "1e99999999", "large below zero": "-1e99999999", "small": "1e-99999999", "long": "1" + "0" * 5_000}


@pytest.mark.parametrize("number", FAR)
@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"timestamp": "n"}, "a timestamp (ms)"),
        ({"timestamp": "n", "timestamp_unit": "s"}, "a timestamp (s)"),
        ({"offset": "n"}, "an offset of 0 or more"),
        ({"partition": "n", "partitions": 2}, "a partition in [0, 2)"),
        ({"key": "n", "key_type": "long"}, "a long"),
        ({"value": "n", "value_type": "int"}, "an int"),
    ],
)
def test_a_number_of_any_exponent_is_refused_at_once_where_it_does_not_fit(
    warehouse, tmp_path, number, mapping, expected
):
    directory = write(tmp_path / "in", {"a.jsonl": f'{{"t":1,"n":{FAR[number]}}}\n{{"t":1,"n":1}}\n'})

    land(warehouse, directory, rules={"max_bad_share": 1}, **mapping)

    reasons = landed_dead_letters(warehouse, "t")["reason"].to_pylist()
    if number == "small" and "timestamp" in mapping:
        assert reasons == []
    else:
        assert [reason.partition(", got ")[0] for reason in reasons] == [f"expected {expected}"]


@pytest.mark.parametrize(
    ("time", "time_ms"),
    [("-1e-99999999", -1), ("1.9999999999999999999999999999999999999999999999", 1), ("0e99999999", 0)],
)
def test_a_time_is_rounded_down_with_all_its_digits(warehouse, tmp_path, time, time_ms):
    land(warehouse, write(tmp_path / "in", {"a.jsonl": f'{{"t":{time}}}\n'}))

    assert landed(warehouse, "t", "timestamp") == [(time_ms,)]


def test_an_integer_of_any_length_lands_as_it_is(warehouse, tmp_path):
    line = f'{{"t":1,"n":{FAR["long"]}}}'
    directory = write(tmp_path / "in", {"a.jsonl": f"{line}{line}\n{line}\n"})

    land(warehouse, directory, key="n")

    assert landed(warehouse, "t", "key", "value") == [(FAR["long"].encode(), line.encode())] * 3


@pytest.mark.parametrize("cell", ["1_000.5", "1,5", "12x", "0x1p3"])
def test_a_cell_that_is_no_double_is_a_bad_row(warehouse, tmp_path, cell):
    directory = write(tmp_path / "in", {"a.csv": f't,n\n1,"{cell}"\n'})

    with pytest.raises(LandingError, match=f"line 2: expected a double, got '{cell}' in column n"):
        land(warehouse, directory, types="n double")


def test_a_number_that_no_double_holds_is_a_bad_row_where_eight_bytes_are_written(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": "t,n\n1,1e400\n"})

    with pytest.raises(LandingError, match="line 2: expected a double, got '1e400' in column n"):
        land(warehouse, directory, value="n", value_type="double")


@pytest.mark.parametrize(
    "numbers", [pa.array([float("nan"), float("-inf"), 1.5]), pa.array([float("nan"), float("inf"), 1.5], pa.float32())]
)
def test_a_number_that_json_has_not_is_no_key_and_no_value(warehouse, tmp_path, numbers):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": [1, 2, 3], "n": numbers}), tmp_path / "in" / "a.parquet")

    report = land(warehouse, tmp_path / "in", key="n", value="n")

    assert landed(warehouse, "t", "key", "value") == [(None, None), (None, None), (b"1.5", b"1.5")]
    assert report.warnings[0] == f"t: 2 cells of column n are {NO_NUMBER}"


def test_nan_of_json_lines_is_said_and_null_is_not(warehouse, tmp_path):
    rows = '{"t":1,"k":"a","v":NaN}\n{"t":2,"k":"b","v":null}\n{"t":3,"k":-Infinity,"v":"x"}\n'

    report = land(warehouse, write(tmp_path / "in", {"a.jsonl": rows}), key="k", value="v")

    assert landed(warehouse, "t", "key", "value") == [(b"a", None), (b"b", None), (None, b"x")]
    assert sorted(report.warnings[:2]) == [f"t: 1 cell of column {name} is {NO_NUMBER}" for name in ("k", "v")]


def test_nan_that_is_kept_is_not_said(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    numbers = pa.array([float("nan"), None])
    pq.write_table(pa.table({"t": [1, 2], "n": numbers}), tmp_path / "in" / "a.parquet")

    report = land(warehouse, tmp_path / "in", value="n", value_type="double")

    nan, nothing = values(warehouse)
    assert (struct.unpack(">d", nan)[0] != struct.unpack(">d", nan)[0], nothing) == (True, None)
    assert not any("NaN" in sentence for sentence in report.warnings)


def test_a_fraction_of_a_json_number_is_a_time_and_a_double(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": '{"t":1767258000.25,"v":2.5}\n'})

    land(warehouse, directory, timestamp_unit="s", value="v", value_type="double")

    assert landed(warehouse, "t", "timestamp", "value") == [(1_767_258_000_250, struct.pack(">d", 2.5))]


@pytest.mark.parametrize(
    ("column", "mapping", "want"),
    [
        (pa.array([Decimal(42)], pa.decimal128(38, 0)), {}, b"42"),
        (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), {}, b"1.50"),
        (pa.array([Decimal(42)], pa.decimal128(38, 0)), {"key_type": "string"}, b"42"),
        (pa.array([Decimal(42)], pa.decimal128(38, 0)), {"key_type": "long"}, struct.pack(">q", 42)),
        (pa.array([42.0]), {"key_type": "long"}, struct.pack(">q", 42)),
        (pa.array([42.0]), {"key_type": "int"}, struct.pack(">i", 42)),
    ],
)
def test_a_number_that_is_a_key_is_written_as_the_serde_reads_it(warehouse, tmp_path, column, mapping, want):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": [1], "k": column}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", key="k", value="t", **mapping)

    assert landed(warehouse, "t", "key") == [(want,)]


def float32s(*numbers):
    return pa.array(numbers, pa.float32())


FLOATS = (0.1, 1.1, 3.4028235e38, 16777216.0, None)
TEXTS = ("0.1", "1.1", "3.4028235e+38", "16777216.0")


def test_a_float_of_32_bits_has_the_digits_that_kafka_connect_writes(warehouse, tmp_path):
    """
    Connect's JsonConverter writes a FloatNode, 0.1, and not the double that has its bits, 0.10000000149011612.
    """
    (tmp_path / "p").mkdir()
    table = pa.table({"t": range(5), "f": float32s(*FLOATS), "l": [[each] for each in FLOATS]})
    pq.write_table(table.set_column(2, "l", table["l"].cast(pa.list_(pa.float32()))), tmp_path / "p" / "a.parquet")
    fields = [{"name": "t", "type": "long"}, {"name": "f", "type": ["null", "float"]}]
    fields += [{"name": "l", "type": {"type": "array", "items": ["null", "float"]}}]
    floats = [zigzag(0) if each is None else zigzag(1) + struct.pack("<f", each) for each in FLOATS]
    rows = [zigzag(t) + each + zigzag(1) + each + zigzag(0) for t, each in enumerate(floats)]
    write(tmp_path / "a", {"a.avro": container(fields, rows)})
    cells = "".join(
        f'{t},{"" if each is None else each},"[{each or "null"}]"\n' for t, each in enumerate([*TEXTS, None])
    )
    write(tmp_path / "c", {"a.csv": f"t,f,l\n{cells}"})

    for topic in "pa":
        land(warehouse, tmp_path / topic, topic=topic, key="f")
    land(warehouse, tmp_path / "c", topic="c", key="f", types="t long, f double, l array<double>")

    for topic in "pac":
        assert landed(warehouse, topic, "key", "value") == [
            *((each.encode(), f'{{"t":{t},"f":{each},"l":[{each}]}}'.encode()) for t, each in enumerate(TEXTS)),
            (None, b'{"t":4,"f":null,"l":[null]}'),
        ]


@pytest.mark.parametrize("words", ["n double, l array<double>", "n float, l array<float>"])
def test_a_float_of_32_bits_is_the_same_number_by_the_serde_of_the_topology(warehouse, tmp_path, words):
    (tmp_path / "in").mkdir()
    lists = pa.ListArray.from_arrays([0, 1, 2], float32s(0.1, 1e10))
    pq.write_table(pa.table({"t": [1, 2], "n": float32s(0.1, 1e10), "l": lists}), tmp_path / "in" / "a.parquet")
    source = FileSource(tmp_path / "in", "parquet", timestamp="t", value=["n", "l"])
    serdes = Serdes(Serde.string(), Serde.json(words))

    land_files(None, warehouse, "t", with_serdes(source, "t", serdes))

    assert values(warehouse) == [b'{"n":0.1,"l":[0.1]}', b'{"n":1e+10,"l":[1e+10]}']


def test_a_float_of_32_bits_is_the_double_of_its_digits_where_eight_bytes_are_written(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": [1], "n": float32s(0.1)}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", value="n", value_type="double")

    assert values(warehouse) == [struct.pack(">d", 0.1)]


def test_sparks_timestamps_of_96_bits_keep_every_year(warehouse, tmp_path):
    """
    As nanoseconds in 64 bits, 9999-12-31 would be 1816-03-29.
    """
    (tmp_path / "in").mkdir()
    years = pa.array([253_402_214_400_000_000, -62_135_596_800_000_000, 1_767_258_000_000_000], pa.timestamp("us"))
    pq.write_table(
        pa.table({"t": [1, 2, 3], "at": years}), tmp_path / "in" / "a.parquet", use_deprecated_int96_timestamps=True
    )

    land(warehouse, tmp_path / "in", value=["at"])

    assert values(warehouse) == [b'{"at":253402214400000}', b'{"at":-62135596800000}', b'{"at":1767258000000}']


@pytest.mark.parametrize(
    ("column", "want"),
    [
        (pa.array([10_000_000, 20_454], pa.int32()).cast(pa.date32()), ["10000000", "20454"]),
        (pa.array([9 * 10**15, 1], pa.timestamp("s")), ["9000000000000000000", "1000"]),
        (pa.array([2**62, -1], pa.timestamp("us")), [str(2**62 // 1000), "-1"]),
        (pa.array([2**62, -1], pa.duration("us")), [str(2**62 // 1000), "-1"]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [str(2**64 - 1), "0"]),
    ],
)
def test_a_value_beyond_pythons_years_is_its_number(warehouse, tmp_path, column, want):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": [1, 2], "v": column}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", value=["v"])

    assert values(warehouse) == [f'{{"v":{number}}}'.encode() for number in want]


@pytest.mark.parametrize(
    ("cells", "want"),
    [
        (pa.array([20_454, 10_000_000], pa.int32()).cast(pa.date32()), (20_454, 10_000_000)),
        (pa.array([1, 9 * 10**15], pa.timestamp("s")), (1_000, 9 * 10**18)),
        (pa.array([1_000, 2**62], pa.timestamp("us", "UTC")), (1, 4_611_686_018_427_387)),
        (pa.array([-1, 1_767_258_000_123_456_789], pa.timestamp("ns")), (-1, 1_767_258_000_123)),
        (pa.array([1, 9 * 10**15], pa.duration("s")), (1_000, 9 * 10**18)),
        (pa.array([1, 86_399], pa.int32()).cast(pa.time32("s")), (1_000, 86_399_000)),
        (pa.array([999_999, 1_000_000], pa.int64()).cast(pa.time64("ns")), (0, 1)),
    ],
    ids=lambda cells: str(getattr(cells, "type", "")),
)
def test_a_time_within_lists_structs_and_maps_is_the_number_that_a_column_of_it_is(warehouse, tmp_path, cells, want):
    """
    No year is beyond it, and no other package decides how many digits it has.
    """
    (tmp_path / "in").mkdir()
    lists = pa.ListArray.from_arrays([0, 1, 2], pa.StructArray.from_arrays([cells], names=["x"]))
    maps = pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "k"]), cells)
    pq.write_table(pa.table({"t": [1, 2], "c": cells, "l": lists, "m": maps}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", value=["c", "l", "m"])

    assert values(warehouse) == [f'{{"c":{each},"l":[{{"x":{each}}}],"m":{{"k":{each}}}}}'.encode() for each in want]


@pytest.mark.parametrize(
    ("cells", "want"),
    [
        (pa.array([2**64 - 1, 0], pa.uint64()), (18_446_744_073_709_551_615, 0)),
        (pa.array([2**62, -1], pa.duration("us")), (4_611_686_018_427_387, -1)),
        (pa.array([1_767_258_000_123_456_000, -1_000], pa.timestamp("ns")), (1_767_258_000_123, -1)),
    ],
    ids=["uint64", "duration", "nanoseconds"],
)
def test_a_number_within_a_struct_is_as_large_as_it_is(warehouse, tmp_path, cells, want):
    (tmp_path / "in").mkdir()
    nested = pa.StructArray.from_arrays([cells], names=["x"])
    pq.write_table(pa.table({"t": [1, 2], "v": nested}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", value=["v"])

    assert values(warehouse) == [f'{{"v":{{"x":{number}}}}}'.encode() for number in want]


def test_a_record_time_of_no_64_bits_is_a_bad_row(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": f'{{"t":1767258000,"v":"a"}}\n{{"t":{2**60},"v":"b"}}\n'})

    land(warehouse, directory, timestamp_unit="s", value="v", rules={"max_bad_share": 1.0})

    assert landed(warehouse, "t", "timestamp", "value") == [(1_767_258_000_000, b"a")]


def test_a_byte_order_mark_before_json_lines_is_cut(warehouse, tmp_path):
    directory = write(
        tmp_path / "in", {"a.jsonl": b'\xef\xbb\xbf{"t":1}\n{"t":2}\n', "b.jsonl": b'\xef\xbb\xbf{"t":3}\n'}
    )

    land(warehouse, directory)

    assert values(warehouse) == [b'{"t":1}', b'{"t":2}', b'{"t":3}']


@pytest.mark.parametrize(
    ("joined", "want"),
    [
        (b'\xef\xbb\xbf{"t":1}\n\xef\xbb\xbf{"t":2}\r\n{"t":3}\n', [b'{"t":1}', b'{"t":2}', b'{"t":3}']),
        (b'{"t":1}\xef\xbb\xbf{"t":2}\n{"t":3,"s":"}\xef\xbb\xbf{"}', [
            b'{"t":1}', b'{"t":2}', b'{"t":3,"s":"}\xef\xbb\xbf{"}',
        ]),
        (b'{"t":1}\n\xef\xbb\xbf\n', [b'{"t":1}']),
    ],
)  # fmt: skip
def test_byte_order_marks_within_a_file_that_was_joined_are_cut(warehouse, tmp_path, joined, want):
    land(warehouse, write(tmp_path / "in", {"a.jsonl": joined}))

    assert values(warehouse) == want
    assert not Serde.json("t long, s string").decode(pa.array(want, pa.binary())).bad.any()


def test_text_that_begins_with_the_bytes_of_a_mark_stays_in_lines_with_separators(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.txt": b"\xef\xbb\xbfa\t1\n\xef\xbb\xbfb\t2\n"})

    land(warehouse, directory, format="lines", columns=("v", "t"), value="v")

    assert values(warehouse) == [b"a", b"\xef\xbb\xbfb"]


@pytest.mark.parametrize(
    "line",
    [
        '{"t":1}'.encode("utf-16"),
        '{"t":1}'.encode("utf-16-le"),
        '{"t":1}'.encode("utf-32"),
        b'{"t":1,"s":"\xed\xa0\x80"}',
    ],
)
def test_a_line_of_another_encoding_is_a_bad_row_since_no_serde_reads_it(warehouse, tmp_path, line):
    directory = write(tmp_path / "in", {"a.jsonl": line + b'\n{"t":2}\n'})

    land(warehouse, directory, rules={"max_bad_share": 1.0})

    assert values(warehouse) == [b'{"t":2}']
    assert [letter["line"] for letter in landed_dead_letters(warehouse, "t").to_pylist()] == [1]
    assert Serde.json("t long, s string").decode(pa.array([line], pa.binary())).bad.all()


def test_the_text_of_a_time_is_of_any_year():
    times = [-(2**63), -1, 0, 2**63 - 1]

    assert [time_text(time_ms) for time_ms in times] == [
        "-292275055-05-16T16:47:04.192Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z",
        "292278994-08-17T07:12:55.807Z",
    ]  # fmt: skip


def test_a_record_time_that_no_window_can_hold_is_a_bad_row(warehouse, tmp_path):
    """
    A window's end is its start and its size: at Long.MAX the sum is below zero, and compiled kernels wrote elsewhere.
    """
    directory = write(tmp_path / "in", {"a.jsonl": f'{{"t":{2**53 - 1}}}\n{{"t":{2**53}}}\n{{"t":{2**63 - 1}}}\n'})

    land(warehouse, directory, rules={"max_bad_share": 1.0})

    assert landed(warehouse, "t", "timestamp") == [(9_007_199_254_740_991,)]
    letters = landed_dead_letters(warehouse, "t").to_pylist()
    assert [letter["line"] for letter in letters] == [2, 3]
    times = "a time up to 287396-10-12T08:59:00.991Z, got 292278994-08-17T07:12:55.807Z"
    assert letters[1]["reason"] == f"expected {times} in column t"
