"""Key and value of a record, landed or repartitioned, and the landed record behind it.

Owns reading them where they lie. Rule: bytes are decoded by the serdes of the topology that reads them; what cannot be
decoded is shown as it is.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...state.errors import ReplayError
from ...state.tables.out_of_play import exclusions
from ..graph.nodes import RepartitionNode
from ..history.history import History
from ..tape.landed_topic import Landed
from ..task.decoding import Decoder
from ..topology.topology import Topology
from .committed_answer import cause_of
from .explanation import parse_place, say_place
from .readable_values import readable


@dataclass(frozen=True)
class RecordValues:
    """``source``: the landed record, as topic:partition:offset. ``time_ms``: with which it landed; ``key`` and
    ``value`` as the topology reads them, bytes where it cannot.
    """

    source: str
    time_ms: int
    key: Any
    value: Any


def values_of(history: History, topology: Topology, record: str) -> RecordValues | None:
    """Of the landed record behind ``record``, also of one that was taken out of play since; None: no table names it, or
    nothing of it is left.
    """
    named = parse_place(record)
    try:
        for sub in topology.sub_topologies:
            if named[0] in {node.topic for node in sub.repartitions}:
                _, cause = cause_of(history, named)
                sender = topology.sub_topology(cause[1])
                # A cause names sub-topology, partition and offset, and no topic: with several sources it may be of any
                # of them.
                (source,) = sender.sources if len(sender.sources) == 1 else (None,)
                if source is None or isinstance(source, RepartitionNode) or source.landed_topic is None:
                    return None
                return values_of(history, topology, say_place((source.landed_topic, cause[2], cause[3])))
    except ReplayError:
        return None
    topic, partition, offset = named
    booked = exclusions(history.warehouse, topic)
    if any(out.is_erased and (out.partition, out.offset) == (partition, offset) for out in booked):
        return None
    for sub in topology.readers_of(topic):
        for node in sub.sources:
            if node.topic == topic:
                landed = replace(Landed.of(history.warehouse, topic), excluded={})
                for rows in landed.slice(str(partition), offset, offset + 1).chunks(1):
                    return _decoded(record, node, rows.combine_chunks())
    return None


def _decoded(record: str, node: Any, rows: Any) -> RecordValues:
    batch, bad, _ = Decoder().decode(node, rows, np.arange(1))
    time_ms, key, value = (rows[name][0].as_py() for name in ("timestamp", "key", "value"))
    if not bad[0]:
        key = readable(batch.keys.typed(batch.key), node.shape.key)[0]
        value = readable(batch.value.all(), node.shape.value)[0]
    return RecordValues(record, time_ms, key, value)
