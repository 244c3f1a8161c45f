"""Skew: half of all records have one key, a fifth of them come anywhere among what is open, and time grows as records
do.

Rule: our own CPU time of eight times as many records is below 24 times as much: linear growth, with a logarithm and
colder caches, is 8 to 16, quadratic growth 64. The least of three runs counts, since to give a process its pages took
0.05 to 0.5 s of one and the same run. User time alone would not have that, but the system divides CPU time into user
and system time by samples, and of a run of a few milliseconds it gave 0. What is written is counted.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.operators.processor.sorted_rows import OrderedKeys
from kstreams_replay.jobs.topology import (
    BufferConfig,
    Consumed,
    JoinWindows,
    KStream,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)
from tests.growth.growth_tapes import STEP_MS, ColumnDriver, GrowthRecords, hot, hot_times

pytestmark = pytest.mark.slow

FEW, TIMES, BOUND, RUNS = 10_000, 8, 24, 3
FOREVER = 10**12
LONG, STRING = Serde.long(), Serde.string()
LONGS = Consumed(STRING, LONG)
SESSIONS = SessionWindows.with_inactivity_gap(4, grace=FOREVER)
TUMBLING = TimeWindows.of_size(10, grace=FOREVER)
HOPPING = TimeWindows.of_size(100, grace=FOREVER).advance_by(20)
SLIDING = SlidingWindows.of_time_difference(25, grace=FOREVER)
NARROW = JoinWindows.of_time_difference_and_grace(2, FOREVER)
SUM = "coalesce(left, 0) + coalesce(right, 0)"

Case = Callable[[int], tuple[Topology, dict[str, GrowthRecords]]]


def stream(build: Callable[[KStream], None]) -> Case:
    """A topology over one topic."""

    def case(records: int) -> tuple[Topology, dict[str, GrowthRecords]]:
        builder = StreamsBuilder()
        build(builder.stream("a", LONGS))
        return builder.build(), {"a": hot(records)}

    return case


def streams(build: Callable[[StreamsBuilder], None], *, step_ms: int = STEP_MS) -> Case:
    """A topology over the topics a and b. ``step_ms``: between records of b."""

    def case(records: int) -> tuple[Topology, dict[str, GrowthRecords]]:
        builder = StreamsBuilder()
        build(builder)
        return builder.build(), {"a": hot(records // 2), "b": hot(records // 2, step_ms=step_ms)}

    return case


def counted(windows: Any, *, closes: bool = False, suppressed: Suppressed | None = None) -> Case:
    """Count and sum; with final results only, or through a suppress."""

    def build(of: KStream) -> None:
        grouped = of.group_by_key().windowed_by(windows)
        grouped = grouped.emit_strategy("on_window_close") if closes else grouped
        table = grouped.aggregate(n=fold.count(), total=fold.sum())
        (table if suppressed is None else table.suppress(suppressed)).to("out")

    return stream(build)


def early(limit: Callable[[int], BufferConfig]) -> Case:
    """Windows that wait in a buffer which is full with a part of them."""

    def case(records: int) -> tuple[Topology, dict[str, GrowthRecords]]:
        return counted(TUMBLING, suppressed=Suppressed.until_time_limit(FOREVER, buffer=limit(records)))(records)

    return case


def joined_table(grace: str | None = None) -> Case:
    def build(builder: StreamsBuilder) -> None:
        table = builder.table("b", LONGS, materialized=Materialized.versioned("b", FOREVER))
        builder.stream("a", LONGS).join(table, SUM, grace=grace).to("out")

    return streams(build)


def joined_streams(kind: str, windows: JoinWindows) -> Case:
    def build(builder: StreamsBuilder) -> None:
        getattr(builder.stream("a", LONGS), kind)(builder.stream("b", LONGS), SUM, windows).to("out")

    return streams(build, step_ms=STEP_MS + 1)


def joined_tables(**options: Any) -> Case:
    def build(builder: StreamsBuilder) -> None:
        one, other = (builder.table(t, LONGS, materialized=Materialized.versioned(t, FOREVER)) for t in "ab")
        one.join(other, SUM, **options).to("out")

    return streams(build)


def subscribed(records: int) -> tuple[Topology, dict[str, GrowthRecords]]:
    """Half of all subscribe to one foreign key, whose value changes eight times."""
    builder = StreamsBuilder()
    texts = Consumed(STRING, STRING)
    one, other = (builder.table(topic, texts, materialized=Materialized.as_(topic)) for topic in "ab")
    one.join(other, "left", foreign_key="value", returns=STRING).to("out")
    subscribers = pa.array([f"p{number * 7_919 % records}" for number in range(records)])
    changes = GrowthRecords(hot_times(8), pa.array(["k0"] * 8), pa.array([str(number) for number in range(8)]))
    return builder.build(), {"a": GrowthRecords(hot_times(records), subscribers, hot(records).keys), "b": changes}


def globally_joined(builder: StreamsBuilder) -> None:
    table = builder.global_table("b", LONGS)
    builder.stream("a", LONGS).join(table, SUM, selector="record_key").to("out")


def add(key: str, value: int, total: int) -> int:
    return total + value


def merge(key: str, one: int, other: int) -> int:
    return one + other


def in_python(windows: Any) -> Case:
    """Aggregated record by record, and fewer of them."""

    def build(of: KStream) -> None:
        grouped = of.group_by_key().windowed_by(windows)
        mergers = [merge] if isinstance(windows, SessionWindows) else []
        grouped.aggregate(int, add, *mergers, returns=LONG).to("out")

    return lambda records: stream(build)(records // 10)


def collected(of: KStream) -> None:
    """All values of one session that never ends."""
    grouped = of.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(1_000, grace=FOREVER))
    grouped.aggregate(values=fold.collect()).suppress(Suppressed.until_window_closes()).to("out")


CASES: dict[str, Case] = {
    "sessions": counted(SESSIONS),
    "sessions that merge": counted(SessionWindows.with_inactivity_gap(9, grace=FOREVER)),
    "sessions at their close": counted(SESSIONS, closes=True),
    "sessions until they close": counted(SESSIONS, suppressed=Suppressed.until_window_closes()),
    "tumbling windows": counted(TUMBLING),
    "hopping windows until they close": counted(HOPPING, suppressed=Suppressed.until_window_closes()),
    "sliding windows": counted(SLIDING),
    "a buffer of so many records": early(lambda records: BufferConfig.max_records(records // 4)),
    "a buffer of so many bytes": early(lambda records: BufferConfig.max_bytes(20 * records)),
    "deduplicate": stream(lambda of: of.deduplicate_by_key_value("record_time_ms", FOREVER).to("out")),
    "reorder": stream(lambda of: of.reorder_within(FOREVER).to("out")),
    "a stream and a versioned table": joined_table(),
    "a stream and a versioned table with grace": joined_table("60s"),
    "two streams": joined_streams("join", NARROW),
    "two streams, outer": lambda records: joined_streams("outer_join", NARROW)(3 * records),
    "two tables": joined_tables(),
    "two tables and their history": joined_tables(history="complete"),
    "foreign keys": lambda records: subscribed(records // 4),
    "a global table": streams(globally_joined),
    "a list of all values": stream(collected),
    "sessions in Python": in_python(SESSIONS),
    "sliding windows in Python": in_python(SLIDING),
}
"""What is to grow no faster than the records."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Python's garbage collector, which looks at all that is alive now and then, is no step of ours."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def cpu_seconds(case: Case, records: int) -> float:
    """Of one run, state included."""
    topology, topics = case(records)
    driver = ColumnDriver(topology)
    driver.pipe_columns(topics)
    with uncollected():
        started = time.process_time()
        driver.run()
        for task in driver.tasks:
            for store in task.stores.values():
                store.changes()
        return time.process_time() - started


def least_below(bound: float, seconds: Callable[[], float]) -> float:
    """The least of three runs, or the first one that is below the bound, of which the least would be, too."""
    taken = [seconds()]
    while taken[-1] >= bound and len(taken) < RUNS:
        taken.append(seconds())
    return min(taken)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_time_grows_as_records_do_though_half_of_them_have_one_key(name):
    cpu_seconds(CASES[name], 100)  # compiles
    few = min(cpu_seconds(CASES[name], FEW) for _ in range(RUNS))

    assert least_below(BOUND * few, lambda: cpu_seconds(CASES[name], TIMES * FEW)) < BOUND * few


def test_keys_of_a_processors_store_are_put_in_order_as_fast_when_there_are_many():
    def seconds(keys: int) -> float:
        order, numbers = OrderedKeys([]), np.random.default_rng(1).permutation(keys).tolist()
        started = time.process_time()
        for number in numbers:
            order.add(number.to_bytes(4))
        for number in numbers[::2]:
            order.remove(number.to_bytes(4))
        return time.process_time() - started

    few = min(seconds(2 * FEW) for _ in range(RUNS))

    assert least_below(BOUND * few, lambda: seconds(TIMES * 2 * FEW)) < BOUND * few


STORED = {
    "sessions", "sessions at their close", "sliding windows", "deduplicate", "reorder", "two streams",
    "a stream and a versioned table with grace", "two tables and their history", "sessions until they close",
}  # fmt: skip
"""Cases in which the stores of a hot key grow with the records."""
INCREMENT, WRITTEN = 10, 80
"""Records of each topic of a small increment, and the most rows that it may write."""


def increment(before: ColumnDriver, case: Case) -> tuple[float, int]:
    """CPU seconds of a small increment after what ``before`` has taken, state included, and rows it writes."""
    topology, topics = case(2 * INCREMENT)
    driver = ColumnDriver(topology)
    with uncollected():
        started = time.process_time()
        driver.go_on_from(before)
        driver.pipe_columns(topics)
        driver.run()
        written = sum(len(store.changes()) for task in driver.tasks for store in task.stores.values())
        return time.process_time() - started, written


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(STORED))
def test_a_small_increment_writes_little_and_costs_what_reading_the_keys_rows_does(name):
    seconds, written = [], []
    for records in (FEW, TIMES * FEW):
        topology, topics = CASES[name](records)
        before = ColumnDriver(topology)
        before.pipe_columns(topics)
        before.run()
        runs = [increment(before, CASES[name]) for _ in range(RUNS)]
        seconds.append(min(taken for taken, _ in runs))
        written.append(max(rows for _, rows in runs))

    assert max(written) <= WRITTEN
    assert seconds[1] < BOUND * seconds[0]
