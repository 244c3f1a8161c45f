"""Sets of numbers are what Python's sets are, in rising order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_replay.state.distinct_numbers import are_among, distinct, without

numbers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=40)


@given(numbers, numbers)
def test_they_are_what_sets_of_python_are(own, others):
    mine, yours = np.array(own, np.int64), np.array(others, np.int64)

    assert distinct(mine).tolist() == sorted({*own})
    assert without(mine, yours).tolist() == sorted({*own} - {*others})
    assert are_among(mine, yours).tolist() == [number in others for number in own]


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint64])
def test_the_type_of_the_numbers_is_kept(kind):
    numbers = np.array([3, 1, 3], kind)

    assert distinct(numbers).dtype == without(numbers, numbers[:1]).dtype == kind
    assert are_among(numbers, numbers[:1]).tolist() == [True, False, True]
