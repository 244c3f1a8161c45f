"""Texts of expressions: two that compute something else have two texts, and one has the same in every process."""

import os
import subprocess
import sys

import polars as pl
import pytest

from kstreams_replay.jobs.functions.expression_text import expressible_text, expression_text

at, number, word = pl.col("at"), pl.col("number"), pl.col("word")


def enclosing(more: int):
    return lambda value: value + more


PAIRS = {
    "the format of a time": (at.dt.strftime("%Y"), at.dt.strftime("%m")),
    "the format that is read": (word.str.to_datetime("%Y-%m-%d"), word.str.to_datetime("%Y-%d-%m")),
    "a zone": (at.dt.convert_time_zone("Asia/Tokyo"), at.dt.convert_time_zone("Europe/Berlin")),
    "digits": (number.round(2), number.round(0)),
    "a separator": (pl.concat_str("word", "number", separator="-"), pl.concat_str("word", "number", separator="")),
    "a template": (pl.format("{}-{}", "word", "number"), pl.format("{}/{}", "word", "number")),
    "a group of a pattern": (word.str.extract("a(b)", 0), word.str.extract("a(b)", 1)),
    "how a pattern is read": (word.str.contains(".", literal=True), word.str.contains(".")),
    "a value of SQL's IN": (pl.sql_expr("word IN ('a', 'b')"), pl.sql_expr("word IN ('a', 'c')")),
    "a value within a list": (number.is_in([1, 2, 3, 4, 5]), number.is_in([1, 2, 9, 4, 5])),
    "a value of a mapping": (number.replace_strict({1: 2, 3: 4}), number.replace_strict({1: 2, 3: 5})),
    "a value of many": (pl.lit(pl.Series(range(99_999))), pl.lit(pl.Series([*range(99_998), 7]))),
    "a category": (word.cast(pl.Enum(["a", "b", "c"])), word.cast(pl.Enum(["a", "x", "c"]))),
    "within another": (pl.when(number.round(2) > 1).then(1), pl.when(number.round(1) > 1).then(1)),
    "a function": (
        number.map_elements(lambda one: one * 3 // 2, return_dtype=pl.Int64),
        number.map_elements(lambda one: one * 3 // 4, return_dtype=pl.Int64),
    ),
    "what a function encloses": (
        number.map_elements(enclosing(1), return_dtype=pl.Int64),
        number.map_elements(enclosing(2), return_dtype=pl.Int64),
    ),
    "a function of two columns": (
        pl.fold(pl.lit(0), lambda one, other: one + other, ["number", "number"]),
        pl.fold(pl.lit(0), lambda one, other: one - other, ["number", "number"]),
    ),
}


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
@pytest.mark.parametrize("what", PAIRS)
def test_expressions_that_compute_something_else_have_other_texts(what):
    one, other = PAIRS[what]

    assert expression_text(one) == expression_text(one)
    assert expression_text(one) != expression_text(other)


def test_a_text_does_not_depend_on_the_lines_where_a_function_is():
    one = number.map_elements(lambda value: value * 3 // 2, return_dtype=pl.Int64)

    other = number.map_elements(lambda value: value * 3 // 2, return_dtype=pl.Int64)

    assert expression_text(one) == expression_text(other)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (number + 1, '[(col("number")) + (dyn int: 1)]'),
        (pl.sql_expr("CAST(word AS BIGINT)"), 'col("word").strict_cast(Int64)'),
        (pl.when(number > 1).then(word.str.starts_with("a")).alias("b").is_null(), None),
        (pl.col("value").struct.field("page"), None),
        (word.cast(pl.Decimal(10, 2)), None),
    ],
)
def test_what_polars_shows_whole_has_no_digits(expression, text):
    assert expression_text(expression) == (text or str(expression))


def test_sql_and_constants_are_what_was_written():
    assert [expressible_text(given) for given in ("a IN (1)", 3, None)] == ["a IN (1)", "3", "None"]


def test_another_process_gives_the_same_text():
    """
    Whatever Python's hashes are there. Structs have names, and functions are pickled.
    """
    script = (
        "import polars as pl; from kstreams_replay.jobs.functions.expression_text import expression_text as text;"
        "named = pl.Struct({name: pl.Int64 for name in 'zyxwvutsrq'});"
        "print(text(pl.col('a').str.json_decode(named)), text(pl.col('a').map_batches(lambda one: one * 2)))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
