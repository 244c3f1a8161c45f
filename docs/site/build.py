"""Builds the site: ``python -m docs.site.build OUT`` leaves it in ``OUT/site``.

Owns which files are pages, the reference that is made from docstrings, pages of notebooks, ``llms.txt`` and the
Markdown twin of each page.
Rule: a page is where its file is, so a link between two files is the link between their pages; zensical.toml alone
says in which part of the site a page is. Zensical refuses a link to a page or heading that is not there.
"""

import inspect
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kstreams_replay
from kstreams_replay.jobs import topology

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("zensical.toml")
COPIED = (".md", ".png", ".ipynb", ".json")
CODE = re.compile(r"\]\(([^)#:]+\.(?:py|yaml|java|txt|sh))\)")
"""Links to files that are no pages: they are copied too, so that the links hold."""


def build(out: Path) -> Path:
    """The site of this checkout, in a folder of its own below ``out``. RuntimeError: Zensical refused a page."""
    source = out / "source"
    shutil.rmtree(source, ignore_errors=True)
    for path in _pages():
        _copy(path, source)
        for linked in CODE.findall((ROOT / path).read_text(encoding="utf-8")) if path.endswith(".md") else ():
            _copy(str((ROOT / path).parent.joinpath(linked).resolve().relative_to(ROOT)), source)
    for path in source.rglob("*.ipynb"):
        path.with_suffix(".md").write_text(notebook_page(path.read_text(encoding="utf-8")), encoding="utf-8")
    (source / "reference").mkdir()
    (source / "reference" / "dsl.md").write_text(reference(), encoding="utf-8")
    shutil.copy(CONFIG, out)
    command = [shutil.which("zensical") or "zensical", "build", "--clean", "--strict", "-f", str(out / CONFIG.name)]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"expected a site without warnings, got:\n{done.stdout}{done.stderr}")
    site = out / "site"
    for page in source.rglob("*.md"):
        shutil.copy(page, site / page.relative_to(source))
    (site / "llms.txt").write_text(llms(source), encoding="utf-8")
    return site


def _pages() -> Iterator[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for path in listed.stdout.splitlines():
        if path.endswith(".md") or (path.startswith("docs/") and path.endswith(COPIED)):
            yield path


def _copy(path: str, source: Path) -> None:
    (source / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / path, source / path)


def notebook_page(text: str) -> str:
    """Markdown of a notebook: its text, its code, and what the code prints."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [f"```text\n{text.rstrip()}\n```" for text in printed_by(cell)]
    return "\n\n".join(parts) + "\n"


def printed_by(cell: Mapping[str, Any]) -> list[str]:
    """The plain text of each output of a notebook's cell."""
    outputs = cell.get("outputs", ())
    return ["".join(each["text"] if "text" in each else each["data"]["text/plain"]) for each in outputs]


# --- the reference -----------------------------------------------------------------------------------------------


def reference() -> str:
    """Markdown of every public class of the DSL, with its calls, in the words of their docstrings."""
    parts = ["# The DSL, call by call\n\nThis page is made from the docstrings. Its examples run in the tests.\n"]
    for name in sorted(topology.__all__):
        subject = getattr(topology, name)
        if inspect.isclass(subject):
            parts.append(f"\n## {name}\n\n{_text(subject)}\n")
            parts += [f"\n### {name}.{call}\n\n{_call(call, each)}\n" for call, each in _calls(subject)]
        elif inspect.ismodule(subject):
            parts.append(f"\n## {name}\n\n{_text(subject)}\n")
            parts += [f"\n### {name}.{call}\n\n{_call(call, getattr(subject, call))}\n" for call in subject.__all__]
    return "".join(parts)


def _calls(subject: type) -> Iterator[tuple[str, object]]:
    for name, each in inspect.getmembers(subject, callable):
        if not name.startswith("_") and inspect.getdoc(each) and inspect.isroutine(each):
            yield name, each


def _call(name: str, subject: object) -> str:
    names = [
        f"{'*' if each.kind is each.VAR_POSITIONAL else '**' if each.kind is each.VAR_KEYWORD else ''}{each.name}"
        f"{'' if each.default is each.empty else '=' + repr(each.default)}"
        for each in inspect.signature(subject).parameters.values()  # type: ignore[arg-type]
        if each.name not in ("self", "this", "cls")
    ]
    return f"```python\n{name}({', '.join(names)})\n```\n\n{_text(subject)}"


def _text(subject: object) -> str:
    """A docstring as Markdown: names in single backquotes, and examples as blocks."""
    text = (inspect.getdoc(subject) or "").replace("``", "`")
    indented = re.compile(r"(?:^    .*\n(?:\n(?=    ))?)+", re.MULTILINE)
    return indented.sub(lambda found: f"```python\n{inspect.cleandoc('    ' + found[0].strip())}\n```\n", text + "\n")


# --- for readers that are programs -------------------------------------------------------------------------------


def llms(source: Path) -> str:
    """``llms.txt``: each part of the site with the Markdown of its pages, and their titles."""
    project = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]
    lines = [
        f"# {project['site_name']} {kstreams_replay.__version__}",
        "",
        f"> {project['site_description']}",
    ]
    for part in project["nav"]:
        for name, pages in part.items():
            lines += ["", f"## {name}", "", *(f"- [{title_of(source / page)}]({page})" for page in pages)]
    return "\n".join(lines) + "\n"


def title_of(page: Path) -> str:
    """The heading of a page."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


if __name__ == "__main__":
    print(build(Path(sys.argv[1]).resolve()))
