"""Windows, sessions and suppress once more: record by record, in plain Python, from Kafka's rules and nothing else.

Rule: clarity over speed, no code shared with jobs/. An update is (step, key, (start, end), value or None, time); values
are tuples of what went in, so that the order of merging shows.
"""

from dataclasses import dataclass, field
from typing import Any

Record = tuple[str | None, int | None, int]
Update = tuple[int, str, tuple[int, int], Any, int]


@dataclass
class HoppingModel:
    """KStreamWindowAggregate, forwarding on every update."""

    size: int
    advance: int
    grace: int
    windows: dict[tuple[str, int], tuple[tuple, int]] = field(default_factory=dict)
    stream_time: int = -1
    drops: list[int] = field(default_factory=list)

    def process(self, step: int, record: Record) -> list[Update]:
        key, value, time = record
        if key is None:
            self.drops.append(step)
            return []
        self.stream_time = max(self.stream_time, time)
        close = self.stream_time - self.grace
        updates = []
        for start in [s for s in range(0, time + 1, self.advance) if s <= time < s + self.size]:
            if start + self.size > close:
                aggregate, newest = self.windows.get((key, start), ((), time))
                aggregate, newest = (*aggregate, value), max(newest, time)
                self.windows[key, start] = aggregate, newest
                updates.append((step, key, (start, start + self.size), aggregate, newest))
            else:
                self.drops.append(step)
        return updates


@dataclass
class SessionModel:
    """KStreamSessionWindowAggregate, forwarding on every update, over a store with retention."""

    gap: int
    grace: int
    retention: int
    is_persistent: bool
    sessions: dict[tuple[str, int, int], tuple] = field(default_factory=dict)
    stream_time: int = -1
    store_time: int = -1
    drops: list[int] = field(default_factory=list)

    def process(self, step: int, record: Record) -> list[Update]:
        key, value, time = record
        if key is None:
            self.drops.append(step)
            return []
        self.stream_time = max(self.stream_time, time)
        found = self._find(key, time - self.gap, time + self.gap)
        start, end = min([time, *(s for s, _ in found)]), max([time, *(e for _, e in found)])
        if end < self.stream_time - self.grace - self.gap:
            self.drops.append(step)
            return []
        merged: tuple = ()
        updates: list[Update] = []
        for window in found:
            merged += self.sessions.pop((key, *window))
            if (start, end) != (time, time):
                updates.append((step, key, window, None, window[1]))
        merged = (*merged, value)
        self._put(step, key, start, end, merged)
        return [*updates, (step, key, (start, end), merged, end)]

    def _find(self, key: str, earliest_end: int, latest_start: int) -> list[tuple[int, int]]:
        visible = max(earliest_end, self.store_time - self.retention + 1)
        near = [(s, e) for k, s, e in self.sessions if k == key and e >= visible and s <= latest_start]
        return sorted(near, key=lambda window: (window[1], window[0] if self.is_persistent else -window[0]))

    def _put(self, step: int, key: str, start: int, end: int, aggregate: tuple) -> None:
        self.store_time = max(self.store_time, end)
        if not self.is_persistent and end <= self.store_time - self.retention:
            self.drops.append(step)
        else:
            self.sessions[key, start, end] = aggregate


@dataclass
class SuppressModel:
    """KTableSuppressProcessorSupplier: until the window closes, without a limit."""

    wait: int
    is_session: bool
    buffer: dict[bytes, list[Any]] = field(default_factory=dict)
    stream_time: int = -1

    def process(self, update: Update) -> list[Update]:
        step, key, (start, end), value, time = update
        self.stream_time = max(self.stream_time, time)
        suffix = end.to_bytes(8, "big") + start.to_bytes(8, "big") if self.is_session else start.to_bytes(8, "big")
        self.buffer[key.encode() + suffix] = [end, key, (start, end), value, time]
        final = []
        for serialized in sorted(self.buffer, key=lambda entry: (self.buffer[entry][0], entry)):
            if self.buffer[serialized][0] > self.stream_time - self.wait:
                break
            _, key, window, value, time = self.buffer.pop(serialized)
            if value is not None:
                final.append((step, key, window, value, time))
        return final


def run(model: HoppingModel | SessionModel, tape: list[Record], suppress: SuppressModel | None = None) -> list[Update]:
    """What the model forwards for the whole tape."""
    updates = [update for step, record in enumerate(tape) for update in model.process(step, record)]
    return updates if suppress is None else [final for update in updates for final in suppress.process(update)]
