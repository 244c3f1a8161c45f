"""Offsets that the broker deleted before they were landed: refused by name, or skipped and written down."""

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from examples.broker import Broker
from kstreams_replay.jobs.landing import from_kafka
from kstreams_replay.jobs.landing.landing import KafkaSource, land_kafka
from kstreams_replay.state.errors import RetentionGap
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.kafka.producing import Producing, numbered
from tests.landing.landed_rows import landed

pytestmark = [pytest.mark.sampled, pytest.mark.jvm]


def delete_below(broker: Broker, topic: str, partition: int, offset: int) -> None:
    """What retention does, at once."""
    admin = broker.admin()
    for deleted in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        assert deleted.result(30).low_watermark == offset


def test_a_retention_gap_names_the_offsets_that_are_gone(warehouse, broker, source, topic):
    broker.create_topic(topic, partitions=2)
    producing = Producing(broker, topic)
    producing.send(numbered("a", 2), partition=1)
    land_kafka(None, warehouse, topic, source)
    producing.send(numbered("b", 5), partition=1)
    delete_below(broker, topic, 1, 6)

    with pytest.raises(RetentionGap) as raised:
        land_kafka(None, warehouse, topic, source)

    assert str(raised.value) == (
        f"topic {topic}: expected next offset 2 in partition 1, "
        "got deleted by the broker's retention before they were landed: [2, 6) of partition 1; "
        'to continue without them land with on_gap="skip", which records the gap in the ledger'
    )
    assert landed(warehouse, topic, "offset") == [(0,), (1,)]


def test_a_gap_that_is_skipped_stands_in_the_ledger(warehouse, broker, topic):
    skipping = KafkaSource(broker.bootstrap_servers, on_gap="skip")
    broker.create_topic(topic)
    producing = Producing(broker, topic)
    producing.send(numbered("a", 2))
    land_kafka(None, warehouse, topic, skipping)
    producing.send(numbered("b", 5))
    delete_below(broker, topic, 0, 6)

    report = land_kafka(None, warehouse, topic, skipping)

    assert landed(warehouse, topic, "offset", "value") == [(0, b"a0"), (1, b"a1"), (6, b"b4")]
    assert (report.gaps, report.cut_from, report.cut_to) == ({0: (2, 6)}, {0: 2}, {0: 7})
    last = LandingLedger(warehouse.landing_ledger(topic)).last_done()
    assert last is not None
    assert last.content.gaps == {"0": [2, 6]}
    assert land_kafka(None, warehouse, topic, skipping).increments == ()


def test_offsets_deleted_after_they_were_planned_are_a_retention_gap_too(warehouse, broker, source, topic, monkeypatch):
    broker.create_topic(topic)
    Producing(broker, topic).send(numbered("a", 6))
    write = from_kafka.write_ranges

    def after_the_retention_ran(*arguments: Any) -> Any:
        delete_below(broker, topic, 0, 4)
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(from_kafka, "write_ranges", after_the_retention_ran)
        with pytest.raises(RetentionGap, match=r"landed: \[0, 4\) of partition 0"):
            land_kafka(None, warehouse, topic, source)
    with pytest.raises(RetentionGap, match=r"landed: \[0, 4\) of partition 0"):
        land_kafka(None, warehouse, topic, source)
    report = land_kafka(None, warehouse, topic, KafkaSource(broker.bootstrap_servers, on_gap="skip"))

    assert landed(warehouse, topic, "offset", "value", "increment") == [(4, b"a4", 1), (5, b"a5", 1)]
    assert (report.increments, report.gaps) == ((1,), {0: (0, 4)})


def test_a_first_landing_begins_where_the_broker_begins(warehouse, broker, source, topic):
    broker.create_topic(topic)
    Producing(broker, topic).send(numbered("a", 5))
    delete_below(broker, topic, 0, 3)

    report = land_kafka(None, warehouse, topic, source)

    assert (report.cut_from, report.cut_to, report.gaps) == ({0: 3}, {0: 5}, {})
    assert landed(warehouse, topic, "offset") == [(3,), (4,)]
