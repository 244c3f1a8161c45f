"""Uses of the DSL for a type checker, right and wrong; a line that is wrong says how mypy calls its error. Not run."""

import polars as pl

import kstreams_replay
from kstreams_replay import (
    BranchedKStream,
    BufferConfig,
    CogroupedKStream,
    Consumed,
    GlobalKTable,
    Grouped,
    Joined,
    JoinWindows,
    KeyValues,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    Named,
    Processor,
    ProcessorContext,
    Produced,
    Record,
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

ORDERS = Consumed(Serde.string(), Serde.json("item string, price long"))


class Doubled(Processor):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.forward("key", 5, headers=(("trace", None),))

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(record.value * 2))
        self.context.forward(record.key, record.value, 5)
        self.context.forward()  # wrong: call-overload
        self.context.forward(record.key, value="x", time=5)  # wrong: call-overload


def right() -> Topology:
    builder = StreamsBuilder()
    orders: KStream = builder.stream("orders", ORDERS)
    items: KTable = builder.table("items", ORDERS, materialized=Materialized.as_("items"))
    everything = builder.global_table("everything", ORDERS)
    orders.filter("price > 5").map_values("price", double=pl.col("price") * 2)
    orders.map_values(lambda key, value: value["price"], returns=Serde.long())
    orders.map_values(lambda value: value["price"], returns=Serde.long(), name="price")
    orders.join(items, price="left.price", item="right.item")
    orders.left_join(orders, "left.price", JoinWindows.of_time_difference_with_no_grace("5m"), name="near")
    orders.join(everything, "left", selector="item")
    items.join(items, lambda one, other: one, returns=Serde.string(), foreign_key="item").to("joined")
    orders.process(Doubled, [KeyValues("seen", Serde.string(), Serde.long())])
    windowed = orders.group_by_key().windowed_by(TimeWindows.of_size_and_grace("1h", "5m"))
    windowed.aggregate(n=fold.count(), best=fold.top(3, "price")).suppress(Suppressed.until_window_closes()).to("out")
    return builder.build()


def right_groups(orders: KStream, items: KTable, everything: GlobalKTable) -> None:
    split: BranchedKStream = orders.split(name="split").branch("price > 5", name="large")
    branches: dict[str, KStream] = split.default_branch(name="rest")
    branches["split-large"].merge(branches["split-rest"]).peek(print).foreach(print)
    grouped: KGroupedStream = orders.group_by("item", returns=Serde.string(), name="by-item")
    grouped.windowed_by(SlidingWindows.of_time_difference("5m", grace=5)).reduce(lambda one, other: other)
    grouped.windowed_by(UnlimitedWindows.of(5)).count(Materialized.as_("all", retention="1d"), name="counted")
    sessions = grouped.windowed_by(SessionWindows.with_inactivity_gap("5m"))
    both: CogroupedKStream = sessions.cogroup(lambda key, value, total: total).cogroup(grouped, lambda key, value, n: n)
    both.aggregate(int, merger=lambda key, one, other: one, returns=Serde.long())
    by_item: KGroupedTable = items.group_by(lambda key, value: (value["item"], value["price"]), returns=Serde.long())
    by_item.sum(materialized=Materialized.as_("sums"), name="summed").to_stream("record_key", returns=Serde.string())
    items.filter("price > 5").suppress(Suppressed.until_time_limit("5m", BufferConfig.max_records(5)))
    near = JoinWindows.of_time_difference_and_grace("5m", "1m").before("1m").after(0)
    orders.outer_join(orders, lambda one, other: one, near, returns=Serde.string())
    orders.repartition(name="again", partitions=3).to_table(materialized=Materialized.as_("again"))


def wrong_groups(orders: KStream, grouped: KGroupedStream, items: KTable, everything: GlobalKTable) -> None:
    items = orders.split().branch("price > 5")  # wrong: assignment
    orders.split().branch(predicate=5).default_branch()["x"]  # wrong: arg-type
    orders.split().branch("price > 5").otherwise()  # wrong: attr-defined
    orders.group_by_key(by="item")  # wrong: call-arg
    grouped.windowed_by("5m")  # wrong: arg-type
    grouped.reduce(5)  # wrong: arg-type
    grouped.windowed_by(TimeWindows.of_size("5m")).emit_strategy(5)  # wrong: arg-type
    grouped.cogroup(lambda key, value, total: total).count()  # wrong: attr-defined
    grouped.sum()  # wrong: attr-defined
    items.group_by("item").windowed_by(TimeWindows.of_size("5m"))  # wrong: attr-defined
    items.to_stream(5)  # wrong: arg-type
    everything.to("x")  # wrong: attr-defined
    items.join(everything, "left")  # wrong: arg-type
    orders.merge(items)  # wrong: arg-type
    SessionWindows.with_inactivity_gap()  # wrong: call-arg
    SlidingWindows.of_time_difference("5m", "1m")  # wrong: call-arg
    UnlimitedWindows.of("5m")  # wrong: arg-type
    JoinWindows.of_time_difference_with_no_grace("5m").before("1m", "1m")  # wrong: call-arg
    Suppressed.until_time_limit("5m", 5)  # wrong: arg-type
    BufferConfig.max_records("5")  # wrong: arg-type
    Materialized.as_(5)  # wrong: arg-type
    Consumed(Serde.string())  # wrong: call-arg
    Serde.json(5)  # wrong: arg-type
    fold.top("price", 3)  # wrong: arg-type


def functions(orders: KStream, items: KTable) -> None:
    def nothing() -> int:
        return 0

    def add(key: str, value: dict[str, int], total: int) -> int:
        return total + value["price"]

    grouped, long = orders.group_by_key(), Serde.long()
    grouped.aggregate(nothing, add, Named.as_("sums"), Materialized.as_("sums"), returns=long)
    grouped.aggregate(initializer=nothing, aggregator=add, returns=long, name="sums")
    grouped.aggregate(fold.sum("price"), Materialized.as_("sums"))
    grouped.aggregate(Named.as_("sums"), total=fold.sum("price"))
    grouped.windowed_by(SessionWindows.with_inactivity_gap("5m")).aggregate(nothing, add, add, returns=long)
    grouped.cogroup(add).aggregate(nothing, Materialized.as_("sums"), returns=long)
    items.group_by("item").aggregate(nothing, add, add, Materialized.as_("sums"), returns=long)
    items.group_by("item").aggregate(initializer=nothing, adder=add, subtractor=add, returns=long)
    grouped.aggregate(nothing, returns=long)  # wrong: call-overload
    grouped.aggregate(nothing, add)  # wrong: call-overload
    grouped.aggregate(add, nothing, returns=long)  # wrong: arg-type
    grouped.aggregate(nothing, add, add, add, returns=long)  # wrong: call-overload
    grouped.aggregate(fold.sum("price"), add, returns=long)  # wrong: call-overload
    items.group_by("item").aggregate(nothing, add, returns=long)  # wrong: call-overload
    items.group_by("item").aggregate(nothing, add, add)  # wrong: call-overload


def wrong_options(builder: StreamsBuilder, orders: KStream, items: KTable) -> None:
    orders.filter("price > 5", "large")  # wrong: arg-type
    orders.filter("price > 5", Materialized.as_("large"))  # wrong: arg-type
    orders.map_values("price", Materialized.as_("prices"))  # wrong: arg-type
    orders.group_by("item", Produced.as_("item"))  # wrong: arg-type
    orders.group_by_key(Joined.as_("item"))  # wrong: arg-type
    orders.to("out", Grouped.as_("item"))  # wrong: arg-type
    orders.repartition(Grouped.as_("item"))  # wrong: arg-type
    orders.join(items, "left", Materialized.as_("joined"))  # wrong: arg-type
    orders.process(Doubled, Materialized.as_("seen"))  # wrong: arg-type
    items.to_stream(Materialized.as_("changes"))  # wrong: arg-type
    items.group_by("item", Named.as_("item"))  # wrong: arg-type
    builder.table("items", ORDERS, Named.as_("items"))  # wrong: arg-type
    orders.group_by_key().reduce(lambda one, other: other, "counts")  # wrong: arg-type


def wrong(builder: StreamsBuilder, orders: KStream, items: KTable) -> None:
    orders.selectKey("item")  # wrong: attr-defined
    orders.filter("price > 5", nam="large")  # wrong: call-arg
    orders.filter(5)  # wrong: arg-type
    orders.map_values("price", returns=str)  # wrong: arg-type
    orders.map_values("price", retruns=Serde.long())  # wrong: arg-type
    orders.join(items, "left.price", materialized="text")  # wrong: arg-type
    orders.join(items, price=5)  # wrong: arg-type
    orders.outer_join(items, "left.price")  # wrong: arg-type
    orders.group_by_key().count("text")  # wrong: arg-type
    orders.group_by_key().aggregate(n=5)  # wrong: call-overload
    items.emit_strategy("on_window_close")  # wrong: attr-defined
    items.join(orders, "left.price")  # wrong: arg-type
    items.outer_join(items, "left", foreign_key=3)  # wrong: arg-type
    items.suppress("window closes")  # wrong: arg-type
    builder.table()  # wrong: call-arg
    fold.count("price")  # wrong: call-arg
    fold.avg("price")  # wrong: attr-defined
    TimeWindows.of_size("1h", "5m")  # wrong: call-arg
    TimeWindows.ofSize("1h")  # wrong: attr-defined
    kstreams_replay.KStreams(builder)  # wrong: attr-defined
