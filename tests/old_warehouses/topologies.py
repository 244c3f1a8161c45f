"""The pipelines of the warehouses that earlier versions wrote: every operator, every kind of window, store and fold.

Rule: frozen. Those warehouses were written with these topologies; a change would be a change of code, which an
old pipeline refuses. An operator that is new goes into the next fixture's topology, beside these.
"""

from kstreams_replay.jobs.functions.processor_api import (
    Cancellable,
    KeyValues,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
)
from kstreams_replay.jobs.topology import (
    BufferConfig,
    Consumed,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
    fold,
)

STRING, LONG = Serde.string(), Serde.long()
TEXTS, CLICKS = Consumed(STRING, STRING), Consumed(STRING, Serde.json("page string, ms long"))


def steps() -> Topology:
    """Steps, branches, deduplication, processors, and joins of a stream with everything."""
    builder = StreamsBuilder()
    orders, payments = builder.stream("orders", TEXTS), builder.stream("payments", TEXTS)
    users = builder.table("users", TEXTS, materialized=Materialized.versioned("users", 300))
    items = builder.table("items", Consumed(STRING, LONG), materialized=Materialized.as_("items"))
    pages = builder.global_table("pages", TEXTS, materialized=Materialized.as_("pages"))
    _stateless(orders, payments)
    _once(orders)
    orders.join(users, _pair, grace=20, returns=STRING, name="with-user").to("orders-with-users")
    orders.left_join(items, _pair, returns=STRING).to("orders-and-items")
    orders.join(pages, _pair, selector=_first, selector_returns=STRING, returns=STRING).to("orders-with-pages")
    orders.left_join(pages, _pair, selector="value", returns=STRING).to("orders-and-pages")
    windows = JoinWindows.of_time_difference_and_grace(15, 10)
    orders.join(payments, _pair, windows, returns=STRING, name="paid-twice").to("paid-inner")
    orders.left_join(payments, _pair, windows.before(5), returns=STRING, name="maybe-paid").to("paid-left")
    orders.outer_join(payments, _pair, windows, returns=STRING, name="paid").to("paid-outer")
    return builder.build()


def _stateless(orders: KStream, payments: KStream) -> None:
    named = orders.filter("value IS NOT NULL").filter_not("value = 'd4'").map_values(_twice, returns=STRING)
    named.peek(_nothing).to("named")
    named.flat_map_values(_letters, returns=STRING).to("letters")
    named.flat_map(_both_ways, returns_key=STRING, returns=STRING).repartition(name="both-ways").to("both-ways")
    named.map(_swapped, returns_key=STRING, returns=STRING).select_key("value").to("swapped")
    branches = named.split(name="by-value-").branch("value < 'b'", name="low").default_branch(name="rest")
    branches["by-value-low"].merge(payments).to("merged")
    branches["by-value-rest"].foreach(_nothing)


def _once(orders: KStream) -> None:
    orders.deduplicate_by_key(15, name="by-key").to("by-key")
    orders.deduplicate_by_key_value("value", 15, name="by-both").to("by-both")
    orders.deduplicate("value", 15, name="by-id").to("by-id")
    orders.group_by_key().windowed_by(TimeWindows.of_size(30, grace=10)).distinct("value").to("distinct")
    orders.reorder_within(10, name="ordered").to("ordered")
    orders.process(Count, [KeyValues("seen", STRING, LONG)], returns=LONG, name="counting").to("counted")


def windows(least_ms: int = 0) -> Topology:
    """Aggregates of streams, in every kind of windows and without any, suppressed and not. ``least_ms``: what the code
    of the branch differs in.
    """
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", CLICKS)
    grouped = clicks.group_by_key()
    grouped.count(Materialized.as_("counts")).to("counts")
    grouped.count(Materialized.versioned("versioned-counts", 300)).to("versioned-counts")
    grouped.aggregate(
        clicks=fold.count(),
        total=fold.sum("ms"),
        least=fold.min("ms"),
        most=fold.max("ms"),
        mean=fold.mean("ms"),
        first=fold.first("page"),
        last=fold.last("page"),
        quickest=fold.min_by("page", by="ms"),
        slowest=fold.max_by("page", by="ms"),
        pages=fold.collect("page"),
        materialized=Materialized.as_("every-fold"),
    ).to("every-fold")
    clicks.map_values("page", returns=STRING).group_by_key().reduce(
        _longest, materialized=Materialized.as_("longest", store="in_memory")
    ).to("longest")
    _time_windows(clicks, least_ms)
    _sessions(clicks)
    return builder.build()


def _time_windows(clicks: KStream, least_ms: int) -> None:
    grouped, hopping = clicks.group_by_key(), TimeWindows.of_size(30, grace=10).advance_by(10)
    hopping_counts = grouped.windowed_by(hopping).count(Materialized.as_("hopping"))
    hopping_counts.suppress(Suppressed.until_window_closes(name="final-hopping")).to("hopping")
    grouped.windowed_by(TimeWindows.of_size(30)).emit_strategy("on_window_close").count(
        Materialized.as_("tumbling", store="in_memory")
    ).to("tumbling")
    grouped.windowed_by(UnlimitedWindows.of(150)).count(Materialized.as_("unlimited")).to("unlimited")
    grouped.windowed_by(SlidingWindows.of_time_difference(20, grace=10)).aggregate(
        initializer=str, aggregator=_initials, returns=STRING, materialized=Materialized.as_("sliding")
    ).to("sliding")
    by_page = clicks.filter(f"ms >= {least_ms}").group_by("page").windowed_by(TimeWindows.of_size(30, grace=10))
    spilling = BufferConfig.max_records(2).spill_to_disk_when_full()
    counts = by_page.count(Materialized.as_("by-page"))
    counts.suppress(Suppressed.until_window_closes(spilling, name="final-by-page")).to("by-page")


def _sessions(clicks: KStream) -> None:
    gaps = clicks.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(20, grace=15))
    sessions = gaps.aggregate(
        clicks=fold.count(),
        last=fold.last("page"),
        pages=fold.collect("page"),
        materialized=Materialized.as_("sessions"),
    )
    sessions.suppress(Suppressed.until_window_closes(name="final-sessions")).to("sessions")
    gaps.aggregate(
        initializer=str,
        aggregator=_initials,
        merger=_merged,
        returns=STRING,
        materialized=Materialized.as_("initials"),
    ).to("initials")


def together() -> Topology:
    """Aggregates of two streams. On its own since the fingerprint of a cogroup was another one in every process."""
    builder = StreamsBuilder()
    clicks, orders = builder.stream("clicks", CLICKS), builder.stream("orders", TEXTS)
    both = clicks.map_values("page", returns=STRING).group_by_key().cogroup(_appended)
    both = both.cogroup(orders.group_by_key(), _appended)
    both.aggregate(str, returns=STRING, materialized=Materialized.as_("together")).to("together")
    both.windowed_by(TimeWindows.of_size(30, grace=10)).aggregate(
        str, returns=STRING, materialized=Materialized.as_("together-windowed")
    ).to("together-windowed")
    return builder.build()


def tables() -> Topology:
    """Tables: steps, groups, joins of every kind, suppressed for a time."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", TEXTS)
    users = builder.table("users", TEXTS, materialized=Materialized.as_("users"))
    items = builder.table("items", Consumed(STRING, LONG), materialized=Materialized.as_("items"))
    newest = orders.to_table(materialized=Materialized.as_("newest"))
    history = users.filter("value != 'a1'", materialized=Materialized.versioned("history", 300))
    history.group_by("value", "record_key", name="in-history").count(Materialized.as_("history-counts")).to("history")
    items.filter_not("value > 5", materialized=Materialized.as_("cheap")).to("cheap")
    users.map_values(_twice, returns=STRING, materialized=Materialized.as_("twice")).to("twice")
    _joins(newest, users, items)
    _groups(users, items)
    return builder.build()


def _joins(newest: KTable, users: KTable, items: KTable) -> None:
    newest.join(users, _pair, returns=STRING, materialized=Materialized.as_("joined")).to("joined")
    newest.left_join(users, _pair, returns=STRING).to("joined-left")
    newest.outer_join(items, _pair, returns=STRING).to("joined-outer")
    options = {"foreign_key": _key_of, "foreign_key_returns": STRING, "returns": STRING}
    newest.join(items, _pair, **options, materialized=Materialized.as_("priced")).to("priced")
    newest.left_join(items, _pair, **options, name="maybe-priced").to("maybe-priced")


def _groups(users: KTable, items: KTable) -> None:
    counts = users.group_by("value", "record_key", name="by-name").count(Materialized.as_("users-by-name"))
    counts.suppress(Suppressed.until_time_limit(30, name="calm", max_records=2)).to("calm")
    counts.suppress(Suppressed.until_time_limit(30, name="slow")).to("slow")
    counts.to("users-by-name")
    by_size = items.group_by("value % 2", "value", name="by-size")
    by_size.sum(materialized=Materialized.as_("sums")).to("sums")
    by_size.reduce(_sum, _difference, materialized=Materialized.as_("reduced")).to("reduced")
    users.group_by("value", "record_key", name="names").aggregate(
        initializer=str,
        adder=_appended,
        subtractor=_removed,
        returns=STRING,
        materialized=Materialized.as_("names"),
    ).to("names")


TOPOLOGIES = {"steps": steps, "windows": windows, "together": together, "tables": tables}


class Count(Processor):
    """How many records each key had, sent on whenever stream time passes a multiple of 50."""

    schedule: Cancellable

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.schedule = context.schedule(50, PunctuationType.STREAM_TIME, self._tell)

    def process(self, record: Record) -> None:
        """Count it."""
        if record.key is not None:
            counts = self.context.store("seen")
            counts.put(record.key, 1 + (counts.get(record.key) or 0))

    def _tell(self, _stream_time_ms: int) -> None:
        for key, count in self.context.store("seen").all():
            self.context.forward(key, count)


def _pair(left: object, right: object) -> str:
    return f"{left}+{right}"


def _twice(_key: object, value: str | None) -> str | None:
    return None if value is None else value + value


def _nothing(_key: object, _value: object) -> None:
    """Sees a record, and does nothing."""


def _letters(_key: object, value: str | None) -> list[str]:
    return list(value or "")


def _both_ways(key: str, value: str) -> list[tuple[str, str]]:
    return [(key, value), (value, value)]


def _swapped(key: str, value: str) -> tuple[str, str]:
    return value, str(key)


def _first(_key: str, value: str | None) -> str | None:
    return None if value is None else value[:1]


def _key_of(_key: str, value: str | None) -> str | None:
    return None if value is None else value[:1]


def _longest(one: str, other: str) -> str:
    return max(one, other or "", key=len)


def _appended(_key: str, value: str, text: str) -> str:
    return (text or "") + str(value)[:1]


def _removed(_key: str, value: str, text: str) -> str:
    return text.replace(str(value)[:1], "", 1)


def _initials(_key: str, value: dict | None, text: str) -> str | None:
    if value is None:
        return (text or "") + "-"
    return None if value["ms"] == 13 else (text or "") + value["page"][0]


def _merged(_key: str, one: str, other: str) -> str:
    return (one or "") + (other or "")


def _sum(one: int, other: int) -> int:
    return one + other


def _difference(one: int, other: int) -> int:
    return one - other
