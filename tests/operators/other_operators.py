"""A topology of the operators that that of `replay warm-up` (``every_operator``) has not, over the same topics.

Windows of days, of all time and of a user's own class; the other joins; processors with a store of every kind, which
are asked for all of time, and with schedules.
"""

from typing import Any

from kstreams_replay import PunctuationType, Stores, Windowed
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KeyValues,
    KStream,
    KTable,
    Materialized,
    Processor,
    Record,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
)
from kstreams_replay.state.times import LATEST_MS

STRING, LONG = Serde.string(), Serde.long()
DO_NOT_SHIFT = ("all-time", "days-in-oslo", "days-in-oslo-final")
"""Outputs whose windows are no later when records are."""


class Minutes:
    """Windows of a user's own class: the minute of a record, and the one before."""

    def windows_for(self, timestamp_ms: int) -> dict[int, int]:
        start = timestamp_ms - timestamp_ms % 60_000
        return {each: each + 60_000 for each in (start, start - 60_000) if each >= 0}

    def size(self) -> int:
        return 60_000

    def grace_period_ms(self) -> int:
        return 10_000


class Asking(Processor):
    """Puts into a store of every kind, says what each has in all of time, and calls itself each 30 s."""

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule("30s", PunctuationType.STREAM_TIME, self.tick)

    def tick(self, timestamp_ms: int) -> None:
        self.context.forward(Record("tick", self.said(), timestamp_ms))

    def process(self, record: Record) -> None:
        context, at = self.context, record.timestamp_ms
        context.store("windows").put(record.key, record.value, at)
        context.store("kept-windows").put(record.key, record.value, at)
        context.store("sessions").put(Windowed(record.key, at, at), record.value)
        context.store("versions").put(record.key, record.value, at)
        version = context.store("versions").get(record.key, at)
        context.forward(record.with_value(f"{self.said()} {None if version is None else version.value}"))

    def said(self) -> str:
        """How many windows and sessions there are, from the first time to the last."""
        windows, kept = (
            len(list(self.context.store(name).fetch_all(0, LATEST_MS))) for name in ("windows", "kept-windows")
        )
        sessions = sum(len(list(self.context.store("sessions").find_sessions(key, 0, LATEST_MS))) for key in "xyz")
        return f"{windows} {kept} {sessions}"


ASKED = (
    Stores.window_store_builder(Stores.in_memory_window_store("windows", "5m", "1m"), STRING, STRING),
    Stores.window_store_builder(Stores.persistent_window_store("kept-windows", "5m", "1m"), STRING, STRING),
    Stores.session_store_builder(Stores.in_memory_session_store("sessions", "5m"), STRING, STRING),
    Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("versions", "5m"), STRING, STRING
    ),
)


def other_operators() -> Topology:
    """Built again with every call."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(STRING, Serde.json("page string, ms long, price double")))
    payments = builder.stream("payments", Consumed(STRING, STRING))
    prices = builder.table("prices", Consumed(STRING, LONG), materialized=Materialized.versioned("prices", "1d"))
    items = builder.table("items", Consumed(STRING, STRING), materialized=Materialized.as_("items"))
    everybody = builder.global_table("everybody", Consumed(STRING, STRING))
    _windows(orders)
    _joins(orders.map_values("page"), payments, prices, items)
    payments.left_join(everybody, _pair, selector="record_key", returns=STRING).to("perhaps-known")
    payments.process(Asking, ASKED, returns=STRING, name="asking").to("asked")
    values = [KeyValues("marked", STRING, LONG)]
    payments.process(_Marks, values, returns=LONG, name="marking").to("marks")
    return builder.build()


def sized(size_ms: int) -> Topology:
    """Every length that an operator may be given is ``size_ms``; hops are as few as may be."""
    builder = StreamsBuilder()
    payments = builder.stream("payments", Consumed(STRING, STRING))
    items = builder.stream("items", Consumed(STRING, STRING))
    prices = builder.table("prices", Consumed(STRING, LONG), materialized=Materialized.versioned("prices", size_ms))
    grouped = payments.group_by_key()
    windows: dict[str, Any] = {
        "times": TimeWindows.of_size(size_ms, grace=size_ms),
        "hops": TimeWindows.of_size(size_ms, grace=size_ms).advance_by(max(1, size_ms - 1)),
        "sessions": SessionWindows.with_inactivity_gap(size_ms, grace=size_ms),
        "slides": SlidingWindows.of_time_difference(size_ms, grace=size_ms),
    }
    for name, window in windows.items():
        counts = grouped.windowed_by(window).count()
        counts.to(name)
        counts.suppress(Suppressed.until_window_closes(name=f"{name}-final")).to(f"{name}-final")
        grouped.windowed_by(window).emit_strategy("on_window_close").count().to(f"{name}-closed")
    within = JoinWindows.of_time_difference_and_grace(size_ms, size_ms)
    payments.outer_join(items, _pair, within, returns=STRING, name="either").to("either")
    payments.left_join(items, _pair, within, returns=STRING, name="left").to("left")
    payments.join(prices, _pair, grace=size_ms, returns=STRING, name="priced").to("priced")
    payments.deduplicate_by_key(size_ms, name="once").to("once")
    payments.reorder_within(size_ms, name="ordered").to("ordered")
    newest = payments.to_table(materialized=Materialized.versioned("newest", size_ms))
    newest.group_by("value", "record_key", name="by-value").count(Materialized.as_("by-value")).to("by-value")
    items.to_table().suppress(Suppressed.until_time_limit(size_ms, name="calm")).to("calm")
    payments.process(lambda: _Marks(size_ms), [KeyValues("marked", STRING, LONG)], returns=LONG).to("marks")
    return builder.build()


def _windows(orders: KStream) -> None:
    by_key = orders.group_by_key()
    windows: dict[str, Any] = {
        "days": TimeWindows.of_days(zone="UTC", grace="10s"),
        "days-in-oslo": TimeWindows.of_days(2, zone="Europe/Oslo", start="06:00", grace="10s"),
        "own": Minutes(),
    }
    for name, window in windows.items():
        counts = by_key.windowed_by(window).count()
        counts.to(name)
        counts.suppress(Suppressed.until_window_closes(name=f"{name}-final")).to(f"{name}-final")
    by_key.windowed_by(UnlimitedWindows.of(0)).count().to("all-time")
    grouped = orders.map_values("page").group_by_key()
    grouped.windowed_by(SlidingWindows.of_time_difference("1m", grace="10s")).reduce(max).to("last-pages")
    both = grouped.cogroup(_longest)
    sessions = SessionWindows.with_inactivity_gap("1m", grace="10s")
    both.windowed_by(sessions).aggregate(str, _longest_of_two, returns=STRING).to("longest-of-sessions")


def _joins(pages: KStream, payments: KStream, prices: KTable, items: KTable) -> None:
    windows = JoinWindows.of_time_difference_and_grace("1m", "10s")
    payments.left_join(pages, _pair, windows, returns=STRING, name="perhaps").to("perhaps")
    payments.join(payments, _pair, windows.before("10s").after("30s"), returns=STRING, name="itself").to("itself")
    payments.join(prices, _pair, returns=STRING).to("priced-at-once")
    payments.left_join(prices, _pair, grace="2s", returns=STRING, name="perhaps-priced").to("perhaps-priced-late")
    payments.join(items, _pair, returns=STRING).to("with-item")
    newest = payments.to_table(materialized=Materialized.versioned("newest", "1d"))
    newest.join(items, _pair, returns=STRING).to("inner")
    newest.left_join(prices, _pair, returns=STRING).to("left")
    newest.left_join(items, _pair, foreign_key="value", returns=STRING, name="perhaps-described").to("left-described")
    newest.group_by("value", "record_key", name="by-value").count(Materialized.as_("by-value")).to("by-value")


def _pair(left: object, right: object) -> str:
    return f"{left}+{right}"


def _longest(key: str, value: str, longest: str) -> str:
    return max(value, longest, key=len)


def _longest_of_two(key: str, one: str, other: str) -> str:
    return max(one, other, key=len)


class _Marks(Processor):
    """Counts the records of every key, and forgets all of them each so often."""

    def __init__(self, interval_ms: int = 60_000) -> None:
        self.interval_ms = interval_ms

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule(self.interval_ms, PunctuationType.STREAM_TIME, self.forget)

    def forget(self, timestamp_ms: int) -> None:
        marks = self.context.store("marked")
        for key, _ in list(marks.all()):
            marks.delete(key)
        self.context.forward(Record("forgotten", 0, timestamp_ms))

    def process(self, record: Record) -> None:
        marks = self.context.store("marked")
        marks.put(record.key, 1 + (marks.get(record.key) or 0))
        self.context.forward(record.with_value(marks.get(record.key)))
