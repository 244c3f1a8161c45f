"""Where partitions of an hour, a day, a week and a month end: the times by hand, and the offsets of the cuts."""

from pathlib import Path

import dagster as dg
import pytest

from kstreams_replay.orchestration.partition_windows import Window, windows_of
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.dagster.days import DAYS

pytestmark = pytest.mark.sampled

HOUR = 3_600_000
NEW_YEAR = 1_767_225_600_000  # 2026-01-01T00:00:00Z, a Thursday
SUNDAY = NEW_YEAR + 3 * 24 * HOUR  # 2026-01-04
MONDAY = NEW_YEAR + 4 * 24 * HOUR
FEBRUARY, MARCH = NEW_YEAR + 31 * 24 * HOUR, NEW_YEAR + 59 * 24 * HOUR
MARCH_29 = 1_774_738_800_000  # 2026-03-29T00:00 in Berlin, where 02:00 is skipped


def test_partitions_that_could_never_run_are_refused_when_definitions_are_built(tmp_path):
    """A weekday's partition would wait for Sunday's records for ever, and static ones have no times at all."""
    days = dg.TimeWindowPartitionsDefinition(
        start="2026-01-01", fmt="%Y-%m-%d", cron_schedule="0 0 * * *", exclusions=["0 0 * * 6", "0 0 * * 0"]
    )
    static = dg.StaticPartitionsDefinition(["eu", "us"])
    others = [
        static,
        dg.DynamicPartitionsDefinition(name="shops"),
        dg.MultiPartitionsDefinition({"a": static, "b": DAYS}),
    ]
    for partitions in [days, *others]:
        with pytest.raises(ConfigError) as refused:
            shop.definitions(tmp_path, check_engine="plain", partitions=partitions)
        assert str(refused.value).startswith("partitions: expected partitions ")
        assert type(partitions).__name__ in str(refused.value)


def test_a_week_whose_friday_reaches_up_to_monday_has_no_gap():
    """From Thursday the 1st: Friday the 2nd is a partition of three days."""
    days = dg.TimeWindowPartitionsDefinition(start="2026-01-01", fmt="%Y-%m-%d", cron_schedule="0 0 * * 1-5")

    assert windows_of(days, ["2026-01-02"]) == [Window("2026-01-02", NEW_YEAR + 24 * HOUR, MONDAY)]


DEFINITIONS: dict[str, tuple[dg.TimeWindowPartitionsDefinition, list[Window]]] = {
    "hourly": (
        dg.HourlyPartitionsDefinition("2026-01-01-00:00", end_date="2026-01-01-02:00"),
        [
            Window("2026-01-01-00:00", NEW_YEAR, NEW_YEAR + HOUR),
            Window("2026-01-01-01:00", NEW_YEAR + HOUR, NEW_YEAR + 2 * HOUR),
        ],
    ),
    "daily": (
        dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-03"),
        [
            Window("2026-01-01", NEW_YEAR, NEW_YEAR + 24 * HOUR),
            Window("2026-01-02", NEW_YEAR + 24 * HOUR, NEW_YEAR + 48 * HOUR),
        ],
    ),
    "weekly": (
        dg.WeeklyPartitionsDefinition("2026-01-04", end_date="2026-01-18"),
        [
            Window("2026-01-04", SUNDAY, SUNDAY + 7 * 24 * HOUR),
            Window("2026-01-11", SUNDAY + 7 * 24 * HOUR, SUNDAY + 14 * 24 * HOUR),
        ],
    ),
    "weekly, from Monday": (
        dg.WeeklyPartitionsDefinition("2026-01-05", end_date="2026-01-19", day_offset=1),
        [
            Window("2026-01-05", MONDAY, MONDAY + 7 * 24 * HOUR),
            Window("2026-01-12", MONDAY + 7 * 24 * HOUR, MONDAY + 14 * 24 * HOUR),
        ],
    ),
    "monthly": (
        dg.MonthlyPartitionsDefinition("2026-01-01", end_date="2026-03-01"),
        [Window("2026-01-01", NEW_YEAR, FEBRUARY), Window("2026-02-01", FEBRUARY, MARCH)],
    ),
    "daily, in Berlin": (
        dg.DailyPartitionsDefinition("2026-03-29", end_date="2026-03-31", timezone="Europe/Berlin"),
        [
            Window("2026-03-29", MARCH_29, MARCH_29 + 23 * HOUR),
            Window("2026-03-30", MARCH_29 + 23 * HOUR, MARCH_29 + 47 * HOUR),
        ],
    ),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_partition_is_the_times_from_its_begin_to_before_its_end(name):
    definition, windows = DEFINITIONS[name]

    assert windows_of(definition, list(definition.get_partition_keys())) == windows
    assert windows_of(definition, [windows[1].key, windows[0].key]) == windows, "in the order of time"


@pytest.mark.parametrize("name", [name for name in DEFINITIONS if name != "daily"])
def test_each_partition_ends_before_the_first_record_of_its_end_or_later(name, tmp_path: Path):
    """Of each partition the first and the last millisecond are clicked, and the first one after the last."""
    definition, (first, second) = DEFINITIONS[name]
    times = [first.start_ms, first.end_ms - 1, second.start_ms, second.end_ms - 1, second.end_ms]
    shop.drop_files(tmp_path / "clicks", "1", [("ann", "home", time_ms) for time_ms in times])
    definitions = shop.definitions(tmp_path, topology=shop.windows(HOUR), check_engine="plain", partitions=definition)
    both = {"dagster/asset_partition_range_start": first.key, "dagster/asset_partition_range_end": second.key}
    dropped = [dg.AssetKey(["shop", "dropped"])]

    with dg.DagsterInstance.ephemeral() as instance:
        assert definitions.resolve_job_def("shop_land").execute_in_process(instance=instance).success
        job = definitions.resolve_job_def("shop_replay")
        assert job.execute_in_process(instance=instance, tags=both, asset_selection=dropped).success

    rows = Ledger(Warehouse(tmp_path / "warehouse").pipeline("shop").ledger).done_rows()
    assert [row.content.cut_to["clicks"]["0"] for row in rows] == [2, 4]
