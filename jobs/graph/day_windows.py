"""Windows of days in the time zone of a place, over its changes of summer time.

Kafka Streams has no such windows; its users write a Windows class (the Streams examples' DailyTimeWindows). Rule: a
window begins when clocks of the zone show the time of day, and ends when the next begins. So a day is 23 or 25 hours
long where clocks are put forward or back. A time of day that clocks skip is later by what they skip, and of one that
they show twice it is the first (Java's ZonedDateTime).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np
from numpy.typing import NDArray

from ...state.errors import ConfigError
from ...state.near_names import did_you_mean
from ...state.promises import Grid
from ...state.times import Duration, bounded_ms, duration_ms
from ..functions.call_arguments import checked_class
from ..functions.call_names import Hinting
from .reach import Reach
from .window_close import ClosedAfterGrace

_DAY_MS = 86_400_000
_CYCLE_DAYS = 146_097
"""400 years of the Gregorian calendar, after which dates fall on the same days of the week."""
_BOUND_DAYS = (date(9000, 1, 1) - date(1970, 1, 1)).days
_YEARS = 130
_MONDAY = 4
"""1970-01-05, as days since 1970-01-01: windows of several days are counted from there."""


class ListedWindows(NamedTuple):
    """The windows of some records, one after the other: those of record ``r`` are ``first[r]`` up to ``first[r + 1]``.
    Times in ms.
    """

    first: NDArray[np.int64]
    """Shape (records + 1,)."""
    starts: NDArray[np.int64]
    """Inclusive, shape (windows,)."""
    ends: NDArray[np.int64]
    """Exclusive, shape (windows,)."""


Listing = Callable[[np.ndarray, np.ndarray], ListedWindows]
"""Gives the windows of records by their times, int64 ms of 0 or more, and the codes of their keys, below 0 of null."""


@checked_class
@dataclass(frozen=True, slots=True)
class DayWindows(ClosedAfterGrace, Hinting):
    """Windows of ``days`` days, which begin when clocks of ``zone`` show ``start_ms`` (after midnight). Those of
    several days are counted from Monday, 1970-01-05: windows of 7 are weeks from Monday on.

    ``days`` > 0, 0 <= ``start_ms`` < 24 hours, ``grace_ms`` >= 0, and a zone that the machine's tz database has; else
    ConfigError.
    """

    zone: str
    start_ms: int
    days: int
    grace_ms: int

    kind = "time"

    def __post_init__(self) -> None:
        place = "TimeWindows.of_days"
        if self.days < 1:
            raise ConfigError(f"{place} days", "1 or more", str(self.days), "correct the number")
        if not 0 <= self.start_ms < _DAY_MS:
            got = f"{self.start_ms} ms"
            raise ConfigError(f"{place} start", "a time of day, 00:00 to 23:59:59.999", got, 'give for example "18:00"')
        bounded_ms(self.grace_ms, f"{place} grace")
        _zone(self.zone)

    @property
    def size_ms(self) -> int:
        """The longest window from 1970 to 2100: a day is an hour longer where clocks are put back."""
        return _longest_ms(self.zone, self.start_ms, self.days)

    @property
    def grid(self) -> Grid:
        """Where its windows lie."""
        return Grid("time", bounds_at=self.listing().bounds_at)

    @property
    def reach(self) -> Reach:
        """A window takes records until its end and the grace have passed."""
        return Reach(self.retention_ms)

    def listing(self) -> "DayListing":
        """Gives each record's one window; the first begins at 0 ms."""
        return _listing(self.zone, self.start_ms, self.days)


def days_of_zone(days: int, zone: str, start: Duration | time, grace: Duration) -> DayWindows:
    """DayWindows of what a user wrote; raises ConfigError as they do. ``start``: "18:00", a time, or a duration."""
    if isinstance(days, bool) or not isinstance(days, int):
        raise ConfigError(
            "TimeWindows.of_days days", "a whole number of days", repr(days), "give 1 for days, 7 for weeks"
        )
    return DayWindows(zone, _time_of_day_ms(start), days, duration_ms(grace, "grace"))


@dataclass(eq=False)
class DayListing:
    """Gives the windows of days, and computes each start once."""

    zone: str
    start_ms: int
    days: int
    _starts: dict[int, int] = field(default_factory=dict)
    """By number of the window, counted from the Monday."""

    def __call__(self, times: np.ndarray, keys: np.ndarray) -> ListedWindows:
        return ListedWindows(np.arange(len(times) + 1), *self.bounds_at(times))

    def bounds_at(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of the window that each of ``times`` is in, in ms."""
        about = np.unique((times // _DAY_MS - _MONDAY) // self.days)
        # ``about`` is by days of UTC. The zone's offset, up to 14 hours, and a start late in the day move a time by two
        # windows back or one forward at most. The next window's start is the end.
        numbers = np.unique((about[:, None] + np.arange(-2, 4)).ravel())
        starts = np.array([self.start_of(number) for number in numbers.tolist()], np.int64)
        at = np.searchsorted(starts, times, side="right") - 1
        return np.maximum(starts[at], 0), starts[at + 1]

    def start_of(self, number: int) -> int:
        """When window ``number`` begins; all after the year 9000 as 400 years, or some times 400, before."""
        if number not in self._starts:
            day = number * self.days + _MONDAY
            # ``datetime`` has no year after 9999, and windows may be of later times.
            cycles = max(0, -(-(day - _BOUND_DAYS) // _CYCLE_DAYS))
            begins = datetime(1970, 1, 1) + timedelta(days=day - cycles * _CYCLE_DAYS, milliseconds=self.start_ms)
            # With fold 0 a time that clocks show twice is the first. One that they skip has the offset before the
            # change, so it is later by what they skip.
            since = begins.replace(tzinfo=_zone(self.zone)).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
            self._starts[number] = since // timedelta(milliseconds=1) + cycles * _CYCLE_DAYS * _DAY_MS
        return self._starts[number]


_listing = lru_cache(64)(DayListing)


@lru_cache(64)
def _longest_ms(zone: str, start_ms: int, days: int) -> int:
    """Where clocks are put back, which shows from week to week; that takes a fifth of asking for every day."""
    listing, step = _listing(zone, start_ms, days), max(1, 7 // days)
    weeks = range(0, _YEARS * 366 // days, step)
    begins = np.array([listing.start_of(number) for number in weeks], np.int64)
    longer = np.flatnonzero(np.diff(begins) > step * days * _DAY_MS) * step
    lengths = [
        listing.start_of(number + 1) - listing.start_of(number)
        for first in longer.tolist()
        for number in range(first, first + step)
    ]
    return max([days * _DAY_MS, *lengths])


@lru_cache(64)
def _zone(name: str) -> ZoneInfo:
    place, expected = "TimeWindows.of_days zone", "a name of the tz database, such as 'Europe/Oslo'"
    if not isinstance(name, str):
        raise ConfigError(place, expected, repr(name), "give its name")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        next_step = did_you_mean(name, available_timezones(), "correct it")
        raise ConfigError(place, expected, repr(name), next_step) from error


def _time_of_day_ms(start: Duration | time) -> int:
    if isinstance(start, str) and ":" in start:
        try:
            start = time.fromisoformat(start)
        except ValueError as error:
            next_step = 'write hours and minutes, "18:00"'
            raise ConfigError("TimeWindows.of_days start", "a time of day", repr(start), next_step) from error
    if not isinstance(start, time):
        return duration_ms(start, "start")
    if start.tzinfo is not None:
        raise ConfigError("TimeWindows.of_days start", "a time without a zone", repr(start), "the zone has its own")
    return duration_ms(datetime.combine(date.min, start) - datetime.min, "start")
