"""Partitioners of a foreign-key join: keys of either table may lie elsewhere than murmur2 would put them (KIP-775)."""

from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, KTable, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import TaskFailed, TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant, tables_of

STRING = Serde.string()
TEXTS = Consumed(STRING, STRING)
PARTITIONS = 3
LEFT = [("o0", "c1", 1), ("o1", "c2", 2), ("o2", "c1", 3), ("o3", "c0", 4), ("o1", "c0", 12), ("o2", None, 13)]
RIGHT = [("c0", "Ann", 5), ("c1", "Bob", 6), ("c2", "Cat", 7), ("c1", "Bea", 11), ("c0", None, 14)]
JOINED = {"o0": ["c1 Bob", "c1 Bea"], "o1": ["c2 Cat", "c0 Ann", None], "o2": ["c1 Bob", "c1 Bea", None],
          "o3": ["c0 Ann", None]}  # fmt: skip
"""What there is of each key, in order, wherever it is."""


def by_digit(topic: str, key: str, value: None, partitions: int) -> int:
    """Where both topics have their keys."""
    assert value is None
    return int(key[1]) % partitions


def joined(**partitioners) -> Topology:
    builder = StreamsBuilder()
    orders, customers = builder.table("orders", TEXTS), builder.table("customers", TEXTS)
    result: KTable = orders.join(customers, "left || ' ' || right", foreign_key="value", name="j", **partitioners)
    result.to("out")
    return builder.build()


def replayed(folder: Path, topology: Topology, max_records: int | None = None) -> list[dict]:
    warehouse = Warehouse(folder)
    for topic, tape in (("orders", LEFT), ("customers", RIGHT)):
        records = [
            LandedRecord(int(key[1]) % PARTITIONS, key.encode(), None if value is None else value.encode(), at)
            for key, value, at in tape
        ]
        plant(warehouse, topic, records, partitions=PARTITIONS)
    for limit in (max_records, None):
        idle = "proceed" if limit is None else "wait"
        list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=limit, idle=idle))
    return tables_of(warehouse, "p", topology)["outputs/out"]


def by_key(rows: list[dict]) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for row in rows:
        found.setdefault(row["key"], []).append(row["value"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("max_records", [None, 1, 4])
def test_subscriptions_go_to_where_the_right_table_has_its_keys(tmp_path, max_records):
    rows = replayed(tmp_path, joined(other_partitioner=by_digit), max_records)

    assert by_key(rows) == JOINED
    assert {row["key"]: row["partition"] for row in rows} == {"o0": 0, "o1": 1, "o2": 2, "o3": 0}


def test_without_it_they_go_to_where_murmur2_would_have_put_them(tmp_path):
    assert by_key(replayed(tmp_path, joined())) != JOINED


@pytest.mark.slow
def test_answers_go_to_where_the_partitioner_of_the_left_table_says(tmp_path):
    """Elsewhere they find no left record: they are dropped, but those that answer a deletion
    (ResponseJoinProcessorSupplier).
    """
    right = joined(partitioner=by_digit, other_partitioner=by_digit)
    wrong = joined(partitioner=lambda topic, key, value, partitions: 1, other_partitioner=by_digit)

    assert by_key(replayed(tmp_path / "right", right)) == JOINED
    assert by_key(replayed(tmp_path / "wrong", wrong)) == {"o1": JOINED["o1"], "o2": [None]}


@pytest.mark.slow
def test_none_leaves_a_message_where_it_would_have_gone(tmp_path):
    topology = joined(partitioner=lambda topic, key, value, partitions: None, other_partitioner=by_digit)

    assert by_key(replayed(tmp_path, topology)) == JOINED


@pytest.mark.slow
def test_it_is_told_the_topic_and_no_value(tmp_path):
    told = set()

    def tells(topic, key, value, partitions):
        told.add((topic, value, partitions))
        return int(key[1]) % partitions

    replayed(tmp_path, joined(partitioner=tells, other_partitioner=tells))

    assert told == {
        ("j-subscription-registration-topic", None, PARTITIONS),
        ("j-subscription-response-topic", None, PARTITIONS),
    }


def test_what_is_no_partition_ends_the_run(tmp_path):
    topology = joined(other_partitioner=lambda topic, key, value, partitions: partitions)

    with pytest.raises(TaskFailed, match="a partition from 0 to 2, a set of them, or None, got 3 for key 'c"):
        replayed(tmp_path, topology)


@pytest.mark.parametrize("option", ["partitioner", "other_partitioner"])
def test_a_join_by_key_has_none(option):
    builder = StreamsBuilder()
    one, other = builder.table("a", TEXTS), builder.table("b", TEXTS)

    with pytest.raises(TopologyError, match=f"expected {option}= beside a foreign_key"):
        one.join(other, "left", **{option: by_digit})
    with pytest.raises(TopologyError, match="got a lambda"):
        one.join(other, "left", foreign_key="value", **{option: lambda key: 0})
