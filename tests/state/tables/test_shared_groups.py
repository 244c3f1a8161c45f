"""Row groups that several tasks of one process read are decoded once, as far as there is room."""

import pyarrow as pa
import pytest

from kstreams_replay.state.tables import shared_groups
from kstreams_replay.state.tables.shared_groups import batches_of, sharing_groups

BATCHES = [pa.record_batch({"n": [1, 2, 3]}), pa.record_batch({"n": [4]})]


class Decoder:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self):
        self.times += 1
        yield from BATCHES


@pytest.mark.parametrize(("tasks", "times"), [(1, 3), (2, 1)])
def test_tasks_of_one_process_decode_a_row_group_once_and_one_alone_holds_nothing(tasks, times):
    decode = Decoder()
    with sharing_groups(tasks):
        found = [list(batches_of("g", decode)) for _ in range(3)]

    assert found == [BATCHES] * 3
    assert decode.times == times


def test_nothing_is_held_behind_the_last_task_nor_of_a_group_that_nobody_read_to_its_end():
    decode = Decoder()
    with sharing_groups(2):
        next(batches_of("g", decode))
        list(batches_of("g", decode))
    list(batches_of("g", decode))

    assert decode.times == 3


def test_what_has_no_room_is_decoded_again_and_what_was_first_stays(monkeypatch):
    monkeypatch.setattr(shared_groups, "HELD_BYTES", sum(batch.nbytes for batch in BATCHES))
    first, second = Decoder(), Decoder()
    with sharing_groups(2):
        found = [list(batches_of(name, each)) for _ in range(2) for name, each in (("a", first), ("b", second))]

    assert found == [BATCHES] * 4
    assert (first.times, second.times) == (1, 2)
