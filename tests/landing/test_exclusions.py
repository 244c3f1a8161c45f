"""Booking records as out of play: what is refused, what stays, and that landing continues."""

import pytest

from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing.exclusions import book_exclusion
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_idle, record_time
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.out_of_play import exclusions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.file_folders import land, write
from tests.landing.landed_records import records
from tests.landing.landed_rows import KilledError, landed

AT_MS = 1_767_268_800_000


def excluded(warehouse: Warehouse) -> dict[str, list[int]] | None:
    last = LandingLedger(warehouse.landing_ledger("t")).last_done()
    assert last is not None
    return last.content.excluded


@pytest.fixture
def topic(warehouse) -> Warehouse:
    """Offsets 0 to 2 in partition 0, 0 and 1 in partition 1; the newest record is of the far future."""
    rows = [(0, 5, b"a", b"1"), (0, 2**50, b"a", b"2"), (0, 7, b"a", b"3"), (1, 6, b"b", b"4"), (1, 20, b"b", b"5")]
    land_records(warehouse, "t", records(*rows), partitions=2)
    return warehouse


def test_records_are_booked_with_the_reason_and_stay_in_the_table(topic):
    before = landed(topic, "t", "partition", "offset", "value")

    row = book_exclusion(topic, "t", [(1, 0), (0, 1), (0, 1)], " of the year 37648 ", clock_ms=lambda: AT_MS)
    book_exclusion(topic, "t", [(0, 0)], "a test", clock_ms=lambda: AT_MS + 1)

    assert (row.increment, row.content.records, row.content.cut_from) == (2, 0, {"0": 3, "1": 2})
    assert excluded(topic) == {"0": [0, 1], "1": [0]}
    assert [(e.partition, e.offset, e.reason, e.increment, e.booked_at_ms) for e in exclusions(topic, "t")] == [
        (0, 1, "of the year 37648", 2, AT_MS),
        (1, 0, "of the year 37648", 2, AT_MS),
        (0, 0, "a test", 3, AT_MS + 1),
    ]
    assert landed(topic, "t", "partition", "offset", "value") == before
    assert fsck(topic).findings == []


@pytest.mark.parametrize(
    ("topic_name", "places", "reason", "message"),
    [
        ("x", [(0, 0)], "r", "topic 'x': expected a landed topic, got one that was never landed; land it first"),
        ("t", [(2, 0)], "r", "record t:2:0: expected a partition of 0 to 1, got 2;"),
        (
            "t",
            [(0, 0), (0, 3)],
            "r",
            "record t:0:3: expected an offset of 0 or more, below 3, the next one to land, got 3",
        ),
        (
            "t",
            [(0, 0), (1, 1)],
            "r",
            "record t:1:1: expected a record that is in play, got one that landing increment 2 ",
        ),
        ("t", [(0, 0)], " ", "topic 't': expected a reason, got ' ';"),
        ("t", [], "r", "topic 't': expected a record to take out of play, got none;"),
    ],
    ids=["topic", "partition", "offset", "again", "reason", "none"],
)
def test_what_cannot_be_taken_out_is_named_and_nothing_is_booked(topic, topic_name, places, reason, message):
    book_exclusion(topic, "t", [(1, 1)], "a test")

    with pytest.raises(ConfigError) as raised:
        book_exclusion(topic, topic_name, places, reason)

    assert str(raised.value).startswith(message)
    assert excluded(topic) == {"1": [1]}


def test_an_offset_that_is_a_gap_is_no_record(warehouse, directory):
    write(directory, {"a.jsonl": '{"t":1,"o":0}\n{"t":2,"o":4}\n'})
    land(warehouse, directory, offset="o")

    with pytest.raises(ConfigError, match="record t:0:3: expected a landed record, got none at this offset; Kafka has"):
        book_exclusion(warehouse, "t", [(0, 0), (0, 3)], "a test")

    assert excluded(warehouse) is None


def test_landing_and_recording_times_go_on_and_keep_what_is_out(topic):
    book_exclusion(topic, "t", [(0, 1)], "a test")

    record_time(topic, "t", 30, partition=1)
    report = land_records(topic, "t", records((0, 31, b"a", b"6")), partitions=2)

    assert (report.increments, report.cut_from, report.cut_to) == ((4,), {0: 3, 1: 2}, {0: 4, 1: 2})
    assert excluded(topic) == {"0": [1]}
    assert fsck(topic).findings == []


def test_files_land_once_as_before(warehouse, directory):
    write(directory, {"a.jsonl": '{"t":1}\n{"t":2}\n'})
    land(warehouse, directory)
    book_exclusion(warehouse, "t", [(0, 1)], "a test")

    write(directory, {"b.jsonl": '{"t":3}\n'})

    assert land(warehouse, directory).records == 1
    assert land(warehouse, directory).records == 0
    assert excluded(warehouse) == {"0": [1]}


def test_a_time_that_is_out_makes_no_partition_idle(topic):
    book_exclusion(topic, "t", [(0, 1)], "a test")

    assert record_idle(topic, "t", 5) == {0: 15, 1: 15}  # the newest is 20, and partition 0 has come to 7


def test_one_that_died_before_it_was_done_is_finished_by_the_next_landing(topic, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(LandingLedger, "done", _die)
        with pytest.raises(KilledError):
            book_exclusion(topic, "t", [(0, 1)], "a test")
    assert excluded(topic) is None

    land_records(topic, "t", records((0, 31, b"a", b"6")), partitions=2)

    assert excluded(topic) == {"0": [1]}


def _die(*_: object, **__: object) -> None:
    raise KilledError
