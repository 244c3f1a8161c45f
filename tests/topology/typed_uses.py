"""Uses of the DSL for a type checker, right and wrong; a line that is wrong says how mypy calls its error. Not run."""

import polars as pl

from kstreams_replay import (
    Consumed,
    JoinWindows,
    KeyValues,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
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
    orders.group_by_key().aggregate(n=5)  # wrong: arg-type
    items.emit_strategy("on_window_close")  # wrong: attr-defined
    items.join(orders, "left.price")  # wrong: arg-type
    items.outer_join(items, "left", foreign_key=3)  # wrong: arg-type
    items.suppress("window closes")  # wrong: arg-type
    builder.table("items")  # wrong: call-arg
    fold.count("price")  # wrong: call-arg
    fold.avg("price")  # wrong: attr-defined
    TimeWindows.of_size("1h", "5m")  # wrong: call-arg
    TimeWindows.ofSize("1h")  # wrong: attr-defined
