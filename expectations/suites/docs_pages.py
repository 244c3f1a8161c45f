"""How pages of Data Docs look: as Great Expectations draws them, but readable without any network, and without scripts.

Owns the look. Rule: a page loads nothing from anywhere and runs nothing, which its policy enforces in browsers, too; a
small style of our own replaces the files that are not loaded (marks of verdicts, columns, foldouts). Each page names
its increment and the run that checked it.
"""

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
from great_expectations.render.view.view import DefaultJinjaPageView

from .results import is_warning

_HERE = Path(__file__).parent
_LOADED = re.compile(
    r"""<script\b.*?</script>|<link\b[^>]*?>|<img\b[^>]*?\bsrc="https?:[^>]*?>|<footer\b.*?</footer>""",
    re.IGNORECASE | re.DOTALL,
)
_LOADED_BY_STYLE = re.compile(r"""url\(\s*['"]?https?:[^)]*\)""", re.IGNORECASE)
_RUN = re.compile(
    r"(?P<pipeline>[A-Za-z0-9._-]+)-increment-(?P<increment>\d+)(?:-to-(?P<last>\d+))?(?:-run-(?P<run>[A-Za-z0-9-]+))?"
)
"""As `checkpoint.JudgedRun.name` writes it."""
_WORDS = {"passed": "✓ passed", "warning": "! warning", "failed": "✗ failed"}


def linked_run(name: str, dagster_url: str | None) -> dict[str, Any] | None:
    """Pipeline, increment, run and its address, of what contains a run's name; None where that names no increment."""
    match = _RUN.search(name)
    if match is None:
        return None
    run = match["run"] or ""
    address = f"{dagster_url.rstrip('/')}/runs/{quote(run)}" if run and _is_web(dagster_url) and dagster_url else ""
    first, last = int(match["increment"]), int(match["last"] or match["increment"])
    words = {"increment": first, "increments": f"{first}" if first == last else f"{first} to {last}"}
    return {"pipeline": match["pipeline"], **words, "run": run, "address": address}


class OfflinePageView(DefaultJinjaPageView):
    """A page about one suite, or one result of it."""

    def __init__(self, dagster_url: str | None = None, **directories: Any) -> None:
        super().__init__(**directories)
        self.dagster_url = dagster_url

    @jinja2.pass_context
    def render_content_block(self, page: Any, content: Any, *args: Any, **settings: Any) -> Any:
        """Values of cells are text, which Great Expectations takes for HTML."""
        if isinstance(content, str):
            return html.escape(content)
        if isinstance(content, list):
            content = [html.escape(each) if isinstance(each, str) else each for each in content]
        return super().render_content_block(page, content, *args, **settings)

    def render(self, document: Any, template: Any = None, **settings: Any) -> str:
        """The page as text."""
        draw: Any = super().render
        drawn = _LOADED_BY_STYLE.sub("none", _LOADED.sub("", draw(document, template=template, **settings)))
        title = getattr(document, "page_title", "") or ""
        run = linked_run(title, self.dagster_url)
        head = _template("page_head.html.j2").render(style=_style(), run=run)
        banner = _template("page_banner.html.j2").render(run=run) if run else ""
        drawn = drawn.replace("</head>", f"{head}</head>", 1)
        return re.sub(r"(<body\b[^>]*>)", lambda body: f"{body[1]}{banner}", drawn, count=1)


class VerdictIndex:
    """What the index shows, from the links that Great Expectations has collected.

    ``data_context``: Great Expectations' own, which has the results that the links are of.
    """

    def __init__(self, data_context: Any = None, **_: Any) -> None:
        self._context = data_context

    def render(self, links: Mapping[str, Any]) -> Mapping[str, Any]:
        """The links of results with their verdicts: what is broken first, and else in the order in which they came."""
        judged = [{**link, "verdict": self._verdict(link)} for link in links.get("validations_links", [])]
        return {**links, "validations_links": sorted(judged, key=lambda link: link["verdict"] != "failed")}

    def _verdict(self, link: Mapping[str, Any]) -> str:
        """Of a result that is no success, what failed says whether that is only a warning."""
        if link["validation_success"]:
            return "passed"
        names = ("expectation_suite_name", "run_id", "batch_identifier")
        result = self._context.get_validation_result(**{name: link[name] for name in names})
        return "warning" if is_warning(result.results) else "failed"


class VerdictIndexView:
    """The index: one row a suite and run, the broken ones first, then the newest, with its verdict in words."""

    def __init__(self, dagster_url: str | None = None, **_: Any) -> None:
        self.dagster_url = dagster_url

    def render(self, links: Mapping[str, Any], **_: Any) -> str:
        """The page as text."""
        rows = [
            {
                "suite": link["expectation_suite_name"],
                "page": link["filepath"],
                "suite_page": quote(link["expectation_suite_filepath"]),
                "verdict": link["verdict"],
                "words": _WORDS[link["verdict"]],
                "at": f"{link['run_time']:%Y-%m-%d %H:%M:%S}",
                "name": link["run_name"],
                "run": linked_run(str(link["run_name"]), self.dagster_url),
            }
            for link in links.get("validations_links", [])
        ]
        return _template("index.html.j2").render(rows=rows, style=_style())


def _is_web(address: str | None) -> bool:
    return address is not None and urlsplit(address).scheme in ("http", "https")


def _style() -> str:
    return (_HERE / "data_docs.css").read_text("utf-8")


def _template(name: str) -> jinja2.Template:
    loader = jinja2.FileSystemLoader(_HERE)
    return jinja2.Environment(loader=loader, autoescape=True).get_template(name)
