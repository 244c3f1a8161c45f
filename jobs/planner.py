"""Plans increments: how far each source topic is read (a cut), before anything runs.

Owns the choice of cuts, a function of what has landed and the ledger. Rule: a plan is written down before it is run,
and run again as written. Where several partitions meet in one repartition table, ``idle="wait"`` leaves records unread
until every partition with records has got past their time, so that a later cut changes nothing (ARCHITECTURE.md, Order
across partitions).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.tape import Slice, slice_of
from jobs.topology.nodes import RepartitionNode
from jobs.topology.topology import SubTopology, Topology
from state.errors import ConfigError
from state.files import DataFile, read_files
from state.ledger import Ledger
from state.tables import Warehouse
from state.times import NO_TIMESTAMP_MS

Cut = dict[str, dict[str, int]]
"""topic → partition (as text, since it is JSON) → next offset to read."""


@dataclass(frozen=True)
class Plan:
    """One increment. ``records`` in ``[cut_from, cut_to)``; ``waiting``: landed, but held back by ``idle="wait"``.

    ``partitions``: sub-topology (as text) → number of its tasks.
    """

    increment: int
    cut_from: Cut
    cut_to: Cut
    records: int
    waiting: int
    partitions: dict[str, int]
    topology: str
    is_rerun: bool = False

    def content(self) -> dict[str, Any]:
        """What the ledger keeps."""
        return {
            "topology": self.topology,
            "cut_from": self.cut_from,
            "cut_to": self.cut_to,
            "records": self.records,
            "waiting": self.waiting,
            "partitions": self.partitions,
        }


@dataclass(frozen=True)
class Landed:
    """A landed topic: its files, and the next offset that landing will write, by partition."""

    topic: str
    path: str
    files: list[DataFile]
    ends: dict[str, int]

    @classmethod
    def of(cls, warehouse: Warehouse, topic: str) -> "Landed":
        """Raises ConfigError for a topic that was never landed."""
        last = Ledger(warehouse.landing_ledger(topic), warehouse.storage_options).last_done()
        if last is None:
            raise ConfigError(
                f"topic {topic!r}", "a landed topic", f"landed topics {warehouse.topics()}", "land it before replaying"
            )
        path = warehouse.landed(topic)
        ends = dict.fromkeys(map(str, range(last.content["partitions"])), 0) | last.content["cut_to"]
        return cls(topic, path, read_files(path, storage_options=warehouse.storage_options), ends)

    def slice(self, partition: str, begin: int, end: int) -> Slice:
        return slice_of(self.path, self.files, int(partition), begin, end)


@dataclass(frozen=True)
class _Unread:
    """Unread records of all topics in order of causes: (time, topic number, partition, offset)."""

    time_ms: np.ndarray
    topic: np.ndarray
    partition: np.ndarray
    offset: np.ndarray

    def __len__(self) -> int:
        return len(self.offset)

    def where(self, mask: np.ndarray) -> "_Unread":
        return _Unread(self.time_ms[mask], self.topic[mask], self.partition[mask], self.offset[mask])


class Planner:
    """``previous``: content of the last done row, or {}."""

    def __init__(
        self, warehouse: Warehouse, topology: Topology, *, increment: int, previous: dict[str, Any], idle: str
    ) -> None:
        if idle not in ("wait", "proceed"):
            raise ConfigError("idle", '"wait" or "proceed"', repr(idle), "choose one")
        self.topology, self.increment, self.previous, self.idle = topology, increment, previous, idle
        self.landed = {topic: Landed.of(warehouse, topic) for topic in topology.source_topics()}
        cut_from: Cut = previous.get("cut_to", {})
        self.begin: Cut = {
            topic: {p: cut_from.get(topic, {}).get(p, 0) for p in landed.ends} for topic, landed in self.landed.items()
        }

    def partitions(self) -> dict[str, int]:
        """Tasks of every sub-topology. A repartition table keeps the number it was made with."""
        before: dict[str, int] = self.previous.get("partitions", {})
        counts: dict[str, int] = {}
        for sub in self.topology.sub_topologies:
            if isinstance(sub.source, RepartitionNode):
                above = next(other for other in self.topology.sub_topologies if sub.source in other.repartitions)
                wanted = sub.source.partitions or counts[str(above.id)]
                counts[str(sub.id)] = before.get(str(sub.id), wanted)
            else:
                counts[str(sub.id)] = len(self.landed[sub.source.topic].ends)
        return counts

    def plans(self, max_records: int | None) -> Iterator[Plan]:
        """Increments to run one after the other; none when there is nothing to read."""
        if max_records is not None and max_records < 1:
            raise ConfigError("max_records", "1 or more", str(max_records), "give a larger number")
        begin, end = self.begin, {topic: dict(landed.ends) for topic, landed in self.landed.items()}
        increment, waiting = self.increment, 0
        if max_records is None and not self._waits():
            cuts = iter([end])
        else:
            unread = self._unread()
            ready = unread.where(self._is_ready(unread))
            waiting = len(unread) - len(ready)
            cuts = self._cuts(ready, max_records or max(len(ready), 1))
        for cut in cuts:
            records = sum(
                landed.slice(p, begin[topic][p], cut[topic][p]).count()
                for topic, landed in self.landed.items()
                for p in landed.ends
            )
            if records:
                yield Plan(increment, begin, cut, records, waiting, self.partitions(), self.topology.fingerprint)
                begin, increment = cut, increment + 1

    def _waits(self) -> bool:
        return self.idle == "wait" and any(sub.repartitions for sub in self.topology.sub_topologies)

    def _unread(self) -> _Unread:
        """Rule: a record's place is the largest time of its tape up to it, then topic, partition and offset."""
        columns: list[tuple[np.ndarray, ...]] = []
        for number, (topic, landed) in enumerate(self.landed.items()):
            for p, end in landed.ends.items():
                times = landed.slice(p, self.begin[topic][p], end).times()
                seen = np.concatenate([[self._tape_time(topic, p)], times["timestamp"].to_numpy()])
                running = np.maximum.accumulate(seen)[1:]
                n = len(times)
                columns.append((running, np.full(n, number), np.full(n, int(p)), times["offset"].to_numpy()))
        time_ms, topics, partitions, offsets = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.lexsort((offsets, partitions, topics, time_ms))
        return _Unread(time_ms[order], topics[order], partitions[order], offsets[order])

    def _sub_topology(self, topic: str) -> SubTopology:
        return next(sub for sub in self.topology.sub_topologies if sub.source.topic == topic)

    def _tape_time(self, topic: str, partition: str) -> int:
        task: dict[str, Any] = self.previous.get("tasks", {}).get(f"{self._sub_topology(topic).id}_{partition}", {})
        return int(task.get("tape_time_ms", NO_TIMESTAMP_MS))

    def _is_ready(self, unread: _Unread) -> np.ndarray:
        """Which of ``unread`` can be placed for good: those before the time that every partition of their topic has
        reached.
        """
        ready = np.ones(len(unread), np.bool_)
        if self.idle == "proceed":
            return ready
        for number, (topic, landed) in enumerate(self.landed.items()):
            if not self._sub_topology(topic).repartitions:
                continue
            reached = []
            for p in landed.ends:
                times = unread.time_ms[(unread.topic == number) & (unread.partition == int(p))]
                last = int(times[-1]) if len(times) else self._tape_time(topic, p)
                if last != NO_TIMESTAMP_MS:
                    reached.append(last)
            if len(reached) > 1:
                ready &= (unread.topic != number) | (unread.time_ms < min(reached))
        return ready

    def _cuts(self, unread: _Unread, max_records: int) -> Iterator[Cut]:
        cut = self.begin
        names = list(self.landed)
        for first in range(0, len(unread), max_records):
            cut = {topic: dict(partitions) for topic, partitions in cut.items()}
            for row in _last_of_each(unread, first, min(first + max_records, len(unread))):
                cut[names[unread.topic[row]]][str(unread.partition[row])] = int(unread.offset[row]) + 1
            yield cut


def _last_of_each(unread: _Unread, first: int, after: int) -> np.ndarray:
    """The last row of every topic-partition among rows ``[first, after)``."""
    tags = unread.topic[first:after] * (1 << 32) + unread.partition[first:after]
    _, places = np.unique(tags[::-1], return_index=True)
    rows: np.ndarray = after - 1 - places
    return rows
