"""Numbers of deduplications, joins and late records, by hand; and a scraper's own parser reads what is printed."""

from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.increment_report import percentile_ms
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import JoinWindows, Materialized, StreamsBuilder, Topology
from kstreams_replay.orchestration.quality.metrics import increments_in_force, metric_rows
from kstreams_replay.orchestration.quality.openmetrics import openmetrics
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import TEXTS, tape
from tests.planted import LandedRecord, plant

PRICES = tape(("tea", "3", 0))
CLICKS = tape(
    ("tea", "a", 10),
    ("tea", "b", 15),  # a duplicate of a
    ("oil", "c", 40),  # has no price
    ("tea", "d", 20),  # 20 late; a is forgotten since stream time is 40
    ("tea", "e", 60),
)
VIEWS = tape(("tea", "v", 12), ("oil", "w", 70))


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks, views = builder.stream("clicks", TEXTS), builder.stream("views", TEXTS)
    clicks.deduplicate_by_key(10, name="first").to("firsts")
    clicks.join(builder.table("prices", TEXTS), "left || '@' || right", name="priced").to("prices_of_clicks")
    clicks.join(views, "left || right", JoinWindows.of_time_difference_and_grace(5, 100), name="seen").to("pairs")
    return builder.build()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(str(tmp_path_factory.mktemp("warehouse")))
    for topic, records in (("prices", PRICES), ("clicks", CLICKS), ("views", VIEWS)):
        plant(warehouse, topic, records, partitions=1)
    list(replay(warehouse, topology(), pipeline="shop", runner=LocalRunner(), idle="proceed"))
    return warehouse


def test_duplicates_matches_and_percentiles_of_lateness_are_counted(warehouse):
    ((planned, done),) = increments_in_force(warehouse, "shop")

    numbers = {(row["operator"], row["metric"]): row["value"] for row in metric_rows(planned, done)}

    assert {key: value for key, value in numbers.items() if key[0] in ("first", "priced", "seen-merge")} == {
        ("first", "deduplicate-forwarded-total"): 4,
        ("first", "duplicates-total"): 1,  # b
        ("first", "duplicates-share"): 0.2,
        ("priced", "join-looked-up-total"): 5,
        ("priced", "join-matched-total"): 4,
        ("priced", "join-match-rate"): 0.8,
        ("seen-merge", "join-looked-up-total"): 7,
        ("seen-merge", "join-matched-total"): 2,  # v finds a, b finds v
        ("seen-merge", "join-match-rate"): 2 / 7,
    }
    assert [numbers[None, f"record-lateness-{name}"] for name in ("p50", "p90", "p99", "max")] == [0, 20, 20, 20]


def numbers_of(folder: Path, topology: Topology, **tapes: list[LandedRecord]) -> dict[str, list[float]]:
    """By join: records that looked for a partner, those that found one, and their share."""
    warehouse = Warehouse(str(folder))
    for topic, records in tapes.items():
        plant(warehouse, topic, records, partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
    ((planned, done),) = increments_in_force(warehouse, "p")
    found: dict[str, list[float]] = {}
    for row in metric_rows(planned, done):
        if row["metric"].startswith("join-"):
            found.setdefault(row["operator"], []).append(row["value"])
    return found


def test_records_that_an_outer_join_forwards_alone_have_no_match(tmp_path):
    """
    v finds a, b finds v. c and e, which match nothing, leave alone when a later record closes their windows; d is late.
    """
    builder = StreamsBuilder()
    clicks, views = builder.stream("clicks", TEXTS), builder.stream("views", TEXTS)
    windows = JoinWindows.of_time_difference_and_grace(5, 0)
    clicks.outer_join(views, "coalesce(left, '-') || coalesce(right, '-')", windows, name="either").to("either")

    got = numbers_of(tmp_path, builder.build(), clicks=CLICKS, views=VIEWS)

    assert got == {"either-merge": [7, 2, 2 / 7]}


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("store", [None, "both-store"], ids=["plain", "stored"])
def test_a_join_of_tables_counts_values_that_find_one_on_the_other_side(tmp_path, kind, store):
    """
    Tea's first price finds no stock, the stock a price, the next price the stock; a deletion looks for nothing.
    """
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", TEXTS), builder.table("stock", TEXTS)
    kept = None if store is None else Materialized.as_(store)
    joiner = "coalesce(left, '-') || coalesce(right, '-')"
    both = getattr(prices, kind)(stock, joiner, name="both", materialized=kept)
    both.to_stream().to("both")
    tapes = {
        "prices": tape(("tea", "3", 0), ("oil", "9", 5), ("tea", "4", 20), ("oil", None, 30)),
        "stock": tape(("tea", "1", 10)),
    }

    got = numbers_of(tmp_path, builder.build(), **tapes)

    assert list(got.values()) == [[4, 2, 0.5]]


def test_a_join_by_foreign_key_counts_left_values_whose_key_has_a_right_one(tmp_path):
    """
    o1 asks for ann, who is there; o2 for bob, who is not yet; o1 then asks for bob, who is not there either.
    """
    builder = StreamsBuilder()
    orders, customers = builder.table("orders", TEXTS), builder.table("customers", TEXTS)
    joined = orders.join(customers, "left || right", foreign_key="value")
    joined.to_stream().to("billed")
    tapes = {
        "customers": tape(("ann", "A", 0), ("bob", "B", 40)),
        "orders": tape(("o1", "ann", 10), ("o2", "bob", 20), ("o1", "bob", 30), ("o2", None, 50)),
    }

    got = numbers_of(tmp_path, builder.build(), **tapes)

    assert list(got.values()) == [[3, 1, 1 / 3]]


def test_a_percentile_is_the_nearest_rank_and_never_above_the_largest():
    counts = {0: 90, 5: 9, 1_151: 1}

    assert [percentile_ms(counts, percent, 1_100) for percent in (50, 90, 91, 99, 100)] == [0, 0, 5, 5, 1_100]
    assert percentile_ms({}, 50, None) is None


def test_a_scraper_reads_what_is_printed(warehouse):
    families = {each.name: each for each in text_string_to_metric_families(openmetrics(warehouse, "shop"))}

    (duplicates,) = families["replay_duplicates"].samples
    assert (families["replay_duplicates"].type, duplicates.name, duplicates.value) == (
        "counter", "replay_duplicates_total", 1,
    )  # fmt: skip
    assert duplicates.labels == {"pipeline": "shop", "sub_topology": "", "operator": "first", "label": ""}
    rates = {sample.labels["operator"]: sample.value for sample in families["replay_join_match_rate"].samples}
    assert families["replay_join_match_rate"].type == "gauge"
    assert rates == {"priced": 0.8, "seen-merge": 2 / 7}
