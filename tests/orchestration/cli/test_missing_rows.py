"""Why an output has no row of a key: what became of the key's records, and which windows there are."""

import pytest

from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import tape
from tests.planted import plant

TOPOLOGY = """
from kstreams_replay import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows
builder = StreamsBuilder()
text = Consumed(Serde.string(), Serde.string())
prices, clicks = builder.table("prices", text), builder.stream("clicks", text)
firsts = clicks.filter("value <> 'robot'").deduplicate_by_key(10, name="first")
firsts.join(prices, "left || right", name="priced").to("paid")
firsts.select_key("value", name="by-value").to("values")
counted = clicks.group_by_key().windowed_by(TimeWindows.of_size_and_grace(30, 5)).count()
counted.suppress(Suppressed.until_window_closes()).to("counts")
clicks.group_by("value").count().to("counts_of_values")
topology = builder.build()
"""
PRICES = tape(("tea", "3", 0), ("gum", "1", 0))
CLICKS = tape(
    ("tea", "a", 10),
    ("tea", "b", 15),  # a duplicate of a
    ("gum", "robot", 20),  # filtered
    ("oil", "c", 40),  # has no price
    ("wax", "d", 12),  # late for [0, 30)
    ("wax", "e", 60),
)


@pytest.fixture
def explain(command, tmp_path):
    """Lines of the answer for an output and a key."""
    warehouse = Warehouse(str(tmp_path / "w"))
    for topic, records in (("prices", PRICES), ("clicks", CLICKS)):
        plant(warehouse, topic, records, partitions=1)
    file = tmp_path / "shop.py"
    file.write_text(TOPOLOGY)
    where = ["--warehouse", warehouse.root, "--pipeline", "shop"]
    assert command("run", file, *where, "--local", "--idle", "proceed")[0] == 0

    def asked(output, key, *words):
        code, out, err = command(
            "explain", "--output", output, "--key", key, *words, "--topology", file, *where, "--raw"
        )
        assert code == 0, err
        return [" ".join(line.split()) for line in out.splitlines()]

    return asked


def test_a_record_without_a_match_says_so_and_that_the_table_lacks_the_key(explain):
    lines = explain("paid", "oil")

    assert lines[0] == "paid, key oil: no row"
    assert "1 record of clicks has this key" in lines
    assert "no record of prices has this key" in lines
    assert "clicks:0:3 was read by increment 1" in lines
    assert lines[-1] == "no match: forwards nothing"


def test_a_record_that_a_filter_left_out_ends_at_the_filter(explain):
    lines = explain("paid", "gum")

    assert "1 record of prices has this key" in lines
    assert lines[-1].startswith("KSTREAM-FILTER-")
    assert "clicks:0:2 was read by increment 1" in lines


def test_a_key_of_which_nothing_landed_is_named_so(explain):
    assert explain("paid", "zoe") == [
        "paid, key zoe: no row", "", "no record of clicks has this key", "", "no record of prices has this key",
    ]  # fmt: skip


def test_a_window_off_the_grid_names_those_beside_it_and_those_of_the_key(explain):
    lines = explain("counts", "tea", "--window", 7)

    assert "no window of counts begins then; one begins at 0, the next at 30" in lines
    assert "windows of this key that have rows begin at 0" in lines


def test_refusals_are_those_of_the_key_alone(explain):
    refused = explain("counts", "wax", "--window", 0)
    others = explain("counts", "oil", "--window", 0)

    (head,) = (line for line in refused if line.startswith("refused by windows"))
    assert head == "refused by windows that begin then, of this key; `explain --record TOPIC:PARTITION:OFFSET`:"
    assert refused[refused.index(head) + 3].split()[1:5] == ["expired-window", "clicks", "0", "4"]
    assert not [line for line in others if line.startswith("refused by windows")]


def test_the_records_nearest_to_the_window_are_followed_in_order_of_time(explain):
    lines = explain("counts", "wax", "--window", 0)

    followed = [line.split()[0] for line in lines if line.endswith("was read by increment 1")]
    assert followed == ["clicks:0:4", "clicks:0:5"]


def test_below_a_repartition_its_topic_is_looked_through(explain):
    (count,) = (line for line in explain("counts_of_values", "zoe") if "has this key" in line)

    assert count.startswith("no record of ")
    assert count.endswith("-repartition has this key")


def test_where_a_step_changes_keys_nothing_is_looked_for(explain):
    lines = explain("values", "zoe")

    assert "by-value gives records of clicks another key, so none is looked for by it;" in lines
    assert not [line for line in lines if "has this key" in line]


def test_a_final_row_was_closed_by_a_record_and_another_was_caused_by_it(explain):
    assert "the newest row was closed by" in explain("counts", "tea", "--window", 0)
    assert "the newest row was caused by" in explain("counts_of_values", "d")
