"""Windows, as configuration that checks itself (TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows,
JoinWindows; KIP-94, KIP-450). Durations are ints of milliseconds or text such as ``"30s"`` (state/times.py). Days of a
time zone are in jobs/graph/day_windows.py, windows of a user's own in jobs/graph/own_windows.py.
"""

from dataclasses import dataclass, replace
from datetime import time

from ...state.argument_types import check_fields
from ...state.errors import ConfigError
from ...state.promises import Grid
from ...state.times import UNBOUNDED, Duration, bounded_ms, duration_ms
from ..functions.call_arguments import checked_class
from ..functions.call_names import Hinting
from .day_windows import DayWindows, days_of_zone
from .own_windows import OwnWindows
from .reach import UNBOUNDED_REACH, Reach
from .window_close import ClosedAfterGrace

_DAY_MS = 24 * 3_600_000


@checked_class
@dataclass(frozen=True, slots=True)
class TimeWindows(ClosedAfterGrace, Hinting):
    """Windows ``[start, start + size)`` that start at multiples of the advance (half open).

    Milliseconds: ``size_ms`` > 0, 0 < ``advance_ms`` <= ``size_ms``, ``grace_ms`` >= 0; else ConfigError.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    kind = "time"

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ConfigError("TimeWindows size", "more than 0 ms", f"{self.size_ms} ms", "give a longer size")
        bounded_ms(self.size_ms, "TimeWindows size")
        if not 0 < self.advance_ms <= self.size_ms:
            expected = f"more than 0 ms and at most the size, {self.size_ms} ms"
            raise ConfigError("TimeWindows advance", expected, f"{self.advance_ms} ms", "correct the advance")
        bounded_ms(self.grace_ms, "TimeWindows grace")

    @classmethod
    def of_size(cls, size: Duration, *, grace: Duration = 0) -> "TimeWindows":
        """Tumbling windows: each record is in one.

        Source: ``TimeWindows.ofSizeAndGrace``.

            >>> TimeWindows.of_size("1h", grace="5m")
            TimeWindows(size_ms=3600000, advance_ms=3600000, grace_ms=300000)
        """
        size_ms = duration_ms(size, "size")
        return cls(size_ms, size_ms, duration_ms(grace, "grace"))

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> "TimeWindows":
        """``of_size(size, grace=grace)``, under Kafka's name.

        Source: ``TimeWindows.ofSizeAndGrace`` (KIP-633).

            >>> TimeWindows.of_size_and_grace("10s", "1s").retention_ms
            11000
        """
        return cls.of_size(size, grace=grace)

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> "TimeWindows":
        """``of_size(size)``, under Kafka's name.

        Source: ``TimeWindows.ofSizeWithNoGrace`` (KIP-633).

            >>> show(orders.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace("1m")).count())
            ann [0, 60000]: 1 at 1000
            bob [0, 60000]: 1 at 2000
            ann [60000, 120000]: 1 at 61000
        """
        return cls.of_size(size)

    @classmethod
    def of_days(cls, days: int = 1, *, zone: str, start: Duration | time = "00:00", grace: Duration = 0) -> DayWindows:
        """Windows of days in the time ``zone`` of a place, such as "Europe/Oslo", which begin at the time of day
        ``start`` there. Where clocks change a day has 23 or 25 hours. With ``days`` 7 weeks from Monday on, else
        several days are counted from Monday, 1970-01-05.

        Results when windows close: ``suppress(Suppressed.until_window_closes())``. ConfigError for a zone that the
        machine's tz database does not have. Source: none; in Kafka Streams a class of one's own (the Streams examples'
        DailyTimeWindows), whose serializer takes every window to be as long as the others.

            >>> days = TimeWindows.of_days(zone="Europe/Oslo", start="18:00", grace="1h")
            >>> days.retention_ms
            93600000
            >>> show(clicks.group_by_key().windowed_by(days).count())
            ann [0, 61200000]: 1 at 0
            bob [0, 61200000]: 1 at 1000
            ann [0, 61200000]: 2 at 2000
            bob [0, 61200000]: 2 at 70000
        """
        return days_of_zone(days, zone, start, grace)

    def advance_by(self, advance: Duration) -> "TimeWindows":
        """Hopping windows: one starts every ``advance``.

        Source: ``TimeWindows.advanceBy``.

            >>> hopping = TimeWindows.of_size("10s").advance_by("5s")
            >>> show(payments.group_by_key().windowed_by(hopping).count())
            ann [0, 10000]: 1 at 1500
            bob [85000, 95000]: 1 at 90000
            bob [90000, 100000]: 1 at 90000
        """
        return TimeWindows(self.size_ms, duration_ms(advance, "advance"), self.grace_ms)

    @property
    def grid(self) -> Grid:
        """Where its windows lie."""
        return Grid("time", self.size_ms, self.advance_ms)

    @property
    def reach(self) -> Reach:
        """A window takes records until its end and the grace have passed."""
        return Reach(self.size_ms + self.grace_ms)


@checked_class
@dataclass(frozen=True, slots=True)
class SessionWindows(Hinting):
    """Sessions ``[start, end]``, closed on both sides; records at most the gap apart are one session.

    Milliseconds: ``gap_ms`` >= 0, ``grace_ms`` >= 0; else ConfigError.
    """

    gap_ms: int
    grace_ms: int

    kind = "session"

    def __post_init__(self) -> None:
        bounded_ms(self.gap_ms, "SessionWindows inactivity gap")
        bounded_ms(self.grace_ms, "SessionWindows grace")

    @classmethod
    def with_inactivity_gap(cls, gap: Duration, *, grace: Duration = 0) -> "SessionWindows":
        """Sessions with ``grace``. Source: ``SessionWindows.ofInactivityGapAndGrace`` (KIP-94).

        >>> show(orders.group_by_key().windowed_by(SessionWindows.with_inactivity_gap("1m")).count())
        ann [1000, 1000]: 1 at 1000
        bob [2000, 2000]: 1 at 2000
        ann [1000, 1000]: None at 1000
        ann [1000, 61000]: 2 at 61000
        """
        return cls(duration_ms(gap, "gap"), duration_ms(grace, "grace"))

    @classmethod
    def of_inactivity_gap_and_grace(cls, gap: Duration, grace: Duration) -> "SessionWindows":
        """``with_inactivity_gap(gap, grace=grace)``, under Kafka's name.

        Source: ``SessionWindows.ofInactivityGapAndGrace`` (KIP-633).

            >>> SessionWindows.of_inactivity_gap_and_grace("30m", "5m").wait_ms
            2100000
        """
        return cls.with_inactivity_gap(gap, grace=grace)

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, gap: Duration) -> "SessionWindows":
        """``with_inactivity_gap(gap)``, under Kafka's name.

        Source: ``SessionWindows.ofInactivityGapWithNoGrace`` (KIP-633).

            >>> SessionWindows.of_inactivity_gap_with_no_grace("30m")
            SessionWindows(gap_ms=1800000, grace_ms=0)
        """
        return cls.with_inactivity_gap(gap)

    @property
    def wait_ms(self) -> int:
        """From a session's end until suppress lets it go: the grace and the gap."""
        return self.grace_ms + self.gap_ms

    @property
    def retention_ms(self) -> int:
        """How long a store keeps sessions by default, by stream time."""
        return self.gap_ms + self.grace_ms

    @property
    def grid(self) -> Grid:
        """Where its windows lie: anywhere."""
        return Grid("session")

    @property
    def reach(self) -> Reach:
        """A session that ended a gap before the oldest record that is still taken may be merged with it."""
        return Reach(2 * self.gap_ms + self.grace_ms + 1, gap_ms=self.gap_ms)


@checked_class
@dataclass(frozen=True, slots=True)
class SlidingWindows(Hinting):
    """Windows ``[end - difference, end]``, closed on both sides: one for every set of records at most the difference
    apart (KIP-450). Milliseconds: ``difference_ms`` >= 0, ``grace_ms`` >= 0; else ConfigError.
    """

    difference_ms: int
    grace_ms: int

    kind = "sliding"

    def __post_init__(self) -> None:
        bounded_ms(self.difference_ms, "SlidingWindows time difference")
        bounded_ms(self.grace_ms, "SlidingWindows grace")

    @classmethod
    def of_time_difference(cls, difference: Duration, *, grace: Duration = 0) -> "SlidingWindows":
        """Source: ``SlidingWindows.ofTimeDifferenceAndGrace`` (KIP-450).

        >>> show(payments.group_by_key().windowed_by(SlidingWindows.of_time_difference("10s", grace="1s")).count())
        ann [0, 10000]: 1 at 1500
        bob [80000, 90000]: 1 at 90000
        """
        return cls(duration_ms(difference, "difference"), duration_ms(grace, "grace"))

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> "SlidingWindows":
        """``of_time_difference(difference, grace=grace)``, under Kafka's name.

        Source: ``SlidingWindows.ofTimeDifferenceAndGrace`` (KIP-450).

            >>> SlidingWindows.of_time_difference_and_grace("10s", "1s").retention_ms
            21000
        """
        return cls.of_time_difference(difference, grace=grace)

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> "SlidingWindows":
        """``of_time_difference(difference)``, under Kafka's name.

        Source: ``SlidingWindows.ofTimeDifferenceWithNoGrace`` (KIP-450).

            >>> SlidingWindows.of_time_difference_with_no_grace("10s")
            SlidingWindows(difference_ms=10000, grace_ms=0)
        """
        return cls.of_time_difference(difference)

    @property
    def wait_ms(self) -> int:
        """From a window's end until its close."""
        return self.grace_ms

    @property
    def retention_ms(self) -> int:
        """How long a store keeps windows by default, by stream time."""
        # A record at t may need the window that ends at t - difference, to make the one behind it, and that window
        # begins at t - 2 * difference (KIP-450).
        return 2 * self.difference_ms + self.grace_ms

    @property
    def grid(self) -> Grid:
        """Where its windows lie: anywhere, each as long as the difference."""
        return Grid("sliding", self.difference_ms)

    @property
    def reach(self) -> Reach:
        """A record makes windows of records up to twice the difference before it."""
        return Reach(2 * self.difference_ms + self.grace_ms + 2)


@checked_class
@dataclass(frozen=True, slots=True)
class UnlimitedWindows(Hinting):
    """One window ``[start, 2^63 - 1)`` a key, which never closes; earlier records are in none. ``start_ms`` >= 0."""

    start_ms: int = 0

    kind = "time"

    def __post_init__(self) -> None:
        check_fields(self)
        bounded_ms(self.start_ms, "UnlimitedWindows start")

    @classmethod
    def of(cls, start_ms: int = 0) -> "UnlimitedWindows":
        """Source: ``UnlimitedWindows.of().startOn``.

        >>> show(orders.group_by_key().windowed_by(UnlimitedWindows.of(1_500)).aggregate(fold.sum("amount")))
        bob [1500, 9223372036854775807]: 1 at 2000
        ann [1500, 9223372036854775807]: 2 at 61000
        """
        return cls(start_ms)

    @property
    def wait_ms(self) -> int:
        """0: its window never closes."""
        return 0

    @property
    def retention_ms(self) -> int:
        """For ever."""
        return UNBOUNDED

    @property
    def grid(self) -> Grid:
        """Where its window lies."""
        return Grid("time", first_ms=self.start_ms)

    @property
    def reach(self) -> Reach:
        """Its window never closes."""
        return UNBOUNDED_REACH


@checked_class
@dataclass(frozen=True, slots=True)
class JoinWindows(Hinting):
    """A left record at ``t`` joins right records in ``[t - before, t + after]``, closed on both sides.

    ``before_ms`` + ``after_ms`` >= 0, either may be negative; ``grace_ms`` >= 0; else ConfigError. ``difference``, of
    the calls, is the largest distance in time, before and after.
    """

    before_ms: int
    after_ms: int
    grace_ms: int
    emits_at_once: bool = False
    """A record of an outer side without a match is forwarded alone at once (``of``)."""

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            got = f"{self.before_ms} ms and {self.after_ms} ms"
            raise ConfigError("JoinWindows before + after", "0 ms or more", got, "correct one of them")
        for name, duration in (("before", self.before_ms), ("after", self.after_ms)):
            bounded_ms(abs(duration), f"JoinWindows {name}")
        bounded_ms(self.grace_ms, "JoinWindows grace")

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> "JoinWindows":
        """Records at most ``difference`` apart.

        Source: ``JoinWindows.ofTimeDifferenceWithNoGrace`` (KIP-633).

            >>> JoinWindows.of_time_difference_with_no_grace("5m")
            JoinWindows(before_ms=300000, after_ms=300000, grace_ms=0, emits_at_once=False)
        """
        return cls.of_time_difference_and_grace(difference, 0)

    @classmethod
    def of(cls, difference: Duration) -> "JoinWindows":
        """As before Kafka Streams 3.1, deprecated there: in a left or outer join a record that has no match when it
        comes is forwarded alone at once, and again in pairs with later records. The grace is what is left of 24 hours:
        it says how long records are kept. ``JoinWindows.of("5m").grace("1h")``.

        Source: ``JoinWindows.of``, deprecated (KIP-633).

            >>> JoinWindows.of("5m").grace_ms
            85800000
        """
        difference_ms = duration_ms(difference, "difference")
        return cls(difference_ms, difference_ms, max(_DAY_MS - 2 * difference_ms, 0), emits_at_once=True)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> "JoinWindows":
        """Windows with ``grace``. Source: ``JoinWindows.ofTimeDifferenceAndGrace`` (KIP-633).

        >>> JoinWindows.of_time_difference_and_grace("5m", "1h").grace_ms
        3600000
        """
        difference_ms = duration_ms(difference, "difference")
        return cls(difference_ms, difference_ms, duration_ms(grace, "grace"))

    def before(self, before: Duration) -> "JoinWindows":
        """The same, but right records may be up to ``before`` earlier than the left one.

        Source: ``JoinWindows.before``.

            >>> JoinWindows.of_time_difference_with_no_grace("5m").before(0)
            JoinWindows(before_ms=0, after_ms=300000, grace_ms=0, emits_at_once=False)
        """
        return replace(self, before_ms=duration_ms(before, "before"))

    def after(self, after: Duration) -> "JoinWindows":
        """The same, but right records may be up to ``after`` later than the left one.

        Source: ``JoinWindows.after``.

            >>> JoinWindows.of_time_difference_with_no_grace("5m").after("1h").after_ms
            3600000
        """
        return replace(self, after_ms=duration_ms(after, "after"))

    def grace(self, grace: Duration) -> "JoinWindows":
        """Another grace, of windows that were made by ``of``; of others ConfigError (Kafka: IllegalStateException).

        Source: ``JoinWindows.grace``.

            >>> JoinWindows.of("5m").grace("1h").grace_ms
            3600000
        """
        if not self.emits_at_once:
            next_step = "give it to of_time_difference_and_grace()"
            raise ConfigError("JoinWindows grace", "windows made by of()", "windows with a grace", next_step)
        return replace(self, grace_ms=duration_ms(grace, "grace"))


Windows = TimeWindows | SessionWindows | SlidingWindows | UnlimitedWindows | DayWindows | OwnWindows


def grace_of(windows: Windows | None) -> int | None:
    """The grace of the windows; None without, and of those that never close."""
    return None if windows is None or isinstance(windows, UnlimitedWindows) else windows.grace_ms


def with_grace(windows: Windows, grace_ms: int) -> Windows:
    """The same windows with another grace. ConfigError for those that never close."""
    if isinstance(windows, UnlimitedWindows):
        raise ConfigError("grace", "windows that close", "unlimited windows", "leave their grace out")
    return replace(windows, grace_ms=grace_ms)
