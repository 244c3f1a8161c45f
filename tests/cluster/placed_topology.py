"""A pipeline of one sub-topology with state whose tasks can be held up on one worker.

The folder $GATE has the file ``close``, with the name of a worker (its $WORKER) or EVERYBODY, while the tasks there
wait; they say so in ``reached``.
"""

import os
import time
from pathlib import Path
from typing import Any

from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, TimeWindows, Topology

GATE, WORKER = "GATE", "WORKER"
EVERYBODY = "everybody"


def _wait_here(key: Any, value: Any) -> None:
    folder = Path(os.environ.get(GATE, "/nowhere"))
    while _closed_to(folder) in (EVERYBODY, os.environ.get(WORKER)):
        (folder / "reached").touch()
        time.sleep(0.02)


def _closed_to(folder: Path) -> str:
    try:
        return (folder / "close").read_text()
    except FileNotFoundError:
        return ""


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string())).peek(_wait_here).group_by_key()
    clicks.count(Materialized.as_("counts")).to_stream().to("counts")
    clicks.windowed_by(TimeWindows.of_size(50, grace=20)).count(Materialized.as_("windows")).to_stream().to("windows")
    return builder.build()
