"""Versioned stores and the joins over them once more: record by record, in plain Python, from Kafka's rules and nothing
else.

Rule: clarity over speed, no code shared with jobs/. A version is [from, value or None]; history is kept for ever.
"""

from dataclasses import dataclass, field
from typing import Any

IS_LATEST, NOT_PUT = -1, -(2**63)


@dataclass
class Key:
    """``history``: versions by time, the last of which ends at ``ends``."""

    latest: list[Any] | None = None
    history: list[list[Any]] = field(default_factory=list)
    ends: int = 0

    @property
    def is_mark(self) -> bool:
        """Kafka's degenerate segment: one tombstone, valid from its time to its time."""
        return len(self.history) == 1 and self.history[0][0] == self.ends

    def append(self, start: int, end: int, value: Any) -> None:
        if self.history:
            if self.is_mark:
                self.history = []
            if self.ends < start:
                self.history.append([self.ends, None])
        self.history.append([start, value])
        self.ends = end

    def put(self, value: Any, time: int) -> int:
        found = IS_LATEST
        if self.latest is not None:
            if time > self.latest[0]:
                self.append(self.latest[0], time, self.latest[1])
            if time >= self.latest[0]:
                self.latest = None if value is None else [time, value]
                return IS_LATEST
            found = self.latest[0]
        if self.history and self.ends > time:
            if self.history[0][0] <= time:
                return self._put_inside(value, time)
            found = self.history[0][0]
        if found == IS_LATEST:
            self._put_newest(value, time)
        elif not self.history or self.ends <= time:
            self.append(time, found, value)
        else:
            self.history = [[time, value], *([] if self.is_mark else self.history)]
        return found

    def _put_inside(self, value: Any, time: int) -> int:
        place = max(i for i, version in enumerate(self.history) if version[0] <= time)
        end = self.history[place + 1][0] if place + 1 < len(self.history) else self.ends
        if self.history[place][0] == time:
            self.history[place][1] = value
        else:
            self.history.insert(place + 1, [time, value])
        return end

    def _put_newest(self, value: Any, time: int) -> None:
        if value is not None:
            self.latest = [time, value]
        elif not self.history:
            self.history, self.ends = [[time, None]], time
        elif self.ends < time:
            first = self.ends
            if self.is_mark:
                self.history = []
            self.history.append([first, None])
            self.ends = time

    def get(self, as_of: int) -> tuple[int, Any] | None:
        """The version of the past as of a time."""
        if not self.history or as_of >= self.ends:
            return None
        versions = [version for version in self.history if version[0] <= as_of]
        return None if not versions or versions[-1][1] is None else (versions[-1][0], versions[-1][1])


@dataclass
class VersionedModel:
    """RocksDBVersionedStore."""

    retention: int
    keys: dict[str, Key] = field(default_factory=dict)
    observed: int = -1

    def put(self, key: str, value: Any, time: int) -> int:
        if time < self.observed - self.retention:
            return NOT_PUT
        self.observed = max(self.observed, time)
        return self.keys.setdefault(key, Key()).put(value, time)

    def get(self, key: str, as_of: int | None = None) -> tuple[int, Any] | None:
        """(from, value), of the latest version without ``as_of``."""
        versions = self.keys.get(key, Key())
        latest = versions.latest
        if latest is not None and (as_of is None or latest[0] <= as_of):
            return latest[0], latest[1]
        if as_of is None or as_of < self.observed - self.retention:
            return None
        return versions.get(as_of)


@dataclass
class StreamTableModel:
    """KStreamKTableJoin over a versioned table: with a grace (KIP-923), or without one (None).

    A record is (step, side, key, value, time); a result (step, origin, key, left value, right value or None, time),
    where origin is the step of the stream's record.
    """

    retention: int
    grace: int | None
    is_left: bool
    buffer: list[tuple[int, bytes, int, str | None, str]] = field(default_factory=list)
    observed: int = -1
    sequence: int = 0
    dropped: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = VersionedModel(self.retention)

    def process(self, step: int, side: str, key: str | None, value: str | None, time: int) -> list[tuple]:
        if side == "T":
            if key is None or self.table.put(key, value, time) == NOT_PUT:
                self.dropped.append(step)
            return []
        if value is None or (key is None and not self.is_left):
            self.dropped.append(step)
            return []
        if self.grace is None or time < self.observed - self.grace:
            return self._join(step, step, key, value, time)
        assert key is not None
        self.observed, self.sequence = max(self.observed, time), self.sequence + 1
        name = key.encode() + self.sequence.to_bytes(4, "big")
        self.buffer.append((time, name, step, key, value))
        results = []
        for entry in sorted(self.buffer):
            if entry[0] > self.observed - self.grace:
                break
            self.buffer.remove(entry)
            results += self._join(step, entry[2], entry[3], entry[4], entry[0])
        return results

    def _join(self, step: int, origin: int, key: str | None, value: str, time: int) -> list[tuple]:
        found = None if key is None else self.table.get(key, time)
        if found is None and not self.is_left:
            return []
        return [(step, origin, key, value, None if found is None else found[1], time)]


def history_of(model: VersionedModel, key: str, times: range) -> list[Any]:
    """What a store says of every time, None for nothing."""
    found = (model.get(key, time) for time in times)
    return [None if version is None else version[1] for version in found]
