"""Offsets that a consumer group has committed, each with its text, by librdkafka's C interface.

Owns the lists of them. Rule: a text is as long as its length says. confluent-kafka sends one with a byte of zero behind
it, and Kafka Streams then takes nothing of the text (TopicPartitionMetadata.decode). It reads one without its length.
"""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .c_interface import librdkafka


class GroupOffset(NamedTuple):
    """``offset``: the next one to read, negative where none is committed. ``metadata``: the text beside it."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""


class _TopicPartition(ctypes.Structure):
    """rd_kafka_topic_partition_t"""

    _fields_ = (
        ("topic", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", ctypes.c_void_p),
        ("metadata_size", ctypes.c_size_t),
        ("opaque", ctypes.c_void_p),
        ("error", ctypes.c_int),
        ("private", ctypes.c_void_p),
    )


class _Partitions(ctypes.Structure):
    """rd_kafka_topic_partition_list_t"""

    _fields_ = (("count", ctypes.c_int), ("size", ctypes.c_int), ("partitions", ctypes.POINTER(_TopicPartition)))


def committed(consumer: Any, asked: Iterable[tuple[str, int]], patience_s: float) -> list[GroupOffset]:
    """Of the group of confluent-kafka's ``consumer``, by topic and partition. Raises the client's KafkaException."""
    with _listed([GroupOffset(*each, offset=-1) for each in asked]) as partitions:
        error = librdkafka().rd_kafka_committed(_client(consumer), partitions, int(patience_s * 1000))
        if error:
            raise _exception(error)
        return _offsets(partitions)


def send_to_transaction(producer: Any, group: str, offsets: Sequence[GroupOffset], patience_s: float) -> None:
    """Commit ``offsets`` of ``group`` with the transaction of confluent-kafka's ``producer``. Raises the client's
    KafkaException.
    """
    library = librdkafka()
    metadata = library.rd_kafka_consumer_group_metadata_new(group.encode())
    try:
        with _listed(offsets) as partitions:
            error = library.rd_kafka_send_offsets_to_transaction(
                _client(producer), partitions, metadata, int(patience_s * 1000)
            )
    finally:
        library.rd_kafka_consumer_group_metadata_destroy(metadata)
    if error is not None:
        code, said = library.rd_kafka_error_code(error), library.rd_kafka_error_string(error).decode()
        library.rd_kafka_error_destroy(error)
        raise _exception(code, said)


@contextmanager
def _listed(offsets: Sequence[GroupOffset]) -> Iterator[int]:
    """The address of librdkafka's list of them."""
    library = librdkafka()
    address = library.rd_kafka_topic_partition_list_new(len(offsets))
    try:
        for each in offsets:
            added = library.rd_kafka_topic_partition_list_add(address, each.topic.encode(), each.partition)
            partition, text = _TopicPartition.from_address(added), each.metadata.encode()
            partition.offset = each.offset
            if text:
                # librdkafka frees it with the list, so it has to be of its memory.
                partition.metadata, partition.metadata_size = library.rd_kafka_mem_malloc(None, len(text)), len(text)
                ctypes.memmove(partition.metadata, text, len(text))
        yield address
    finally:
        library.rd_kafka_topic_partition_list_destroy(address)


def _offsets(address: int) -> list[GroupOffset]:
    """Of librdkafka's list. Raises the client's KafkaException for a partition that has an error."""
    listed, offsets = _Partitions.from_address(address), list[GroupOffset]()
    for number in range(listed.count):
        each = listed.partitions[number]
        if each.error:
            raise _exception(each.error)
        text = ctypes.string_at(each.metadata, each.metadata_size) if each.metadata else b""
        offsets.append(GroupOffset(each.topic.decode(), each.partition, each.offset, text.decode(errors="replace")))
    return offsets


def _client(client: Any) -> int:
    """librdkafka's client, which confluent-kafka's objects begin with (``Handle`` in its confluent_kafka.h)."""
    return ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value or 0


def _exception(code: int, said: str | None = None) -> Exception:
    from confluent_kafka import KafkaError, KafkaException

    return KafkaException(KafkaError(code) if said is None else KafkaError(code, said))
