"""The example in Dagster: ``dagster dev -m examples.flights.definitions``, where the demo has put its files.

Owns the example's definitions: three landed topics, two sub-topologies, their checks, a job and a nightly schedule.
"""

from pathlib import Path

import dagster as dg

from examples.flights.topics import SOURCES, source
from examples.flights.topology import topology
from kstreams_replay import replay_definitions
from kstreams_replay.orchestration.resources import Engine

FOLDER = Path("warehouse")
"""What ``python -m examples.flights`` writes to by default."""


def flights(
    folder: Path, *, engine: Engine | None = None, partitions: dg.TimeWindowPartitionsDefinition | None = None
) -> dg.Definitions:
    """Definitions over the topics' files and tables beneath ``folder``. ``engine``: None for Spark; ``partitions``:
    days, say, None for a run that takes all that is new.
    """
    return replay_definitions(
        topology,
        pipeline="flights",
        warehouse=folder / "tables",
        sources={topic: source(topic, folder / "incoming") for topic in SOURCES},
        engine=engine,
        cron="0 4 * * *",
        partitions=partitions,
    )


defs = flights(FOLDER)
