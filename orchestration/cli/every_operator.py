"""A topology with every operator and store, over which `replay warm-up` compiles when it is given none.

Rule: nobody replays it. An operator whose kernels are missing here is compiled when a topology first uses it.
"""

from typing import Any

from ...jobs.topology import (
    BufferConfig,
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
    fold,
)

_STRING, _LONG = Serde.string(), Serde.long()
_ORDER = "page string, ms long, price double"


def topology() -> Topology:
    """Built again with every call."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(_STRING, Serde.json(_ORDER)))
    payments = builder.stream("payments", Consumed(_STRING, _STRING))
    prices = builder.table("prices", Consumed(_STRING, _LONG), materialized=Materialized.versioned("prices", "1d"))
    items = builder.table("items", Consumed(_STRING, _STRING), materialized=Materialized.as_("items"))
    _aggregates(orders)
    _streams(orders, payments, prices)
    _tables(payments, items)
    everybody = builder.global_table("everybody", Consumed(_STRING, _STRING))
    payments.join(everybody, _pair, selector="record_key", returns=_STRING).to("known")
    return builder.build()


def _aggregates(orders: KStream) -> None:
    by_key = orders.filter("ms >= 0").group_by_key()
    windows: dict[str, Any] = {
        "tumbling": TimeWindows.of_size("1m", grace="10s"),
        "hopping": TimeWindows.of_size("1m", grace="10s").advance_by("20s"),
        "sessions": SessionWindows.with_inactivity_gap("1m", grace="10s"),
        "sliding": SlidingWindows.of_time_difference("1m", grace="10s"),
    }
    by_key.aggregate(**_folds()).to("totals")
    by_key.count(Materialized.versioned("versioned-count", "1d")).to("versioned-counts")
    for name, window in windows.items():
        table = by_key.windowed_by(window).aggregate(**_folds())
        table.to(name)
        final = table.suppress(Suppressed.until_window_closes(name=f"{name}-final"))
        final.to(f"{name}-final")
        table.left_join(final, _pair, returns=_STRING).to(f"{name}-both")
        counts = by_key.windowed_by(window).count()
        counts.suppress(Suppressed.until_window_closes(name=f"{name}-counts")).to(f"{name}-counts")
        by_key.windowed_by(window).emit_strategy("on_window_close").count().to(f"{name}-closed")
    orders.group_by("page").windowed_by(windows["tumbling"]).distinct().to("distinct")
    sessions = orders.map_values("page").group_by_key().windowed_by(windows["sessions"])
    sessions.reduce(_longest_of_two).to("longest-pages")


def _folds() -> dict[str, Any]:
    return {
        "count": fold.count(), "sum": fold.sum("ms"), "mean": fold.mean("price"), "least": fold.min("ms"),
        "most": fold.max("price"), "first": fold.first("page"), "last": fold.last("page"),
        "early": fold.min_by("page", by="record_time_ms"), "all": fold.collect("ms"),
        "apart": fold.stddev_pop("ms"), "own": fold.of(0, "aggregate + ms", merge="aggregate + other"),
    }  # fmt: skip


def _streams(orders: KStream, payments: KStream, prices: KTable) -> None:
    payments.join(prices, _pair, grace="2s", returns=_STRING, name="priced").to("priced")
    payments.left_join(prices, _pair, returns=_STRING).to("perhaps-priced")
    pages, windows = orders.map_values("page"), JoinWindows.of_time_difference_and_grace("1m", "10s")
    payments.outer_join(pages, _pair, windows, returns=_STRING, name="paid").to("paid")
    payments.join(pages, _pair, windows, returns=_STRING, name="both").to("both")
    payments.deduplicate_by_key("5s", name="by-key").to("by-key")
    payments.deduplicate_by_key_value("value", "5s", name="by-both").to("by-both")
    payments.deduplicate("value", "5s", name="by-id").to("by-id")
    payments.reorder_within("2s", name="ordered").to("ordered")
    payments.process(_Count, [KeyValues("seen", _STRING, _LONG)], name="counting").to("processed")
    both = payments.group_by_key().cogroup(_longest).cogroup(pages.group_by_key(), _longest)
    both.windowed_by(TimeWindows.of_size("1m")).aggregate(str, returns=_STRING).to("longest")


def _tables(payments: KStream, items: KTable) -> None:
    newest = payments.to_table(materialized=Materialized.as_("newest"))
    newest.join(items, _pair, foreign_key="value", returns=_STRING, name="described").to("described")
    newest.outer_join(items, _pair, returns=_STRING).to("either")
    items.filter("value > 'a'", materialized=Materialized.as_("few")).to("few-items")
    sizes = items.group_by("value", "record_key", name="by-name").count(Materialized.as_("items-by-name"))
    items.group_by("value", "record_key", name="listing").aggregate(
        items=fold.count(), mean=fold.mean("LENGTH(value)"), materialized=Materialized.as_("folded-by-name")
    ).to("folded-by-name")
    sizes.suppress(Suppressed.until_time_limit("30s", name="calm-items")).to("calm-items")
    early = BufferConfig.max_records(1_000)
    newest.suppress(Suppressed.until_time_limit("30s", name="calm", buffer=early)).to("calm")
    small = BufferConfig.max_bytes(1_000)
    newest.suppress(Suppressed.until_time_limit("30s", name="small", buffer=small)).to("small")


def _pair(left: object, right: object) -> str:
    return f"{left}+{right}"


def _longest(key: str, value: str, longest: str) -> str:
    return max(value, longest, key=len)


def _longest_of_two(one: str, other: str) -> str:
    return max(one, other, key=len)


class _Count(Processor):
    def process(self, record: Record) -> None:
        """Keeps how many records each key had."""
        counts = self.context.store("seen")
        counts.put(record.key, 1 + (counts.get(record.key) or 0))
