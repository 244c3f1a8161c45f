"""Values by number, whatever was appended and forgotten in between."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_replay.state.stores.value_heap import NO_REFERENCE, ValueHeap


@given(sizes=st.lists(st.integers(0, 9), max_size=12), asked=st.lists(st.integers(-1, 60), max_size=12))
def test_a_reference_names_the_value_that_it_was_given_for(sizes, asked):
    heap, values = ValueHeap(pa.int64()), list(range(sum(sizes)))
    for size, base in zip(sizes, np.cumsum([0, *sizes]).tolist(), strict=False):
        assert heap.append(pa.array(values[base : base + size], pa.int64())) == base
    asked = [reference for reference in asked if reference < len(values)]

    wanted = [None if reference == NO_REFERENCE else values[reference] for reference in asked]
    assert [heap.one(reference).to_pylist() for reference in asked] == [[value] for value in wanted]
    assert heap.take(np.array(asked, np.int64)).to_pylist() == wanted

    # All at once and more than there are, which puts the pieces together; then one more.
    every = [*range(len(values)), *asked, NO_REFERENCE]
    assert heap.take(np.array(every, np.int64)).to_pylist() == [*values, *wanted, None]
    assert heap.append(pa.array([-7], pa.int64())) == len(values)
    assert heap.take(np.array([len(values), *asked], np.int64)).to_pylist() == [-7, *wanted]


@pytest.mark.parametrize("kind", [pa.string(), pa.struct([("long", pa.int64()), ("string", pa.string())])])
def test_an_empty_heap_has_nulls_of_its_type(kind):
    assert ValueHeap(kind).take(np.array([-1, -1])) == pa.nulls(2, kind)


def test_what_nobody_refers_to_is_forgotten_and_the_rest_renumbered():
    heap = ValueHeap(pa.int64())
    for begin in range(0, 100_000, 1000):
        heap.append(pa.array(range(begin, begin + 1000)))
    references = np.array([70_000, NO_REFERENCE, 5, 70_000, 99_999])

    heap.keep_only(references)

    assert references.tolist() == [1, -1, 0, 1, 2]
    assert heap.take(references).to_pylist() == [70_000, None, 5, 70_000, 99_999]
    assert heap.append(pa.array([7])) == 3
