"""How far before a range a replay must begin, so that it gives what a replay of everything gives.

Owns the horizon and its proof. Rule: what was never read is of a time up to H. Each node then says how long that can
matter to it (`Node.reach`). Once its stream time has passed H by its own reach and those of all above it, missing
records do not affect its decisions. The graph gives an estimate of where to begin. The run proves it by the stream
times that the tasks have really reached, since a filter may let few records through. For sessions the stored rows show
it, key by key: none that is open may reach back to H. What is not proved begins earlier, in the end with the first
record that landed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl
import pyarrow.compute as pc

from ...state.buffers import by_bits
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TaskId
from ...state.tables.warehouse import WINDOW_KEY, Warehouse
from ...state.times import NO_TIMESTAMP_MS
from ..graph.graph import Node
from ..graph.reach import UNBOUNDED_REACH, Reach
from ..history.committed_tables import read_state
from ..topology.topology import Topology
from .range_cuts import Group, RangeCuts

_NOT_CLOCKS = ("store_time_ms", "tracked_time_ms")
"""Counters of times other than a stream time of records: the newest window start, and the time that a join tracks."""


@dataclass(frozen=True)
class Unsettled:
    """A node at which what was not read may still matter. ``has_ms``: the stream time that its task has reached,
    ``needs_ms``: the one from which on it does not, None where only the rows of open sessions show it.
    """

    node: str
    task: str
    group: Group
    has_ms: int
    needs_ms: int | None
    reach_ms: int
    """From the latest time that was not read to ``needs_ms``."""


@dataclass
class Horizon:
    """Of one replay of a range. ``settled``: by node and group the time up to which what a node sends may be wrong, if
    what was not read can matter no more.
    """

    warehouse: Warehouse
    topology: Topology
    log: RangeCuts
    settled: dict[tuple[str, Group], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.topology.graph
        self._reach = {name: node.reach(graph) for name, node in graph.nodes.items()}
        for sub in self.topology.sub_topologies:
            circle = [node.name for other in self.topology.circle(sub) for node in other.nodes]
            if not all(self._reach[name].is_nothing for name in circle):  # what goes round may do so for ever
                loops = [source for source in sub.repartition_sources if source.topic in self.topology.loop_topics]
                self._reach |= {source.name: UNBOUNDED_REACH for source in loops}

    @property
    def unbounded(self) -> list[str]:
        """Nodes that keep what a key has until it is replaced."""
        return [name for name, reach in self._reach.items() if reach.is_unbounded]

    @property
    def chained(self) -> list[str]:
        """Nodes whose reach depends on the data: how far back records matter is known only from them."""
        return [name for name, reach in self._reach.items() if reach.gap_ms is not None]

    @property
    def longest_ms(self) -> int:
        """The most that reaches add up to along a path of the topology; an estimate where sessions are."""
        return max((self._path_ms(name, ()) for name in self.topology.graph.nodes), default=0)

    def _path_ms(self, name: str, above: tuple[str, ...]) -> int:
        if name in above:
            return 0
        node, reach = self.topology.graph.nodes[name], self._reach[name]
        own = reach.ms if reach.gap_ms is None else 2 * reach.ms
        return own + max((self._path_ms(other, (*above, name)) for other in node.inputs), default=0)

    def start(self, group: Group, from_ms: int) -> int | None:
        """The time from which on a group of partitions is to be read for a range that begins at ``from_ms``, by the
        graph; None: from its first record.
        """
        slowest = self.log.slowest(group, from_ms)
        return self.without_ties(group, from_ms if slowest is None else min(from_ms, slowest - self.longest_ms))

    def without_ties(self, group: Group, time_ms: int) -> int | None:
        """``time_ms``, or an earlier time at which the order of records hangs on none before it."""
        if self.log.is_first(group, time_ms):
            return None
        if not self.log.has_ties(group, time_ms):
            return time_ms
        times = self.log.earlier_times(group, time_ms)[:_TRIES]
        untied_ms = next((int(t) for t in times if not self.log.has_ties(group, int(t))), None)
        return None if untied_ms is None or self.log.is_first(group, untied_ms) else untied_ms

    def earlier(self, group: Group, now_ms: int, from_ms: int, unsettled: list[Unsettled]) -> int | None:
        """Where to begin instead of ``now_ms``, since ``unsettled`` was not settled at ``from_ms``."""
        # Where some node cannot say what it needs, the distance to the range is doubled, so that few warm-ups are in
        # vain.
        at_least = min(now_ms - max(from_ms - now_ms, 1), now_ms - 1)
        wanted = [each.has_ms - each.reach_ms for each in unsettled if each.needs_ms is not None and each.has_ms >= 0]
        exact = len(wanted) == len(unsettled)
        return self.without_ties(group, min([now_ms - 1, *wanted]) if exact else min([at_least, *wanted]))

    # --- proof ---------------------------------------------------------------------------------------------------

    def unsettled(self, done: DoneRow, branch: str, missing: Mapping[Group, int]) -> list[Unsettled]:
        """Where what is not read can matter as of the branch's row ``done``. ``missing``: the latest time of what was
        not read, by group; groups that were read from the start are not in it.
        """
        unsettled: list[Unsettled] = []
        for group, latest_ms in missing.items():
            tainted: dict[str, int | None] = {}
            for name in self.topology.graph.nodes:
                unsettled += self._settle(name, group, latest_ms, tainted, done, branch)
        return unsettled

    def _settle(
        self, name: str, group: Group, latest_ms: int, tainted: dict[str, int | None], done: DoneRow, branch: str
    ) -> list[Unsettled]:
        """Enter into ``tainted`` up to which time what a node sends may be wrong, None for no limit yet."""
        if name in tainted:
            return []
        node, reach, unsettled = self.topology.graph.nodes[name], self._reach[name], []
        tainted[name] = latest_ms  # a circle goes through what is unbounded
        for other in node.inputs:
            unsettled += self._settle(other, group, latest_ms, tainted, done, branch)
        above = [tainted[other] for other in node.inputs]
        limits = [limit for limit in above if limit is not None]
        # A node above has no limit yet. That one is reported; of this one nothing can be said before.
        if len(limits) < len(above):
            tainted[name] = None
            return unsettled
        limit = max(limits, default=latest_ms)
        if reach.is_nothing or reach.is_unbounded:
            tainted[name] = limit
            return unsettled
        own = list(self._open(node, reach, group, limit, latest_ms, done, branch))
        key = name, group
        if not own and reach.gap_ms is not None and key not in self.settled:
            self.settled[key] = max(
                _clocks(done, self._store(node), task)[1] for task in self._tasks(node, group, done)
            )
        tainted[name] = None if own else self.settled.get(key, limit + reach.ms)
        return [*unsettled, *own]

    def _open(
        self, node: Node, reach: Reach, group: Group, limit_ms: int, latest_ms: int, done: DoneRow, branch: str
    ) -> Iterator[Unsettled]:
        needs_ms, store = limit_ms + reach.ms, self._store(node)
        tasks = self._tasks(node, group, done)
        for task in tasks:
            least, _ = _clocks(done, store, task)
            if least < needs_ms:
                yield Unsettled(node.name, str(task), group, least, needs_ms, needs_ms - latest_ms)
                return
        if reach.gap_ms is None:
            return
        for task in tasks:
            oldest_ms = _clocks(done, store, task)[0] - reach.ms
            # Two gaps: one record between two sessions, at most a gap from each, makes them one.
            if self._reaches_back(branch, store, task, limit_ms + reach.gap_ms, oldest_ms, 2 * reach.gap_ms):
                yield Unsettled(node.name, str(task), group, oldest_ms + reach.ms, None, needs_ms - latest_ms)
                return

    def _reaches_back(self, branch: str, store: str, task: TaskId, begin_ms: int, oldest_ms: int, near_ms: int) -> bool:
        """Whether a session that is open may be, or come to be, one with another that began up to ``begin_ms``."""
        rows = read_state(self.warehouse, branch, store)
        rows = rows.filter(pc.equal(rows["partition"], task.partition))
        frame = pl.from_arrow(by_bits(rows.select([*WINDOW_KEY])))
        assert isinstance(frame, pl.DataFrame)
        start, end = pl.col("window_start_ms"), pl.col("window_end_ms")
        chains = (
            frame.sort("key", "window_start_ms")
            .with_columns((start - end.shift(1).over("key") > near_ms).fill_null(False).alias("is_far"))
            .with_columns(pl.col("is_far").cum_sum().over("key").alias("n"))
            .group_by("key", "n")
            .agg((start.min() <= begin_ms) & (end.max() >= oldest_ms))
        )
        return bool(chains["window_start_ms"].any())

    def _tasks(self, node: Node, group: Group, done: DoneRow) -> list[TaskId]:
        sub = self.topology.sub_topology_of(self._store(node))
        assert sub is not None, f"{node.name} has a store"
        tasks = self.log.tasks(sub, done.partitions)
        return [TaskId(sub.id, partition) for partition, number in tasks.items() if number == group]

    def _store(self, node: Node) -> str:
        store = self.topology.graph.store_of(node)
        assert store is not None, f"{node.name} has a store"
        return store

    # --- the end -------------------------------------------------------------------------------------------------

    def waiting(self, done: DoneRow, to_ms: int) -> list[Unsettled]:
        """Nodes that may still send something of a time before ``to_ms``, when no record before it comes any more."""
        unsettled, limits = [], dict[str, int]()
        for name in self.topology.graph.nodes:
            limit, reach = self._limit(name, to_ms, limits, ()), self._reach[name]
            if reach.ms == 0:
                continue
            node = self.topology.graph.nodes[name]
            for group in self.log.groups:
                for task in self._tasks(node, group, done):
                    least, most = _clocks(done, self._store(node), task)
                    # A task that no record has come to has nothing that waits.
                    if most > NO_TIMESTAMP_MS and least < limit:
                        unsettled.append(Unsettled(name, str(task), group, least, limit, limit - to_ms))
        return unsettled

    def _limit(self, name: str, to_ms: int, limits: dict[str, int], above: tuple[str, ...]) -> int:
        if name in above:
            return to_ms
        if name not in limits:
            inputs = self.topology.graph.nodes[name].inputs
            before = max((self._limit(other, to_ms, limits, (*above, name)) for other in inputs), default=to_ms)
            limits[name] = before + self._reach[name].ms
        return limits[name]


_TRIES = 256
"""Times at which a beginning without ties is looked for."""


def _clocks(done: DoneRow, store: str, task: TaskId) -> tuple[int, int]:
    """The lowest and the highest stream time that the operator of a store has seen in a task; NO_TIMESTAMP_MS: none."""
    counters = done.task(task).counters.get(store, {})
    times = [ms for name, ms in counters.items() if _is_clock(name)] or [NO_TIMESTAMP_MS]
    return min(times), max(times)


def _is_clock(name: str) -> bool:
    return name.endswith("_ms") and "time_" in name and name not in _NOT_CLOCKS
