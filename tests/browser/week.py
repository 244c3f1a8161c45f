"""Three pipelines that a browser launches: `dagster dev -m tests.browser.week`, in a folder of its own.

`week`: a count of every user's clicks by day, with a partition for each of seven days; on every day but the first, a
click comes a day late. `launched`: the shop's six clicks. `shop`: the same with an engine that writes a final result
twice, and an asset `newsletter` that reads it.
"""

from pathlib import Path
from typing import Any

import dagster as dg

from kstreams_replay.jobs.topology import Topology
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine
from tests.dagster import shop
from tests.dagster.duplicates import DuplicatingEngine

HERE = Path(".")
DAY = 86_400_000
JANUARY = 1_767_225_600_000  # 2026-01-01T00:00:00Z
WEEK = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-08")
CLICKS: list[tuple[str | None, str, int]] = [
    (user, "home", JANUARY + (day - late) * DAY + 60_000 * (day + 1))
    for day in range(8)
    for user, late in (("ann", 0), ("bob", min(day, 1)))
]


def pipeline(folder: Path, name: str, topology: Topology, **settings: Any) -> dg.Definitions:
    """Over ``folder``/warehouse, and the clicks in ``folder``/``name``, which are a topic of its own."""
    return replay_definitions(
        topology,
        pipeline=name,
        warehouse=folder / name / "warehouse",
        sources={"clicks": shop.source(folder / name / "clicks")},
        engine=settings.pop("engine", LocalEngine()),
        check_engine="plain",
        **settings,
    )


def definitions(folder: Path) -> dg.Definitions:
    """All three."""

    @dg.asset(deps=[dg.AssetKey(["shop", "outputs", "sessions"])], group_name="shop")
    def newsletter() -> None:
        (folder / "newsletter").touch()

    return dg.Definitions.merge(
        pipeline(folder, "week", shop.windows(DAY, grace=DAY), partitions=WEEK),
        pipeline(folder, "launched", shop.topology()),
        pipeline(folder, "shop", shop.topology(), engine=DuplicatingEngine()),
        dg.Definitions(assets=[newsletter]),
    )


def drop_clicks(folder: Path) -> None:
    """What has come before anybody looks."""
    shop.drop_files(folder / "week" / "clicks", "1", CLICKS)
    for name in ("launched", "shop"):
        shop.drop_files(folder / name / "clicks", "1", shop.MORNING)


defs = definitions(HERE)
