"""Docs that cannot drift: what a document lists is compared with the code that it describes.

Rule: a list in a document is complete and in the code's own words, or a test here names the line that is missing.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module

import pyarrow as pa
import pytest

from kstreams_replay.expectations.guarantees import GUARANTEES, Guarantee
from kstreams_replay.jobs.execution.table_schemas import REPARTITION_SCHEMA
from kstreams_replay.jobs.graph.graph import Node
from kstreams_replay.jobs.operators.base.operator import Operator
from kstreams_replay.jobs.topology import (
    BranchedKStream,
    BufferConfig,
    CogroupedKStream,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    fold,
)
from kstreams_replay.orchestration.cli.exit_codes import ExitCode
from kstreams_replay.state import errors
from kstreams_replay.state.errors import ReplayError
from kstreams_replay.state.kafka_version import DEFAULT, JUDGE
from kstreams_replay.state.records.drop_reasons import DropReason
from kstreams_replay.state.tables import warehouse
from tests.every_store import every_store
from tests.source_tree import ROOT, files, matches, modules, package_modules, refuse, text_of

pytestmark = pytest.mark.xdist_group("source tree")  # read and parsed once

GUARANTEE_COLUMNS = ["id", "sentence", "KIP", "operator", "check", "status"]
DSL = (
    StreamsBuilder,
    KStream,
    BranchedKStream,
    KGroupedStream,
    CogroupedKStream,
    KTable,
    KGroupedTable,
    TimeWindows,
    SlidingWindows,
    SessionWindows,
    UnlimitedWindows,
    JoinWindows,
    Suppressed,
    BufferConfig,
    Materialized,
)
NOT_OF_THE_DSL = frozenset(
    {
        "shape",
        "retention_ms",
        "grid",
        "reach",
        "wait_ms",
        "kind",
        "spec",
        "is_strict",
        "is_versioned",
        "history_retention_ms",
    }
)
NOT_EVERYWHERE = {"window_start_ms", "window_end_ms", "key", "id"}
"""Columns that some stores of a kind do not have."""


# --- reading Markdown ----------------------------------------------------------------------------------------


def document(path: str) -> str:
    assert (ROOT / path).is_file(), f"{path} is missing: write it"
    return (ROOT / path).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What is below ``heading`` ("## Run it") up to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    _, found, rest = f"\n{text}".partition(f"\n{heading}\n")
    assert found, f"no heading {heading!r}: add it"
    return re.split(rf"\n#{{1,{level}}} ", rest)[0]


def code_blocks(text: str, language: str = r"\w*") -> list[list[str]]:
    """Lines of every fenced block."""
    return [block.splitlines() for block in re.findall(rf"^```{language}\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)]


def rows_of(text: str, *first_columns: str) -> Iterator[list[dict[str, str]]]:
    """Every table that begins with these columns: its rows by column, without backquotes."""
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        header, _, *rows = [
            [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")] for line in block.splitlines()
        ]
        if header[: len(first_columns)] == list(first_columns):
            yield [dict(zip(header, row, strict=True)) for row in rows]


def only_table(text: str, *first_columns: str) -> list[dict[str, str]]:
    found = list(rows_of(text, *first_columns))
    assert len(found) == 1, f"{len(found)} tables with the columns {' | '.join(first_columns)}: there must be one"
    return found[0]


# --- errors --------------------------------------------------------------------------------------------------


def branches(error: type[ReplayError], lead: str = "") -> Iterator[str]:
    """The tree below ``error``, a line a class, as `tree` draws it."""
    below = [each for each in error.__subclasses__() if each.__module__ == errors.__name__]
    for each in below:
        is_last = each is below[-1]
        yield f"{lead}{'└──' if is_last else '├──'} {each.__name__}"
        yield from branches(each, lead + ("    " if is_last else "│   "))


def test_the_error_tree_in_the_docstring_is_that_of_the_classes():
    drawn = re.findall(r"^    (ReplayError|[│├└─ ]+ \w+)", errors.__doc__ or "", re.MULTILINE)

    assert drawn == ["ReplayError", *branches(ReplayError)]


def test_every_error_of_the_packages_stands_in_the_tree():
    """
    Wherever it is defined, also within a function, and however its base is named.
    """
    drawn = {name for name, each in inspect.getmembers(errors, inspect.isclass)}
    elsewhere = [
        f"{path}: {node.name}"
        for path, tree in package_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and path != "state/errors.py"
        if any(getattr(base, "id", getattr(base, "attr", "")) in drawn for base in node.bases)
    ]

    assert elsewhere == []


def test_every_error_has_a_section_that_says_what_to_do_and_every_section_an_error():
    page = section(document("docs/when-something-is-wrong.md"), "## Errors")
    classes = {name for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, ReplayError)}
    headings = re.findall(r"^### (.+)$", page, re.MULTILINE)

    assert sorted(headings) == sorted(classes)
    assert [each for each in headings if len(section(page, f"### {each}").split()) < 10] == []


def test_the_exit_codes_in_orchestrations_readme_are_those_of_the_command():
    rows = only_table(section(document("orchestration/README.md"), "## Exit codes"), "code", "name", "meaning")

    assert [(row["code"], row["name"]) for row in rows] == [(str(int(code)), code.name) for code in ExitCode]


# --- docs/tables.md -----------------------------------------------------------------------------------------


def test_every_reason_of_a_drop_stands_on_the_page_of_tables():
    _, found, table = text_of("docs/tables.md").partition("| reason | when |\n|---|---|\n")
    cells = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()]

    assert found
    assert sorted(re.findall(r"`([a-z-]+)`", " ".join(cells))) == sorted(DropReason)


@pytest.mark.parametrize(
    ("heading", "schema"),
    [
        ("## Landed topic", warehouse.LANDED_SCHEMA),
        ("## Landed dead letters", warehouse.LANDED_DEAD_LETTER_SCHEMA),
        ("## Recorded time", warehouse.RECORDED_TIME_SCHEMA),
        ("## Output", warehouse.output_schema(pa.null(), pa.null(), windowed=True, has_topics=True)),
        ("## Repartition", REPARTITION_SCHEMA),
        ("## Dropped", warehouse.DROPPED_SCHEMA),
        ("## Dead letters", warehouse.DEAD_LETTER_SCHEMA),
        ("## Ledger", warehouse.LEDGER_SCHEMA),
    ],
)
def test_the_columns_of_a_table_stand_on_the_page_of_tables_with_their_types(heading, schema):
    columns = only_table(section(document("docs/tables.md"), heading), "column", "type", "meaning")

    got = [(row["column"], row["type"]) for row in columns if not row["type"].startswith("the ")]

    assert [row["column"] for row in columns] == schema.names
    assert got == [(each.name, type_text(each.type)) for each in schema if each.type != pa.null()]


def type_text(kind: pa.DataType) -> str:
    """Arrow's own, without the names that it gives to elements of lists."""
    return re.sub(r"<(item|element): ", "<", str(kind))


def test_the_columns_of_every_store_stand_on_the_page_of_tables():
    """
    A store without windows has no window columns, deduplication has the key, the id, or both.
    """
    stores = section(document("docs/tables.md"), "## Stores")
    documented = [[row["column"] for row in columns] for columns in rows_of(stores, "column", "type", "meaning")]
    topology = every_store()
    columns = {store: topology.state_schema(store).names for store in topology.stores()}

    assert {store: names for store, names in columns.items() if not any(is_told(names, by) for by in documented)} == {}


def is_told(names: list[str], documented: list[str]) -> bool:
    missing = set(documented) - set(names)
    return missing <= NOT_EVERYWHERE and [name for name in documented if name not in missing] == names


def test_every_operator_with_a_store_is_among_those_whose_columns_are_compared():
    have_a_store = {node for node in nodes_with_operators() if "store" in {field.name for field in fields(node)}}

    assert have_a_store - {type(node) for node in every_store().stores().values()} == set()


def nodes_with_operators(base: type[Node] = Node) -> set[type[Node]]:
    """Classes of nodes that run as an operator."""
    found = {each for each in base.__subclasses__() if each.operator}
    return found.union(*(nodes_with_operators(each) for each in base.__subclasses__()))


# --- jobs/README.md ------------------------------------------------------------------------------------------


def operators(base: type = Operator) -> set[str]:
    """Names of the operators that can run, of all modules."""
    for path in files():
        if path.startswith("jobs/operators/") and path.endswith(".py") and not path.endswith("__init__.py"):
            import_module(f"kstreams_replay.{path[:-3].replace('/', '.')}")
    found: set[str] = set()
    for each in base.__subclasses__():
        if each.__module__.startswith("kstreams_replay.jobs.operators") and not inspect.isabstract(each):
            found.add(each.__name__)
        found |= operators(each)
    return found


def test_every_operator_has_a_line_in_jobs_readme():
    lines = only_table(section(document("jobs/README.md"), "## Operators"), "node", "operator", "module")

    assert sorted({row["node"] for row in lines}) == sorted(node.__name__ for node in nodes_with_operators())
    assert {name for row in lines for name in re.findall(r"\w+", row["operator"])} == operators()


def test_every_module_in_a_line_of_an_operator_is_there():
    lines = only_table(section(document("jobs/README.md"), "## Operators"), "node", "operator", "module")
    named = {path for row in lines for path in re.findall(r"[\w/]+\.py", row["module"])}

    assert sorted(path for path in named if not (ROOT / "jobs" / path).is_file()) == []


def test_every_call_of_the_dsl_has_a_line_on_the_page_of_topologies():
    calls = {name for each in DSL for name in vars(each) if not name.startswith("_")} - NOT_OF_THE_DSL
    fields = {name for each in DSL for name in getattr(each, "__dataclass_fields__", ())}
    lines = only_table(document("docs/topologies.md"), "call", "Kafka Streams")

    got = {name for row in lines for name in re.findall(r"\.(\w+)\(", row["call"])}

    assert sorted(calls - fields - got) == []


def test_every_fold_has_a_line_on_the_page_of_topologies():
    lines = only_table(document("docs/topologies.md"), "fold", "aggregate")

    got = [name for row in lines for name in re.findall(r"fold\.(\w+)\(", row["fold"])]

    assert sorted(got) == sorted(fold.__all__)


# --- README.md -----------------------------------------------------------------------------------------------


def test_every_call_on_streams_and_tables_is_in_the_table_of_operators():
    lines = only_table(
        section(document("docs/operators.md"), "# Kafka Streams operators, and what differs"),
        "operator",
        "status",
        "KIP",
    )
    told = {name for row in lines for name in re.findall(r"`(\w+)", f"`{row['operator']}")}
    calls = {
        name
        for each in (StreamsBuilder, KStream, KGroupedStream, CogroupedKStream, KTable, KGroupedTable)
        for name in vars(each)
        if not name.startswith("_")
    }

    assert sorted(calls - NOT_OF_THE_DSL - {"build"} - told) == []


def test_the_table_of_guarantees_is_the_one_of_the_code():
    rows = only_table(document("docs/guarantees.md"), *GUARANTEE_COLUMNS)
    none = ("", "-", "–", "—", "none")

    got = [{name: "" if row[name] in none else row[name] for name in GUARANTEE_COLUMNS} for row in rows]

    assert got == [
        dict(
            zip(
                GUARANTEE_COLUMNS,
                (each.id, each.sentence, each.kip, each.operator, each.check, each.status),
                strict=True,
            )
        )
        for each in GUARANTEES
    ]


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda guarantee: guarantee.id)
def test_the_proof_of_a_guarantee_is_a_test_that_is_marked_with_it(guarantee: Guarantee):
    assert f'pytest.mark.guarantee("{guarantee.id}")' in document(guarantee.proof)


@pytest.mark.parametrize("heading", ["## Run it", "## Test it"])
def test_a_readme_command_is_the_only_line_of_the_only_block_under_its_heading(heading):
    blocks = code_blocks(section(document("README.md"), heading))

    assert [len(block) for block in blocks] == [1]


# --- every document ------------------------------------------------------------------------------------------


def test_every_folder_of_tests_is_told_of_in_tests_readme():
    folders = {path.split("/")[1] for path in files() if path.startswith("tests/") and path.count("/") > 1}
    told = document("tests/README.md")

    assert sorted(folder for folder in folders if f"`{folder}/" not in told) == []


MADE = {"dsl.md", "notebook.md"}
"""What docs/site/build.py writes out of docstrings and a notebook."""


def test_every_document_that_is_named_somewhere_is_there():
    names = {path.rpartition("/")[2] for path in files()} | MADE
    named = matches(r"[\w/.-]*\b\w+\.md\b(?!\()")  # a call of that name is no document
    refuse(
        [f"{place}: {path}" for place, path in named if path.rpartition("/")[2] not in names],
        "Nobody who clones this has these documents; say the reason in place, or name one that is here:",
    )


OF_OTHER_VERSIONS = {
    "CHANGELOG.md", "docs/upgrading-kafka.md", "jobs/code_changes/kafka_differences.py", "state/kafka_version.py",
    "tests/code_changes/test_upgrade_advice.py",
}  # fmt: skip
"""What is about more than one version of Kafka."""


def test_a_document_that_names_a_present_version_of_kafka_names_the_judge():
    present = re.compile(r"\bKafka(?: Streams)?(?:'s)?\s+([4-9]\.\d+(?:\.\d+)?)\b")
    found = [
        (f"{path}:{text_of(path).count(chr(10), 0, match.start()) + 1}", match[1])
        for path in files()
        if path.endswith((".md", ".py")) and path not in OF_OTHER_VERSIONS
        for match in present.finditer(text_of(path))
    ]

    assert len(found) > 10
    refuse(
        [f"{place}: {version}" for place, version in found if version not in (JUDGE, DEFAULT)],
        f"The judge is Kafka Streams {JUDGE} (state/kafka_version.py); name it, or no version:",
    )


def test_a_name_that_is_said_to_be_of_a_module_is_defined_in_it():
    name = r"[A-Z]+(?:_[A-Z]+)+|(?:[A-Z][a-z]+){2,}|[a-z]+(?:_[a-z]+)+"
    said = re.compile(rf"\b({name})`*\s+(?:of|in)\s+`?((?:jobs|state|orchestration|expectations)/[\w/]+\.py)")
    found = [
        (f"{path}:{text_of(path).count(chr(10), 0, match.start()) + 1}", *match.groups())
        for path in files()
        if path.endswith((".md", ".py")) and not path.startswith("tests/") and path != "CHANGELOG.md"
        for match in said.finditer(text_of(path))
    ]

    assert found
    refuse(
        [f"{place}: {name} of {path}" for place, name, path in found if name not in defined_names(path)],
        "It has moved or was renamed; name the module that defines it:",
    )


def defined_names(path: str) -> set[str]:
    """Names that a module defines: functions, classes and variables, none of those that it imports."""
    nodes = ast.walk(modules()[path]) if path in modules() else ()
    stored = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {
        node.name if isinstance(node, stored) else node.id
        for node in nodes
        if isinstance(node, stored) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }
