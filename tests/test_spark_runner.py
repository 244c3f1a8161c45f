"""How tasks are shared out over Spark's slots."""

import pytest

from jobs.spark_runner import share_out


@pytest.mark.parametrize(
    ("sizes", "slots", "shares"),
    [
        ([5, 9, 4, 8], 2, [[1, 2], [3, 0]]),  # 9 + 4 and 8 + 5
        ([3, 3], 8, [[0], [1]]),  # no more shares than tasks
        ([1, 0, 0], 1, [[0, 1, 2]]),
        ([], 4, []),
    ],
)
def test_the_longest_task_goes_first_and_to_the_slot_with_least_to_do(sizes, slots, shares):
    assert share_out(sizes, slots) == shares
