"""Single values: the quick functions of a serde and its column functions give the same bytes, values and errors."""

import datetime as dt
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.topology import Serde
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes.codec import LEFT_TO_COLUMNS
from kstreams_replay.state.serdes.handed_over import HandOver
from kstreams_replay.state.serdes.json_text.json_schema import type_text
from kstreams_replay.state.serdes.packed import packed
from kstreams_replay.state.serdes.single_values import SingleValues
from kstreams_replay.state.serdes.windowed_codec import Windowed
from tests.sampling import examples
from tests.state.serdes.avro.random_schemas import Schemas
from tests.state.serdes.clicks import texts, unhurried
from tests.state.serdes.protobuf.test_protobuf import FILES

OTHERS = (
    None, "", "a", "\ud800", b"", b"\0", 0, -1, 2**31, 2**63, True, 1.5, math.nan, math.inf, -0.0, Decimal("1.10"), (),
    [], [None], {}, {"a": 1}, {None: 1}, np.int32(3), np.float64(0.1), np.bool_(True), np.str_("a"), dt.date(1, 1, 1),
    dt.time(1, 2, 3, 400_000), dt.time(1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1), dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    uuid.UUID(int=1), Windowed("a", 0, 10), Windowed(None, 0, 10), ("a", 5, 7), object(),
)  # fmt: skip
"""Values that are of another type than most serdes have."""


def by_columns(function: Callable[[], Any]) -> tuple[str, str]:
    """What a call gives, or the error that it raises, with the types of all parts."""
    try:
        return "value", shown(function())
    except (ConfigError, OverflowError, pa.ArrowException) as error:
        return "error", f"{type(error).__name__} {error}"


def shown(value: Any) -> str:
    """``repr``, with the types of parts and the order of a dict."""
    if isinstance(value, dict):
        return f"{type(value).__name__}({', '.join(f'{shown(key)}: {shown(one)}' for key, one in value.items())})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    return f"{type(value).__name__} {value!r}"


def check_encode(serde: Serde, value: Any) -> bytes | None:
    """Bytes of a value; the same by both."""
    got = by_columns(lambda: SingleValues(serde).encode(value))
    assert got == by_columns(lambda: serde.encode(serde.from_python([value]))[0].as_py()), (serde, value)
    return SingleValues(serde).encode(value) if got[0] == "value" else None


def check_decode(serde: Serde, data: bytes) -> None:
    """The same value by both."""
    got = by_columns(lambda: SingleValues(serde).decode(data))
    want = by_columns(lambda: serde.to_python(serde.decode(pa.array([data], pa.binary())).values)[0])
    assert got == want, (serde, data)


def check_quick(serde: Serde, data: bytes) -> None:
    """What a serde has written and read again is taken by its quick functions."""
    write, read = serde.codec.value_writer(), serde.codec.value_reader()
    assert write is not None
    assert read is not None
    try:
        assert write(read(data)) == data
    except LEFT_TO_COLUMNS as error:
        raise AssertionError(f"{serde} leaves {data!r} to the column functions") from error


def check(serde: Serde, value: Any, random: Random, *, is_quick: bool = True) -> None:
    """Both ways, and of bytes that were damaged in one place."""
    data = check_encode(serde, value)
    if data is None:
        return
    check_decode(serde, data)
    if is_quick and "nan" not in repr(value) and "inf" not in repr(value):
        check_quick(serde, data)
    for _ in range(3):
        check_decode(serde, damaged(data, random))


def damaged(data: bytes, random: Random) -> bytes:
    """Bytes with one that is other, more or less."""
    at, more = random.randint(0, len(data)), bytes([random.choice((0, 1, 2, 34, 45, 48, 92, 110, 128, 255))])
    return data[:at] + random.choice((more, b"", b" ", more + data[at : at + 1])) + data[at + random.randint(0, 1) :]


# --- Kafka's own serdes

LONGS = st.integers(-(2**63), 2**63 - 1)
SCALARS: list[tuple[Serde, st.SearchStrategy[Any]]] = [
    (Serde.string(), texts),
    (Serde.bytes(), st.binary(max_size=9)),
    (Serde.short(), st.integers(-(2**15), 2**15 - 1)),
    (Serde.int(), st.integers(-(2**31), 2**31 - 1)),
    (Serde.long(), LONGS),
    (Serde.float(), st.floats(width=32)),
    (Serde.double(), st.floats()),
    (Serde.boolean(), st.booleans()),
    (Serde.uuid(), st.uuids()),
    (Serde.variant(), texts | st.integers(1 - 2**56, 2**56 - 1)),
]
NESTED: list[tuple[Serde, st.SearchStrategy[Any]]] = [
    *((Serde.list(serde), st.lists(st.none() | values, max_size=4)) for serde, values in SCALARS),
    (Serde.list(Serde.list(Serde.int())), st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2)),
    (
        Serde.time_windowed(Serde.string(), 10),
        st.builds(lambda key, start: Windowed(key, start, start + 10), texts, st.integers(0, 2**63 - 11)),
    ),
    (
        Serde.time_windowed(Serde.long(), 10, changelog=True),
        st.builds(lambda key, start: (key, start, start + 10), LONGS, st.integers(-3, 2**63 - 11)),
    ),
    (
        Serde.session_windowed(Serde.bytes()),
        st.builds(lambda key, start, size: Windowed(key, start, start + size), st.binary(), LONGS, st.integers(-1, 9)),
    ),
]


@given(data=st.data(), random=st.randoms(use_true_random=False))
@settings(unhurried, max_examples=examples(150))
def test_kafkas_own_serdes_give_the_same_of_a_single_value(data, random):
    serde, values = data.draw(st.sampled_from([*SCALARS, *NESTED]))

    check(serde, data.draw(values), random)


@given(random=st.randoms(use_true_random=False), size=st.integers(0, 14))
@settings(unhurried, max_examples=examples(100))
def test_any_bytes_are_read_the_same(random, size):
    data = bytes(random.choice((0, 0, 1, 2, 97, 255)) for _ in range(size))

    for serde, _ in (*SCALARS, *NESTED):
        check_decode(serde, data)


@pytest.mark.parametrize(
    "serde",
    [
        *(serde for serde, _ in (*SCALARS, *NESTED)),
        Serde.void(),
        packed(key=Serde.string(), n=Serde.long()),
        *map(Serde.json, ("a long", "string", "double", "float", "int", "array<string>", "map<string, long>")),
        *map(Serde.json, ("binary", "date", "time", "timestamp", "timestamp_ntz", "decimal(5,2)", "boolean")),
        Serde.avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}),
        Serde.avro(["null", "string", "long"]),
        Serde.protobuf(FILES, "shop.Order"),
    ],
    ids=repr,
)
def test_values_of_other_types_are_converted_or_refused_by_the_same_sentences(serde):
    for value in OTHERS:
        check_encode(serde, value)
        check_encode(Serde.list(serde), [value])


# --- JSON


def decimals(precision: int, scale: int) -> st.SearchStrategy[Any]:
    unscaled = st.integers(-(10**precision) - 3, 10**precision + 3)
    exact = unscaled.map(lambda number: Decimal(number).scaleb(-scale))
    return exact | st.integers(-20, 20) | st.sampled_from([Decimal("-0"), Decimal("1.500"), Decimal("2E+1")])


TIMES = st.times() | st.times().map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000))
LOCAL = st.datetimes() | st.datetimes().map(lambda one: one.replace(microsecond=0))
ZONED = st.datetimes(
    timezones=st.sampled_from([dt.UTC, ZoneInfo("Europe/Berlin"), dt.timezone(dt.timedelta(hours=-5))])
)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "byte": st.integers(-129, 128),
    "short": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": LONGS,
    "float": st.floats(width=32) | st.floats() | st.integers(-3, 3),
    "double": st.floats() | st.integers(-(2**54), 2**54) | st.integers(-(10**12), 10**12).map(lambda n: n / 10**7),
    "boolean": st.booleans(),
    "binary": st.binary(max_size=7),
    "date": st.dates(),
    "time": TIMES,
    "timestamp": ZONED,
    "timestamp_ntz": LOCAL,
    "decimal(5,2)": decimals(5, 2),
    "decimal(38,10)": decimals(38, 10),
    "decimal(12,12)": decimals(12, 12),
    "decimal(9,0)": decimals(9, 0),
}


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 0) -> tuple[str, st.SearchStrategy[Any]]:
    """A type in the words of Serde.json, and values of it."""
    kind = draw(st.sampled_from(["leaf"] * (2 + depth) + ["array", "map", "struct"])) if depth < 3 else "leaf"
    if kind == "leaf":
        name = draw(st.sampled_from(sorted(LEAVES)))
        return name, LEAVES[name]
    if kind == "struct":
        fields = [(f"f{at} ä", *draw(typed_values(depth + 1))) for at in range(draw(st.integers(1, 3)))]
        words = ", ".join(f"`{name}` {word}" for name, word, _ in fields)
        parts = {name: st.none() | values for name, _, values in fields}
        return f"struct<{words}>", st.fixed_dictionaries(parts) | st.fixed_dictionaries({}, optional=parts)
    word, values = draw(typed_values(depth + 1))
    if kind == "array":
        return f"array<{word}>", st.lists(st.none() | values, max_size=3)
    return f"map<string, {word}>", st.dictionaries(texts, st.none() | values, max_size=3)


@given(data=st.data(), random=st.randoms(use_true_random=False))
@settings(unhurried, max_examples=examples(250))
def test_json_values_of_any_type_are_written_and_read_the_same(data, random):
    word, values = data.draw(typed_values())
    text = word.removeprefix("struct<").removesuffix(">") if word.startswith("struct") else word

    # A zero of a double may be -0 in the text; an escape by number and a NaN are read by columns.
    check(Serde.json(text), data.draw(values), random, is_quick=False)


@pytest.mark.parametrize("kind", sorted(LEAVES))
@given(data=st.data())
@settings(unhurried, max_examples=examples(25))
def test_json_texts_as_they_are_written_are_read_without_columns(kind, data):
    value = data.draw(LEAVES[kind])
    serde = Serde.json(f"a {kind}, b array<{kind}>, c map<string, {kind}>")
    found = {"a": value, "b": [value, None], "c": {"x": value}}
    written = check_encode(serde, found)

    if written is not None and b"\\u" not in written and b"NaN" not in written and b"Infinity" not in written:
        check_quick(serde, written)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1}', '{"a":1,"b":-0}', '{"a":-0,"b":0}', '{"a":1,"b":2,"b":3}', '{"a":1,"b":2,"c":NaN}', '{"b":1e999}',
        '{"a":1.0,"b":2}', '{"a":1,"b":1e400}', '{"b":2.5,"a":1}', ' {"a":1,"b":2.0}\n', '{"a":1,"b":2.0}x', "null",
        '{"a":1,"b":"1"}', '{"a":1,"b":"2.5"}', '{"a":1,"b":"NaN"}', '{"a":1,"b":[1]}',
        '{"a":1,"b":NaN}', '{"a":1,"b":Infinity}', '{"a":"1","b":2.0}', '{"a":true,"b":2.0}', '{"a":1,"b":true}',
        '{"a":null,"b":null}', "[]", '{"a":9223372036854775808,"b":1}', '{"a":1,"b":123456789012345678901234567890}',
        '{"a":01,"b":1}', '{"a":1,"b":2.0,}', "\ufeff{}", '{"a":1,"b":0.0}', '{"a":1,"b":-0.0}', '{"a":1,"b":5}',
    ],
)  # fmt: skip
def test_json_texts_in_other_forms_are_read_by_the_columns_rules(text):
    check_decode(Serde.json("a long, b double"), text.encode())
    check_decode(Serde.json("a int, b float, m map<string, int>"), text.encode())
    check_decode(Serde.json("a long, b decimal(5,2)"), text.encode())


@pytest.mark.parametrize("text", ["a\\u0041", "\\ud83d\\ude00", "\\ud800", "\\n\\/", "\\x", "\t", "ä"])
def test_strings_with_escapes_are_read_the_same(text):
    check_decode(Serde.json("a string"), f'{{"a":"{text}"}}'.encode())
    check_decode(Serde.json("string"), f'"{text}"'.encode())


# --- a serde of one's own, Avro, Protocol Buffers


@given(data=st.data(), random=st.randoms(use_true_random=False))
@settings(unhurried, max_examples=examples(80))
def test_a_serde_of_ones_own_gets_values_of_its_declared_type(data, random):
    word, values = data.draw(typed_values(depth=1))
    kind = Serde.json(f"a {word}").arrow_type.field("a").type
    declared = type_text(kind) if not pa.types.is_struct(kind) else word.removeprefix("struct<").removesuffix(">")
    kept: dict[bytes, Any] = {}

    def encode(value: Any) -> bytes:
        kept[shown(value).encode()] = value
        return shown(value).encode()

    serde = Serde.of(encode, lambda written: kept[written], type=declared)

    check(serde, data.draw(values), random, is_quick=False)


PLAIN: dict[str, Callable[[Random], Any]] = {
    "boolean": lambda random: random.random() < 0.5,
    "int": lambda random: random.choice([0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**31]),
    "long": lambda random: random.choice([0, -1, 8191, 8192, 2**63 - 1, -(2**63), 2**63, 5.0]),
    "float": lambda random: random.choice([0.0, 0.1, -3.5e20, 1e39, 3, math.inf]),
    "double": lambda random: random.choice([0.0, 0.1, -1.7e308, 3, 2**54]),
    "bytes": lambda random: random.randbytes(random.choice([0, 1, 70])),
    "string": lambda random: random.choice(["", "a", "ü€😀", "x" * 70, "\ud800"]),
}
MOMENTS: dict[str, Callable[[Random], Any]] = {
    "uuid": lambda random: str(uuid.UUID(int=random.getrandbits(128))),
    "date": lambda random: dt.date.fromordinal(random.randint(1, 3_000_000)),
    "decimal": lambda random: Decimal(random.randint(-(10**10), 10**10)).scaleb(-random.randint(0, 3)),
    "time": lambda random: dt.time(random.randint(0, 23), 5, 7, random.choice([0, 1_000, 999_999])),
    "timestamp": lambda random: dt.datetime(random.randint(1, 9999), 3, 4, 5, 6, 7, random.randint(0, 999_999), dt.UTC),
    "local": lambda random: dt.datetime(random.randint(1, 9999), 3, 4, 5, 6, 7, random.randint(0, 999_999)),
}


def avro_value(schema: Any, random: Random, *, is_branch_named: bool) -> Any:
    """A value of a schema, as Python has it; some are none."""
    if random.random() < 0.02:
        return random.choice(OTHERS)
    if isinstance(schema, list):
        branch = random.choice(schema)
        found = None if branch == "null" else avro_value(branch, random, is_branch_named=is_branch_named)
        if not is_branch_named or sum(one != "null" for one in schema) == 1:
            return found
        return None if found is None else {branch_name(branch): found}
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if kind == "record":
        fields = {
            field["name"]: avro_value(field["type"], random, is_branch_named=is_branch_named)
            for field in schema["fields"]
        }
        return {name: one for name, one in fields.items() if one is not None or random.random() < 0.7}
    if kind == "array":
        return [
            avro_value(schema["items"], random, is_branch_named=is_branch_named) for _ in range(random.randint(0, 3))
        ]
    if kind == "map":
        return {
            f"k{at}": avro_value(schema["values"], random, is_branch_named=is_branch_named)
            for at in range(random.randint(0, 3))
        }
    if kind == "enum":
        return random.choice([*schema["symbols"], "Z"])
    if kind == "fixed":
        return random.randbytes(schema["size"])
    return PLAIN[kind](random) if logical is None else MOMENTS[logical.partition("-")[0]](random)


def branch_name(branch: Any) -> str:
    return branch if isinstance(branch, str) else branch.get("name", branch["type"])


@given(seed=st.integers(0, 10**6))
@settings(unhurried, max_examples=examples(150))
def test_avro_values_of_any_schema_are_written_and_read_the_same(seed):
    schemas, random = Schemas(seed), Random(seed)
    schema = schemas.record(0)
    serde = random.choice((Serde.avro(schema), Serde.confluent_avro(schema, write_id=seed)))

    for _ in range(6):
        check(serde, avro_value(schema, random, is_branch_named=random.random() < 0.8), random)


MORE_OF_AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "u", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}},
        {"name": "d", "type": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}},
        {"name": "n", "type": {"type": "fixed", "name": "N", "size": 4, "logicalType": "decimal", "precision": 9}},
        {"name": "t", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "e", "type": "long", "default": 7},
        {"name": "o", "type": ["null", "string"], "default": None},
    ],
}


@pytest.mark.parametrize(
    "change",
    [
        {}, {"u": "0F8FAD5B-d9cb-469f-a165-70867728950e"}, {"u": "x"}, {"d": {"months": 2**32, "days": 0, "millis": 0}},
        {"n": Decimal(-128)}, {"n": Decimal(128)}, {"n": Decimal(10**9)}, {"n": Decimal("1.0")}, {"n": Decimal("NaN")},
        {"t": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)}, {"e": None}, {"o": None}, {"x": 1},
    ],
)  # fmt: skip
def test_avros_fixed_types_and_fields_with_defaults(change):
    serde = Serde.avro(MORE_OF_AVRO)
    whole = {
        "u": "0f8fad5b-d9cb-469f-a165-70867728950e", "d": {"months": 1, "days": 2, "millis": 3}, "n": Decimal(5),
        "t": dt.datetime(2026, 1, 1), "e": 1, "o": "a",
    }  # fmt: skip

    check(serde, whole | change, Random(1))
    check(serde, {name: one for name, one in (whole | change).items() if name not in ("e", "o")}, Random(2))


def test_what_another_avro_schema_wrote_is_read_by_columns():
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, *MORE_OF_AVRO["fields"][-2:]]}
    both = Serde.confluent_avro(new, ids={1: old, 2: new})
    (data,) = (SingleValues(Serde.confluent_avro(old, write_id=one)).encode({"a": 5}) for one in (1,))

    assert SingleValues(both).decode(data) == {"a": 5, "e": 7, "o": None}
    assert SingleValues(Serde.avro(new, writer=old)).decode(data[5:]) == {"a": 5, "e": 7, "o": None}
    assert SingleValues(both).decode(b"\0\0\0\0\3" + data[5:]) is None


@given(data=st.data(), random=st.randoms(use_true_random=False))
@settings(unhurried, max_examples=examples(80))
def test_messages_of_protocol_buffers_are_written_and_read_the_same(data, random):
    parts = {
        "item": texts, "amount": st.integers(-(2**31), 2**31), "state": st.sampled_from(["NEW", "PAID", "7", "OLD"]),
        "tags": st.lists(texts, max_size=2), "place": st.none() | st.fixed_dictionaries({"city": texts}),
        "note": st.none() | texts, "serial": st.integers(-1, 2**64) | st.integers(0, 2**64 - 1).map(Decimal),
        "sizes": st.dictionaries(texts, LONGS, max_size=3),
    }  # fmt: skip
    plain, behind_id = Serde.protobuf(FILES, "shop.Order"), Serde.confluent_protobuf(FILES, "shop.Order", write_id=7)
    value = data.draw(st.fixed_dictionaries({}, optional=parts) | st.fixed_dictionaries(parts))

    for serde in (plain, behind_id):
        check(serde, value, random)


BEYOND = {
    "after 9999": dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    "before 1": dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5))),
}
INSTANTS = {
    "json": Serde.json("timestamp"),
    "avro": Serde.avro({"type": "long", "logicalType": "timestamp-micros"}),
    "own": Serde.of(lambda value: b"x", lambda data: None, type="timestamp"),
    "list": Serde.json("array<timestamp>"),
}


@pytest.mark.parametrize("name", INSTANTS)
@pytest.mark.parametrize("at", BEYOND)
def test_a_time_that_is_none_of_pythons_in_utc_is_refused(name, at):
    serde, value = INSTANTS[name], [BEYOND[at]] if name == "list" else BEYOND[at]

    for refused in (lambda: serde.from_python([value]), lambda: HandOver(serde.codec).take(value)):
        with pytest.raises(ConfigError, match=r"row 0.*expected a datetime .* of the years 1 to 9999 in UTC, got"):
            refused()
    last = dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))
    assert HandOver(INSTANTS["json"].codec).take(last) == last


@pytest.mark.parametrize("zone", [dt.UTC, ZoneInfo("UTC")], ids=repr)
def test_a_time_in_utc_has_no_fold_where_it_is_taken_or_encoded(zone):
    """Python keeps the fold of a time that is in UTC already; a column does not."""
    seen = []
    serde = Serde.of(lambda value: seen.append(value.fold) or b"x", lambda data: None, type="timestamp")
    twice = dt.datetime(2000, 1, 1, tzinfo=zone, fold=1)

    SingleValues(serde).encode(twice)

    assert seen == [0]
    assert HandOver(Serde.json("timestamp").codec).take(twice).fold == 0
