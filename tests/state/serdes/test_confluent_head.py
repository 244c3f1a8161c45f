"""JSON Schema and Protocol Buffers in Confluent's wire format: the head of the bytes, ids that are read, messages."""

import json

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from kstreams_replay.jobs.topology import Serde
from kstreams_replay.state.errors import ConfigError

DOCUMENT = {"type": "object", "properties": {"item": {"type": "string"}}}
ORDERS = Serde.confluent_json_schema(DOCUMENT, write_id=300)
TEA = {"item": "tea"}
TEA_TEXT = b'{"item":"tea"}'


def binary(*rows):
    return pa.array(rows, pa.binary())


def file_of_messages() -> bytes:
    """First, Second with Inside and Chain, and Mapped whose message Late is behind a map."""
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    first, second, mapped = (file.message_type.add(name=name) for name in ("First", "Second", "Mapped"))
    late = [mapped.nested_type.add(name="SizesEntry"), mapped.nested_type.add(name="Late")][1]
    mapped.nested_type[0].options.map_entry = True
    messages = [first, second, *(second.nested_type.add(name=name) for name in ("Inside", "Chain")), mapped, late]
    for message in messages:
        message.field.add(name="item", number=1, type=FieldDescriptorProto.TYPE_STRING, label=1)
    for name, number in (("key", 1), ("value", 2)):
        mapped.nested_type[0].field.add(name=name, number=number, type=FieldDescriptorProto.TYPE_STRING, label=1)
    return FileDescriptorSet(file=[file]).SerializeToString()


FILES = file_of_messages()
TEA_MESSAGE = b"\x0a\x03tea"


def test_json_is_behind_the_byte_0_and_the_id():
    assert ORDERS.encode(ORDERS.from_python([TEA, None])).to_pylist() == [b"\0\0\0\x01\x2c" + TEA_TEXT, None]

    decoded = ORDERS.decode(binary(b"\0\0\0\x01\x2c" + TEA_TEXT, None, b"\0\0\0\0\x07" + TEA_TEXT))

    assert decoded.values.to_pylist() == [TEA, None, TEA]  # every id is read
    assert not decoded.bad.any()


def test_bytes_without_a_head_another_id_and_no_json_are_bad_and_harm_no_other():
    orders = Serde.confluent_json_schema(DOCUMENT, write_id=300, ids=[7])
    rows = [TEA_TEXT, b"\0\0\0", b"\0\0\0\0\x08" + TEA_TEXT, b"\0\0\0\0\x07{", b"\0\0\0\0\x07" + TEA_TEXT]

    decoded = orders.decode(binary(*rows))

    assert decoded.values.to_pylist() == [None] * 4 + [TEA]
    assert decoded.bad.tolist() == [True] * 4 + [False]
    assert [decoded.reasons[row] for row in range(3)] == [
        "expected the byte 0 and an id of 4 bytes, got 123",
        "expected the byte 0 and an id of 4 bytes, got 3 bytes",
        "expected an id of 7, 300, got 8",
    ]
    assert 3 in decoded.reasons


@pytest.mark.parametrize(
    ("message", "written", "read"),
    [
        ("First", b"\0", [b"\0", b"\x02\0"]),  # the first message of a file has a short form
        ("Second", b"\x02\x02", [b"\x02\x02"]),  # one index, 1, each doubled by zigzag
        ("Second.Chain", b"\x04\x02\x02", [b"\x04\x02\x02"]),
        ("Second.Inside", b"\x04\x02\0", [b"\x04\x02\0"]),
    ],
)
def test_messages_are_behind_their_place_in_the_file(message, written, read):
    serde = Serde.confluent_protobuf(FILES, f"shop.{message}", write_id=7)

    assert serde.encode(serde.from_python([TEA])).to_pylist() == [b"\0\0\0\0\x07" + written + TEA_MESSAGE]
    decoded = serde.decode(binary(*[b"\0\0\0\0\x09" + place + TEA_MESSAGE for place in read]))
    assert decoded.values.to_pylist() == [TEA] * len(read)


def test_another_message_of_the_file_is_bad():
    serde = Serde.confluent_protobuf(FILES, "shop.First", write_id=7)

    decoded = serde.decode(binary(b"\0\0\0\0\x07\x02\x02" + TEA_MESSAGE, b"\0\0\0\0\x07\0" + TEA_MESSAGE))

    assert decoded.values.to_pylist() == [None, TEA]
    reason = "expected the indexes of the message behind the id, got those of another message"
    assert decoded.reasons == {0: reason}


def test_serdes_differ_by_what_they_read_and_write():
    serdes = [
        Serde.json_schema(DOCUMENT),
        ORDERS,
        Serde.confluent_json_schema(DOCUMENT, write_id=301),
        Serde.confluent_json_schema(DOCUMENT, write_id=300, ids=[]),
        Serde.confluent_protobuf(FILES, "shop.First", write_id=7),
    ]

    assert len({str(serde) for serde in serdes}) == len(serdes)
    assert Serde.confluent_json_schema(json.dumps(DOCUMENT), write_id=300) == ORDERS


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ({"write_id": -1}, "confluent_json_schema: expected ids that a registry gives"),
        ({"write_id": "7"}, "confluent_json_schema, write_id: expected int, got '7'"),
        ({"write_id": 7, "ids": [2**31]}, "confluent_json_schema: expected ids that a registry gives"),
    ],
)
def test_what_is_no_id_is_refused(ids, says):
    with pytest.raises(ConfigError, match=says):
        Serde.confluent_json_schema(DOCUMENT, **ids)


def test_a_message_behind_a_map_is_refused():
    with pytest.raises(ConfigError, match=r"got shop\.Mapped\.Late, behind a map"):
        Serde.confluent_protobuf(FILES, "shop.Mapped.Late", write_id=7)


def test_confluents_own_serializer_writes_the_same_json():
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    write = JSONSerializer(json.dumps(DOCUMENT | {"title": "Order"}), registry)

    data = write(TEA, SerializationContext("orders", MessageField.VALUE))

    serde = Serde.confluent_json_schema(DOCUMENT, write_id=int.from_bytes(data[1:5], "big"))
    assert serde.decode(binary(data)).values.to_pylist() == [TEA]
    assert json.loads(data[5:]) == json.loads(serde.encode(serde.from_python([TEA])).to_pylist()[0][5:])
