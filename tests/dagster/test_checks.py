"""Asset checks: green if the guarantee holds; red, blocking and with witnesses if a violation is injected."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import dagster as dg
import pytest

from kstreams_replay.expectations.quality_tables import newest_results
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.dagster.conftest import errors, passed
from tests.dagster.duplicates import DuplicatingEngine, DuplicatingRunner

pytestmark = pytest.mark.sampled

ALL_HOLD = {
    f"{output}: {check}": True
    for output in ("sessions", "pages")
    for check in (
        "one_final_result_per_key_and_window",
        "no_final_result_before_its_window_closed",
        "the_books_balance",
        "windows_lie_on_their_grid",
        "nothing_vanishes_in_a_suppress",
        "stream_time_never_goes_back",
        "tombstones_are_of_keys_that_had_a_value",
        "landed_records_are_replayed",
    )
} | {
    "sessions: sessions_are_further_apart_than_the_gap": True,
    "pages: repartitioned_records_lie_by_their_key_once": True,
    "dropped: few_records_are_dropped": True,
    "dead_letter: few_records_are_undecodable": True,
    "clicks: every_row_becomes_a_record": True,
}
WARNED = {"dropped: few_records_are_dropped": False}
"""Of the morning's six clicks, one is late; of the evening's none."""
SESSIONS_G1 = "sessions: one_final_result_per_key_and_window"


def test_every_guarantee_of_every_output_is_checked_by_great_expectations(small_shop):
    result = small_shop.run(shop.definitions(small_shop.root))

    assert result.success
    assert passed(result) == ALL_HOLD | WARNED
    for evaluation in result.get_asset_check_evaluations():
        if "engine" not in evaluation.metadata:
            continue
        assert numbers_of(evaluation, "engine", "increment", "holds_up_to") == {
            "engine": "gx",
            "increment": 1,
            "holds_up_to": 1,
        }
        assert evaluation.blocking
    recorded = {
        (row["guarantee"], row["table"], row["verdict"])
        for row in newest_results(Warehouse(small_shop.root / "warehouse"), "shop")
    }
    assert {row for row in recorded if row[0] in ("G1", "G2", "G3")} == {
        *((guarantee, f"outputs/{name}", "passed") for guarantee in ("G1", "G2") for name in ("pages", "sessions")),
        *(("G3", f"ledger, behind outputs/{name}", "passed") for name in ("pages", "sessions")),
    }


def numbers_of(evaluation, *names):
    return {name: evaluation.metadata[name].value for name in names}


def with_reader(definitions):
    """Somebody's own asset, which reads the sessions."""

    @dg.asset(deps=[dg.AssetKey(["shop", "outputs", "sessions"])])
    def newsletter():
        return dg.MaterializeResult()

    job = dg.define_asset_job("everything", dg.AssetSelection.all(), executor_def=dg.in_process_executor)
    return dg.Definitions.merge(definitions, dg.Definitions(assets=[newsletter], jobs=[job]))


def run_everything(small_shop, definitions):
    job = with_reader(definitions).resolve_job_def("everything")
    return job.execute_in_process(instance=small_shop.instance, raise_on_error=False)


def read(result):
    return [event for event in result.get_asset_materialization_events() if event.asset_key.path[-1] == "newsletter"]


def test_a_duplicate_final_fails_its_check_with_witnesses_and_blocks_who_reads_the_output(small_shop):
    definitions = shop.definitions(small_shop.root, engine=DuplicatingEngine(), check_engine="plain")

    result = run_everything(small_shop, definitions)

    assert not result.success
    assert passed(result) == ALL_HOLD | WARNED | {SESSIONS_G1: False}
    assert read(result) == []
    (broken,) = errors(result)
    assert broken.description == (
        "One final result per key and window. Broken in increment 1: expect_one_final_row_per_key_window"
    )
    assert broken.severity is dg.AssetCheckSeverity.ERROR
    want = {"finals": 3, "repeated": 1, "increment": 1, "holds_up_to": 0, "table_version": 1}
    assert numbers_of(broken, *want) == want
    (witness,) = [record.data for record in broken.metadata["witnesses"].records]
    want = {"key": "bob", "window_start_ms": 105, "window_end_ms": 105, "increment": 1, "offset": 2, "first_offset": 0}
    assert {name: witness[name] for name in want} == want


def test_who_reads_an_output_that_holds_is_not_blocked(small_shop):
    result = run_everything(small_shop, shop.definitions(small_shop.root, check_engine="plain"))

    assert result.success
    assert len(read(result)) == 1


def test_a_broken_guarantee_stays_broken_whatever_good_increments_follow(small_shop):
    run_everything(small_shop, shop.definitions(small_shop.root, engine=DuplicatingEngine(), check_engine="plain"))
    small_shop.drop("2-evening", shop.EVENING)

    result = run_everything(small_shop, shop.definitions(small_shop.root, check_engine="plain"))

    assert passed(result) == ALL_HOLD | {SESSIONS_G1: False}
    assert read(result) == []
    (broken,) = errors(result)
    assert numbers_of(broken, "increment", "holds_up_to") == {"increment": 1, "holds_up_to": 0}


def test_increments_that_nobody_checked_are_checked_by_the_next_run(small_shop):
    small_shop.run()
    small_shop.drop("2-evening", shop.EVENING)
    small_shop.run(asset_selection=[dg.AssetKey(["shop", "landed", "clicks"])])
    small_shop.replay(runner=DuplicatingRunner(), max_records=1)

    result = small_shop.run()

    assert passed(result) == ALL_HOLD | {SESSIONS_G1: False}
    (broken,) = errors(result)
    assert numbers_of(broken, "increment", "holds_up_to") == {"increment": 2, "holds_up_to": 1}


def test_a_check_that_cannot_be_judged_is_not_passed(small_shop):
    small_shop.run()
    for file in (small_shop.root / "warehouse" / "shop" / "outputs" / "sessions").glob("partition=0/*.parquet"):
        file.unlink()

    result = small_shop.run()

    want = {SESSIONS_G1: False, "sessions: no_final_result_before_its_window_closed": False}
    others = ("windows_lie_on_their_grid", "nothing_vanishes_in_a_suppress", "tombstones_are_of_keys_that_had_a_value")
    want |= {f"sessions: {check}": False for check in others}
    want |= {"sessions: the_books_balance": False, "pages: the_books_balance": False}  # of a pipeline with a file gone
    assert passed(result) == ALL_HOLD | WARNED | want
    unknown = errors(result)[0]
    assert unknown.description.startswith("One final result per key and window. Unknown: ")


def test_a_check_before_the_first_increment_says_that_there_is_none(small_shop):
    (small_shop.root / "clicks" / "1-morning.jsonl").write_text("")

    result = small_shop.run()

    assert passed(result) == ALL_HOLD
    descriptions = {each.description for each in result.get_asset_check_evaluations()}
    assert (
        "The books balance: read = applied + left out + dropped + undecodable. Nothing has been replayed yet."
        in descriptions
    )


@pytest.mark.nightly
def test_suites_of_the_project_are_checks_and_every_check_leads_to_its_page(small_shop):
    folder = small_shop.root / "expectations"
    folder.mkdir()
    for table, rule in (("outputs/pages", "max_value: 1"), ("dropped", "min_value: 5")):
        name = table.replace("outputs/", "")
        (folder / f"{name}.yaml").write_text(
            f"name: {name} are few\nmeta: {{table: {table}}}\nexpectations:\n"
            f"  - type: expect_table_row_count_to_be_between\n    kwargs: {{{rule}}}\n    severity: warning\n"
        )

    docs = small_shop.root / "docs"
    result = small_shop.run(shop.definitions(small_shop.root, expectations=folder, data_docs=docs))

    assert result.success  # warnings block nobody
    broken = {"pages: pages_are_few": False, "dropped: dropped_are_few": False}
    assert passed(result) == ALL_HOLD | WARNED | broken
    evaluations = {each.check_name: each for each in result.get_asset_check_evaluations()}
    pages = evaluations["pages_are_few"]
    assert (pages.severity, numbers_of(pages, "rows", "increment")) == (
        dg.AssetCheckSeverity.WARN,
        {"rows": 2, "increment": 1},
    )
    linked = {name: each.metadata["data_docs"].value for name, each in evaluations.items() if "engine" in each.metadata}
    assert set(linked) >= {"pages_are_few", "dropped_are_few", "the_books_balance"}
    page = Path(unquote(urlsplit(linked["pages_are_few"]).path)).read_text("utf-8")
    assert f"Dagster run {result.run_id}" in page
    assert "increment <b>1</b>" in page
