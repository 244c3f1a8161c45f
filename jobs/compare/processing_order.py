"""Which record each row of production is of, where a task may have gone back and begun again.

Owns the order in which production processed its records. Rules: a task processes the records of a partition in order,
with its clock at -1. Whenever it starts again it goes back to a committed place, which is never before the one
that it went back to last, and its clock is at -1 again (StreamTask, KStreamWindowAggregate). A window takes a record
while its end is later than the clock less the grace, and then there is one row, with the key, the window and the latest
time that the store has. So the places at which the task began again determine the rows. Of all places that give the
rows of a partition one by one, the fewest are taken, and a row is of every record that it is of in a solution.

In: units, of a record and a window each, those of our rows and those that our task refused; and rows of production.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

STEPS_MAX = 1_000_000
"""So many steps are tried for a partition; a step takes some microseconds, and some 200 bytes."""

AROUND = 1_000
"""A place of going back is looked for so many rows before one that is like none of ours, or nearer."""

_State = tuple[int, int, int]
"""Where a task is behind a row: the row's unit, the unit with which it began again, and its clock."""

_Step = tuple[_State, int]
"""From where, and whether the task went back (1)."""


@dataclass(frozen=True, eq=False)
class Units:
    """What a task that reads the records of one partition does with them in order, an array each of one length.

    ``record``: its number or offset, rising; ``identity``: digest of key and window; ``end``: of the window; ``time``:
    of the record, in ms. ``grace``: of the windows.
    """

    record: np.ndarray
    identity: np.ndarray
    end: np.ndarray
    time: np.ndarray
    grace: int

    def __len__(self) -> int:
        return len(self.record)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of production of one partition in order: ``identity``, ``time``, and ``differs``: like none of ours."""

    identity: np.ndarray
    time: np.ndarray
    differs: np.ndarray


def processed_units(units: Units, rows: Rows) -> list[set[int]] | None:
    """Of each row the units that it may be of; None where no order of processing gives the rows one by one, or where
    it takes more than ``STEPS_MAX`` steps to find one.
    """
    search = _UnitSearch(units, rows)
    return search.units() if search.has_reached_the_end() else None


class _UnitSearch:
    """Row by row all states in which the task can be, each with the fewest times that it went back."""

    def __init__(self, units: Units, rows: Rows) -> None:
        self._grace, self._count = units.grace, len(units)
        self._record, self._identity = units.record.tolist(), units.identity.tolist()
        self._end, self._time = units.end.tolist(), units.time.tolist()
        self._rows = list(zip(rows.identity.tolist(), rows.time.tolist(), strict=True))
        self._may_go_back = _shortly_before(rows.differs)
        self._layers: list[dict[_State, tuple[int, list[_Step]]]] = [{(-1, 0, -1): (0, [])}]

    def has_reached_the_end(self) -> bool:
        """Try row after row."""
        reached: dict[int, int] = {}
        steps = 0
        for number, (identity, time) in enumerate(self._rows):
            layer: dict[_State, tuple[int, list[_Step]]] = {}
            for state, cost, step in self._following(number, reached.get(identity, -1)):
                known = layer.get(state)
                if known is None or cost < known[0]:
                    layer[state] = cost, [step]
                elif cost == known[0]:
                    known[1].append(step)
                steps += 1
            if not layer or steps > STEPS_MAX:
                return False
            self._layers.append(layer)
            reached[identity] = time
        return True

    def units(self) -> list[set[int]]:
        """By row those that are in a solution with the fewest places of going back; complete ones are preferred."""
        last = self._layers[-1]
        ends = [state for state in last if self._next(state)[0] == self._count] or list(last)
        fewest = min(last[state][0] for state in ends)
        here = {state for state in ends if last[state][0] == fewest}
        units: list[set[int]] = []
        for layer in reversed(self._layers[1:]):
            units.append({state[0] for state in here})
            here = {before for state in here for before, _ in layer[state][1]}
        return units[::-1]

    # --- one row ---------------------------------------------------------------------------------------------

    def _following(self, number: int, reached: int) -> Iterator[tuple[_State, int, _Step]]:
        """States behind row ``number``, whose key and window have ``reached`` a time; with each its cost."""
        identity, time = self._rows[number]
        layer = self._layers[number]
        fewest = min(cost for cost, _ in layer.values())
        for state, (cost, _) in layer.items():
            if cost > fewest + 1:
                continue  # the cheapest one can go back, too
            unit, clock = self._next(state)
            if unit < self._count and self._is_of(unit, identity, time, reached):
                yield (unit, state[1], clock), cost, (state, 0)
            if self._may_go_back[number]:
                for back in self._candidates(identity, time, reached):
                    if state[1] <= back <= unit:
                        yield (back, back, self._time[back]), cost + 1, (state, 1)

    def _next(self, state: _State) -> tuple[int, int]:
        """The next unit that is no refusal, and the clock with it."""
        last, _, clock = state
        for unit in range(last + 1, self._count):
            clock = max(clock, self._time[unit])
            if self._end[unit] > clock - self._grace:
                return unit, clock
        return self._count, clock

    def _is_of(self, unit: int, identity: int, time: int, reached: int) -> bool:
        own = self._time[unit]
        return self._identity[unit] == identity and time in (own, max(own, reached))

    def _candidates(self, identity: int, time: int, reached: int) -> Sequence[int]:
        """Units that a row can be of. A task begins again with the first unit of a record."""
        exact = self._units_at.get((identity, time), [])
        if time != reached:
            return exact
        return [unit for unit in self._units_of.get(identity, []) if self._time[unit] <= time]

    @cached_property
    def _units_of(self) -> dict[int, list[int]]:
        units_of = defaultdict[int, list[int]](list)
        for unit, identity in enumerate(self._identity):
            if unit == 0 or self._record[unit - 1] != self._record[unit]:
                units_of[identity].append(unit)
        return units_of

    @cached_property
    def _units_at(self) -> dict[tuple[int, int], list[int]]:
        units_at = defaultdict[tuple[int, int], list[int]](list)
        for identity, units in self._units_of.items():
            for unit in units:
                units_at[identity, self._time[unit]].append(unit)
        return units_at


def _shortly_before(differs: np.ndarray) -> list[bool]:
    """Whether one of the next ``AROUND`` rows, or the row itself, is marked."""
    numbers = np.flatnonzero(differs)
    at = np.searchsorted(numbers, np.arange(len(differs)))
    following = np.append(numbers, len(differs) + AROUND)[at]
    is_near: list[bool] = (following - np.arange(len(differs)) <= AROUND).tolist()
    return is_near
