"""Streams joined with tables: what is looked up when, what waits, what is refused (KIP-914, KIP-923, KIP-962)."""

import random
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from kstreams_replay.jobs.tape.task_input import TapeChunk
from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, KTable, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import NullKey
from tests.operators.cut_tapes import TEXTS, Output, Record, play_task, topology_of
from tests.operators.tables.versioned_model import StreamTableModel
from tests.task.task_tapes import books, records

PAIR = "left || '+' || coalesce(right, '-')"
KEYS = ("a", "b", "a\0", "ab")


def joined(kind: str, *, retention: int | None, grace: int | None = None) -> Topology:
    """Stream S with table T. ``retention``: of a versioned table's history, None for a plain table; times in ms."""

    def build(builder: StreamsBuilder):
        stream = builder.stream("S", TEXTS)
        table = builder.table("T", TEXTS, materialized=None if retention is None else versioned(retention))
        join = stream.join if kind == "inner" else stream.left_join
        return join(table, PAIR, grace=None if grace is None else f"{grace}ms")

    return topology_of(build)


def versioned(retention: int) -> Materialized:
    return Materialized.versioned("t", f"{retention}ms")


def results(topology: Topology, tape: list[Record]) -> list[tuple]:
    """(step, value, time) of every result."""
    return [(out.step, out.value, out.time_ms) for out in play_task(topology, tape).outputs]


def test_a_plain_table_is_looked_up_as_it_stands_when_the_record_comes():
    tape = [("S", "a", "s0", 5), ("T", "a", "new", 10), ("T", "a", "old", 3), ("S", "a", "s3", 5), ("T", "a", None, 4)]

    assert results(joined("inner", retention=None), tape) == [(3, "s3+old", 5)]
    assert results(joined("left", retention=None), [*tape, ("S", "a", "s5", 9)]) == [
        (0, "s0+-", 5),
        (3, "s3+old", 5),
        (5, "s5+-", 9),
    ]


@pytest.mark.parametrize(
    ("time_ms", "found"),
    [(9, "-"), (10, "v1"), (19, "v1"), (20, "v2"), (29, "v2"), (30, "-"), (40, "-")],  # deleted at 30
)
def test_a_versioned_table_is_looked_up_as_of_the_records_time(time_ms, found):
    tape = [("T", "a", "v1", 10), ("T", "a", None, 30), ("T", "a", "v2", 20), ("S", "a", "s", time_ms)]

    assert results(joined("left", retention=100), tape) == [(3, f"s+{found}", time_ms)]
    assert results(joined("inner", retention=100), tape) == ([] if found == "-" else [(3, f"s+{found}", time_ms)])


def test_a_table_is_looked_up_as_of_a_time_through_filter_and_map_values_too():
    def build(builder: StreamsBuilder):
        table = builder.table("T", TEXTS, materialized=versioned(100))
        shown = table.filter("value <> 'v2'").map_values("value || '!'")
        return builder.stream("S", TEXTS).left_join(shown, PAIR)

    tape = [("T", "a", "v1", 10), ("T", "a", "v3", 30), ("T", "a", "v2", 20)]
    asked = [("S", "a", "s", 15), ("S", "a", "s", 25), ("S", "a", "s", 30)]

    assert results(topology_of(build), [*tape, *asked]) == [(3, "s+v1!", 15), (4, "s+-", 25), (5, "s+v3!", 30)]


def test_a_materialized_filter_of_a_versioned_table_is_a_plain_table():
    def build(builder: StreamsBuilder):
        table = builder.table("T", TEXTS, materialized=versioned(100)).filter("true", materialized=Materialized("f"))
        return builder.stream("S", TEXTS).left_join(table, PAIR)

    tape = [("T", "a", "v1", 10), ("T", "a", "v3", 30), ("T", "a", "v2", 20), ("S", "a", "s", 15)]

    assert results(topology_of(build), tape) == [(3, "s+v2", 15)]


@pytest.mark.parametrize(
    ("kind", "passes", "refused"),
    [
        ("inner", [], [(0, "null-key"), (1, "null-value"), (2, "null-value")]),
        ("left", [(0, "s0+-", 1)], [(1, "null-value"), (2, "null-value")]),
    ],
)
def test_null_values_are_refused_and_null_keys_unless_the_join_is_left(kind, passes, refused):
    got = play_task(joined(kind, retention=None), [("S", None, "s0", 1), ("S", "a", None, 2), ("S", None, None, 3)])

    assert [(out.step, out.value, out.time_ms) for out in got.outputs] == passes
    assert sorted(map(tuple, got.dropped)) == refused


def test_a_record_waits_until_the_grace_has_passed_and_then_sees_versions_that_came_meanwhile():
    tape = [
        ("T", "a", "v0", 0),
        ("S", "a", "s1", 10),
        ("T", "a", "v2", 10),
        ("S", "b", "s3", 19),
        ("T", "a", "v4", 12),
        ("S", "b", "s5", 20),  # 20 - 10 reaches 10
    ]

    assert results(joined("left", retention=100, grace=10), tape) == [(5, "s1+v2", 10)]


@pytest.mark.parametrize(
    ("time_ms", "outputs"),
    [
        (9, [(1, "s1+-", 9)]),  # older than 20 - 10: joined at once, and nothing leaves because of it
        (10, [(1, "s1+-", 10)]),  # just in time: waits, and leaves at once
        (11, []),
    ],
)
def test_a_record_older_than_the_grace_does_not_wait(time_ms, outputs):
    got = results(joined("left", retention=100, grace=10), [("S", "a", "s0", 20), ("S", "a", "s1", time_ms)])

    assert got == outputs


def test_only_records_that_wait_move_the_joins_time():
    tape = [
        ("S", "a", "s0", 10),
        ("T", "a", "v1", 90),
        ("S", "a", None, 90),  # refused
        ("S", "b", "s3", 15),
    ]
    got = play_task(joined("left", retention=100, grace=10), tape)

    assert got.outputs == []


def test_what_leaves_together_goes_by_time_then_by_serialized_key_then_as_it_came():
    keys = ["b", "a", "aa", "a", "a\0"]  # after "a" comes its sequence number, whose bytes begin with 0, 0, 0
    tape = [*(("S", key, f"s{n}", 10) for n, key in enumerate(keys)), ("S", "z", "s5", 9), ("S", "z", "s6", 30)]

    got = play_task(joined("left", retention=100, grace=20), tape)

    assert got.outputs == [
        Output(6, "z", "s5+-", 9),
        Output(6, "a\0", "s4+-", 10),
        Output(6, "a", "s1+-", 10),
        Output(6, "a", "s3+-", 10),
        Output(6, "aa", "s2+-", 10),
        Output(6, "b", "s0+-", 10),
    ]
    assert got.origins == [5, 4, 1, 3, 2, 0]


def test_a_null_key_ends_the_run_of_a_left_join_with_a_grace():
    driver = TopologyTestDriver(joined("left", retention=100, grace=10))
    for key, time_ms in (("a", 0), ("b", 20), (None, 25), ("c", 40)):
        driver.pipe_input("S", key, f"s{time_ms}", time_ms)

    with pytest.raises(NullKey, match="a key on every record that waits") as failure:
        driver.run()

    assert failure.value.arrival == 2
    assert [record.value for record in driver.read_outputs("out")] == ["s0+-"]


def random_tape(rng: random.Random, count: int, *, null_keys: bool) -> list[Record]:
    now, tape = 50, []
    for number in range(count):
        now += rng.choice([0, 0, 1, 2, 5, 15])
        side = rng.choice("ST")
        value = None if rng.random() < (0.3 if side == "T" else 0.05) else f"{side}{number}"
        key = None if null_keys and rng.random() < 0.05 else rng.choice(KEYS)
        tape.append((side, key, value, max(0, now - rng.choice([0, 0, 3, 10, 45]))))
    return tape


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(24))
def test_joins_agree_with_the_model_wherever_the_tape_is_cut(seed):
    rng = random.Random(seed)
    kind, retention = rng.choice(["inner", "left"]), rng.choice([0, 5, 30, 100])
    grace = rng.choice([None, 0, 3, 20, 30])
    grace = None if grace is None else min(grace, retention)
    tape = random_tape(rng, 90, null_keys=grace is None or kind == "inner")
    model = StreamTableModel(retention, grace, is_left=kind == "left")
    wanted = [result for step, record in enumerate(tape) for result in model.process(step, *record)]
    topology = joined(kind, retention=retention, grace=grace)

    whole = play_task(topology, tape)
    cut = play_task(topology, tape, chunks=rng.sample(range(90), 12), cuts=rng.sample(range(90), 8))

    assert whole.outputs == [
        Output(step, key, f"{left}+{right or '-'}", time_ms) for step, _, key, left, right, time_ms in wanted
    ]
    assert whole.origins == [origin for _, origin, *_ in wanted]
    assert sorted(drop.step for drop in whole.dropped) == model.dropped
    assert cut == whole


def test_a_cut_before_every_record_changes_nothing():
    tape = random_tape(random.Random(99), 60, null_keys=False)
    topology = joined("left", retention=30, grace=20)

    assert play_task(topology, tape, cuts=range(60)) == play_task(topology, tape)


# --- a versioned table that one join alone reads ------------------------------------------------------------------


def stream_with(*readers: Callable[[KStream, KTable], KStream]) -> Topology:
    """Stream S and the versioned table T, as each of ``readers`` joins them."""

    def build(builder: StreamsBuilder) -> KStream:
        stream, table = builder.stream("S", TEXTS), builder.table("T", TEXTS, materialized=versioned(100))
        first, *others = [reader(stream, table) for reader in readers]
        return reduce(KStream.merge, others, first)

    return topology_of(build)


def join(stream: KStream, table: KTable) -> KStream:
    return stream.join(table, PAIR)


def changes(stream: KStream, table: KTable) -> KStream:
    return table.to_stream()


def through_a_filter(stream: KStream, table: KTable) -> KStream:
    return stream.join(table.filter("value <> 'v2'"), PAIR)


@pytest.mark.parametrize(
    ("readers", "is_observed", "is_kept_once"),
    [
        ([join], False, True),
        ([join], True, False),
        ([join, join], False, False),
        ([join, changes], False, False),
        ([through_a_filter], False, False),
    ],
)
def test_versions_are_kept_once_where_one_join_alone_reads_them(readers, is_observed, is_kept_once):
    topology = stream_with(*readers)
    task = Task(topology, topology.sub_topologies[0], is_observed=is_observed)

    assert [view.is_replica for view in task.views] == [not is_kept_once] * len(task.views)


@pytest.mark.slow
@pytest.mark.sampled("grace")
@pytest.mark.parametrize("grace", [None, 20])
@pytest.mark.parametrize("seed", range(12))
def test_versions_kept_once_or_twice_give_the_same(seed, grace):
    """
    Refused changes, drops and durable rows included, wherever the tape is cut; an observed task has replicas.
    """
    rng = random.Random(seed)
    topology, tape = joined("inner", retention=30, grace=grace), random_tape(rng, 120, null_keys=True)
    where = {"chunks": rng.sample(range(120), 9), "cuts": rng.sample(range(120), 5)}

    once, twice = (play_task(topology, tape, is_observed=is_observed, **where) for is_observed in (False, True))

    assert "expired-version" in {drop.reason for drop in once.dropped}
    assert once == twice


@pytest.mark.parametrize("is_observed", [False, True])
def test_refused_changes_stand_before_what_the_join_refuses_in_the_same_chunk(is_observed):
    topology = joined("inner", retention=10)
    task = Task(topology, topology.sub_topologies[0], is_observed=is_observed)
    task.resume({}, {})
    stream, table = records((0, 5, b"a", None)), records((0, 50, b"a", b"v"), (1, 5, b"a", b"w"), (2, 60, None, b"x"))

    result = task.process(TapeChunk(np.array([0, 1, 1, 1], np.int16), (stream, table)))

    assert result.dropped["reason"].to_pylist() == ["null-key", "expired-version", "null-value"]
    assert books(task) == (4, 1, 3, 0)


# --- global tables -----------------------------------------------------------------------------------------------


def global_driver(kind: str, *, key: Serde | None = None) -> TopologyTestDriver:
    """Stream S, whose value's first word is a key of the global table G."""
    builder = StreamsBuilder()
    stream, table = (
        builder.stream("S", TEXTS),
        builder.global_table("G", Consumed(key or Serde.string(), Serde.string())),
    )
    selector = "nullif(split_part(value, ' ', 1), 'none')"
    join = stream.join if kind == "inner" else stream.left_join
    join(table, PAIR, selector=selector if key is None else f"cast({selector} as bigint)").to("out")
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_a_global_table_is_looked_up_by_the_selected_key(kind):
    driver = global_driver(kind)
    driver.pipe_input("G", "x", "gx", 100)
    driver.pipe_input("G", None, "nobody", 100)
    driver.pipe_input("S", "a", "x 1", 1)
    driver.pipe_input("S", None, "x 2", 2)  # its own key does not matter
    driver.pipe_input("S", "a", "y 3", 3)
    driver.pipe_input("S", "a", "none 4", 4)
    driver.pipe_input("S", "a", None, 5)
    driver.pipe_input("G", "x", None, 50)
    driver.pipe_input("S", "a", "x 6", 6)

    everywhere = [("a", "x 1+gx", 1), (None, "x 2+gx", 2)]
    only_left = [("a", "y 3+-", 3), ("a", "none 4+-", 4), ("a", "x 6+-", 6)]
    assert [record[:3] for record in driver.read_outputs("out")] == everywhere + (only_left if kind == "left" else [])
    reasons = ["null-key", "null-value"] if kind == "left" else ["null-key", "null-key", "null-value"]
    assert sorted(drop.reason for drop in driver.dropped) == reasons  # one of the table itself


def test_a_global_tables_keys_may_be_of_another_serde_than_the_streams():
    driver = global_driver("inner", key=Serde.long())
    driver.pipe_input("G", 7, "seven", 0)
    driver.pipe_input("S", "a", "7 x", 1)
    driver.pipe_input("S", "a", "8 x", 2)

    assert [record.value for record in driver.read_outputs("out")] == ["7 x+seven"]
