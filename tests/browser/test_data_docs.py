"""Data Docs in Chromium, without any network: what failed is read there, and hostile values are text."""

import pytest
from selenium.webdriver.common.by import By

from kstreams_replay.expectations.suites.data_docs import DataDocs
from kstreams_replay.expectations.verdicts import check_increment
from tests.browser.pages import save
from tests.expectations.conftest import FACTS, FINALS_1, Planted

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> DataDocs:
    """Two increments, of which the second repeats the final result of a hostile key."""
    planted = Planted(str(tmp_path_factory.mktemp("warehouse")))
    docs = DataDocs(str(tmp_path_factory.mktemp("docs")), dagster_url="http://localhost:3000")
    hostile = {**FINALS_1[0], "key": HOSTILE}
    planted.run_first(finals=[hostile])
    planted.run_second(finals=[{**hostile, "offset": 1}])
    for increment in (1, 2):
        check_increment(planted.warehouse, "flights", FACTS, increment, docs=docs, run_id="r-7")
    return docs


def test_what_failed_is_found_from_the_index_and_read_on_its_page(offline, pages, artifacts):
    offline.get(pages.address())
    rows = offline.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert [" ".join(row.text.split()[:5]) for row in rows if "passed" not in row.text] == [
        "✗ failed flights 2 outputs.counts",
        "! warning flights 2 ledger",  # one record of three is dropped, which G12 warns of
    ]
    row = rows[0]
    save(offline, artifacts / "data-docs-index.png")

    row.find_element(By.LINK_TEXT, "✗ failed").click()

    text = offline.find_element(By.TAG_NAME, "body").text
    assert "Pipeline flights, increment 2, Dagster run r-7" in text
    assert "No final result has a key and window that an earlier one has." in text
    assert "onerror" in text
    assert offline.title != "taken"
    assert offline.find_elements(By.TAG_NAME, "img") == []
    marks = offline.execute_script(
        "return [...document.querySelectorAll('.fa-times')].map(e => getComputedStyle(e, '::before').content)"
    )
    assert set(marks) == {'"✗"'}
    save(offline, artifacts / "data-docs-page.png")
