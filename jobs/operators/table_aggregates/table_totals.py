"""What a grouped table's aggregates are made of: numbers that compiled code adds, or what Python callables make.

Rule: both take changes in order and settle each group as jobs/operators/table_aggregates/table_aggregate_kernel.py
says. A callable may answer None: the group has no aggregate then, and the next value added begins again. Callables own
what they are given, and what they make of a change is the aggregate as it is then (state/serdes/handed_over.py).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import fixed_array, is_valid
from ....state.errors import ConfigError, TaskFailed
from ....state.records.batches import Batch
from ....state.serdes.codec import refused_part
from ....state.serdes.handed_over import HandOver, own_copy
from ....state.stores.table_slots import TableSlots
from ....state.stores.value_heap import NO_REFERENCE
from ...functions.expressions import Shape, python_keys
from ...functions.folds.python import initial_misfit
from ..tables.table_steps import old_values
from . import table_aggregate_kernel
from .table_aggregate_node import TableAggregateNode


class GroupSlots(TableSlots):
    """``next``: end of the group's history in a versioned store; 0 for none, which no time is before."""

    beside = (*TableSlots.beside, "next", "amount")
    next: np.ndarray
    amount: np.ndarray

    def groups(self) -> tuple[np.ndarray, ...]:
        """What kernels take as ``groups``: fields of Groups; right until the next ``enter``."""
        return self.time, self.flags, self.reference, self.next


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Results of changes, one element each."""

    time_ms: np.ndarray
    new: pa.Array
    new_valid: np.ndarray
    old: pa.Array
    old_valid: np.ndarray


class Totals(ABC):
    """Aggregates by slot. ``retention_ms``: of a versioned store's history, or PLAIN; ``clock``: its stream time."""

    def __init__(self, slots: GroupSlots, retention_ms: int) -> None:
        self.slots, self.retention_ms = slots, retention_ms
        self.clock = np.array([-1], np.int64)

    @abstractmethod
    def run(self, at: np.ndarray, batch: Batch) -> Aggregated:
        """Take the changes of ``batch``, of the groups in slots ``at``."""

    @abstractmethod
    def load(self, at: np.ndarray, values: pa.Array) -> None:
        """Aggregates of the increment before."""

    def take(self, at: np.ndarray, shown: pa.Array) -> None:
        """Aggregates that a processor put, as a reader sees them. Raises ConfigError where that is not all there is."""
        self.load(at, self.saved_of(shown))

    def saved_of(self, shown: pa.Array) -> pa.Array:
        """Durable form of aggregates as a reader sees them. Raises as ``take``."""
        return shown

    def shown(self, saved: pa.Array) -> pa.Array:
        """What a reader sees of durable aggregates."""
        return saved

    def forget(self, at: np.ndarray) -> None:  # noqa: B027 (numbers begin again by themselves)
        """The groups in slots ``at`` have no aggregates any more."""

    @abstractmethod
    def save(self, at: np.ndarray) -> pa.Array:
        """Aggregates of the slots ``at``, null where there is none."""


class NumberTotals(Totals):
    """Count, or the sum of long values."""

    def __init__(self, slots: GroupSlots, retention_ms: int, *, counts: bool) -> None:
        super().__init__(slots, retention_ms)
        self.counts = counts

    def run(self, at: np.ndarray, batch: Batch) -> Aggregated:
        old, old_valid = old_values(batch)
        result = table_aggregate_kernel.results(len(batch))
        changes = batch.time_ms, self._amounts(batch.value.all()), batch.valid, self._amounts(old.all()), old_valid
        slots = self.slots
        table_aggregate_kernel.aggregate_changes(
            at, changes, self.retention_ms, self.clock, slots.groups(), slots.amount, tuple(result)
        )
        time_ms, new, new_valid, before, was_there = result
        numbers = fixed_array(new, new_valid, pa.int64()), fixed_array(before, was_there, pa.int64())
        return Aggregated(time_ms, numbers[0], new_valid, numbers[1], was_there)

    def _amounts(self, values: pa.Array) -> np.ndarray:
        if self.counts:
            return np.ones(len(values), np.int64)
        amounts: np.ndarray = pc.fill_null(values, 0).cast(pa.int64()).to_numpy().copy()
        return amounts

    def load(self, at: np.ndarray, values: pa.Array) -> None:
        self.slots.amount[at] = values.to_numpy()

    def save(self, at: np.ndarray) -> pa.Array:
        return fixed_array(self.slots.amount[at], self.slots.reference[at] != NO_REFERENCE, pa.int64())


class PythonTotals(Totals):
    """``node``'s callables, change by change. ``shape``: of the changes."""

    def __init__(self, slots: GroupSlots, retention_ms: int, node: TableAggregateNode, shape: Shape) -> None:
        super().__init__(slots, retention_ms)
        self.node, self.shape, self.returns = node, shape, node.shape.value
        self.aggregates: dict[int, Any] = {}
        self._aggregates = HandOver(self.returns.codec)

    def run(self, at: np.ndarray, batch: Batch) -> Aggregated:
        groups, clock, give, keep = self.slots.groups(), self.clock, self._aggregates.give, self._aggregates.keep
        new_and_old = batch.value, old_values(batch)[0]
        values = (self.shape.value.to_python(column.all()) for column in new_and_old)
        rows = zip(at.tolist(), python_keys(self.shape, batch), *values, batch.time_ms.tolist(), strict=True)
        times, new, before = [], [], []
        for slot, key, added, removed, time_ms in rows:
            aggregate = self.aggregates.get(slot)
            made = self._result(key, added, removed, give(aggregate))
            try:
                result = keep(made)
            except ConfigError as error:
                raise self._misfit(error, key) from error
            time = time_ms if aggregate is None else max(time_ms, int(self.slots.time[slot]))
            if table_aggregate_kernel.settle_group(slot, time, result is not None, self.retention_ms, clock, groups):
                self.aggregates[slot] = result
            times.append(time)
            new.append(result)
            before.append(aggregate)
        typed = self.returns.from_python(new), self.returns.from_python(before)
        return Aggregated(np.array(times, np.int64), typed[0], is_valid(typed[0]), typed[1], is_valid(typed[1]))

    def _result(self, key: Any, added: Any, removed: Any, aggregate: Any) -> Any:
        node = self.node
        assert node.adder is not None
        assert node.subtractor is not None
        try:
            if removed is not None and aggregate is not None:
                aggregate = self._aggregates.own(node.subtractor(own_copy(key), removed, aggregate))
            if added is None:
                return aggregate
            if aggregate is None:
                if node.initializer is None:
                    return added
                aggregate = self._aggregates.own(node.initializer())
            return node.adder(key, added, aggregate)
        except Exception as error:
            initial = initial_misfit(node.initializer, self.returns)
            next_step = f"correct {initial}the adder or the subtractor"
            raise TaskFailed.by(error, node.name, "an aggregate", f"on key {key!r}", next_step) from error

    def _misfit(self, error: ConfigError, key: Any) -> TaskFailed:
        initial = initial_misfit(self.node.initializer, self.returns)
        next_step = f"correct {initial}the callables, or the serde in returns"
        got = f"{refused_part(error)} on key {key!r}"
        return TaskFailed(self.node.name, f"an aggregate of {self.returns}", got, next_step)

    def load(self, at: np.ndarray, values: pa.Array) -> None:
        self.aggregates |= dict(zip(at.tolist(), self.returns.to_python(values), strict=True))

    def forget(self, at: np.ndarray) -> None:
        for slot in at.tolist():
            self.aggregates[slot] = None

    def save(self, at: np.ndarray) -> pa.Array:
        return self.returns.from_python([self.aggregates.get(slot) for slot in at.tolist()])
