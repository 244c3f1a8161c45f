"""Data Docs: pages of every increment in one folder, which load nothing, show hostile values as text and lead back."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from kstreams_replay.expectations.facts import ReplayFacts
from kstreams_replay.expectations.suites import data_docs
from kstreams_replay.expectations.suites.data_docs import DataDocs
from kstreams_replay.expectations.verdicts import check_increment
from tests.expectations.conftest import FACTS, FINALS_1, Planted

pytestmark = [pytest.mark.usefixtures("great_expectations"), pytest.mark.sampled]

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


class LoadedParts(HTMLParser):
    """What a page would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "link", "img", "iframe"):
            self.found.append(tag)
        self.found += [name for name, _ in attrs if name in ("src", "onerror")]


@pytest.fixture(scope="module")
def documented(great_expectations, tmp_path_factory):
    """Pages of two increments, of which the second has the final result of a hostile key a second time."""
    planted = Planted(str(tmp_path_factory.mktemp("warehouse")))
    docs = DataDocs(str(tmp_path_factory.mktemp("docs")), dagster_url="http://localhost:3000")
    hostile = {**FINALS_1[0], "key": HOSTILE}
    planted.run_first(finals=[hostile])
    planted.run_second(finals=[{**hostile, "offset": 1}])
    verdicts = [check_increment(planted.warehouse, "flights", FACTS, each, docs=docs, run_id="r-7") for each in (1, 2)]
    return Path(docs.folder), verdicts


def page_of(verdict) -> str:
    return Path(unquote(urlsplit(verdict.page).path)).read_text("utf-8")


def test_each_verdict_has_a_page_which_shows_it(documented):
    _, (first, second) = documented

    assert [each.engine for each in (*first, *second)] == ["gx"] * 10
    assert "Succeeded" in page_of(first[0])
    assert "Failed" in page_of(second[0])
    assert "No final result has a key and window that an earlier one has." in page_of(second[0])


def test_a_page_leads_back_to_its_increment_and_run(documented):
    _, (_, second) = documented

    banner = re.search(r'<p class="replay-run">.*?</p>', page_of(second[0]), re.DOTALL)[0]
    assert "increment <b>2</b>" in banner
    assert '<a href="http://localhost:3000/runs/r-7">Dagster run r-7</a>' in banner


def test_the_index_has_a_line_a_suite_and_increment_and_its_links_lead_somewhere(documented):
    folder, _ = documented
    index = (folder / "index.html").read_text("utf-8")

    lines = re.findall(r'<a href="([^"]+)">(✓ passed|✗ failed)</a></td>\s*<td>flights</td>\s*<td>(\d)</td>', index)
    assert [(verdict, increment) for _, verdict, increment in lines].count(("✗ failed", "2")) == 2  # and of the drops
    assert [increment for _, _, increment in lines] == ["2", "2", "1", "1"]
    assert all((folder / unquote(page)).is_file() for page in re.findall(r'href="([^"h][^"]*)"', index))


def test_pages_load_nothing_and_show_hostile_values_as_text(documented):
    folder, _ = documented
    pages = {path: path.read_text("utf-8") for path in folder.rglob("*.html")}

    assert len(pages) > 5
    assert {name for text in pages.values() for name in LoadedParts(text).found} == set()
    assert any("&lt;img src=x onerror" in text for text in pages.values())
    assert not any("url(" in text and "https:" in text.split("url(")[1][:10] for text in pages.values())


def test_increments_with_other_tables_follow_in_the_same_folder(planted, tmp_path):
    """
    The books alone, then outputs, then the books again: each run has other batches than the one before.
    """
    docs = DataDocs(str(tmp_path / "docs"))
    planted.run_first()
    books = ReplayFacts(FACTS.sub_topologies)

    runs = [check_increment(planted.warehouse, "flights", facts, docs=docs) for facts in (books, FACTS, books)]

    assert [{(each.engine, each.reason) for each in verdicts} for verdicts in runs] == [{("gx", "")}] * 3


def test_old_runs_go_so_that_building_stays_quick(planted, tmp_path, monkeypatch):
    monkeypatch.setattr(data_docs, "RUNS_MAX", 1)
    docs = DataDocs(str(tmp_path / "docs"))
    planted.run_first()

    for _ in range(2):
        check_increment(planted.warehouse, "flights", FACTS, docs=docs)

    assert len(list(Path(docs.folder).glob("validations/ledger/*/*/*.html"))) == 1


def test_an_address_is_that_of_who_serves_the_folder():
    assert DataDocs("s3://bucket/docs").address() == "s3://bucket/docs/index.html"
    assert DataDocs("s3://bucket/docs", served_at="http://localhost/q/").address("a b.html") == (
        "http://localhost/q/a%20b.html"
    )
