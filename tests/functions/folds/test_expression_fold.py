"""A fold of one's own by expressions: by hand, against polars, against the same fold in Python, and refused."""

from collections.abc import Callable
from math import inf, nan
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from kstreams_replay.jobs.code_changes.step_text import describe_fold
from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds.fold import FoldState, WantedUpdates
from kstreams_replay.jobs.functions.folds.fold_program import ADD, EMIT, FoldProgram
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KTable,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    fold,
)
from kstreams_replay.state.compilation.kernel_compilation import interpreted
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys
from tests.topology.streams import STRING, refused, stream, table

PAID = Serde.json("amount int, price double, is_big boolean, page string")
"""What records have beside an aggregate."""

TOTALS = fold.of(
    {"total": 0, "n": 0, "most": None, "last_known": None},
    {
        "total": "aggregate.total + COALESCE(amount, 0)",
        "n": "aggregate.n + 1",
        "most": "GREATEST(aggregate.most, amount)",
        "last_known": "CASE WHEN amount IS NULL THEN aggregate.last_known ELSE price END",
    },
    merge={
        "total": "aggregate.total + other.total",
        "n": "aggregate.n + other.n",
        "most": "GREATEST(aggregate.most, other.most)",
        "last_known": "COALESCE(other.last_known, aggregate.last_known)",
    },
)


def paid(amount: int | None, price: float | None = None, is_big: bool | None = None) -> dict:
    return {"amount": amount, "price": price, "is_big": is_big, "page": None}


# --- by hand ---------------------------------------------------------------------------------------------------

TAPE = ((1, 5, 0.5), (4, None, 9.0), (8, 2, 1.5), (2, 7, 2.5))


@pytest.mark.parametrize(
    ("windows", "want"),
    [
        (None, {None: (14, 4, 7, 2.5)}),
        (TimeWindows.of_size(5, grace=100), {0: (12, 3, 7, 2.5), 5: (2, 1, 2, 1.5)}),
        (
            SlidingWindows.of_time_difference(3, grace=100),
            {0: (12, 2, 7, 2.5), 1: (12, 3, 7, 2.5), 2: (7, 2, 7, 2.5), 3: (0, 1, None, None), 5: (2, 1, 2, 1.5)},
        ),
        (SessionWindows.with_inactivity_gap(3, grace=100), {1: (12, 3, 7, 2.5), 8: (2, 1, 2, 1.5)}),
    ],
    ids=["none", "tumbling", "sliding", "sessions"],
)
def test_it_folds_in_every_kind_of_window(windows, want):
    """
    Sliding windows are those that end with a record, and those that begin after one: [1 to 4] has 5 and null, then 7.
    """
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, PAID)).group_by_key()
    (grouped if windows is None else grouped.windowed_by(windows)).aggregate(TOTALS).to("out")
    driver = TopologyTestDriver(builder.build(), chunk_records=2)
    for time_ms, amount, price in TAPE:
        driver.pipe_input("in", "k", paid(amount, price), timestamp_ms=time_ms)

    found = {None if one.window is None else one.window[0]: one.value for one in driver.read_outputs("out")}

    assert {start: tuple(value.values()) for start, value in found.items() if value is not None} == want


def test_a_plain_aggregate_that_becomes_null_is_deleted_and_begins_again():
    """
    10 + 1 = 11; null; 10 + 3 = 13.
    """
    builder = StreamsBuilder()
    step = "CASE WHEN value = 2 THEN NULL ELSE aggregate + value END"
    stream(builder=builder).group_by_key().aggregate(fold.of(10, step)).to("out")
    driver = TopologyTestDriver(builder.build())
    for value in (1, 2, 3):
        driver.pipe_input("in", "k", value)

    assert [one.value for one in driver.read_outputs("out")] == [11, None, 13]


def test_it_stands_beside_other_folds_and_in_a_windowed_store_that_is_cut_anywhere():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, PAID)).group_by_key()
    grouped.aggregate(n=fold.count(), mine=fold.of({"a": 1.5}, {"a": "aggregate.a * amount"})).to("out")
    driver = TopologyTestDriver(builder.build(), chunk_records=1)
    for amount in (2, 4):
        driver.pipe_input("in", "k", paid(amount))

    assert [one.value for one in driver.read_outputs("out")] == [
        {"n": 1, "mine": {"a": 3.0}},
        {"n": 2, "mine": {"a": 12.0}},
    ]


def test_values_of_a_grouped_table_are_taken_back():
    """
    By group 1 and 0 of what is left when a is 3 (1), b is 4 (0), a is 6 (0), b is deleted.
    """
    builder = StreamsBuilder()
    odd = fold.of(100, "aggregate + 2 * value", subtract="aggregate - 2 * value")
    table(builder=builder).group_by("value % 2").aggregate(odd).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for key, value in (("a", 3), ("b", 4), ("a", 6), ("b", None)):
        driver.pipe_input("t", key, value)

    got = [(one.key, one.value) for one in driver.read_outputs("out")]

    assert got == [(1, 106), (0, 108), (1, 100), (0, 120), (0, 112)]


# --- against polars --------------------------------------------------------------------------------------------

AGGREGATES = {"n": pa.int64(), "m": pa.int64(), "x": pa.float64(), "y": pa.float64(), "b": pa.bool_(), "c": pa.bool_()}
LONGS = (0, 1, -1, 2, 3, -7, 2**62, -(2**63), 2**63 - 1, None, None)
DOUBLES = (0.0, -0.0, 1.0, -1.5, 2.0, 1e300, inf, -inf, nan, None, None)


def expression(dice: Random, kind: str, depth: int) -> str:
    """SQL of a long, a double or a boolean, of an aggregate's and a record's fields."""
    if depth == 0:
        leaves = {
            "long": ("aggregate.n", "aggregate.m", "amount", "3", "-2"),
            "double": ("aggregate.x", "aggregate.y", "price", "CAST(2.5 AS DOUBLE)"),
            "boolean": ("aggregate.b", "aggregate.c", "is_big", "TRUE"),
        }
        return dice.choice(leaves[kind])

    def of(other: str) -> str:
        return expression(dice, other, depth - 1)

    one, other = of(kind), of(kind)
    choices = [
        f"(CASE WHEN {of('boolean')} THEN {one} ELSE {other} END)",
        f"(CASE WHEN {of('boolean')} THEN {one} END)",
        f"COALESCE({one}, {other})",
    ]
    number = dice.choice(("long", "double"))
    if kind == "boolean":
        compared = dice.choice(("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "<=>"))
        choices += [f"({of(number)} {compared} {of(dice.choice((number, 'double')))})"] * 5
        choices += [f"({one} AND {other})", f"({one} OR {other})", f"(NOT {one})", f"({one} = {other})"]
        choices += [f"({of(number)} IS NULL)", f"({of(number)} IS NOT NULL)"]
    else:
        choices += [f"({one} {dice.choice('+-*')} {other})"] * 4
        choices += [
            f"GREATEST({one}, {other})",
            f"LEAST({one}, {other}, {of(kind)})",
            f"ABS({one})",
            f"NULLIF({one}, 3)",
        ]
    if kind == "long":
        divisor = dice.choice((f"GREATEST({other}, 0)", "-3", "0", "7"))  # polars refuses the smallest long by -1
        choices += [f"({one} // {divisor})", f"({one} % {divisor})"] * 2
    if kind == "double":
        choices += [
            f"({of(number)} / {other})",
            f"SQRT({one})",
            f"({of('long')} * {one})",
            f"CAST({of('long')} AS DOUBLE)",
        ]
    return dice.choice(choices)


def drawn(dice: Random, kind: pa.DataType, rows: int) -> pa.Array:
    choices = LONGS if kind == pa.int64() else DOUBLES if kind == pa.float64() else (True, False, None)
    if kind == pa.int32():
        choices = (0, 1, -1, 5, 2**31 - 1, -(2**31) + 1, None)
    return pa.array([dice.choice(choices) for _ in range(rows)], kind)


def batch_of(value: pa.Array) -> Batch:
    rows = len(value)
    return Batch(
        cause=np.arange(rows, dtype=np.int32),
        key=np.zeros(rows, np.int32),
        keys=Keys(STRING),
        time_ms=np.zeros(rows, np.int64),
        valid=np.ones(rows, np.bool_),
        value=Values(value),
    )


def stepped(state: FoldState, aggregates: pa.Array, records: pa.Array) -> pa.Array:
    """Each record added to an aggregate of its own."""
    rows = np.arange(len(records))
    state.grow(len(rows))
    state.load(rows, aggregates)
    program = FoldProgram(np.full(len(rows), ADD | EMIT, np.uint8), rows.astype(np.int32), rows.astype(np.int32))
    return state.run(program, batch_of(records), WantedUpdates(rows, np.full(len(rows), -1), len(rows), 0))[0]


def like(values: list) -> list:
    """With NaN equal to NaN, and doubles alike: polars multiplies with 1/5 where a double is divided by 5."""
    return [pytest.approx(one, rel=1e-12, abs=0, nan_ok=True) if isinstance(one, float) else one for one in values]


@pytest.mark.parametrize("seed", range(8))
def test_an_expression_gives_what_polars_gives(seed):
    dice, rows = Random(seed), 60
    kinds = {"n": "long", "m": "long", "x": "double", "y": "double", "b": "boolean", "c": "boolean"}
    step = {name: expression(dice, kind, 3) for name, kind in kinds.items()}
    types = {"long": "CAST(NULL AS BIGINT)", "double": "CAST(NULL AS DOUBLE)", "boolean": "CAST(NULL AS BOOLEAN)"}
    own = fold.of({name: types[kind] for name, kind in kinds.items()}, step)
    aggregates = pa.StructArray.from_arrays(
        [drawn(dice, kind, rows) for kind in AGGREGATES.values()], names=list(AGGREGATES)
    )
    fields = list(PAID.arrow_type)
    values = [pa.nulls(rows, one.type) if one.name == "page" else drawn(dice, one.type, rows) for one in fields]
    records = pa.StructArray.from_arrays(values, fields=fields)
    frame = pl.from_arrow(pa.table([*records.flatten(), aggregates], names=[*PAID.arrow_type.names, "aggregate"]))

    with interpreted():
        got = stepped(own.start(Shape(STRING, PAID), "here"), aggregates, records)
    compiled = stepped(own.start(Shape(STRING, PAID), "here"), aggregates, records)

    for name, text in step.items():
        want = frame.with_columns(pl.sql_expr(text).alias("got"))["got"].to_list()
        assert got.field(name).to_pylist() == like(want), text
        assert [repr(one) for one in compiled.field(name).to_pylist()] == [
            repr(one) for one in got.field(name).to_pylist()
        ], f"compiled: {text}"


# --- against the same fold in Python -----------------------------------------------------------------------------


def _greatest(one, other):
    return max((each for each in (one, other) if each is not None), default=None)


def _add(key, value, aggregate):
    amount = value["amount"]
    return {
        "total": aggregate["total"] + (amount or 0),
        "n": aggregate["n"] + 1,
        "most": _greatest(aggregate["most"], amount),
        "last_known": aggregate["last_known"] if amount is None else value["price"],
    }


def _merge(key, one, other):
    return {
        "total": one["total"] + other["total"],
        "n": one["n"] + other["n"],
        "most": _greatest(one["most"], other["most"]),
        "last_known": one["last_known"] if other["last_known"] is None else other["last_known"],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "windows",
    [
        None,
        TimeWindows.of_size(20, grace=30).advance_by(7),
        SlidingWindows.of_time_difference(9, grace=30),
        SessionWindows.with_inactivity_gap(6, grace=30),
    ],
    ids=["none", "hopping", "sliding", "sessions"],
)
def test_it_is_the_same_fold_as_in_python_however_it_is_cut(windows):
    dice = Random(str(windows))
    tape = [
        (
            dice.randrange(0, 10) + row // 2,
            dice.choice("abc"),
            paid(dice.choice((None, 1, 2, 30)), dice.choice((None, 0.25))),
        )
        for row in range(90)
    ]

    def played(chunk_records: int | None, aggregated: Callable[[Any], KTable]) -> list:
        builder = StreamsBuilder()
        grouped = builder.stream("in", Consumed(STRING, PAID)).group_by_key()
        aggregated(grouped if windows is None else grouped.windowed_by(windows)).to("out")
        driver = TopologyTestDriver(builder.build(), chunk_records=chunk_records)
        for time_ms, key, value in tape:
            driver.pipe_input("in", key, value, timestamp_ms=time_ms)
        return [(one.key, one.window, one.value, one.timestamp_ms) for one in driver.read_outputs("out")]

    functions = {
        "initializer": lambda: {"total": 0, "n": 0, "most": None, "last_known": None},
        "aggregator": _add,
        "merger": _merge if isinstance(windows, SessionWindows) else None,
        "returns": Serde.json("total long, n long, most long, last_known double"),
    }
    want = played(None, lambda grouped: grouped.aggregate(**functions))

    assert len(want) > 60
    for chunk_records in (None, 1, dice.randrange(2, 30)):
        assert played(chunk_records, lambda grouped: grouped.aggregate(TOTALS)) == want


# --- refused, and said ---------------------------------------------------------------------------------------------


def aggregated(*parts, **more):
    return StreamsBuilder().stream("in", Consumed(STRING, PAID)).group_by_key().aggregate(fold.of(*parts, **more))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("aggregate || page", "integers, doubles or booleans"),
        ("CASE WHEN amount > 1 THEN aggregate ELSE page END", "integers, doubles or booleans"),
        ("aggregate + amont", "did you mean 'amount'?"),
        ("other + amount", "other"),
        ("POW(aggregate, 2.0)", "give initializer=, aggregator="),
        ("aggregate + amount * 1.5", "CAST(… AS DOUBLE)"),
        ("SUM(amount) + aggregate", "one value for each record, from that record alone"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_what_can(step, said):
    assert said in refused(lambda: aggregated(0, step))


def test_its_parts_fit_one_another():
    assert "n in each part" in refused(lambda: fold.of({"n": 0}, {"m": "aggregate.n"}))
    assert "one expression for each part" in refused(lambda: fold.of(0, "aggregate", merge={"n": "other.n"}))
    assert "a type that is known" in refused(lambda: aggregated(None, "COALESCE(aggregate, NULL)"))
    assert "a constant" in refused(lambda: aggregated("other", "aggregate"))
    clash = Consumed(STRING, Serde.json("aggregate int"))
    grouped = StreamsBuilder().stream("in", clash).group_by_key()
    assert "rename" in refused(lambda: grouped.aggregate(fold.of(0, "aggregate + 1")))


def test_sessions_want_a_merge_and_tables_a_subtract():
    grouped = stream().group_by_key().windowed_by(SessionWindows.with_inactivity_gap(5))
    assert 'give for example merge="aggregate + other"' in refused(
        lambda: grouped.aggregate(fold.of(0, "aggregate + 1"))
    )
    by_value = table().group_by("value")
    assert "subtract= beside the step" in refused(lambda: by_value.aggregate(fold.of(0, "aggregate + 1")))
    timed = fold.of(0, "aggregate + record_time_ms", subtract="aggregate - 1")
    assert "put the time into the value" in refused(lambda: by_value.aggregate(timed))


def test_a_long_that_a_double_is_added_to_is_a_double():
    assert aggregated(0, "aggregate + price").shape.value == Serde.double()
    assert aggregated(None, "GREATEST(aggregate, amount)").shape.value == Serde.long()
    assert aggregated("1.5", "aggregate").shape.value == Serde.double()
    assert aggregated(False, "aggregate OR is_big").shape.value == Serde.boolean()


def test_its_words_are_those_that_a_changed_topology_is_compared_by():
    assert describe_fold(fold.of(0, "aggregate + amount")) == "of 0 step aggregate + amount"
    assert (
        describe_fold(
            fold.of({"n": 0}, {"n": "aggregate.n + 1"}, merge={"n": "other.n"}, subtract={"n": "aggregate.n"})
        )
        == "of (0 AS n) step (aggregate.n + 1 AS n) merge (other.n AS n) subtract (aggregate.n AS n)"
    )
