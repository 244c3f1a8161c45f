"""A task's stream and tape time over a chunk, by hand."""

import numpy as np

from kstreams_replay.jobs.kernels.stream_time import advance_counters


def test_records_that_are_not_taken_move_tape_time_alone_and_rows_that_are_no_records_neither():
    time_ms = np.array([12, 7, 30, 90, 15], np.int64)
    takes = np.array([True, True, False, False, True])
    is_record = np.array([True, True, True, False, True])
    counters, stream, tape = np.array([10, 11, 0, 0, 0], np.int64), np.empty(5, np.int64), np.empty(5, np.int64)

    advance_counters(time_ms, takes, is_record, counters, stream, tape)

    assert stream.tolist() == [12, 12, 12, 12, 15]
    assert tape.tolist() == [12, 12, 30, 30, 30]
    assert counters.tolist() == [15, 30, 5, 5, 3]  # 7 is 5 behind 12; three were taken
