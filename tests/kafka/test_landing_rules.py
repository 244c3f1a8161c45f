"""What a landing from Kafka does with times that can hardly be meant, and with a plan that cannot be finished."""

from typing import Any

import pytest

from kstreams_replay.jobs.landing import from_kafka
from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.landing import LandingRules, land_kafka
from kstreams_replay.state.errors import RetentionGap
from tests.kafka.producing import Producing, numbered
from tests.kafka.test_retention_gap import delete_below
from tests.landing.landed_rows import KilledError, landed

pytestmark = [pytest.mark.sampled, pytest.mark.jvm]
NOON, DAY = 1_767_268_800_000, 86_400_000


def clock() -> int:
    return NOON


def test_times_beyond_the_clock_are_told_or_become_dead_letters(warehouse, broker, source, topic):
    broker.create_topic(topic)
    producing = Producing(broker, topic)
    producing.send([b"a"], timestamp=NOON)
    producing.send([b"b"], timestamp=NOON + 2 * DAY, key=b"k", headers=[("h", b"1")])
    producing.send([b"c"], timestamp=NOON + DAY)

    told = land_kafka(None, warehouse, topic, source, clock_ms=clock)
    producing.send([b"d"], timestamp=NOON + 2 * DAY, key=b"k", headers=[("h", b"1")])
    producing.send([b"e"], timestamp=NOON)
    kept = land_kafka(None, warehouse, topic, source, rules=LandingRules(max_future="1d"), clock_ms=clock)

    first = "the first at offset 1 of partition 0: 2026-01-03T12:00:00.000Z"
    assert f"1 of 3 records (33.3%) have times that can hardly be meant, {first}" in told.warnings[0]
    assert landed(warehouse, topic, "offset", "value", "increment") == [
        (0, b"a", 1),
        (1, b"b", 1),
        (2, b"c", 1),
        (4, b"e", 2),
    ]
    assert (kept.records, kept.dead_letters, kept.cut_to) == (1, 1, {0: 5})
    [letter] = landed_dead_letters(warehouse, topic).to_pylist()
    assert letter == {
        "partition": 0,
        "increment": 2,
        "file": None,
        "line": 3,
        "bytes": b"d",
        "reason": "expected a time up to 2026-01-02T12:00:00.000Z, got 2026-01-03T12:00:00.000Z",
        "timestamp": NOON + 2 * DAY,
        "key": b"k",
        "headers": [{"key": "h", "value": b"1"}],
    }


def test_a_plan_whose_offsets_are_gone_is_abandoned(warehouse, broker, source, topic, monkeypatch):
    broker.create_topic(topic)
    producing = Producing(broker, topic)
    producing.send(numbered("a", 3))

    def die(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(from_kafka, "write_ranges", die)
        with pytest.raises(KilledError):
            land_kafka(None, warehouse, topic, source)
    delete_below(broker, topic, 0, 2)
    with pytest.raises(RetentionGap):
        land_kafka(None, warehouse, topic, source)

    report = land_kafka(None, warehouse, topic, source, rules=LandingRules(abandon=True))

    assert landed(warehouse, topic, "offset", "value", "increment") == [(2, b"a2", 2)]
    assert (report.increments, report.cut_from) == ((2,), {0: 2})
    assert "the plan of increment 1 was given up (as asked)" in report.warnings[0]
