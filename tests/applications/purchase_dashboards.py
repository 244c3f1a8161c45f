"""After kineticedge/kafka-streams-dashboards, `streams` and `analytics`. Purchase orders get their user, store and
prices, and are complete when every item has a price. The sales of each product are shown by windows of every kind, or
until nothing was sold for a while.
"""

from kstreams_replay import (
    Consumed,
    FixedKeyProcessor,
    Grouped,
    Joined,
    Materialized,
    Named,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    ValueAndTimestamp,
)

TEXT = Serde.string()
_USER, _STORE = "user_id string, name string", "store_id string, name string"
_ORDER = (
    "order_id string, user_id string, store_id string, timestamp long, "
    "items array<struct<sku string, quantity int, price double>>"
)
_JOINED = f"{_ORDER}, user struct<{_USER}>, store struct<{_STORE}>"
USER, STORE, ORDER, JOINED = Serde.json(_USER), Serde.json(_STORE), Serde.json(_ORDER), Serde.json(_JOINED)
PRODUCT = Serde.json("sku string, price double")
SALES = Serde.json("sku string, quantity long, order_ids array<string>, timestamp long")
SHOWN = Serde.json("quantity long, order_ids array<string>, timestamp long")

CONFIG = {"topology.optimization": "none", "deserialization.exception.handler": "LogAndContinueExceptionHandler"}


# --- streams: orders that can be picked up -------------------------------------------------------------------


class CountItems(FixedKeyProcessor):
    """Where the application measures how many items an order has; here they are a header."""

    def process(self, record):
        count = b"%d" % len(record.value["items"])
        self.context.forward(record.with_headers((*record.headers, ("line-items", count))))


def priced(order, product):
    """The order with the price of each item of ``product``."""

    def price(item):
        return item | {"price": product["price"]} if item["sku"] == product["sku"] else item

    return order | {"items": [price(item) for item in order["items"]]}


def with_prices(order, new):
    """Of two copies of an order, each with other prices, the one with both."""
    prices = {item["sku"]: item["price"] for item in new["items"] if item["price"] is not None}
    items = [item | {"price": prices.get(item["sku"], item["price"])} for item in order["items"]]
    return order | {"items": items}


def pickup_orders(builder):
    stores = builder.global_table("stores", Consumed(TEXT, STORE), materialized=Materialized.as_("store-global-table"))
    users = builder.table("users", Consumed(TEXT, USER), materialized=Materialized.as_("user-table"))
    products = builder.table("products", Consumed(TEXT, PRODUCT), materialized=Materialized.as_("product-table"))
    (
        builder.stream("purchase-orders", Consumed(TEXT, ORDER))
        .process_values(CountItems, name="purchase-order-lineitem-counter")
        .select_key("user_id", Named.as_("purchase-order-keyByUserId"))
        .join(
            users,
            lambda order, user: order | {"user": user, "store": None},
            Joined.as_("purchase-order-join-user"),
            returns=JOINED,
        )
        .join(
            stores,
            lambda order, store: order | {"store": store},
            Named.as_("purchase-order-join-store"),
            selector="store_id",
            returns=JOINED,
        )
        .flat_map(
            lambda key, order: [(item["sku"], order) for item in order["items"]],
            Named.as_("purchase-order-products-flatmap"),
            returns_key=TEXT,
            returns=JOINED,
        )
        .join(products, priced, Joined.as_("purchase-order-join-product"), returns=JOINED)
        .group_by("order_id", Grouped.as_("pickup-order-groupBy-orderId"))
        .reduce(with_prices, Named.as_("pickup-order-reduce"), Materialized.as_("pickup-order-reduce-store"))
        .filter(
            lambda key, order: all(item["price"] is not None for item in order["items"]),
            Named.as_("pickup-order-filtered"),
        )
        .to_stream(Named.as_("pickup-order-reduce-tostream"))
        .to("pickup-orders", Produced.as_("pickup-orders"))
    )
    builder.stream("pickup-orders", Consumed(TEXT, JOINED)).peek(lambda key, order: None)


# --- analytics: what is sold of each product -----------------------------------------------------------------


def no_sales():
    return {"sku": None, "quantity": 0, "order_ids": [], "timestamp": None}


def add_sale(sku, order, sales):
    sold = next((item["quantity"] for item in order["items"] if item["sku"] == sku), 0)
    return {
        "sku": sku,
        "quantity": sales["quantity"] + sold,
        "order_ids": [*sales["order_ids"], order["order_id"]],
        "timestamp": order["timestamp"],
    }


def merge_sales(sku, first, second):
    return {
        "sku": sku,
        "quantity": first["quantity"] + second["quantity"],
        "order_ids": first["order_ids"] + second["order_ids"],
        "timestamp": max(one["timestamp"] for one in (first, second) if one["timestamp"] is not None),
    }


def shown(sales):
    return None if sales is None else {name: sales[name] for name in ("quantity", "order_ids", "timestamp")}


def items_of(builder):
    return builder.stream("line-items", Consumed(TEXT, ORDER))


def of_windows(builder, kind, windows, *merger, is_final=False):
    store = Materialized.as_(f"{kind}-aggregate-purchase-order")
    sales = items_of(builder).group_by_key(Grouped.as_(f"{kind}-groupByKey")).windowed_by(windows)
    sales = sales.aggregate(no_sales, add_sale, *merger, Named.as_(f"{kind}-aggregate"), store, returns=SALES)
    if is_final:
        sales = sales.suppress(Suppressed.until_window_closes(name=f"{kind}-suppression"))
    (
        sales.to_stream(Named.as_(f"{kind}-toStream"))
        .filter("NOT value_is_null")
        .select_key(lambda key, sales: f"{key.key} [{key.window_start_ms},{key.window_end_ms})", returns=TEXT)
        .map_values(shown, Named.as_(f"{kind}-mapValues"), returns=SHOWN)
        .to(f"analytics-{kind}", Produced.as_(f"{kind}-to"))
    )


def tumbling(builder):
    of_windows(builder, "TUMBLING", TimeWindows.of_size_and_grace("10s", "2s"))


def hopping(builder):
    of_windows(builder, "HOPPING", TimeWindows.of_size_and_grace("10s", "2s").advance_by("5s"))


def sliding(builder):
    of_windows(builder, "SLIDING", SlidingWindows.of_time_difference_and_grace("10s", "2s"), is_final=True)


def session(builder):
    of_windows(builder, "SESSION", SessionWindows.of_inactivity_gap_with_no_grace("10s"), merge_sales)


WINDOW_MS = 10_000


class ForgetOld(Processor):
    """Deletes the sales of products of which nothing was sold for a while from the aggregate's own store, and says so
    in a header.
    """

    def init(self, context):
        super().init(context)
        self.sales = context.store("NONE-aggregate-purchase-order")
        context.schedule(WINDOW_MS // 2, PunctuationType.WALL_CLOCK_TIME, self.forget)

    def forget(self, now_ms):
        for sku, sales in self.sales.all():
            if sales.timestamp_ms < now_ms - WINDOW_MS:
                self.sales.delete(sku)
                deleted = Record(sku, sales.value, sales.timestamp_ms, (("deleted", b"true"),))
                self.context.forward(deleted)

    def process(self, record):
        self.context.forward(record)


def none(builder):
    """No windows: an aggregate that a schedule takes apart again."""
    store = Materialized.as_("NONE-aggregate-purchase-order")
    sales = items_of(builder).group_by_key().aggregate(no_sales, add_sale, store, returns=SALES)
    of_old = sales.to_stream(Named.as_("NONE-toStream")).process(ForgetOld, ["NONE-aggregate-purchase-order"])
    of_old.map_values(shown, returns=SHOWN).to("analytics-NONE")


class Restore(FixedKeyProcessor):
    """Puts what an earlier life of the application knew into the aggregate's store, where that has nothing."""

    def init(self, context):
        super().init(context)
        self.sales = context.store("NONE_REPARTITIONED-aggregate-purchase-order")

    def process(self, record):
        has_mark = any(name == "RESTORE" for name, _ in record.headers)
        if has_mark and self.sales.get(record.key) is None:
            self.sales.put(record.key, ValueAndTimestamp(record.value, record.timestamp_ms))
        self.context.forward(record)


class Watch(FixedKeyProcessor):
    """Wakes up by the wall clock, below the repartition, and looks at the store."""

    def init(self, context):
        super().init(context)
        self.sales = context.store("NONE_REPARTITIONED-aggregate-purchase-order")
        context.schedule("5s", PunctuationType.WALL_CLOCK_TIME, lambda now_ms: self.sales)

    def process(self, record):
        self.context.forward(record)


def none_repartitioned(builder):
    name = "NONE_REPARTITIONED-aggregate-purchase-order"
    orders = items_of(builder).repartition(name="__NONE_REPARTITIONED__", partitions=1)
    sales = orders.group_by_key().aggregate(no_sales, add_sale, Materialized.as_(name), returns=SALES)
    sales.to_stream().process_values(Watch, [name]).map_values(shown, returns=SHOWN).to("analytics-NONE_REPARTITIONED")
    builder.stream("restore", Consumed(TEXT, SALES)).process_values(Restore, [name])


ANALYTICS = (tumbling, hopping, sliding, session, none, none_repartitioned)


def topology(*parts) -> Topology:
    """Of these parts, by default of the orders that can be picked up."""
    builder = StreamsBuilder(config=CONFIG)
    for part in parts or (pickup_orders,):
        part(builder)
    return builder.build()
