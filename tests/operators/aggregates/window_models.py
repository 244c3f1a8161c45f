"""Windowed aggregates and their stores once more: record by record, in plain Python, written from Kafka Streams' own
source and sharing no code with jobs/.

Rule: clarity over speed. A result is (step, key, (start, end), values or None, time); values are the tuple of what went
in, so that the order of merging shows. Keys are ASCII, whose order is that of their bytes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

Record = tuple[str | None, int | None, int]
Result = tuple[int, str, tuple[int, int], Any, int]
NO = -1
SEGMENT_MIN = 60_000


def segment_of(time: int, retention: int) -> int:
    """Java divides toward zero."""
    return int(time / max(retention // 2, SEGMENT_MIN))


@dataclass
class StoredWindowModel:
    """RocksDBWindowStore (``is_time_ordered``: as used for emit on close) or InMemoryWindowStore."""

    retention: int
    is_persistent: bool
    is_time_ordered: bool
    windows: dict[tuple[int, str], tuple[tuple, int]] = field(default_factory=dict)
    time: int = NO
    dropped: int = 0

    def put(self, key: str, start: int, values: tuple, time: int) -> None:
        self.time = max(self.time, start)
        limit = self.time - self.retention
        if self.is_persistent:
            is_expired = segment_of(start, self.retention) < segment_of(limit, self.retention)
        else:
            is_expired = start <= limit
        if is_expired:
            self.dropped += 1
        else:
            self.windows[start, key] = values, time

    def _from(self) -> int:
        return self.time - self.retention + (0 if self.is_persistent and self.is_time_ordered else 1)

    def get(self, key: str, start: int) -> tuple[tuple, int] | None:
        return self.windows.get((start, key)) if start >= self._from() else None

    def fetch(self, key: str, first: int, last: int) -> list[tuple[int, tuple, int]]:
        first = max(first, self._from())
        return [(s, *self.windows[s, k]) for s, k in sorted(self.windows) if k == key and first <= s <= last]

    def fetch_all(self, first: int, last: int) -> list[tuple[str, int, tuple, int]]:
        first = max(first, self._from())
        return [(k, s, *self.windows[s, k]) for s, k in sorted(self.windows) if first <= s <= last]


@dataclass
class StoredSessionModel:
    """RocksDBSessionStore or InMemorySessionStore."""

    retention: int
    is_persistent: bool
    sessions: dict[tuple[int, int, str], tuple] = field(default_factory=dict)
    """By (end, start, key)."""
    time: int = NO
    dropped: int = 0

    def put(self, key: str, start: int, end: int, values: tuple) -> None:
        if not self.is_persistent:
            self._expire(self.time - self.retention + 1)
        self.time = max(self.time, end)
        limit = self.time - self.retention
        oldest = segment_of(limit, self.retention)
        if segment_of(end, self.retention) < oldest if self.is_persistent else end <= limit:
            self.dropped += 1
            return
        if self.is_persistent:
            self.sessions = {s: v for s, v in self.sessions.items() if segment_of(s[0], self.retention) >= oldest}
        self.sessions[end, start, key] = values

    def _expire(self, first_end: int) -> None:
        self.sessions = {session: values for session, values in self.sessions.items() if session[0] >= first_end}

    def remove(self, key: str, start: int, end: int) -> None:
        del self.sessions[end, start, key]

    def find(self, key: str, earliest_end: int, latest_start: int) -> list[tuple[int, int]]:
        """(start, end) of a key's sessions."""
        horizon = self.time - self.retention + 1
        if self.is_persistent:
            earliest_end = max(earliest_end, horizon)
        else:
            self._expire(horizon)
        near = [(s, e) for e, s, k in self.sessions if k == key and e >= earliest_end and s <= latest_start]
        return sorted(near, key=lambda window: (window[1], window[0] if self.is_persistent else -window[0]))

    def find_all(self, first_end: int, last_end: int) -> list[tuple[str, int, int, tuple]]:
        if not self.is_persistent:
            self._expire(self.time - self.retention + 1)
        found = [(k, s, e, v) for (e, s, k), v in self.sessions.items() if first_end <= e <= last_end]
        if self.is_persistent:
            return sorted(found, key=lambda one: (one[2], one[1], one[0]))
        return sorted(found, key=lambda one: (one[2], one[0], -one[1]))


@dataclass
class Model(ABC):
    """What the three share: stream time, drops, and results at close (AbstractKStreamTimeWindowAggregateProcessor)."""

    grace: int
    retention: int
    is_persistent: bool
    emits_final: bool
    time: int = NO
    last_close: int = NO
    drops: list[int] = field(default_factory=list)
    step: int = 0
    results: list[Result] = field(default_factory=list)
    puts: list[Result] = field(default_factory=list)
    """What changed in the store, whether it was forwarded or not."""

    def process(self, step: int, record: Record) -> list[Result]:
        self.step, self.results = step, []
        dropped = self.store.dropped
        self.take(*record)
        self.drops += [step] * (self.store.dropped - dropped)
        return self.results

    @abstractmethod
    def take(self, key: str | None, value: int | None, time: int) -> None: ...

    def drop(self) -> None:
        self.drops.append(self.step)

    def update(self, key: str, window: tuple[int, int], values: tuple | None, time: int) -> None:
        self.puts.append((self.step, key, window, values, time))
        if not self.emits_final:
            self.results.append(self.puts[-1])

    def emit(self, close: int, size: int, upper: int, lower: int) -> None:
        """Window stores: ``size`` from start to end."""
        self.results += [(self.step, k, (s, s + size), v, t) for k, s, v, t in self.store.fetch_all(lower, upper)]
        self.last_close = close

    def may_emit(self, close: int) -> bool:
        return self.emits_final and (self.last_close == NO or self.last_close < close)


@dataclass
class HoppingModel(Model):
    """KStreamWindowAggregate."""

    size: int = 1
    advance: int = 1

    def __post_init__(self) -> None:
        self.store = StoredWindowModel(self.retention, self.is_persistent, self.emits_final)

    def starts(self, time: int) -> list[int]:
        first = max(0, time - self.size + self.advance) // self.advance * self.advance
        return list(range(first, time + 1, self.advance))

    def take(self, key: str | None, value: int | None, time: int) -> None:
        if key is None:
            self.drop()
            return
        self.time = max(self.time, time)
        close = self.time - self.grace
        for start in self.starts(time):
            if start + self.size > close:
                values, newest = self.store.get(key, start) or ((), time)
                values, newest = (*values, value), max(newest, time)
                self.store.put(key, start, values, newest)
                self.update(key, (start, start + self.size), values, newest)
            else:
                self.drop()
        if self.may_emit(close) and close - self.size >= 0:
            upper = close - self.size
            lower = 0 if self.last_close == NO else max(0, self.last_close - self.size) + 1
            if self.last_close == NO or self.starts(upper) != self.starts(lower - 1):
                self.emit(close, self.size, upper, lower)


@dataclass
class SlidingModel(Model):
    """KStreamSlidingWindowAggregate over a store that can be read backwards."""

    difference: int = 1

    def __post_init__(self) -> None:
        self.store = StoredWindowModel(self.retention, self.is_persistent, self.emits_final)

    def take(self, key: str | None, value: int | None, time: int) -> None:
        if key is None or value is None:
            self.drop()
            return
        self.time = max(self.time, time)
        close = self.time - self.grace
        if time + self.difference < close:
            self.drop()
            return
        self.key, self.value, self.ts, self.close = key, value, time, close
        if time < self.difference:
            self.take_early()
            return
        self.take_in_reverse()
        upper = close - self.difference - 1
        if self.may_emit(close) and upper >= 0:
            lower = 0 if self.last_close == NO else max(0, self.last_close - self.difference)
            self.emit(close, self.difference, upper, lower)

    def put(self, start: int, values: tuple | None, newest: int) -> None:
        """updateWindowAndForward."""
        if start + self.difference < self.close:
            self.drop()
            return
        newest = self.ts if values is None else max(self.ts, newest)
        values = (*(values or ()), self.value)
        self.store.put(self.key, start, values, newest)
        self.update(self.key, (start, start + self.difference), values, newest)

    def put_right(self, values: tuple, newest: int) -> None:
        """createCurrentRecordRightWindow."""
        start = self.ts + 1
        self.store.put(self.key, start, values, newest)
        self.update(self.key, (start, start + self.difference), values, newest)

    def take_in_reverse(self) -> None:
        time, difference = self.ts, self.difference
        seen: set[int] = set()
        left = right = previous = None
        has_left = has_right = False
        for start, values, newest in reversed(self.store.fetch(self.key, max(0, time - 2 * difference), time + 1)):
            seen.add(start)
            end = start + difference
            if start == time + 1:
                has_right = True
            elif end > time:
                right = right or (values, newest)
                self.put(start, values, newest)
            elif end == time:
                has_left = True
                self.put(start, values, newest)
                if newest >= time:
                    return
                previous = newest
            else:
                left, previous = values, newest
                break
        if previous is not None and previous + 1 not in seen and previous + 1 + difference >= time:
            self.put(previous + 1, (), time)
        if not has_left:
            shares = previous is not None and time - difference <= previous
            self.put(time - difference, left if shares else (), time)
        if not has_right and right is not None and right[1] > time:
            self.put_right(*right)

    def take_early(self) -> None:
        time = self.ts
        seen: set[int] = set()
        combined = right = previous = None
        has_right = False
        for start, values, newest in self.store.fetch(self.key, 0, time + 1):
            seen.add(start)
            if start == 0:
                combined = values, newest
                previous = newest if newest < time else None
            elif start <= time:
                right = values, newest
                self.put(start, values, newest)
            else:
                has_right = True
        if right is None and combined is not None and combined[1] > time:
            right = combined
        if not has_right and right is not None and right[1] > time:
            self.put_right(*right)
        if previous is not None and previous + 1 not in seen:
            self.put(previous + 1, (), time)
        self.put(0, *(combined or ((), time)))


@dataclass
class SessionModel(Model):
    """KStreamSessionWindowAggregate."""

    gap: int = 1

    def __post_init__(self) -> None:
        self.store = StoredSessionModel(self.retention, self.is_persistent)

    def take(self, key: str | None, value: int | None, time: int) -> None:
        if key is None:
            self.drop()
            return
        self.time = max(self.time, time)
        close = self.time - self.grace - self.gap
        found = self.store.find(key, time - self.gap, time + self.gap)
        start, end = min([time, *(s for s, _ in found)]), max([time, *(e for _, e in found)])
        if end < close:
            self.drop()
        else:
            self.merge(key, value, found, (start, end), (time, time))
        if self.may_emit(close) and close - 1 >= max(0, self.last_close):
            for key_, s, e, values in self.store.find_all(max(0, self.last_close), close - 1):
                self.results.append((self.step, key_, (s, e), values, e))
            self.last_close = close

    def merge(
        self, key: str, value: int | None, found: list[tuple[int, int]], window: tuple[int, int], new: tuple[int, int]
    ) -> None:
        merged: tuple = ()
        for start, end in found:
            merged += self.store.sessions[end, start, key]
        if window != new:
            for start, end in found:
                self.store.remove(key, start, end)
                self.update(key, (start, end), None, end)
        self.store.put(key, *window, (*merged, value))
        self.update(key, window, (*merged, value), window[1])
