"""The records that have the key of a row which an output lacks, in the topics that the tasks of the output read.

Owns where they are looked for. Rule: nothing is run. The key is that of the output, so a topic is looked through only
where no step between it and the output changes keys; below a repartition its topic is, which has the new key.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.promises import Grid
from ...state.tables.names import TableName
from ...state.times import UNBOUNDED
from ..graph.nodes import RepartitionNode, SinkNode, SourceNode
from ..history.history import History
from ..history.inspection import parse_key
from ..tape.landed_topic import Landed
from ..topology.topology import SubTopology, Topology
from .committed_answer import committed_rows
from .observations import Position

Source = SourceNode | RepartitionNode
NEAREST_MAX = 3
"""So many records of a topic are followed."""
_ROWS = 1 << 16
_SENT = pa.schema([("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("increment", pa.int64())])


@dataclass(frozen=True)
class TopicRecords:
    """``total``: records of ``topic`` with the key. ``nearest``: the places and times (ms) of those that are nearest to
    the window, or of the newest, by time.
    """

    topic: str
    total: int
    nearest: list[tuple[Position, int]]
    places: frozenset[tuple[int, int]] = field(repr=False, default=frozenset())
    """Partition and offset of all of them."""


@dataclass(frozen=True)
class KeyRecords:
    """``topics``: those that were looked through, the output's own input first. ``changed_by``: the step that gives
    records another key on their way from ``input_topic``, which was not looked through; None: no step does.
    """

    topics: list[TopicRecords]
    input_topic: str
    changed_by: str | None = None
    path: frozenset[str] = frozenset()
    """Names of the output's sink and of all nodes of its tasks above it."""


def records_of_key(
    history: History, topology: Topology, sub: SubTopology, sink: SinkNode, key: str, window_ms: int | None
) -> KeyRecords:
    """Those of the topics that ``sub``, which has ``sink``, reads by the key ``key`` (as text, a number, or JSON), also
    those that no increment has read. Raises ConfigError for a key that is none.
    """
    own, changed_by = _input(topology, sub, sink)
    input_topic = own.landed_topic or own.topic
    path = _path(topology, sub, sink)
    if changed_by is not None:
        return KeyRecords([], input_topic, changed_by, path)
    sources = [own, *(each for each in sub.sources if each is not own and each.name in path)]
    topics = [_of_topic(history, source, key, window_ms) for source in sources if source.shape.key == sink.shape.key]
    return KeyRecords(topics, input_topic, None, path)


def windows_beside(topology: Topology, sink: SinkNode, window_ms: int) -> tuple[int, int] | None:
    """Starts of the windows before and after ``window_ms``, where windows of a fixed size lie on a grid and none begins
    then; else None.
    """
    for node in topology.graph.above(sink):
        grid: Grid | None = getattr(getattr(node, "windows", None), "grid", None)
        if grid is None:
            continue
        if grid.kind != "time" or not grid.advance_ms or grid.bounds_at is not None:
            return None
        behind = (window_ms - grid.first_ms) % grid.advance_ms
        return (window_ms - behind, window_ms - behind + grid.advance_ms) if behind else None
    return None


def _input(topology: Topology, sub: SubTopology, sink: SinkNode) -> tuple[Source, str | None]:
    """The source of ``sub`` whose records come to ``sink``, and the nearest step between that changes keys."""
    changed_by = None
    own = {source.name: source for source in sub.sources}
    for node in topology.graph.above(sink):
        if node.name in own:
            return own[node.name], changed_by
        if node.changes_keys and changed_by is None:
            changed_by = node.name
    raise AssertionError(f"{sink.name} has a source")


def _path(topology: Topology, sub: SubTopology, sink: SinkNode) -> frozenset[str]:
    of_task = {node.name: node for node in sub.nodes}
    path, unseen = {sink.name}, [sink.name]
    while unseen:
        node = of_task[unseen.pop()]
        above = [name for name in (*node.inputs, *node.reads) if name in of_task and name not in path]
        path.update(above)
        unseen += above if not isinstance(node, RepartitionNode) else []
    return frozenset(path)


def _of_topic(history: History, source: Source, key: str, window_ms: int | None) -> TopicRecords:
    serde = source.shape.key
    wanted = serde.encode(pa.array([parse_key(serde.arrow_type, key).as_py()], serde.arrow_type))[0]
    topic = source.landed_topic or source.topic
    rows = _sent(history, source) if isinstance(source, RepartitionNode) else _landed(history, topic)
    partitions, offsets, times = [], [], []
    for partition, chunk in rows:
        mine = chunk.filter(pc.fill_null(pc.equal(chunk["key"], wanted), False))
        partitions.append(np.full(len(mine), partition))
        offsets.append(mine["offset"].to_numpy())
        times.append(mine["timestamp"].to_numpy())
    of, at, time_ms = (np.concatenate([np.empty(0, np.int64), *each]) for each in (partitions, offsets, times))
    far = -time_ms if window_ms is None else np.abs(time_ms - window_ms)
    near = np.sort(np.lexsort((at, of, far))[:NEAREST_MAX])
    near = near[np.lexsort((at[near], of[near], time_ms[near]))].tolist()
    nearest = [((topic, int(of[row]), int(at[row])), int(time_ms[row])) for row in near]
    return TopicRecords(topic, len(at), nearest, frozenset(zip(of.tolist(), at.tolist(), strict=True)))


def _landed(history: History, topic: str) -> Iterator[tuple[int, pa.Table]]:
    landed = Landed.of(history.warehouse, topic)
    for partition, end in landed.ends.items():
        for chunk in landed.slice(partition, 0, end).chunks(_ROWS):
            yield int(partition), chunk


def _sent(history: History, source: RepartitionNode) -> Iterator[tuple[int, pa.Table]]:
    done, table = history.at().row.content, TableName.repartition(source.topic)
    for partition in range(done.partitions[table]):
        yield partition, committed_rows(history, done, table, _SENT, ("offset", 0, UNBOUNDED), partition)
