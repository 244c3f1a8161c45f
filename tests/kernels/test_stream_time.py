"""A task's stream and tape time over a chunk, by hand."""

import numpy as np

from kstreams_replay.jobs.kernels.stream_time import LATE_CLASSES, advance_counters, class_limit_ms


def test_records_that_are_not_taken_move_tape_time_alone_and_rows_that_are_no_records_neither():
    time_ms = np.array([12, 7, 30, 90, 15], np.int64)
    takes = np.array([True, True, False, False, True])
    is_record = np.array([True, True, True, False, True])
    counters, stream, tape = np.array([10, 11, 0, 0, 0], np.int64), np.empty(5, np.int64), np.empty(5, np.int64)

    advance_counters(time_ms, takes, is_record, counters, np.zeros(LATE_CLASSES, np.int64), stream, tape)

    assert stream.tolist() == [12, 12, 12, 12, 15]
    assert tape.tolist() == [12, 12, 30, 30, 30]
    assert counters.tolist() == [15, 30, 5, 5, 3]  # 7 is 5 behind 12; three were taken


def test_latenesses_up_to_fifteen_have_a_class_each_and_eight_share_every_doubling_above():
    late_ms = [0, 1, 15, 16, 17, 18, 31, 32, 35, 36, 1_000, 1_024]
    time_ms = np.array([5_000 - late for late in late_ms], np.int64)
    all_rows, classes = np.ones(len(late_ms), np.bool_), np.zeros(LATE_CLASSES, np.int64)
    counters = np.array([5_000, 5_000, 0, 0, 0], np.int64)

    advance_counters(time_ms, all_rows, all_rows, counters, classes, np.empty_like(time_ms), np.empty_like(time_ms))

    assert {class_limit_ms(number): int(classes[number]) for number in np.flatnonzero(classes)} == {
        0: 1, 1: 1, 15: 1, 17: 2, 19: 1, 31: 1, 35: 2, 39: 1, 1_023: 1, 1_151: 1,
    }  # fmt: skip  # 16 to 31 by two, 32 to 63 by four, 512 to 1,023 by 64, 1,024 to 2,047 by 128
