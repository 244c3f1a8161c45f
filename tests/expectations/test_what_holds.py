"""Guarantees hold of what Kafka Streams does at its edges: windows without an end, keys that are null or 0.0 and -0.0,
fields that a change of the code added.
"""

import struct
from pathlib import Path

import pytest

from kstreams_replay.expectations.open_windows import open_windows
from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.folds.fold import Fold
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
    fold,
)
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import TEXTS, tape
from tests.planted import LandedRecord, plant

ORDERS = Consumed(Serde.string(), Serde.json("product STRING, amount LONG"))


def answers(folder: Path, topology: Topology, tapes: dict[str, list[LandedRecord]], partitions: int, guarantee: str):
    """(table, answer, rows looked at) of a guarantee after one increment."""
    warehouse = Warehouse(str(folder))
    for topic, records in tapes.items():
        plant(warehouse, topic, records, partitions=partitions)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
    verdicts = check_increment(warehouse, "p", replay_facts(topology), engine="plain")
    return [(v.table, v.answer, v.rows) for v in verdicts if v.guarantee == guarantee]


def test_an_unlimited_window_begins_at_its_start_and_has_no_end(tmp_path):
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXTS).group_by_key()
    clicks.windowed_by(UnlimitedWindows.of(150)).count().to_stream().to("counts")

    got = answers(tmp_path, builder.build(), {"clicks": tape(("a", "1", 150), ("b", "1", 900))}, 1, "G4")

    assert ("outputs/counts", "true", 2) in got
    assert {answer for _, answer, _ in got} == {"true"}


def priced(orders: Consumed = ORDERS) -> Topology:
    """Orders joined by foreign key with the price of their product."""
    builder = StreamsBuilder()
    orders, products = builder.table("orders", orders), builder.table("products", TEXTS)
    orders.left_join(products, foreign_key="product", amount="left.amount", product="right").to_stream().to("priced")
    return builder.build()


def test_a_subscription_without_a_foreign_key_may_lie_in_any_partition(tmp_path):
    """A left join sends it, with a null key (SubscriptionSendProcessorSupplier)."""
    sent = [
        LandedRecord(1, b"o1", b'{"product": null, "amount": 3}', 5),
        LandedRecord(0, b"o2", b'{"product": "p", "amount": 1}', 6),
    ]

    got = answers(tmp_path, priced(), {"orders": sent, "products": [LandedRecord(0, b"q", b"1", 4)]}, 2, "G10")

    assert got
    assert {answer for _, answer, _ in got} == {"true"}


def test_a_foreign_key_is_judged_only_where_its_record_lies_in_the_partition_of_its_hash(tmp_path):
    """The subscription goes to that partition alone, so Kafka's join does not find a record elsewhere."""
    sent = [LandedRecord(0, b"o1", b'{"product": "p", "amount": 1}', 6)]

    got = [
        answers(
            tmp_path / str(place),
            priced(),
            {"orders": sent, "products": [LandedRecord(place, b"p", b"9", 4)]},
            2,
            "G16",
        )
        for place in (0, 1)
    ]

    assert sorted(answer for ((_, answer, _),) in got) == ["true", "unchecked"]


def test_rows_of_two_zeros_are_judged_by_their_own_keys(tmp_path):
    sent = [
        LandedRecord(0, struct.pack(">d", zero), b'{"product": "p", "amount": %d}' % amount, 6)
        for zero, amount in ((0.0, 1), (-0.0, 2))
    ]
    orders = Consumed(Serde.double(), Serde.json("product STRING, amount LONG"))

    got = answers(tmp_path, priced(orders), {"orders": sent, "products": [LandedRecord(0, b"p", b"9", 4)]}, 1, "G16")

    assert [(answer, rows) for _, answer, rows in got] == [("true", 2)]


def test_windows_that_are_emitted_when_they_close_are_in_no_buffer_before(tmp_path):
    """
    Of a's two windows one has closed; b's is in the store alone.
    """
    builder = StreamsBuilder()
    windows = builder.stream("clicks", TEXTS).group_by_key().windowed_by(TimeWindows.of_size(10, grace=5))
    counts = windows.emit_strategy("on_window_close").count()
    counts.suppress(Suppressed.until_window_closes(name="final")).to("counts")

    got = answers(tmp_path, builder.build(), {"clicks": tape(("a", "1", 3), ("a", "1", 25), ("b", "1", 26))}, 1, "G5")

    assert [answer for _, answer, _ in got] == ["true"]


def final(key: Serde, **folds: Fold) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(key, Serde.json("n long"))).group_by_key()
    windows = clicks.windowed_by(TimeWindows.of_size(10)).aggregate(Materialized.as_("windows"), **folds)
    windows.suppress(Suppressed.until_window_closes(name="final")).to("finals")
    return builder.build()


def broken(warehouse: Warehouse, topology: Topology, increment: int) -> list[tuple[object, ...]]:
    """Answers that are neither true nor of what is not checked."""
    verdicts = check_increment(warehouse, "p", replay_facts(topology), increment, engine="plain")
    return [(v.guarantee, v.table, v.answer, v.reason) for v in verdicts if v.answer not in ("true", "unchecked")]


def test_files_from_before_a_field_was_added_are_read_with_it(tmp_path):
    """
    a's buffer has a file of one fold and one of two when b's first results, of one, leave.
    """
    warehouse = Warehouse(str(tmp_path))
    one, two = {"c": fold.count()}, {"c": fold.count(), "s": fold.sum("n")}
    slices = (
        (one, [(0, b"a", 1), (1, b"b", 1), (0, b"a", 15)]),
        (two, [(0, b"a", 25)]),
        (two, [(1, b"b", 15), (1, b"b", 25), (0, b"a", 35)]),
    )
    for folds, records in slices:
        landed = [LandedRecord(partition, key, b'{"n": 1}', time_ms) for partition, key, time_ms in records]
        plant(warehouse, "clicks", landed, partitions=2)
        list(replay(warehouse, final(Serde.string(), **folds), pipeline="p", runner=LocalRunner(), idle="proceed"))

    assert [broken(warehouse, final(Serde.string(), **two), increment) for increment in (2, 3)] == [[], []]


@pytest.mark.parametrize("serde", [Serde.double(), Serde.json("d double")])
def test_two_zeros_of_a_double_are_two_keys(tmp_path, serde):
    """Their bytes differ, so Kafka's stores keep two."""
    warehouse, is_plain = Warehouse(str(tmp_path)), serde == Serde.double()
    keys = [struct.pack(">d", d) if is_plain else b'{"d": %f}' % d for d in (0.0, -0.0)]
    landed = [LandedRecord(0, keys[number % 2], b'{"n": 1}', time_ms) for number, time_ms in enumerate((1, 2, 50, 51))]
    plant(warehouse, "clicks", landed, partitions=1)
    topology = final(serde, c=fold.count())
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner()))

    assert broken(warehouse, topology, 1) == []
    assert [count for _, _, count in open_windows(warehouse, "p", replay_facts(topology), 1)] == [2, 2]
