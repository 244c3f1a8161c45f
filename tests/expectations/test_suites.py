"""Suites of Great Expectations: one a table, named as the guarantees, over the rows that were found."""

import polars as pl
import pytest

from kstreams_replay.expectations.audits import Audit
from kstreams_replay.expectations.guarantees import G1, G2, G3
from kstreams_replay.expectations.suites.checkpoint import run_checkpoint
from kstreams_replay.expectations.suites.evidence import Evidence, batch_of, build_suite
from kstreams_replay.expectations.suites.run import JudgedRun

pytestmark = pytest.mark.usefixtures("great_expectations")

RUN = JudgedRun("shop", 2)


def test_a_suite_reads_as_the_guarantees_about_its_table():
    outputs, ledger = build_suite("outputs/counts", [G1, G2]), build_suite("ledger", [G3])

    assert [(suite.name, [each.expectation_type for each in suite.expectations]) for suite in (outputs, ledger)] == [
        (
            "outputs.counts",
            ["expect_one_final_row_per_key_window", "expect_no_final_before_close", "expect_stream_time_to_be_landed"],
        ),
        (
            "ledger",
            [
                "expect_books_to_balance",
                "expect_reads_to_be_booked",
                "expect_drops_to_be_booked",
                "expect_refusals_to_be_booked",
                "expect_dead_letters_to_be_booked",
                "expect_refusals_to_be_landed_records",
                "expect_results_to_be_booked",
                "expect_landings_to_be_booked",
            ],
        ),
    ]
    assert outputs.meta["table"] == "outputs/counts"
    told = outputs.meta["guarantees"]["G1"]
    assert told["statement"] == "One final result per key and window."
    assert told["source"] == "KIP-328, KTableSuppressProcessorSupplier"


def test_a_batch_has_what_was_counted_and_the_rows_that_speak_against_the_rule():
    early = {"offset": 3, "key": "a", "is_early": True, "is_unproven": False}
    audit = Audit(pl.DataFrame({"finals": [4], "early": [1], "unproven": [0]}), [early])

    rows = batch_of([Evidence("outputs/counts", G2, audit)]).select("rule", "violation", "row").rows()

    counted, against = (
        "counted: finals 4, early 1, unproven 0",
        'offset 3, key "a", is_early true, is_unproven false',
    )
    assert rows == [
        ("expect_no_final_before_close", counted, counted),
        ("expect_no_final_before_close", against, against),
        ("expect_stream_time_to_be_landed", None, counted),
    ]


def test_a_difference_of_either_sign_is_a_violation_and_of_several_parts_one_is_enough():
    parts = pl.DataFrame({rule.column: [0, 0] for rule in G3.rules}).with_columns(missing=pl.Series([0, -2]))

    judged = run_checkpoint(RUN, [Evidence("ledger", G3, Audit(parts, []))])

    assert [name for name, holds in judged.rules[0].items() if not holds] == ["expect_books_to_balance"]


def test_an_expectation_that_cannot_be_computed_is_an_error_and_no_answer():
    with pytest.raises(KeyError, match="expect_one_final_row_per_key_window"):
        run_checkpoint(RUN, [Evidence("outputs/counts", G1, Audit(pl.DataFrame({"another": [0]}), []))])


def test_an_expectation_that_saw_no_row_is_an_error_and_no_answer():
    with pytest.raises(RuntimeError, match="no row of the batch is of this rule"):
        run_checkpoint(RUN, [Evidence("outputs/counts", G1, Audit(pl.DataFrame({"repeated": []}), []))])
