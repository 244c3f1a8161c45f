"""Small pipelines whose tables have something for every guarantee to judge.

Rule: each runs in several increments, and all guarantees hold of it before a mutant is written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kstreams_replay.jobs.topology import (
    BufferConfig,
    Consumed,
    JoinWindows,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from tests.planted import LandedRecord


@dataclass(frozen=True)
class GuaranteedPipeline:
    """``slice``: records of an increment."""

    topology: Callable[[], Topology]
    tapes: Mapping[str, list[LandedRecord]]
    partitions: int = 1
    slice: int = 5


TEXTS = Consumed(Serde.string(), Serde.string())


def tape(*records: tuple[str | None, str | None, int]) -> list[LandedRecord]:
    """(key, value, time) of partition 0."""
    return [
        LandedRecord(0, None if key is None else key.encode(), None if value is None else value.encode(), time_ms)
        for key, value, time_ms in records
    ]


def windows() -> Topology:
    """Counts in hopping windows: updates, and final results."""
    builder = StreamsBuilder()
    counts = (
        builder.stream("clicks", TEXTS)
        .group_by_key()
        .windowed_by(TimeWindows.of_size(20, grace=5).advance_by(10))
        .count(Materialized.as_("counts-store"))
    )
    counts.to_stream().to("updates")
    counts.suppress(Suppressed.until_window_closes(name="final")).to_stream().to("finals")
    return builder.build()


def sessions() -> Topology:
    """Sessions of users: updates, and final results from a buffer with a bound."""
    builder = StreamsBuilder()
    counts = (
        builder.stream("clicks", TEXTS)
        .group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap(10, grace=20))
        .count(Materialized.as_("sessions-store"))
    )
    counts.to_stream().to("updates")
    bound = BufferConfig.max_records(6).shut_down_when_full()
    counts.suppress(Suppressed.until_window_closes(bound, name="final")).to_stream().to("finals")
    return builder.build()


def pages() -> Topology:
    """Clicks under another key, and the first of every key in ten milliseconds."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXTS)
    clicks.deduplicate_by_key(10, name="first").to("firsts")
    clicks.select_key("value").group_by_key().count(Materialized.as_("pages-store")).to_stream().to("pages")
    return builder.build()


def counted_firsts() -> Topology:
    """How many of every key's clicks were the first in ten milliseconds."""
    builder = StreamsBuilder()
    firsts = builder.stream("clicks", TEXTS).deduplicate_by_key(10, name="first")
    firsts.group_by_key().count(Materialized.as_("counts-store")).to_stream().to("counts")
    return builder.build()


def counted_pairs() -> Topology:
    """How many pairs of clicks and views, or of one of them alone, there are of every key."""
    builder = StreamsBuilder()
    windows = JoinWindows.of_time_difference_and_grace(10, 5)
    left, right = builder.stream("clicks", TEXTS), builder.stream("views", TEXTS)
    pairs = left.outer_join(right, "coalesce(left, '-') || '+' || coalesce(right, '-')", windows)
    pairs.group_by_key().count(Materialized.as_("counts-store")).to_stream().to("counts")
    return builder.build()


def counted_finals() -> Topology:
    """How many final results there are of every user."""
    builder = StreamsBuilder()
    counts = (
        builder.stream("clicks", TEXTS)
        .group_by_key()
        .windowed_by(TimeWindows.of_size(20, grace=5))
        .count(Materialized.as_("counts-store"))
    )
    finals = counts.suppress(Suppressed.until_window_closes(name="final")).to_stream()
    finals.select_key("value").group_by_key().count(Materialized.as_("users-store")).to_stream().to("users")
    return builder.build()


def prices() -> Topology:
    """A table that keeps its history, and a stream that is joined with it as of its times."""
    builder = StreamsBuilder()
    table = builder.table("prices", TEXTS, materialized=Materialized.versioned("prices-store", 1000))
    builder.stream("clicks", TEXTS).join(table, "left || '@' || right").to("priced")
    return builder.build()


def counted_prices() -> Topology:
    """Clicks of which some are left out, joined with versions of prices, and counted by what came of it."""
    builder = StreamsBuilder()
    table = builder.table("prices", TEXTS, materialized=Materialized.versioned("prices-store", 1000))
    priced = builder.stream("clicks", TEXTS).filter("value <> '5'").join(table, "left || '@' || right")
    priced.select_key("split_part(value, '@', 2)").group_by_key().count(Materialized.as_("counts")).to_stream().to("n")
    return builder.build()


def orders() -> Topology:
    """Two tables joined by the customer that an order names."""
    builder = StreamsBuilder()
    orders, customers = builder.table("orders", TEXTS), builder.table("customers", TEXTS)
    orders.join(customers, "left || '@' || right", foreign_key="split_part(value, ':', 1)").to_stream().to("billed")
    orders.left_join(
        customers, "left || '@' || coalesce(right, '-')", foreign_key="split_part(value, ':', 1)"
    ).to_stream().to("all_orders")
    return builder.build()


def pairs() -> Topology:
    """Two streams joined within ten milliseconds, both of them outer."""
    builder = StreamsBuilder()
    windows = JoinWindows.of_time_difference_and_grace(10, 5)
    left, right = builder.stream("clicks", TEXTS), builder.stream("views", TEXTS)
    left.outer_join(right, "left || '+' || right", windows).to("pairs")
    return builder.build()


CLICKS = tape(
    ("ann", "1", 3),
    ("bob", "2", 9),
    ("ann", "3", 14),
    ("ann", "4", 27),
    ("bob", "5", 2),  # late for [0, 20)
    ("cid", "6", 41),
    ("ann", "7", 44),
    ("bob", "8", 47),
    ("cid", "9", 66),
    ("ann", "10", 93),
)

VISITS = tape(
    ("ann", "home", 3),
    ("bob", "cart", 9),
    ("ann", "home", 20),  # a session of its own
    ("bob", "home", 26),
    ("ann", "cart", 12),  # joins both of ann's
    ("cid", "cart", 41),
    ("ann", "home", 47),
    ("bob", "help", 70),
    ("cid", "home", 95),
    ("ann", "help", 130),
)

PRICES = tape(
    ("ann", "1", 5),
    ("bob", "2", 8),
    ("ann", "3", 15),
    ("ann", "4", 10),  # out of order
    ("bob", None, 30),
    ("bob", "5", 44),
    ("ann", "6", 60),
)

VIEWS = tape(
    ("ann", "a", 8),
    ("bob", "b", 30),
    ("ann", "c", 33),
    ("cid", "d", 60),
    ("ann", "e", 61),
    ("bob", "f", 90),
)

ORDERS = tape(
    ("o1", "ann:5", 3),
    ("o2", "bob:7", 9),
    ("o3", "cid:1", 14),  # before its customer
    ("o1", "bob:5", 27),  # another customer's now
    ("o4", "ann:2", 41),
    ("o2", None, 44),
    ("o5", "dan:2", 60),
)

CUSTOMERS = tape(
    ("ann", "A", 1),
    ("bob", "B", 2),
    ("cid", "C", 20),
    ("bob", "BB", 30),
    ("ann", None, 50),
    ("eve", "E", 61),
)

PIPELINES = {
    "windows": GuaranteedPipeline(windows, {"clicks": CLICKS}),
    "sessions": GuaranteedPipeline(sessions, {"clicks": VISITS}, slice=3),
    "pages": GuaranteedPipeline(pages, {"clicks": VISITS}, partitions=2, slice=3),
    "counted firsts": GuaranteedPipeline(counted_firsts, {"clicks": VISITS}, partitions=2, slice=3),
    "counted pairs": GuaranteedPipeline(counted_pairs, {"clicks": CLICKS, "views": VIEWS}),
    "counted finals": GuaranteedPipeline(counted_finals, {"clicks": CLICKS}),
    "prices": GuaranteedPipeline(prices, {"prices": PRICES, "clicks": CLICKS}),
    "counted prices": GuaranteedPipeline(counted_prices, {"prices": PRICES, "clicks": CLICKS}),
    "orders": GuaranteedPipeline(orders, {"orders": ORDERS, "customers": CUSTOMERS}),
    "pairs": GuaranteedPipeline(pairs, {"clicks": CLICKS, "views": VIEWS}),
}
