"""A reader's replica of a plain store: of a materialized table, or of an aggregate, windowed or not.

Rule: fed with what the owner put, it answers every asking row with the newest put of its key before it, else with what
was there when the chunk began. Windows that the owner's window store has forgotten by then are not shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from ....state.records.batches import Batch
from ....state.records.keys import Keys
from ....state.stores.key_values import NO_REFERENCE, KeyValueRows
from ....state.stores.slots import LIVE_COUNT
from ....state.times import FOREVER
from ...functions.expressions import Shape
from ..base.forward_order import merge_in_forward_order
from ..base.operator import Found, TableView
from ..base.single_records import Single, batch_of
from .table_store_kernel import look, put_rows

OBSERVED = b"observed_ms"
"""In the metadata of an owner's ``contents``: the largest bound it ever put, which its rows do not always show."""
_KEPT_SLOTS = 65_536
"""Below this many windows a replica is not swept."""


@dataclass(frozen=True, slots=True)
class Clamp:
    """A window is shown while its start (with ``by_end``: its end) ``> largest one put - retention_ms``."""

    retention_ms: int = FOREVER
    by_end: bool = False


class Reader(Protocol):
    """Who looks into a view by single keys, and knows what was put last."""

    def note(self, one: Single) -> bool:
        """That row was put. False: such a row must be fed, and nothing was done."""
        ...

    def forget(self) -> None:
        """The view alone knows what the table shows."""
        ...


class KeyValueView(TableView):
    """Of the node ``owner``, whose table has ``shape``; its keys are coded by ``keys``."""

    def __init__(self, owner: str, shape: Shape, keys: Keys, clamp: Clamp = Clamp()) -> None:
        self.owner, self.keys, self.clamp = owner, keys, clamp
        self.wants = frozenset({(owner, TableView.PUT)})
        self.table = KeyValueRows(shape.key, keys, shape.value.arrow_type, is_windowed=shape.window is not None)
        self._observed_ms, self._kept = -1, 0
        self.reader: Reader | None = None
        self._waiting: list[Single] = []
        """Rows that were put, of which the reader alone knows."""
        self._puts: Batch | None = None
        self._at = np.zeros(0, np.int64)

    def feed(self, seen: Mapping[tuple[str, str], Batch]) -> None:
        self._tell_all()
        self._take(seen[self.owner, self.PUT])

    def take_single(self, one: Single) -> bool:
        if self.reader is None or not self.reader.note(one):
            return False
        self._waiting.append(one)
        return True

    def _tell_all(self) -> None:
        """Nothing is the reader's alone."""
        if self.reader is not None:
            self.reader.forget()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._take(batch_of(waiting))
            self._settle()

    def _take(self, seen: Batch) -> None:
        puts = seen.coded_by(self.keys)
        puts = puts.where(puts.key >= 0)  # a global table's records come as they are
        self._puts, self._at = puts, self.table.slots.enter(puts.key, puts.window_start_ms, puts.window_end_ms)

    def get(self, asking: Batch, keys: np.ndarray, as_of_ms: np.ndarray | None = None) -> Found:
        """Whatever ``as_of_ms``: what the table shows now."""
        assert self._puts is not None, "a view is fed before it is asked"
        puts, slots = self._puts, self.table.slots
        references, time_ms = np.empty(len(asking), np.int64), np.empty(len(asking), np.int64)
        look(
            tuple(merge_in_forward_order((puts, asking))),
            (self._at, puts.time_ms, puts.valid),
            slots.find(keys, asking.window_start_ms, asking.window_end_ms),
            self._bound(),
            (self._observed_ms, self.clamp.retention_ms),
            *(slots.time, slots.reference, slots.newest, references, time_ms),
        )
        value = self.table.gather(references, puts.value.all())
        return Found(value, references != NO_REFERENCE, time_ms)

    def settle(self) -> None:
        self._settle()
        self._tell_all()

    def _settle(self) -> None:
        if self._puts is None:
            return
        puts, slots = self._puts, self.table.slots
        before = np.empty(len(puts), np.int64)
        put_rows(self._at, puts.time_ms, puts.valid, slots.time, slots.flags, slots.reference, before)
        self._observed_ms = int(self._bound()[self._at].max(initial=self._observed_ms))
        self.table.keep(puts.value.all(), self._at)
        self._puts = None
        if self.table.is_windowed and int(slots.counts[LIVE_COUNT]) > 2 * self._kept + _KEPT_SLOTS:
            self._sweep()

    def _bound(self) -> np.ndarray:
        return self.table.slots.end if self.clamp.by_end else self.table.slots.start

    def _sweep(self) -> None:
        """Give up windows that are deleted or not shown any more."""
        slots = self.table.slots
        is_over = self._bound() <= self._observed_ms - self.clamp.retention_ms
        over = np.flatnonzero((slots.flags > 0) & (is_over | (slots.reference == NO_REFERENCE)))
        slots.reference[over] = NO_REFERENCE
        slots.release(over)
        self._kept = int(slots.counts[LIVE_COUNT])

    def resume(self, stores: Mapping[str, pa.Table]) -> None:
        if self.owner not in stores:
            return
        rows = stores[self.owner]
        at = self.table.load(rows)
        known = int((rows.schema.metadata or {}).get(OBSERVED, b"-1"))
        self._observed_ms = int(self._bound()[at].max(initial=known))
