"""Restore sets a pipeline back to an increment, and it continues from there under a new epoch; nothing is forgotten."""

import shutil

import pytest
from deltalake import DeltaTable

from kstreams_replay.jobs.branches.branches import branches
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.state.errors import CommitLost, DamagedLedger, LedgerConflict, LedgerError, LedgerGap, TouchedTable
from kstreams_replay.state.tables.branch_files import existing_tables
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.restated import (
    LAST,
    OUTPUTS,
    Killed,
    changelog,
    clicks,
    contents,
    copy_of_forked,
    kill,
    landed,
    run,
)
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant

pytestmark = pytest.mark.sampled


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    return copy_of_forked(tmp_path)


@pytest.fixture
def alone(tmp_path) -> Warehouse:
    """The same, left alone; it reads 30 records more."""
    warehouse = copy_of_forked(tmp_path / "alone")
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "p")
    return warehouse


@pytest.mark.parametrize("increment", [1, 4, 6])
def test_a_pipeline_set_back_is_what_it_was_and_a_run_makes_it_what_it_became(warehouse, increment):
    last, then = contents(warehouse, "p"), contents(warehouse, "p", increment=increment)

    row = restore(warehouse, "p", increment)

    assert (row.increment, row.epoch) == (7, 1)
    assert contents(warehouse, "p") == then
    run(warehouse, "p", max_records=7)
    assert contents(warehouse, "p") == last
    assert done_row(warehouse, "p").epoch == 1


def test_a_pipeline_set_back_to_the_start_takes_any_topology(warehouse):
    restore(warehouse, "p", 0)
    assert [changelog(warehouse, "p", output) for output in OUTPUTS] == [[], []]

    run(warehouse, "p", clicks(grace=40))
    run(warehouse, "fresh", clicks(grace=40))

    assert contents(warehouse, "p", clicks(grace=40)) == contents(warehouse, "fresh", clicks(grace=40))


def test_a_pipeline_may_be_set_back_to_what_was_restated(warehouse):
    """
    Promoted by mistake: history is still there, and can be restored.
    """
    before = contents(warehouse, "p")
    promote(warehouse, "b")

    restore(warehouse, "p", LAST)

    assert contents(warehouse, "p") == before


def test_a_branch_is_set_back_to_its_fork(warehouse):
    restore(warehouse, "b", 3)

    assert contents(warehouse, "b") == contents(warehouse, "p", increment=3)


def test_an_unfinished_increment_is_given_up_only_when_told(warehouse, alone):
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    kill(warehouse, "p", "committed state/counts-store 7")
    with pytest.raises(LedgerError, match="got increment 7, planned and not done; run it to its end, or give it up"):
        restore(warehouse, "p", LAST)

    assert restore(warehouse, "p", LAST, abandon=True).increment == 8
    assert run(warehouse, "p") == [9, 10, 11]
    assert contents(warehouse, "p") == contents(alone, "p")


@pytest.mark.parametrize("last_step", ["planned 7", "committed state/pages-store 7", "committed outputs/counts 7"])
def test_a_restore_that_dies_is_finished_by_restoring_again(warehouse, last_step):
    def die(step: str) -> None:
        if step == last_step:
            raise Killed(step)

    with pytest.raises(Killed):
        restore(warehouse, "p", 4, on_step=die)
    with pytest.raises(
        LedgerError, match=f"run `replay restore --warehouse {warehouse.root} --pipeline p --to 4` again"
    ):
        restore(warehouse, "p", 5)

    assert restore(warehouse, "p", 4).increment == 7
    assert contents(warehouse, "p") == contents(warehouse, "p", increment=4)


def test_a_table_that_delta_restored_goes_on_after_a_restore_of_the_pipeline(warehouse, alone):
    """
    RESTORE keeps the mark of increment 6 and takes its rows away: no runner may continue from there, nor does it.
    """
    table = DeltaTable(warehouse.pipeline("p").output("counts"))
    table.restore(done_row(warehouse, "p", 4).content.versions["outputs/counts"])
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    with pytest.raises(TouchedTable, match="RESTORE of version"):
        run(warehouse, "p")

    restore(warehouse, "p", LAST, abandon=True)
    run(warehouse, "p")

    assert contents(warehouse, "p") == contents(alone, "p")


def test_a_ledger_that_delta_restored_goes_on_after_a_restore_of_the_pipeline(warehouse):
    """
    Rows of 5 and 6 are gone from the ledger; their files are in the tables, and their numbers are not given again.
    """
    last, then = contents(warehouse, "p"), contents(warehouse, "p", increment=4)
    ledger = DeltaTable(warehouse.pipeline("p").ledger)
    ledger.restore(ledger.version() - 4)
    assert Ledger(warehouse.pipeline("p").ledger).last_done().increment == 4
    command = f"`replay restore --warehouse {warehouse.root} --pipeline p --to 4`"
    with pytest.raises(DamagedLedger, match=f"continue from what it knows: {command}"):
        run(warehouse, "p")

    assert restore(warehouse, "p", 4).increment == 7
    assert contents(warehouse, "p") == then
    run(warehouse, "p")
    assert contents(warehouse, "p") == last


def test_an_epoch_that_a_lost_row_had_is_not_taken_again(warehouse, alone):
    """
    Ledger and tables go back to before a promote, whose marks under epoch 1 the tables keep.
    """
    ledger = Ledger(warehouse.pipeline("p").ledger)
    before = DeltaTable(ledger.path).version()
    promote(warehouse, "b")
    DeltaTable(ledger.path).restore(before)
    for table, version in done_row(warehouse, "p", LAST).content.versions.items():
        DeltaTable(warehouse.pipeline("p").table(table)).restore(version)

    assert restore(warehouse, "p", LAST).epoch == 2
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "p")
    assert contents(warehouse, "p") == contents(alone, "p")


def test_every_commit_of_a_pipeline_carries_the_epoch_of_its_ledger(warehouse):
    restore(warehouse, "p", 4)
    run(warehouse, "p", increments=1)

    for table in existing_tables(warehouse.pipeline("p").root):
        if not table.startswith(("ledger", "retractions")):
            delta = DeltaTable(warehouse.pipeline("p").table(table))
            assert delta.transaction_version(f"p/{table}/1") == 8
            assert delta.transaction_version(f"p/{table}/0") == 7  # fenced by the restore
    assert branches(warehouse).keys() == {"b"}


# --- a runner that does not know -----------------------------------------------------------------------------


def test_a_runner_that_is_still_at_work_when_its_pipeline_is_restated_cannot_commit(warehouse):
    """
    It has planned and computed increment 7, and believes that it may commit; somebody has given it up meanwhile.
    """
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    want = contents(warehouse, "p", increment=4)

    def restore_meanwhile(step: str) -> None:
        if step == "computed 7":
            restore(warehouse, "p", 4, abandon=True)

    with pytest.raises(LedgerConflict, match="expected increment 7 not done yet"):
        run(warehouse, "p", on_step=restore_meanwhile)
    assert contents(warehouse, "p") == want


def test_a_runner_between_its_last_commit_and_its_done_row_cannot_finish_a_given_up_increment(warehouse):
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)

    def restore_meanwhile(step: str) -> None:
        if step == "committed outputs/pages 7":
            restore(warehouse, "p", 4, abandon=True)

    with pytest.raises((LedgerConflict, LedgerGap)):
        run(warehouse, "p", on_step=restore_meanwhile)
    assert contents(warehouse, "p") == contents(warehouse, "p", increment=4)
    assert Ledger(warehouse.pipeline("p").ledger).last_done().increment == 8


@pytest.mark.parametrize("at", ["planned 1", "committed state/pages-store 1"])
def test_a_runner_in_its_very_first_increment_is_shut_out_of_every_table(tmp_path, at):
    """
    It has no table yet when its increment is given up. The next increments show what it has written.
    """
    warehouse = landed(tmp_path)

    def restore_meanwhile(step: str) -> None:
        if step == at:
            restore(warehouse, "p", 0, abandon=True)

    with pytest.raises((CommitLost, LedgerConflict, LedgerGap)):
        run(warehouse, "p", max_records=30, on_step=restore_meanwhile)
    run(warehouse, "p", max_records=30)
    run(warehouse, "fresh", max_records=30)

    assert contents(warehouse, "p") == contents(warehouse, "fresh")


def test_who_runs_an_increment_again_while_it_is_given_up_is_shut_out_of_every_table(tmp_path, monkeypatch):
    """
    A plan without tables, as earlier versions wrote it; its runner makes them when the restore has looked for them.
    """
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "planned 1")
    for table in existing_tables(warehouse.pipeline("p").root):
        if table != "ledger":
            shutil.rmtree(warehouse.pipeline("p").table(table))
    pending = Ledger.pending

    def restore_meanwhile(ledger: Ledger):
        found = pending(ledger)
        monkeypatch.undo()
        restore(warehouse, "p", 0, abandon=True)
        return found

    monkeypatch.setattr(Ledger, "pending", restore_meanwhile)
    with pytest.raises((CommitLost, LedgerConflict, LedgerGap)):
        run(warehouse, "p", max_records=30)
    run(warehouse, "p", max_records=30)
    run(warehouse, "fresh", max_records=30)

    assert contents(warehouse, "p") == contents(warehouse, "fresh")
