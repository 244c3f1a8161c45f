"""What people see: the example's asset graph, a materialization with its numbers, a check with its sentence.

Each test waits for the elements that it speaks of and leaves a screenshot in `artifacts/`.
"""

import pytest
from selenium.webdriver.common.by import By

from examples.flights.topology import topology
from kstreams_replay.expectations.guarantees import questions_of
from kstreams_replay.orchestration.facts import facts_of_output
from tests.browser.conftest import CODE_LOCATION
from tests.browser.pages import node, save, shown, text, value_of

pytestmark = pytest.mark.browser

TOPICS = ["aircraft", "departures", "weather"]
STORES = list(topology.stores())
OUTPUTS = ["aircraft_sessions", "departures_per_hour"]


def test_the_asset_graph_shows_every_table_of_the_pipeline_and_its_edges(browser, address, artifacts):
    browser.get(f"{address}/locations/{CODE_LOCATION}/asset-groups/flights")

    for name in (*TOPICS, *STORES, *OUTPUTS, "dropped", "dead_letter"):
        shown(browser, node(name))
    shown(browser, text("Materialized"), len((*TOPICS, *STORES, *OUTPUTS)))
    for output in OUTPUTS:  # its guarantees, and that records are replayed
        questions = questions_of(facts_of_output(topology, output))
        checks = len({each.guarantee.id for each in questions if each.guarantee.severity == "error"}) + 1
        shown(browser, text(f"{checks} / {checks} Passed"))
    save(browser, artifacts / "dagster-asset-graph.png")

    edges = browser.find_elements(By.CSS_SELECTOR, "path[marker-end]")
    assert len(edges) == 6 + 4  # topic → aggregate → suppress → output, twice; both topics → dropped, dead_letter


def test_a_materialization_shows_its_increment_its_books_and_its_table(browser, address, artifacts):
    browser.get(f"{address}/assets/flights/outputs/departures_per_hour?view=events")

    shown(browser, "//div[starts-with(normalize-space(), 'Materialized in run')]")
    got = {name: value_of(browser, name) for name in ("increment", "table_version", "records_undecodable")}
    save(browser, artifacts / "dagster-materialization.png")

    assert got == {"increment": "2", "table_version": "2", "records_undecodable": "0"}
    read, applied, dropped = (int(value_of(browser, f"records_{name}")) for name in ("read", "applied", "dropped"))
    assert read == applied + dropped
    assert dropped > 0


def test_a_check_shows_the_sentence_of_its_guarantee(browser, address, artifacts):
    browser.get(
        f"{address}/assets/flights/outputs/departures_per_hour"
        "?view=checks&checkDetail=one_final_result_per_key_and_window"
    )

    shown(browser, text("One final result per key and window."))
    shown(browser, text("This is a blocking asset check."))
    shown(browser, text("Passed"))
    save(browser, artifacts / "dagster-check.png")
