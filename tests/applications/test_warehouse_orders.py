"""Records of the application's own tests of its parts, and two orders that go through all of them."""

from tests.applications import warehouse_orders as warehouse
from tests.playing import InputRecord, assert_plays, play_whole

DAY_MS = 1_546_300_800_000  # 2019-01-01


def purchase_line(uuid, product, price, quantity, *, key="a-key"):
    return {
        "uuid": uuid,
        "aggregationKey": key,
        "country": "ES",
        "date": DAY_MS,
        "productUuid": product,
        "productName": product,
        "productBarCode": product,
        "productPrice": price,
        "quantity": quantity,
    }


def test_a_purchase_order_has_the_newest_line_of_each_product(tmp_path):
    lines = [("u1", "prod1", 100.0, 5), ("u2", "prod2", 150.0, 3), ("u3", "prod3", 50.0, 2), ("u4", "prod2", 10.0, 1)]
    tape = [InputRecord("aggregated-lines", line[0], purchase_line(*line), n) for n, line in enumerate(lines)]
    topology = warehouse.topology(warehouse.generate_purchase_orders)
    orders = [one.value for one in play_whole(topology, tape)["purchase-orders"]]

    assert [(one["totalAmount"], one["totalQuantity"]) for one in orders] == [
        (500.0, 5),
        (950.0, 8),
        (1050.0, 10),
        (610.0, 8),
    ]
    assert {(one["uuid"], one["aggregationKey"], one["country"], one["date"]) for one in orders} == {
        ("ES-2019-01-01", "ES-2019-01-01", "ES", DAY_MS)
    }
    assert [line["uuid"] for line in orders[-1]["lines"]] == ["u1", "u3", "u4"]
    assert_plays(topology, tape, {}, tmp_path)


def warehouse_line(uuid, product, legacy_id=None):
    return {
        "uuid": uuid,
        "country": "ES",
        "date": 946_681_200_015,
        "productUuid": product,
        "productLegacyId": legacy_id,
        "productName": f"{product}n",
        "productBarCode": None,
        "quantity": 1,
    }


def test_a_line_is_matched_if_the_table_has_its_product(tmp_path):
    tape = [
        InputRecord("generated-lines", "w1", warehouse_line("w1", "prod1"), 0),
        InputRecord("product-legacy-ids", "prod1", 1_234_567_890, 1),
        InputRecord("generated-lines", "w2", warehouse_line("w2", "prod1"), 2),
    ]
    wanted = {
        "unmatched-lines": [("w1", warehouse_line("w1", "prod1"))],
        "matched-lines": [("w2", warehouse_line("w2", "prod1", 1_234_567_890))],
    }
    assert_plays(warehouse.topology(warehouse.match_products), tape, wanted, tmp_path)


def test_what_one_line_recovers_matches_the_next(tmp_path):
    """The second line of a product finds what the old system said of the first, which has come round by then."""
    parts = (warehouse.match_products, warehouse.feed_legacy_ids, warehouse.merge_lines)
    tape = [
        InputRecord("generated-lines", "w1", warehouse_line("w1", "prod1"), 0),
        InputRecord("generated-lines", "w2", warehouse_line("w2", "prod1"), 1),
        InputRecord("generated-lines", "w3", warehouse_line("w3", "prod2"), 2),
        InputRecord("generated-lines", "w4", warehouse_line("w4", "prod1"), 3),
    ]
    wanted = {
        "unmatched-lines": [(key, warehouse_line(key, product)) for key, product in (("w1", "prod1"), ("w3", "prod2"))],
        "recovered-lines": [("w1", warehouse_line("w1", "prod1", 111))],
        "failed-lines": [("w3", warehouse_line("w3", "prod2"))],
        "product-legacy-ids": [("prod1", 111)],
        "new-warehouse-lines": [(key, warehouse_line(key, "prod1", 111)) for key in ("w1", "w2", "w4")],
    }
    assert_plays(warehouse.topology(*parts, legacy_ids={"prod1": 111}), tape, wanted, tmp_path)


def order(uuid, *lines, day_ms=DAY_MS):
    address = {"country": "ES", "city": "Soria", "zipCode": "42001"}
    names = ("uuid", "productUuid", "price", "quantity")
    return {
        "uuid": uuid,
        "datetime": day_ms + 3_600_000,
        "memberUuid": "m1",
        "shippingAddress": address,
        "lines": [dict(zip(names, line, strict=True)) for line in lines],
    }


def test_orders_become_one_order_to_the_warehouse_a_day(tmp_path):
    product = {"name": "Mug", "type": "cup", "barCode": None, "price": 4.0}
    tape = [
        InputRecord("new-members", "m1", {"uuid": "m1", "firstName": "Ann", "lastName": "Lee"}, 0),
        InputRecord("new-products", "mug", product | {"uuid": "mug"}, 0),
        InputRecord("new-products", "tea", product | {"uuid": "tea", "name": "Tea", "price": 1.5}, 0),
        InputRecord("new-orders", "o1", order("o1", ("l1", "mug", 9.0, 2), ("l2", "tea", 3.0, 10)), 10),
        InputRecord("new-orders", "o2", order("o2", ("l3", "mug", 9.0, 1), ("l4", "hat", 30.0, 1)), 20),  # no hats
    ]
    topology = warehouse.topology(legacy_ids={"mug": 7})
    found = play_whole(topology, tape)

    converted = [(one.value["memberFirstName"], one.value["totalAmount"]) for one in found["converted-orders"]]
    assert converted == [("Ann", 48.0), ("Ann", 39.0)]
    assert [one.value["uuid"] for one in found["split-lines"]] == ["l1", "l2", "l3"]
    quantities = [(one.key, one.value["quantity"]) for one in found["aggregated-lines"]]
    assert quantities == [("ES-2019-01-01-mug", 2), ("ES-2019-01-01-tea", 10), ("ES-2019-01-01-mug", 3)]
    assert [one.value["totalAmount"] for one in found["purchase-orders"]] == [8.0, 23.0, 27.0]
    assert [one.key for one in found["failed-lines"]] == ["l2"]
    orders = [
        [(line["uuid"], line["productLegacyId"], line["quantity"]) for line in one.value["lines"]]
        for one in found["warehouse-orders"]
    ]
    assert orders == [[("l1", 7, 2)], [("l1", 7, 3)]]  # recovered, then matched
    assert [len(found[topic]) for topic in ("recovered-lines", "matched-lines")] == [1, 1]
    assert_plays(topology, tape, {}, tmp_path)
