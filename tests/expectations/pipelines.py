"""Small pipelines whose tables have something for every guarantee to judge.

Rule: each runs in several increments, and all guarantees hold of it before a mutant is planted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from tests.planted import Landed


@dataclass(frozen=True)
class Pipeline:
    """``slice``: records of an increment."""

    topology: Callable[[], Topology]
    tapes: Mapping[str, list[Landed]]
    partitions: int = 1
    slice: int = 5


TEXTS = Consumed(Serde.string(), Serde.string())


def tape(*records: tuple[str | None, str | None, int]) -> list[Landed]:
    """(key, value, time) of partition 0."""
    return [
        Landed(0, None if key is None else key.encode(), None if value is None else value.encode(), time_ms)
        for key, value, time_ms in records
    ]


def windows() -> Topology:
    """Counts in hopping windows: updates, and final results."""
    builder = StreamsBuilder()
    counts = (
        builder.stream("clicks", TEXTS)
        .group_by_key()
        .windowed_by(TimeWindows.of_size(20, grace=5).advance_by(10))
        .count(Materialized.as_("counts-store"))
    )
    counts.to_stream().to("updates")
    counts.suppress(Suppressed.until_window_closes(name="final")).to_stream().to("finals")
    return builder.build()


CLICKS = tape(
    ("ann", "1", 3),
    ("bob", "2", 9),
    ("ann", "3", 14),
    ("ann", "4", 27),
    ("bob", "5", 2),  # late for [0, 20)
    ("cid", "6", 41),
    ("ann", "7", 44),
    ("bob", "8", 47),
    ("cid", "9", 66),
    ("ann", "10", 93),
)

PIPELINES = {"windows": Pipeline(windows, {"clicks": CLICKS})}
