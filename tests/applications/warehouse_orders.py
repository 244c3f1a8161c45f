"""After davamigo/kafka-streams-poc: orders of customers become orders to warehouses, through ten small applications
with topics between them. Here they are one topology, all of Avro.

The loop: a line whose product has no legacy id in the table goes to the recovery, which asks an old system. The feeder
writes its answer to the table's topic, so that the next line of that product matches.
"""

from datetime import UTC, datetime

from kstreams_replay import Consumed, Named, Serde, StreamsBuilder, Topology

TEXT, LEGACY_ID = Serde.avro("string"), Serde.avro("int")
_ADDRESS = ("Address", {"country": "string", "city": "string", "zipCode": "string"})


def avro(name, fields):
    """A schema of fields by name; a type in a list may be null, as in Avro, which is then its default."""
    rows = [{"name": field, "type": kind} for field, kind in fields.items()]
    for row in rows:
        if isinstance(row["type"], list):
            row["default"] = None
    return {"type": "record", "name": name, "fields": rows}


def array(items):
    return {"type": "array", "items": items}


MAYBE_TEXT = ["null", "string"]
MEMBER = Serde.avro(avro("Member", {"uuid": "string", "firstName": "string", "lastName": "string"}))
PRODUCT = Serde.avro(
    avro("Product", {"uuid": "string", "name": "string", "type": "string", "barCode": MAYBE_TEXT, "price": "float"})
)
_ORDER_LINE = avro("Line", {"uuid": "string", "productUuid": "string", "price": "float", "quantity": "int"})
ORDER = Serde.avro(
    avro(
        "CommercialOrder",
        {
            "uuid": "string",
            "datetime": "long",
            "memberUuid": "string",
            "shippingAddress": avro(*_ADDRESS),
            "lines": array(_ORDER_LINE),
        },
    )
)
CONVERTED = Serde.avro(
    avro(
        "CommercialOrderConverted",
        {
            "uuid": "string",
            "datetime": "long",
            "memberUuid": "string",
            "memberFirstName": "string",
            "shippingCountry": "string",
            "totalAmount": "float",
            "totalQuantity": "int",
        },
    )
)
_SPLIT = {
    "uuid": "string",
    "commercialOrderUuid": "string",
    "datetime": "long",
    "country": "string",
    "productUuid": "string",
    "productName": "string",
    "productBarCode": MAYBE_TEXT,
    "productPrice": "float",
    "quantity": "int",
}
SPLIT_LINE = Serde.avro(avro("CommercialOrderLineSplit", _SPLIT))
PURCHASE_LINE = Serde.avro(
    avro(
        "PurchaseOrderLine",
        {
            "uuid": "string",
            "aggregationKey": "string",
            "country": "string",
            "date": "long",
            "productUuid": "string",
            "productName": "string",
            "productBarCode": MAYBE_TEXT,
            "productPrice": "float",
            "quantity": "int",
        },
    )
)
_CONDENSED = {"uuid": "string", "productUuid": "string", "price": "float", "quantity": "int"}
PURCHASE_ORDER = Serde.avro(
    avro(
        "PurchaseOrder",
        {
            "uuid": "string",
            "aggregationKey": "string",
            "country": "string",
            "date": "long",
            "totalAmount": "float",
            "totalQuantity": "int",
            "lines": array(avro("PurchaseOrderLineCondensed", _CONDENSED)),
        },
    )
)
_WAREHOUSE_LINE = {
    "uuid": "string",
    "country": "string",
    "date": "long",
    "productUuid": "string",
    "productLegacyId": ["null", "int"],
    "productName": "string",
    "productBarCode": MAYBE_TEXT,
    "quantity": "int",
}
WAREHOUSE_LINE = Serde.avro(avro("WarehouseOrderLine", _WAREHOUSE_LINE))
_WAREHOUSE_CONDENSED = {"uuid": "string", "productUuid": "string", "productLegacyId": "int", "quantity": "int"}
WAREHOUSE_ORDER = Serde.avro(
    avro(
        "WarehouseOrder",
        {
            "uuid": "string",
            "aggregationKey": "string",
            "country": "string",
            "date": "long",
            "lines": array(avro("WarehouseOrderLineCondensed", _WAREHOUSE_CONDENSED)),
        },
    )
)

DAY_MS = 86_400_000


def day_of(country, time_ms):
    return f"{country}-{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d}"


# --- orders and their lines ----------------------------------------------------------------------------------


def convert_orders(builder):
    members = builder.global_table("new-members", Consumed(TEXT, MEMBER))
    orders = builder.stream("new-orders", Consumed(TEXT, ORDER))

    def convert(order, member):
        return {
            "uuid": order["uuid"],
            "datetime": order["datetime"],
            "memberUuid": member["uuid"],
            "memberFirstName": member["firstName"],
            "shippingCountry": order["shippingAddress"]["country"],
            "totalAmount": sum(line["price"] * line["quantity"] for line in order["lines"]),
            "totalQuantity": sum(line["quantity"] for line in order["lines"]),
        }

    orders.join(members, convert, selector="memberUuid", selector_returns=TEXT, returns=CONVERTED).to(
        "converted-orders"
    )


def split_lines(builder):
    products = builder.global_table("new-products", Consumed(TEXT, PRODUCT))

    def split(uuid, order):
        for line in order["lines"]:
            yield (
                uuid,
                {
                    "uuid": line["uuid"],
                    "commercialOrderUuid": order["uuid"],
                    "datetime": order["datetime"],
                    "country": order["shippingAddress"]["country"],
                    "productUuid": line["productUuid"],
                    "productName": "",
                    "productBarCode": None,
                    "productPrice": 0.0,
                    "quantity": line["quantity"],
                },
            )

    def name(line, product):
        of_product = {"productName": product["name"], "productBarCode": product["barCode"]}
        return line | of_product | {"productPrice": product["price"]}

    lines = builder.stream("new-orders", Consumed(TEXT, ORDER)).flat_map(split, returns_key=TEXT, returns=SPLIT_LINE)
    lines.join(products, name, selector="productUuid", selector_returns=TEXT, returns=SPLIT_LINE).to("split-lines")


# --- purchase orders -----------------------------------------------------------------------------------------


def aggregate_lines(builder):
    """The lines of a product, country and day are one."""

    def purchase(uuid, line):
        key = f"{day_of(line['country'], line['datetime'])}-{line['productUuid']}"
        copied = ("country", "productUuid", "productName", "productBarCode", "productPrice", "quantity")
        date = line["datetime"] - line["datetime"] % DAY_MS
        own = {"uuid": line["uuid"], "aggregationKey": key, "date": date}
        return key, own | {field: line[field] for field in copied}

    def add(line, new):
        return line | {"quantity": line["quantity"] + new["quantity"]}

    lines = builder.stream("split-lines", Consumed(TEXT, SPLIT_LINE))
    by_key = lines.map(purchase, returns_key=TEXT, returns=PURCHASE_LINE).group_by_key()
    by_key.reduce(add).to_stream().to("aggregated-lines")


def generate_purchase_orders(builder):
    def add(key, line, order):
        """Its newest line of each product; what the one before had added goes."""
        amount = order["totalAmount"] + line["productPrice"] * line["quantity"]
        quantity = order["totalQuantity"] + line["quantity"]
        lines = []
        for old in order["lines"]:
            if old["productUuid"] == line["productUuid"]:
                amount -= old["price"] * old["quantity"]
                quantity -= old["quantity"]
            else:
                lines.append(old)
        new = {"uuid": line["uuid"], "productUuid": line["productUuid"], "price": line["productPrice"]}
        return {
            "uuid": order["uuid"] or key,
            "aggregationKey": key,
            "country": line["country"],
            "date": line["date"],
            "totalAmount": amount,
            "totalQuantity": quantity,
            "lines": [*lines, new | {"quantity": line["quantity"]}],
        }

    def nothing():
        return {"uuid": None, "totalAmount": 0.0, "totalQuantity": 0, "lines": []}

    lines = builder.stream("aggregated-lines", Consumed(TEXT, PURCHASE_LINE))
    by_day = lines.group_by(lambda key, line: day_of(line["country"], line["date"]), returns=TEXT)
    by_day.aggregate(nothing, add, returns=PURCHASE_ORDER).to_stream().to("purchase-orders")


# --- warehouse orders: matched, or recovered and then matched ------------------------------------------------


def generate_warehouse_lines(builder):
    def newest(key, line, before):
        copied = ("country", "date", "productUuid", "productName", "productBarCode", "quantity")
        return {"uuid": before["uuid"] or line["uuid"], "productLegacyId": None} | {key: line[key] for key in copied}

    lines = builder.stream("aggregated-lines", Consumed(TEXT, PURCHASE_LINE))
    newest_lines = lines.group_by("aggregationKey", returns=TEXT).aggregate(
        lambda: {"uuid": None}, newest, returns=WAREHOUSE_LINE
    )
    newest_lines.to_stream().select_key("uuid", returns=TEXT).to("generated-lines")


def match_products(builder):
    ids = builder.table("product-legacy-ids", Consumed(TEXT, LEGACY_ID))
    lines = builder.stream("generated-lines", Consumed(TEXT, WAREHOUSE_LINE)).select_key("productUuid", returns=TEXT)
    with_ids = lines.left_join(
        ids, lambda line, legacy_id: line | {"productLegacyId": legacy_id}, returns=WAREHOUSE_LINE
    ).select_key("uuid", returns=TEXT)
    branches = (
        with_ids.split(Named.as_("match-")).branch("productLegacyId IS NOT NULL", name="ed").default_branch(name="less")
    )
    branches["match-ed"].to("matched-lines")
    branches["match-less"].to("unmatched-lines")


def recover_products(builder, legacy_ids):
    """``legacy_ids``: what the old system knows, by product."""

    def ask(key, line):
        return line | {"productLegacyId": legacy_ids.get(line["productUuid"])}

    asked = builder.stream("unmatched-lines", Consumed(TEXT, WAREHOUSE_LINE)).map_values(ask, returns=WAREHOUSE_LINE)
    branches = (
        asked.split(Named.as_("recover-"))
        .branch("productLegacyId IS NOT NULL", name="ed")
        .default_branch(name="failed")
    )
    branches["recover-ed"].to("recovered-lines")
    branches["recover-failed"].to("failed-lines")


def feed_legacy_ids(builder):
    recovered = builder.stream("recovered-lines", Consumed(TEXT, WAREHOUSE_LINE))
    recovered.map("productUuid", "productLegacyId", returns_key=TEXT, returns=LEGACY_ID).to("product-legacy-ids")


def merge_lines(builder):
    matched = builder.stream("matched-lines", Consumed(TEXT, WAREHOUSE_LINE))
    recovered = builder.stream("recovered-lines", Consumed(TEXT, WAREHOUSE_LINE))
    matched.merge(recovered).to("new-warehouse-lines")


def generate_warehouse_orders(builder):
    def add(key, line, order):
        others = [one for one in order["lines"] if one["productUuid"] != line["productUuid"]]
        condensed = {field: line[field] for field in _WAREHOUSE_CONDENSED}
        of_line = {"country": line["country"], "date": line["date"], "lines": [*others, condensed]}
        return {"uuid": order["uuid"] or key, "aggregationKey": key} | of_line

    lines = builder.stream("new-warehouse-lines", Consumed(TEXT, WAREHOUSE_LINE))
    by_day = lines.group_by(lambda key, line: day_of(line["country"], line["date"]), returns=TEXT)
    orders = by_day.aggregate(lambda: {"uuid": None, "lines": []}, add, returns=WAREHOUSE_ORDER)
    orders.to_stream().to("warehouse-orders")


PARTS = (
    convert_orders,
    split_lines,
    aggregate_lines,
    generate_purchase_orders,
    generate_warehouse_lines,
    match_products,
    feed_legacy_ids,
    merge_lines,
    generate_warehouse_orders,
)


def topology(*parts, legacy_ids=None) -> Topology:
    """Of these parts, or of all; the recovery is among them if there are ``legacy_ids``."""
    builder = StreamsBuilder()
    for part in parts or PARTS:
        part(builder)
    if legacy_ids is not None:
        recover_products(builder, legacy_ids)
    return builder.build()
