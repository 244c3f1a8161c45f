"""Plans increments: how far each source topic is read (a cut), before anything runs.

Owns the choice of cuts, a function of what has landed and the ledger. Rule: a plan is written down before it is run,
and run again as written. Where several partitions meet in one repartition table, ``idle="wait"`` leaves records unread
until every partition with records has got past their time, so that a later cut changes nothing (ARCHITECTURE.md, Order
across partitions).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.tape import Slice, slice_of
from jobs.topology.copartitions import partitions_of
from jobs.topology.nodes import RepartitionNode, SourceNode
from jobs.topology.topology import Topology
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

    ``partitions``: sub-topology (as text) → number of its tasks, "repartition/<name>" → number of its partitions.
    ``changes``: of the code since the increment before; ``migrate``: stores that this increment rewrites, reading no
    records (jobs/changed_code.py); both None mostly.
    """

    increment: int
    cut_from: Cut
    cut_to: Cut
    records: int
    waiting: int
    partitions: dict[str, int]
    topology: str
    is_rerun: bool = False
    changes: list[dict[str, Any]] | None = None
    migrate: dict[str, Any] | None = None

    def content(self) -> dict[str, Any]:
        """What the ledger keeps."""
        code = {name: part for name in ("changes", "migrate") if (part := getattr(self, name)) is not None}
        return code | {
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
    def of(cls, warehouse: Warehouse, topic: str, begin: Mapping[str, int] | None = None) -> "Landed":
        """``begin``: next offset to read, by partition; files before all of them are left out. Raises ConfigError for a
        topic that was never landed.
        """
        last = Ledger(warehouse.landing_ledger(topic), warehouse.storage_options).last_done()
        if last is None:
            raise ConfigError(
                f"topic {topic!r}", "a landed topic", f"landed topics {warehouse.topics()}", "land it before replaying"
            )
        path = warehouse.landed(topic)
        ends = dict.fromkeys(map(str, range(last.content["partitions"])), 0) | last.content["cut_to"]
        first = min(((begin or {}).get(partition, 0) for partition in ends), default=0)
        files = read_files(path, within=("offset", first, 2**63 - 1), storage_options=warehouse.storage_options)
        return cls(topic, path, files, ends)

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
        self,
        warehouse: Warehouse,
        topology: Topology,
        *,
        increment: int,
        previous: dict[str, Any],
        idle: str,
        order: str = "time",
    ) -> None:
        for name, given, known in (("idle", idle, ("wait", "proceed")), ("order", order, ("time", "arrival"))):
            if given not in known:
                raise ConfigError(name, " or ".join(f'"{choice}"' for choice in known), repr(given), "choose one")
        self.topology, self.increment, self.previous, self.idle, self.order = (
            topology, increment, previous, idle, order,
        )  # fmt: skip
        cut_from: Cut = previous.get("cut_to", {})
        read_again = {table.topic for sub in topology.sub_topologies for table in sub.globals}
        self.landed = {
            topic: Landed.of(warehouse, topic, None if topic in read_again else cut_from.get(topic))
            for topic in topology.source_topics()
        }
        self.begin: Cut = {
            topic: {p: cut_from.get(topic, {}).get(p, 0) for p in landed.ends} for topic, landed in self.landed.items()
        }

    def partitions(self) -> dict[str, int]:
        """Tasks of every sub-topology, by its id, and partitions of every repartition table, as ``repartition/<name>``,
        which keeps the number it was made with.

        Raises TopologyError when topics that are joined have different numbers of partitions.
        """
        before: dict[str, int] = self.previous.get("partitions", {})
        landed = {topic: len(landed.ends) for topic, landed in self.landed.items()}
        topics = partitions_of(self.topology.graph, landed)
        counts: dict[str, int] = {}
        tasks: dict[int, int] = {}
        for sub in self.topology.sub_topologies:
            for node in sub.repartitions:
                name = f"repartition/{node.topic}"
                topics[node.topic] = counts[name] = before.get(name, topics[node.topic])
        for sub in self.topology.sub_topologies:
            read = [topics[s.topic] for s in sub.sources if isinstance(s, SourceNode) or s.target_of is None]
            tasks[sub.kafka_id] = max([tasks.get(sub.kafka_id, 1), *read])
        return counts | {str(sub.id): tasks[sub.kafka_id] for sub in self.topology.sub_topologies}

    def plans(self, max_records: int | None) -> Iterator[Plan]:
        """Increments to run one after the other; none when there is nothing to read."""
        if max_records is not None and max_records < 1:
            raise ConfigError("max_records", "1 or more", str(max_records), "give a larger number")
        begin, end = self.begin, {topic: dict(landed.ends) for topic, landed in self.landed.items()}
        increment, waiting = self.increment, 0
        if max_records is None and not self._waits():
            cuts: Iterator[tuple[Cut, int]] = iter([(end, self._count(end))])
        else:
            unread = self._unread()
            ready = unread.where(self._is_ready(unread))
            waiting = len(unread) - len(ready)
            cuts = self._cuts(ready, max_records or max(len(ready), 1))
        for cut, records in cuts:
            if any(cut[topic] != begin[topic] for topic in cut):
                yield Plan(increment, begin, cut, records, waiting, self.partitions(), self.topology.fingerprint)
                begin, increment = cut, increment + 1

    def _count(self, end: Cut) -> int:
        """Records up to ``end``; those that only global tables read are none."""
        return sum(
            landed.slice(p, self.begin[topic][p], end[topic][p]).count()
            for topic, landed in self.landed.items()
            if self.topology.readers_of(topic)
            for p in landed.ends
        )

    def _waits(self) -> bool:
        """Whether records of several queues meet anywhere, whose order waits for the slowest."""
        if self.idle == "proceed" or self.order == "arrival":
            return False
        return any(
            sub.repartitions or sub.globals or sum(isinstance(source, SourceNode) for source in sub.sources) > 1
            for sub in self.topology.sub_topologies
        )

    def _unread(self) -> _Unread:
        """Rule: a record's place is its arrival, or the largest time of its tape up to it, then topic, partition and
        offset.
        """
        columns: list[tuple[np.ndarray, ...]] = []
        for number, (topic, landed) in enumerate(self.landed.items()):
            for p, end in landed.ends.items():
                rows = landed.slice(p, self.begin[topic][p], end).times(arrival=self.order == "arrival")
                if self.order == "arrival":
                    place = rows["arrival"].to_numpy()
                else:
                    seen = np.concatenate([[self._tape_time(topic, p)], rows["timestamp"].to_numpy()])
                    place = np.maximum.accumulate(seen)[1:]
                n = len(rows)
                columns.append((place, np.full(n, number), np.full(n, int(p)), rows["offset"].to_numpy()))
        time_ms, topics, partitions, offsets = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.lexsort((offsets, partitions, topics, time_ms))
        return _Unread(time_ms[order], topics[order], partitions[order], offsets[order])

    def _tape_time(self, topic: str, partition: str) -> int:
        """Largest time of the topic's partition that an increment before has read."""
        if topic in self._meeting_topics():
            found: dict[str, dict[str, int]] = self.previous.get("tape_times", {})
            return found.get(topic, {}).get(partition, NO_TIMESTAMP_MS)
        (sub,) = self.topology.readers_of(topic)
        task: dict[str, Any] = self.previous.get("tasks", {}).get(f"{sub.id}_{partition}", {})
        return int(task.get("tape_time_ms", NO_TIMESTAMP_MS))

    def _meeting_topics(self) -> set[str]:
        """Topics that a task reads beside others, so that its own tape time is not theirs; a global table's always."""
        found: set[str] = set()
        for sub in self.topology.sub_topologies:
            topics = [node.topic for node in (*sub.sources, *sub.globals) if not isinstance(node, RepartitionNode)]
            if len(topics) > 1 or sub.globals:
                found |= set(topics)
        return found

    def tape_times(self, plan: Plan, previous: dict[str, Any]) -> dict[str, dict[str, int]]:
        """Largest time of every partition of the meeting topics up to the cut, for the done row.

        ``previous``: content of the done row before that one; this planner may be some increments old.
        """
        found = {topic: dict(times) for topic, times in previous.get("tape_times", {}).items()}
        for topic in self._meeting_topics():
            landed = self.landed[topic]
            for p, end in plan.cut_to[topic].items():
                times = landed.slice(p, plan.cut_from[topic].get(p, 0), end).times()["timestamp"]
                if len(times):
                    before = found.setdefault(topic, {}).get(p, NO_TIMESTAMP_MS)
                    found[topic][p] = max(before, int(times.to_numpy().max()))
        return found

    def _is_ready(self, unread: _Unread) -> np.ndarray:
        """Which of ``unread`` can be placed for good: those before the time that every queue which they meet has
        reached.
        """
        ready = np.ones(len(unread), np.bool_)
        if not self._waits():
            return ready
        names = list(self.landed)
        for queues in self._meetings():
            mine, reached = np.zeros(len(unread), np.bool_), []
            for topic, p in queues:
                rows = (unread.topic == names.index(topic)) & (unread.partition == int(p))
                mine |= rows
                times = unread.time_ms[rows]
                last = int(times[-1]) if len(times) else self._tape_time(topic, p)
                if last != NO_TIMESTAMP_MS:
                    reached.append(last)
            if len(reached) > 1:
                ready &= ~mine | (unread.time_ms < min(reached))
        return ready

    def _meetings(self) -> list[set[tuple[str, str]]]:
        """Queues (topic, partition) whose records meet, in a task or through a repartition table."""
        groups: list[set[tuple[str, str]]] = []
        of_sub: dict[int, set[tuple[str, str]]] = {}
        for sub in self.topology.sub_topologies:
            landed = [(s.topic, p) for s in sub.sources if isinstance(s, SourceNode) for p in self.landed[s.topic].ends]
            everything = {(t.topic, p) for t in sub.globals for p in self.landed[t.topic].ends} | set(landed)
            above = [of_sub[o.id] for o in self.topology.sub_topologies if o.id in of_sub
                     and (set(o.repartitions) & set(sub.sources) or o.kafka_id == sub.kafka_id)]  # fmt: skip
            of_sub[sub.id] = everything.union(*above)
            if sub.globals or sub.repartitions or above:
                groups.append(of_sub[sub.id])
            else:
                groups += [{queue for queue in landed if queue[1] == p} for p in {p for _, p in landed}]
        merged: list[set[tuple[str, str]]] = []
        for group in groups:
            touching = [other for other in merged if other & group]
            merged = [other for other in merged if not other & group] + [group.union(*touching)]
        return merged

    def _cuts(self, unread: _Unread, max_records: int) -> Iterator[tuple[Cut, int]]:
        """Cuts, and how many records lie before each and after the one before."""
        cut = self.begin
        names = list(self.landed)
        is_record = np.array([bool(self.topology.readers_of(topic)) for topic in names])
        first = 0
        while first < len(unread):
            after = min(first + max_records, len(unread))
            if self._meeting_topics() and self.order == "time":
                # records of one time meet in the order of their queues, which a cut must not part
                after = int(np.searchsorted(unread.time_ms, unread.time_ms[after - 1], "right"))
            cut = {topic: dict(partitions) for topic, partitions in cut.items()}
            for row in _last_of_each(unread, first, after):
                cut[names[unread.topic[row]]][str(unread.partition[row])] = int(unread.offset[row]) + 1
            yield cut, int(is_record[unread.topic[first:after]].sum())
            first = after


def _last_of_each(unread: _Unread, first: int, after: int) -> np.ndarray:
    """The last row of every topic-partition among rows ``[first, after)``."""
    tags = unread.topic[first:after] * (1 << 32) + unread.partition[first:after]
    _, places = np.unique(tags[::-1], return_index=True)
    rows: np.ndarray = after - 1 - places
    return rows
