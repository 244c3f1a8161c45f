"""Places by time, in doubled milliseconds: a record of time t at 2 t, a recorded time T at 2 T + 1, what follows it in
its partition at 2 T + 2 at least.
"""

import numpy as np
import pytest

from kstreams_replay.jobs.tape.recorded_time_order import doubled


@pytest.mark.parametrize(
    ("time_ms", "moments", "lowest", "places"),
    [
        ([5, 9, 7], [], 0, [10, 18, 14]),
        ([5, 9, 7], [], 16, [16, 18, 16]),
        ([5, 8, 4, 9], [1], 0, [10, 15, 16, 18]),
        ([5, 8, 4, 9], [1], 12, [12, 15, 16, 18]),
        ([], [], 6, []),
    ],
    ids=["records", "none before the lowest", "a recorded time of 7", "both", "nothing"],
)
def test_places_of_the_rows_of_a_queue(time_ms, moments, lowest, places):
    is_advance = np.isin(np.arange(len(time_ms)), moments)

    assert doubled(np.array(time_ms, np.int64), is_advance, lowest).tolist() == places
