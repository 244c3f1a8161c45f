"""Expressions: checked when the topology is built, one value a record, whatever is beside it."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.expressions import RESERVED, Shape, bind, bind_predicate
from kstreams_replay.state.errors import TaskFailed, TopologyError
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde

FLIGHT = Serde.json("dest string, minutes long, miles double, stops array<string>, late boolean")
SHAPE = Shape(Serde.string(), FLIGHT)
COLUMNS = "dest, minutes, miles, stops, late, record_key, record_time_ms"


def batch_of(values: list, serde: Serde) -> Batch:
    n, keys = len(values), Keys(Serde.string())
    codes = keys.intern(pa.array([b"k"] * n, pa.binary()))
    valid = np.array([value is not None for value in values], np.bool_)
    times = np.arange(n, dtype=np.int64)
    return Batch(np.arange(n, dtype=np.int32), codes, keys, times, valid, Values(serde.from_python(values)))


def answers(expressible, values: list, serde: Serde | None = None) -> list:
    serde = serde or Serde.long()
    return bind(expressible, Shape(Serde.string(), serde), "step").evaluate(batch_of(values, serde)).to_pylist()


@pytest.mark.parametrize(
    ("expressible", "result"),
    [
        ("minutes / 60 AS hours", Serde.double()),
        ("CASE WHEN minutes > 60 THEN 'long' ELSE 'short' END", Serde.string()),
        ("minutes IN (1, 2)", Serde.boolean()),
        ("COALESCE(minutes, 0)", Serde.long()),
        ("UPPER(dest)", Serde.string()),
        ("dest LIKE '%X'", Serde.boolean()),
        (pl.col("minutes").cast(pl.Int8), Serde.int()),
        (pl.col("dest").str.len_bytes(), Serde.long()),
        (pl.col("miles").cast(pl.Float32), Serde.double()),
        (pl.col("stops").list.len(), Serde.long()),
        (pl.struct("dest", "stops"), Serde.json("dest string, stops array<string>")),
        (pl.lit("x"), Serde.string()),
        (pl.col("record_time_ms") - 1, Serde.long()),
        (pl.col("record_key").cast(pl.Binary), Serde.bytes()),
    ],
    ids=str,
)
def test_an_expression_has_the_serde_of_its_result(expressible, result):
    assert bind(expressible, SHAPE, "step").result == result


@pytest.mark.parametrize(
    ("expressible", "message"),
    [
        (
            "minuets + 1",
            f'step: expected columns of {COLUMNS}, got minuets + 1: unable to find column "minuets"; '
            "correct the name or the declared serde; did you mean 'minutes' or 'miles'?",
        ),
        (
            pl.col("minuets") + 1,
            f'step: expected columns of {COLUMNS}, got [(col("minuets")) + (dyn int: 1)]: '
            'unable to find column "minuets"; correct the name or the declared serde; '
            "did you mean 'minutes' or 'miles'?",
        ),
        (pl.col("window_start_ms"), f"step: expected columns of {COLUMNS}, got col("),
        ("minutes +", "step: expected an expression that polars can compute, got minutes + ("),
        ("minutes, miles", "step: expected an expression that polars can compute, got minutes, miles ("),
        ("", "step: expected an expression that polars can compute, got  ("),
        (pl.col("dest") + pl.col("minutes"), "step: expected an expression that polars can compute, got [(col("),
        (5, "step: expected a polars expression or SQL text, got 5; use pl.col(...), or text"),
        (None, "step: expected a polars expression or SQL text, got None; use pl.col(...), or text"),
        (pl.all(), f"step: expected an expression of one column, named, got cs.all(), which gives {COLUMNS}; "),
        (pl.col("dest", "minutes"), "step: expected an expression of one column, named, got cs.by_name("),
        (
            pl.col("^d.*$"),
            'step: expected an expression of one column, named, got cs.matches("^d.*$"), which gives dest; ',
        ),
        (
            pl.duration(hours=1),
            "step: expected a result of type string, int, long, double, decimal(p,s), boolean, binary, date, time, "
            "timestamp, array<…>, map<string, …>, …, got",
        ),
    ],
    ids=str,
)
def test_an_expression_that_cannot_work_is_refused_at_once(expressible, message):
    with pytest.raises(TopologyError) as caught:
        bind(expressible, SHAPE, "step")

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "expressible",
    [
        "SUM(minutes)",
        "COUNT(*)",
        "ROW_NUMBER() OVER (ORDER BY minutes)",
        pl.len(),
        pl.col("minutes").sum(),
        (pl.col("minutes") - pl.col("record_time_ms")).sum(),
        pl.col("minutes").cum_sum(),
        pl.col("minutes").shift(1),
        pl.col("minutes").diff(),
        pl.col("minutes").rank(),
        pl.col("minutes").sort(),
        pl.col("minutes").reverse(),
        pl.col("minutes").head(2),
        pl.col("minutes").filter(pl.col("minutes") > 1),
        pl.col("minutes").sum().over("dest"),
        pl.col("minutes").fill_null(strategy="forward"),
        pl.col("minutes").fill_null(strategy="backward"),
        pl.col("minutes").fill_null(pl.col("minutes").mean()),
        pl.col("minutes").is_first_distinct(),
        pl.col("dest").is_duplicated(),
        pl.col("stops").explode(),
        pl.int_range(pl.len()),
        pl.lit(pl.Series([1, 2])),
        "minutes < 100 OR minutes = MAX(minutes)",
        "CASE WHEN minutes > 100 THEN SUM(minutes) ELSE minutes END",
        "CASE WHEN minutes IN (1, 2) THEN minutes ELSE COUNT(*) END",
        "CASE WHEN minutes > 100 THEN SUM(CASE WHEN minutes IN (1, 2) THEN 1 ELSE 0 END) END",
        pl.col("minutes").shift(6),
        pl.col("minutes").rolling_sum(7),
        pl.col("dest").str.to_date("%Y-%m-%d").cum_max(),
        pl.col("dest").str.to_datetime(),  # has the format of the first row
        pl.when(pl.col("minutes").is_in([100])).then(pl.col("stops").list.eval(pl.element().len()).first()),
    ],
    ids=str,
)
def test_an_expression_that_looks_at_other_records_is_refused(expressible):
    """
    Batches begin and end anywhere, so a sum over one would be a sum over an accident.
    """
    with pytest.raises(TopologyError, match=r"one value for each record, from that record alone, got .*; use an agg"):
        bind(expressible, SHAPE, "step")


@pytest.mark.parametrize(
    "expressible",
    [
        pl.col("stops").list.first(),
        pl.max_horizontal("minutes", "record_time_ms"),
        pl.col("dest").str.to_date("%d.%m.%Y").dt.year(),  # fails on made-up text: the benefit of the doubt
        pl.when(pl.col("late")).then(pl.col("minutes")),
        pl.format("{}-{}", pl.col("dest"), pl.col("minutes")),
        "CASE WHEN dest IN ('a', 'b') OR NOT (minutes IN (1, 2)) THEN minutes END",
        pl.col("stops").list.eval(pl.element().filter(pl.element() != "x").sort().head(pl.len() - 1)),
        pl.struct("dest", "minutes").struct.with_fields(pl.field("minutes") + 1),
        pl.fold(0, lambda left, right: left + right, [pl.col("minutes"), pl.col("record_time_ms")]),
        pl.lit(2).sum() * pl.col("minutes"),
    ],
    ids=str,
)
def test_an_expression_of_one_record_is_taken(expressible):
    bind(expressible, SHAPE, "step")


@pytest.mark.parametrize(
    ("expressible", "message"),
    [
        ("minutes", "step: expected a condition, got minutes, which gives Serde.long(); compare with =="),
        (pl.lit("x"), "step: expected a condition, got String(x), which gives Serde.string(); compare with =="),
    ],
    ids=str,
)
def test_a_predicate_that_is_no_condition_is_refused(expressible, message):
    with pytest.raises(TopologyError) as caught:
        bind_predicate(expressible, SHAPE, "step")

    assert str(caught.value).split(", got")[0] == message.split(", got")[0]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("NOW()", "NOW"),
        ("CAST(now ( ) AS VARCHAR)", "now"),
        ("CAST(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) AS BIGINT)", "CURRENT_TIMESTAMP"),
        ("CURRENT_DATE() AS day", "CURRENT_DATE"),
        ("CASE WHEN minutes > 1 THEN CURRENT_TIME ELSE LOCALTIME END", "CURRENT_TIME"),
        ("LOCALTIMESTAMP", "LOCALTIMESTAMP"),
    ],
)
def test_the_wall_clock_is_refused_since_each_run_would_have_another_value(text, word):
    with pytest.raises(TopologyError) as caught:
        bind(text, SHAPE, "step")

    assert str(caught.value) == (
        f"step: expected a step that gives the same in every run, got {text}, in which {word} is the wall clock; "
        "use record_time_ms, or give a constant"
    )


@pytest.mark.parametrize(
    "text", ["now", "now + 1", "current_date", '"current_date" + 1', "'NOW()'", "1 AS current_date", "current_date > 1"]
)
def test_a_field_or_text_that_is_called_as_the_clock_is_no_clock(text):
    bind(text, Shape(Serde.string(), Serde.json("now long, current_date long")), "step")


@pytest.mark.parametrize("name", RESERVED)
def test_a_value_field_may_not_have_a_reserved_name(name):
    with pytest.raises(TopologyError, match=f"value fields: expected names other than .*, got {name}; rename"):
        Shape(Serde.string(), Serde.json(f"{name} long, other long"))


@pytest.mark.parametrize("values", [[], [5], [5, None, 7]], ids=len)
def test_a_constant_is_as_long_as_the_batch(values):
    assert answers(pl.lit(1), values) == [1] * len(values)
    assert answers("'x'", values) == ["x"] * len(values)
    assert answers(pl.lit([1, 2]), values) == [[1, 2]] * len(values)
    assert answers(pl.lit({"n": 1}), values) == [{"n": 1}] * len(values)
    assert answers(pl.lit(None, pl.Int64), values) == [None] * len(values)


@pytest.mark.parametrize("values", [[], [5], [5, None, 7]], ids=len)
def test_an_expression_of_a_column_is_as_long_as_the_batch(values):
    assert answers("value * 2", values) == [None if value is None else value * 2 for value in values]


def test_the_remainder_has_the_sign_of_the_divisor_in_polars_and_of_the_dividend_in_sql():
    assert answers(pl.col("value") % 3, [-7, -1, 0, 1, 7]) == [2, 2, 0, 1, 1]
    assert answers("value % 3", [-7, -1, 0, 1, 7]) == [-1, -1, 0, 1, 1]


def test_a_variant_stays_one_through_an_expression():
    values = [5, "x", None]

    got = bind(pl.col("value"), Shape(Serde.string(), Serde.variant()), "step")

    assert got.result == Serde.variant()
    assert got.result.to_python(got.evaluate(batch_of(values, Serde.variant()))) == values


def test_a_number_that_does_not_fit_the_declared_type_fails_with_the_node():
    with pytest.raises(TaskFailed, match=r"step: expected values that fit Serde.long\(\), got "):
        answers(pl.col("value").cast(pl.UInt64) + pl.lit(2**63, pl.UInt64), [5])


def test_an_expression_that_fails_on_a_value_fails_with_the_node():
    with pytest.raises(TaskFailed, match=r"step: expected values that the expression can compute, got .*; correct"):
        answers(pl.col("value").cast(pl.Int8), [5, 300])


# --- tombstones ------------------------------------------------------------------------------------------------

NULLS = {"dest": None, "minutes": None, "miles": None, "stops": None, "late": None}


def test_a_tombstone_is_told_from_a_row_of_nulls():
    assert answers("value_is_null", [None, NULLS], FLIGHT) == [True, False]
    assert answers("NOT value_is_null AND minutes IS NULL", [None, NULLS], FLIGHT) == [False, True]
    assert answers(pl.col("value_is_null"), [None, 0]) == [True, False]


def test_a_field_called_value_is_null_is_that_field():
    assert answers("value_is_null + 1", [{"value_is_null": 4}], Serde.json("value_is_null long")) == [5]


@pytest.mark.parametrize(
    ("text", "next_step"),
    [
        ("minutes is not None", "None is NULL in SQL: write IS NULL or IS NOT NULL"),
        ("minutes == None", "None is NULL in SQL: write IS NULL or IS NOT NULL"),
        ("minutes > 1 && miles > 1", "&& is AND in SQL"),
        ("!(minutes > 1)", "! is NOT in SQL"),
        ("dest in ['a']", "a list is in parentheses in SQL: IN ('a', 'b')"),
        ('dest = "OSL"', "text is in single quotes in SQL, 'a'; in double quotes it is a column"),
        ("lambda key, value: value", "give the function itself, not its text"),
        ("dest = 'None' +", "correct the step"),
    ],
)
def test_words_of_python_and_java_are_said_in_sql(text, next_step):
    with pytest.raises(TopologyError) as raised:
        bind(text, SHAPE, "step")

    assert raised.value.next_step.startswith(next_step)
