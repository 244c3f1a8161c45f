"""Times and durations: signed 64-bit milliseconds everywhere, parsed once at the edge.

Rule: a name that ends in ``_ms`` is an ``int`` of milliseconds. ``"30s"`` exists only in calls of the DSL.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from .errors import ConfigError, shown

NO_TIMESTAMP_MS = -1
"""What every observed stream time starts with (Kafka's ConsumerRecord.NO_TIMESTAMP)."""

END_OF_TIME_MS = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: what the end of history is advanced to. Windows that end later stay open."""

LATEST_MS = 2**53 - 1
"""The latest time of a record, in the year 287396, and the longest size, grace and gap of windows. They are added to
times, and times are multiplied by the number of a task's queues. A time of more bits would overflow. A record of a
later time becomes a dead letter before an operator sees it.
"""

UNBOUNDED = 2**63 - 1
"""No time is later, no offset, increment or limit is higher (Java's Long.MAX_VALUE)."""

FOREVER = 2**62
"""Longer than any duration and later than any time, and the one can be added to the other, or taken from it."""

FROM_DATETIME = "give milliseconds since 1970: int(time.timestamp() * 1000) of a datetime with its zone"
"""What to write where a datetime is and a number is needed."""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"\s*(\d+)\s*(ms|min|s|m|h|d)")

Duration = int | str | timedelta
"""Milliseconds as an ``int``, text such as ``"30s"``, ``"1h 30m"``, ``"500ms"``, or a ``timedelta``."""

Instant = int | str | datetime
"""Milliseconds since 1970 as an ``int``, text such as ``"2026-01-31T10:00:00Z"``, or a ``datetime`` with its zone."""


def duration_ms(duration: Duration, name: str) -> int:
    """``duration`` in milliseconds; ``name`` is the argument named in the error.

    Raises ConfigError for text that is not a sum of numbers with units and for parts of a millisecond.
    """
    if isinstance(duration, bool) or not isinstance(duration, int | str | timedelta):
        raise ConfigError(name, "a duration", repr(duration), 'give milliseconds or text such as "30s"')
    if isinstance(duration, int):
        return duration
    if isinstance(duration, timedelta):
        whole_ms, rest = divmod(duration, timedelta(milliseconds=1))
        if rest:
            raise ConfigError(name, "whole milliseconds", repr(duration), "round the timedelta")
        return whole_ms
    return _text_ms(duration, name)


def duration_text(duration: int) -> str:
    """Milliseconds (0 or more) in the largest unit that they are whole in: 90000 is "90s". ``duration_ms`` reads it."""
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if duration % _UNITS_MS[unit] == 0)
    return f"{duration // _UNITS_MS[unit]}{unit}" if duration else "0s"


def instant_ms(text: str, name: str) -> int:
    """Milliseconds since 1970 of a time as ISO 8601 (without a zone: UTC), or given as milliseconds.

    Raises ConfigError for other text, for milliseconds beyond LATEST_MS and for parts of one.
    """
    if text.isascii() and text.isdecimal():
        digits = text.lstrip("0")
        if len(digits) > len(str(LATEST_MS)):  # nanoseconds, or more digits than Python reads as a number
            expected, got = "a time of at most 2 ** 53 - 1 ms", f"a number of {len(digits):,} digits"
            raise ConfigError(name, expected, got, "give milliseconds since 1970")
        return bounded_ms(int(text), name, "the time")
    expected = 'a time such as "2026-01-31T10:00:00Z", or milliseconds since 1970'
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(name, expected, repr(text), "correct the text") from error
    zoned = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return duration_ms(zoned - datetime.fromtimestamp(0, UTC), name)


def time_ms(time: Instant, name: str) -> int:
    """``time`` in milliseconds since 1970; ``name`` is the argument named in the error.

    Raises ConfigError for a ``datetime`` without a zone, for text that is no time, and for parts of a millisecond.
    """
    if isinstance(time, str):
        return instant_ms(time, name)
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ConfigError(name, "a datetime with its zone", repr(time), "give it tzinfo, for example UTC")
        return duration_ms(time - datetime.fromtimestamp(0, UTC), name)
    if isinstance(time, bool) or not isinstance(time, int):
        raise ConfigError(name, "a time", repr(time), "give milliseconds since 1970 or a datetime with its zone")
    return time


def is_int(value: Any) -> bool:
    """Whether it is an ``int`` or one of NumPy's, and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole_ms(time: int, place: str, what: str = "a time", *, earliest: int = -UNBOUNDED) -> int:
    """``time`` of a record or a window, as a function of the user's gives it: an ``int``, NumPy's too. ``place`` and
    ``what`` are named in errors.

    Raises ConfigError for anything else, and where ``earliest`` is given for a time before it and for one after
    LATEST_MS.
    """
    if type(time) is not int:
        if not is_int(time):
            is_datetime = isinstance(time, datetime)
            next_step = FROM_DATETIME if is_datetime else "give milliseconds since 1970, as int(…)"
            raise ConfigError(place, f"{what} in ms as an int", shown(time), next_step)
        time = int(time)
    if time < earliest:
        raise ConfigError(place, f"{what} of {earliest} ms or more", f"{time} ms", "correct it")
    if earliest > -UNBOUNDED and time > LATEST_MS:
        raise ConfigError(place, f"{what} of at most 2 ** 53 - 1 ms", f"{time} ms", "correct it")
    return time


def bounded_ms(time: int, place: str, what: str = "the duration") -> int:
    """``time``, a time or a duration. Raises ConfigError below 0 and above LATEST_MS. ``what``: named in errors."""
    of = "a time of " if what == "the time" else ""
    if time < 0:
        raise ConfigError(place, f"{of}0 ms or more", f"{time} ms", f"correct {what}")
    if time > LATEST_MS:
        raise ConfigError(place, f"{of}at most 2 ** 53 - 1 ms", f"{time} ms", f"correct {what}")
    return time


def known_times(times: np.ndarray) -> np.ndarray:
    """``times`` of records in ms, int64, where they are in bounds. One after LATEST_MS is NO_TIMESTAMP_MS, so that it
    holds up nothing and moves no time on; a negative one is -LATEST_MS at least.
    """
    if not len(times) or (times.min() >= -LATEST_MS and times.max() <= LATEST_MS):
        return times
    return np.where(times > LATEST_MS, NO_TIMESTAMP_MS, np.maximum(times, -LATEST_MS))


def _text_ms(text: str, name: str) -> int:
    total_ms, at = 0, 0
    while at < len(text.rstrip()):
        part = _PART.match(text, at)
        if part is None:
            raise ConfigError(name, 'a duration such as "30s", "1h 30m" or "500ms"', repr(text), "correct the text")
        total_ms += int(part[1]) * _UNITS_MS[part[2]]
        at = part.end()
    if at == 0:
        raise ConfigError(name, 'a duration such as "30s"', repr(text), "give a number and a unit")
    return total_ms
