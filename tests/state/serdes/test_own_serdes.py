"""Serdes of the user's own: on single values and on columns, what they refuse, and how they are compared."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder
from kstreams_replay.state.errors import ConfigError, TaskFailed
from tests.state.serdes.clicks import decode


def to_bytes(value: dict[str, Any]) -> bytes:
    return f"{value['user']};{value['ms']}".encode()


def from_bytes(data: bytes) -> dict[str, Any]:
    user, ms = data.decode().split(";")
    return {"user": user, "ms": int(ms)}


CSV = Serde.of(to_bytes, from_bytes, type="user string, ms long")
UPPER = Serde.of(
    lambda texts: pc.utf8_upper(texts).cast(pa.binary()),
    lambda data: pc.utf8_lower(data.cast(pa.string())),
    type="string",
    arrow=True,
)


def test_values_go_through_functions_of_ones_own_and_null_does_not():
    column = CSV.from_python([{"user": "ann", "ms": 5}, None])

    assert CSV.encode(column).to_pylist() == [b"ann;5", None]
    assert decode(CSV, b"ann;5", None, b";7") == ([{"user": "ann", "ms": 5}, None, {"user": "", "ms": 7}], {})
    assert CSV.sizes(column).tolist() == [5, 0]


def test_what_decode_raises_or_gives_of_another_type_is_a_reason():
    odd = Serde.of(str.encode, lambda data: data.decode() if data != b"7" else 7, type="string")

    assert decode(CSV, b"ann", b"a;1", b"b;x") == (
        [None, {"user": "a", "ms": 1}, None],
        {
            0: "ValueError: not enough values to unpack (expected 2, got 1)",
            2: "ValueError: invalid literal for int() with base 10: 'x'",
        },
    )
    assert decode(odd, b"a", b"7") == (["a", None], {1: "expected a str, got 7 (int)"})


def test_columns_go_through_at_once_and_a_bad_row_is_found():
    assert UPPER.encode(pa.array(["a", None, "b"])).to_pylist() == [b"A", None, b"B"]
    assert decode(UPPER, b"A", None, b"B") == (["a", None, "b"], {})

    _, reasons = decode(UPPER, b"A", b"\xff", b"B")
    assert list(reasons) == [1]
    assert reasons[1].startswith("ArrowInvalid: Invalid UTF8")


def test_functions_of_columns_must_give_as_many_and_null_is_what_cannot_be_read():
    short = Serde.of(lambda column: column.cast(pa.binary()), lambda column: column.slice(1), type="binary", arrow=True)
    none = Serde.of(lambda column: column, lambda column: pa.nulls(len(column), pa.binary()), type="binary", arrow=True)

    _, reasons = decode(short, b"a")
    assert reasons == {
        0: "ConfigError: decode of a serde: expected an Arrow array of 1 values, got 0 values; "
        "correct the functions of the serde, or its type"
    }
    assert decode(none, b"a", None) == ([None, None], {0: "expected a value, got null of decode"})


@pytest.mark.parametrize(
    ("encode", "refusal"),
    [
        (lambda value: 1 // 0, "expected bytes of 'a', got ZeroDivisionError"),
        (lambda value: "text", r"expected bytes of encode, got 'text' \(str\)"),
    ],
)
def test_what_encode_cannot_write_ends_the_run(encode, refusal):
    with pytest.raises(ConfigError, match=refusal):
        Serde.of(encode, bytes.decode, type="string").encode(pa.array(["a"]))


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("x", bytes.decode, "string"), "Serde.of, encode: expected a callable of one value, got 'x'"),
        ((str.encode, None, "string"), "Serde.of, decode: expected a callable of one value, got None"),
        ((str.encode, bytes.decode, pa.string()), "Serde.of, type: expected a type in the words of Serde.json"),
        ((str.encode, bytes.decode, "text"), "Serde.json: expected a type"),
    ],
)
def test_what_is_no_function_or_no_type_is_refused(arguments, refusal):
    encode, decode_one, kind = arguments
    with pytest.raises(ConfigError, match=refusal):
        Serde.of(encode, decode_one, type=kind)


def test_another_code_is_another_name():
    one = Serde.of(lambda value: value.encode(), bytes.decode, type="string")
    other = Serde.of(lambda value: value.upper().encode(), bytes.decode, type="string")
    again = Serde.of(lambda value: value.encode(), bytes.decode, type="string")

    assert repr(one) == repr(again)
    assert repr(one) != repr(other)
    assert 'type="string"' in repr(one)


def test_a_topology_reads_and_groups_by_serdes_of_ones_own():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(UPPER, CSV)).filter("ms > 1")
    stream.select_key("user").repartition().group_by_key().count().to("by_user")
    stream.group_by_key().count().to("by_key")
    driver = TopologyTestDriver(builder.build())

    for key, value in ((b"A", b"ann;5"), (b"a", b"bob;6"), (b"A", b"ann;1"), (b"A", b"ann")):
        driver.pipe_bytes("in", key, value, 0)

    assert [(one.key, one.value) for one in driver.read_outputs("by_key")] == [("a", 1), ("a", 2)]
    assert [(one.key, one.value) for one in driver.read_outputs("by_user")] == [("ann", 1), ("bob", 1)]


TENTHS = Serde.of(lambda number: f"{number:.1f}".encode(), float, type="double")
COLUMN_TENTHS = Serde.of(
    lambda numbers: pc.round(numbers, 1).cast(pa.string()).cast(pa.binary()),
    lambda data: data.cast(pa.string()).cast(pa.float64()),
    type="double",
    arrow=True,
)


@pytest.mark.parametrize("way", ["grouped", "regrouped"])
@pytest.mark.parametrize(
    ("serde", "read"),
    [(TENTHS, lambda one: one), (COLUMN_TENTHS, lambda one: one), (Serde.list(TENTHS), lambda one: one[0])],
)
def test_an_aggregator_sees_what_decode_reads_of_its_aggregate(way, serde, read):
    """As Kafka's aggregator, whose store keeps bytes."""
    seen: list[Any] = []

    def add(key: str, value: float, aggregate: Any) -> Any:
        seen.append(read(aggregate))
        return [read(aggregate) + value] if serde == Serde.list(TENTHS) else aggregate + value

    zero = [0.0] if serde == Serde.list(TENTHS) else 0.0
    consumed = Consumed(Serde.string(), Serde.double())
    builder = StreamsBuilder()
    if way == "grouped":
        grouped = builder.stream("in", consumed).group_by_key()
        table = grouped.aggregate(lambda: zero, add, materialized=Materialized.as_("kept"), returns=serde)
    else:
        regrouped = builder.table("in", consumed).group_by("'g'")
        table = regrouped.aggregate(
            lambda: zero, add, lambda k, v, a: a, materialized=Materialized.as_("kept"), returns=serde
        )
    table.to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for key in ("k", "k" if way == "grouped" else "l"):
        driver.pipe_input("in", key, 0.26)

    assert [read(record.value) for record in driver.read_outputs("out")] == [0.3, 0.6]
    assert seen == [0.0, 0.3]
    assert read(driver.get_key_value_store("kept").all()[0][1]) == 0.6
    assert [read(record.value) for record in driver.read_outputs("kept-changelog")] == [0.3, 0.6]


def test_an_aggregate_that_decode_cannot_read_ends_the_run():
    unread = Serde.of(lambda number: b"x", float, type="double")
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), Serde.double())).group_by_key()
    grouped.aggregate(lambda: 0.0, lambda key, value, aggregate: value, returns=unread).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", 1.5)

    with pytest.raises(TaskFailed, match=r"could not convert string to float: b'x', of 1.5 on key 'k'"):
        driver.run()
