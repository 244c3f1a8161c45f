"""A live application in plain Python: tasks that commit, crash and restart, for lives whose truth is known.

It shares nothing with the product. Rules are Kafka's (TimeWindows, KStreamWindowAggregate, RocksDBWindowStore,
CachingWindowStore, StreamTask): a window takes a record while ``end > stream time - grace``; the clocks of operator and
store are lost with the task, rows of a store are not. A store shows windows within its retention, by its own clock, and
loses segments of a minute that are wholly older. A cache publishes the last update of each window at the commit, in the
order of the last updates. Suppress holds a window's update until its own clock, which sees the times of updates, is at
the window's end and the grace behind it. Of several the one that ends first leaves first, then by key. At least once,
a crash goes back to the last commit with the stores as they are.
"""

import random
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

SEGMENT_MS = 60_000

Task = TypeVar("Task", "WindowCounts", "SessionCounts")

TRUE, LET_IN, TWICE, AGAIN, SWALLOWED = "true", "restart", "published twice", "processed twice", "record cache"
INTERLEAVED, VERSION, TICK = "interleaving", "code version", "wall clock"
NO_UPDATE = 999


class Input(NamedTuple):
    """A record of a topic of the application; a join's table is of ``UPDATES``."""

    key: str
    time_ms: int
    topic: str = "in"


UPDATES = "updates"


class Published(NamedTuple):
    """A record that the application wrote, and why. ``window_ms``: the start; None without windows."""

    key: str
    window_ms: int | None
    value: int
    time_ms: int
    why: str


@dataclass
class WindowCounts:
    """A task that counts windows of ``size_ms``. ``step``: what a record counts for, by the code that runs."""

    size_ms: int
    grace_ms: int
    is_cached: bool = False
    is_final: bool = False
    """Below it is a suppress until windows close."""
    step: int = 1
    by_the_rules: dict[tuple[int, str], int] = field(default_factory=dict)
    """What each window has by the present code, of records that were not late."""
    clock: int = -1
    store_clock: int = -1
    store: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    cache: dict[tuple[int, str], tuple[int, int, str]] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    swallowed: list[Published] = field(default_factory=list)
    final_clock: int = -1
    held: dict[tuple[int, str], tuple[int, int, str]] = field(default_factory=dict)
    spoilt: set[tuple[int, str]] = field(default_factory=set)
    """Windows that counted a record twice."""

    def take(self, record: Input, *, is_late: bool, is_again: bool) -> None:
        """``is_late``: never restarted, the task would drop it; ``is_again``: it was processed before the crash."""
        self.clock = max(self.clock, record.time_ms)
        start = record.time_ms - record.time_ms % self.size_ms
        if start + self.size_ms <= self.clock - self.grace_ms:
            return
        count, time_ms = self._get(start, record.key)
        window = start, record.key
        count, time_ms = count + self.step, max(time_ms, record.time_ms)
        self._put(start, record.key, count, time_ms)
        if is_again and not is_late:
            self.spoilt.add(window)
        elif not is_late:
            self.by_the_rules[window] = self.by_the_rules.get(window, 0) + 1
        is_other = count != self.by_the_rules.get(window)
        why = LET_IN if is_late else AGAIN if window in self.spoilt else VERSION if is_other else TRUE
        if self.is_final:
            self._hold(start, record.key, count, time_ms, why)
            return
        if not self.is_cached:
            self.published.append(Published(record.key, start, count, time_ms, why))
            return
        before = self.cache.pop((start, record.key), None)
        if before is not None and before[2] == TRUE:
            self.swallowed.append(Published(record.key, start, before[0], before[1], SWALLOWED))
        self.cache[start, record.key] = count, time_ms, why

    def commit(self) -> None:
        """Publish what the cache has."""
        for (start, key), (count, time_ms, why) in self.cache.items():
            self.published.append(Published(key, start, count, time_ms, why))
        self.cache.clear()

    def restart(self) -> None:
        """Rows stay, clocks do not."""
        self.clock = self.store_clock = self.final_clock = -1

    def _hold(self, start: int, key: str, count: int, time_ms: int, why: str) -> None:
        self.final_clock = max(self.final_clock, time_ms)
        self.held[start, key] = count, time_ms, why
        for window in sorted(self.held):
            if window[0] + self.size_ms <= self.final_clock - self.grace_ms:
                self.published.append(Published(window[1], window[0], *self.held.pop(window)))

    @property
    def retention_ms(self) -> int:
        return self.size_ms + self.grace_ms

    def _get(self, start: int, key: str) -> tuple[int, int]:
        is_shown = start > self.store_clock - self.retention_ms
        return self.store.get((start, key), (0, -1)) if is_shown else (0, -1)

    def _put(self, start: int, key: str, count: int, time_ms: int) -> None:
        self.store_clock = max(self.store_clock, start)
        oldest = max(self.store_clock - self.retention_ms, 0) // SEGMENT_MS
        if start // SEGMENT_MS < oldest:
            return
        self.store[start, key] = count, time_ms
        self.store = {at: row for at, row in self.store.items() if at[0] // SEGMENT_MS >= oldest}


@dataclass
class SessionCounts:
    """A task that counts sessions: two records of a key ``gap_ms`` apart are of one. Only what ``live`` calls of a task
    without a cache is here, and nobody knows why a row is there.

    KStreamSessionWindowAggregate: a record merges all sessions within the gap that the store shows; the merged one is
    late when it ends before the clock less grace and gap. What it merged is removed, with a tombstone each at its end,
    unless the merged one is the record alone. RocksDBSessionStore goes by the ends of sessions.
    """

    gap_ms: int
    grace_ms: int
    is_final: bool = False
    clock: int = -1
    store_clock: int = -1
    final_clock: int = -1
    store: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Counts by key, end and start."""
    held: dict[tuple[int, str, int], int | None] = field(default_factory=dict)
    """By end, key and start, in which they leave the suppress; None: deleted meanwhile."""
    published: list[tuple[str, int, int, int | None, int]] = field(default_factory=list)
    """Key, start, end, count (None: a tombstone) and time."""

    def take(self, record: Input, *, is_late: bool, is_again: bool) -> None:
        key, time_ms, _ = record
        self.clock = max(self.clock, time_ms)
        near = sorted(
            session
            for session in self.store
            if session[0] == key
            and session[1] >= max(time_ms - self.gap_ms, self.store_clock - self._wait_ms + 1)
            and session[2] <= time_ms + self.gap_ms
        )
        start = min([time_ms, *(session[2] for session in near)])
        end = max([time_ms, *(session[1] for session in near)])
        if end < self.clock - self._wait_ms:
            return
        count = 1 + sum(self.store[session] for session in near)
        if (start, end) != (time_ms, time_ms):
            for session in near:
                self._put(session, None)
                self._publish(session, None)
        self._put((key, end, start), count)
        self._publish((key, end, start), count)

    def commit(self) -> None:
        pass

    def restart(self) -> None:
        self.clock = self.store_clock = self.final_clock = -1

    @property
    def _wait_ms(self) -> int:
        return self.gap_ms + self.grace_ms

    def _put(self, session: tuple[str, int, int], count: int | None) -> None:
        self.store_clock = max(self.store_clock, session[1])
        oldest = max(self.store_clock - self._wait_ms, 0) // SEGMENT_MS
        if session[1] // SEGMENT_MS >= oldest:
            self.store.pop(session, None)
            if count is not None:
                self.store[session] = count
        self.store = {each: number for each, number in self.store.items() if each[1] // SEGMENT_MS >= oldest}

    def _publish(self, session: tuple[str, int, int], count: int | None) -> None:
        key, end, start = session
        if not self.is_final:
            self.published.append((key, start, end, count, end))
            return
        self.final_clock = max(self.final_clock, end)
        self.held[end, key, start] = count
        for each in sorted(self.held):
            if each[0] <= self.final_clock - self._wait_ms:
                left = self.held.pop(each)
                if left is not None:
                    self.published.append((each[1], each[2], each[0], left, each[0]))


def late_ones(records: Sequence[Input], size_ms: int, grace_ms: int) -> list[bool]:
    """Of each record whether a task that never restarts drops it."""
    clock, found = -1, []
    for record in records:
        clock = max(clock, record.time_ms)
        found.append(record.time_ms - record.time_ms % size_ms + size_ms <= clock - grace_ms)
    return found


def random_inputs(
    rng: random.Random, count: int, keys: Sequence[str], *, span_ms: int, late_share: float
) -> list[Input]:
    """Times rise, but for a share of late ones; no two are equal."""
    records, now, used = [], 1_000, set[int]()
    for _ in range(count):
        now += rng.randrange(1, 2 * span_ms // count)
        time_ms = max(1, now - rng.randrange(1, span_ms // 3)) if rng.random() < late_share else now
        while time_ms in used:
            time_ms += 1
        used.add(time_ms)
        now = max(now, time_ms)
        records.append(Input(rng.choice(keys), time_ms))
    return records


@dataclass(frozen=True)
class Life:
    """Places in the input (before the record of that number): ``restarts``, clean ones; ``crashes``: each goes back to
    the place of the last commit; ``commits``. ``deployed``: where it restarts with the present code.
    """

    restarts: frozenset[int] = frozenset()
    crashes: frozenset[int] = frozenset()
    commits: frozenset[int] = frozenset()
    deployed: int | None = None


def live(records: Sequence[Input], task: Task, life: Life) -> Task:
    """Play a life of a task."""
    late = [False] * len(records)
    if isinstance(task, WindowCounts):
        late = late_ones(records, task.size_ms, task.grace_ms)
    committed, crashed, at, again_to = 0, set[int](), 0, 0
    while at < len(records):
        if at in life.crashes - crashed:
            crashed.add(at)
            task.restart()
            again_to, at = at, committed
            continue
        if at == life.deployed and isinstance(task, WindowCounts):
            task.step = 1
        if at in life.restarts | {life.deployed} and at >= again_to:
            task.commit()
            committed = at
            task.restart()
        if at in life.commits:
            task.commit()
            committed = at
        task.take(records[at], is_late=late[at], is_again=at < again_to)
        at += 1
    task.commit()
    return task


def forward(records: Sequence[Input], life: Life) -> list[Published]:
    """The life of a task that keeps nothing: it forwards every record with its place as value."""
    published: list[Published] = []
    committed, crashed, at, again_to = 0, set[int](), 0, 0
    while at < len(records):
        if at in life.crashes - crashed:
            crashed.add(at)
            again_to, at = at, committed
            continue
        if at in life.commits:
            committed = at
        why = TWICE if at < again_to else TRUE
        published.append(Published(records[at].key, None, at, records[at].time_ms, why))
        at += 1
    return published


def called_by_the_clock(records: Sequence[Input], ticks: Collection[int]) -> list[Published]:
    """The same of a task that forwards also, before each place of ``ticks``, how many records it has taken."""
    published = list[Published]()
    for count, row in enumerate(forward(records, Life())):
        if count in ticks:
            published.append(Published(row.key, None, -count, row.time_ms, TICK))
        published.append(row)
    return published


# --- a stream beside a table -----------------------------------------------------------------------------------


def taken(records: Sequence[Input], dry: Mapping[int, tuple[str, int]]) -> list[int]:
    """Numbers of records in the order in which a task takes them (PartitionGroup): the earliest of the heads of the
    topics of which it has any. ``dry``: behind so many records it has none of a topic for so many.
    """
    queues: dict[str, deque[int]] = {}
    for number, record in enumerate(records):
        queues.setdefault(record.topic, deque()).append(number)
    order, empty, until = list[int](), "", 0
    while any(queues.values()):
        if len(order) in dry:
            empty, until = dry[len(order)][0], len(order) + dry[len(order)][1]
        heads = {topic: records[queue[0]].time_ms for topic, queue in queues.items() if queue}
        there = [topic for topic in heads if topic != empty or len(order) >= until] or [*heads]
        order.append(queues[min(there, key=heads.__getitem__)].popleft())
    return order


def join(
    records: Sequence[Input], dry: Mapping[int, tuple[str, int]], *, is_inner: bool = False, is_sum: bool = False
) -> list[Published]:
    """What a task publishes that joins records with the newest update of their key, and may sum these up by key."""
    right, live = (
        _joined(records, taken(records, {}), is_sum=is_sum),
        _joined(records, taken(records, dry), is_sum=is_sum),
    )
    return [
        Published(records[number].key, None, value, time_ms, TRUE if right[number] == each else INTERLEAVED)
        for number, each in live.items()
        for has_update, value, time_ms in [each]
        if has_update or not is_inner
    ]


def _joined(records: Sequence[Input], order: Sequence[int], *, is_sum: bool) -> dict[int, tuple[bool, int, int]]:
    """By record: whether the table had its key, the value, and the time."""
    table, sums, found = dict[str, int](), dict[str, tuple[int, int]](), dict[int, tuple[bool, int, int]]()
    for number in order:
        key, time_ms, topic = records[number]
        if topic == UPDATES:
            table[key] = number % 5
            continue
        value = number * 1_000 + table.get(key, NO_UPDATE)
        if is_sum:
            total, latest = sums.get(key, (0, -1))
            value, time_ms = sums[key] = total + value, max(latest, time_ms)
        found[number] = key in table, value, time_ms
    return found
