"""The records of the application's own tests and what they assert of them."""

from tests.applications.table_ttl import topology, topology_of_aggregate
from tests.playing import InputRecord, assert_plays

STREAM, TABLE = "input-topic-for-stream", "input-topic-for-table"
TAPE = [
    InputRecord(TABLE, "alice", "a", 5),
    InputRecord(TABLE, "bobby", "b", 10),
    InputRecord(STREAM, "alice", "11", 10),
    InputRecord(STREAM, "bobby", "21", 15),
    InputRecord(STREAM, "alice", "12", 30),
    InputRecord(TABLE, "freddy", "f", 65_000),  # the schedule is due
    InputRecord(STREAM, "alice", "13", 70_006),
    InputRecord(STREAM, "bobby", "22", 70_016),
]
JOINED = [("alice", "11 a"), ("bobby", "21 b"), ("alice", "12 a"), ("alice", "13"), ("bobby", "22")]


def test_rows_that_are_old_are_deleted_through_the_table_s_own_topic(tmp_path):
    assert_plays(topology(), TAPE, {"output-topic": JOINED}, tmp_path)


def test_an_aggregate_that_is_old_is_deleted_by_its_aggregator(tmp_path):
    assert_plays(topology_of_aggregate(), TAPE, {"output-topic": JOINED}, tmp_path)
