"""An output as the input of somebody's own asset: which rows, and as which frame."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import land_files
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop

DAY = 86_400_000
DAYS = dg.DailyPartitionsDefinition("1970-01-01", end_date="1970-01-04")
CLICKS = [
    ("ann", "home", 10),
    ("bob", "home", DAY + 5),
    ("ann", "cart", DAY + 7),
    ("ann", "home", 20),  # late for the first day, in time for its window
    ("cid", "help", 2 * DAY),
]
COUNTS = dg.AssetKey(["shop", "outputs", "counts"])


class Reader:
    """Days one and two are replayed; ``load`` runs an asset that loads the counts of users by windows of a day."""

    def __init__(self, root: Any, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        warehouse = Warehouse(root / "warehouse")
        topology = shop.windows(2 * DAY)
        shop.drop_files(root / "clicks", "1", CLICKS)
        land_files(None, warehouse, "clicks", shop.source(root / "clicks"))
        for until_ms in (DAY, 2 * DAY):
            list(replay(warehouse, topology, pipeline="shop", runner=LocalRunner(), until_ms=until_ms))
        self.definitions = shop.definitions(root, topology=topology, partitions=DAYS)

    def load(self, annotation: Any = None, partition: str | None = None, **metadata: str) -> Any:
        """What the asset was given."""
        given: list[Any] = []

        def mine(counts):
            given.append(counts)

        mine.__annotations__ = {} if annotation is None else {"counts": annotation}
        asset = dg.asset(
            mine,
            ins={"counts": dg.AssetIn(COUNTS, input_manager_key="shop_tables", metadata=metadata)},
            partitions_def=None if partition is None else DAYS,
        )
        job = dg.define_asset_job("mine_job", dg.AssetSelection.assets(asset), executor_def=dg.in_process_executor)
        merged = dg.Definitions.merge(self.definitions, dg.Definitions(assets=[asset], jobs=[job]))
        result = merged.resolve_job_def("mine_job").execute_in_process(
            instance=self.instance, partition_key=partition, raise_on_error=False
        )
        if not result.success:
            (failed,) = [event for event in result.all_node_events if event.is_step_failure]
            error = failed.step_failure_data.error
            assert error is not None
            raise AssertionError(str(failed.step_failure_data.user_failure_data or error.to_string()))
        return given[0]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Reader(tmp_path_factory.mktemp("shop"), instance)


def counts(frame: pl.DataFrame) -> dict[str, int]:
    return dict(frame.select("key", "value").iter_rows())


@pytest.mark.parametrize("kind", [pa.Table, pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_the_annotation_says_the_frame(reader, kind):
    loaded = reader.load(kind)

    assert isinstance(loaded, kind)


def test_the_whole_table_is_the_newest_of_every_key_and_window(reader):
    assert counts(reader.load()) == {"ann": 3, "bob": 1}


def test_the_changelog_is_every_record(reader):
    assert reader.load(rows="changelog")["value"].to_list() == [1, 1, 2, 3]


def test_as_of_a_partition_later_ones_are_not_there(reader):
    assert counts(reader.load(partition="1970-01-01", load="as_of_partition")) == {"ann": 1}
    assert counts(reader.load(partition="1970-01-02", load="as_of_partition")) == {"ann": 3, "bob": 1}


def test_windows_of_the_own_partition_have_what_came_late(reader):
    assert counts(reader.load(partition="1970-01-01", load="windows_of_partition")) == {"ann": 3, "bob": 1}
    assert counts(reader.load(partition="1970-01-02", load="windows_of_partition")) == {}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"partition": "1970-01-03", "load": "as_of_partition"}, "one that was not run yet"),
        ({"load": "windows_of_partition"}, "an asset with partitions of its own"),
        ({"load": "some"}, 'expected "whole" or "as_of_partition" or "windows_of_partition"'),
        ({"annotation": int}, "expected polars.DataFrame, polars.LazyFrame, pandas.DataFrame"),
    ],
)
def test_what_cannot_be_loaded_is_refused(reader, asked, said):
    with pytest.raises(AssertionError, match=said):
        reader.load(**asked)


def test_it_does_not_write(reader):
    @dg.asset(io_manager_key="shop_tables")
    def mine() -> int:
        return 1

    job = dg.define_asset_job("mine_job", dg.AssetSelection.assets(mine), executor_def=dg.in_process_executor)
    merged = dg.Definitions.merge(reader.definitions, dg.Definitions(assets=[mine], jobs=[job]))

    with pytest.raises(Exception, match="shop_tables only reads"):
        merged.resolve_job_def("mine_job").execute_in_process(instance=reader.instance)
