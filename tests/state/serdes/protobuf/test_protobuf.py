"""Messages of Protocol Buffers as columns: types, presence, what is bad, and a pipeline."""

import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessages

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, fold
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes.single_values import SingleValues

ONE, MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
INT32, INT64, UINT64, STRING, BYTES, FLOAT, DOUBLE, BOOL, ENUM, MESSAGE = (
    getattr(FieldDescriptorProto, f"TYPE_{name}")
    for name in ("INT32", "INT64", "UINT64", "STRING", "BYTES", "FLOAT", "DOUBLE", "BOOL", "ENUM", "MESSAGE")
)


def file() -> FileDescriptorProto:
    """As protoc would make it of a proto3 file with the messages Order, Place, Measure and Chain."""
    found = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    state = found.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    place = found.message_type.add(name="Place")
    place.field.add(name="city", number=1, type=STRING, label=ONE)
    order = found.message_type.add(name="Order")
    order.field.add(name="item", number=1, type=STRING, label=ONE)
    order.field.add(name="amount", number=2, type=INT32, label=ONE)
    order.field.add(name="state", number=3, type=ENUM, label=ONE, type_name=".shop.State")
    order.field.add(name="tags", number=4, type=STRING, label=MANY)
    order.field.add(name="place", number=5, type=MESSAGE, label=ONE, type_name=".shop.Place")
    order.oneof_decl.add(name="_note")
    order.field.add(name="note", number=6, type=STRING, label=ONE, proto3_optional=True, oneof_index=0)
    order.field.add(name="serial", number=7, type=UINT64, label=ONE)
    entry = DescriptorProto(name="SizesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=STRING, label=ONE)
    entry.field.add(name="value", number=2, type=INT64, label=ONE)
    order.nested_type.append(entry)
    order.field.add(name="sizes", number=8, type=MESSAGE, label=MANY, type_name=".shop.Order.SizesEntry")
    measure = found.message_type.add(name="Measure")
    measure.field.add(name="weight", number=1, type=FLOAT, label=ONE)
    measure.field.add(name="all", number=2, type=FLOAT, label=MANY)
    chain = found.message_type.add(name="Chain")
    chain.field.add(name="next", number=1, type=MESSAGE, label=ONE, type_name=".shop.Chain")
    return found


FILES = FileDescriptorSet(file=[file()]).SerializeToString()
ORDERS = Serde.protobuf(FILES, "shop.Order")
EMPTY: dict[str, Any] = {
    "item": "", "amount": 0, "state": "NEW", "tags": [], "place": None, "note": None, "serial": Decimal(0), "sizes": {},
}  # fmt: skip


def test_types_are_columns():
    assert ORDERS.arrow_type == pa.struct(
        {
            "item": pa.string(),
            "amount": pa.int32(),
            "state": pa.string(),
            "tags": pa.list_(pa.string()),
            "place": pa.struct({"city": pa.string()}),
            "note": pa.string(),
            "serial": pa.decimal128(20, 0),
            "sizes": pa.map_(pa.string(), pa.int64()),
        }
    )


@pytest.mark.parametrize("value", [{"weight": 1e300}, {"all": [1.0, -(2.0**128 - 2.0**103)]}])
def test_a_number_that_no_float_has_is_refused(value):
    measures = Serde.protobuf(FILES, "shop.Measure")

    for write in (lambda: measures.from_python([None, value]), lambda: SingleValues(measures).encode(value)):
        with pytest.raises(ConfigError, match=r"row \d: .*got .* in the float (weight|all)"):
            write()
    largest = {"weight": 2.0**128 - 2.0**104, "all": [math.inf, 5]}
    assert measures.to_python(measures.from_python([largest])) == [largest]


ROWS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "nothing": (b"", {}),
    "a string": (b"\x0a\x03tea", {"item": "tea"}),
    "a number below zero": (b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", {"amount": -1}),
    "an enum": (b"\x18\x01", {"state": "PAID"}),
    "a number that the enum has not": (b"\x18\x07", {"state": "7"}),
    "a list": (b"\x22\x01a\x22\x01b", {"tags": ["a", "b"]}),
    "an empty message": (b"\x2a\x00", {"place": {"city": ""}}),
    "a message": (b"\x2a\x06\x0a\x04Rome", {"place": {"city": "Rome"}}),
    "an optional that is empty": (b"\x32\x00", {"note": ""}),
    "the largest unsigned number": (b"\x38" + b"\xff" * 9 + b"\x01", {"serial": Decimal(2**64 - 1)}),
    "a map": (b"\x42\x05\x0a\x01s\x10\x01", {"sizes": {"s": 1}}),
}


@pytest.mark.parametrize("case", ROWS)
def test_bytes_are_values_and_values_these_bytes(case):
    written, fields = ROWS[case]

    decoded = ORDERS.decode(pa.array([written, None], pa.binary()))

    assert ORDERS.to_python(decoded.values) == [EMPTY | fields, None]
    assert ORDERS.encode(decoded.values).to_pylist() == [written, None]
    assert ORDERS.encode(ORDERS.from_python([fields])).to_pylist() == [written]


def test_bytes_that_are_no_message_are_bad_and_unknown_fields_are_passed_over():
    decoded = ORDERS.decode(pa.array([b"\x0a\x05tea", b"\x0a\x02\xff\xfe", b"\xfa\x07\x01x\x10\x05"], pa.binary()))

    assert decoded.bad.tolist() == [True, True, False]
    assert decoded.reasons[0] == "expected a message shop.Order, got bytes that are none"
    assert decoded.values[2].as_py()["amount"] == 5


def test_a_generated_class_and_a_file_give_the_same_serde(tmp_path):
    (tmp_path / "orders.desc").write_bytes(FILES)

    assert Serde.protobuf(tmp_path / "orders.desc", "shop.Order") == ORDERS
    assert Serde.protobuf(GetMessages([file()])["shop.Order"], "shop.Order") == ORDERS
    assert pickle.loads(pickle.dumps(ORDERS)) == ORDERS


REFUSED: dict[str, tuple[Any, str, str]] = {
    "no such message": (
        FILES,
        "shop.Cart",
        "expected one of the messages shop.Place, shop.Order, shop.Measure, shop.Chain",
    ),
    "a message inside itself": (FILES, "shop.Chain", "got shop.Chain inside itself"),
    "other bytes": (b"\xff", "shop.Order", "expected a FileDescriptorSet, got other bytes"),
    "text": ("orders.desc", "shop.Order", "expected a Path of a descriptor set, its bytes, or a message class"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_descriptor_of_columns_is_refused(case):
    descriptor, message, said = REFUSED[case]

    with pytest.raises(ConfigError) as refused:
        Serde.protobuf(descriptor, message)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        {"amount": "5"}, {"state": "GONE"}, {"other": 1}, 5, {"amount": 2**31}, {"amount": True}, {"serial": 0.5},
        {"amount": Decimal("1e99999999")}, {"serial": Decimal("1e-99999999")}, {"serial": Decimal("Infinity")},
    ],
)  # fmt: skip
def test_a_python_value_of_another_type_is_refused_by_its_row(value):
    with pytest.raises(ConfigError, match="row 1"):
        ORDERS.from_python([{}, value])


def test_messages_go_through_steps_and_folds():
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(Serde.string(), ORDERS)).filter("amount > 0")
    orders.select_key("item").group_by_key().aggregate(total=fold.sum("amount")).to_stream().to("totals")
    driver = TopologyTestDriver(builder.build())
    for at, amount in enumerate((2, 0, 3)):
        driver.pipe_input("orders", "o", {"item": "tea", "amount": amount}, at)
    driver.pipe_bytes("orders", b"o", b"\x0a\x05tea", 3)

    assert [(one.key, one.value) for one in driver.read_outputs("totals")] == [
        ("tea", {"total": 2}), ("tea", {"total": 5}),
    ]  # fmt: skip
    assert [one.reason for one in driver.dead_letters] == [
        "value: expected a message shop.Order, got bytes that are none"
    ]
