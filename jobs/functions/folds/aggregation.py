"""The aggregate of an operator: one fold, or several by name as the fields of a struct."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....state.errors import ConfigError, TopologyError
from ....state.records.batches import Batch
from ....state.serdes import Serde
from ..expressions import Shape
from .fold import Fold, FoldState, WantedUpdates
from .fold_program import FoldProgram


@dataclass(frozen=True, eq=False)
class Aggregation:
    """``folds`` by field name; a single one under the name "" makes a plain value."""

    folds: Mapping[str, Fold]
    shape: Shape
    place: str

    def __post_init__(self) -> None:
        if not self.folds:
            raise TopologyError(self.place, "at least one fold", "none", "give for example legs=fold.count()")
        for name, fold in self.folds.items():
            if not isinstance(fold, Fold):
                got = f"{name}={fold!r}" if name else repr(fold)
                raise TopologyError(self.place, "a fold", got, "use one of kstreams_replay.fold, such as fold.count()")
        if len(self.folds) > 1 and any(fold.is_record_by_record for fold in self.folds.values()):
            raise TopologyError(
                self.place, "one Python aggregator alone, or built-in folds", "both", "put all into the aggregator"
            )
        self.serde()

    def serde(self) -> Serde:
        """Type of the aggregate as readers see it. Raises TopologyError when a fold does not suit the values."""
        types = {name: fold.output(self.shape, self.place) for name, fold in self.folds.items()}
        if "" in types and self.only.declared is not None:
            return self.only.declared
        try:
            return Serde.of_type(types[""]) if "" in types else Serde.of_type(pa.struct(list(types.items())))
        except ConfigError as error:
            expected = f"an aggregate of type {error.expected}"
            raise TopologyError(self.place, expected, error.got, error.next_step) from error

    @property
    def saved_type(self) -> pa.DataType:
        """Durable form of the aggregate."""
        return self.start().saved_type

    @property
    def only(self) -> Fold:
        return next(iter(self.folds.values()))

    @property
    def may_be_null(self) -> bool:
        """A plain aggregate may be null, which makes its update a tombstone."""
        return "" in self.folds and self.only.may_be_null

    def start(self) -> "AggregationState":
        states = {name: fold.start(self.shape, self.place) for name, fold in self.folds.items()}
        return AggregationState(states, "" in self.folds)

    def start_taking(self) -> "AggregationState":
        """As ``start``, of a grouped table, which takes values back. Raises TopologyError for a fold that cannot."""
        states = {name: fold.start_taking(self.shape, self.place) for name, fold in self.folds.items()}
        return AggregationState(states, "" in self.folds)


class AggregationState:
    """Running folds side by side."""

    def __init__(self, states: Mapping[str, FoldState], is_single: bool) -> None:
        self.states, self.is_single = states, is_single
        self.saved_type: pa.DataType = pa.struct([(name, state.saved_type) for name, state in states.items()])
        if is_single:
            self.saved_type = self.only.saved_type

    @property
    def only(self) -> FoldState:
        return next(iter(self.states.values()))

    def grow(self, capacity: int) -> None:
        for state in self.states.values():
            state.grow(capacity)

    def forget(self, slots: np.ndarray) -> None:
        for state in self.states.values():
            state.forget(slots)

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        """Wanted new and old values."""
        results = [state.run(program, batch, wanted) for state in self.states.values()]
        return self._struct([new for new, _ in results]), self._struct([old for _, old in results])

    def save(self, slots: np.ndarray) -> pa.Array:
        """Durable form: a struct of the folds' own."""
        return self._struct([state.save(slots) for state in self.states.values()])

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        for state, part in zip(self.states.values(), self._parts(saved), strict=True):
            state.load(slots, part)

    def result(self, saved: pa.Array) -> pa.Array:
        """What a reader sees, of durable aggregates."""
        parts = self._parts(saved)
        return self._struct([state.result(part) for state, part in zip(self.states.values(), parts, strict=True)])

    @property
    def shows_all(self) -> bool:
        """Whether what a reader sees is the whole aggregate."""
        return all(state.shows_all for state in self.states.values())

    def saved_of(self, shown: pa.Array) -> pa.Array:
        """Durable form of what a processor put, as a reader sees it. Raises ConfigError where a fold keeps more."""
        hidden = [name for name, state in self.states.items() if not state.shows_all]
        if hidden:
            what = f"the fold of {', '.join(hidden)}" if hidden != [""] else "the fold"
            expected = "a put into an aggregate whose folds show all that they keep"
            next_step = "delete the key, or give aggregate() an initializer= and an aggregator="
            raise ConfigError("", expected, f"one into that of {what}, which keeps more than it shows", next_step)
        return shown.cast(self.saved_type) if shown.type != self.saved_type else shown

    def _parts(self, array: pa.Array) -> list[pa.Array]:
        return [array] if self.is_single else array.flatten()

    def _struct(self, parts: list[pa.Array]) -> pa.Array:
        return parts[0] if self.is_single else pa.StructArray.from_arrays(parts, names=list(self.states))
