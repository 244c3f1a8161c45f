"""Law 5: cost follows the change. An increment loads the rows that its records touch, and those that are due."""

import pytest

from kstreams_replay.jobs.execution import task_stores
from kstreams_replay.jobs.execution.store_files import StoreFiles
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse
from tests.landing.landed_records import records
from tests.laws.pipelines import merging
from tests.laws.topologies import PARTITIONS, everything, tape
from tests.planted import LandedRecord, plant, tables_of
from tests.sampling import is_nightly

pytestmark = pytest.mark.sampled

KEYS = 3_000


def counts() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    clicks.group_by_key().count(Materialized.as_("clicks-by-user")).to_stream().to("counts")
    (
        clicks.group_by_key()
        .windowed_by(TimeWindows.of_size(1_000, grace=0))
        .count(Materialized.as_("by-second"))
        .suppress(Suppressed.until_window_closes(name="final"))
        .to_stream()
        .to("finals")
    )
    return builder.build()


def click(user: int, time_ms: int) -> LandedRecord:
    return LandedRecord(0, b"user-%d" % user, b"home", time_ms)


def run(warehouse: Warehouse, topology: Topology, runner: LocalRunner, **options) -> None:
    for _ in replay(warehouse, topology, pipeline="p", runner=runner, idle="proceed", **options):
        pass


@pytest.fixture
def loaded(monkeypatch) -> dict[str, int]:
    """Rows that each store of the last task loaded; every store is looked up, however small."""
    found: dict[str, int] = {}
    load = StoreFiles.load

    def count(stored, counters, hashes=None, **how):
        rows = load(stored, counters, hashes, **how)
        found[stored.operator.context.node] = len(rows)
        return rows

    monkeypatch.setattr(StoreFiles, "load", count)
    monkeypatch.setattr(task_stores, "ALL_BELOW_ROWS", 0)
    monkeypatch.setattr(task_stores, "ALL_BELOW_SHARE", 0)
    return found


@pytest.mark.parametrize("has_cache", [True, False])
def test_an_increment_loads_the_rows_of_its_keys_and_those_that_are_due(tmp_path, loaded, has_cache):
    warehouse, runner = Warehouse(tmp_path), LocalRunner(str(tmp_path / "cache") if has_cache else None)
    plant(warehouse, "clicks", [click(user, 500 + user // 1_000 * 1_000) for user in range(KEYS)], partitions=1)
    run(warehouse, counts(), runner)

    plant(warehouse, "clicks", [click(7, 2_600), click(2_500, 2_700), click(9_999, 2_800)], partitions=1)
    run(warehouse, counts(), runner)
    assert list(loaded.values()) == [2, 1, 1], "counts of 7 and 2,500; of the windows only that of 2,500 is still shown"

    plant(warehouse, "clicks", [click(1, 3_000)], partitions=1)
    run(warehouse, counts(), runner)
    assert list(loaded.values())[2] == KEYS // 3 + 2, "windows from 2,000 on close: all of their entries are due"


@pytest.mark.parametrize("has_cache", [True, False])
def test_rows_looked_up_give_what_a_store_loaded_whole_gives(tmp_path, monkeypatch, has_cache):
    tables = {}
    for name, few in (("whole", 1_000_000), ("looked-up", 0)):
        monkeypatch.setattr(task_stores, "ALL_BELOW_ROWS", few)
        monkeypatch.setattr(task_stores, "ALL_BELOW_SHARE", 0)
        warehouse = Warehouse(tmp_path / name)
        plant(warehouse, "clicks", tape(5, 400 if is_nightly() else 240), partitions=PARTITIONS)
        run(warehouse, everything(), LocalRunner(str(tmp_path / "cache") if has_cache else None), max_records=30)
        tables[name] = tables_of(warehouse, "p", everything())

    assert tables["looked-up"] == tables["whole"]


def test_files_of_a_store_are_as_many_as_the_logarithm_of_its_rows(tmp_path):
    warehouse, runner = Warehouse(tmp_path), LocalRunner(str(tmp_path / "cache"))
    for increment in range(40):
        first = 50 * increment
        plant(warehouse, "clicks", [click(user, 500) for user in range(first, first + 50)], partitions=1)
        run(warehouse, counts(), runner)

    path = warehouse.pipeline("p").state("clicks-by-user")
    files = read_files(path)
    assert sum(file.records for file in files) == 2_000
    assert len(files) == 2, "40 is 101000"


def test_tables_and_ledgers_of_many_increments_have_few_files(tmp_path):
    warehouse = Warehouse(tmp_path)
    with merging(4):
        for number in range(16):
            clicked = [(0, 500 * number + each, b"user-%d" % each, b"home") for each in (0, 1)]
            land_records(warehouse, "clicks", records(*clicked), partitions=1)
            run(warehouse, counts(), LocalRunner())

    paths = [warehouse.landed("clicks"), warehouse.pipeline("p").output("counts")]
    ledgers = [warehouse.landing_ledger("clicks"), warehouse.pipeline("p").ledger]
    assert [len(read_files(path)) for path in paths] == [2, 2], "1 to 15, and 16"
    assert [len(read_files(path)) for path in ledgers] == [3, 3], "1 to 15; 16 planned, and done"
    rows = read_rows(paths[0], read_files(paths[0]), LANDED_SCHEMA).to_pylist()
    assert [(row["offset"], row["increment"]) for row in rows] == [(n, n // 2 + 1) for n in range(32)]
    assert [row["value"] for row in read_changelog(warehouse, "p", "counts").to_pylist()] == [
        number + 1 for number in range(16) for _ in (0, 1)
    ]
