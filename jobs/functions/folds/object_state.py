"""How a fold whose aggregate is a Python object carries a program out, a record at a time.

Rule: an object is never changed in place, since it may be the aggregate of several slots at once; to add to it makes
another one.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.records.batches import Batch
from .fold import FoldState, WantedUpdates
from .fold_program import ADD, COPY, EMIT, MERGE, OLD, START, TAKE, FoldProgram


class ObjectSlots(FoldState):
    """A Python object a slot, or None."""

    def __init__(self) -> None:
        self.state: list[Any] = []

    def grow(self, capacity: int) -> None:
        self.state.extend([None] * (capacity - len(self.state)))

    def forget(self, slots: np.ndarray) -> None:
        for slot in slots.tolist():
            self.state[slot] = None


class ObjectState(ObjectSlots):
    """An object a slot; None is an aggregate from before there was this fold, null until its next value."""

    empty: Any
    output_type: pa.DataType

    @abstractmethod
    def inputs(self, batch: Batch) -> list[Any]:
        """What each row adds; None adds nothing."""

    @abstractmethod
    def added(self, aggregate: Any, value: Any) -> Any: ...

    def taken(self, aggregate: Any, value: Any) -> Any:
        """Without ``value``, which a table's change takes back."""
        raise AssertionError(f"{type(self).__name__} takes nothing back")

    @abstractmethod
    def merged(self, one: Any, other: Any) -> Any: ...

    @abstractmethod
    def shown(self, aggregate: Any) -> Any:
        """What a reader sees of it."""

    @abstractmethod
    def saved(self, aggregate: Any) -> Any:
        """Its durable form, of ``saved_type``."""

    @abstractmethod
    def loaded(self, saved: Any) -> Any: ...

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        values, state = self.inputs(batch), self.state
        new: list[Any] = [None] * wanted.n_new
        old: list[Any] = [None] * wanted.n_old
        update = 0
        for flags, slot, argument in zip(*(column.tolist() for column in program), strict=True):
            if flags & START:
                state[slot] = self.empty
            if flags & COPY:
                state[slot] = state[argument]
            if flags & OLD and wanted.old[update] >= 0 and state[slot] is not None:
                old[wanted.old[update]] = self.shown(state[slot])
            if flags & MERGE and state[argument] is not None:
                state[slot] = self.merged(self._own(slot), state[argument])
            if flags & TAKE and values[argument] is not None:
                state[slot] = self.taken(self._own(slot), values[argument])
            if flags & ADD:
                state[slot] = self._own(slot)
                if values[argument] is not None:
                    state[slot] = self.added(state[slot], values[argument])
            if flags & EMIT:
                if wanted.new[update] >= 0 and state[slot] is not None:
                    new[wanted.new[update]] = self.shown(state[slot])
                update += 1
        return pa.array(new, self.output_type), pa.array(old, self.output_type)

    def _own(self, slot: int) -> Any:
        return self.empty if self.state[slot] is None else self.state[slot]

    def save(self, slots: np.ndarray) -> pa.Array:
        aggregates = [self.state[slot] for slot in slots.tolist()]
        return pa.array([None if one is None else self.saved(one) for one in aggregates], self.saved_type)

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        for slot, one in zip(slots.tolist(), saved.to_pylist(), strict=True):
            self.state[slot] = None if one is None else self.loaded(one)

    def result(self, saved: pa.Array) -> pa.Array:
        results = [None if one is None else self.shown(self.loaded(one)) for one in saved.to_pylist()]
        return pa.array(results, self.output_type)
