"""Suites that users wrote: how files are read, what of a table they see, and what comes of them."""

import json

import polars as pl
import pytest

from kstreams_replay.expectations.audits import open_scope
from kstreams_replay.expectations.facts import ReplayFacts
from kstreams_replay.expectations.suites.checkpoint import run_checkpoint
from kstreams_replay.expectations.suites.project_suites import read_suites
from kstreams_replay.expectations.suites.run import JudgedRun
from kstreams_replay.expectations.suites.table_rows import keys_by_row, rows_of_increment
from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.state.errors import ConfigError
from tests.expectations.conftest import DROPS_2

COUNTS = """
name: counts
meta: {table: outputs/counts}
notes: Counts are small.
expectations:
  - type: expect_column_values_to_be_between
    kwargs: {column: value, max_value: 1}
  - type: expect_table_row_count_to_be_between
    kwargs: {min_value: 1, max_value: 1}
    severity: warning
"""
PYTHON = """
import great_expectations as gx
from great_expectations import expectations as gxe


class ExpectSmallCounts(gxe.ExpectColumnValuesToBeBetween):
    column: str = "value"
    max_value: float = 0


pages = gx.ExpectationSuite(name="in python", meta={"table": "outputs/counts"}, expectations=[ExpectSmallCounts()])
"""


pytestmark = pytest.mark.usefixtures("great_expectations")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "expectations").mkdir()
    return tmp_path / "expectations"


def suite(folder, text, name="counts.yaml"):
    (folder / name).write_text(text)
    return read_suites(folder)


def test_a_suite_holds_of_the_rows_that_the_increment_wrote(planted, folder):
    """
    Increment 1 wrote one row, increment 2 wrote two, which its second expectation does not allow.
    """
    planted.run_first()
    planted.run_second()
    suites = suite(folder, COUNTS)

    first, second = (check_increment(planted.warehouse, "flights", None, each, suites=suites)[0] for each in (1, 2))

    assert (first.guarantee, first.table, first.version, first.rows, first.answer) == (
        "counts", "outputs/counts", 1, 1, "true",
    )  # fmt: skip
    assert first.sentence == "Counts are small."
    assert (second.answer, second.severity) == ("false", "warning")
    assert second.broken == ("expect_table_row_count_to_be_between",)
    assert second.observed == {"rows": 2, "expect_table_row_count_to_be_between": 1}


def test_rows_that_are_not_as_expected_are_witnesses(planted, folder):
    planted.run_first()
    suites = suite(folder, COUNTS.replace("max_value: 1}\n  - type", "max_value: 0}\n  - type"))

    (verdict,) = check_increment(planted.warehouse, "flights", None, suites=suites)

    assert (verdict.answer, verdict.severity) == ("false", "error")
    label = "expect_column_values_to_be_between(value)"
    assert verdict.witnesses == [
        {
            "expectation": label, "key": "a", "window_start_ms": 0, "window_end_ms": 10, "value": 1,
            "row": "partition 0, offset 0",
        }
    ]  # fmt: skip


def test_rows_are_known_by_key_and_window_as_far_as_a_table_has_them():
    words = ["partition 0, offset 0", "partition 0, offset 1"]
    keys = {"key.name": ["a", "b"], "key.n": [1, None], "window_start_ms": [0, 10]}
    rows = pl.DataFrame({**keys, "n": [7, 8], "row": words})

    assert keys_by_row(rows, words[1:]) == {words[1]: {"key.name": "b", "key.n": None, "window_start_ms": 10}}
    assert keys_by_row(rows.select("n", "row"), words[:1]) == {words[0]: {}}
    assert keys_by_row(rows, []) == {}


EMPTY = """
name: drops
meta: {table: dropped}
expectations:
  - type: expect_column_max_to_be_between
    kwargs: {column: limit_ms, max_value: 10}
  - type: expect_column_mean_to_be_between
    kwargs: {column: limit_ms, min_value: 1}
  - type: expect_column_distinct_values_to_contain_set
    kwargs: {column: reason, value_set: [expired-window]}
  - type: expect_column_values_to_not_be_null
    kwargs: {column: reason}
"""


def test_an_aggregate_of_an_increment_without_rows_has_nothing_to_judge(planted, folder):
    """Increment 1 dropped nothing; increment 2 drops one record whose limit is 14."""
    planted.run_first()
    planted.run_second(dropped=[{**DROPS_2[0], "limit_ms": 14}])
    suites = suite(folder, EMPTY)

    first, second = (check_increment(planted.warehouse, "flights", None, each, suites=suites)[0] for each in (1, 2))

    assert (first.answer, first.rows, first.broken, first.severity) == ("true", 0, (), "error")
    assert first.reason == (
        "the increment wrote no row to dropped, so there was nothing to judge for "
        "expect_column_max_to_be_between(limit_ms), expect_column_mean_to_be_between(limit_ms), "
        "expect_column_distinct_values_to_contain_set(reason)"
    )
    assert (second.answer, second.broken, second.reason) == (
        "false", ("expect_column_max_to_be_between(limit_ms)",), "",
    )  # fmt: skip


def test_the_number_of_rows_is_judged_where_there_are_none(planted, folder):
    planted.run_first()

    (verdict,) = check_increment(
        planted.warehouse, "flights", None, suites=suite(folder, COUNTS.replace("outputs/counts", "dropped").replace(
            "column: value, max_value: 1", "column: limit_ms, max_value: 1"
        ))
    )  # fmt: skip

    assert (verdict.answer, verdict.broken) == ("false", ("expect_table_row_count_to_be_between",))


def test_a_suite_in_python_may_have_expectations_of_its_own(planted, folder):
    planted.run_first()

    (verdict,) = check_increment(planted.warehouse, "flights", None, suites=suite(folder, PYTHON, "pages.py"))

    assert (verdict.guarantee, verdict.answer) == ("in python", "false")
    assert verdict.broken == ("expect_small_counts",)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("expect_nothing_that_is_known", "expect_nothing_that_is_known not found"),
        ("expect_column_max_to_be_between", 'column "value" in BatchData does not exist'),
    ],
)
def test_a_suite_that_cannot_be_judged_is_unknown_and_others_are_judged(planted, folder, broken, reason):
    planted.run_first()
    suite(folder, COUNTS.replace("outputs/counts", "dropped").replace("expect_column_values_to_be_between", broken))
    suites = suite(folder, PYTHON.replace("max_value: float = 0", "max_value: float = 1"), "in_python.py")

    verdicts = check_increment(planted.warehouse, "flights", None, suites=suites)

    assert [(verdict.guarantee, verdict.answer) for verdict in verdicts] == [
        ("counts", "unknown"),
        ("in python", "true"),
    ]
    assert reason in verdicts[0].reason


def test_plain_code_does_not_judge_a_suite_and_says_so(planted, folder):
    planted.run_first()

    (verdict,) = check_increment(planted.warehouse, "flights", None, suites=suite(folder, COUNTS), engine="plain")

    assert (verdict.answer, verdict.reason) == (
        "unknown", "Great Expectations was not asked, and alone judges suites of a project",
    )  # fmt: skip


def test_rows_have_flat_columns_of_plain_values(planted):
    planted.run_first()
    planted.run_second(dropped=DROPS_2, dead_letter=[{"topic": "clicks", "offset": 4, "key": b"k\xff", "value": None}])
    scope = open_scope(planted.warehouse, "flights", ReplayFacts(()), 2)

    dropped, dead = rows_of_increment(scope, "dropped"), rows_of_increment(scope, "dead_letter")

    assert dropped.select("reason", "increment", "row").rows() == [
        ("expired-window", 2, "topic clicks, partition 0, offset 4")
    ]
    assert dead.select("key", "value").rows() == [("k\\xff", None)]
    assert rows_of_increment(open_scope(planted.warehouse, "flights", ReplayFacts(()), 1), "dropped").columns == (
        dropped.columns
    )
    assert not any(kind.is_nested() or kind == pl.Binary for kind in dead.dtypes)


def test_of_a_file_with_rows_of_several_increments_a_suite_sees_its_own(planted):
    planted.run_first()
    planted.run_second(dropped=[{**DROPS_2[0], "offset": 3, "increment": 1}, *DROPS_2])

    rows = rows_of_increment(open_scope(planted.warehouse, "flights", ReplayFacts(()), 2), "dropped")

    assert rows["offset"].to_list() == [4]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("- a\n- b\n", "x.yaml", "a suite: name, expectations, meta"),
        ("expectations: []\n", "x.yaml", "the table that it speaks of in its meta"),
        ("expectations: []\nmeta: {table: t}\ntable: t\n", "x.yaml", "only name, expectations, meta"),
        ("expectations: [\n", "x.yaml", "YAML"),
        ("{", "x.json", "JSON"),
        ("answer = 42\n", "x.py", "an ExpectationSuite in the module"),
        ("", "_private.py", "at least one suite"),
    ],
)
def test_what_is_no_suite_is_refused_with_its_file(folder, text, name, expected):
    with pytest.raises(ConfigError, match=expected) as refused:
        suite(folder, text, name)

    assert str(folder) in str(refused.value)


def test_two_suites_of_one_name_and_a_folder_that_is_not_there_are_refused(folder):
    suite(folder, COUNTS)

    with pytest.raises(ConfigError, match="a name that no other suite has"):
        suite(folder, json.dumps({"name": "counts", "expectations": [], "meta": {"table": "dropped"}}), "more.json")
    with pytest.raises(ConfigError, match="a folder with suites"):
        read_suites(folder / "nowhere")


def test_nothing_to_judge_is_no_error():
    assert run_checkpoint(JudgedRun("shop", 1), []).rules == []
