"""The last records of a landed topic: which they are, and what of the topic is read for them."""

import pyarrow as pa
import pytest

from kstreams_replay.jobs.history.exclusions import exclude_records
from kstreams_replay.jobs.history.landed_records import last_landed
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    """Topic t: partition 0 has times 0, 10, … 90, partition 1 has 5, 15, … 95; each key on three records or more."""
    warehouse = Warehouse(tmp_path / "w")
    records = [LandedRecord(n % 2, b"abc"[n % 3 : n % 3 + 1], b"%d" % n, 5 * n) for n in range(20)]
    plant(warehouse, "t", records[:12], partitions=2)
    plant(warehouse, "t", records[12:], partitions=2)
    return warehouse


def places(rows: pa.Table) -> list[tuple[int, int, int]]:
    return list(zip(*(rows[name].to_pylist() for name in ("partition", "offset", "timestamp")), strict=True))


def test_they_are_the_newest_of_all_partitions_the_newest_last(warehouse):
    rows, total = last_landed(warehouse, "t", 3)

    assert (places(rows), total) == ([(1, 8, 85), (0, 9, 90), (1, 9, 95)], 20)
    assert rows["key"].to_pylist() == [b"c", b"a", b"b"]
    assert rows["value"].to_pylist() == [b"17", b"18", b"19"]
    assert rows["headers"].to_pylist() == [[], [], []]
    assert len(last_landed(warehouse, "t", 100)[0]) == 20


def test_those_of_a_key_are_counted(warehouse):
    rows, total = last_landed(warehouse, "t", 2, "a")

    assert (rows["value"].to_pylist(), total) == ([b"15", b"18"], 7)
    assert last_landed(warehouse, "t", 2, "d")[1] == 0


def test_what_is_out_of_play_is_none_and_holes_between_offsets_do_not_matter(warehouse):
    exclude_records(warehouse, "t", [(0, offset) for offset in range(3, 10)], reason="test")

    rows, total = last_landed(warehouse, "t", 12)

    assert [place for place in places(rows) if place[0] == 0] == [(0, 1, 10), (0, 2, 20)]
    assert (len(rows), total) == (12, 13)
    assert places(last_landed(warehouse, "t", 1)[0]) == [(1, 9, 95)]


def test_a_topic_that_has_not_landed_is_named(warehouse):
    with pytest.raises(ConfigError, match="topic 'u': expected a landed topic"):
        last_landed(warehouse, "u", 1)
