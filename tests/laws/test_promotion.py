"""Promote swaps a branch into its parent as one step: once, whoever dies where."""

import polars as pl
import pytest
from deltalake import DeltaTable

from kstreams_replay.expectations.verdicts import check_increment, is_in_order
from kstreams_replay.jobs.branches.branches import drop, fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, fold
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import ConfigError, LedgerError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.restated import (
    CHANGED,
    LAST,
    OUTPUTS,
    RECORDS,
    Killed,
    changelog,
    clicks,
    contents,
    copy_of_forked,
    kill,
    run,
)
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant

pytestmark = pytest.mark.sampled


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    return copy_of_forked(tmp_path)


def plain_rows(warehouse: Warehouse, pipeline: str, output: str) -> list[tuple]:
    """What one who knows nothing but Delta reads from the folder of an output."""
    files = DeltaTable(warehouse.pipeline(pipeline).output(output)).file_uris()
    frame = pl.scan_parquet(files, hive_partitioning=True).select("partition", "offset", "key", "value").collect()
    return sorted(frame.rows(), key=repr)


# --- promote -------------------------------------------------------------------------------------------------


def test_a_promoted_branch_is_what_its_parent_shows_from_then_on(warehouse):
    want, before = contents(warehouse, "b", CHANGED), contents(warehouse, "p", increment=LAST)

    row = promote(warehouse, "b")

    assert (row.increment, row.epoch, row.content.kind) == (LAST + 1, 1, "promote")
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
    assert {"G1", "G2", "G3"} <= {v.guarantee for v in verdicts if v.answer == "true"}
    assert [v for v in verdicts if not is_in_order(v)] == []
    assert done_row(warehouse, "p").content.books["read"] == RECORDS // 2


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
    The value of the store's aggregate changes from a number to a struct; nothing from before the fork stays.
    """
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    counted = stream.group_by_key().aggregate(
        n=fold.count(), most=fold.max("ms"), materialized=Materialized.as_("counts-store")
    )
    counted.map_values("n AS value", name="value-of-n").to_stream().to("counts")
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
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    stream.map_values("page", name="only-page").to("counts")
    fork(warehouse, "p", 0, "c", topology=builder.build())
    run(warehouse, "c", builder.build())

    with pytest.raises(ConfigError, match=r"c/outputs/counts: expected columns of .* p has, got another type of value"):
        promote(warehouse, "c")


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
        with pytest.raises(
            LedgerError,
            match=r"planned by `replay promote b --w\S+ \S+`; run `replay promote b --w",
        ):
            run(warehouse, "p")
        with pytest.raises(ConfigError, match=r"expected no promote under way, .*; finish it: `replay promote b --w"):
            drop(warehouse, "b")
    row = promote(warehouse, "b")

    assert row.increment == 7
    assert contents(warehouse, "p", CHANGED) == want
    table = DeltaTable(warehouse.pipeline("p").table(retractions))
    assert sum(table.get_add_actions(flatten=True)["num_records"].to_pylist()) == len(
        [each for each in changelog(warehouse, "p", "counts", increment=6) if each["increment"] > 3]
    )


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
