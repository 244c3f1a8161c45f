"""Lists, structs, maps, decimals, dates, times, timestamps and binary in expressions, folds and joins."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from kstreams_replay.jobs.functions import folds as fold
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, KTable, Serde, StreamsBuilder
from kstreams_replay.state.errors import TaskFailed, TopologyError

VALUE = Serde.json(
    "n int, price decimal(10,2), wide decimal(38,2), day date, at time, ts timestamp, name string, data binary, "
    "tags array<string>, attrs map<string, int>, place struct<lat double, floor short>, ratio float, floor short"
)
UTC = dt.timezone.utc  # noqa: UP017 (the zone that values have is another object)
FIRST = {
    "n": 1, "price": Decimal("1.50"), "wide": Decimal("1.00"), "day": dt.date(2026, 1, 5), "at": dt.time(5),
    "ts": dt.datetime(2026, 1, 1, tzinfo=UTC), "name": "b", "data": b"\xff", "tags": ["x", None], "attrs": {"a": 1},
    "place": {"lat": 1.0, "floor": 2}, "ratio": 0.5, "floor": 3,
}  # fmt: skip
SECOND = {
    "n": 2, "price": Decimal("-2.25"), "wide": Decimal("3.00"), "day": dt.date(2026, 1, 2), "at": dt.time(4),
    "ts": dt.datetime(2026, 1, 2, tzinfo=UTC), "name": "ä", "data": b"\x7f", "tags": [], "attrs": {},
    "place": {"lat": None, "floor": None}, "ratio": None, "floor": 4,
}  # fmt: skip
NOTHING = dict.fromkeys(FIRST)

Build = Callable[[KStream], KStream | KTable]


def outputs(build: Build, *values: dict[str, Any]) -> list[Any]:
    builder = StreamsBuilder()
    build(builder.stream("in", Consumed(Serde.string(), VALUE))).to("out")
    driver = TopologyTestDriver(builder.build())
    for number, value in enumerate(values):
        driver.pipe_input("in", "k", value, timestamp_ms=number)
    return [record.value for record in driver.read_outputs("out")]


@pytest.mark.parametrize("name", FIRST)
def test_a_field_of_any_type_goes_through_a_step_as_it_is(name):
    assert outputs(lambda stream: stream.map_values(name), FIRST) == [FIRST[name]]
    assert outputs(lambda stream: stream.map_values(kept=name, again=name), FIRST, NOTHING) == [
        {"kept": FIRST[name], "again": FIRST[name]},
        {"kept": None, "again": None},
    ]


@pytest.mark.parametrize(
    ("step", "want"),
    [
        ("n * 1.5", Decimal("1.5")),
        ("n + 0.25", Decimal("1.25")),
        ("price * 2", Decimal("3.00")),
        ("CAST(price AS DOUBLE)", 1.5),
        ("price > 1.49", True),
        ("EXTRACT(DAY FROM day)", 5),
        ("day > DATE '2026-01-04'", True),
        ("place.floor", 2),
        ("floor + 1", 4),
        ("name || '!'", "b!"),
    ],
)
def test_a_step_computes_with_such_types(step, want):
    assert outputs(lambda stream: stream.map_values(step), FIRST) == [want]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("kind", ["last", "first", "collect", "min_by", "max_by", "latest"])
def test_a_fold_takes_and_gives_any_type(kind, name):
    made = getattr(fold, kind)(name, "n") if kind.endswith("_by") else getattr(fold, kind)(name)

    got = outputs(lambda stream: stream.group_by_key().aggregate(made), FIRST, SECOND)

    second = FIRST[name] if kind in ("first", "min_by") else SECOND[name]
    want = [FIRST[name], second] if kind != "collect" else [[FIRST[name]], [FIRST[name], SECOND[name]]]
    assert got == want


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (fold.sum("price"), [Decimal("1.50"), Decimal("-0.75"), Decimal("-0.75")]),
        (fold.sum("n * 1.5"), [Decimal("1.5"), Decimal("4.5"), Decimal("4.5")]),
        (fold.mean("price"), [1.5, -0.375, -0.375]),
        (fold.var_pop("price"), [0.0, 3.515625, 3.515625]),
        (fold.stddev_pop("price"), [0.0, 1.875, 1.875]),
        (fold.min("price"), [Decimal("1.50"), Decimal("-2.25"), Decimal("-2.25")]),
        (fold.max("price"), [Decimal("1.50")] * 3),
        (fold.min("day"), [dt.date(2026, 1, 5), dt.date(2026, 1, 2), dt.date(2026, 1, 2)]),
        (fold.max("at"), [dt.time(5)] * 3),
        (fold.max("ts"), [FIRST["ts"], SECOND["ts"], SECOND["ts"]]),
        (fold.max("name"), ["b", "ä", "ä"]),  # by code points, as UTF-8 is ordered
        (fold.min("data"), [b"\xff", b"\x7f", b"\x7f"]),
        (fold.min_by("name", "day"), ["b", "ä", "ä"]),
        (fold.max_by("name", "price"), ["b", "b", "b"]),
        (fold.min_by("name", "ts"), ["b", "b", "b"]),
        (fold.top(1, by="at", of="tags"), [[["x", None]], [["x", None]], [["x", None]]]),
        (fold.count_distinct("day"), [1, 2, 2]),
        (fold.max("floor"), [3, 4, 4]),
        (fold.max("ratio"), [0.5, 0.5, 0.5]),
    ],
)
def test_folds_compute_with_such_types_and_pass_null_over(made, want):
    assert outputs(lambda stream: stream.group_by_key().aggregate(x=made), FIRST, SECOND, NOTHING) == [
        {"x": value} for value in want
    ]


def test_a_sum_of_nothing_but_nulls_is_zero_and_a_smallest_is_null():
    got = outputs(lambda stream: stream.group_by_key().aggregate(s=fold.sum("price"), m=fold.min("day")), NOTHING)

    assert got == [{"s": Decimal("0.00"), "m": None}]


def test_a_sum_that_needs_more_than_38_digits_ends_the_run_and_says_so():
    largest = FIRST | {"wide": Decimal(10**36 - 1)}

    with pytest.raises(TaskFailed, match="expected a sum of at most 38 digits, got 1000000000000000000000000000000000"):
        outputs(lambda stream: stream.group_by_key().aggregate(fold.sum("wide")), largest, FIRST)


def test_a_decimal_of_more_digits_than_a_long_is_no_rank():
    with pytest.raises(TopologyError, match=r"of up to 18 digits to rank by.*CAST\(... AS DECIMAL\(18, 2\)\)"):
        outputs(lambda stream: stream.group_by_key().aggregate(fold.max_by("name", "wide")))


def test_what_cannot_be_a_value_is_refused_with_what_can():
    with pytest.raises(TopologyError, match=r"expected a result of type string, .*Duration.*; cast it to one of these"):
        outputs(lambda stream: stream.map_values("day - DATE '2026-01-01'"))


def test_a_join_gives_fields_of_any_type_of_both_sides():
    builder = StreamsBuilder()
    table = builder.table("table", Consumed(Serde.string(), VALUE))
    stream = builder.stream("in", Consumed(Serde.string(), VALUE))
    fields = {f"{side[0]}_{name}": f"{side}.{name}" for side in ("left", "right") for name in FIRST}
    stream.left_join(table, **fields).to("out")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("in", "k", FIRST, timestamp_ms=0)
    driver.pipe_input("table", "k", SECOND, timestamp_ms=1)
    driver.pipe_input("in", "k", FIRST, timestamp_ms=2)

    left = {f"l_{name}": value for name, value in FIRST.items()}
    got = [record.value for record in driver.read_outputs("out")]
    assert got == [left | {f"r_{n}": None for n in FIRST}, left | {f"r_{n}": value for n, value in SECOND.items()}]


@pytest.mark.parametrize("name", FIRST)
def test_a_key_of_any_type_is_grouped_by_and_comes_out(name):
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), VALUE))
    stream.select_key(name).group_by_key().count().to("out")
    driver = TopologyTestDriver(builder.build())
    for number, value in enumerate((FIRST, SECOND, FIRST)):
        driver.pipe_input("in", "k", value, timestamp_ms=number)

    got = [(record.key, record.value) for record in driver.read_outputs("out")]

    second = [] if SECOND[name] is None else [(SECOND[name], 1)]  # Kafka drops a null key
    assert got == [(FIRST[name], 1), *second, (FIRST[name], 2)]


def test_python_steps_get_and_give_such_types():
    def doubled(key: str, value: dict[str, Any]) -> dict[str, Any]:
        assert value == FIRST
        return {"price": value["price"] * 2, "attrs": value["attrs"] | {"b": 2}, "day": value["day"]}

    serde = Serde.json("price decimal(10,2), attrs map<string, int>, day date")
    assert outputs(lambda stream: stream.map_values(doubled, returns=serde), FIRST) == [
        {"price": Decimal("3.00"), "attrs": {"a": 1, "b": 2}, "day": dt.date(2026, 1, 5)}
    ]


def test_a_grouped_table_takes_such_values_back():
    builder = StreamsBuilder()
    table = builder.table("in", Consumed(Serde.string(), VALUE))
    table.group_by("n * 0").aggregate(
        total=fold.sum("price"), mean=fold.mean("price"), first=fold.min("day"), last=fold.max("name"),
        least=fold.max("wide"), by=fold.max_by("tags", "at"), top=fold.top(1, "ts", "attrs"), all=fold.collect("place"),
    ).to("out")  # fmt: skip
    driver = TopologyTestDriver(builder.build())

    for key, value in (("a", FIRST), ("b", SECOND), ("a", None)):
        driver.pipe_input("in", key, value, timestamp_ms=0)

    got = [record.value for record in driver.read_outputs("out")]
    of_first = {
        "total": Decimal("1.50"), "mean": 1.5, "first": FIRST["day"], "last": "b", "least": FIRST["wide"],
        "by": ["x", None], "top": [{"a": 1}], "all": [FIRST["place"]],
    }  # fmt: skip
    of_second = {
        "total": Decimal("-2.25"), "mean": -2.25, "first": SECOND["day"], "last": "ä", "least": SECOND["wide"],
        "by": [], "top": [{}], "all": [SECOND["place"]],
    }  # fmt: skip
    of_both = {
        "total": Decimal("-0.75"), "mean": -0.375, "first": SECOND["day"], "last": "ä", "least": SECOND["wide"],
        "by": ["x", None], "top": [{}], "all": [FIRST["place"], SECOND["place"]],
    }  # fmt: skip
    assert got == [of_first, of_both, of_second]


def test_a_step_that_is_a_column_or_a_field_keeps_its_narrow_type_and_a_computed_one_does_not():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), VALUE))
    table = builder.table("table", Consumed(Serde.string(), VALUE))
    joined = stream.join(table, a="left.floor", b="right.ratio", c="right.floor * 2")
    fields = stream.map_values(a="floor AS renamed", b="ratio", c="place.floor", d="floor + 1", e="ratio * 2")

    assert stream.map_values("floor").shape.value == Serde.short()
    assert stream.map_values("ratio").shape.value == Serde.float()
    assert stream.select_key("floor").shape.key == Serde.short()
    assert joined.shape.value == Serde.json("a short, b float, c int")
    assert fields.shape.value == Serde.json("a short, b float, c short, d int, e double")
    assert stream.group_by_key().aggregate(fold.collect("floor")).shape.value == Serde.json("array<short>")
