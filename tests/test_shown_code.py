"""Code that pages and docstrings show runs, or is checked as far as it can be without a cluster.

Rule: every block of every page is run here, or by the test that RUN_BY names.
Commands are parsed by the command line's own parser.
"""

import ast
import inspect
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from kstreams_replay import FileSource, LandingRules, TopologyTestDriver, Warehouse, land_files
from kstreams_replay.orchestration.cli.main import _replay
from tests.source_tree import ROOT, files, refuse, text_of
from tests.topology.test_docstring_examples import CALLS, FOLDS

pytestmark = pytest.mark.xdist_group("source tree")  # read and parsed once

RUN_BY = {
    ("docs/asking.md", "python"): "tests/history/test_page_asking.py",
    ("docs/asking.md", "sql"): "tests/history/test_page_asking.py",
    ("docs/backfills.md", "python"): "tests/branches/test_backfill.py",
    ("docs/backfills.md", "yaml"): "tests/dagster/test_range_job.py",
    ("docs/quality.md", "python"): "tests/orchestration/quality/test_suites_and_alarms.py",
    ("docs/quality.md", "yaml"): "tests/orchestration/quality/test_suites_and_alarms.py",
    ("docs/tables.md", "sql"): "tests/history/test_page_asking.py",
    ("docs/testing-a-topology.md", "java"): "tests/jvm/test_java_twin.py",
    ("docs/your-pipeline-in-dagster.md", "python"): "tests/dagster/documented_project.py",
    ("docs/your-pipeline-in-dagster.md", "toml"): "tests/dagster/documented_project.py",
    ("docs/your-pipeline-in-dagster.md", "yaml"): "tests/dagster/documented_project.py",
    **{
        (f"docs/tutorials/{page}.md", language): "tests/test_tutorials.py"
        for page in ("final-results", "reference-tables", "a-processor-with-state", "late-data", "a-fix", "a-cluster")
        for language in (["python"] if page == "a-cluster" else ["python", "toml"])
    },
}
"""Page and language of blocks that another test runs, and that test."""

NOT_CODE = {"text", "properties", ""}
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class CodeBlock:
    """A block of code: ``line`` is that of its fence."""

    path: str
    line: int
    language: str
    text: str


def pages() -> list[str]:
    return [path for path in files() if path.endswith(".md") and path != "CHANGELOG.md"]


def blocks(path: str) -> Iterator[CodeBlock]:
    page = text_of(path)
    for found in _FENCE.finditer(page):
        yield CodeBlock(path, page.count("\n", 0, found.start()) + 1, found[2], found[3])


BLOCKS = [block for path in pages() for block in blocks(path)]
PYTHON = {
    path: [each for each in blocks(path) if each.language == "python"]
    for path in pages()
    if (path, "python") not in RUN_BY
}


def test_every_block_is_run_by_a_test_here_or_elsewhere():
    of_a_page = {(each.path, each.language) for each in BLOCKS}
    run_here = {"python", "bash", "json", *NOT_CODE}

    assert sorted(place for place in of_a_page - RUN_BY.keys() if place[1] not in run_here) == []
    assert sorted(RUN_BY.keys() - of_a_page) == []


@pytest.mark.parametrize(("page", "language"), RUN_BY)
def test_the_test_that_runs_a_page_reads_it(page, language):
    assert Path(page).name in text_of(RUN_BY[page, language])


# --- Python ------------------------------------------------------------------------------------------------------


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What blocks use without importing it: README's topology, and a warehouse W with its clicks."""
    made: dict[str, Any] = {"TopologyTestDriver": TopologyTestDriver, "Warehouse": Warehouse, "__name__": "__main__"}
    exec(next(blocks_of("README.md", "StreamsBuilder()")).text, made)
    shown = ModuleType("topology")
    shown.topology = made["topology"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "topology", shown)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    rows = [{"user": "ann", "page": "home", "ms": 1_767_258_000_000}, {"user": "bob", "page": "pay", "ms": "soon"}]
    (tmp_path / "in" / "day.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = FileSource("in", timestamp="ms", key="user", partitions=4)
    rules = LandingRules(on_bad_row="dead_letter", max_bad_share=0.9)
    land_files(None, Warehouse("W"), "clicks", source, rules=rules)
    return made


def blocks_of(path: str, part: str) -> Iterator[CodeBlock]:
    return (each for each in blocks(path) if part in each.text)


def given(path: str) -> dict[str, Any]:
    """What a page's blocks use beside ``names``: what its sentences speak of."""
    if path == "orchestration/README.md":
        import dagster as dg

        from kstreams_replay.orchestration.cli import options
        from kstreams_replay.orchestration.cli.command import command
        from kstreams_replay.orchestration.resources import SparkEngine

        return {"dg": dg, "SparkEngine": SparkEngine, "FileSource": FileSource, "click": click} | {
            "command": command, "options": options, "option": click.option
        }  # fmt: skip
    if path == "expectations/README.md":
        from kstreams_replay.orchestration.facts import guarantees

        return {"guarantees": guarantees}
    return {}


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path, found in PYTHON.items() if found])
def test_the_python_that_a_page_shows_runs(path, names):
    names |= given(path)

    for block in PYTHON[path]:
        exec(compile("\n" * block.line + block.text, path, "exec"), names)  # a failure names the page's line


def test_every_example_in_a_docstring_is_one_of_those_that_run():
    run = {inspect.getdoc(each) for each in (CALLS | FOLDS).values()}
    shown = {
        f"{path}: {node.name}": inspect.cleandoc(ast_docstring)
        for path in files()
        if path.endswith(".py") and not path.startswith("tests/") and ">>>" in text_of(path)
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        if ">>>" in (ast_docstring := ast.get_docstring(node) or "")
    }

    assert [place for place, docstring in shown.items() if docstring not in run] == []


def test_every_json_that_a_page_shows_can_be_read():
    assert all(json.loads(each.text) for each in BLOCKS if each.language == "json")


# --- commands ------------------------------------------------------------------------------------------------------


def shown_commands() -> Iterator[tuple[str, str]]:
    """("page:line", command) of every command of a block, fenced or indented, without line breaks and redirections."""
    for path in pages():
        page = re.sub(r"\\\n *", lambda found: " " * len(found.group()), text_of(path))
        for found in re.finditer(
            r"^(?:    )?(?:\$ |[A-Z_]+=\S+ )*(?:\S*bin/)?(replay [a-z].*|python -m .*)$", page, re.M
        ):
            yield f"{path}:{page.count(chr(10), 0, found.start()) + 1}", re.split(r" \| | > (?=\S+$)", found[1])[0]


def refusal(words: list[str]) -> str | None:
    """What the command line's parser says against a command's words; None if it takes them."""
    context = click.Context(_replay, info_name="replay")
    command = _replay.get_command(context, words[0])
    if command is None:
        return f"there is no command {words[0]}"
    try:
        command.make_context(words[0], words[1:], parent=context)
    except click.UsageError as error:
        return error.format_message()
    return None


def unknown_options(name: str, rest: str) -> list[str]:
    """Options of a command in a sentence that it does not have."""
    command = _replay.get_command(click.Context(_replay), name)
    if command is None:
        return [name]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    return [option for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", rest) if option not in known]


def test_every_replay_command_that_a_page_shows_is_taken_by_its_parser():
    shown = [
        each for each in shown_commands() if not each[0].startswith("docs/tutorials/")
    ]  # test_tutorials.py runs them
    commands = [(place, line) for place, line in shown if line.startswith("replay") and "[--" not in line]

    assert len(commands) >= 25
    refuse(
        [f"{place}: {line}: {said}" for place, line in commands if (said := refusal(shlex.split(line, True)[1:]))],
        "The command line does not take what the page shows:",
    )


def test_every_replay_command_in_a_sentence_has_the_options_that_it_names():
    told = re.compile(r"`replay ([a-z][a-z-]+)([^`]*)`")
    read = [path for path in files() if path.endswith((".md", ".py")) and not path.startswith(("tests/", "CHANGELOG"))]
    found = [(path, each) for path in read for each in told.finditer(text_of(path))]

    assert len(found) > 100
    refuse(
        [f"{path}: {each.group()}: {unknown}" for path, each in found if (unknown := unknown_options(*each.groups()))],
        "The command has no such option:",
    )


def test_every_program_that_a_page_shows_is_there_and_has_the_options_and_files_that_it_names():
    programs = [(place, line) for place, line in shown_commands() if line.startswith("python")]

    assert len(programs) > 10
    refuse(
        [f"{place}: {line}: {said}" for place, line in programs for said in missing(shlex.split(line, True))],
        "There is no such module, option or file:",
    )


def missing(words: list[str]) -> Iterator[str]:
    """What is not there of ``python -m module words``. Options are looked for where modules spell them."""
    module, path = words[2], words[2].removeprefix("kstreams_replay.").replace(".", "/")
    if module != "pytest":
        source = next((text_of(each) for each in (f"{path}.py", f"{path}/__main__.py") if each in files()), None)
        if source is None:
            yield module
            return
        source += text_of("benchmarks/measuring.py") + text_of("tests/broken_rules.py")
        options = [word.strip("[]") for word in words[3:] if word.strip("[").startswith("--")]
        yield from (option for option in options if f'"{option}"' not in source)
    yield from (
        word for word in words if word.startswith("tests/") and not list(ROOT.glob(word)) and "FACT" not in word
    )
