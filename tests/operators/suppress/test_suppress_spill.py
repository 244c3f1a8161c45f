"""Spill to disk: a suppress buffer whose values do not fit in memory (KIP-328's ``spillToDisk``, which Kafka Streams
does not have).
"""

import gc

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.operators.suppress.suppress import Suppress
from kstreams_replay.state.records.batches import Batch, Chunk, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.stores.spilling_heap import SpillingHeap
from kstreams_replay.state.stores.value_heap import ValueHeap

LONG, STRING = Serde.long(), Serde.string()
ROWS, VALUE_BYTES, BOUND = 4_000, 250, 100_000


def step(operator: Suppress, number: int, time_ms: int) -> Batch:
    """``ROWS`` new keys, each with a value of its own."""
    first = number * ROWS
    values = pa.array([f"{first + row:0{VALUE_BYTES}}" for row in range(ROWS)])
    times = np.full(ROWS, time_ms, np.int64)
    zeros, keys = np.zeros(ROWS, np.int64), operator.context.keys
    batch = Batch(
        cause=np.arange(ROWS, dtype=np.int32),
        key=keys.intern(LONG.encode(pa.array(np.arange(first, first + ROWS)))),
        keys=keys,
        time_ms=times,
        valid=np.ones(ROWS, np.bool_),
        value=Values(values),
    )
    flags = np.zeros(ROWS, np.bool_), np.zeros(ROWS, np.bool_)
    source = zeros.astype(np.int16)
    return operator.process(
        batch, Chunk(("in",), 0, source, source, zeros, zeros, ("in",), source, times, times, times, *flags)
    )


def limited(**options: object) -> Suppress:
    context = OperatorContext("limited", Shape(LONG, STRING), Keys(LONG))
    return Suppress(context, STRING, until="time-limit", wait_ms=1_000, **options)


def kept_by(operator: Suppress, steps: int) -> int:
    """Bytes of Arrow memory that the operator holds on to after ``steps`` chunks in which nothing leaves."""
    gc.collect()
    before = pa.total_allocated_bytes()
    for number in range(steps):
        step(operator, number, number)
    gc.collect()
    return pa.total_allocated_bytes() - before


@pytest.mark.slow
def test_memory_stays_within_the_bound_while_an_unbounded_buffer_grows():
    steps = 10
    all_values = steps * ROWS * VALUE_BYTES

    assert kept_by(limited(), steps) > all_values
    assert kept_by(limited(max_bytes=BOUND, when_full="spill"), steps) <= BOUND


def test_the_values_beyond_the_bound_are_in_the_file():
    operator = limited(max_records=ROWS, when_full="spill")
    for number in range(3):
        step(operator, number, number)

    assert operator.metrics()["bytes_in_file"] > 2 * ROWS * VALUE_BYTES
    assert operator.metrics()["count_current"] == 3 * ROWS


def test_what_leaves_comes_back_from_the_file_in_order():
    spilling, unbounded = limited(max_bytes=BOUND, when_full="spill"), limited()
    for number in range(4):
        step(spilling, number, 100 * number)
        step(unbounded, number, 100 * number)

    got, want = step(spilling, 4, 1_200), step(unbounded, 4, 1_200)

    assert got.value.all().to_pylist() == [f"{row:0{VALUE_BYTES}}" for row in range(3 * ROWS)]
    assert (got.key == want.key).all()
    assert (got.cause == want.cause).all()


def test_what_waits_in_the_file_is_saved_as_if_it_had_been_in_memory():
    spilling, unbounded = limited(max_records=ROWS // 2, when_full="spill"), limited()
    for number in range(2):
        step(spilling, number, number)
        step(unbounded, number, number)

    assert spilling.metrics()["bytes_in_file"] > 0
    assert spilling.changes() == unbounded.changes()


# --- the heap ------------------------------------------------------------------------------------------------


def values(first: int, length: int) -> pa.Array:
    return pa.array([None if n % 7 == 0 else f"value {n}" for n in range(first, first + length)], pa.string())


def test_a_spilling_heap_answers_as_one_in_memory():
    bounds = [(0, 10**9), (10**9, 0), (5, 10**9), (10**9, 200), (10**9, 10**9)]
    heaps = [SpillingHeap(pa.string(), records_max=records, bytes_max=size) for records, size in bounds]
    plain = ValueHeap(pa.string())
    for heap in (plain, *heaps):
        assert [heap.append(values(first, length)) for first, length in [(0, 3), (3, 1), (4, 0), (4, 30)]] == [
            0,
            3,
            4,
            4,
        ]
    asked = np.array([33, 0, -1, 5, 5, 3, 2, -1], np.int64)

    for heap in heaps:
        assert heap.take(asked) == plain.take(asked)
        assert heap.take(np.zeros(0, np.int64)) == pa.array([], pa.string())


def test_garbage_leaves_the_file_and_references_follow():
    heap = SpillingHeap(pa.string(), records_max=10, bytes_max=10**9)
    for first in range(0, 80_000, 8_000):
        heap.append(values(first, 8_000))
    before = heap.bytes_in_file
    references = np.array([79_999, -1, 8_002, 5, 40_000], np.int64)

    heap.keep_only(references)

    assert heap.take(references).to_pylist() == ["value 79999", None, "value 8002", "value 5", "value 40000"]
    assert heap.bytes_in_file < before / 100
