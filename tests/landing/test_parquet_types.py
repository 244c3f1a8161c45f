"""A cell of Parquet becomes JSON that the natural types of Serde.json read."""

import math
import uuid
from datetime import date, datetime, time
from zoneinfo import ZoneInfo

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
from tests.landing.file_folders import land
from tests.landing.landed_rows import landed, values


def parquet(tmp_path, **columns):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("kind", "cell", "want"),
    [
        (pa.map_(pa.string(), pa.int64()), [("b", 1), ("a", None)], b'{"v":{"b":1,"a":null}}'),
        (pa.map_(pa.large_string(), pa.string()), [], b'{"v":{}}'),
        (pa.map_(pa.int64(), pa.string()), [(1, "x")], b'{"v":[[1,"x"]]}'),
        (
            pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.map_(pa.string(), pa.bool_())))])),
            [{"m": [("a", [("b", True)])]}, {"m": None}, None],
            b'{"v":[{"m":{"a":{"b":true}}},{"m":null},null]}',
        ),
        (pa.map_(pa.int64(), pa.map_(pa.string(), pa.int64())), [(1, [("a", 2)])], b'{"v":[[1,{"a":2}]]}'),
    ],
)
def test_a_map_whose_keys_are_text_is_an_object(warehouse, tmp_path, kind, cell, want):
    directory = parquet(tmp_path, t=[1, 2], v=pa.array([cell, None], kind))

    land(warehouse, directory, value=["v"])

    assert values(warehouse) == [want, b'{"v":null}']


def test_a_map_with_a_key_twice_is_a_bad_row(warehouse, tmp_path):
    column = pa.array([[("a", 1), ("a", 2)], [("a", 1)]], pa.map_(pa.string(), pa.int64()))

    land(warehouse, parquet(tmp_path, t=[1, 2], v=column), value=["v"], rules={"max_bad_share": 1.0})

    assert values(warehouse) == [b'{"v":{"a":1}}']
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert letter["reason"] == "expected each key of a map once, got [('a', 1), ('a', 2)] in column v"


UUID = "12345678-1234-5678-1234-567812345678"


def uuids(*texts):
    return pa.array([None if text is None else uuid.UUID(text).bytes for text in texts], pa.uuid())


def test_a_uuid_is_its_text_as_a_key_in_an_object_and_within_lists_structs_and_maps(warehouse, tmp_path):
    lists = pa.ListArray.from_arrays([0, 1, 1], uuids(UUID))
    structs = pa.StructArray.from_arrays([uuids(None, UUID)], names=["x"])
    maps = pa.MapArray.from_arrays([0, 1, 1], uuids(UUID), uuids(UUID))
    directory = parquet(tmp_path, t=[1, 2], k=uuids(UUID, None), l=lists, s=structs, m=maps)

    land(warehouse, directory, key="k")

    assert landed(warehouse, "t", "key", "value") == [
        (
            UUID.encode(),
            f'{{"t":1,"k":"{UUID}","l":["{UUID}"],"s":{{"x":null}},"m":[["{UUID}","{UUID}"]]}}'.encode(),
        ),
        (None, f'{{"t":2,"k":null,"l":[],"s":{{"x":"{UUID}"}},"m":[]}}'.encode()),
    ]


def test_a_bad_row_with_a_uuid_is_kept(warehouse, tmp_path):
    directory = parquet(tmp_path, t=[None, 2], k=uuids(UUID, UUID))

    land(warehouse, directory, value="k", rules={"max_bad_share": 1.0})

    assert values(warehouse) == [UUID.encode()]
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert letter["bytes"] == f'{{"t":null,"k":"{UUID}"}}'.encode()


def bytes_as_text(*cells):
    found = pa.array(cells, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(found), found.buffers())


def categorical(cells):
    """As pandas writes such a column."""
    return pa.DictionaryArray.from_arrays(pa.array(range(len(cells)), pa.int8()), cells)


@pytest.mark.parametrize("mapping", [{}, {"value": "s"}, {"value": "t", "key": "s"}, {"value": ["s"]}])
@pytest.mark.parametrize("neighbour", [b"plain", b'a "quote"'])
@pytest.mark.parametrize(
    "within",
    [
        lambda cells: cells,
        lambda cells: pa.StructArray.from_arrays([cells], ["x"]),
        categorical,
        lambda cells: pa.ListArray.from_arrays([0, 1, 2], pa.StructArray.from_arrays([categorical(cells)], ["x"])),
    ],
)
def test_text_that_is_not_utf_8_is_a_bad_row_whatever_is_beside_it(warehouse, tmp_path, within, neighbour, mapping):
    directory = parquet(tmp_path, t=[1, 2], s=within(bytes_as_text(b"caf\xe9", neighbour)))

    land(warehouse, directory, rules={"max_bad_share": 1.0}, **mapping)

    assert landed(warehouse, "t", "timestamp") == [(2,)]
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert (letter["line"], letter["reason"]) == (1, "expected text that is UTF-8, got b'caf\\xe9' in column s")


def test_text_that_is_not_utf_8_does_no_harm_in_a_column_that_is_not_taken(warehouse, tmp_path):
    directory = parquet(tmp_path, t=[1], s=bytes_as_text(b"caf\xe9"))

    land(warehouse, directory, value="t")

    assert values(warehouse) == [b"1"]


def test_a_column_that_json_cannot_hold_is_refused_by_name(warehouse, tmp_path):
    directory = parquet(tmp_path, t=[1], s=pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]))

    with pytest.raises(LandingError, match=r"expected a value that JSON can hold, got .*duplicate.* in column s"):
        land(warehouse, directory, value=["s"])


def read_back(warehouse, serde):
    decoded = serde.decode(pa.array(values(warehouse), pa.binary()))
    assert decoded.reasons == {}
    return decoded.values.to_pylist()


UTC = ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("column", "words", "want"),
    [
        (pa.array([date(2026, 1, 2), date(1, 1, 1)]), "date", [date(2026, 1, 2), date(1, 1, 1)]),
        (
            pa.array([1_767_258_000_123_456, -1], pa.timestamp("us", "UTC")),
            "timestamp",
            [
                datetime(2026, 1, 1, 9, 0, 0, 123456, UTC),
                datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            ],
        ),
        (
            pa.array([1_767_258_000_000_000_000, 1_000], pa.timestamp("ns", "Europe/Berlin")),
            "timestamp",
            [datetime(2026, 1, 1, 9, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 1, UTC)],
        ),
        (
            pa.array([1_767_258_000_000, 0], pa.timestamp("ms")),
            "timestamp_ntz",
            [datetime(2026, 1, 1, 9), datetime(1970, 1, 1)],
        ),
        (pa.array([time(1, 2, 3, 4500), time(0)], pa.time64("us")), "time", [time(1, 2, 3, 4500), time(0)]),
        (pa.array([math.inf, -math.inf]), "double", [math.inf, -math.inf]),
        (pa.array([0.1, 3.0], pa.float32()), "float", [0.10000000149011612, 3.0]),
        (pa.array([7, 8], pa.int32()), "double", [7.0, 8.0]),
        (
            pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
            "map<string, long>",
            [[("a", 1)], []],
        ),
        (
            pa.array([[("a", date(2026, 1, 2))], []], pa.map_(pa.large_string(), pa.date32())),
            "map<string, date>",
            [[("a", date(2026, 1, 2))], []],
        ),
        (
            pa.array([{"x": 1.5, "on": [date(2026, 1, 2)]}, {"x": None, "on": None}]),
            "struct<x double, on array<date>>",
            [{"x": 1.5, "on": [date(2026, 1, 2)]}, {"x": None, "on": None}],
        ),
    ],
)
def test_what_the_serde_of_the_topology_reads_is_what_was_in_the_file(warehouse, tmp_path, column, words, want):
    serde = Serde.json(f"t long, v {words}")
    directory = parquet(tmp_path, t=[1, 2, 3], v=pa.concat_arrays([column, pa.nulls(1, column.type)]))
    source = with_serdes(FileSource(directory, "parquet", timestamp="t"), "t", Serdes(Serde.string(), serde))

    land_files(None, warehouse, "t", source)

    rows = [{"t": n, "v": value} for n, value in enumerate([*want, None], start=1)]
    assert read_back(warehouse, serde) == rows


def test_nan_is_nan(warehouse, tmp_path):
    serde = Serde.json("t long, v double")
    directory = parquet(tmp_path, t=[1], v=[math.nan])
    source = with_serdes(FileSource(directory, "parquet", timestamp="t"), "t", Serdes(Serde.string(), serde))

    land_files(None, warehouse, "t", source)

    assert values(warehouse) == [b'{"t":1,"v":NaN}']


def test_a_plain_value_is_the_text_that_its_serde_reads(warehouse, tmp_path):
    serde = Serde.json("date")
    directory = parquet(tmp_path, t=[1, 2], v=[date(2026, 1, 2), None])
    source = FileSource(directory, "parquet", timestamp="t", value="v")

    land_files(None, warehouse, "t", with_serdes(source, "t", Serdes(Serde.string(), serde)))

    assert values(warehouse) == [b'"2026-01-02"', None]


def test_a_naive_time_is_an_instant_of_the_zone_or_a_bad_row(warehouse, tmp_path):
    directory = parquet(tmp_path, t=[1, 2], v=pa.array([1_767_258_000_000_000, None], pa.timestamp("us")))
    serdes = Serdes(Serde.string(), Serde.json("v timestamp"))
    for topic, zone in (("zoned", "Europe/Berlin"), ("naive", None)):
        source = FileSource(directory, "parquet", timestamp="t", value=["v"], zone=zone)
        rules = LandingRules(max_bad_share=1.0)
        land_files(None, warehouse, topic, with_serdes(source, topic, serdes), rules=rules)

    assert values(warehouse, "zoned") == [b'{"v":"2026-01-01T08:00:00Z"}', b'{"v":null}']
    assert values(warehouse, "naive") == [b'{"v":null}']
    [letter] = landed_dead_letters(warehouse, "naive").to_pylist()
    assert letter["reason"] == "expected a value that is a timestamp, got a time without a zone (--zone) in column v"


def test_a_cell_that_the_type_cannot_hold_is_a_bad_row(warehouse, tmp_path):
    directory = parquet(tmp_path, t=[1, 2, 3], v=pa.array([1_500, 1_000, 2**62], pa.timestamp("ns", "UTC")))
    serdes = Serdes(Serde.string(), Serde.json("v timestamp"))
    source = FileSource(directory, "parquet", timestamp="t", value=["v"])

    land_files(None, warehouse, "t", with_serdes(source, "t", serdes), rules=LandingRules(max_bad_share=1.0))

    assert values(warehouse) == [b'{"v":"1970-01-01T00:00:00.000001Z"}']
    letters = landed_dead_letters(warehouse, "t").to_pylist()
    assert [letter["line"] for letter in letters] == [1, 3]


def refused(directory, serde, **mapping) -> str:
    serdes = Serdes(Serde.string(), serde)
    source = with_serdes(FileSource(directory, "parquet", timestamp="t", **mapping), "t", serdes)
    first = first_record(source, find_files(source, "t").files)
    assert first is not None
    with pytest.raises(LandingError) as raised:
        refuse_undecodable("t", source, first, serdes, most=0.01)
    return str(raised.value)


@pytest.mark.parametrize(
    ("column", "words", "reason"),
    [
        (pa.nulls(2, pa.int64()), "date", "field v: expected a date, got a number"),
        (pa.nulls(2, pa.bool_()), "long", "field v: expected a long, got a boolean"),
        (pa.nulls(2, pa.bool_()), "string", "field v: expected a string, got a boolean"),
        (pa.nulls(2, pa.decimal128(10, 2)), "boolean", "field v: expected a boolean, got a string"),
    ],
)
def test_a_type_that_the_serde_does_not_read_is_refused_though_all_of_the_first_rows_are_null(
    tmp_path, column, words, reason
):
    sentence = refused(parquet(tmp_path, t=[1, 2], v=column), Serde.json(f"t long, v {words}"))

    assert sentence.startswith(f"topic t, a.parquet, column v ({column.type}): expected a type that Serde.json(")
    assert f"reads, got {reason}; correct the type in the serde of the topology" in sentence


def test_a_share_of_undecodable_rows_is_refused_and_one_null_helps_not(tmp_path):
    cells = pa.array(["1", "x"] * 100 + [None] * 300)

    sentence = refused(parquet(tmp_path, t=list(range(500)), v=cells), Serde.json("v long"), value="v")

    assert "expected a value that Serde.json(" in sentence
    assert "(200 of the first 200)" in sentence


def test_few_undecodable_rows_are_no_reason_to_refuse(tmp_path):
    serdes = Serdes(Serde.string(), Serde.json("t long, v string"))
    directory = tmp_path / "in"
    directory.mkdir()
    rows = ['{"t":1,"v":"a"}'] * 199 + ['{"t":1,"v":7}']
    (directory / "a.jsonl").write_text("\n".join(rows))
    source = FileSource(directory, "jsonl", timestamp="t")
    first = first_record(source, find_files(source, "t").files)
    assert first is not None

    refuse_undecodable("t", source, first, serdes, most=0.01)

    with pytest.raises(LandingError, match=r"expected a string, got a number \(1 of the first 200\)"):
        refuse_undecodable("t", source, first, serdes, most=0.001)


# Types that change from file to file

INT, TEXT, WHOLE = pa.array([42]), pa.array(["42"]), pa.array([42]).cast(pa.decimal128(25, 0))
BYTES = TEXT.cast(pa.binary())
FLOAT, FLOAT32 = pa.array([42.0, None]), pa.array([42], pa.float32())
CENTS, MILLS = (pa.array([42]).cast(pa.decimal128(25, scale)) for scale in (2, 3))
AS_ONE = "so equal values differ in their bytes, as 42 and 42.0 do; write one type, or name it"


def files_of(directory, first, *columns):
    """`<n>.parquet` with column v, n from ``first``."""
    directory.mkdir(exist_ok=True)
    for n, column in enumerate(columns, start=first):
        times = [10 * n + row for row in range(len(column))]
        pq.write_table(pa.table({"t": times, "v": column}), directory / f"{n}.parquet")
    return directory


def changes(report):
    return [sentence for sentence in report.warnings if AS_ONE in sentence]


@pytest.mark.sampled(share=3)
@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        (INT, FLOAT, ("int64", "double")),
        (FLOAT, FLOAT32, ("double", "float")),
        (CENTS, MILLS, ("decimal128(25, 2)", "decimal128(25, 3)")),
        (INT, CENTS, ("int64", "decimal128(25, 2)")),
        (TEXT, FLOAT, ("string", "double")),
        (FLOAT, TEXT.dictionary_encode(), ("double", "string")),
    ],
)
def test_a_type_that_changes_the_text_of_a_key_is_named_with_both_files(warehouse, tmp_path, before, after, types):
    together = files_of(tmp_path / "together", 1, before, after, after, before)
    apart = files_of(tmp_path / "apart", 1, before)
    mapping = {"key": "v", "value": ["t"]}

    [at_once] = changes(land(warehouse, together, topic="together", **mapping))
    found = []
    for n, column in enumerate([before, after, after, before], start=1):
        files_of(apart, n, column)
        found.append(changes(land(warehouse, apart, topic="apart", **mapping)))

    there, here = types
    assert f"column v is {there} in 1.parquet and {here} in 2.parquet (and changes 1 time more), {AS_ONE}" in at_once
    assert list(map(len, found)) == [0, 1, 0, 1]
    assert f"column v is {there} in 1.parquet and {here} in 2.parquet, {AS_ONE}" in found[1][0]
    assert f"column v is {here} in 2.parquet and {there} in 4.parquet, {AS_ONE}" in found[3][0]


@pytest.mark.parametrize(
    ("columns", "mapping"),
    [
        ((INT, INT.cast(pa.int8()), TEXT, TEXT.cast(pa.large_binary()), WHOLE, pa.nulls(1)), {"key": "v"}),
        ((INT, INT.cast(pa.uint64()), pa.nulls(2)), {"key": ["v", "t"]}),
        ((INT, FLOAT, CENTS, TEXT), {"key": "v", "key_type": "long"}),
        ((INT, FLOAT, CENTS), {"key": "v", "json_types": {"v": "long"}}),
        ((INT, FLOAT, CENTS), {"key": ["v", "t"], "json_types": {"v": "int"}}),
        ((INT, FLOAT, CENTS, TEXT), {"key": "t", "partition": "v", "partitions": 43, "rows": 1}),
        (
            (TEXT, TEXT.cast(pa.string_view()), TEXT.cast(pa.large_string()), TEXT.dictionary_encode()),
            {"key": ["v", "t"]},
        ),
        ((TEXT, TEXT.cast(pa.string_view()), BYTES.cast(pa.binary_view())), {"key": "v"}),
        ((BYTES, BYTES.cast(pa.binary_view()), BYTES.cast(pa.large_binary())), {"key": ["v", "t"]}),
        ((uuids(UUID), pa.array([UUID])), {"key": "v"}),
        ((uuids(UUID), pa.array([UUID])), {"key": ["v", "t"]}),
        ((INT.cast(pa.timestamp("ns")), INT.cast(pa.timestamp("ms", "UTC"))), {"key": "v"}),
    ],
)
def test_a_type_that_leaves_the_text_of_equal_values_is_not_named(warehouse, tmp_path, columns, mapping):
    rows = mapping.pop("rows", None)
    directory = files_of(tmp_path / "in", 1, *(column[:rows] for column in columns))

    report = land(warehouse, directory, **{"value": ["t"], **mapping})

    assert (changes(report), report.dead_letters) == ([], 0)


def test_a_type_within_a_struct_or_a_list_of_a_value_is_named_by_its_path(warehouse, tmp_path):
    whole, broken = ([{"a": {"n": [n]}, "m": 1}] for n in (42, 42.0))
    directory = files_of(tmp_path / "in", 1, pa.array(whole), pa.array(broken))

    [sentence] = changes(land(warehouse, directory))

    assert "column v.a.n.element is int64 in 1.parquet and double in 2.parquet" in sentence


def test_keys_of_all_files_are_whole_numbers_where_the_serde_reads_some(warehouse, tmp_path):
    serdes = Serdes(Serde.json("long"), Serde.json("t long, v long"))
    directory = files_of(tmp_path / "in", 1, INT, FLOAT, CENTS, WHOLE)
    source = with_serdes(FileSource(directory, "parquet", timestamp="t", key="v"), "t", serdes)
    shown = []

    report = land_files(None, warehouse, "t", source, show=shown.append)

    assert changes(report) == []
    assert [(first.file, first.is_first) for first in shown] == [
        ("1.parquet", True), ("2.parquet", False), ("3.parquet", False), ("4.parquet", False)
    ]  # fmt: skip
    assert landed(warehouse, "t", "key", "value") == [
        (b"42", b'{"t":10,"v":42}'),
        (b"42", b'{"t":20,"v":42}'),
        (None, b'{"t":21,"v":null}'),
        (b"42", b'{"t":30,"v":42}'),
        (b"42", b'{"t":40,"v":42}'),
    ]


@pytest.mark.parametrize("number", [42.5, math.nan, 2.0**63])
def test_a_number_that_is_not_whole_is_a_bad_row_where_the_serde_reads_a_long(warehouse, tmp_path, number):
    serdes = Serdes(Serde.string(), Serde.json("t long, v long"))
    directory = files_of(tmp_path / "in", 1, pa.array([number, 43.0]))
    source = with_serdes(FileSource(directory, "parquet", timestamp="t"), "t", serdes)

    land_files(None, warehouse, "t", source, rules=LandingRules(max_bad_share=1.0))

    assert values(warehouse) == [b'{"t":11,"v":43}']
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert letter["reason"].startswith("expected a value that is a long, got ")


@pytest.mark.parametrize("column", [pa.array([7, None], pa.timestamp("us")), pa.array(["7", None]), pa.array([True])])
def test_only_numbers_become_whole_numbers(warehouse, tmp_path, column):
    """
    A time is not the number that Arrow keeps of it, in its unit.
    """
    directory = files_of(tmp_path / "in", 1, column)

    land(warehouse, directory, topic="declared", value=["v"], json_types={"v": "long"})
    land(warehouse, directory, topic="plain", value=["v"])

    assert values(warehouse, "declared") == values(warehouse, "plain")
