"""Data Docs: pages of every increment in one folder, which load nothing, show hostile values as text and lead back."""

import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

from kstreams_replay.expectations.facts import ReplayFacts
from kstreams_replay.expectations.suites import data_docs
from kstreams_replay.expectations.suites.data_docs import DataDocs
from kstreams_replay.expectations.verdicts import check_increment
from tests.expectations.conftest import FACTS, FINALS_1, Planted
from tests.source_tree import text_of

pytestmark = [pytest.mark.usefixtures("great_expectations"), pytest.mark.sampled]

_BLOCK = re.MULTILINE | re.DOTALL
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

    line = r'<a href="[^"]+">([✓!✗] \w+)</a></td>\s*<td>flights</td>\s*<td>(\d)</td>\s*<td><a [^>]+>([^<]+)</a></td>'
    found = re.findall(line, index)
    assert found[:2] == [("✗ failed", "2", "outputs.counts"), ("! warning", "2", "ledger")]  # a third was dropped: G12
    assert sorted(found[2:]) == [("✓ passed", "1", "ledger"), ("✓ passed", "1", "outputs.counts")]
    assert all((folder / unquote(page)).is_file() for page in re.findall(r'href="([^"h][^"]*)"', index))


def judged(severity: str, *, success: bool = False, raises: bool = False) -> SimpleNamespace:
    """A result of an expectation, as Great Expectations has it."""
    info = {"raised_exception": raises, "exception_message": "no such column"}
    return SimpleNamespace(
        success=success, expectation_config=SimpleNamespace(severity=severity), exception_info=info, result={}
    )


def test_what_is_broken_comes_first_in_the_index_and_a_warning_is_no_failure():
    from kstreams_replay.expectations.suites.docs_pages import VerdictIndex  # it imports Great Expectations

    results = {
        5: [judged("critical", success=True)],
        4: [judged("warning"), judged("critical", success=True)],
        3: [judged("warning"), judged("critical")],
        2: [judged("critical", success=True)],
        1: [judged("warning", raises=True)],
    }
    links = [
        {
            "run_id": run, "expectation_suite_name": "counts", "batch_identifier": "b",
            "validation_success": all(each.success for each in found),
        }
        for run, found in results.items()
    ]  # fmt: skip
    context = SimpleNamespace(
        get_validation_result=lambda expectation_suite_name, run_id, batch_identifier: SimpleNamespace(
            results=results[run_id]
        )
    )

    shown = VerdictIndex(data_context=context).render({"validations_links": links})["validations_links"]

    assert [(link["run_id"], link["verdict"]) for link in shown] == [
        (3, "failed"), (1, "failed"), (5, "passed"), (4, "warning"), (2, "passed"),
    ]  # fmt: skip


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


def test_the_page_shows_how_data_docs_are_named():
    page = text_of("docs/quality.md")
    code = re.search(r"^```python\n(from kstreams_replay import DataDocs\n.*?)^```", page, _BLOCK)[1]
    names: dict[str, DataDocs] = {}
    exec(code, names)

    assert names["docs"].address() == "http://localhost:8000/docs/index.html"


def test_an_address_is_that_of_who_serves_the_folder():
    assert DataDocs("s3://bucket/docs").address() == "s3://bucket/docs/index.html"
    assert DataDocs("s3://bucket/docs", served_at="http://localhost/q/").address("a b.html") == (
        "http://localhost/q/a%20b.html"
    )
