"""Which slices are read together when keys order their rows, worked out by hand."""

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.landing.files.key_spans import KeySpan, SpanBuilder
from kstreams_replay.jobs.landing.files.ordered_tasks import OrderedTask, ordered_tasks


def span(least: int, largest: int, *points: int, rises: bool = True) -> KeySpan:
    """Each point has 10 bytes before it; without points, the span has 10 bytes."""
    known = points or (largest,)
    return KeySpan(least, largest, 1, 10 * len(known), rises, tuple((key, 10) for key in known))


FAR, NEAR = {0: span(10, 19)}, {0: span(0, 9)}
SHUFFLED = [{0: span(0, 9, 4, 9, rises=False)}]
WIDE = [{0: span(0, 9, 4, 9)}, {0: span(1, 8, 5, 8)}]
CROSSED = [{0: span(0, 9), 1: span(10, 19)}, {0: span(10, 19), 1: span(0, 9)}]


@pytest.mark.parametrize(
    ("spans", "room", "want"),
    [
        ([FAR, NEAR, {0: span(20, 29)}], 20, [OrderedTask((0, 1)), OrderedTask((2,))]),  # follow one another
        ([FAR, NEAR, {0: span(5, 12)}], 30, [OrderedTask((0, 1, 2))]),  # overlap, with room
        ([{0: span(0, 99, 50, 99)}], 10, [OrderedTask((0,), streams=True)]),  # one that is in order
        (SHUFFLED, 10, [OrderedTask((0,), ((0, None, 9),)), OrderedTask((0,), ((0, 9, None),))]),
        (WIDE, 20, [OrderedTask((0, 1), ((0, None, 8),)), OrderedTask((0, 1), ((0, 8, None),))]),
        (CROSSED, 40, [OrderedTask((0, 1))]),  # partitions contradict each other
        (CROSSED, 20, [OrderedTask((0, 1), ((0, None, None),)), OrderedTask((0, 1), ((1, None, None),))]),
        ([{0: span(0, 9)}, {1: span(0, 9)}, {}], 10, [OrderedTask((0,)), OrderedTask((1, 2))]),  # other partitions
        ([], 10, []),
    ],
)  # fmt: skip
def test_slices_are_read_once_unless_they_overlap_and_have_no_room(spans, room, want):
    assert ordered_tasks(spans, [1] * len(spans), room, 100) == want


def test_a_task_reads_no_more_than_its_weight():
    spans = [{0: span(10 * n, 10 * n + 9)} for n in range(4)]

    assert ordered_tasks(spans, [5, 5, 9, 1], 1_000, 10) == [OrderedTask((0, 1)), OrderedTask((2, 3))]


@pytest.mark.parametrize(
    ("keys", "rises", "rises_or_equal"),
    [([1, 2, 5], True, True), ([1, 2, 2], False, True), ([2, 1, 3], False, False), ([7], True, True)],
)
def test_a_span_knows_whether_keys_rise_from_block_to_block(keys, rises, rises_or_equal):
    for may_equal, want in ((False, rises), (True, rises_or_equal)):
        builder = SpanBuilder(may_equal=may_equal)
        for key in keys:
            builder.add(pa.array([key], pa.int64()), np.zeros(1, np.int32), 100)
        found = builder.spans()[0]
        assert (found.least, found.largest, found.records, found.bytes) == (
            min(keys),
            max(keys),
            len(keys),
            100 * len(keys),
        )
        assert found.rises == want
        assert found == KeySpan.from_list(found.to_list())
