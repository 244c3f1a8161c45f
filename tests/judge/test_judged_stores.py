"""Rows of a store beside its changelog, without Kafka: which of them are the same row."""

import struct

import pyarrow as pa

from kstreams_replay.jobs.judge.judged_stores import judged_store
from kstreams_replay.jobs.operators.base.operator import StoreContents
from kstreams_replay.jobs.topology import Serde


def changelog_of_sessions(*sessions: tuple[int, int, str]) -> pa.Table:
    """(start, end, value) of key k, as SessionKeySchema has keys: the key, its end and its start."""
    return pa.table(
        {
            "partition": pa.array([0] * len(sessions), pa.int32()),
            "timestamp": [end for _, end, _ in sessions],
            "key": pa.array([b"k" + struct.pack(">qq", end, start) for start, end, _ in sessions], pa.binary()),
            "value": pa.array([value.encode() for _, _, value in sessions], pa.binary()),
        }
    )


def test_sessions_of_one_start_and_different_ends_are_different_rows():
    rows = pa.table(
        {
            "partition": pa.array([0, 0], pa.int32()),
            "key": ["k", "k"],
            "window_start_ms": [0, 0],
            "window_end_ms": [5, 10],
            "value": ["a", "b"],
        }
    )
    contents = StoreContents(Serde.string(), Serde.string(), rows, "session")

    same = judged_store("s", contents, changelog_of_sessions((0, 5, "a"), (0, 10, "b")))
    other = judged_store("s", contents, changelog_of_sessions((0, 5, "x"), (0, 12, "b")))

    assert (same.rows, same.missing, same.extra, same.other) == ((2, 2), 0, 0, 0)
    assert (other.rows, other.missing, other.extra, other.other) == ((2, 2), 0, 1, 1)
