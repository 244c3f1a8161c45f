"""The ids of a registry in the records of an output: those of the same schema, whatever the topology's serdes write."""

import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from kstreams_replay.jobs.publish.kafka_target import KafkaTarget
from kstreams_replay.jobs.publish.published_output import PublishedOutput
from kstreams_replay.jobs.publish.publishing import PublishSettings, publish
from kstreams_replay.jobs.publish.registered_schemas import RegisteredSchemas
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import ConfigError, LedgerError, PublishError, PublishInterrupted

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "cents", "type": "long"}]}
OTHER = ORDER | {"fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
AS_PEOPLE_WRITE_IT = json.dumps(ORDER | {"doc": "of the shop"}, indent=2)
DOCUMENT = {"type": "object", "properties": {"cents": {"type": "integer"}}}
OURS = 4711


def topology(serde: Serde) -> Topology:
    builder = StreamsBuilder()
    builder.stream("orders", Consumed(Serde.string(), serde)).to("out")
    return builder.build()


@pytest.fixture
def registry() -> Any:
    return SchemaRegistryClient.new_client({"url": "mock://"})


def target(**more: Any) -> KafkaTarget:
    return KafkaTarget("localhost:1", "live", registry="http://localhost:1", **more)


def published(registry: Any, **more: Any) -> bytes:
    """The value of an order of 250 cents, as it is published."""
    output = PublishedOutput(topology(Serde.confluent_avro(ORDER, write_id=OURS)), "out")
    output = PublishedOutput(output.topology, "out", RegisteredSchemas(target(**more), registry).serdes(output))
    rows = pa.table([[0], [0], [1], ["ann"], [{"cents": 250}], [7], [None]], schema=output.schema)
    (record,) = output.outgoing(rows, 1).records()
    assert record[1] == b"ann"
    assert record[2] is not None
    return record[2]


def test_the_id_is_that_of_the_same_schema_whatever_came_after_it(registry):
    ids = [
        registry.register_schema("live-value", Schema(text, "AVRO")) for text in (AS_PEOPLE_WRITE_IT, json.dumps(OTHER))
    ]

    value = published(registry)

    assert ids[0] not in (OURS, ids[1])
    assert value == b"\0" + ids[0].to_bytes(4, "big") + b"\xf4\x03"  # Avro's zigzag of 250


@pytest.mark.parametrize(("versions", "got"), [([], "no such subject"), ([OTHER], "1 versions with others")])
def test_a_schema_that_the_subject_does_not_have_is_refused_or_registered(registry, versions, got):
    for schema in versions:
        registry.register_schema("live-value", Schema(json.dumps(schema), "AVRO"))

    with pytest.raises(PublishError, match=got) as raised:
        published(registry)
    assert "--register-schemas" in raised.value.next_step
    first, again = (published(registry, register_schemas=True) for _ in range(2))

    assert first == again
    assert json.loads(registry.get_schema(int.from_bytes(first[1:5], "big")).schema_str)["fields"] == ORDER["fields"]
    assert len(registry.get_versions("live-value")) == len(versions) + 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_is_registered_for_a_pipeline_that_is_not_there(dry_run, registry, warehouse, monkeypatch):
    monkeypatch.setattr("confluent_kafka.schema_registry.SchemaRegistryClient", lambda settings: registry)

    with pytest.raises(LedgerError, match="expected a done increment"):
        publish(
            warehouse, topology(Serde.confluent_avro(ORDER, write_id=OURS)), "out", pipeline="p",
            to=target(register_schemas=True), settings=PublishSettings(dry_run=dry_run),
        )  # fmt: skip

    assert registry.get_subjects() == []


def test_a_dry_run_counts_rows_whose_schema_is_not_registered_yet(registry):
    output = PublishedOutput(topology(Serde.confluent_avro(ORDER, write_id=OURS)), "out")
    schemas = RegisteredSchemas(target(register_schemas=True), registry, dry_run=True)
    output = PublishedOutput(output.topology, "out", schemas.serdes(output))
    rows = pa.table([[0], [0], [1], ["ann"], [{"cents": 250}], [7], [None]], schema=output.schema)

    assert len(output.outgoing(rows, 1)) == 1
    assert registry.get_subjects() == []


def test_serdes_without_ids_stay_as_they_are_and_those_without_their_schema_are_refused(registry):
    schemas = RegisteredSchemas(target(), registry)

    assert schemas.serde(Serde.string(), "key")() == Serde.string()
    with pytest.raises(ConfigError, match=r"the value serde of live: expected one schema of Avro.*write_id"):
        schemas.serde(Serde.confluent_json_schema(DOCUMENT, write_id=7), "value")


def test_a_registry_that_does_not_answer_is_named_before_the_broker_is_asked(warehouse):
    calls: list[str] = []
    quick = target(registry_options={"max.retries": 0})

    with pytest.raises(PublishInterrupted, match="schema registry http://localhost:1: expected an answer"):
        publish(
            warehouse, topology(Serde.confluent_avro(ORDER, write_id=1)), "out", pipeline="p", to=quick,
            on_call=calls.append,
        )  # fmt: skip

    assert calls == []


def test_settings_of_a_registry_need_its_address():
    with pytest.raises(ConfigError, match="expected the address of the registry"):
        KafkaTarget("localhost:1", "live", register_schemas=True)
