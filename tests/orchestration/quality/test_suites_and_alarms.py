"""`replay check` with suites of a project: those of docs/quality.md, exit codes, lines of JSON, quality tables."""

import json
import re
import shutil
from pathlib import Path

import pytest

from kstreams_replay.expectations.quality_tables import newest_results
from kstreams_replay.expectations.suites.library import load_great_expectations
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.source_tree import ROOT

pytestmark = pytest.mark.sampled

TOPOLOGY = "tests/dagster/shop.py:topology"


@pytest.fixture
def warehouse(replayed: Warehouse, tmp_path: Path) -> Warehouse:
    """The shop's two increments, to be written to."""
    shutil.copytree(replayed.root, tmp_path / "warehouse")
    return Warehouse(str(tmp_path / "warehouse"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`expectations/` with the two suites that docs/quality.md shows."""
    told = (ROOT / "docs/quality.md").read_text("utf-8").partition("## Expectations of your own")[2]
    blocks = re.findall(r"^```(yaml|python)\n(.*?)^```", told, re.MULTILINE | re.DOTALL)
    load_great_expectations()  # its seconds are no test's own
    made = tmp_path / "expectations"
    made.mkdir()
    for language, text in blocks[:2]:
        (made / {"yaml": "pages.yaml", "python": "visits.py"}[language]).write_text(text)
    return made


def check(warehouse: Warehouse, *options: object) -> int:
    return main(["check", TOPOLOGY, "--warehouse", warehouse.root, "--pipeline", "shop", *map(str, options)])


def test_suites_of_the_document_are_judged_beside_the_guarantees(warehouse, folder, tmp_path, capsys):
    """
    Neither page was clicked more than twice; a session has at most two clicks.
    """
    code = check(warehouse, "--expectations", folder, "--data-docs", tmp_path / "docs", "--json")

    told = {line["guarantee"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert code == 0
    assert [(told[name]["table"], told[name]["verdict"]) for name in ("pages", "visits")] == [
        ("outputs/pages", "passed"),
        ("outputs/sessions", "passed"),
    ]
    assert told["G1"]["page"] != told["pages"]["page"]
    assert (tmp_path / "docs" / "index.html").is_file()
    recorded = {row["guarantee"]: (row["table"], row["verdict"]) for row in newest_results(warehouse, "shop")}
    assert recorded["pages"] == ("outputs/pages", "passed")


def test_a_suite_that_does_not_hold_is_an_alarm_with_exit_code_4(warehouse, folder, capsys):
    file = folder / "pages.yaml"
    file.write_text(file.read_text().replace("min_value: 1, max_value: 1000", "max_value: 0"))

    code = check(warehouse, "--expectations", folder, "--json")

    told = {line["guarantee"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert code == 4
    label = "expect_column_values_to_be_between(value)"
    pages = told["pages"]
    assert {name: pages[name] for name in ("pipeline", "increment", "verdict", "severity", "is_alarm", "broken")} == {
        "pipeline": "shop",
        "increment": 2,
        "verdict": "failed",
        "severity": "error",
        "is_alarm": True,
        "broken": [label],
    }
    assert pages["observed"] == {"rows": 3, label: 3}
    assert pages["threshold"] == 0
    assert pages["witnesses"][0] == {
        "expectation": label, "value": 1, "row": "partition 0, offset 2", "key": "help", "window_start_ms": 180,
        "window_end_ms": 210,
    }  # fmt: skip
    assert [line["is_alarm"] for name, line in told.items() if name != "pages"] == [False] * (len(told) - 1)


def test_a_warning_is_told_and_is_no_alarm(warehouse, folder, capsys):
    file = folder / "pages.yaml"
    file.write_text(file.read_text().replace("min_value: 1, max_value: 1000}", "max_value: 0}\n    severity: warning"))

    code = check(warehouse, "--expectations", folder, "--json")

    told = {line["guarantee"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert code == 0
    assert (told["pages"]["verdict"], told["pages"]["severity"], told["pages"]["is_alarm"]) == (
        "failed",
        "warning",
        False,
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("outputs/pages", "outputs/nowhere", "a table of the pipeline: outputs/sessions, outputs/pages"),
        ("name: pages", "name: G1", "a name of its own"),
    ],
)
def test_a_suite_of_no_table_of_the_pipeline_or_with_the_name_of_a_guarantee_is_refused(
    warehouse, folder, capsys, old, new, expected
):
    file = folder / "pages.yaml"
    file.write_text(file.read_text().replace(old, new))

    assert check(warehouse, "--expectations", folder) == 2
    assert expected in capsys.readouterr().err


def test_plain_code_builds_no_pages_and_judges_no_suites(warehouse, folder, tmp_path):
    assert check(warehouse, "--engine", "plain", "--expectations", folder) == 2
    assert check(warehouse, "--engine", "plain", "--data-docs", tmp_path / "docs") == 2
