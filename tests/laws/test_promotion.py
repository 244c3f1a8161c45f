"""Promote swaps a branch into its parent as one step, and restore sets a pipeline back: once, whoever dies where."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from expectations.verdicts import check_increment
from jobs.branches import branches, drop, fork
from jobs.promotion import promote
from jobs.reading import done_row
from jobs.restatement import restore
from orchestration.facts import replay_facts
from state.errors import CommitLost, ConfigError, LedgerConflict, LedgerError, LedgerGap
from state.ledger import Ledger
from state.table_parts import existing_tables
from state.tables import Warehouse
from tests.laws.restated import OUTPUTS, RECORDS, changelog, clicks, contents, landed, run
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant

CHANGED = clicks(least_ms=20)
LAST = RECORDS // 10


class Killed(Exception):
    """The process died here."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """Pipeline p of six increments, and branch b of it, forked at 3 and replayed with changed code in two."""
    folder = tmp_path_factory.mktemp("begun")
    warehouse = landed(folder)
    assert run(warehouse, "p") == list(range(1, LAST + 1))
    fork(warehouse, "p", 3, "b", topology=CHANGED)
    assert run(warehouse, "b", CHANGED, max_records=20) == [4, 5]
    return folder


@pytest.fixture
def warehouse(begun, tmp_path) -> Warehouse:
    return Warehouse(shutil.copytree(begun, tmp_path / "warehouse"))


@pytest.fixture
def alone(begun, tmp_path) -> Warehouse:
    """The same, left alone; it reads 30 records more."""
    warehouse = Warehouse(shutil.copytree(begun, tmp_path / "alone"))
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "p")
    return warehouse


def plain_rows(warehouse: Warehouse, pipeline: str, output: str) -> list[tuple]:
    """What one who knows nothing but Delta reads from the folder of an output."""
    files = DeltaTable(warehouse.pipeline(pipeline).output(output)).file_uris()
    import polars as pl

    frame = pl.scan_parquet(files, hive_partitioning=True).select("partition", "offset", "key", "value").collect()
    return sorted(frame.rows(), key=repr)


# --- promote -------------------------------------------------------------------------------------------------


def test_a_promoted_branch_is_what_its_parent_shows_from_then_on(warehouse):
    want, before = contents(warehouse, "b", CHANGED), contents(warehouse, "p", increment=LAST)

    row = promote(warehouse, "b")

    assert (row.increment, row.epoch, row.content["kind"]) == (LAST + 1, 1, "promote")
    assert contents(warehouse, "p", CHANGED) == want
    assert contents(warehouse, "p", increment=LAST) == before  # history is as it was


def test_one_who_reads_with_delta_alone_sees_the_restated_table(warehouse):
    promote(warehouse, "b")

    for output in OUTPUTS:
        rows = [(r["partition"], r["offset"], r["key"], r["value"]) for r in changelog(warehouse, "b", output)]
        assert plain_rows(warehouse, "p", output) == sorted(rows, key=repr)


def test_a_parent_goes_on_after_a_promote_as_the_branch_would_have(warehouse):
    promote(warehouse, "b")
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)

    assert run(warehouse, "p", CHANGED) == [8, 9, 10]
    run(warehouse, "b", CHANGED)

    assert contents(warehouse, "p", CHANGED) == contents(warehouse, "b", CHANGED)
    assert done_row(warehouse, "p").epoch == 1


def test_a_branch_with_higher_numbers_than_its_parent_gives_the_promote_a_number_above_them(warehouse):
    """
    Rows of stores keep the branch's numbers, and the newest row of a key is the one with the highest.
    """
    fork(warehouse, "p", 3, "c")
    assert run(warehouse, "c", max_records=5)[-1] == 9

    assert promote(warehouse, "c").increment == 10
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    assert run(warehouse, "p", increments=1) == [11]
    run(warehouse, "p")
    run(warehouse, "c")
    assert contents(warehouse, "p") == contents(warehouse, "c")


def test_the_guarantees_hold_of_a_promote_and_its_books_are_those_of_the_branch(warehouse):
    promote(warehouse, "b")

    verdicts = check_increment(warehouse, "p", replay_facts(CHANGED), engine="plain")
    assert [(v.guarantee, v.answer) for v in verdicts] == [("G1", "true"), ("G2", "true"), ("G3", "true")]
    assert done_row(warehouse, "p").content["books"]["read"] == RECORDS // 2


def test_a_promote_of_what_was_promoted_writes_nothing(warehouse):
    first = promote(warehouse, "b")

    assert promote(warehouse, "b") == first


def test_a_branch_may_be_promoted_again_when_it_has_read_more(warehouse):
    promote(warehouse, "b")
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "b", CHANGED)

    promote(warehouse, "b")

    assert contents(warehouse, "p", CHANGED) == contents(warehouse, "b", CHANGED)


def test_a_branch_of_a_branch_is_promoted_into_that_branch(warehouse):
    fork(warehouse, "b", 4, "c")
    run(warehouse, "c", clicks())
    parent = contents(warehouse, "p")

    promote(warehouse, "c")

    assert contents(warehouse, "b") == contents(warehouse, "c")
    assert contents(warehouse, "p") == parent
    promote(warehouse, "b")
    assert contents(warehouse, "p") == contents(warehouse, "c")


def test_a_branch_from_the_start_with_other_stores_is_promoted_whole(warehouse):
    """
    The value of the store's aggregate changes from a number to a struct; nothing of before the fork stays.
    """
    from jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, fold

    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    counted = stream.group_by_key().aggregate(
        n=fold.count(), most=fold.max("ms"), materialized=Materialized.as_("counts-store")
    )
    counted.map_values("n AS value", name="n").to_stream().to("counts")
    other = builder.build()
    fork(warehouse, "p", 0, "c", topology=other)
    run(warehouse, "c", other)

    promote(warehouse, "c")

    assert changelog(warehouse, "p", "pages") == []
    assert plain_rows(warehouse, "p", "counts") == plain_rows(warehouse, "c", "counts")
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "p", other)
    run(warehouse, "c", other)
    assert plain_rows(warehouse, "p", "counts") == plain_rows(warehouse, "c", "counts")


def test_a_parent_that_has_read_further_is_not_set_back(warehouse):
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "p")

    with pytest.raises(LedgerError, match=r"expected to have read as far as p, got clicks-0 at .*let it catch up"):
        promote(warehouse, "b")
    run(warehouse, "b", CHANGED)
    promote(warehouse, "b")

    assert contents(warehouse, "p", CHANGED) == contents(warehouse, "b", CHANGED)


def test_an_unfinished_increment_of_either_is_finished_first(warehouse):
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    kill(warehouse, "b", "planned 6", CHANGED)
    with pytest.raises(LedgerError, match="'b': expected no unfinished increment, got increment 6"):
        promote(warehouse, "b")

    run(warehouse, "b", CHANGED)
    kill(warehouse, "p", "planned 7")
    with pytest.raises(LedgerError, match="'p': expected no unfinished increment, got increment 7"):
        promote(warehouse, "b")


def test_an_output_with_other_columns_is_not_promoted(warehouse):
    from jobs.topology import Consumed, Serde, StreamsBuilder

    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    stream.map_values("page", name="page").to("counts")
    fork(warehouse, "p", 0, "c", topology=builder.build())
    run(warehouse, "c", builder.build())

    with pytest.raises(ConfigError, match="c/outputs/counts: expected the columns that p has, got value"):
        promote(warehouse, "c")


def kill(warehouse: Warehouse, pipeline: str, last_step: str, topology=None) -> None:
    def die(step: str) -> None:
        if step == last_step:
            raise Killed(step)

    with pytest.raises(Killed):
        run(warehouse, pipeline, topology, on_step=die)


# --- a promote that dies -------------------------------------------------------------------------------------


def steps_of(warehouse: Warehouse) -> list[str]:
    steps: list[str] = []
    promote(warehouse, "b", on_step=steps.append)
    return steps


TABLES = [
    *(f"state/{name}" for name in ("counts-store", "final-pages-store", "pages-store")),
    "repartition/pages-store-repartition",
    "dropped",
    "dead_letter",
    *(f"outputs/{name}" for name in OUTPUTS),
]
STEPS = ["planned 7", *(f"committed {table} 7" for table in TABLES), "done 7"]


def test_the_steps_at_which_a_promote_is_killed_are_all_there_are(warehouse):
    assert steps_of(warehouse) == STEPS


@pytest.mark.parametrize("last_step", STEPS)
def test_a_promote_killed_at_a_step_is_finished_by_promoting_again(warehouse, last_step):
    def die(step: str) -> None:
        if step == last_step:
            raise Killed(step)

    want, retractions = contents(warehouse, "b", CHANGED), "retractions/counts"
    with pytest.raises(Killed):
        promote(warehouse, "b", on_step=die)
    if last_step != STEPS[-1]:
        with pytest.raises(LedgerError, match="planned by `replay promote b`; run `replay promote b` again"):
            run(warehouse, "p")
        with pytest.raises(ConfigError, match="expected no promote under way"):
            drop(warehouse, "b")
    row = promote(warehouse, "b")

    assert row.increment == 7
    assert contents(warehouse, "p", CHANGED) == want
    table = DeltaTable(warehouse.pipeline("p").table(retractions))
    assert sum(table.get_add_actions(flatten=True)["num_records"].to_pylist()) == len(
        [each for each in changelog_as_of(warehouse, "p", "counts", 6) if each["increment"] > 3]
    )


def changelog_as_of(warehouse: Warehouse, pipeline: str, output: str, increment: int) -> list[dict]:
    from jobs.reading import read_changelog

    return read_changelog(warehouse, pipeline, output, increment=increment).to_pylist()


def test_a_killed_promote_is_finished_with_what_the_branch_was_then(warehouse):
    def die(step: str) -> None:
        raise Killed(step)

    want = contents(warehouse, "b", CHANGED)
    with pytest.raises(Killed):
        promote(warehouse, "b", on_step=die)
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "b", CHANGED)

    promote(warehouse, "b")

    assert contents(warehouse, "p", CHANGED) == want


def test_a_runner_that_is_still_at_work_when_its_pipeline_is_restated_cannot_commit(warehouse):
    """
    It has planned and computed increment 7, and believes that it may commit; somebody has given it up meanwhile.
    """
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    want = contents(warehouse, "p", increment=4)

    def restore_meanwhile(step: str) -> None:
        if step == "computed 7":
            restore(warehouse, "p", 4, abandon=True)

    with pytest.raises(CommitLost, match="expected no increment after 7, got increment 8"):
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


# --- restore -------------------------------------------------------------------------------------------------


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
    Promoted by mistake: history is still there, and it is the way back.
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
    with pytest.raises(LedgerError, match="run `replay restore --pipeline p --to 4` again"):
        restore(warehouse, "p", 5)

    assert restore(warehouse, "p", 4).increment == 7
    assert contents(warehouse, "p") == contents(warehouse, "p", increment=4)


def test_a_table_that_delta_restored_goes_on_after_a_restore_of_the_pipeline(warehouse, alone):
    """
    RESTORE keeps the mark of increment 6 and takes its rows away: no runner may go on from there, nor does it.
    """
    table = DeltaTable(warehouse.pipeline("p").output("counts"))
    table.restore(done_row(warehouse, "p", 4).content["versions"]["outputs/counts"])
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    with pytest.raises(CommitLost, match="a table that was restored since; go on under a new epoch"):
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
    with pytest.raises(LedgerConflict, match="the ledger was restored; go on under epoch 1: `replay restore --to 4`"):
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
    for table, version in done_row(warehouse, "p", LAST).content["versions"].items():
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
