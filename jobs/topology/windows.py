"""Windows and suppress, as configuration that checks itself (TimeWindows, SessionWindows, Suppressed; KIP-94, KIP-328).

Durations are ints of milliseconds or text such as ``"30s"`` (state/times.py).
"""

from dataclasses import dataclass

from state.errors import ConfigError
from state.times import Duration, duration_ms


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows ``[start, start + size)`` that start at multiples of the advance (half open).

    Bounds: size > 0, 0 < advance <= size, grace >= 0; else ConfigError (Kafka: IllegalArgumentException).
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    kind = "time"

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ConfigError("TimeWindows size", "more than 0 ms", f"{self.size_ms} ms", "give a longer size")
        if not 0 < self.advance_ms <= self.size_ms:
            expected = f"more than 0 ms and at most the size, {self.size_ms} ms"
            raise ConfigError("TimeWindows advance", expected, f"{self.advance_ms} ms", "correct the advance")
        _check_not_negative("TimeWindows grace", self.grace_ms)

    @classmethod
    def of_size(cls, size: Duration, *, grace: Duration = 0) -> "TimeWindows":
        """Tumbling windows: each record is in one."""
        size_ms = duration_ms(size, "size")
        return cls(size_ms, size_ms, duration_ms(grace, "grace"))

    def advance_by(self, advance: Duration) -> "TimeWindows":
        """Hopping windows: one starts every ``advance``."""
        return TimeWindows(self.size_ms, duration_ms(advance, "advance"), self.grace_ms)

    @property
    def wait_ms(self) -> int:
        """From a window's end until its close."""
        return self.grace_ms

    @property
    def retention_ms(self) -> int:
        """How long a store keeps windows by default, by stream time."""
        return self.size_ms + self.grace_ms


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions ``[start, end]``, closed on both sides; records at most the gap apart are one session.

    Bounds: gap >= 0, grace >= 0; else ConfigError.
    """

    gap_ms: int
    grace_ms: int

    kind = "session"

    def __post_init__(self) -> None:
        _check_not_negative("SessionWindows inactivity gap", self.gap_ms)
        _check_not_negative("SessionWindows grace", self.grace_ms)

    @classmethod
    def with_inactivity_gap(cls, gap: Duration, *, grace: Duration = 0) -> "SessionWindows":
        return cls(duration_ms(gap, "gap"), duration_ms(grace, "grace"))

    @property
    def wait_ms(self) -> int:
        """From a session's end until suppress lets it go: the grace and the gap."""
        return self.grace_ms + self.gap_ms

    @property
    def retention_ms(self) -> int:
        return self.gap_ms + self.grace_ms


def _check_not_negative(place: str, duration: int) -> None:
    if duration < 0:
        raise ConfigError(place, "0 ms or more", f"{duration} ms", "correct the duration")


@dataclass(frozen=True, slots=True)
class Suppressed:
    """Hold a windowed table's changes until the window closes (KIP-328).

    ``max_records``/``max_bytes``: limits of the strict buffer, None for none; when it is full the run ends with
    BufferFull.
    """

    max_records: int | None = None
    max_bytes: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        for limit in ("max_records", "max_bytes"):
            value = getattr(self, limit)
            if value is not None and value < 0:
                raise ConfigError(f"Suppressed {limit}", "0 or more", str(value), "correct the limit")

    @classmethod
    def until_window_closes(
        cls, *, max_records: int | None = None, max_bytes: int | None = None, name: str | None = None
    ) -> "Suppressed":
        return cls(max_records, max_bytes, name)


@dataclass(frozen=True, slots=True)
class Materialized:
    """Name, kind and retention of an operator's store.

    ``store``: "persistent" (as Kafka's default RocksDB) or "in_memory"; the two count expired records differently
    (by segments of at least a minute, or to the millisecond). ``retention``: at least size + grace, or gap + grace.
    """

    name: str | None = None
    store: str = "persistent"
    retention: Duration | None = None

    def __post_init__(self) -> None:
        if self.store not in ("persistent", "in_memory"):
            raise ConfigError("Materialized store", '"persistent" or "in_memory"', repr(self.store), "choose one")

    @classmethod
    def as_(cls, name: str, *, store: str = "persistent", retention: Duration | None = None) -> "Materialized":
        return cls(name, store, retention)

    def retention_ms(self, windows: TimeWindows | SessionWindows, place: str) -> int:
        """The retention asked for, or the windows' own. Raises ConfigError when it is shorter than windows live."""
        if self.retention is None:
            return windows.retention_ms
        retention_ms = duration_ms(self.retention, "retention")
        if retention_ms < windows.retention_ms:
            expected = f"at least {windows.retention_ms} ms (the windows and their grace)"
            raise ConfigError(f"{place} retention", expected, f"{retention_ms} ms", "give a longer retention")
        return retention_ms
