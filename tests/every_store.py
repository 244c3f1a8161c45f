"""A topology with a store of every kind."""

from kstreams_replay.jobs.functions.processor_api import (
    FixedKeyProcessor,
    FixedKeyRecord,
    KeyValues,
    Processor,
    Record,
)
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)

STRING, LONG = Serde.string(), Serde.long()


class Count(Processor):
    def process(self, record: Record) -> None:
        """
        Keeps how many records each key had.
        """
        counts = self.context.store("seen")
        counts.put(record.key, 1 + (counts.get(record.key) or 0))


class Counted(FixedKeyProcessor):
    def process(self, record: FixedKeyRecord) -> None:
        """
        The same, of a processor that keeps keys.
        """
        counts = self.context.store("met")
        counts.put(record.key, 1 + (counts.get(record.key) or 0))


def every_store() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(STRING, STRING))
    payments = builder.stream("payments", Consumed(STRING, STRING))
    prices = builder.table("prices", Consumed(STRING, LONG), materialized=Materialized.versioned("prices", "1d"))
    items = builder.table("items", Consumed(STRING, STRING), materialized=Materialized.as_("items"))
    _streams(orders, payments, prices)
    _aggregates(orders, payments)
    _tables(orders, items)
    orders.process_values(Counted, [KeyValues("met", STRING, LONG)], name="keeping").to("kept")
    return builder.build()


def _streams(orders: KStream, payments: KStream, prices: KTable) -> None:
    orders.join(prices, _pair, grace="2s", returns=STRING, name="priced").to("priced")
    orders.outer_join(payments, _pair, JoinWindows.of_time_difference_with_no_grace("1s"), returns=STRING).to("paid")
    orders.left_join(payments, _pair, JoinWindows.of("1s").grace("1s"), returns=STRING, name="at-once").to("at-once")
    orders.deduplicate_by_key("5s", name="by-key").to("by-key")
    orders.deduplicate_by_key_value("value", "5s", name="by-both").to("by-both")
    orders.deduplicate("value", "5s", name="by-id").to("by-id")
    orders.reorder_within("2s", name="ordered").to("ordered")
    orders.process(Count, [KeyValues("seen", STRING, LONG)], name="counting").to("processed")


def _aggregates(orders: KStream, payments: KStream) -> None:
    grouped, windows = orders.group_by_key(), TimeWindows.of_size("1s", grace="1s")
    grouped.count(Materialized.as_("plain-count")).to("plain-counts")
    grouped.count(Materialized.versioned("versioned-count", "1d")).to("versioned-counts")
    grouped.windowed_by(windows).distinct().to("distinct")
    sessions = grouped.windowed_by(SessionWindows.with_inactivity_gap("1s")).count(Materialized.as_("session-count"))
    sessions.suppress(Suppressed.until_window_closes(name="final")).to("sessions")
    both = grouped.cogroup(_longest).cogroup(payments.group_by_key(), _longest).windowed_by(windows)
    both.aggregate(str, returns=STRING, materialized=Materialized.as_("longest")).to("longest")


def _tables(orders: KStream, items: KTable) -> None:
    newest = orders.to_table(materialized=Materialized.as_("newest"))
    newest.join(items, _pair, foreign_key="value", returns=STRING, name="described").to("described")
    sizes = items.group_by("value", "record_key", name="by-name").count(Materialized.as_("items-by-name"))
    items.group_by("value", "record_key", name="listing").aggregate(
        first=fold.min("LENGTH(value)"), materialized=Materialized.as_("shortest-by-name")
    ).to("shortest-by-name")
    sizes.suppress(Suppressed.until_time_limit("30s", name="calm")).to("items-by-name")


def _pair(left: object, right: object) -> str:
    return f"{left}+{right}"


def _longest(key: str, value: str, longest: str) -> str:
    return max(value, longest, key=len)
