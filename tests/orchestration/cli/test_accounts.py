"""The account of an output names the operators that let go of records, each with its own number."""

import json

import pytest

from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import tape
from tests.planted import plant

TOPOLOGY = """
from kstreams_replay import Consumed, JoinWindows, Serde, StreamsBuilder
builder = StreamsBuilder()
text = Consumed(Serde.string(), Serde.string())
prices, clicks, views = builder.table("prices", text), builder.stream("clicks", text), builder.stream("views", text)
firsts = clicks.filter("value <> 'robot'").deduplicate_by_key(10, name="first")
firsts.join(prices, "left || right", name="priced").to("paid")
firsts.left_join(prices, "left || right", name="maybe-priced").to("all")
clicks.join(views, "left || right", JoinWindows.of_time_difference_and_grace(5, 100), name="seen").to("pairs")
topology = builder.build()
"""
PRICES = tape(("tea", "3", 0))
CLICKS = tape(
    ("tea", "a", 10),
    ("tea", "robot", 11),  # filtered
    ("tea", "b", 15),  # a duplicate of a
    ("oil", "c", 40),  # has no price
    ("tea", "e", 60),
    ("wax", "f", 70),  # has no price
)
VIEWS = tape(("tea", "v", 12), ("oil", "w", 80))


@pytest.fixture
def account(command, tmp_path):
    """Records by operator and name, and whether all balances, of an output."""
    warehouse = Warehouse(str(tmp_path / "w"))
    for topic, records in (("prices", PRICES), ("clicks", CLICKS), ("views", VIEWS)):
        plant(warehouse, topic, records, partitions=1)
    file = tmp_path / "shop.py"
    file.write_text(TOPOLOGY)
    where = ["--warehouse", warehouse.root, "--pipeline", "shop"]
    assert command("run", file, *where, "--local", "--idle", "proceed")[0] == 0

    def asked(output):
        code, out, err = command("account", output, "--topology", file, *where, "--json")
        assert code == 0, err
        return json.loads(out)

    return asked


def test_duplicates_and_records_without_a_match_are_counted_by_their_operator(account):
    (deduplicated, joined) = account("paid")["operators"]

    assert (deduplicated["operator"], deduplicated["came"], deduplicated["duplicates"]) == ("first", 5, 1)
    assert (joined["operator"], joined["came"], joined["unmatched"]) == ("priced", 4, 2)
    assert (deduplicated["unmatched"], joined["duplicates"]) == (None, None)


def test_a_left_join_says_how_many_records_it_joined_with_nothing(account):
    answer = account("all")

    assert [(each["operator"], each["unmatched"]) for each in answer["operators"]] == [
        ("first", None),
        ("maybe-priced", 2),
    ]
    assert answer["written"] == 4


def test_both_sides_of_a_join_of_streams_look_for_a_partner(account):
    """Of six clicks and two views v finds a and the robot, and b finds v."""
    (joined,) = account("pairs")["operators"]

    assert (joined["operator"], joined["came"], joined["unmatched"]) == ("seen-merge", 8, 6)


def test_an_operator_that_let_go_of_nothing_says_so(account, command, tmp_path):
    where = ["--warehouse", tmp_path / "w", "--pipeline", "shop", "--topology", tmp_path / "shop.py"]
    lines = [" ".join(line.split()) for line in command("account", "paid", *where)[1].splitlines()]

    assert "first came 5" in lines
    assert "duplicates 1" in lines
    assert "priced came 4" in lines
    assert "without a match when they came 2" in lines
