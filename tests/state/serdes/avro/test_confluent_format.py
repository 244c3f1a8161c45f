"""Avro records that name their schema by an id: Confluent's wire format, in values and in keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext

from kstreams_replay.jobs.code_changes.code_snapshot import code_snapshot
from kstreams_replay.jobs.execution.store_files import global_contents
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.graph.nodes import GlobalTableNode
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology, fold
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, Rows, plant, tables_of


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


OLD = record({"name": "item", "type": "string"})
NEW = record({"name": "item", "type": "string"}, {"name": "amount", "type": "int", "default": 1})
OTHER = record({"name": "price", "type": "double"})
ORDERS = Serde.confluent_avro(NEW, ids={7: OLD, 300: NEW, 9: OTHER})

TEA_OF_7 = b"\0\0\0\0\x07" + b"\x06tea"
TEA_OF_300 = b"\0\0\0\x01\x2c" + b"\x06tea" + b"\x0a"


def test_records_of_every_id_are_read_to_one_schema_and_written_under_its_own_id():
    decoded = ORDERS.decode(pa.array([TEA_OF_300, None, TEA_OF_7, TEA_OF_300], pa.binary()))

    five = {"item": "tea", "amount": 5}
    assert decoded.values.to_pylist() == [five, None, {"item": "tea", "amount": 1}, five]
    assert not decoded.bad.any()
    assert ORDERS.encode(decoded.values).to_pylist() == [TEA_OF_300, None, TEA_OF_300[:-1] + b"\x02", TEA_OF_300]


def test_an_unknown_id_and_bytes_without_a_head_are_bad_and_harm_no_other():
    rows = [b"\0\0\0\0\x08\x06tea", b"\x06tea and more", b"\0\0\0", b"\0\0\0\0\x07\x06te", b"\0\0\0\0\x09" + b"\0" * 8]

    decoded = ORDERS.decode(pa.array([*rows, TEA_OF_7], pa.binary()))

    assert decoded.values.to_pylist() == [None] * 5 + [{"item": "tea", "amount": 1}]
    assert decoded.reasons == {
        0: "expected an id of 7, 9, 300, got 8",
        1: "expected the byte 0 and an id of 4 bytes, got 6",
        2: "expected the byte 0 and an id of 4 bytes, got 3 bytes",
        3: "schema 7: expected more bytes, got the end",
        4: "schema 9: expected the field item of Order, which has no default, got none",
    }


NOT_TAKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no id to write with": ({"ids": {7: OLD}}, "expected the id that the schema itself is written with, got 7"),
    "an id of another schema": ({"ids": {7: OLD}, "write_id": 7}, "got write_id=7, which is another schema"),
    "an id below zero": (
        {"ids": {-1: NEW}},
        "expected ids that a registry gives, from 0 to 2147483647, or GUIDs, got -1",
    ),
    "text": ({"ids": {"7": NEW}}, "got '7'"),
}


@pytest.mark.parametrize("case", NOT_TAKEN)
def test_ids_that_cannot_be_are_refused_when_the_serde_is_made(case):
    options, said = NOT_TAKEN[case]

    with pytest.raises(ConfigError) as refused:
        Serde.confluent_avro(NEW, **options)

    assert said in str(refused.value)


KEYS = Serde.confluent_avro("string", ids={1: "string", 2: ["null", "string"], 3: "bytes"}, write_id=1)


def counted() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(KEYS, ORDERS))
    orders.group_by_key().aggregate(n=fold.count(), amount=fold.sum("amount")).to_stream().to("counted")
    return builder.build()


TAPE = [
    (b"\0\0\0\0\x01\x06ann", TEA_OF_7),
    (b"\0\0\0\0\x02\x02\x06ann", TEA_OF_300),
    (b"\0\0\0\0\x01\x06bob", b"\0\0\0\0\x08"),
    (b"\0\0\0\0\x04\x06bob", TEA_OF_300),
    (b"\0\0\0\0\x03\x06ann", TEA_OF_300),
]


def test_a_key_is_one_key_whichever_id_wrote_it():
    driver = TopologyTestDriver(counted())
    for time_ms, (key, value) in enumerate(TAPE):
        driver.pipe_bytes("orders", key, value, time_ms)

    assert [(one.key, one.value) for one in driver.read_outputs("counted")] == [
        ("ann", {"n": 1, "amount": 1}), ("ann", {"n": 2, "amount": 6}), ("ann", {"n": 3, "amount": 11}),
    ]  # fmt: skip
    assert [one.reason for one in driver.dead_letters] == [
        "value: expected an id of 7, 9, 300, got 8",
        "key: expected an id of 1, 2, 3, got 4",
    ]


def test_an_id_more_is_other_code_over_the_same_state():
    """A plan that was begun without it is not ended with it, since a dead letter would become a record."""

    def read(ids: dict[int, Any]) -> Topology:
        builder = StreamsBuilder()
        orders = builder.stream("orders", Consumed(KEYS, Serde.confluent_avro(NEW, ids=ids)))
        orders.group_by_key().reduce(lambda one, other: other).to_stream().to("latest")
        return builder.build()

    before, now = read({7: OLD, 300: NEW}), read({7: OLD, 300: NEW, 9: OTHER})

    assert read({7: OLD, 300: NEW}).fingerprint == before.fingerprint
    assert now.fingerprint != before.fingerprint
    assert code_snapshot(now) == code_snapshot(before)


class Records(NamedTuple):
    """A slice of a landed topic in memory."""

    rows: pa.Table

    def chunks(self, _: int) -> Iterator[pa.Table]:
        yield self.rows


def test_a_global_tables_key_is_deleted_by_whichever_id_wrote_it():
    keys = pa.array([b"\0\0\0\0\x01\x06ann", b"\0\0\0\0\x01\x06bob", b"\0\0\0\0\x02\x02\x06ann"], pa.binary())
    values = pa.array([TEA_OF_7, TEA_OF_7, None], pa.binary())
    rows = pa.table({"key": keys, "value": values, "timestamp": [1, 2, 3]})

    table = GlobalTableNode(name="g", inputs=(), shape=Shape(KEYS, ORDERS), is_table=True, topic="t", store="s")
    found = global_contents(table, [Records(rows)], "time")  # type: ignore[list-item]

    assert found["key"].to_pylist() == ["bob"]


def replayed(folder: Path, topology: Topology, **options: Any) -> dict[str, Rows]:
    warehouse = Warehouse(folder)
    records = [LandedRecord(0, key, value, at) for at, (key, value) in enumerate(TAPE)]
    plant(warehouse, "orders", records, partitions=1)
    assert list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed", **options))
    return tables_of(warehouse, "p", topology)


@pytest.mark.slow
def test_a_key_is_found_in_the_store_of_an_increment_before_whichever_id_wrote_it(tmp_path, monkeypatch):
    monkeypatch.setattr("kstreams_replay.jobs.execution.task_stores.ALL_BELOW_ROWS", 0)
    monkeypatch.setattr("kstreams_replay.jobs.execution.task_stores.ALL_BELOW_SHARE", 0)

    whole, cut = replayed(tmp_path / "whole", counted()), replayed(tmp_path / "cut", counted(), max_records=1)

    assert cut == whole
    assert [row["value"]["n"] for row in cut["outputs/counted"]] == [1, 2, 3]


# --- the id in a header


GUID = "89791762-2336-4186-9674-299b90a802e2"
OF_GUID = b"\1" + bytes.fromhex(GUID.replace("-", ""))
ID_HEADER = "__value_schema_id"


def read_by_headers() -> Topology:
    builder = StreamsBuilder()
    serde = Serde.confluent_avro(NEW, ids={GUID: OLD, 300: NEW})
    orders = builder.stream("orders", Consumed(Serde.string(), serde))
    orders.to("read")
    orders.select_key("item").group_by_key().aggregate(n=fold.sum("amount")).to_stream().to("counted")
    return builder.build()


IN_HEADERS = [
    (b"\x06tea", ((ID_HEADER, OF_GUID),)),
    (TEA_OF_300, ()),
    (b"\x06tea\x06", ((ID_HEADER, OF_GUID), ("other", b"x"), (ID_HEADER, b"\0\0\0\x01\x2c"))),  # the last one holds
    (None, ((ID_HEADER, OF_GUID),)),
    (OF_GUID + b"\x06tea", ()),
    (b"\x06tea", ()),
    (b"\x06tea", ((ID_HEADER, b"\1" + bytes(16)),)),
    (b"\x06tea", ((ID_HEADER, b"\1\2"),)),
    (b"\x06tea", (("__key_schema_id", OF_GUID),)),
]


@pytest.mark.parametrize("max_records", [None, 1])
def test_the_id_of_a_value_may_be_in_a_header(tmp_path, max_records):
    warehouse, topology = Warehouse(tmp_path), read_by_headers()
    records = [LandedRecord(0, b"k", value, at, headers) for at, (value, headers) in enumerate(IN_HEADERS)]
    plant(warehouse, "orders", records, partitions=1)

    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed", max_records=max_records))

    found = tables_of(warehouse, "p", topology)
    one, five, three = ({"item": "tea", "amount": amount} for amount in (1, 5, 3))
    assert [row["value"] for row in found["outputs/read"]] == [one, five, three, None, one]
    assert [row["value"]["n"] for row in found["outputs/counted"]] == [1, 6, 9, 10]
    assert [row["reason"] for row in found["dead_letter"]] == [
        "value: expected the byte 0 and an id of 4 bytes, got 4 bytes",
        "value: expected an id of 300, 89791762-2336-4186-9674-299b90a802e2, got 00000000-0000-0000-0000-000000000000",
        "value: expected the byte 0 and an id of 4 bytes, got 2 bytes",
        "value: expected the byte 0 and an id of 4 bytes, got 4 bytes",
    ]


def test_confluents_own_serializer_puts_what_is_read_here_into_the_header():
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext("orders", MessageField.VALUE, headers)
    value = header_schema_id_serializer(b"\x06tea", context, SchemaId("AVRO", guid=GUID))
    [(name, content)] = headers
    builder = StreamsBuilder()
    serde = Serde.confluent_avro(OLD, ids={GUID: OLD})
    builder.stream("orders", Consumed(Serde.string(), serde)).to("read")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_bytes("orders", b"k", value, 0, headers=[(name, content)])

    assert [one.value for one in driver.read_outputs("read")] == [{"item": "tea"}]
    assert serde.encode(serde.from_python([{"item": "tea"}])).to_pylist() == [content + value]
