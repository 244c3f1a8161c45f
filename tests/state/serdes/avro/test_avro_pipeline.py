"""A topic of Avro records through steps, folds, a repartition, outputs, stores, cuts, changed code and explain."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstreams_replay.jobs.code_changes.code_snapshot import code_snapshot
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology, fold
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.explain.explained import explained
from tests.planted import LandedRecord, Rows, plant, tables_of

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
AVRO = Serde.avro(ORDER)
NOON = datetime.datetime(2026, 11, 24, 12, tzinfo=datetime.UTC)


def order(customer: str, cents: int, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "price": Decimal(cents) / 100, "at": NOON, "state": "NEW", "tags": ["a", "b"], "sizes": {"s": 1}, "note": None,
    }  # fmt: skip
    return {"customer": customer, "cents": cents} | plain | more


def topology() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(Serde.string(), AVRO))
    orders.filter("cents > 0 AND state = 'NEW'").to("new-orders")
    by_customer = orders.select_key("customer").group_by_key()
    by_customer.aggregate(n=fold.count(), spent=fold.sum("cents")).to_stream().to("spent")
    by_customer.reduce(lambda one, other: other).to_stream().to("latest-order")
    return builder.build()


TAPE = [
    ("o1", order("ann", 250)),
    ("o2", order("bob", 100, state="PAID", note="gift")),
    ("o3", order("ann", 50, tags=[], sizes={})),
]


def test_records_are_decoded_and_their_fields_are_columns_of_steps_and_folds():
    driver = TopologyTestDriver(topology())
    for time_ms, (key, value) in enumerate(TAPE):
        driver.pipe_input("orders", key, value, time_ms)

    assert [(one.key, one.value) for one in driver.read_outputs("new-orders")] == [TAPE[0], TAPE[2]]
    assert [(one.key, one.value) for one in driver.read_outputs("spent")] == [
        ("ann", {"n": 1, "spent": 250}), ("bob", {"n": 1, "spent": 100}), ("ann", {"n": 2, "spent": 300}),
    ]  # fmt: skip
    assert [one.value for one in driver.read_outputs("latest-order")] == [value for _, value in TAPE]


def test_bytes_that_are_no_record_of_the_schema_are_a_dead_letter():
    driver = TopologyTestDriver(topology())
    driver.pipe_bytes("orders", b"o1", b"\x06ann", 0)
    driver.pipe_bytes("orders", b"o2", None, 1)

    assert driver.read_outputs("new-orders") == []
    assert [one.reason for one in driver.dead_letters] == ["value: expected more bytes, got the end"]


def landed() -> list[LandedRecord]:
    values = AVRO.encode(AVRO.from_python([value for _, value in TAPE])).to_pylist()
    records = [
        LandedRecord(0, key.encode(), value, at) for at, ((key, _), value) in enumerate(zip(TAPE, values, strict=True))
    ]
    return [*records, LandedRecord(0, b"o4", b"\x00", 3), LandedRecord(0, b"o5", None, 4)]


def replayed(folder: Path, *, max_records: int | None = None) -> tuple[Warehouse, dict[str, Rows]]:
    warehouse = Warehouse(folder)
    plant(warehouse, "orders", landed(), partitions=1)
    options: dict[str, Any] = {} if max_records is None else {"max_records": max_records}
    assert list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner(), idle="proceed", **options))
    return warehouse, tables_of(warehouse, "p", topology())


@pytest.mark.slow
def test_tables_hold_typed_values_and_a_cut_changes_nothing(tmp_path):
    _, whole = replayed(tmp_path / "whole")
    _, cut = replayed(tmp_path / "cut", max_records=2)

    assert cut == whole
    values = [row["value"] for row in whole["outputs/new-orders"]]
    assert values == [TAPE[0][1] | {"sizes": [("s", 1)]}, TAPE[2][1] | {"sizes": []}]
    assert [row["value"] for row in whole["outputs/spent"]][-1] == {"n": 2, "spent": 300}
    assert [row["reason"] for row in whole["dead_letter"]] == ["value: expected more bytes, got the end"]


@pytest.mark.slow
def test_a_record_is_explained(tmp_path):
    warehouse, _ = replayed(tmp_path)

    sentences = [sentence for _, sentence in explained(warehouse, topology(), "orders:0:0")]

    assert any("ann" in sentence for sentence in sentences)


def test_a_field_more_in_the_readers_schema_changes_the_store_that_holds_the_record_and_no_other():
    def counted(schema: dict[str, Any]) -> Topology:
        builder = StreamsBuilder()
        orders = builder.stream("orders", Consumed(Serde.string(), Serde.avro(schema))).group_by_key()
        orders.aggregate(n=fold.count()).to_stream().to("n")
        orders.reduce(lambda one, other: other).to_stream().to("latest")
        return builder.build()

    wider = ORDER | {"fields": [*ORDER["fields"], {"name": "channel", "type": "string", "default": "shop"}]}  # type: ignore[misc]
    before, now = code_snapshot(counted(ORDER)), code_snapshot(counted(wider))

    changed = {name for name in before["stores"] if before["stores"][name] != now["stores"][name]}
    assert {before["stores"][name]["operator"] for name in changed} != set()
    assert len(changed) == 1


def test_the_schema_of_an_output_is_arrows():
    assert AVRO.arrow_type.field("price").type == pa.decimal128(9, 2)
    assert AVRO.arrow_type.field("at").type == pa.timestamp("us", "UTC")
