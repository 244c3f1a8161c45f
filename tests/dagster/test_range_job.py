"""The job that makes a range of time again: its result says what differs, and what was proved."""

from typing import Any

import dagster as dg
import pytest
import yaml

from kstreams_replay.jobs.branches.branches import branches
from kstreams_replay.jobs.history.committed_tables import done_row, read_changelog
from tests.dagster import shop
from tests.test_docs import code_blocks, document

pytestmark = pytest.mark.sampled


def backfilled(small_shop, name: str, **config: Any) -> dg.ExecuteInProcessResult:
    """Windows of 50 ms, all replayed; then times [100, 200) again, as the branch ``name``."""
    definitions = shop.definitions(small_shop.root, check_engine="plain", topology=shop.windows(50), operator_jobs=True)
    assert small_shop.run(definitions).success
    given = {"from_time": "100", "to_time": "1970-01-01T00:00:00.200Z", "name": name} | config
    return definitions.resolve_job_def("shop_backfill").execute_in_process(
        instance=small_shop.instance, raise_on_error=False, run_config={"ops": {"shop_range": {"config": given}}}
    )


def test_the_configuration_that_the_page_shows_runs_the_job(small_shop, monkeypatch):
    """
    Bob's two clicks of Monday, the 5th, are in two windows of 50 ms and, with the changed code, in one of a second.
    """
    monday = 1_767_571_200_000
    small_shop.drop(
        "2-monday", [("bob", "home", monday + 10), ("bob", "help", monday + 60), ("bob", "pay", 2 * monday)]
    )
    (small_shop.root / "changed.py").write_text("from tests.dagster import shop\n\ntopology = shop.windows(1_000)\n")
    monkeypatch.chdir(small_shop.root)
    (block,) = code_blocks(document("docs/backfills.md"), "yaml")
    definitions = shop.definitions(small_shop.root, check_engine="plain", topology=shop.windows(50), operator_jobs=True)
    assert small_shop.run(definitions).success

    result = definitions.resolve_job_def("shop_backfill").execute_in_process(
        instance=small_shop.instance, raise_on_error=False, run_config=yaml.safe_load("\n".join(block))
    )

    assert result.success
    told = said(result)
    assert (told["branch"], told["rows/counts"]) == ("monday", 2)
    assert [told[f"{kind}/counts"] for kind in ("equal", "only_in_pipeline", "only_in_branch")] == [0, 2, 1]


def said(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """Metadata of the result."""
    (output,) = [event.step_output_data for event in result.all_node_events if event.is_successful_output]
    return {name: value.value for name, value in output.metadata.items()}


def test_the_same_code_is_proved_equal(small_shop):
    result = backfilled(small_shop, "again")

    assert result.success
    told = said(result)
    assert (told["branch"], told["rows/counts"], told["proved_equal"]) == ("again", 3, "counts")
    assert [told[f"{kind}/counts"] for kind in ("equal", "different", "only_in_pipeline", "only_in_branch")] == [
        2, 0, 0, 0,
    ]  # fmt: skip
    assert "first_differences/counts" not in told


def test_changed_code_shows_what_differs_by_key_and_window(small_shop):
    changed = small_shop.root / "changed.py"
    changed.write_text("from tests.dagster import shop\n\ntopology = shop.windows(25)\n")

    result = backfilled(small_shop, "narrow", topology=f"{changed}:topology")

    told = said(result)
    assert told["proved_equal"] == "nothing: the code is another"
    assert [told[f"{kind}/counts"] for kind in ("equal", "only_in_pipeline", "only_in_branch")] == [0, 2, 2]
    rows = [record.data for record in told["first_differences/counts"].records]
    assert sorted({row["difference"] for row in rows}) == ["only in A", "only in B"]
    assert len(rows) == 4
    counts = [row["value"] for row in read_changelog(small_shop.warehouse, "narrow", "counts").to_pylist()]
    assert counts == [1, 1, 2]
    assert done_row(small_shop.warehouse, "shop").increment == 1


def test_a_range_that_cannot_be_fails_the_run_in_one_sentence_and_leaves_no_branch(small_shop):
    result = backfilled(small_shop, "never", to_time="50")

    assert not result.success
    assert list(branches(small_shop.warehouse)) == []
    (failure,) = [event for event in result.all_node_events if event.is_step_failure]
    assert "expected an end after its beginning" in str(failure.step_failure_data.error)
