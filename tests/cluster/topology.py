"""A pipeline of two sub-topologies that leaves a trace of the process in which each task ran.

The folder of the traces is named by $PROBE. A standalone worker runs its executor in ``<its folder>/app-…/<number>``,
which is a task's working directory.
"""

import os
from pathlib import Path
from typing import Any

from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)

PROBE = "PROBE"


def _trace(part: str) -> Any:
    def trace(key: Any, value: Any) -> None:
        if PROBE in os.environ:
            place = Path.cwd().parent.parent.name
            Path(os.environ[PROBE], f"{part}-{place}").touch()

    return trace


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    (
        clicks.peek(_trace("first"))
        .group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap(20, grace=15))
        .aggregate(clicks=fold.count(), total=fold.sum("ms"), materialized=Materialized.as_("sessions"))
        .suppress(Suppressed.until_window_closes(name="final"))
        .to("sessions")
    )
    (
        clicks.group_by("page")
        .windowed_by(TimeWindows.of_size(30, grace=10))
        .count(Materialized.as_("pages"))
        .to_stream()
        .peek(_trace("second"))
        .to("pages")
    )
    return builder.build()
