"""Steps of streams without a store (KStreamFilter, KStreamMapValues, KStreamMap, KStreamFlatMap, KStreamPeek).

Rule: a filter passes a record iff its predicate is true (null is not true); expressions map a tombstone to a tombstone,
a Python callable is called with None, as Kafka calls it. A step keeps order, times, headers and causes.
"""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import is_valid, masked
from ...state.errors import ConfigError, TaskFailed, shown
from ...state.records.batches import Batch, Chunk, Values
from ...state.records.keys import NULL_CODE, Keys
from ...state.serdes import Serde
from ...state.serdes.codec import refused_part
from ...state.serdes.handed_over import own_copy
from ..functions.callable_bodies import check_ran, several
from ..functions.expressions import Call, Expression, Struct, python_keys
from .base.failed_records import FailedRecords
from .base.forward_order import joined_batch, merge_in_forward_order
from .base.operator import MultiOperator, Operator, OperatorContext
from .base.record_contexts import names_of_topics
from .stateless_nodes import (
    FilterNode,
    FlatMapNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    SelectKeyNode,
    TopicByRecordNode,
    WindowInKeyNode,
    WindowOfKeyNode,
)

Step = Expression | Struct | Call


class Filter(Operator):
    """KStreamFilter: forward the records for which the predicate is true."""

    def __init__(self, context: OperatorContext, node: FilterNode) -> None:
        super().__init__(context)
        self.node = node

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        answers = pc.fill_null(self.node.predicate.evaluate(batch), False)
        mask = answers.to_numpy(zero_copy_only=False).astype(np.bool_) == self.node.keeps
        chunk.left_out[batch.cause[~mask]] = True
        return batch.where(mask)


class MapValues(Operator):
    """KStreamMapValues."""

    def __init__(self, context: OperatorContext, node: MapValuesNode) -> None:
        super().__init__(context)
        self.node = node

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return batch.with_value(_mapped(self.node.mapper, batch))


class SelectKey(Operator):
    """KStreamMap of keys (select_key, and the first half of group_by). ``keys`` codes the new keys."""

    def __init__(self, context: OperatorContext, node: SelectKeyNode) -> None:
        super().__init__(context)
        self.node, self.keys = node, Keys(node.shape.key)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return batch.with_key(_selected(self.node.selector, batch, self.keys), self.keys)


class Map(Operator):
    """KStreamMap: ``keys`` codes the new keys. Both steps see the record as it was."""

    def __init__(self, context: OperatorContext, node: MapNode) -> None:
        super().__init__(context)
        self.node, self.keys = node, Keys(node.shape.key)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        codes, values = _selected(self.node.selector, batch, self.keys), _mapped(self.node.mapper, batch)
        return batch.with_key(codes, self.keys).with_value(values)


class TopicByRecord(Operator):
    """KStreamImpl.to with a TopicNameExtractor: ``addressed`` has the sink of every record. A name that is none of
    the node's topics ends the run, or the application's handler decides.
    """

    def __init__(self, context: OperatorContext, node: TopicByRecordNode) -> None:
        super().__init__(context)
        self.node = node

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        names, failed = names_of_topics(self.node.extractor, batch, chunk), FailedRecords(self.context, batch, chunk)
        for row, name in enumerate(names):
            if name not in self.node.topics:
                next_step = "correct the extractor, or name the topic in topics="
                error = TaskFailed(self.node.name, f"one of the topics {list(self.node.topics)}", repr(name), next_step)
                failed.add(row, error)
        failed.book()
        kept = np.delete(np.arange(len(batch)), failed.rows)
        self.addressed = np.array([self.node.sink_name(names[row]) for row in kept], object)
        return batch.take(kept) if failed.rows else batch


class _FlatMapping(Operator):
    """What the function gives for a record continues, in order. Each result counts as it is when the iterable gives it,
    as Kafka forwards it before it asks for the next.
    """

    example: str
    """Of what the function is to return."""

    def __init__(self, context: OperatorContext, node: FlatMapNode, *serdes: Serde) -> None:
        super().__init__(context)
        self.node = node
        can_change = any(serde.codec.can_change for serde in serdes)
        self._take = own_copy if can_change else _same if len(serdes) == 1 else _pair

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return self.process_up_to_failures(batch, np.zeros(len(batch), np.bool_), chunk)

    def process_up_to_failures(self, batch: Batch, failing: np.ndarray, chunk: Chunk) -> Batch:
        results = np.empty(len(batch), object)
        for function, mask in ((self._every, ~failing), (self._until_it_fails, failing)):
            for row, given in zip(
                np.flatnonzero(mask), _called(function, self.context, batch.where(mask)), strict=True
            ):
                results[row] = given
        rows = np.repeat(np.arange(len(batch)), [len(given) for given in results])
        made = self._forwarded(batch, rows, [one for given in results for one in given])
        chunk.left_out[batch.cause] = True
        return made

    def _every(self, key: Any, value: Any) -> list[Any]:
        given = several(self.node.function(key, value), self.context.node, self.example)
        return [self._take(one) for one in given]

    def _until_it_fails(self, key: Any, value: Any) -> list[Any]:
        """What comes before the failure, which is known already, and can be forwarded."""
        records: list[Any] = []
        with suppress(Exception):
            for one in several(self.node.function(key, value), self.context.node, self.example):
                taken = self._take(one)
                self._columns([taken])
                records.append(taken)
        return records

    @abstractmethod
    def _columns(self, given: list[Any]) -> tuple[pa.Array, ...]:
        """Columns of results. Raises TaskFailed for those that cannot be forwarded."""

    @abstractmethod
    def _forwarded(self, batch: Batch, rows: np.ndarray, given: list[Any]) -> Batch:
        """Records of what was ``given`` for the ``rows``, one for each."""


class FlatMapValues(_FlatMapping):
    """KStreamFlatMapValues: the values continue under the key of the record."""

    example = "[value]"

    def __init__(self, context: OperatorContext, node: FlatMapNode) -> None:
        super().__init__(context, node, node.shape.value)

    def _columns(self, given: list[Any]) -> tuple[pa.Array, ...]:
        return (_typed(self.node.shape.value, given, self.context),)

    def _forwarded(self, batch: Batch, rows: np.ndarray, given: list[Any]) -> Batch:
        (values,) = self._columns(given)
        return batch.take(rows).with_value(values)


class FlatMap(_FlatMapping):
    """KStreamFlatMap: the pairs are new keys and values; ``keys`` codes the new keys."""

    example = "[(key, value)]"

    def __init__(self, context: OperatorContext, node: FlatMapNode) -> None:
        super().__init__(context, node, node.shape.key, node.shape.value)
        self.keys = Keys(node.shape.key)

    def _columns(self, given: list[Any]) -> tuple[pa.Array, ...]:
        for pair in given:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                next_step = "return the tuple (key, value), and of flat_map a list of them"
                raise TaskFailed(self.context.node, "pairs of key and value", shown(pair), next_step)
        keys = _typed(self.node.shape.key, [key for key, _ in given], self.context)
        return keys, _typed(self.node.shape.value, [value for _, value in given], self.context)

    def _forwarded(self, batch: Batch, rows: np.ndarray, given: list[Any]) -> Batch:
        keys, values = self._columns(given)
        return batch.forward(
            rows,
            key=self.keys.intern(self.node.shape.key.encode(keys)),
            keys=self.keys,
            time_ms=batch.time_ms[rows],
            valid=is_valid(values),
            value=Values(values),
        )


class Peek(Operator):
    """KStreamPeek, and foreach: the function is called for every record, in order."""

    def __init__(self, context: OperatorContext, node: PeekNode) -> None:
        super().__init__(context)
        self.node = node

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        if chunk.handling is None:
            self._call(batch)
            return batch
        failed, goes_on = FailedRecords(self.context, batch, chunk), np.ones(len(batch), np.bool_)
        for row in range(len(batch)):  # one by one, since nobody is to see a record twice
            try:
                self._call(batch.take(np.array([row])))
            except TaskFailed as error:
                failed.add(row, error)
                goes_on[row] = False
        failed.book()
        return batch.where(goes_on)

    def _call(self, batch: Batch) -> None:
        for result in _called(self.node.function, self.context, batch):
            check_ran(result, self.context.node)


class Merge(MultiOperator):
    """KStreamImpl.merge: the records of all inputs, each at its turn."""

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        return joined_batch(batches, merge_in_forward_order(batches))


class WindowInKey(Operator):
    """Windows go into the keys' bytes; ``keys`` codes the new keys."""

    def __init__(self, context: OperatorContext, node: WindowInKeyNode) -> None:
        super().__init__(context)
        self.serde, self.keys = node.shape.key, Keys(node.shape.key)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        columns = [batch.keys.typed(batch.key), pa.array(batch.window_start_ms), pa.array(batch.window_end_ms)]
        is_null = pa.array(batch.key == NULL_CODE)
        windowed = pa.StructArray.from_arrays(columns, fields=list(self.serde.arrow_type), mask=is_null)
        return batch.with_key(self.keys.intern(self.serde.encode(windowed)), self.keys)


class WindowOfKey(Operator):
    """Windows come out of the keys' bytes; ``keys`` codes the keys without them."""

    def __init__(self, context: OperatorContext, node: WindowOfKeyNode) -> None:
        super().__init__(context)
        self.serde, self.keys = node.shape.key, Keys(node.shape.key)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        key, *bounds = batch.keys.typed(batch.key).flatten()
        start, end = (pc.fill_null(bound, 0).to_numpy() for bound in bounds)
        codes = self.keys.intern(self.serde.encode(key))
        return replace(batch.with_key(codes, self.keys), window_start_ms=start, window_end_ms=end)


def build_flat_map(node: FlatMapNode, context: OperatorContext) -> Operator:
    """The operator of ``node``."""
    return FlatMapValues(context, node) if node.keeps_key else FlatMap(context, node)


def build_merge(node: MergeNode, context: OperatorContext) -> Operator:
    """The operator of ``node``."""
    return Merge(context)


def _mapped(mapper: Step, batch: Batch) -> pa.Array:
    values = mapper.evaluate(batch)
    return masked(values, batch.valid) if isinstance(mapper, Expression) else values


def _selected(selector: Expression | Call, batch: Batch, keys: Keys) -> np.ndarray:
    return keys.intern(selector.result.encode(selector.evaluate(batch)))


def _called(function: Callable[[Any, Any], Any], context: OperatorContext, batch: Batch) -> list[Any]:
    """What ``function(key, value)`` gives for every record. Raises TaskFailed that names the record it failed on."""
    values = context.shape.value.to_python(batch.value.all())
    results = []
    for key, value in zip(python_keys(context.shape, batch), values, strict=True):
        try:
            results.append(function(key, value))
        except Exception as error:
            given = f"on key {key!r}, value {value!r}"
            raise TaskFailed.by(
                error, context.node, "a result of the callable", given, "correct the callable"
            ) from error
    return results


def _same(value: Any) -> Any:
    return value


def _pair(pair: Any) -> Any:
    """Of parts that cannot change."""
    return tuple(pair) if type(pair) is list else pair


def _typed(serde: Serde, results: list[Any], context: OperatorContext) -> pa.Array:
    try:
        return serde.from_python(results)
    except ConfigError as error:
        more = error.next_step.partition("; ")[2]
        next_step = f"correct the callable, or the serdes in returns_key and returns{more and '; '}{more}"
        raise TaskFailed(context.node, f"results of {serde}", refused_part(error), next_step) from error
