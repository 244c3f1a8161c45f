"""An order that gets its prices one by one, and sales of a product by windows of every kind."""

import pytest

from tests.applications import purchase_dashboards as dashboards
from tests.playing import InputRecord, Tick, assert_plays

ANN, CORNER = {"user_id": "u1", "name": "Ann"}, {"store_id": "s1", "name": "Corner"}


def order(id, *items, time_ms=0, prices=None):
    return {
        "order_id": id,
        "user_id": "u1",
        "store_id": "s1",
        "timestamp": time_ms,
        "items": [{"sku": sku, "quantity": count, "price": (prices or {}).get(sku)} for sku, count in items],
    }


def test_an_order_can_be_picked_up_when_every_item_has_a_price(tmp_path):
    tape = [
        InputRecord("stores", "s1", CORNER, 0),
        InputRecord("users", "u1", ANN, 0),
        InputRecord("products", "tea", {"sku": "tea", "price": 2.5}, 0),
        InputRecord("products", "mug", {"sku": "mug", "price": 7.0}, 0),
        InputRecord("purchase-orders", "o1", order("o1", ("tea", 3), ("mug", 1)), 10),
        InputRecord("purchase-orders", "o2", order("o2", ("tea", 1), ("hat", 1)), 20),  # nobody knows what a hat costs
        InputRecord("purchase-orders", "o3", order("o3", ("tea", 1)) | {"user_id": "u2"}, 30),  # nor this user
    ]
    full = order("o1", ("tea", 3), ("mug", 1), prices={"tea": 2.5, "mug": 7.0}) | {"user": ANN, "store": CORNER}
    wanted = {"pickup-orders": [("o1", full, 10)]}
    assert_plays(dashboards.topology(), tape, wanted, tmp_path)


def sold(id, count, time_ms):
    return InputRecord("line-items", "tea", order(id, ("tea", count), ("mug", 9), time_ms=time_ms), time_ms)


def shown(quantity, ids, time_ms):
    return {"quantity": quantity, "order_ids": ids.split(), "timestamp": time_ms}


SALES = [sold("a", 2, 1_000), sold("b", 3, 9_000), sold("c", 1, 11_000), sold("d", 5, 9_500), sold("e", 4, 40_000)]


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        (
            dashboards.tumbling,
            [
                ("tea [0,10000)", shown(2, "a", 1_000)),
                ("tea [0,10000)", shown(5, "a b", 9_000)),
                ("tea [10000,20000)", shown(1, "c", 11_000)),
                ("tea [0,10000)", shown(10, "a b d", 9_500)),  # within the grace of 2 s
                ("tea [40000,50000)", shown(4, "e", 40_000)),
            ],
        ),
        (
            dashboards.hopping,
            [
                ("tea [0,10000)", shown(2, "a", 1_000)),
                ("tea [0,10000)", shown(5, "a b", 9_000)),
                ("tea [5000,15000)", shown(3, "b", 9_000)),
                ("tea [5000,15000)", shown(4, "b c", 11_000)),
                ("tea [10000,20000)", shown(1, "c", 11_000)),
                ("tea [0,10000)", shown(10, "a b d", 9_500)),
                ("tea [5000,15000)", shown(9, "b c d", 9_500)),
                ("tea [35000,45000)", shown(4, "e", 40_000)),
                ("tea [40000,50000)", shown(4, "e", 40_000)),
            ],
        ),
        (
            dashboards.session,
            [
                ("tea [1000,1000)", shown(2, "a", 1_000)),
                ("tea [1000,9000)", shown(5, "a b", 9_000)),
                ("tea [1000,11000)", shown(6, "a b c", 11_000)),
                ("tea [1000,11000)", shown(11, "a b c d", 9_500)),
                ("tea [40000,40000)", shown(4, "e", 40_000)),
            ],
        ),
        (
            dashboards.sliding,
            [
                ("tea [0,10000)", shown(10, "a b d", 9_500)),
                ("tea [1000,11000)", shown(11, "a b c d", 9_500)),
                ("tea [1001,11001)", shown(9, "b c d", 9_500)),
                ("tea [9001,19001)", shown(6, "c d", 9_500)),
                ("tea [9501,19501)", shown(1, "c", 11_000)),
            ],
        ),
    ],
)
def test_sales_of_a_product_by_windows(part, wanted, tmp_path):
    (topic,) = (f"analytics-{part.__name__.upper()}",)
    assert_plays(dashboards.topology(part), SALES, {topic: wanted}, tmp_path)


FORGOTTEN = [
    sold("a", 2, 1_000),
    sold("b", 3, 4_000),
    Tick(10_000),
    Tick(15_000),  # nothing was sold for longer than 10 s: the sales go, and are shown once more
    sold("c", 1, 16_000),  # and begin again
    Tick(20_000),
]


def test_sales_are_forgotten_when_nothing_was_sold_for_a_while(tmp_path):
    wanted = [
        ("tea", shown(2, "a", 1_000), 1_000),
        ("tea", shown(5, "a b", 4_000), 4_000),
        ("tea", shown(5, "a b", 4_000), 4_000),
        ("tea", shown(1, "c", 16_000), 16_000),
    ]
    assert_plays(dashboards.topology(dashboards.none), FORGOTTEN, {"analytics-NONE": wanted}, tmp_path)


def test_an_aggregate_goes_on_from_what_a_processor_restored(tmp_path):
    restored = {"sku": "tea", "quantity": 100, "order_ids": ["x"], "timestamp": 500}
    tape = [
        Tick(5_000),
        InputRecord("restore", "tea", restored, 6_000, (("RESTORE", b"1"),)),
        sold("a", 2, 7_000),
        Tick(10_000),
        InputRecord("restore", "tea", restored, 11_000, (("RESTORE", b"1"),)),  # there is something: nothing changes
        sold("b", 1, 12_000),
    ]
    wanted = [("tea", shown(102, "x a", 7_000)), ("tea", shown(103, "x a b", 12_000))]
    topology = dashboards.topology(dashboards.none_repartitioned)
    assert_plays(topology, tape, {"analytics-NONE_REPARTITIONED": wanted}, tmp_path)
