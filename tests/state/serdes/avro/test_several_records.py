"""Records of several types in one topic: by the ids of their schemas, by name, and by the only type that they fit."""

import pyarrow as pa
import pytest

from kstreams_replay import Consumed, Serde, StreamsBuilder, TopologyTestDriver
from kstreams_replay.state.errors import ConfigError, TaskFailed

PAID = {"type": "record", "name": "shop.Paid", "fields": [{"name": "amount", "type": "long"}]}
REFUNDED = {"type": "record", "name": "shop.Refunded", "fields": [{"name": "reason", "type": "string"}]}
OLD_PAID = {"type": "record", "name": "shop.Paid", "fields": [{"name": "amount", "type": "int"}]}
EITHER = Serde.confluent_avro([PAID, REFUNDED], ids={7: PAID, 12: REFUNDED, 3: OLD_PAID})

PAID_5 = b"\x00\x00\x00\x00\x07" + b"\x0a"
REFUNDED_NO = b"\x00\x00\x00\x00\x0c" + b"\x04no"


def encoded(serde, values):
    return serde.encode(serde.from_python(values)).to_pylist()


def decoded(serde, data):
    found = serde.decode(pa.array(data, pa.binary()))
    return serde.to_python(found.values), found.reasons


def test_each_record_is_written_with_the_id_of_its_own_schema_and_no_number_of_a_branch():
    values = [{"Paid": {"amount": 5}}, {"reason": "no"}, None, {"Paid": None, "Refunded": {"reason": "no"}}]

    assert encoded(EITHER, values) == [PAID_5, REFUNDED_NO, None, REFUNDED_NO]
    assert EITHER.sizes(EITHER.from_python(values)).tolist() == [6, 8, 0, 8]


def test_records_of_every_id_are_read_and_others_are_bad():
    data = [PAID_5, REFUNDED_NO, b"\x00\x00\x00\x00\x03\x0a", None, b"\x00\x00\x00\x00\x08\x0a"]

    assert decoded(EITHER, data) == (
        [
            {"Paid": {"amount": 5}, "Refunded": None},
            {"Paid": None, "Refunded": {"reason": "no"}},
            {"Paid": {"amount": 5}, "Refunded": None},
            None,
            None,
        ],
        {4: "expected an id of 3, 7, 12, got 8"},
    )


def test_the_highest_id_of_a_schema_is_written():
    serde = Serde.confluent_avro([PAID, REFUNDED], ids={7: PAID, 9: PAID, 12: REFUNDED})
    assert encoded(serde, [{"amount": 5}]) == [b"\x00\x00\x00\x00\x09\x0a"]
    assert serde != Serde.confluent_avro([PAID, REFUNDED], ids={7: PAID, 12: REFUNDED})


def test_a_union_that_has_an_id_itself_is_written_as_a_union():
    union = [PAID, REFUNDED]
    assert encoded(Serde.confluent_avro(union, ids={4: union, 7: PAID}), [{"amount": 5}]) == [
        b"\x00\x00\x00\x00\x04\x00\x0a"
    ]
    assert encoded(Serde.confluent_avro(union, write_id=4), [{"reason": "no"}]) == [b"\x00\x00\x00\x00\x04\x02\x04no"]
    assert encoded(Serde.avro(union), [{"reason": "no"}]) == [b"\x02\x04no"]


def test_schemas_may_be_files_and_null_may_be_among_them(tmp_path):
    (tmp_path / "paid.avsc").write_text(str(PAID).replace("'", '"'))
    serde = Serde.confluent_avro(["null", tmp_path / "paid.avsc", REFUNDED], ids={7: PAID, 12: REFUNDED})

    assert encoded(serde, [{"amount": 5}, {"Refunded": {"reason": "no"}}, None]) == [PAID_5, REFUNDED_NO, None]


def test_a_record_without_an_id_is_refused():
    with pytest.raises(
        ConfigError,
        match=r"an id of each record of the union, got ids of other schemas than that of shop.Refun",
    ):
        Serde.confluent_avro([PAID, REFUNDED], ids={7: PAID})


@pytest.mark.parametrize("serde", [Serde.avro, lambda union: Serde.confluent_avro(union, write_id=1)])
def test_a_value_that_fits_several_records_is_refused_unless_it_says_which(serde):
    one = {"type": "record", "name": "One", "fields": [{"name": "id", "type": "string"}]}
    other = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": "string"}]}
    either = serde([one, other])

    with pytest.raises(ConfigError, match=r"expected One or Other by its name, as \{'One': …\}, since it may be"):
        either.from_python([{"id": "a"}])
    assert either.to_python(either.from_python([{"Other": {"id": "a"}}])) == [{"One": None, "Other": {"id": "a"}}]


@pytest.mark.parametrize("serde", [Serde.avro, lambda union: Serde.confluent_avro(union, write_id=1)])
def test_records_of_one_short_name_are_named_in_full_in_values_as_in_columns(serde):
    two = {"a": ["x"], "b": ["x", "y"]}
    either = serde(
        [
            {"type": "record", "name": f"{space}.Order", "fields": [{"name": name, "type": "int"} for name in names]}
            for space, names in two.items()
        ]
    )
    read = [{"a.Order": {"x": 1}, "b.Order": None}, {"a.Order": None, "b.Order": {"x": 1, "y": 2}}]
    data = encoded(either, read)

    assert decoded(either, data) == (read, {})
    assert encoded(either, [{"x": 1}, {"b.Order": {"x": 1, "y": 2}}]) == data
    assert [either.codec.value_writer()(value) for value in read] == data
    assert [either.codec.value_reader()(one) for one in data] == read
    with pytest.raises(ConfigError, match=r"expected one of a\.Order, b\.Order, got \{'Order': "):
        either.from_python([{"Order": {"x": 1}}])


def topology(returns=EITHER):
    """A record becomes records of two classes, each of which goes to its topic (navikt hendelseprosessor)."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    records = stream.flat_map_values(lambda value: [{"amount": len(value)}, {"reason": value}], returns=returns)
    records.to(lambda key, value: "paid" if value["Paid"] else "refunded", name="by-class")
    builder.stream("both", Consumed(Serde.string(), EITHER)).filter("Paid IS NOT NULL").map_values("Paid.amount").to(
        "amounts"
    )
    return builder.build()


def test_a_stream_of_two_classes_is_sent_to_a_topic_of_each():
    driver = TopologyTestDriver(topology())
    driver.pipe_input("in", "k", "no")
    paid = driver.create_output_topic("paid", value_serde=Serde.confluent_avro(PAID, ids={7: PAID}))
    refunded = driver.create_output_topic("refunded", value_serde=Serde.bytes())

    assert paid.read_value() == {"amount": 2}
    assert refunded.read_value() == REFUNDED_NO


def test_a_topic_of_two_classes_is_read_by_the_ids_of_its_records():
    driver = TopologyTestDriver(topology())
    for value in (PAID_5, REFUNDED_NO, b"\x00\x00\x00\x00\x03\x0c"):
        driver.pipe_bytes("both", b"k", value)

    assert [record.value for record in driver.read_outputs("amounts")] == [5, 6]


def test_a_record_of_another_class_than_returns_says_is_refused():
    driver = TopologyTestDriver(topology(Serde.confluent_avro(PAID, ids={7: PAID})))
    driver.pipe_input("in", "k", "no")

    said = r"got the field 'reason'.*; records of several types are those of Serde.avro\("
    with pytest.raises(TaskFailed, match=said):
        driver.run()
