"""A task: the verdict on every record, its clock and its books."""

import json

import pyarrow as pa
import pytest

from kstreams_replay.jobs.task.task import CHUNK_RECORDS, Task
from kstreams_replay.jobs.topology import KStream, Serde, SessionWindows, TimeWindows
from tests.task.task_tapes import books, counted, long, records, started, topology_of

FLIGHT = Serde.json("dest string, minutes long")


# --- verdicts ------------------------------------------------------------------------------------------------


def test_an_undecodable_value_is_a_dead_letter_with_its_offset_bytes_and_reason():
    task = started(topology_of(counted))

    result = task.process(records((7, 1, b"a", long(5)), (8, 2, b"a", b"123"), (9, 3, b"a", b""), (12, 4, None, b"x")))

    letters = result.dead_letters.select(["topic", "offset", "record_time_ms", "reason", "key", "value"]).to_pylist()
    assert [tuple(letter.values()) for letter in letters] == [
        ("in", 8, 2, "value: expected 8 bytes of a long, got 3", b"a", b"123"),
        ("in", 9, 3, "value: expected 8 bytes of a long, got 0", b"a", b""),
        ("in", 12, 4, "value: expected 8 bytes of a long, got 1", None, b"x"),
    ]
    assert result.outputs["counts"]["cause_offset"].to_pylist() == [7]
    assert books(task) == (4, 1, 0, 3)


def test_an_undecodable_key_is_a_dead_letter_and_is_known_again_in_the_next_chunk():
    task = started(topology_of(counted, key=Serde.long()))
    rows = [(0, 1, long(1), long(5)), (1, 2, b"no", long(5)), (2, 3, long(1), long(5))]

    first = task.process(records(*rows))
    second = task.process(records((3, 4, b"no", long(5)), (4, 5, long(2), b"bad"), (5, 6, long(1), long(5))))

    assert first.dead_letters["reason"].to_pylist() == ["key: expected 8 bytes of a long, got 2"]
    assert second.dead_letters["offset"].to_pylist() == [3, 4]
    assert second.dead_letters["reason"].to_pylist() == [
        "key: expected 8 bytes of a long, got 2",
        "value: expected 8 bytes of a long, got 3",
    ]
    assert second.outputs["counts"]["value"].to_pylist() == [3]
    assert books(task) == (6, 3, 0, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "value: "),
        (b'{"dest": 5}', "value: "),
        (b'{"minutes": "long"}', "value: "),
        (b"[1]", "value: "),
        (b"\xff", "value: "),
    ],
)
def test_json_of_another_type_is_a_dead_letter_and_the_others_go_on(text, reason):
    task = started(topology_of(lambda stream: stream.to("out"), value=FLIGHT))
    good = json.dumps({"dest": "BOS", "minutes": 5}).encode()

    result = task.process(records((0, 1, b"a", good), (1, 1, b"a", text), (2, 1, b"a", good)))

    assert result.outputs["out"]["cause_offset"].to_pylist() == [0, 2]
    assert [r.startswith(reason) and len(r) > 20 for r in result.dead_letters["reason"].to_pylist()] == [True]


def test_undecodable_records_do_not_move_the_clock():
    task = started(topology_of(counted))

    task.process(records((0, 99, b"a", b"bad"), (1, 5, b"a", long(1))))

    assert task.stream_time_ms == 5


def test_a_negative_timestamp_is_dropped_and_moves_no_clock():
    task = started(topology_of(counted))

    result = task.process(records((0, -1, b"a", long(1)), (1, 0, b"a", long(1)), (2, -7, b"a", b"bad")))

    dropped = result.dropped.select(["node", "reason", "offset", "record_time_ms", "is_record"]).to_pylist()
    assert [tuple(row.values()) for row in dropped] == [
        ("KSTREAM-SOURCE-0000000000", "negative-timestamp", 0, -1, True)
    ]
    assert task.stream_time_ms == 0
    assert books(task) == (3, 1, 1, 1)
    assert task.counts.dropped_by_reason == {"negative-timestamp": 1}


def test_a_null_key_is_dropped_by_an_aggregation_and_applied_by_a_sink():
    dropped, applied = (started(topology_of(build)) for build in (counted, lambda stream: stream.to("out")))
    row = (0, 5, None, long(1))

    dropped.process(records(row))
    applied.process(records(row))

    assert books(dropped) == (1, 0, 1, 0)
    assert dropped.counts.dropped_by_reason == {"null-key": 1}
    assert books(applied) == (1, 1, 0, 0)


def test_a_record_that_one_branch_refuses_and_another_takes_is_applied_and_the_refusal_is_booked():
    def build(stream: KStream) -> None:
        counted(stream)
        stream.filter("value > 100").to("large")

    task = started(topology_of(build))

    result = task.process(records((0, 20, b"a", long(1)), (1, 5, b"a", long(101)), (2, 6, None, long(500))))

    rows = result.dropped.select(["node", "reason", "offset", "is_record"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("KSTREAM-AGGREGATE-0000000002", "null-key", 2, False),
        ("KSTREAM-AGGREGATE-0000000002", "expired-window", 1, False),
    ]
    assert books(task) == (3, 3, 0, 0)
    assert task.counts.dropped_by_reason == {}


def test_a_record_that_every_branch_refuses_is_dropped_once():
    def build(stream: KStream) -> None:
        grouped = stream.group_by_key()
        grouped.windowed_by(TimeWindows.of_size(10)).count().to("counts")
        grouped.windowed_by(SessionWindows.with_inactivity_gap(2)).count().to("sessions")

    task = started(topology_of(build))

    result = task.process(records((0, 20, b"a", long(1)), (1, 5, b"a", long(1))))

    assert result.dropped["reason"].to_pylist() == ["expired-window", "expired-window"]
    assert result.dropped["is_record"].to_pylist() == [True, True]
    assert books(task) == (2, 1, 1, 0)
    assert task.counts.dropped_by_reason == {"expired-window": 1}


def test_windows_that_refused_a_record_which_others_took_are_counted_apart():
    def build(stream: KStream) -> None:
        stream.group_by_key().windowed_by(TimeWindows.of_size(4).advance_by(2)).count().to("counts")

    task = started(topology_of(build))

    result = task.process(records((0, 6, b"a", long(1)), (1, 5, b"a", long(1)), (2, 3, b"a", long(1))))

    refused = result.dropped.select(["offset", "window_start_ms", "window_end_ms", "limit_ms", "is_record"]).to_pylist()
    assert [tuple(row.values()) for row in refused] == [
        (1, 2, 6, 6, False),
        (2, 0, 4, 6, True),
        (2, 2, 6, 6, True),
    ]
    assert books(task) == (3, 2, 1, 0)
    assert task.counts.windows_refused == 1


def test_a_filtered_record_was_left_out():
    task = started(topology_of(lambda stream: stream.filter("value > 5").to("out")))

    task.process(records((0, 1, b"a", long(1)), (1, 1, None, None)))

    assert books(task) == (2, 0, 0, 0)
    assert task.counts.left_out == 2


# --- clock, lateness, empty chunks ---------------------------------------------------------------------------


def test_lateness_is_measured_against_stream_time_before_the_record():
    task = started(topology_of(counted))

    task.process(records((0, 10, b"a", long(1)), (1, 4, b"a", long(1)), (2, 12, b"a", long(1))))
    task.process(records((3, 9, b"a", long(1)), (4, 50, b"a", b"bad")))

    lateness = task.lateness
    assert (lateness.total_ms, lateness.max_ms, lateness.records) == (6 + 3, 6, 4)
    assert task.stream_time_ms == 12


def test_a_chunk_without_records_changes_nothing():
    task = started(topology_of(counted))

    result = task.process(records())

    assert [table.num_rows for table in (result.outputs["counts"], result.dropped, result.dead_letters)] == [0, 0, 0]
    assert books(task) == (0, 0, 0, 0)
    assert task.stream_time_ms == -1


def test_a_chunk_of_nothing_but_undecodable_records_has_outputs_without_rows():
    task = started(topology_of(counted))

    result = task.process(records((0, 1, b"a", b"bad"), (1, 2, b"a", b"bad")))

    assert result.outputs["counts"].num_rows == 0
    assert books(task) == (2, 0, 0, 2)


def test_columns_may_come_in_pieces():
    task = started(topology_of(counted))
    pieces = [records((n, n, b"a", long(n))) for n in range(3)]

    result = task.process(pa.concat_tables(pieces))

    assert result.outputs["counts"]["value"].to_pylist() == [1, 2, 3]


# --- repartition ---------------------------------------------------------------------------------------------


def test_a_repartition_has_the_serialized_record_its_target_and_the_clock_of_the_tape():
    topology = topology_of(lambda stream: stream.group_by("value % 3").count().to("counts"))
    task = Task(
        topology,
        topology.sub_topologies[0],
        repartition_counts={"KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition": 4},
    )
    task.resume({}, {})

    result = task.process(records((0, 10, b"a", long(4)), (1, 8, b"b", None), (2, 9, None, long(6))))

    (written,) = result.repartitions.values()
    rows = written.select(["cause", "send", "timestamp", "key", "value"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, 0, 10, long(1), long(4)),
        (2, 1, 9, long(0), long(6)),
    ]
    assert set(written["target"].to_pylist()) <= set(range(4))
    assert books(task) == (3, 2, 0, 0)
    assert task.counts.left_out == 1  # a null key, which Kafka's repartition leaves out


def test_a_large_hopping_window_makes_chunks_small():
    """
    A day of windows a second apart: each record updates 86,400 windows.
    """

    def build(stream: KStream) -> None:
        stream.group_by_key().windowed_by(TimeWindows.of_size("1d").advance_by("1s")).count().to("counts")

    topology = topology_of(build)

    assert Task(topology, topology.sub_topologies[0]).chunk_records == max(1, CHUNK_RECORDS // 86_400)
