"""The site: each page of docs is in one part of it; its reference and its list for programs are whole."""

import tomllib

from docs.site.build import CONFIG, llms, reference
from tests.source_tree import ROOT, files

NAV = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]["nav"]
PARTS = {name: pages for part in NAV for name, pages in part.items()}


def test_every_page_of_docs_stands_in_one_part_of_the_site():
    shown = [page for pages in PARTS.values() for page in pages]
    pages = {path for path in files() if path.startswith("docs/") and path.endswith(".md")}

    assert list(PARTS) == ["Start", "Tutorials", "How-to", "Reference", "Explanation"]
    assert sorted(shown) == sorted(set(shown))
    assert sorted(page for page in pages - set(shown) if not page.startswith("docs/decisions/")) == []


def test_the_reference_has_each_call_with_its_arguments_and_its_example():
    text = reference()

    assert "### KStream.group_by_key\n" in text
    assert "### fold.count\n" in text
    assert "```python\nof_size(size, *, grace=0)\n```" in text or "```python\nof_size(size, grace=0)\n```" in text
    assert "```python\n>>> TimeWindows.of_size(" in text
    assert "``KStream" not in text


def test_a_program_finds_the_markdown_of_every_page(tmp_path):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "dsl.md").write_text("# The DSL\n")
    (tmp_path / "docs" / "tutorials").mkdir(parents=True)
    (tmp_path / "docs" / "tutorials" / "notebook.md").write_text("# A notebook\n")
    for path in files():
        if path.endswith(".md"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")

    lines = llms(tmp_path).splitlines()

    assert lines[0].startswith("# Kafka Streams replay ")
    assert "- [Final results](docs/tutorials/final-results.md)" in lines
    assert len([line for line in lines if line.startswith("- [")]) == sum(map(len, PARTS.values()))
