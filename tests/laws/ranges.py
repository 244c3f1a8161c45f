"""Topologies of which ranges are made again, drawn by a seed, and the records that they are tried on."""

import random
from collections.abc import Callable
from functools import partial

from kstreams_replay.jobs.functions.processor_api import Processor, Record
from kstreams_replay.jobs.topology import (
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
)
from tests.planted import LandedRecord

STRING = Serde.string()


def partitions(seed: int) -> int:
    """One or two: with two, few records come to a task behind a repartition."""
    return 1 + seed % 2


def tapes(seed: int, records: int) -> dict[str, list[LandedRecord]]:
    """Two topics: out of order, with late records, ties, tombstones and null keys."""
    dice = random.Random(seed)
    found: dict[str, list[LandedRecord]] = {"orders": [], "payments": []}
    now = 1_000
    for _ in range(records):
        now += dice.choice((0, 1, 5, 9, 30))
        key = dice.choice((b"a", b"b", b"c", b"d", b"e", b"f", None))
        value = dice.choice((b"x", b"y", b"z", b"w", None))
        topic = dice.choice(("orders", "orders", "payments"))
        partition = 0 if key is None else key[0] % partitions(seed)
        found[topic].append(LandedRecord(partition, key, value, now - dice.choice((0, 0, 0, 3, 15, 60))))
    return found


def _orders(builder: StreamsBuilder) -> KStream:
    return builder.stream("orders", Consumed(STRING, STRING))


def _pair(left: object, right: object) -> str:
    return f"{left}+{right}"


def tumbling(seed: int) -> Topology:
    """Windows by key, as they come and final."""
    dice, builder = random.Random(seed), StreamsBuilder()
    windows = TimeWindows.of_size(dice.choice((20, 50)), grace=dice.choice((0, 10, 30)))
    counts = _orders(builder).group_by_key().windowed_by(windows).count(Materialized.as_("counts"))
    counts.to("counts")
    counts.suppress(Suppressed.until_window_closes(name="held")).to("final")
    return builder.build()


def chained(seed: int) -> Topology:
    """Final windows by key that are counted by value in windows of their own, with a step that lets few through."""
    dice, builder = random.Random(seed), StreamsBuilder()
    few = _orders(builder).filter("value IN ('x', 'y')")
    windows = SlidingWindows.of_time_difference(dice.choice((10, 25)), grace=dice.choice((5, 20)))
    (
        few.group_by("value", name="by-value")
        .windowed_by(windows)
        .count(Materialized.as_("by-value"))
        .suppress(Suppressed.until_window_closes(name="held"))
        .to_stream()
        .map_values("value % 3", returns=Serde.long())
        .select_key("value", returns=Serde.long())
        .group_by_key()
        .windowed_by(TimeWindows.of_size(40, grace=30).advance_by(20))
        .count(Materialized.as_("by-count"))
        .to("by-count")
    )
    few.reorder_within(dice.choice((5, 40)), name="calm").to("in-order")
    return builder.build()


class Moved(Processor):
    """Forwards every record at another time."""

    def process(self, record: Record) -> None:
        self.context.forward(record.with_timestamp(max(0, record.timestamp_ms - 500)))


def joined(seed: int, *, moves: bool = False) -> Topology:
    """Two streams in a join of their windows, both by another key in half of the topologies. ``moves``: beside a
    processor that takes both, with windows below it.
    """
    dice, builder = random.Random(seed), StreamsBuilder()
    orders, payments = _orders(builder), builder.stream("payments", Consumed(STRING, STRING))
    if moves:
        moved = orders.merge(payments).process(Moved, returns_key=STRING, returns=STRING, name="moved")
        moved.to("moved")
        windows_below = moved.group_by("value").windowed_by(TimeWindows.of_size(30, grace=10_000))
        windows_below.count(Materialized.as_("moved-counts")).to("moved-counts")
    windows = JoinWindows.of_time_difference_and_grace(dice.choice((5, 20)), dice.choice((0, 15)))
    if seed % 2:
        orders, payments = orders.select_key("value"), payments.select_key("value")
    join = dice.choice((orders.join, orders.left_join, orders.outer_join))
    paid = join(payments, _pair, windows, returns=STRING, name="paid")
    paid.to("paid")
    (
        paid.group_by_key()
        .windowed_by(TimeWindows.of_size(30, grace=20))
        .count(Materialized.as_("paid-counts"))
        .suppress(Suppressed.until_window_closes(name="held"))
        .to("paid-counts")
    )
    return builder.build()


def sessions(seed: int) -> Topology:
    """Sessions by key, final ones counted by their number of records in windows."""
    dice, builder = random.Random(seed), StreamsBuilder()
    windows = SessionWindows.with_inactivity_gap(dice.choice((5, 20)), grace=dice.choice((0, 10)))
    stream = _orders(builder)
    grouped = stream.group_by_key() if seed % 2 else stream.group_by("value", name="by-value")
    counts = grouped.windowed_by(windows).count(Materialized.as_("sessions"))
    counts.to("sessions")
    final = counts.suppress(Suppressed.until_window_closes(name="held")).to_stream()
    final.to("final")
    (
        final.select_key("value", returns=Serde.long())
        .group_by_key()
        .windowed_by(TimeWindows.of_size(50, grace=100))
        .count(Materialized.as_("lengths"))
        .to("lengths")
    )
    return builder.build()


def kept(seed: int, *, without: str = "") -> Topology:
    """Tables, counts and a deduplication, which keep what a key has, beside windows. ``without``: a value of orders
    that is left out.
    """
    builder = StreamsBuilder()
    orders = _orders(builder).filter(f"value IS NULL OR value != '{without}'")
    orders.deduplicate_by_key(10 + seed, name="unique").to("unique")
    users = builder.table("payments", Consumed(STRING, STRING), materialized=Materialized.versioned("users", 200))
    orders.left_join(users, lambda left, right: f"{left}+{right}", returns=STRING, name="with-user").to(
        "orders-and-users"
    )
    orders.group_by_key().count(Materialized.as_("totals")).to("totals")
    windows = TimeWindows.of_size(30, grace=10)
    orders.group_by("value").windowed_by(windows).count(Materialized.as_("values")).to("values")
    return builder.build()


KINDS: dict[str, Callable[[int], Topology]] = {
    "tumbling": tumbling,
    "chained": chained,
    "joined": joined,
    "beside a processor": partial(joined, moves=True),
    "sessions": sessions,
    "kept": kept,
}
