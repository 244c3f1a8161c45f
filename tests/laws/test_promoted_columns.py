"""A branch whose code has a fold more, or one less, is promoted: tables gain columns and lose none."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kstreams_replay.expectations.verdicts import check_increment, is_in_order
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology, fold
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.restated import Killed, changelog, landed, run
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant

pytestmark = pytest.mark.sampled


def totals(*, sums: bool) -> Topology:
    """Clicks by key, counted; with ``sums`` their milliseconds too."""
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    folds = {"n": fold.count(), **({"ms": fold.sum("ms")} if sums else {})}
    stream.group_by_key().aggregate(materialized=Materialized.as_("totals-store"), **folds).to("totals")
    return builder.build()


COUNTS, SUMS = totals(sums=False), totals(sums=True)


def rows_of(warehouse: Warehouse, pipeline: str, topology: Topology, increment: int | None = None) -> list:
    """The output and the store, as their readers see them."""
    store = read_store(warehouse, pipeline, topology, "totals-store", increment=increment).to_pylist()
    found = changelog(warehouse, pipeline, "totals", increment), store
    return [sorted(({**row, "increment": 0} for row in rows), key=repr) for rows in found]


@pytest.mark.parametrize(
    ("at", "dies_at"), [(0, None), (1, "planned 3"), (1, "committed state/totals-store 3"), (1, "committed dropped 3")]
)
def test_a_branch_with_one_fold_more_is_promoted(tmp_path, at, dies_at):
    """
    Was refused: "expected the columns that web2 has". Rows from before the fork have null there, until their next
    record.
    """
    warehouse = landed(tmp_path)
    run(warehouse, "web", COUNTS, max_records=30)
    before = changelog(warehouse, "web", "totals")
    fork(warehouse, "web", at, "web2", topology=SUMS)
    run(warehouse, "web2", SUMS, max_records=60)

    def die(step: str) -> None:
        if step == dies_at:
            raise Killed(step)

    if dies_at is not None:
        with pytest.raises(Killed):
            promote(warehouse, "web2", on_step=die)
    promote(warehouse, "web2")

    assert rows_of(warehouse, "web", SUMS) == rows_of(warehouse, "web2", SUMS)
    was = changelog(warehouse, "web", "totals", increment=2)
    assert [{**row, "value": {"n": row["value"]["n"]}} for row in was] == before  # history is as it was
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    assert run(warehouse, "web", SUMS, max_records=30) == [4]
    run(warehouse, "web2", SUMS, max_records=30)
    assert rows_of(warehouse, "web", SUMS) == rows_of(warehouse, "web2", SUMS)
    verdicts = check_increment(warehouse, "web", replay_facts(SUMS), engine="plain")
    assert all(is_in_order(verdict) for verdict in verdicts)


def test_a_branch_with_one_fold_less_is_promoted_and_the_column_stays(tmp_path):
    warehouse = landed(tmp_path)
    run(warehouse, "web", SUMS, max_records=60)
    fork(warehouse, "web", 0, "web2", topology=COUNTS)
    run(warehouse, "web2", COUNTS, max_records=60)

    promote(warehouse, "web2")

    assert {row["value"]["ms"] for row in changelog(warehouse, "web", "totals")} == {None}
    schema = pa.schema(DeltaTable(warehouse.pipeline("web").output("totals")).schema().to_arrow())
    assert [field.name for field in schema.field("value").type] == ["n", "ms"]
