"""After confluentinc/kafka-streams-examples, `microservices`: an order is created, three services validate it, and
an aggregator writes it once more to the topic it came from, as validated or failed. A fifth one mails customers.

The loop: `orders` is read by all services and written by the aggregator, which reads the verdicts that they write.
"""

from kstreams_replay import (
    Branched,
    Consumed,
    JoinWindows,
    KeyValues,
    Processor,
    Record,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Topology,
)

FRAUD_LIMIT = 2000
RULES = 3
LEVELS = ("bronze", "gold", "platinum")

TEXT, LONG = Serde.string(), Serde.long()
_ORDER = "id string, customer_id long, state string, product string, quantity int, price double"
_PAYMENT = "id string, order_id string, currency string, amount double"
_CUSTOMER = "id long, first_name string, email string, level string"
ORDER, PAYMENT, CUSTOMER = Serde.json(_ORDER), Serde.json(_PAYMENT), Serde.json(_CUSTOMER)
VALIDATION = Serde.json("order_id string, check string, result string")
ORDER_VALUE = Serde.json(f"order struct<{_ORDER}>, total double")
STOCKED = Serde.json(f"order struct<{_ORDER}>, in_stock int")
EMAIL = Serde.json(f"order struct<{_ORDER}>, payment struct<{_PAYMENT}>, customer struct<{_CUSTOMER}>")

FIVE_MINUTES = JoinWindows.of_time_difference_with_no_grace("5m")


def validation(check, passes):
    def validate(key, order):
        return {"order_id": order["id"], "check": check, "result": "PASS" if passes(order) else "FAIL"}

    return validate


# --- the three that validate ---------------------------------------------------------------------------------


def order_details_service(builder, orders):
    def is_valid(order):
        return order["quantity"] >= 0 and order["price"] >= 0 and order["product"] is not None

    created = orders.filter("state = 'CREATED'")
    created.map_values(validation("ORDER_DETAILS_CHECK", is_valid), returns=VALIDATION).to("order-validations")


def fraud_service(builder, orders):
    """Orders of a customer within an hour of one another may cost less than FRAUD_LIMIT together."""

    def add(customer, order, total):
        return {"order": order, "total": total["total"] + order["quantity"] * order["price"]}

    def merge(customer, first, second):
        return {"order": second["order"], "total": first["total"] + second["total"]}

    totals = (
        orders.filter("state = 'CREATED'")
        .group_by("customer_id")
        .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace("1h"))
        .aggregate(lambda: {"order": None, "total": 0.0}, add, merge, returns=ORDER_VALUE)
    )
    by_order = totals.to_stream("record_key").filter("NOT value_is_null").select_key("order.id")

    def verdict(result):
        def write(stream):
            def validate(order):
                return {"order_id": order["order"]["id"], "check": "FRAUD_CHECK", "result": result}

            stream.map_values(validate, returns=VALIDATION).to("order-validations")

        return write

    (
        by_order.split()
        .branch(f"total >= {FRAUD_LIMIT}", Branched.with_consumer(verdict("FAIL")))
        .branch(f"total < {FRAUD_LIMIT}", Branched.with_consumer(verdict("PASS")))
        .no_default_branch()
    )


class InventoryValidator(Processor):
    """Reserves what is in the warehouse and not yet reserved."""

    def init(self, context):
        super().init(context)
        self.reserved = context.store("store-of-reserved-stock")

    def process(self, record: Record) -> None:
        order, in_stock = record.value["order"], record.value["in_stock"]
        reserved = self.reserved.get(order["product"]) or 0
        result = "FAIL"
        if in_stock - reserved - order["quantity"] >= 0:
            self.reserved.put(order["product"], reserved + order["quantity"])
            result = "PASS"
        validated = {"order_id": order["id"], "check": "INVENTORY_CHECK", "result": result}
        self.context.forward(record.with_key(order["id"]).with_value(validated))


def inventory_service(builder, orders):
    inventory = builder.table("warehouse-inventory", Consumed(TEXT, Serde.int()))
    builder.add_state_store(KeyValues("store-of-reserved-stock", TEXT, LONG))
    (
        orders.select_key("product")
        .filter("state = 'CREATED'")
        .join(inventory, lambda order, stock: {"order": order, "in_stock": stock}, returns=STOCKED)
        .process(InventoryValidator, ["store-of-reserved-stock"], returns_key=TEXT, returns=VALIDATION)
        .to("order-validations")
    )


# --- the one that decides, and the one that tells ------------------------------------------------------------


def validations_aggregator(builder, orders):
    validations = builder.stream("order-validations", Consumed(TEXT, VALIDATION))
    created = orders.filter("state = 'CREATED'")

    def count_passed(key, verdict, total):
        return total + 1 if verdict["result"] == "PASS" else total

    passed = (
        validations.group_by_key()
        .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace("5m"))
        .aggregate(
            lambda: 0, count_passed, lambda key, first, second: first if second is None else second, returns=LONG
        )
    )
    (
        passed.to_stream("record_key")
        .filter("NOT value_is_null")
        .filter(f"value >= {RULES}")
        .join(created, lambda total, order: order | {"state": "VALIDATED"}, FIVE_MINUTES, returns=ORDER)
        .to("orders")
    )
    (
        validations.filter("result = 'FAIL'")
        .join(created, lambda verdict, order: order | {"state": "FAILED"}, FIVE_MINUTES, returns=ORDER)
        .group_by_key()
        .reduce(lambda order, again: order)
        .to_stream()
        .to("orders")
    )


def email_service(builder, orders):
    payments = builder.stream("payments", Consumed(TEXT, PAYMENT)).select_key("order_id")
    customers = builder.global_table("customers", Consumed(LONG, CUSTOMER))
    (
        orders.join(payments, order="left", payment="right", windows=JoinWindows.of_time_difference_with_no_grace("1m"))
        .join(
            customers,
            lambda paid, customer: paid | {"customer": customer},
            selector="order.customer_id",
            returns=EMAIL,
        )
        .to("emails")
    )
    (orders.join(customers, id="left.id", level="right.level", selector="customer_id").to("level", topics=LEVELS))


SERVICES = (order_details_service, fraud_service, inventory_service, validations_aggregator, email_service)


def topology(*services) -> Topology:
    """Of these services, or of all. Where the aggregator is among them, those who order write ``orders``, too."""
    builder, services = StreamsBuilder(), services or SERVICES
    others = True if validations_aggregator in services else None
    orders = builder.stream("orders", Consumed(TEXT, ORDER, others=others))
    for service in services:
        service(builder, orders)
    return builder.build()
