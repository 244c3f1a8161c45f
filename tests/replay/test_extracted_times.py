"""Topics at the times that extractors give: the order in which they are merged, what waits, and that cuts change
nothing.
"""

import random

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.timestamp_extractors import (
    FailOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
)
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, TimeWindows, Topology
from kstreams_replay.state.errors import InvalidTimestamp
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant, tables_of

STRING, LONG = Serde.string(), Serde.long()
Tape = list[tuple[str, int | None, int]]
"""(key, value, landed time)."""


def landed(tape: Tape, partition: int = 0) -> list[LandedRecord]:
    values = [None if value is None else value.to_bytes(8, "big", signed=True) for _, value, _ in tape]
    return [LandedRecord(partition, key.encode(), code, ms) for (key, _, ms), code in zip(tape, values, strict=True)]


def merged(extractor: object, other: object = None) -> Topology:
    """Records of both topics as they are taken."""
    builder = StreamsBuilder()
    left = builder.stream("left", Consumed(STRING, LONG, timestamp_extractor=extractor))
    right = builder.stream("right", Consumed(STRING, LONG, timestamp_extractor=other))
    left.merge(right).to("out")
    return builder.build()


def run(warehouse: Warehouse, topology: Topology, pipeline: str = "p", **options: object) -> list[IncrementReport]:
    return list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), **options))


def taken(warehouse: Warehouse, pipeline: str = "p") -> list[tuple[str, int]]:
    """Keys and times, in order."""
    rows = read_table(warehouse, pipeline, "outputs/out").sort_by("offset").to_pylist()
    return [(row["key"], row["record_time_ms"]) for row in rows]


def test_topics_meet_in_the_order_of_their_extracted_times(tmp_path):
    """
    Left by its values, right by the times that it landed with: 1 2 3 5 6 8; l4 at -1 is passed over.
    """
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "left", landed([("l1", 2, 900), ("l2", 5, 800), ("l3", -1, 0), ("l4", 8, 1)]), partitions=1)
    plant(warehouse, "right", landed([("r1", 0, 1), ("r2", 0, 3), ("r3", 0, 6)]), partitions=1)

    run(warehouse, merged("value"), idle="proceed")

    assert taken(warehouse) == [("r1", 1), ("l1", 2), ("r2", 3), ("l2", 5), ("r3", 6), ("l4", 8)]
    (dropped,) = read_table(warehouse, "p", "dropped").to_pylist()
    assert (dropped["topic"], dropped["offset"], dropped["reason"], dropped["record_time_ms"]) == (
        "left", 2, "negative-timestamp", -1,
    )  # fmt: skip


def test_what_waits_waits_for_the_extracted_time_of_the_other_topic(tmp_path):
    """
    Left has come to 5 by its values (900 as it landed): its record at 5 waits for others of 5, and right's at 6 too.
    """
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "left", landed([("l1", 2, 900), ("l2", 5, 900)]), partitions=1)
    plant(warehouse, "right", landed([("r1", 0, 1), ("r2", 0, 6)]), partitions=1)
    builder = StreamsBuilder()
    left = builder.stream("left", Consumed(STRING, LONG, timestamp_extractor="value"))
    left.merge(builder.stream("right", Consumed(STRING, LONG))).repartition().to("out")
    topology = builder.build()

    run(warehouse, topology)
    waiting = taken(warehouse)
    plant(warehouse, "left", landed([("l3", 7, 0), ("l4", 9, 0)]), partitions=1)
    run(warehouse, topology)

    assert waiting == [("r1", 1), ("l1", 2)]
    assert taken(warehouse) == [("r1", 1), ("l1", 2), ("l2", 5)]


def counted(extractor: object) -> Topology:
    """Both topics, counted in windows: who is late depends on the order of all."""
    builder = StreamsBuilder()
    left = builder.stream("left", Consumed(STRING, LONG, timestamp_extractor=extractor))
    right = builder.stream("right", Consumed(STRING, LONG, timestamp_extractor="record_time_ms - 3"))
    keys = left.merge(right).group_by_key()
    counts = keys.windowed_by(TimeWindows.of_size(5, grace=2)).count(Materialized.as_("counts"))
    counts.to_stream().to("out")
    return builder.build()


def by_hand(record: object, partition_time_ms: int) -> int:
    """COALESCE(value, partition_time_ms + 1), as a callable."""
    value = record.value  # type: ignore[attr-defined]
    return partition_time_ms + 1 if value is None else value


EXTRACTORS: dict[str, object] = {
    "a field, else a step on": "COALESCE(value, partition_time_ms + 1)",
    "a callable": by_hand,
    "partition time for what is invalid": UsePartitionTimeOnInvalidTimestamp("COALESCE(value, record_time_ms - 4)"),
}


@pytest.mark.parametrize(("name", "max_records"), list(zip(EXTRACTORS, (2, 3, 5), strict=True)))
def test_where_the_topics_are_cut_changes_nothing(tmp_path, name, max_records):
    dice = random.Random(name)
    tape = [("a", dice.choice([None, -2, n, n - 3, n + 6]), dice.randrange(n, n + 9)) for n in range(1, 10)]
    tape[0] = ("a", 1, 5)
    other = [(dice.choice("ab"), 1, dice.randrange(n, n + 5)) for n in range(9)]
    warehouse = Warehouse(tmp_path)
    for topic, records in (("left", tape), ("right", other)):
        plant(warehouse, topic, [*landed(records), *landed(records[::2], 1)], partitions=2)
    topology = counted(EXTRACTORS[name])

    run(warehouse, topology, "whole", idle="proceed")
    increments = run(warehouse, topology, "cut", idle="proceed", max_records=max_records)

    assert len(increments) > 2
    assert tables_of(warehouse, "cut", topology) == tables_of(warehouse, "whole", topology)


def test_a_callable_gives_what_the_step_gives(tmp_path):
    warehouse = Warehouse(tmp_path)
    dice = random.Random(1)
    tape = [("a", dice.choice([None, None, -2, n, 2 * n]), n) for n in range(200)]
    plant(warehouse, "left", landed(tape), partitions=1)
    plant(warehouse, "right", [], partitions=1)

    for pipeline, extractor in (("step", "COALESCE(value, partition_time_ms + 1)"), ("callable", by_hand)):
        run(warehouse, merged(extractor), pipeline, idle="proceed")

    assert taken(warehouse, "callable") == taken(warehouse, "step")
    assert len(taken(warehouse, "step")) > 100


def test_what_cannot_be_read_is_not_asked_and_keeps_the_time_that_it_landed_with(tmp_path):
    def must_have_a_value(record: object) -> int:
        return 7 + record.value  # type: ignore[attr-defined]

    warehouse = Warehouse(tmp_path)
    plant(warehouse, "left", [LandedRecord(0, b"a", b"no long", 44), *landed([("b", 2, 1)])], partitions=1)
    plant(warehouse, "right", [], partitions=1)

    run(warehouse, merged(must_have_a_value), idle="proceed")

    assert taken(warehouse) == [("b", 9)]
    (letter,) = read_table(warehouse, "p", "dead_letter").to_pylist()
    assert (letter["offset"], letter["record_time_ms"]) == (0, 44)


def test_an_invalid_time_ends_the_increment_and_names_the_record(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "left", landed([("a", 2, 1), ("b", -3, 1)]), partitions=1)
    plant(warehouse, "right", [], partitions=1)

    with pytest.raises(InvalidTimestamp) as error:
        run(warehouse, merged(FailOnInvalidTimestamp("value")), idle="proceed")

    assert error.value.got == "-3, of the record left-0, offset 1"


def test_recorded_time_and_extracted_times_are_of_one_clock():
    """
    Stream time 15 is recorded: the window [0, 10) of the record at 3 (landed at 900) closes.
    """
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, LONG, timestamp_extractor="value"))
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size(10, grace=0))
    windows.emit_strategy("on_window_close").count().to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 3, 900)

    before = driver.read_outputs("out")
    driver.advance_stream_time("in", 15)

    assert before == []
    assert [(one.key, one.window, one.value) for one in driver.read_outputs("out")] == [("a", (0, 10), 1)]
