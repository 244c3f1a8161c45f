"""A branch is a pipeline that begins with another one's past: it reads through, and leaves its parent alone."""

from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.branches import branches, drop, fork, pinned_versions
from kstreams_replay.jobs.history.committed_tables import done_row, read_table
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder
from kstreams_replay.state.errors import CodeChanged, ConfigError, LedgerError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.restated import RECORDS, clicks, contents, copy_of, landed, run

pytestmark = pytest.mark.sampled


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """Pipeline p, all read in increments of ten records."""
    folder = tmp_path_factory.mktemp("begun")
    assert run(landed(folder), "p") == list(range(1, RECORDS // 10 + 1))
    return folder


@pytest.fixture
def parent(begun, tmp_path) -> Warehouse:
    return copy_of(begun, tmp_path)


def rows_after(warehouse: Warehouse, pipeline: str, table: str, increment: int) -> list[dict]:
    return read_table(warehouse, pipeline, table, after=increment).to_pylist()


def test_a_branch_shows_what_its_parent_was_at_the_fork_and_copies_nothing(parent):
    fork(parent, "p", 3, "b")

    assert contents(parent, "b") == contents(parent, "p", increment=3)
    assert list(Path(parent.root, "b").rglob("partition=*")) == []


@pytest.mark.parametrize("increment", [0, 1, 3, 6])
def test_a_branch_replayed_with_the_same_code_becomes_what_its_parent_is(parent, increment):
    fork(parent, "p", increment, "b")

    run(parent, "b", max_records=7)

    assert contents(parent, "b") == contents(parent, "p")


def test_a_branch_leaves_its_parent_alone_and_its_parent_the_branch(parent):
    fork(parent, "p", 3, "b")
    before, forked = contents(parent, "p"), contents(parent, "b")

    run(parent, "b", increments=1)
    assert contents(parent, "p") == before
    assert contents(parent, "b", increment=3) == forked


def test_a_branch_of_a_branch_reads_through_both(parent):
    fork(parent, "p", 2, "b")
    run(parent, "b", increments=2, max_records=5)
    fork(parent, "b", 4, "c")

    assert contents(parent, "c") == contents(parent, "b", increment=4)
    run(parent, "c", max_records=9)
    assert contents(parent, "c") == contents(parent, "p")


def test_changed_code_replays_from_the_fork_on(parent):
    """
    What was counted before the fork stays; from there on clicks below 20 ms are left out.
    """
    changed = clicks(least_ms=20, grace=40)
    fork(parent, "p", 3, "b", topology=changed)
    run(parent, "b", changed)

    assert contents(parent, "b", changed, increment=3) == contents(parent, "p", increment=3)
    for table in ("outputs/counts", "outputs/pages", "dropped"):
        assert len(rows_after(parent, "b", table, 3)) < len(rows_after(parent, "p", table, 3))


def test_changed_code_from_the_start_is_a_pipeline_that_never_knew_the_other_code(parent):
    fork(parent, "p", 0, "b", topology=clicks(least_ms=20))
    run(parent, "b", clicks(least_ms=20))
    run(parent, "fresh", clicks(least_ms=20))

    assert contents(parent, "b") == contents(parent, "fresh")


def test_a_branch_takes_a_new_epoch(parent):
    fork(parent, "p", 3, "b")
    run(parent, "b", increments=1)

    assert [done_row(parent, name).epoch for name in ("p", "b")] == [0, 1]
    transactions = Path(parent.root, "b", "outputs", "counts", "_delta_log", "00000000000000000001.json").read_text()
    assert '"appId":"b/outputs/counts/1"' in transactions


def test_the_registry_knows_a_branch_until_it_is_dropped_and_pins_what_it_reads(parent):
    fork(parent, "p", 3, "b")
    versions = done_row(parent, "p", 3).content.versions

    assert [(branch.name, branch.parent, branch.increment) for branch in branches(parent).values()] == [("b", "p", 3)]
    assert pinned_versions(parent, "p") == {table: {version} for table, version in versions.items()}

    drop(parent, "b")
    assert (branches(parent), pinned_versions(parent, "p")) == ({}, {})
    assert not Path(parent.root, "b").exists()


def test_a_branch_that_another_is_based_on_is_not_dropped(parent):
    fork(parent, "p", 2, "b")
    run(parent, "b", increments=1)
    fork(parent, "b", 3, "c")

    with pytest.raises(ConfigError, match="got c; drop those first; one whose rows are wanted is promoted before"):
        drop(parent, "b")
    drop(parent, "c")
    drop(parent, "b")
    assert branches(parent) == {}


def test_a_name_that_is_taken_and_an_increment_that_is_not_done_are_refused(parent):
    with pytest.raises(ConfigError, match="branch 'p': expected a name that is free"):
        fork(parent, "p", 3, "p")
    fork(parent, "p", 3, "b")
    with pytest.raises(ConfigError, match="branch 'b': expected a name that is free"):
        fork(parent, "p", 3, "b")
    with pytest.raises(LedgerError, match="expected a done increment 9, got none"):
        fork(parent, "p", 9, "c")
    with pytest.raises(ConfigError, match="branch 'p': expected a branch that was forked, got open ones: b"):
        drop(parent, "p")
    assert list(branches(parent)) == ["b"]


def test_a_fork_that_died_before_its_ledger_is_begun_again(parent, monkeypatch):
    monkeypatch.setattr("kstreams_replay.state.tables.ledger.Ledger.begin", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fork(parent, "p", 3, "b")
    monkeypatch.undo()

    fork(parent, "p", 3, "b")

    assert contents(parent, "b") == contents(parent, "p", increment=3)


def test_a_drop_that_died_before_the_folder_was_gone_is_finished(parent, monkeypatch):
    fork(parent, "p", 3, "b")
    monkeypatch.setattr("kstreams_replay.jobs.branches.branches.delete_folder", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        drop(parent, "b")
    monkeypatch.undo()
    assert branches(parent) == {}

    drop(parent, "b")

    assert not Path(parent.root, "b").exists()


def test_a_topology_that_cannot_go_on_from_the_state_is_refused_with_what_differs(parent):
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    stream.group_by_key().count(Materialized.as_("clicks-store")).to("counts")

    with pytest.raises(CodeChanged, match="counts-store"):
        fork(parent, "p", 3, "b", topology=builder.build())
    assert branches(parent) == {}
