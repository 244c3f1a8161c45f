"""A reader's look into a suppressed table (KTableSuppressProcessorSupplier's value getter).

Rule: while a key waits in the buffer, a reader sees what the first change that waits replaced, as of no time (-1); else
it sees the table above. A key waits until all below have got what the buffer emits of it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import is_valid
from ....state.records.batches import Batch, Column
from ....state.records.keys import Keys
from ....state.stores.key_values import NO_REFERENCE, KeyValueRows
from ....state.times import FOREVER
from ..base.forward_order import merge_in_forward_order
from ..base.operator import Found, TableView
from .suppressed_table_view_kernel import HELD, NONE_ENDED, clear, commit, watch_buffer
from .table_steps import old_values

if TYPE_CHECKING:
    from ..suppress.suppress_node import SuppressNode


class SuppressView(TableView):
    """``above``: view of the table that ``node`` suppresses, whose changes must carry what they replaced."""

    def __init__(self, node: "SuppressNode", above: TableView, keys: Keys) -> None:
        self.node, self.above, self.keys = node, above, keys
        self.wants = {*above.wants, (node.name, self.INPUT), (node.name, self.AFTER)}
        shape = node.shape
        self.priors = KeyValueRows(shape.key, keys, shape.value.arrow_type, is_windowed=shape.window is not None)
        self._wait_ms = node.wait_ms if node.until == "window-closes" else FOREVER
        self._observed_ms = self._advanced_ms = -1
        self._is_open = False
        """Whether results of the newest change are going out."""
        self._fed: tuple[Batch, Batch] | None = None
        self._at = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def feed(self, seen: Mapping[tuple[str, str], Batch]) -> None:
        self.above.feed(seen)
        changes = seen[self.node.name, self.INPUT].coded_by(self.keys)
        emitted = seen[self.node.name, self.AFTER].coded_by(self.keys)
        slots, fed = self.priors.slots, (changes, emitted)
        at = [slots.enter(batch.key, batch.window_start_ms, batch.window_end_ms) for batch in fed]
        self._fed, self._at = fed, (at[0], at[1])

    def get(self, asking: Batch, keys: np.ndarray, as_of_ms: np.ndarray | None = None) -> Found:
        """Whatever ``as_of_ms``: what the table shows now."""
        shown = self.above.get(asking, keys)
        asked = self.priors.slots.find(keys, asking.window_start_ms, asking.window_end_ms)
        reference, is_held, _ = self._watch(asking, asked)
        clear(*self._at, self.priors.slots.newest)
        if not is_held.any():
            return shown
        prior = self.priors.gather(reference, self._old().all())
        return Found(
            pc.if_else(pa.array(is_held), prior, shown.value),
            np.where(is_held, reference != NO_REFERENCE, shown.valid),
            np.where(is_held, -1, shown.time_ms),
        )

    def _watch(self, asking: Batch, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """Reference and whether the key waits, of every asking row; stream time of the buffer after all changes."""
        assert self._fed is not None, "a view is fed before it is asked"
        changes, emitted = self._fed
        slots = self.priors.slots
        references, is_held = np.full(len(asking), NO_REFERENCE, np.int64), np.zeros(len(asking), np.bool_)
        observed_ms = watch_buffer(
            tuple(merge_in_forward_order((changes, emitted, asking))),
            (self._at[0], changes.time_ms, old_values(changes)[1]),
            self._at[1],
            asked,
            (self._observed_ms, self._wait_ms),
            *(slots.end, slots.flags, slots.reference, slots.newest, references, is_held),
        )
        return references, is_held, int(observed_ms)

    def _old(self) -> Column:
        assert self._fed is not None
        return old_values(self._fed[0])[0]

    def advance(self, reached_ms: Mapping[str, int]) -> None:
        self.above.advance(reached_ms)
        self._advanced_ms = max(self._advanced_ms, reached_ms.get(self.node.name, -1))

    def settle(self) -> None:
        self.above.settle()
        if self._fed is None:
            return
        changes, slots = self._fed[0], self.priors.slots
        empty_batch = changes.take(np.zeros(0, np.int64))
        self._observed_ms = max(self._watch(empty_batch, empty_batch.key.astype(np.int64))[2], self._advanced_ms)
        limit = NONE_ENDED if self._is_open else self._observed_ms - self._wait_ms
        commit(*self._at, old_values(changes)[1], limit, slots.end, slots.flags, slots.reference, slots.newest)
        self.priors.keep(self._old().all(), self._at[0])
        self._fed = None

    def begin_input(self) -> None:
        self.above.begin_input()
        self._is_open = True

    def end_input(self) -> None:
        """What ended by the time of that row, and was not emitted, has left in silence."""
        self.above.end_input()
        self._is_open = False
        none, slots = np.zeros(0, np.int64), self.priors.slots
        limit = self._observed_ms - self._wait_ms
        commit(none, none, np.zeros(0, np.bool_), limit, slots.end, slots.flags, slots.reference, slots.newest)

    def resume(self, stores: Mapping[str, pa.Table]) -> None:
        self.above.resume(stores)
        if self.node.name not in stores:
            return
        rows = stores[self.node.name]
        value = rows["prior"]
        bounds = [rows[name] for name in self.priors.schema().names if name.startswith("window_")]
        at = self.priors.load(
            pa.table([rows["key"], *bounds, value, rows["record_time_ms"]], schema=self.priors.schema())
        )
        slots = self.priors.slots
        slots.flags[at] |= HELD
        has_prior = is_valid(value.combine_chunks())
        slots.reference[at[~has_prior]] = NO_REFERENCE
