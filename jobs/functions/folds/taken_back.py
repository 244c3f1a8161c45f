"""Folds of grouped tables that need every value which is there: min, max, min_by, max_by, top, collect, count_distinct.

Rule: a group has its values in a bag, in the order in which they were added. To take one back removes the first of its
equals, in logarithmic time; what was never added is not there to be taken, and changes nothing. All NaN are equal, and
where values are ranked, NaN and null are passed over.
"""

from collections import deque
from collections.abc import Callable
from copy import copy
from decimal import Decimal
from heapq import heapify, heappop, heappush
from math import copysign
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.errors import TopologyError
from ....state.records.batches import Batch
from ..expressions import Expression
from .fold import WantedUpdates
from .fold_program import ADD, COPY, EMIT, OLD, START, TAKE, FoldProgram
from .object_state import ObjectSlots

_RANKED_DEAD_MAX = 64
"""A small ranking is made again when more than this many of its entries are gone."""


def timeless(of: Expression) -> Expression:
    """``of``, which must depend on the value and the key alone: what a change takes back comes with the change's time,
    and not with the one that it was added with. Raises TopologyError for ``record_time_ms``.
    """
    if "record_time_ms" in of.expression.meta.root_names():
        expected = "folds of the value and the key, since a table's old value is taken back without the time it had"
        next_step = "put the time into the value, or use initializer=, adder=, subtractor="
        raise TopologyError(of.place, expected, str(of.expression), next_step)
    return of


class Bag:
    """Values that are there, each with the number ``by`` that ranks it. ``sign``: 1 the smallest ``by`` leads, -1 the
    largest, 0 nothing is ranked; of equal ones the first leads.
    """

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.entries: dict[int, tuple[Any, Any]] = {}
        """(by, value) by number, in the order of adding."""
        self.numbers: dict[Any, deque[int]] = {}
        self.ranking: list[tuple[Any, int]] = []
        """A heap of (rank, number), of which some may be gone."""
        self.next = 0

    def __copy__(self) -> "Bag":
        made = Bag(self.sign)
        for by, value in self.entries.values():
            made.add(by, value)
        return made

    def add(self, by: Any, value: Any) -> None:
        number, self.next = self.next, self.next + 1
        self.entries[number] = by, value
        self.numbers.setdefault(_comparable((by, value)), deque()).append(number)
        if self.sign:
            heappush(self.ranking, (self._rank(by), number))

    def take(self, by: Any, value: Any) -> None:
        equal = _comparable((by, value))
        numbers = self.numbers.get(equal)
        if numbers is None:
            return
        del self.entries[numbers.popleft()]
        if not numbers:
            del self.numbers[equal]
        if self.sign and len(self.ranking) > 2 * len(self.entries) + _RANKED_DEAD_MAX:
            self.ranking = [(self._rank(one), number) for number, (one, _) in self.entries.items()]
            heapify(self.ranking)

    def _rank(self, by: Any) -> Any:
        """The smaller, the further ahead."""
        if isinstance(by, Decimal):
            return by if self.sign > 0 else by.copy_negate()  # exact, however many digits
        if isinstance(by, int | float):
            return self.sign * by
        return by if self.sign > 0 else _Reversed(by)

    def leading(self, k: int) -> list[Any]:
        """Values of the first ``k`` of the ranking."""
        leaders: list[tuple[Any, int]] = []
        while self.ranking and len(leaders) < k:
            one = heappop(self.ranking)
            if one[1] in self.entries:
                leaders.append(one)
        for one in leaders:
            heappush(self.ranking, one)
        return [self.entries[number][1] for _, number in leaders]


class _Reversed:
    """A date, a time or a text of which the largest goes ahead."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    def __lt__(self, other: "_Reversed") -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


def _comparable(value: Any) -> Any:
    """Equal and hashable for values whose bytes are equal; one NaN is as another."""
    if isinstance(value, float):
        return "NaN" if value != value else (value, copysign(1, value))
    if isinstance(value, list | tuple):
        return tuple(map(_comparable, value))
    if isinstance(value, dict):
        return tuple(map(_comparable, value.items()))
    return value


class BagState(ObjectSlots):
    """A bag a slot. ``by`` None: values are not ranked; ``skips_null``: a value that is null is not put in.

    ``read``: what a reader sees of a bag, of ``output_type``.
    """

    def __init__(
        self,
        of: Expression,
        by: Expression | None,
        sign: int,
        read: Callable[[Bag], Any],
        output_type: pa.DataType,
        *,
        skips_null: bool = False,
    ) -> None:
        super().__init__()
        self.of, self.by, self.sign, self.read = of, by, sign, read
        self.output_type, self.skips_null = output_type, skips_null
        one = of.result.arrow_type
        self.saved_type = pa.list_(one if self._is_plain else pa.struct([("value", one), ("by", by.result.arrow_type)]))  # type: ignore[union-attr]

    @property
    def _is_plain(self) -> bool:
        """Values rank themselves, or are not ranked."""
        return self.by is None or self.by is self.of

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        rows, state = self._rows(batch), self.state
        new: list[Any] = [None] * wanted.n_new
        old: list[Any] = [None] * wanted.n_old
        update = 0
        for flags, slot, argument in zip(*(column.tolist() for column in program), strict=True):
            if flags & START:
                state[slot] = Bag(self.sign)
            if flags & COPY:
                state[slot] = copy(state[argument])
            if flags & OLD and wanted.old[update] >= 0:
                old[wanted.old[update]] = self.read(self._bag(slot))
            if flags & TAKE and rows[argument] is not None:
                self._bag(slot).take(*rows[argument])
            if flags & ADD and rows[argument] is not None:
                self._bag(slot).add(*rows[argument])
            if flags & EMIT:
                if wanted.new[update] >= 0:
                    new[wanted.new[update]] = self.read(self._bag(slot))
                update += 1
        return pa.array(new, self.output_type), pa.array(old, self.output_type)

    def _rows(self, batch: Batch) -> list[Any]:
        """(by, value) of each row, None for one that is not put in."""
        values = self.of.evaluate(batch).to_pylist()
        if self.skips_null and pa.types.is_floating(self.of.result.arrow_type):
            values = [None if value is None else value + 0.0 for value in values]  # -0.0 becomes 0.0
        if self.by is None:
            return [None if value is None and self.skips_null else (None, value) for value in values]
        numbers = values if self._is_plain else self.by.evaluate(batch).to_pylist()
        return [None if by is None or by != by else (by, value) for by, value in zip(numbers, values, strict=True)]

    def _bag(self, slot: int) -> Bag:
        bag: Bag | None = self.state[slot]
        assert bag is not None, "a group is read before it was begun"
        return bag

    def save(self, slots: np.ndarray) -> pa.Array:
        bags = [self._bag(slot).entries.values() for slot in slots.tolist()]
        if self._is_plain:
            return pa.array([[value for _, value in bag] for bag in bags], self.saved_type)
        return pa.array([[{"value": value, "by": by} for by, value in bag] for bag in bags], self.saved_type)

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        for slot, entries in zip(slots.tolist(), saved.to_pylist(), strict=True):
            self.state[slot] = self._loaded(entries)

    def _loaded(self, entries: list[Any]) -> Bag:
        bag = Bag(self.sign)
        for one in entries:
            if self.by is None:
                bag.add(None, one)
            else:
                bag.add(*((one, one) if self._is_plain else (one["by"], one["value"])))
        return bag

    def result(self, saved: pa.Array) -> pa.Array:
        return pa.array([self.read(self._loaded(entries)) for entries in saved.to_pylist()], self.output_type)


def _leader(bag: Bag) -> Any:
    leaders = bag.leading(1)
    return leaders[0] if leaders else None


def extreme(of: Expression, *, largest: bool) -> BagState:
    """Of min and max."""
    declared = of.result.arrow_type
    kind = pa.float64() if pa.types.is_floating(declared) else declared
    if pa.types.is_integer(declared):
        kind = pa.int64()
    return BagState(of, of, -1 if largest else 1, _leader, kind)


def preferred(of: Expression, by: Expression, *, largest: bool) -> BagState:
    """Of min_by and max_by."""
    return BagState(of, by, -1 if largest else 1, _leader, of.result.arrow_type)


def leading(of: Expression, by: Expression, k: int) -> BagState:
    """Of top."""
    return BagState(of, by, -1, lambda bag: bag.leading(k), pa.list_(of.result.arrow_type))


def every(of: Expression) -> BagState:
    """Of collect: in the order in which they were added."""
    read: Callable[[Bag], Any] = lambda bag: [value for _, value in bag.entries.values()]  # noqa: E731
    return BagState(of, None, 0, read, pa.list_(of.result.arrow_type))


def different(of: Expression) -> BagState:
    """Of count_distinct; 0.0 and -0.0 are one."""
    return BagState(of, None, 0, lambda bag: len(bag.numbers), pa.int64(), skips_null=True)
