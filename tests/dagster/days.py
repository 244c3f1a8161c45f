"""A shop with a partition for each day, which a test lands and runs, and what it has reported to Dagster."""

from pathlib import Path
from typing import Any

import dagster as dg

from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop

DAY = 86_400_000
JANUARY = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_offset=0)
ONE, TWO, THREE, FOUR = (f"2026-01-0{day}" for day in (1, 2, 3, 4))
RESTORE = {"ops": {"shop_increments": {"config": {"restore": True}}}}
CLICKS = [
    ("ann", "home", JANUARY + 10),
    ("bob", "home", JANUARY + 50),
    ("ann", "cart", JANUARY + DAY + 5),
    ("cid", "help", JANUARY + DAY - 7),  # comes late for the first day
    ("ann", "cart", JANUARY + 3 * DAY + 1),  # nothing on the third
    ("bob", "help", JANUARY + 4 * DAY),
]


class Days:
    """``root``: holds the warehouse and the directory of clicks."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.root, self.instance = root, instance
        self.warehouse = Warehouse(root / "warehouse")
        self.replays(None)

    def replays(self, topology: Topology | None) -> None:
        """From now on with this code; None: the shop's own."""
        self.definitions = shop.definitions(
            self.root, check_engine="plain", partitions=DAYS, cron="0 4 * * *", topology=topology
        )

    def land(self, clicks: list[tuple[str | None, str, int]], name: str = "1") -> None:
        shop.drop_files(self.root / "clicks", name, clicks)
        job = self.definitions.resolve_job_def("shop_land")
        assert job.execute_in_process(instance=self.instance).success

    def run(self, *days: str, **config: Any) -> dg.ExecuteInProcessResult:
        """One partition, or a backfill from the first to the last in one run."""
        job = self.definitions.resolve_job_def("shop_replay")
        where: dict[str, Any] = {"partition_key": days[0]}
        if len(days) > 1:
            where = {
                "tags": {
                    "dagster/asset_partition_range_start": days[0],
                    "dagster/asset_partition_range_end": days[-1],
                }
            }
        run_config = {"ops": {"shop_increments": {"config": config}}} if config else None
        return job.execute_in_process(instance=self.instance, raise_on_error=False, run_config=run_config, **where)

    def cuts(self) -> list[int]:
        return [row.content.cut_to["clicks"]["0"] for row in Ledger(self.warehouse.pipeline("shop").ledger).done_rows()]

    def versions(self, output: str = "sessions") -> dict[str, str]:
        """Partition to the data version of its newest materialization."""
        records = self.instance.fetch_materializations(dg.AssetKey(["shop", "outputs", output]), limit=100).records
        told = [record.asset_materialization for record in reversed(records)]
        return {str(each.partition): (each.tags or {})["dagster/data_version"] for each in told if each is not None}

    def materialized(self, output: str = "sessions") -> dict[str, dict[str, Any]]:
        """Partition to the numbers of its newest materialization."""
        key = dg.AssetKey(["shop", "outputs", output])
        records = reversed(self.instance.fetch_materializations(key, limit=100).records)
        told = [record.asset_materialization for record in records]
        return {
            str(each.partition): {name: value.value for name, value in each.metadata.items()}
            for each in told
            if each is not None
        }


def failure(result: dg.ExecuteInProcessResult) -> str:
    events = [event for event in result.all_node_events if event.is_step_failure]
    return str(events[0].step_failure_data.user_failure_data or events[0].step_failure_data.error) if events else ""
