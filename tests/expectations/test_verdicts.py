"""True, false or unknown: both engines, and what happens when something is not there."""

import shutil
import subprocess
import sys

import polars as pl
import pyarrow.parquet as pq
import pytest

from kstreams_replay.expectations.guarantees import GUARANTEES
from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.state.tables.ledger_rows import PlanRow
from tests.expectations.conftest import BOOKS_2, FACTS, FINALS_1


def answers(planted, **options):
    """Of the guarantees that are written here as broken; a third of the records is dropped, which G12 warns of."""
    verdicts = check_increment(planted.warehouse, "flights", FACTS, **options)
    asked = [verdict for verdict in verdicts if verdict.guarantee in ("G1", "G2", "G3")]
    return [(verdict.guarantee, verdict.table, verdict.answer, verdict.engine) for verdict in asked]


@pytest.mark.parametrize("engine", ["gx", "plain"])
def test_each_engine_says_true_where_all_is_well(planted, engine):
    planted.run_first()
    planted.run_second()

    assert answers(planted, engine=engine) == [
        ("G1", "outputs/counts", "true", engine),
        ("G2", "outputs/counts", "true", engine),
        ("G3", "ledger", "true", engine),
    ]


@pytest.mark.parametrize("engine", ["gx", "plain"])
def test_each_engine_says_false_for_a_repeated_an_early_and_a_lost_one(planted, engine):
    """
    [0, 10) of a again, claimed at stream time 14 < 10 + 5; and one record of three is in no book.
    """
    planted.run_first()
    again = {**FINALS_1[0], "offset": 1, "stream_time_ms": 14}
    planted.run_second(finals=[again], books={**BOOKS_2, "applied": 1})

    assert answers(planted, engine=engine) == [
        ("G1", "outputs/counts", "false", engine),
        ("G2", "outputs/counts", "false", engine),
        ("G3", "ledger", "false", engine),
    ]


def test_a_verdict_names_the_version_that_it_read(planted):
    planted.run_first()
    planted.run_second()

    got = [
        (v.guarantee, v.increment, v.version)
        for v in check_increment(planted.warehouse, "flights", FACTS, 1, engine="plain")
    ]

    assert got == [("G1", 1, 1), ("G2", 1, 1), ("G3", 1, 4), ("G8", 1, 4), ("G12", 1, 4)]


def test_the_last_done_increment_is_checked_when_none_is_named(planted):
    planted.run_first()
    planted.run_second()
    planted.ledger.plan(3, PlanRow(), written_at_ms=3)

    assert {verdict.increment for verdict in check_increment(planted.warehouse, "flights", FACTS, engine="plain")} == {
        2
    }


def test_without_a_done_increment_everything_is_unknown(planted):
    verdicts = check_increment(planted.warehouse, "flights", FACTS, engine="plain")

    assert [(verdict.answer, verdict.version) for verdict in verdicts] == [("unknown", None)] * 5
    assert verdicts[0].reason.endswith("expected a done increment, got none; run the replay first")


def test_an_increment_that_is_only_planned_is_unknown(planted):
    planted.run_first()
    planted.ledger.plan(2, PlanRow(), written_at_ms=2)

    verdicts = check_increment(planted.warehouse, "flights", FACTS, 2, engine="plain")

    assert [verdict.answer for verdict in verdicts] == ["unknown"] * 5
    assert verdicts[0].reason.endswith("expected a done increment 2, got none; run the replay first")


def test_a_missing_table_makes_verdicts_unknown(planted):
    planted.run_first()
    shutil.rmtree(planted.tables.output("counts"))

    verdicts = check_increment(planted.warehouse, "flights", FACTS, engine="plain")

    assert [verdict.answer for verdict in verdicts] == ["unknown"] * 3 + [
        "true"
    ] * 2  # of the last two the ledger is all
    assert "expected a Delta table with version 1, got no table" in verdicts[0].reason


def test_a_data_file_that_is_gone_makes_the_verdict_unknown(planted, tmp_path):
    planted.run_first()
    for file in (tmp_path / "flights" / "outputs" / "counts").glob("partition=0/*.parquet"):
        file.unlink()

    assert planted.verdict("G1").answer == "unknown"


def test_a_panic_of_polars_makes_the_verdict_unknown(planted, monkeypatch):
    """
    Its exception is below BaseException alone, so that it would end the whole check.
    """
    planted.run_first()

    def panic(*_):
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr("kstreams_replay.expectations.guarantees.Question.judge", panic)

    assert (planted.verdict("G1").answer, planted.verdict("G1").reason) == ("unknown", "index out of bounds")


def test_a_flipped_bit_in_a_page_makes_the_verdict_unknown_and_is_named(planted, tmp_path):
    planted.run_first()
    (file,) = (tmp_path / "flights" / "outputs" / "counts").glob("partition=0/*.parquet")
    group = pq.read_metadata(file).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    (times,) = [column for column in columns if column.path_in_schema == "stream_time_ms"]
    whole = bytearray(file.read_bytes())
    whole[times.data_page_offset + times.total_compressed_size - 1] ^= 1
    file.write_bytes(whole)

    verdict = planted.verdict("G2")

    assert verdict.answer == "unknown"
    assert f"{file}, of increment 1: expected the file as it was committed" in verdict.reason


def test_a_failure_of_great_expectations_is_noted_and_the_plain_answer_given(planted, monkeypatch):
    planted.run_first()
    monkeypatch.setitem(sys.modules, "great_expectations", None)

    verdict = planted.verdict("G1", engine="gx")

    assert (verdict.answer, verdict.engine) == ("true", "plain")
    assert verdict.reason.startswith("Great Expectations failed: ModuleNotFoundError")


def test_great_expectations_is_not_imported_before_it_is_asked_for():
    code = "import sys, kstreams_replay.expectations.verdicts; sys.exit('great_expectations' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_guarantees_have_ids_checks_and_rules_of_their_own():
    rules = [rule.name for guarantee in GUARANTEES for rule in guarantee.rules]

    assert [guarantee.id for guarantee in GUARANTEES] == [f"G{number}" for number in range(1, len(GUARANTEES) + 1)]
    assert len({guarantee.check for guarantee in GUARANTEES}) == len(GUARANTEES)
    assert len(set(rules)) == len(rules)
