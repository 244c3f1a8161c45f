"""A pipeline of two sub-topologies that leaves a trace of the process in which each task ran.

The folder of the traces is named by $PROBE. A standalone worker runs its executor in ``<its folder>/app-…/<number>``,
which is a task's working directory.
"""

import os
from pathlib import Path
from typing import Any

from kstreams_replay.jobs.topology import StreamsBuilder, Topology, fold
from tests.clicks import CLICKS, final_sessions, page_counts

PROBE = "PROBE"


def _trace(part: str) -> Any:
    def trace(key: Any, value: Any) -> None:
        if PROBE in os.environ:
            place = Path.cwd().parent.parent.name
            Path(os.environ[PROBE], f"{part}-{place}").touch()

    return trace


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", CLICKS)
    folds = {"clicks": fold.count(), "total": fold.sum("ms")}
    final_sessions(clicks.peek(_trace("first")), store="sessions", held="final", **folds).to("sessions")
    page_counts(clicks, store="pages").to_stream().peek(_trace("second")).to("pages")
    return builder.build()
