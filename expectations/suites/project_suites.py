"""Suites that users wrote, in a folder of their project: YAML or JSON as Great Expectations saves it, or Python.

Owns how files become suites. Rule: a suite names its table in its meta (`meta: {table: outputs/pages}`), so that a file
which Great Expectations itself has saved can be taken as it is. YAML and JSON are read without Great Expectations.
"""

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ...state.errors import ConfigError

_WORDS = ("name", "expectations", "meta", "notes", "id", "suite_parameters")
"""What a saved suite has."""


@dataclass(frozen=True)
class ProjectSuite:
    """One suite. ``table``: as the warehouse names it ("outputs/pages"); ``file``: where it is; ``content``: what Great
    Expectations makes a suite of.
    """

    name: str
    table: str
    file: str
    content: dict[str, Any] = field(repr=False, hash=False)

    @property
    def id(self) -> str:
        """Its name, by which verdicts know it as they know a guarantee by its id."""
        return self.name

    @property
    def sentence(self) -> str:
        """What its notes say, in one line; else which expectations it has."""
        notes = self.content.get("notes")
        if isinstance(notes, str) and notes.strip():
            return " ".join(notes.split())
        return f"What {self.file} expects of {self.table}."

    @property
    def check(self) -> str:
        """Its name in the letters that Dagster takes for a check."""
        return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in self.name)


def read_suites(folder: str | Path) -> tuple[ProjectSuite, ...]:
    """The suites of all files in ``folder`` (not below it), file by file; one whose name begins with "_" is no suite.

    Raises ConfigError for a folder that is not there or has no suite, and for what is not a suite.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ConfigError(str(folder), "a folder with suites", "no folder", "name the folder, or leave it out")
    suites: list[ProjectSuite] = []
    for file in sorted(path.iterdir()):
        if file.is_file() and not file.name.startswith(("_", ".")):
            suites += _suites_of(file)
    if not suites:
        raise ConfigError(
            str(folder), "at least one suite (*.yaml, *.json or *.py)", "none", "write one, or leave it out"
        )
    for number, suite in enumerate(suites):
        if earlier := [each for each in suites[:number] if each.check == suite.check]:
            raise ConfigError(
                suite.file, "a name that no other suite has", f"{suite.name!r}, as in {earlier[0].file}", "rename one"
            )
    return tuple(suites)


def _suites_of(file: Path) -> Iterator[ProjectSuite]:
    if file.suffix in (".yaml", ".yml", ".json"):
        text = file.read_text("utf-8")
        try:
            content = json.loads(text) if file.suffix == ".json" else _of_yaml(text)
        except ValueError as error:
            raise ConfigError(str(file), f"{file.suffix[1:].upper()}", str(error), "correct the file") from error
        yield _suite(file, content)
    elif file.suffix == ".py":
        yield from _python_suites(file)


def _of_yaml(text: str) -> Any:
    """What the text says. Raises ValueError."""
    import yaml  # of the extra, which a check without suites of one's own does not need

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _python_suites(file: Path) -> list[ProjectSuite]:
    """All suites that the module has, in the order of its lines."""
    name = f"replay_project_suites_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # classes of expectations look up their module
    spec.loader.exec_module(module)
    known = sys.modules.get("great_expectations")
    suites = (
        [] if known is None else [each for each in vars(module).values() if isinstance(each, known.ExpectationSuite)]
    )
    if not suites:
        raise ConfigError(
            str(file), "an ExpectationSuite in the module", "none",
            'write `pages = gx.ExpectationSuite(name="pages", meta={"table": "outputs/pages"}, expectations=[…])`',
        )  # fmt: skip
    return [_suite(file, each.to_json_dict()) for each in suites]


def _suite(file: Path, content: Any) -> ProjectSuite:
    if not isinstance(content, dict) or not isinstance(content.get("expectations"), list):
        raise ConfigError(
            str(file), "a suite: name, expectations, meta", type(content).__name__, "see docs/quality.md for an example"
        )
    unknown = sorted(set(content) - set(_WORDS))
    if unknown:
        raise ConfigError(
            str(file), f"only {', '.join(_WORDS)}", ", ".join(unknown), "leave it out, or put it into meta"
        )
    meta = content.get("meta")
    table = meta.get("table") if isinstance(meta, dict) else None
    if not isinstance(table, str):
        raise ConfigError(
            str(file), "the table that it speaks of in its meta", repr(table), "write `meta: {table: outputs/NAME}`"
        )
    return ProjectSuite(str(content.get("name") or file.stem), table, str(file), content)


def build_project_suite(suite: ProjectSuite, gx: Any, rows: pl.DataFrame) -> tuple[Any, tuple[str, ...]]:
    """The ``ExpectationSuite`` for ``rows``, and the expectations that have nothing to judge there.

    Where an increment wrote no row, a column has no largest value, mean or set of values, which Great Expectations
    takes for a failure: expectations of an aggregate of a column are left out then. Those of the number of rows stay.
    Raises what Great Expectations raises for expectations that it does not know, which a suite that is made of their
    words would leave out with a line in the log.
    """
    made = gx.expectations.expectation_configuration.ExpectationConfiguration
    aggregate = gx.expectations.expectation.ColumnAggregateExpectation
    known = [made(**each).to_domain_obj() for each in suite.content["expectations"]]
    without = [each for each in known if not len(rows) and isinstance(each, aggregate) and each.column in rows.columns]
    built = gx.ExpectationSuite(
        name=suite.name,
        expectations=[each for each in known if each not in without],
        meta={**(suite.content.get("meta") or {}), "file": suite.file},
        notes=suite.content.get("notes"),
    )
    return built, tuple(f"{each.expectation_type}({each.column})" for each in without)
