"""Increments that are judged together: one run of Great Expectations, and of each the verdicts that it gets alone."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from kstreams_replay.expectations import verdicts
from kstreams_replay.expectations.suites.data_docs import DataDocs
from kstreams_replay.expectations.suites.project_suites import read_suites
from kstreams_replay.expectations.suites.run import JudgedRun
from kstreams_replay.expectations.verdicts import Verdict, check_increment, check_increments
from tests.expectations.conftest import FACTS, FINALS_1

pytestmark = pytest.mark.usefixtures("great_expectations")

COUNTS = """
name: counts
meta: {table: outputs/counts}
expectations:
  - type: expect_column_values_to_not_be_null
    kwargs: {column: key}
  - type: expect_column_values_to_be_in_set
    kwargs: {column: key, value_set: [a, b]}
"""


@pytest.fixture
def judged(planted, tmp_path, monkeypatch):
    """Three increments; the second has a final result a second time, and the third an unknown key."""
    folder = tmp_path / "expectations"
    folder.mkdir()
    (folder / "counts.yaml").write_text(COUNTS)
    planted.run_first()
    planted.run_second(finals=[{**FINALS_1[0], "offset": 1}])
    planted.run(
        3, (7, 7), finals=[{**FINALS_1[0], "offset": 2, "key": "z", "window_start_ms": 20, "window_end_ms": 30}],
        books={"read": 0, "applied": 0, "dropped": 0, "undecodable": 0},
    )  # fmt: skip
    runs, run_checkpoint = [], verdicts.run_checkpoint

    def counted(run: JudgedRun, *rest):
        runs.append(run.name)
        return run_checkpoint(run, *rest)

    monkeypatch.setattr(verdicts, "run_checkpoint", counted)
    return planted.warehouse, read_suites(folder), runs


def as_told(verdict: Verdict) -> Verdict:
    """Without the time that it took, and its page."""
    return replace(verdict, seconds=0.0, page="")


def test_each_gets_the_verdicts_that_it_gets_alone(judged):
    warehouse, suites, runs = judged
    alone = [check_increment(warehouse, "flights", FACTS, each, suites=suites) for each in (1, 2, 3)]
    runs.clear()

    together = list(check_increments(warehouse, "flights", FACTS, [1, 2, 3], suites=suites))

    assert runs == ["flights-increment-000001-to-000003"]
    assert [list(map(as_told, each)) for each in together] == [list(map(as_told, each)) for each in alone]
    answers = [{each.guarantee: each.answer for each in mine} for mine in together]
    assert [each["G1"] for each in answers] == ["true", "false", "true"]
    assert [each["counts"] for each in answers] == ["true", "true", "false"]
    assert {each.engine for mine in together for each in mine} == {"gx"}


def test_they_share_a_page_which_says_of_which_increment_a_row_is(judged, tmp_path):
    warehouse, _, _ = judged
    docs = DataDocs(str(tmp_path / "docs"))

    together = list(check_increments(warehouse, "flights", FACTS, [1, 2, 3], docs=docs))

    (page,) = {each.page for mine in together for each in mine if each.table == "outputs/counts"}
    shown = Path(unquote(urlsplit(page).path)).read_text("utf-8")
    assert "increment <b>1 to 3</b>" in shown
    assert "increment 2, counted" in shown
    assert "increment 1, counted" not in shown, "it holds there"


def test_where_it_cannot_judge_them_together_each_is_judged_alone(judged, monkeypatch):
    warehouse, suites, runs = judged
    counted = verdicts.run_checkpoint

    def refusing(run: JudgedRun, *rest):
        judged_alone = counted(run, *rest)
        if run.last is not None:
            raise RuntimeError("no")
        return judged_alone

    monkeypatch.setattr(verdicts, "run_checkpoint", refusing)

    together = list(check_increments(warehouse, "flights", FACTS, [1, 2, 3], suites=suites))

    assert len(runs) == 4
    assert {each.engine for mine in together for each in mine} == {"gx"}


def test_no_more_are_judged_together_than_may_be(judged, monkeypatch):
    warehouse, suites, runs = judged
    monkeypatch.setattr(verdicts, "TOGETHER", 2)

    assert len(list(check_increments(warehouse, "flights", FACTS, [1, 2, 3], suites=suites))) == 3

    assert runs == ["flights-increment-000001-to-000002", "flights-increment-000003"]
    runs.clear()
    monkeypatch.setattr(verdicts, "ROWS_TOGETHER", 0)
    list(check_increments(warehouse, "flights", FACTS, [1, 2, 3], suites=suites))
    assert runs == [f"flights-increment-00000{number}" for number in (1, 2, 3)]
