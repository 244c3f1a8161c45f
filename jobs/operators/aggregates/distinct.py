"""Distinct: the first record of every key, or of every id of a key, in each window (``windowed_by(...).distinct()``,
the older proposal of KIP-655; Kafka Streams does not have it).

Owns how many records each window took. Rule: a record is forwarded at once, under the windowed key and otherwise
unchanged, when it begins a window. When the window has taken records before, the record is a duplicate, which is
counted and not dropped. Windows, null keys and late records are those of the aggregations. A time window takes records
while ``end > stream time - grace``. A session grows and merges by duplicates too, so records that bridge two sessions
make one of them. Only a record with no session near it begins one: ``[time, time]``. A record without an id begins
windows of its own and is never anybody's duplicate.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import fixed_view, is_valid, only_chunk
from ....state.errors import TopologyError
from ....state.records.batches import Batch, Chunk, Values
from ....state.records.keys import Keys
from ...functions.expressions import Call, Expression, Shape
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.numbers import count
from ...graph.day_windows import DayWindows
from ...graph.windows import SessionWindows, TimeWindows, Windows
from ..aggregate_parts.aggregate import Aggregate
from ..aggregate_parts.window_settings import WindowSettings
from ..base.operator import Counters, OperatorContext, StoreOperator
from .aggregate_nodes import DistinctNode, counted_by
from .build import aggregate


class Distinct(StoreOperator):
    """``windows``: TimeWindows or SessionWindows; else TopologyError. ``id_selector`` None: the key alone counts.

    Its store counts the records of every window: a window's first record makes it 1. A reader sees that count as value.
    """

    store: Aggregate

    def __init__(
        self, context: OperatorContext, windows: Windows, id_selector: Expression | Call | None = None
    ) -> None:
        super().__init__(context)
        self.id_selector, self.without_id = id_selector, 0
        key = counted_by(context.shape.key, id_selector)
        keys = context.keys if id_selector is None else Keys(key)
        shape = Shape(key, context.shape.value)
        self.store = _counts(replace(context, shape=shape, keys=keys, wants_old=False, is_lazy=False), windows)
        self.updates_per_record = getattr(self.store, "updates_per_record", 1)
        self._taken, self._forwarded = 0, 0

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        rows = np.arange(len(batch), dtype=np.int64)
        counts = self.store.process(replace(self._identified(batch), headers=None, path=(rows,)), chunk)
        first = np.flatnonzero(counts.valid)
        self._taken += len(first)
        first = first[fixed_view(counts.value.all())[first] == 1]
        self._forwarded += len(first)
        rows = counts.path[0][first]
        assert counts.window_start_ms is not None
        assert counts.window_end_ms is not None
        assert counts.stream_time_ms is not None
        return batch.forward(
            rows,
            key=batch.key[rows],
            time_ms=batch.time_ms[rows],
            valid=batch.valid[rows],
            value=Values(batch.value.take(rows)),
            window_start_ms=counts.window_start_ms[first],
            window_end_ms=counts.window_end_ms[first],
            stream_time_ms=counts.stream_time_ms[first],
        )

    def advance(self, advance_row: Batch, chunk: Chunk) -> None:
        self.store.advance(advance_row, chunk)

    def _identified(self, batch: Batch) -> Batch:
        """The records under their identities: (key, id, null), or (key, null, a number of its own)."""
        if self.id_selector is None:
            return batch
        ids = self.id_selector.evaluate(batch)
        has_none = ~is_valid(ids)
        numbers = self.without_id + np.cumsum(has_none)
        self.without_id += int(has_none.sum())
        parts = [batch.keys.typed(batch.key), ids, pa.array(numbers, mask=~has_none)]
        serde, keys = self.store.context.shape.key, self.store.context.keys
        codes = keys.intern(serde.encode(pa.StructArray.from_arrays(parts, fields=list(serde.arrow_type))))
        return batch.with_key(np.where(batch.key < 0, batch.key, codes).astype(np.int32), keys)

    # --- state -----------------------------------------------------------------------------------------------

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.without_id = counters.get("without_id", 0)
        super().resume(rows, counters)

    def found_by(self, rows: pa.Table) -> pa.Array:
        if self.id_selector is None:
            return super().found_by(rows)
        return self.finding_serde.encode(pc.struct_field(only_chunk(rows, "key"), "key"))

    def counters(self) -> Counters:
        return super().counters() | {"without_id": self.without_id}

    def metrics(self) -> dict[str, Any]:
        """Of this increment, over all windows: records forwarded, and duplicates discarded."""
        return {"forwarded": self._forwarded, "duplicates": self._taken - self._forwarded}


def _counts(context: OperatorContext, windows: Windows) -> Aggregate:
    if not isinstance(windows, TimeWindows | DayWindows | SessionWindows):
        got, next_step = type(windows).__name__, "use TimeWindows or SessionWindows"
        raise TopologyError(f"{context.node} windows", "time or session windows", got, next_step)
    retention_ms = windows.retention_ms
    if isinstance(windows, SessionWindows):
        retention_ms += 1  # a session is known as long as it takes records
    aggregation = Aggregation({"": count()}, context.shape, context.node)
    return aggregate(context, aggregation, windows, WindowSettings(retention_ms=retention_ms))


def build(node: DistinctNode, context: OperatorContext) -> Distinct:
    """The operator of a DistinctNode. TopologyError for other windows than time and session windows."""
    return Distinct(context, node.windows, node.id_selector)
