"""What the first pass over files has decoded lands without being read again; what has no room is read twice."""

import pytest

from kstreams_replay.jobs.landing import file_writing
from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files import kept_records
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed

FILES = {
    "a.jsonl": '{"t":1,"p":1,"o":1}\n{"t":2,"p":0,"o":5}\n',
    "b.jsonl": '{"t":3,"p":0,"o":4}\n{"t":4,"p":1,"o":0}\n',
}
COLUMNS = "partition", "offset", "timestamp", "value"


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """Names of the files that a second pass has read, one for each time."""
    found: list[str] = []
    read = file_writing.read_slice

    def noted(reading):
        found.append(reading.piece.name)
        return read(reading)

    monkeypatch.setattr(file_writing, "read_slice", noted)
    return found


@pytest.mark.parametrize("offset", [None, "o"])
def test_what_is_kept_is_not_read_again_and_lands_as_what_is(warehouse, tmp_path, monkeypatch, reads, offset):
    directory = write(tmp_path / "in", FILES)
    mapping = {"partition": "p", "offset": offset, "partitions": 2}
    land(warehouse, directory, topic="kept", **mapping)
    assert reads == []

    monkeypatch.setattr(kept_records, "KEPT_BYTES", 0)
    land(warehouse, directory, topic="read", **mapping)

    assert set(reads) == {*FILES}
    assert landed(warehouse, "kept", *COLUMNS) == landed(warehouse, "read", *COLUMNS)
    assert len(landed(warehouse, "kept", *COLUMNS)) == 4


def test_a_slice_that_has_no_room_is_dropped_as_a_whole(warehouse, tmp_path, monkeypatch, reads):
    monkeypatch.setattr(kept_records, "KEPT_BYTES", 100)
    first = '{"t":1}\n'
    land(warehouse, write(tmp_path / "in", {"a.jsonl": first, "b.jsonl": f'{{"t":2,"x":"{"x" * 100}"}}\n'}))

    assert reads == ["b.jsonl"]
    assert [time for (time,) in landed(warehouse, "t", "timestamp")] == [1, 2]


def test_bad_rows_of_a_file_are_all_found_by_the_second_pass(warehouse, tmp_path, reads):
    directory = write(tmp_path / "in", {"a.jsonl": '{"t":1}\nno\n{"t":2}\nnone\n', "b.jsonl": '{"t":3}\n'})
    land(warehouse, directory, rules={"on_bad_row": "dead_letter", "max_bad_share": 1.0})

    assert reads == ["a.jsonl"]
    assert landed_dead_letters(warehouse, "t")["line"].to_pylist() == [2, 4]
    assert [time for (time,) in landed(warehouse, "t", "timestamp")] == [1, 2, 3]
