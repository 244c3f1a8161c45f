"""The records of the application's own tests and what they assert of them."""

from tests.applications.playing import Piped, assert_plays
from tests.applications.table_ttl import topology, topology_of_aggregate

STREAM, TABLE = "input-topic-for-stream", "input-topic-for-table"
TAPE = [
    Piped(TABLE, "alice", "a", 5),
    Piped(TABLE, "bobby", "b", 10),
    Piped(STREAM, "alice", "11", 10),
    Piped(STREAM, "bobby", "21", 15),
    Piped(STREAM, "alice", "12", 30),
    Piped(TABLE, "freddy", "f", 65_000),  # the schedule is due
    Piped(STREAM, "alice", "13", 70_006),
    Piped(STREAM, "bobby", "22", 70_016),
]
JOINED = [("alice", "11 a"), ("bobby", "21 b"), ("alice", "12 a"), ("alice", "13"), ("bobby", "22")]


def test_rows_that_are_old_are_deleted_through_the_table_s_own_topic(tmp_path):
    assert_plays(topology(), TAPE, {"output-topic": JOINED}, tmp_path)


def test_an_aggregate_that_is_old_is_deleted_by_its_aggregator(tmp_path):
    assert_plays(topology_of_aggregate(), TAPE, {"output-topic": JOINED}, tmp_path)
