"""At which row stream time reaches a time, against NumPy's search through all rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.operators.suppress.suppress_kernel import first_reaching, milestones
from kstreams_replay.state.compilation.kernel_compilation import interpreted, kernel
from tests.sampling import examples

# Neighbours at one time, every few ms, and far apart, as at the end of a history: each alone and mixed.
steps = st.lists(st.sampled_from([0, 1, 4, 1000, 86_400_000, 2**40]), min_size=1, max_size=60)


@kernel
def _rows_reaching(observed, times, found):  # type: ignore[no-untyped-def]
    marks = milestones(observed)
    for place in range(times.shape[0]):
        found[place] = first_reaching(observed, marks, times[place])


@settings(deadline=None, max_examples=examples(100))
@given(begin=st.sampled_from([-1, 0, 2**41]), steps=steps)
def test_a_time_is_reached_at_the_row_that_a_search_through_all_finds(begin, steps):
    observed = begin + np.cumsum(np.array(steps, np.int64))
    near = np.concatenate([observed - 1, observed, observed + 1, [observed[0] - 2**40]])
    times = near[near <= observed[-1]]
    found = np.full(len(times), -1, np.int64)
    with interpreted():
        _rows_reaching(observed, times, found)
    assert found.tolist() == np.searchsorted(observed, times, side="left").tolist()
