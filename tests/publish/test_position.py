"""The text of a published position, by hand."""

import json

import pytest

from kstreams_replay.jobs.publish.position import Corrections, Position
from kstreams_replay.state.errors import PublishError

WRITTEN = {
    "format": 1, "pipeline": "shop", "output": "out", "ledger": "id-of-the-ledger", "topic_id": "id-of-the-topic",
    "partitions": 4, "as_of": 9, "through": 6, "increment": 7, "rows": 3,
    "corrections": {"to": 12, "sent": 5, "tombstones": True},
}  # fmt: skip
POSITION = Position(
    "shop", "out", "id-of-the-ledger", "id-of-the-topic", 4, as_of=9, through=6, increment=7, rows=3,
    corrections=Corrections(to=12, sent=5, tombstones=True),
)  # fmt: skip


def test_a_position_is_json_that_gives_it_back():
    assert json.loads(POSITION.to_bytes()) == WRITTEN
    assert Position.from_bytes(json.dumps(WRITTEN).encode(), "a topic") == POSITION


@pytest.mark.parametrize(
    "text",
    [
        b"no JSON",
        b"[]",
        json.dumps(WRITTEN | {"format": 2}).encode(),
        json.dumps(WRITTEN | {"more": 1}).encode(),
        json.dumps({name: value for name, value in WRITTEN.items() if name != "rows"}).encode(),
        json.dumps(WRITTEN | {"as_of": "9"}).encode(),
        json.dumps(WRITTEN | {"rows": -1}).encode(),
        json.dumps(WRITTEN | {"corrections": {"to": 12, "sent": None, "tombstones": True}}).encode(),
    ],
)
def test_what_another_has_written_is_refused_with_its_place(text):
    with pytest.raises(PublishError, match=r"^Kafka topic t: expected a position that `replay publish` wrote"):
        Position.from_bytes(text, "Kafka topic t")


def test_a_position_ends_with_the_last_increment_of_which_readers_have_rows():
    assert (POSITION.newest, POSITION.finished(12, 12).newest) == (7, 12)
    assert POSITION.finished(12, 12).corrections is None
