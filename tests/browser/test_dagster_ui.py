"""What people see: the example's asset graph, a materialization with its numbers, a check with its sentence.

Each test waits for the elements that it speaks of and leaves a screenshot in `artifacts/`.
"""

from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from examples.flights.topology import topology
from kstreams_replay.expectations.guarantees import questions_of
from kstreams_replay.orchestration.facts import facts_of_output
from tests.browser.conftest import CODE_LOCATION

pytestmark = pytest.mark.browser

WAIT_SECONDS = 60
TOPICS = ["aircraft", "departures", "weather"]
STORES = list(topology.stores())
OUTPUTS = ["aircraft_sessions", "departures_per_hour"]


def shown(browser: webdriver.Chrome, xpath: str, count: int = 1) -> list[WebElement]:
    """The elements at ``xpath`` that can be seen, as soon as there are ``count`` of them."""

    def look(page: webdriver.Chrome) -> list[WebElement]:
        found = [each for each in page.find_elements(By.XPATH, xpath) if each.is_displayed()]
        return found if len(found) >= count else []

    wait = WebDriverWait(browser, WAIT_SECONDS, ignored_exceptions=[StaleElementReferenceException])
    return wait.until(look, f"{count} × {xpath} at {browser.current_url}")


def node(name: str) -> str:
    """An asset in the graph; its name may be shortened, its tooltip is not."""
    return f"//*[@data-tooltip='{name}']"


def text(words: str) -> str:
    """The innermost element that says ``words``."""
    return f"//*[normalize-space()='{words}' and not(*[normalize-space()='{words}'])]"


def value_of(browser: webdriver.Chrome, name: str) -> str:
    """What is beside ``name`` in the table of metadata."""
    row = shown(browser, f"//tr[td[1][normalize-space()='{name}']]")[0]
    return row.text.removeprefix(name).strip()


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


def save(browser: webdriver.Chrome, path: Path) -> None:
    path.unlink(missing_ok=True)
    assert browser.save_screenshot(str(path))
