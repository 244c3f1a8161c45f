"""filter, map_values, select_key: operators without a store.

Rule: a filter passes a record iff its predicate is true (null is not true); expressions map a tombstone to a tombstone,
a Python callable is called with None, as Kafka calls it. A step keeps order, times and causes.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.expressions import Call, Expression, Struct
from jobs.operators.operator import Operator, Place
from state.keys import Keys
from state.records import Batch, Chunk

Step = Expression | Struct | Call


class Filter(Operator):
    """KStreamFilter: forward the records for which the predicate is true."""

    def __init__(self, place: Place, predicate: Expression | Call, *, keeps: bool) -> None:
        super().__init__(place)
        self.predicate, self.keeps = predicate, keeps

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        passed = pc.fill_null(self.predicate.evaluate(batch), False).to_numpy(zero_copy_only=False).astype(np.bool_)
        mask = passed if self.keeps else ~passed
        chunk.applied[batch.cause[~mask]] = True
        return batch.where(mask)


class MapValues(Operator):
    """KStreamMapValues."""

    def __init__(self, place: Place, mapper: Step) -> None:
        super().__init__(place)
        self.mapper = mapper

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        values = self.mapper.evaluate(batch)
        if isinstance(self.mapper, Expression) and not batch.valid.all():
            values = pc.if_else(pa.array(batch.valid), values, pa.scalar(None, values.type))
        return batch.with_value(values)


class SelectKey(Operator):
    """KStreamMap of keys (select_key, and the first half of group_by). ``keys`` codes the new keys."""

    def __init__(self, place: Place, selector: Expression | Call, keys: Keys) -> None:
        super().__init__(place)
        self.selector, self.keys = selector, keys

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        codes = self.keys.intern(self.selector.result.encode(self.selector.evaluate(batch)))
        return batch.with_key(codes, self.keys)
