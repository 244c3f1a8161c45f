"""Numbers of deduplications, joins and late records, by hand; and a scraper's own parser reads what is printed."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.increment_report import percentile_ms
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import JoinWindows, StreamsBuilder, Topology
from kstreams_replay.orchestration.quality.metrics import increments_in_force, metric_rows
from kstreams_replay.orchestration.quality.openmetrics import openmetrics
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import TEXTS, tape
from tests.planted import plant

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
