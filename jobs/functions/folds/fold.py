"""What a fold is: configuration (Fold) and running thing (FoldState).

Rule: a kernel decides in which order aggregates start, merge, take values and are forwarded; a fold carries that
program out on its kind of value and knows nothing of windows, time or stores.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....state.errors import TopologyError
from ....state.records.batches import Batch
from ....state.serdes import Serde
from ..expressions import Shape
from .fold_program import FoldProgram


@dataclass(frozen=True, slots=True)
class WantedUpdates:
    """Which updates' values are wanted. ``new[u]``, ``old[u]`` int64: place in the result, or -1; and the results'
    lengths.
    """

    new: np.ndarray
    old: np.ndarray
    n_new: int
    n_old: int


class FoldState(ABC):
    """Aggregates by slot, and the operations on them."""

    saved_type: pa.DataType
    """Durable form of one aggregate."""

    @abstractmethod
    def grow(self, capacity: int) -> None:
        """Make room for slots below ``capacity``."""

    def forget(self, slots: np.ndarray) -> None:  # noqa: B027 (numbers need no room of their own)
        """The aggregates of ``slots`` (each once or more) are no more: what they hold may go."""

    @abstractmethod
    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        """Carry ``program`` out on the rows of ``batch``; returns the wanted new and old values."""

    @abstractmethod
    def save(self, slots: np.ndarray) -> pa.Array:
        """Durable form of the aggregates of ``slots``."""

    @abstractmethod
    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        """Take back what ``save`` gave."""

    @abstractmethod
    def result(self, saved: pa.Array) -> pa.Array:
        """The value that a reader sees, of durable aggregates."""

    @property
    def shows_all(self) -> bool:
        """Whether a reader sees the aggregate whole, so that a value which a processor puts is an aggregate."""
        return False


class Fold(ABC):
    """Configuration of a fold; checks itself against the shape of the values when the topology is built."""

    @abstractmethod
    def output(self, shape: Shape, place: str) -> pa.DataType:
        """Type of the aggregate; raises TopologyError when the values do not suit."""

    @abstractmethod
    def start(self, shape: Shape, place: str) -> FoldState:
        """An empty running fold."""

    def start_taking(self, shape: Shape, place: str) -> FoldState:
        """An empty running fold of a grouped table, which values can be taken back from. Raises TopologyError where
        what is left cannot be known.
        """
        expected = "a fold that values can be taken back from, since a change of a table takes its old value away"
        next_step = "use count, count_if, any, all, sum, mean, min, max, min_by, max_by, top, collect or count_distinct"
        raise TopologyError(place, expected, self._kept_in_part, f"{next_step}, or initializer=, adder=, subtractor=")

    _kept_in_part = "one that keeps but a part of what it was given"

    @property
    def may_be_null(self) -> bool:
        """The aggregate of some records may be null, as the smallest of nothing but nulls is."""
        return False

    @property
    def words(self) -> str:
        """The fold and what it folds, as messages about changed code name it; empty where its kind has words of its
        own.
        """
        return ""

    @property
    def declared(self) -> Serde | None:
        """The serde of the aggregate where the call says it, as Kafka's reduce does; else it is that of its type."""
        return None

    @property
    def merges(self) -> bool:
        """Whether two aggregates can be merged, which sessions need."""
        return True

    is_record_by_record: bool = False
    """The aggregate may become null in a way known only after the call, so each record waits for the one before."""
