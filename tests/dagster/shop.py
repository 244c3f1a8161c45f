"""A small shop: clicks become final sessions of every user and final counts of every page.

One topic, two sub-topologies; topic `clicks` comes from a directory of JSON lines. Times in milliseconds; sessions: gap
20, grace 15; pages: tumbling 30, grace 10.
"""

import json
from pathlib import Path
from typing import Any

import dagster as dg

from kstreams_replay.jobs.landing.landing import FileSource
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import Engine, LocalEngine
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.clicks import CLICKS, final_page_counts, final_sessions

MORNING = [
    ("ann", "home", 100),
    ("bob", "home", 105),
    ("ann", "cart", 110),
    ("cid", "help", 200),  # closes the sessions of ann and bob, and pages [90, 120)
    ("bob", "cart", 101),  # late for its session and for its page
    (None, "home", 210),  # a null key has no session
]
EVENING = [
    ("ann", "home", 300),  # closes cid's session and pages [180, 210)
    ("bob", "help", 400),  # closes ann's session and pages [300, 330)
]


def topology() -> Topology:
    builder = StreamsBuilder()
    build_into(builder)
    return builder.build()


def build_into(builder: StreamsBuilder) -> None:
    """The shop's sessions and pages."""
    clicks = builder.stream("clicks", CLICKS)
    folds = {"clicks": fold.count(), "last_page": fold.last("page")}
    final_sessions(clicks, store="open-sessions", held="held-sessions", **folds).to("sessions")
    final_page_counts(clicks, store="open-pages", held="held-pages").to("pages")


def windows(size: int, *, grace: int = 0, timestamp_extractor: str | None = None) -> Topology:
    """Counts of every user in windows of ``size`` milliseconds, as they change."""
    builder = StreamsBuilder()
    consumed = Consumed(Serde.string(), Serde.json("page string, ms long"), timestamp_extractor=timestamp_extractor)
    grouped = builder.stream("clicks", consumed).group_by_key()
    grouped.windowed_by(TimeWindows.of_size(size, grace=grace)).count(Materialized.as_("windows")).to("counts")
    return builder.build()


def final_counts_by_page() -> Topology:
    """Final counts of every page and hour: behind a repartition, a store and a suppress, so that tables have levels."""
    builder = StreamsBuilder()
    hours = builder.stream("clicks", CLICKS).group_by("page").windowed_by(TimeWindows.of_size("1h", grace="10m"))
    counted = hours.count(Materialized.as_("hours"))
    counted.suppress(Suppressed.until_window_closes(name="final")).to("counts")
    return builder.build()


def finer() -> Topology:
    return windows(100)


def coarser() -> Topology:
    return windows(200)


def drop_files(folder: Path, name: str, clicks: list[tuple[str | None, str, int]]) -> None:
    """Another system drops a file of clicks."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"user": user, "page": page, "ms": ms}) for user, page, ms in clicks]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def source(folder: Path) -> FileSource:
    return FileSource(path=str(folder), format="jsonl", timestamp="ms", key="user")


def definitions(root: Path, *, engine: Engine | None = None, **settings: Any) -> dg.Definitions:
    """The shop's definitions over ``root``/warehouse and the clicks in ``root``/clicks."""
    return replay_definitions(
        settings.pop("topology", None) or topology(),
        pipeline="shop",
        warehouse=Warehouse(root / "warehouse"),
        sources=settings.pop("sources", {"clicks": source(root / "clicks")}),
        engine=engine or LocalEngine(),
        **settings,
    )
