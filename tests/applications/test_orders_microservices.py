"""What the application's own tests of its services send and expect, and orders that go the whole way round."""

import pytest

from tests.applications import orders_microservices as orders
from tests.playing import InputRecord, assert_plays


def order(id, customer, product, quantity, price, *, state="CREATED"):
    return {
        "id": id,
        "customer_id": customer,
        "state": state,
        "product": product,
        "quantity": quantity,
        "price": price,
    }


def created(time_ms, *fields):
    return InputRecord("orders", fields[0], order(*fields), time_ms)


def verdict(id, check, result):
    return id, {"order_id": id, "check": check, "result": result}


def given(time_ms, *fields):
    return InputRecord("order-validations", *verdict(*fields), time_ms)


def test_details_of_an_order_must_make_sense(tmp_path):
    tape = [created(0, "0", 0, "UNDERPANTS", 3, 5.0), created(1, "1", 0, "JUMPERS", -1, 75.0)]
    wanted = [verdict("0", "ORDER_DETAILS_CHECK", "PASS"), verdict("1", "ORDER_DETAILS_CHECK", "FAIL")]
    assert_plays(orders.topology(orders.order_details_service), tape, {"order-validations": wanted}, tmp_path)


def test_a_customer_may_not_spend_too_much_within_a_session(tmp_path):
    tape = [
        created(0, "0", 0, "UNDERPANTS", 3, 5.0),
        created(1, "1", 0, "JUMPERS", 1, 75.0),
        created(2, "2", 1, "JUMPERS", 1, 75.0),
        created(3, "3", 1, "JUMPERS", 1, 75.0),
        created(4, "4", 1, "JUMPERS", 50, 75.0),
        created(5, "5", 2, "UNDERPANTS", 10, 100.0),
        created(6, "6", 2, "UNDERPANTS", 10, 100.0),
        created(7, "7", 2, "UNDERPANTS", 1, 5.0),
    ]
    results = ["PASS", "PASS", "PASS", "PASS", "FAIL", "PASS", "FAIL", "FAIL"]
    wanted = [verdict(str(number), "FRAUD_CHECK", result) for number, result in enumerate(results)]
    assert_plays(orders.topology(orders.fraud_service), tape, {"order-validations": wanted}, tmp_path)


def test_what_is_reserved_is_not_in_stock(tmp_path):
    tape = [
        InputRecord("warehouse-inventory", "UNDERPANTS", 75, 0),
        InputRecord("warehouse-inventory", "JUMPERS", 1, 0),
        created(1, "0", 1, "UNDERPANTS", 3, 10.0),
        created(2, "1", 2, "JUMPERS", 1, 75.0),
        created(3, "2", 2, "JUMPERS", 1, 75.0),
    ]
    wanted = [verdict(str(number), "INVENTORY_CHECK", result) for number, result in enumerate(["PASS", "PASS", "FAIL"])]
    assert_plays(orders.topology(orders.inventory_service), tape, {"order-validations": wanted}, tmp_path)


def test_an_order_that_passes_every_check_is_validated_and_one_that_fails_one_has_failed(tmp_path):
    tape = [
        created(0, "0", 0, "UNDERPANTS", 3, 5.0),
        created(0, "1", 0, "JUMPERS", 1, 75.0),
        given(1, "0", "FRAUD_CHECK", "PASS"),
        given(2, "0", "ORDER_DETAILS_CHECK", "PASS"),
        given(3, "0", "INVENTORY_CHECK", "PASS"),
        given(4, "1", "FRAUD_CHECK", "PASS"),
        given(5, "1", "ORDER_DETAILS_CHECK", "FAIL"),
        given(6, "1", "INVENTORY_CHECK", "PASS"),
    ]
    wanted = [
        ("0", order("0", 0, "UNDERPANTS", 3, 5.0, state="VALIDATED"), 3),
        ("1", order("1", 0, "JUMPERS", 1, 75.0, state="FAILED"), 5),
    ]
    assert_plays(orders.topology(orders.validations_aggregator), tape, {"orders": wanted}, tmp_path)


CUSTOMER = {"id": 15, "first_name": "Franz", "email": "franz", "level": "gold"}
PAYMENT = {"id": "Payment:1234", "order_id": "0", "currency": "CZK", "amount": 1000.0}


def test_who_has_paid_gets_a_mail_and_orders_go_by_level(tmp_path):
    tape = [
        InputRecord("customers", 15, CUSTOMER, 0),
        created(1, "0", 15, "UNDERPANTS", 3, 5.0),
        InputRecord("payments", PAYMENT["id"], PAYMENT, 2),
    ]
    mail = {"order": order("0", 15, "UNDERPANTS", 3, 5.0), "payment": PAYMENT, "customer": CUSTOMER}
    wanted = {"emails": [("0", mail)], "gold": [("0", {"id": "0", "level": "gold"})]}
    assert_plays(orders.topology(orders.email_service), tape, wanted, tmp_path)


ALL_THE_WAY = [
    InputRecord("warehouse-inventory", "JUMPERS", 10, 0),
    InputRecord("customers", 15, CUSTOMER, 0),
    created(1_000, "a", 15, "JUMPERS", 4, 75.0),
    created(2_000, "b", 15, "JUMPERS", 7, 75.0),
    created(3_000, "c", 15, "JUMPERS", 6, 300.0),
    InputRecord("payments", PAYMENT["id"], PAYMENT | {"order_id": "a"}, 4_000),
]


@pytest.mark.nightly
def test_all_services_together_take_an_order_round(tmp_path):
    """The third verdict that passes validates an order, the first that fails fails it, and what comes back is no new
    order.
    """
    wanted = {
        "orders": [
            ("a", order("a", 15, "JUMPERS", 4, 75.0, state="VALIDATED"), 1_000),
            ("b", order("b", 15, "JUMPERS", 7, 75.0, state="FAILED"), 2_000),
            ("c", order("c", 15, "JUMPERS", 6, 300.0, state="FAILED"), 3_000),
        ],
    }
    assert_plays(orders.topology(), ALL_THE_WAY, wanted, tmp_path)
