"""Offsets of a group, as librdkafka has them: their texts end where they end, and the clients are confluent-kafka's."""

import ctypes

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from kstreams_replay.state.kafka import group_offsets
from kstreams_replay.state.kafka.c_interface import librdkafka
from kstreams_replay.state.kafka.group_offsets import GroupOffset, committed, send_to_transaction

NOBODY = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
"""Where no broker is."""


@pytest.mark.parametrize("text", ["", "AgAAAAAAAAAR", "AgAAAAAAEfoSAAAAAQAAAAZjbG9zZWQAAAAAABHNCA==", "größe"])
def test_a_text_is_as_long_as_it_says(text):
    offsets = [GroupOffset("clicks", 1, 5, text), GroupOffset("orders", 0, -1001)]

    with group_offsets._listed(offsets) as address:
        of_c = group_offsets._Partitions.from_address(address)
        assert [of_c.partitions[n].metadata_size for n in range(of_c.count)] == [len(text.encode()), 0]
        assert group_offsets._offsets(address) == offsets


def test_an_offset_with_an_error_is_not_taken():
    with group_offsets._listed([GroupOffset("clicks", 1, 5)]) as address:
        group_offsets._Partitions.from_address(address).partitions[0].error = KafkaError.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            group_offsets._offsets(address)


@pytest.mark.parametrize("kind", [Consumer, Producer])
def test_confluents_clients_begin_with_that_of_librdkafka(kind):
    """A process that is wrong here reads memory at random."""
    name_of = librdkafka().rd_kafka_name
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.c_void_p]

    client = kind(NOBODY)

    assert name_of(group_offsets._client(client)).decode().startswith(f"rdkafka#{kind.__name__.lower()}-")


def test_errors_of_librdkafka_are_those_of_the_client():
    with pytest.raises(KafkaException) as timed_out:
        committed(Consumer(NOBODY), [("clicks", 0)], 0.1)
    with pytest.raises(KafkaException, match="transactional") as refused:
        send_to_transaction(Producer(NOBODY), "g", [GroupOffset("clicks", 0, 5)], 0.1)

    assert timed_out.value.args[0].code() == KafkaError._TIMED_OUT
    assert refused.value.args[0].code() in (KafkaError._STATE, KafkaError._NOT_CONFIGURED)
