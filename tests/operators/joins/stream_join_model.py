"""Stream-stream joins once more: record by record, in plain Python, from Kafka's rules and nothing else.

Rule: clarity over speed, no code shared with jobs/. A record is (side, key, value, time), side "left" or "right"; what
comes of it is (key, left value, right value, time), a missing side None.
"""

from dataclasses import dataclass, field

Record = tuple[str, str | None, str | None, int]
Joined = tuple[str | None, str | None, str | None, int]

LONG_MAX = 2**63 - 1


def java_long(number: int) -> int:
    """``number`` as a Java long, which wraps."""
    return (number + 2**63) % 2**64 - 2**63


@dataclass
class WindowStoreModel:
    """A window store that retains duplicates: InMemoryWindowStore, or RocksDBWindowStore with its segments."""

    retention: int
    is_persistent: bool
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    observed: int = -1

    def fetch(self, key: str, begin: int, end: int) -> list[tuple[int, str]]:
        visible = self.observed - self.retention + 1
        found = [(time, value) for time, k, value in self.rows if k == key and max(begin, visible) <= time <= end]
        return sorted(found, key=lambda row: row[0])

    def put(self, key: str, value: str | None, time: int) -> bool:
        """False if the store counts the record as dropped."""
        if value is None and self.is_persistent:
            return True
        self.observed = max(self.observed, time)
        is_expired = self._is_expired(time, self.observed - self.retention)
        if not is_expired and value is not None:
            self.rows.append((time, key, value))
        return not is_expired

    def _is_expired(self, time: int, limit: int) -> bool:
        if not self.is_persistent:
            return time <= limit
        segment = max(self.retention // 2, 60_000)
        return limit >= 0 and time // segment < limit // segment


@dataclass
class StreamJoinModel:
    """KStreamKStreamJoin. ``kind``: "inner", "left" or "outer"."""

    kind: str
    before: int
    after: int
    grace: int
    is_persistent: bool
    stream_time: int = -1
    min_time: int = LONG_MAX
    waiting: dict[tuple[int, int, bytes], list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        retention = self.before + self.after + self.grace
        self.stores = {side: WindowStoreModel(retention, self.is_persistent) for side in ("left", "right")}

    def process(self, record: Record) -> tuple[list[Joined], int]:
        """What is forwarded, and how often the record is counted as dropped."""
        side, key, value, time = record
        other = "right" if side == "left" else "left"
        look_back, look_ahead = (self.before, self.after) if side == "left" else (self.after, self.before)
        is_outer = self.kind == "outer" or (self.kind == "left" and side == "left")
        self.stream_time = max(self.stream_time, time)
        if is_outer and key is None and value is not None:
            return [self._pair(side, key, value, None, time)], 0
        if key is None or value is None:
            return [], 1 + (key is not None and not self.stores[side].put(key, None, time))
        joined = []
        if time == self.stream_time and self.kind != "inner":
            joined += self._flush(look_ahead)
        end = max(0, time + look_ahead)
        matches = self.stores[other].fetch(key, max(0, time - look_back), end)
        for other_time, other_value in matches:
            self.waiting.pop(self._place(other_time, other, key), None)
            joined.append(self._pair(side, key, value, other_value, max(time, other_time)))
        if is_outer and not matches:
            if end < self.stream_time:
                joined.append(self._pair(side, key, value, None, time))
            else:
                self.min_time = min(self.min_time, time)
                self.waiting.setdefault(self._place(time, side, key), []).append(value)
        return joined, int(not self.stores[side].put(key, value, time))

    @staticmethod
    def _place(time: int, side: str, key: str) -> tuple[int, int, bytes]:
        return time, int(side == "left"), key.encode()

    @staticmethod
    def _pair(side: str, key: str | None, own: str, other: str | None, time: int) -> Joined:
        return (key, own, other, time) if side == "left" else (key, other, own, time)

    def _flush(self, look_ahead: int) -> list[Joined]:
        if java_long(self.min_time + look_ahead + self.grace) >= self.stream_time:
            return []
        self.min_time = LONG_MAX
        joined, gone, is_open = [], set(), [False, False]
        for place in sorted(self.waiting):
            time, is_left, key = place
            for value in self.waiting[place]:
                self.min_time = time
                if all(is_open):
                    break
                wait = (self.after if is_left else self.before) + self.grace
                if java_long(time + wait) >= self.stream_time:
                    is_open[is_left] = True
                    continue
                joined.append(self._pair("left" if is_left else "right", key.decode(), value, None, time))
                gone.add(place)
            else:
                continue
            break
        for place in gone:
            del self.waiting[place]
        return joined
