"""Whether a topic that lands for the first time is one that the project's topology reads.

Rule: it is only a warning, since a topic may be landed for another topology, or to compare it with an output.
"""

from pathlib import Path

from ...state.errors import ReplayError
from ...state.near_names import did_you_mean
from ...state.tables.warehouse import Warehouse
from .defaults import FILE, read_defaults


def unread_topic(warehouse: Warehouse, topic: str) -> str | None:
    """A sentence where the topology that `replay.toml` names does not read ``topic``, which has not landed yet. None:
    there is no such topology, it cannot be loaded, or it reads or writes the topic.
    """
    reference, landed = read_defaults(Path(FILE)).get("topology"), warehouse.topics()
    if reference is None or topic in landed:
        return None
    from ..settings.topology_loading import load_topology

    try:
        topology = load_topology(reference).reading([topic, *landed])
    except ReplayError:  # a run says why
        return None
    read = topology.source_topics()
    if topic in read or topic in {sink.topic for sink in topology.sinks()}:
        return None
    next_step = did_you_mean(topic, read, f"it reads {', '.join(read) or 'no landed topic'}")
    return f"{topic}: the topology {reference} of {FILE} does not read this topic; {next_step}"
