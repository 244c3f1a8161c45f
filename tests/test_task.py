"""A task: the verdict on every record, its clock, its books, and that chunks and increments change nothing."""

import json

import numpy as np
import pyarrow as pa
import pytest

from jobs.task import CHUNK_RECORDS, Result, Task
from jobs.topology import (
    Consumed,
    KStream,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)

FLIGHT = Serde.json("dest string, minutes long")
SCHEMA = pa.schema(
    [("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
)


def topology_of(build, *, key: Serde | None = None, value: Serde | None = None) -> Topology:
    builder = StreamsBuilder()
    build(builder.stream("in", Consumed(key or Serde.string(), value or Serde.long())))
    return builder.build()


def long(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def records(*rows: tuple[int, int, bytes | None, bytes | None]) -> pa.Table:
    """Rows of (offset, timestamp, key, value)."""
    columns = zip(*rows, strict=True) if rows else ([], [], [], [])
    return pa.table([pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def started(topology: Topology, number: int = 0) -> Task:
    task = Task(topology, topology.sub_topologies[number])
    task.resume({}, {})
    return task


def books(task: Task) -> tuple[int, int, int, int]:
    counts = task.counts
    assert counts.read == counts.applied + counts.dropped + counts.undecodable
    return counts.read, counts.applied, counts.dropped, counts.undecodable


def counted(stream: KStream) -> None:
    stream.group_by_key().windowed_by(TimeWindows.of_size(10)).count().to("counts")


# --- verdicts ------------------------------------------------------------------------------------------------


def test_an_undecodable_value_is_a_dead_letter_with_its_offset_bytes_and_reason():
    task = started(topology_of(counted))

    result = task.process(
        records((7, 1, b"a", long(5)), (8, 2, b"a", b"123"), (9, 3, b"a", b""), (12, 4, None, b"x"))
    )

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

    result = task.process(records((0, 20, b"a", long(1)), (1, 5, b"a", long(1)), (2, 6, None, long(500))))

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


def test_a_filtered_record_was_applied():
    task = started(topology_of(lambda stream: stream.filter("value > 5").to("out")))

    task.process(records((0, 1, b"a", long(1)), (1, 1, None, None)))

    assert books(task) == (2, 2, 0, 0)


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
    task = Task(topology, topology.sub_topologies[0], repartition_counts={"KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition": 4})
    task.resume({}, {})

    result = task.process(records((0, 10, b"a", long(4)), (1, 8, b"b", None), (2, 9, None, long(6))))

    (written,) = result.repartitions.values()
    rows = written.select(["cause_offset", "cause_time_ms", "timestamp", "key", "value"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, 10, 10, long(1), long(4)),
        (2, 10, 9, long(0), long(6)),
    ]
    assert set(written["target"].to_pylist()) <= set(range(4))
    assert books(task) == (3, 3, 0, 0)


# --- chunks and increments -----------------------------------------------------------------------------------

LATE = [
    (0, 5, b"a", long(1)),
    (1, 3, b"b", long(2)),
    (2, 17, None, long(3)),
    (3, 12, b"a", None),
    (4, 4, b"a", long(4)),
    (5, -1, b"a", long(5)),
    (6, 30, b"b", b"bad"),
    (7, 25, b"c", long(6)),
    (8, 14, b"a", long(7)),
    (9, 26, b"a", long(8)),
    (10, 27, b"aa", long(9)),
    (11, 60, b"b", long(10)),
    (12, 31, b"a", long(11)),
    (13, 61, b"a", long(12)),
    (14, 90, b"c", long(13)),
    (15, 90, b"a", long(14)),
]


def final_hops(stream: KStream) -> None:
    windows = TimeWindows.of_size(10, grace=3).advance_by(4)
    results = stream.group_by_key().windowed_by(windows).aggregate(n=fold.count(), last=fold.last("value"))
    results.suppress(Suppressed.until_window_closes()).to("out")


def final_sessions(stream: KStream) -> None:
    grouped = stream.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(6, grace=4))
    results = grouped.aggregate(all=fold.collect("value"), materialized=Materialized.as_("sessions", retention=40))
    results.suppress(Suppressed.until_window_closes(name="final")).to("out")


def sessions_in_python(stream: KStream) -> None:
    grouped = stream.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(6, grace=4))
    grouped.reduce(lambda one, other: None if other == 7 else one + other).to("out")


def plain_counts(stream: KStream) -> None:
    stream.filter("value IS NULL OR value <> 8").group_by_key().aggregate(n=fold.count(), mean=fold.mean("value")).to("out")


BUILDS = [final_hops, final_sessions, sessions_in_python, plain_counts, counted]


def everything(results: list[Result]) -> list[list[dict]]:
    """All tables of several chunks, one after the other."""
    outputs = [table for result in results for table in result.outputs.values()]
    tables = [outputs, [result.dropped for result in results], [result.dead_letters for result in results]]
    return [pa.concat_tables(pieces).to_pylist() for pieces in tables]


def in_order(rows: list[dict]) -> list[str]:
    return sorted(map(repr, rows))


def stores_of(task: Task) -> dict[str, list[str]]:
    return {name: in_order(operator.rows().to_pylist()) for name, operator in task.stores.items()}


def run_in_chunks(topology: Topology, size: int) -> tuple[Task, list[Result]]:
    task = started(topology)
    return task, [task.process(records(*LATE[at : at + size])) for at in range(0, len(LATE), size)]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_where_the_tape_is_cut_into_chunks_changes_nothing(build, size):
    topology = topology_of(build)
    whole, (want,) = run_in_chunks(topology, len(LATE))

    task, got = run_in_chunks(topology, size)

    outputs, dropped, dead = everything(got)
    want_outputs, want_dropped, want_dead = everything([want])
    assert outputs == want_outputs
    assert in_order(dropped) == in_order(want_dropped)
    assert dead == want_dead
    assert stores_of(task) == stores_of(whole)
    assert task.clocks() == whole.clocks()
    assert (task.counts, task.lateness) == (whole.counts, whole.lateness)


def applied(changes: pa.Table, before: dict[tuple, dict]) -> dict[tuple, dict]:
    """The durable rows after ``changes``. A deleted mark must name a row that is there."""
    after = dict(before)
    for row in changes.to_pylist():
        identity = row["key"], row.get("window_start_ms"), row.get("window_end_ms")
        if row.pop("deleted"):
            del after[identity]
        else:
            after[identity] = row
    return after


def run_in_increments(topology: Topology, cuts: list[int]) -> tuple[Task, list[Result]]:
    """A new task for each part of the tape, from the durable rows and clocks of the one before."""
    rows: dict[str, dict[tuple, dict]] = {}
    task, results = started(topology), []
    for begin, end in zip([0, *cuts], [*cuts, len(LATE)], strict=True):
        results.append(task.process(records(*LATE[begin:end])))
        rows = {name: applied(store.changes(), rows.get(name, {})) for name, store in task.stores.items()}
        tables = {
            name: pa.Table.from_pylist(list(rows[name].values()), schema=store.rows_schema())
            for name, store in task.stores.items()
        }
        resumed = Task(topology, topology.sub_topologies[0])
        resumed.resume(
            tables, task.clocks(), stream_time_ms=task.stream_time_ms, tape_time_ms=task.tape_time_ms
        )
        task = resumed
    return task, results


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("cuts", [[at] for at in range(17)] + [list(range(1, 16)), [3, 3, 9]], ids=str)
def test_where_the_tape_is_cut_into_increments_changes_nothing(build, cuts):
    topology = topology_of(build)
    whole, (want,) = run_in_chunks(topology, len(LATE))

    task, got = run_in_increments(topology, cuts)

    outputs, dropped, dead = everything(got)
    want_outputs, want_dropped, want_dead = everything([want])
    assert outputs == want_outputs
    assert in_order(dropped) == in_order(want_dropped)
    assert dead == want_dead
    assert stores_of(task) == stores_of(whole)
    assert task.clocks() == whole.clocks()


@pytest.mark.parametrize("build", BUILDS)
def test_an_increment_without_records_changes_no_row(build):
    topology = topology_of(build)
    task, _ = run_in_increments(topology, [8])

    task.process(records())

    assert [len(store.changes()) for store in task.stores.values()] == [0] * len(task.stores)


def test_a_large_hopping_window_makes_chunks_small():
    """
    A day of windows a second apart: each record updates 86,400 windows.
    """

    def build(stream: KStream) -> None:
        stream.group_by_key().windowed_by(TimeWindows.of_size("1d").advance_by("1s")).count().to("counts")

    topology = topology_of(build)

    assert Task(topology, topology.sub_topologies[0]).chunk_records == max(1, CHUNK_RECORDS // 86_400)


def test_stream_time_of_an_output_is_that_of_the_operator_that_emitted_it():
    topology = topology_of(final_hops)

    _, (result,) = run_in_chunks(topology, len(LATE))

    rows = result.outputs["out"].select(["window_end_ms", "stream_time_ms"]).to_pylist()
    assert rows
    assert all(row["window_end_ms"] <= row["stream_time_ms"] - 3 for row in rows)
    assert np.all(np.diff(result.outputs["out"]["stream_time_ms"].to_numpy()) >= 0)
