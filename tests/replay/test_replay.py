"""A replay from landed tables to committed ones: books, refusals, what waits, and errors that end with the next
step.
"""

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_newest
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.replay.books import Books
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)
from kstreams_replay.state.errors import BufferFull, CodeChanged, ConfigError, TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant


def counts(grace: int = 5, size: int = 10, **limits: int) -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("in", Consumed(Serde.string(), Serde.json("page string, ms long")))
        .group_by_key()
        .windowed_by(TimeWindows.of_size(size, grace=grace))
        .count(Materialized.as_("counts-store"))
        .suppress(Suppressed.until_window_closes(name="final", **limits))
        .to("counts")
    )
    return builder.build()


def pages(**options: object) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("in", Consumed(Serde.string(), Serde.json("page string, ms long")))
    clicks.group_by("page").count(Materialized.as_("pages-store")).to("pages")
    return builder.build()


def click(
    partition: int, key: bytes | None, time_ms: int, value: bytes | None = b'{"page": "p", "ms": 1}'
) -> LandedRecord:
    return LandedRecord(partition, key, value, time_ms)


def run(warehouse: Warehouse, topology: Topology, **options):
    return list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), **options))


def test_the_books_of_an_increment_name_every_record_that_had_no_effect(tmp_path):
    warehouse = Warehouse(tmp_path)
    records = [
        click(0, b"a", 3),
        click(0, b"a", 15),  # 15 - 5 = 10 closes [0, 10)
        click(0, b"a", 9),  # late
        click(0, None, 16),  # null key
        click(0, b"a", -1),  # negative timestamp
        click(0, b"a", 17, b'{"page": 7, "ms": 1}'),  # a page of another type
        click(0, b"a", 17, b"no json"),
        click(0, b"\xff", 17),  # a key that is no UTF-8
    ]
    plant(warehouse, "in", records, partitions=1)

    (report,) = run(warehouse, counts())

    reasons = {"expired-window": 1, "null-key": 1, "negative-timestamp": 1}
    refused = {
        "KSTREAM-SOURCE-0000000000": {"negative-timestamp": [1, 1]},
        "KSTREAM-AGGREGATE-0000000001": {"null-key": [1, 1], "expired-window": [1, 1]},
    }
    want = Books(read=8, applied=2, dropped=3, undecodable=3, dropped_by_reason=reasons, refused=refused)
    assert report.books == want
    # the three that cannot be decoded come to no node, and the one without a time only to the source
    came = {"KSTREAM-SOURCE-0000000000": [5, 1], "KSTREAM-AGGREGATE-0000000001": [4, 2]}
    assert {name: report.books_by_sub_topology["0"].by_operator[name] for name in came} == came
    assert report.outputs == {"counts": 1}
    numbers = report.operators["final"]
    assert {name: numbers[name] for name in ("emitted", "count_current", "count_max", "bytes_max")} == {
        "emitted": 1, "count_current": 1, "count_max": 2, "bytes_max": 0,
    }  # fmt: skip
    rows = read_changelog(warehouse, "p", "counts").to_pylist()
    assert rows == [
        {
            "partition": 0,
            "offset": 0,
            "increment": 1,
            "cause_offset": 1,
            "key": "a",
            "window_start_ms": 0,
            "window_end_ms": 10,
            "value": 1,
            "record_time_ms": 3,
            "stream_time_ms": 15,
            "headers": None,
            "arrival": None,
        }
    ]


def test_a_store_and_an_output_are_read_as_of_the_last_increment(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(0, b"a", 3), click(0, b"b", 4), click(0, b"a", 21)], partitions=1)
    run(warehouse, counts(), max_records=1)

    windows = read_store(warehouse, "p", counts(), "counts-store").select(["key", "window_start_ms", "value"])
    table = read_newest(warehouse, "p", "counts").select(["key", "window_start_ms", "value"])

    # Retention is size + grace = 15: at window start 20 the store shows starts above 5.
    assert windows.to_pylist() == [{"key": "a", "window_start_ms": 20, "value": 1}]
    assert table.to_pylist() == [
        {"key": "a", "window_start_ms": 0, "value": 1},
        {"key": "b", "window_start_ms": 0, "value": 1},
    ]


def test_an_empty_topic_gives_no_increment_and_records_that_come_later_do(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [], partitions=2)

    assert run(warehouse, counts()) == []
    plant(warehouse, "in", [click(1, b"a", 3)], partitions=2)

    assert [report.books.read for report in run(warehouse, counts())] == [1]


def test_a_topic_that_was_never_landed_is_refused(tmp_path):
    with pytest.raises(ConfigError) as error:
        run(Warehouse(tmp_path), counts())

    assert str(error.value) == ("topic 'in': expected a landed topic, got landed topics []; land it before replaying")


def test_another_window_over_the_same_state_is_refused_with_what_differs_and_the_ways_on(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(0, b"a", 3)], partitions=1)
    run(warehouse, counts(size=10))
    plant(warehouse, "in", [click(0, b"a", 4)], partitions=1)

    with pytest.raises(CodeChanged) as error:
        run(warehouse, counts(size=20))

    assert error.value.place == "pipeline 'p'"
    assert error.value.got == (
        "store 'counts-store': advance_ms was 10, is 20: its rows were made under the other setting; "
        "store 'counts-store': size_ms was 10, is 20: its rows were made under the other setting; "
        "store 'final-store': key_windows was [TimeWindows size_ms 10, advance_ms 10], "
        "is [TimeWindows size_ms 20, advance_ms 20]: its rows have keys of other windows"
    )
    assert error.value.next_step == (
        "two options: fork and replay from the start under another pipeline name, or give a function that makes the "
        "new rows of the old, migrate={'counts-store': function, 'final-store': function}"
    )


def test_a_full_strict_buffer_ends_the_run_and_names_what_would_have_sufficed(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(0, b"a", 3), click(0, b"b", 4)], partitions=1)

    with pytest.raises(BufferFull) as error:
        run(warehouse, counts(max_records=1))

    assert error.value.place == "final, key 'b', window 0 to 10"
    assert error.value.got == "2 records"
    assert error.value.next_step == "allow 2 records at least, spill to disk, or use no bound"
    assert error.value.__notes__ == ["in task 0_0 of increment 1"]


def test_a_callable_that_fails_ends_the_run_with_the_record_it_failed_on(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(0, b"a", 3)], partitions=1)
    builder = StreamsBuilder()
    clicks = builder.stream("in", Consumed(Serde.string(), Serde.json("page string, ms long")), name="clicks")
    clicks.map_values(lambda key, value: value["none"], returns=Serde.string(), name="broken").to("out")

    with pytest.raises(TaskFailed) as error:
        run(warehouse, builder.build())

    assert error.value.place == "broken"
    got = "KeyError: 'none' on key 'a', value {'page': 'p', 'ms': 1}, of the record in-0, offset 0"
    assert error.value.got == got


@pytest.mark.parametrize(
    ("options", "place"),
    [({"max_records": 0}, "max_records"), ({"idle": "hurry"}, "idle")],
)
def test_an_option_out_of_bounds_is_refused(tmp_path, options, place):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(0, b"a", 3)], partitions=1)

    with pytest.raises(ConfigError) as error:
        run(warehouse, counts(), **options)

    assert error.value.place == place


def test_records_wait_where_partitions_meet_until_each_has_got_past_their_time(tmp_path):
    """
    Partition 1 has reached 5, so only records of partition 0 that are before 5 have their final position.
    """
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(0, b"a", 3), click(0, b"a", 9), click(1, b"b", 5)], partitions=2)

    (first,) = run(warehouse, pages())
    plant(warehouse, "in", [click(1, b"b", 12)], partitions=2)
    (second,) = run(warehouse, pages())
    (last,) = run(warehouse, pages(), idle="proceed")

    assert (first.cut_to, first.books.read, first.waiting) == ({"in": {"0": 1, "1": 0}}, 1, 2)
    assert (second.cut_to, second.books.read, second.waiting) == ({"in": {"0": 1, "1": 1}}, 1, 2)
    assert (last.cut_to, last.books.read, last.waiting) == ({"in": {"0": 2, "1": 2}}, 2, 0)


def test_a_repartition_table_is_written_in_the_order_of_causes_with_offsets_of_its_own(tmp_path):
    warehouse = Warehouse(tmp_path)
    records = [click(0, b"a", 7), click(0, b"a", 1), click(1, b"b", 6), click(1, b"b", 8)]
    plant(warehouse, "in", records, partitions=2)

    run(warehouse, pages(), idle="proceed")

    rows = read_changelog(warehouse, "p", "pages").select(["offset", "cause_offset", "value", "record_time_ms"])
    # Partition 1's 6 comes first; the 1 stands behind the 7 of its own partition; then 8.
    assert rows.to_pylist() == [
        {"offset": 0, "cause_offset": 0, "value": 1, "record_time_ms": 6},
        {"offset": 1, "cause_offset": 1, "value": 2, "record_time_ms": 7},
        {"offset": 2, "cause_offset": 2, "value": 3, "record_time_ms": 7},
        {"offset": 3, "cause_offset": 3, "value": 4, "record_time_ms": 8},
    ]


def test_a_sum_and_a_mean_survive_increments(tmp_path):
    warehouse = Warehouse(tmp_path)
    values = [b'{"page": "p", "ms": %d}' % ms for ms in (4, 5, 9)]
    plant(warehouse, "in", [click(0, b"a", 1, value) for value in values], partitions=1)
    builder = StreamsBuilder()
    clicks = builder.stream("in", Consumed(Serde.string(), Serde.json("page string, ms long")))
    clicks.group_by_key().aggregate(total=fold.sum("ms"), mean=fold.mean("ms")).to("totals")
    topology = builder.build()

    run(warehouse, topology, max_records=1)

    rows = read_changelog(warehouse, "p", "totals")["value"].to_pylist()
    assert rows == [{"total": 4, "mean": 4.0}, {"total": 9, "mean": 4.5}, {"total": 18, "mean": 6.0}]


def test_names_of_the_greatest_length_go_through_a_repartition(tmp_path):
    """
    Kafka allows a node 249 characters, and file systems a file 255: the source of the table has all of the 249.
    """
    builder = StreamsBuilder()
    clicks = builder.stream("in", Consumed(Serde.string(), Serde.json("page string, ms long")))
    clicks.group_by("page", name="n" * 230).count(Materialized.as_("pages-store")).to("pages")
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(0, b"a", 3)], partitions=1)

    (report,) = run(warehouse, builder.build())

    assert report.outputs == {"pages": 1}
