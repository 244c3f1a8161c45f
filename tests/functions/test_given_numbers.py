"""Numbers that functions of the user's give, partitions and bounds of windows: NumPy's are ints, bools are none."""

import numpy as np
import pytest

from kstreams_replay import Consumed, Serde, StreamsBuilder, TopologyTestDriver
from kstreams_replay.state.errors import ReplayError

STRING = Serde.string()


class Given:
    """Windows of whatever is given."""

    def __init__(self, bounds, size=10, grace=0):
        self._bounds, self._size, self._grace = bounds, size, grace

    def windows_for(self, timestamp_ms):
        return self._bounds

    def size(self):
        return self._size

    def grace_period_ms(self):
        return self._grace


def counted(windows):
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, STRING)).group_by_key()
    grouped.windowed_by(windows).count().to("out")
    return [(record.window, record.value) for record in outputs(builder)]


def partitioned(answer):
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, STRING)).to(
        "out", partitioner=lambda topic, key, value, partitions: answer, partitions=8
    )
    return [record.value for record in outputs(builder)]


def outputs(builder):
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=5)
    return driver.read_outputs("out")


def test_bounds_of_numpy_are_bounds():
    windows = Given({np.int64(0): np.int64(10)}, np.int32(10), np.int64(0))

    assert counted(windows) == [((0, 10), 1)]


@pytest.mark.parametrize("bounds", [{True: 10}, {0: 2**63}, {0.0: 10}, {-1: 10}, {5: 5}], ids=repr)
def test_what_is_no_bound_of_a_window_is_refused(bounds):
    ((start, end),) = bounds.items()

    with pytest.raises(ReplayError) as raised:
        counted(Given(bounds))

    assert raised.value.expected == "a start of 0 ms or more before its end, as ints of 64 bits"
    assert raised.value.got == f"{start!r} and {end!r} on time 5"


def test_partitions_of_numpy_are_partitions():
    assert partitioned(np.int64(0)) == partitioned({np.int32(0)}) == ["v"]


@pytest.mark.parametrize("answer", [True, 1, -1, np.int64(1), 0.0, "0", {0, 1}], ids=repr)
def test_what_is_no_partition_is_refused_with_the_number_that_the_driver_has(answer):
    with pytest.raises(ReplayError) as raised:
        partitioned(answer)

    assert raised.value.expected == "a partition from 0 to 0, a set of them, or None"
    assert raised.value.got.startswith(f"{answer!r} for key 'k'")
    assert raised.value.next_step.endswith("a test driver has 1")
