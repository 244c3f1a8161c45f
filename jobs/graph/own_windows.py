"""Windows of a user's own class (Kafka's Windows): which windows a record is in is what its ``windows_for`` says.

Rule: ``windows_for(timestamp_ms)`` is called for records with a key, and gives their windows in the order in which they
take the record: a mapping of starts to ends (Kafka's map of starts to windows). It must give the same whenever it is
called. Windows are found by their start, as in Kafka's window stores, so a start has one end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...state.errors import ConfigError, TaskFailed, said, shown
from ...state.promises import Grid
from ...state.times import UNBOUNDED, bounded_ms, is_int
from ..functions.callable_bodies import check_body
from ..functions.parameters import NOTHING, Form, form_of
from .day_windows import ListedWindows
from .reach import UNBOUNDED_REACH, Reach
from .window_close import ClosedAfterGrace

_CALLS = ("windows_for", "size", "grace_period_ms")
_TAKES: tuple[Form, ...] = (("timestamp_ms",), NOTHING, NOTHING)
_GIVES = {"windows_for": "a mapping of starts to ends in ms", "size": "milliseconds", "grace_period_ms": "milliseconds"}


@dataclass(frozen=True, slots=True)
class OwnWindows(ClosedAfterGrace):
    """``given``: the object of the user's class, ``name``; ``size_ms``, ``grace_ms``: what it says of itself."""

    name: str
    size_ms: int
    grace_ms: int
    given: Any = field(repr=False, compare=False)

    kind = "time"

    @property
    def grid(self) -> Grid:
        """Where its windows lie: anywhere, as those of sessions."""
        return Grid("session")

    @property
    def reach(self) -> Reach:
        """Nobody knows to which windows an old record belongs."""
        return UNBOUNDED_REACH

    def listing(self) -> "OwnListing":
        """Gives the windows of each record."""
        return OwnListing(self)


class OwnListing:
    """Asks ``windows`` once for every time of a batch."""

    def __init__(self, windows: OwnWindows) -> None:
        self.windows, self.place = windows, f"{windows.name}.windows_for"
        self._ends: dict[int, int] = {}

    def __call__(self, times: np.ndarray, keys: np.ndarray) -> ListedWindows:
        known: dict[int, list[tuple[int, int]]] = {}
        windows: list[tuple[int, int]] = []
        first = np.zeros(len(times) + 1, np.int64)
        for row, (time_ms, key) in enumerate(zip(times.tolist(), keys.tolist(), strict=True)):
            if key >= 0:
                if time_ms not in known:
                    known[time_ms] = self._of(time_ms)
                windows += known[time_ms]
            first[row + 1] = len(windows)
        bounds = np.array(windows, np.int64).reshape(-1, 2)
        return ListedWindows(first, bounds[:, 0].copy(), bounds[:, 1].copy())

    def _of(self, time_ms: int) -> list[tuple[int, int]]:
        next_step = "correct the class of the windows"
        try:
            given = self.windows.given.windows_for(time_ms)
        except Exception as error:
            got = f"{said(error)} on time {time_ms}"
            raise TaskFailed(self.place, "the windows of a time", got, next_step) from error
        if not isinstance(given, Mapping):
            expected = "a mapping of starts to ends in ms"
            raise TaskFailed(self.place, expected, f"{shown(given)} on time {time_ms}", next_step)
        windows: list[tuple[Any, Any]] = [(start, getattr(end, "end", end)) for start, end in given.items()]
        for start, end in windows:
            if not (is_int(start) and is_int(end) and 0 <= start < end <= UNBOUNDED):
                expected = "a start of 0 ms or more before its end, as ints of 64 bits"
                got = f"{shown(start)} and {shown(end)} on time {time_ms}"
                raise TaskFailed(self.place, expected, got, next_step)
            if self._ends.setdefault(start, end) != end:
                got = f"{self._ends[start]} and {end} of {start}"
                raise TaskFailed(self.place, "one end for every start", got, next_step)
        return windows


def own_windows(given: Any) -> OwnWindows | None:
    """``given`` as windows, where it is an object with ``windows_for(timestamp_ms)``, ``size()`` and
    ``grace_period_ms()`` as Kafka's Windows has them; else None. Raises ConfigError for numbers that are none, and for
    methods of other parameters or that nobody runs: ``async def``, and those that yield.
    """
    if isinstance(given, type) or not all(callable(getattr(given, call, None)) for call in _CALLS):
        return None
    name = type(given).__name__
    for call, takes in zip(_CALLS, _TAKES, strict=True):
        check_body(getattr(given, call), f"{name}.{call}", instead=f"return {_GIVES[call]}")
        form_of(getattr(given, call), f"{name}.{call}", takes)
    numbers = given.size(), given.grace_period_ms()
    for call, number in zip(_CALLS[1:], numbers, strict=True):
        if not is_int(number) or number < 0:
            raise ConfigError(f"{name}.{call}", "milliseconds, 0 or more", shown(number), "correct the class")
    size_ms, grace_ms = (
        bounded_ms(int(number), f"{name}.{call}") for call, number in zip(_CALLS[1:], numbers, strict=True)
    )
    return OwnWindows(name, size_ms, grace_ms, given)
