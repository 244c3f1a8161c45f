"""The page about quality: what it says, that nothing in a name or a value becomes HTML, and what it costs."""

import json
import re
import shutil
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from kstreams_replay.expectations.quality_tables import RESULTS_SCHEMA, newest_results, record_verdicts
from kstreams_replay.expectations.verdicts import Verdict
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import land_files
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.quality import charts
from kstreams_replay.orchestration.quality.openmetrics import openmetrics
from kstreams_replay.orchestration.quality.report import write_report
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.commit import append_row, create_table
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import LEDGER_SCHEMA, Warehouse
from tests.dagster import shop

pytestmark = pytest.mark.sampled

HOSTILE = "<script>alert(1)</script>'\"&{{7*7}}"


class Page(HTMLParser):
    """Its texts, the tags in it, and addresses that it would load."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.links: list[str] = []
        """Places of the page that it leads to."""
        self.ids: list[str] = []
        self.marks: list[str] = []
        self.texts: list[str] = []
        self._in_style = False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        addresses = [str(given[name]) for name in ("src", "href", "xlink:href") if name in given]
        self.links += [address[1:] for address in addresses if address.startswith("#")]
        self.loads += [address for address in addresses if not address.startswith("#")]
        self.ids += [str(given["id"])] if "id" in given else []
        if "mark" in (given.get("class") or "").split() and "aria-label" in given:
            self.marks.append(str(given["aria-label"]))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def warehouse(replayed: Warehouse, tmp_path: Path) -> Warehouse:
    shutil.copytree(replayed.root, tmp_path / "warehouse")
    return Warehouse(str(tmp_path / "warehouse"))


def verdict(increment: int, answer: str, **more: object) -> Verdict:
    said = {"sentence": "One final result.", "check": "one", "table": "outputs/pages", "version": 1}
    return Verdict(guarantee="G1", increment=increment, answer=answer, **said, **more)  # type: ignore[arg-type]


def test_an_increment_that_nobody_checked_is_not_green(warehouse, tmp_path):
    record_verdicts(warehouse, "shop", [verdict(2, "true")])

    write_report(warehouse, ["shop"], tmp_path / "page.html")

    assert Page(tmp_path / "page.html").marks == ["passed", "nobody checked it"]


def test_what_failed_and_what_could_not_be_checked_are_told_apart_with_their_witnesses(warehouse, tmp_path):
    witness = {"topic": "clicks", "partition": 0, "offset": 4, "key": "bob"}
    record_verdicts(
        warehouse, "shop",
        [verdict(1, "unknown", reason="the table is gone"), verdict(2, "false", broken=("rule",), witnesses=[witness])],
    )  # fmt: skip

    write_report(warehouse, None, tmp_path / "page.html")

    page = Page(tmp_path / "page.html")
    text = " ".join(page.texts)
    assert page.marks == ["failed", "not checked"]
    assert "the table is gone" in text
    assert "replay explain --record clicks:0:4" in text
    assert "bob" in text


def plant_increments(warehouse: Warehouse, last: int) -> None:
    """The second increment once more, up to the increment ``last``."""
    ledger = Ledger(warehouse.pipeline("shop").ledger)
    planned, done = ledger.rows_of(2)
    rows = []
    for number in range(3, last + 1):
        for row in (planned, done):
            content = json.dumps(row.content.to_json())
            rows.append([number, 0, row.phase, content, row.written_at_ms + number])
    columns = zip(*rows, strict=True)
    table = create_table(ledger.path, LEDGER_SCHEMA)
    planted = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, LEDGER_SCHEMA.types, strict=True)], LEDGER_SCHEMA
    )
    append_row(table, ledger.path, planted, app_id="ledger/done", increment=last, against=["ledger/planned"])


def test_what_is_broken_comes_before_many_warnings_which_are_one_fault(warehouse, tmp_path):
    plant_increments(warehouse, 90)
    few = replace(verdict(1, "false", broken=("few",)), guarantee="G12", severity="warning", table="ledger")
    warned = [replace(few, increment=number, observed={"refused": number}) for number in range(41, 91)]
    record_verdicts(warehouse, "shop", [*warned, verdict(89, "true"), verdict(7, "false", broken=("rule",))])

    write_report(warehouse, ["shop"], tmp_path / "page.html")

    page = Page(tmp_path / "page.html")
    faults = [" ".join(text.split()) for text in page.texts if " failed: " in text or " warning: " in text]
    assert faults == [
        "G1 failed: outputs/pages, increment 7",
        "G12 warning: ledger, 50 of 90 increments, from 41 to 90",
    ]
    text = " ".join(" ".join(page.texts).split())
    assert "90: refused 90 · 89: refused 89" in text
    assert "and 38 before" in text
    assert "Few records are dropped, refused by an operator, or cannot be decoded." in text
    assert (
        f"replay check topology.py:topology --warehouse {warehouse.root} --pipeline shop --increment 7 --json" in text
    )
    assert page.marks[:2] == ["nobody checked it", "passed"], "of G1, whose 7 is older than the 60 that are shown"
    assert page.marks[60:110] == ["warning"] * 50
    assert set(page.links) == {"pipeline-1-fault-2"}
    assert set(page.links) <= set(page.ids)


def test_of_many_pipelines_a_table_comes_first_with_the_worst_at_its_top(warehouse, tmp_path):
    for name in ("anew", "good"):
        list(replay(warehouse, shop.topology(), pipeline=name, runner=LocalRunner()))
    record_verdicts(warehouse, "good", [verdict(1, "true")])
    few = replace(verdict(2, "false", broken=("few",)), guarantee="G12", severity="warning")
    record_verdicts(warehouse, "shop", [verdict(1, "true"), verdict(2, "false", broken=("rule",)), few])

    write_report(warehouse, None, tmp_path / "page.html")

    page = Page(tmp_path / "page.html")
    table = [text.strip() for text in page.texts if text.strip()]
    table = table[table.index("pipeline") : table.index("records processed")]
    assert [text for text in table if text in ("anew", "good", "shop")][:3] == ["shop", "anew", "good"]
    assert page.links[:3] == ["pipeline-3", "pipeline-1", "pipeline-2"]
    assert set(page.links) <= set(page.ids)
    assert [text for text in table if text in ("failed", "passed", "nobody checked it")] == [
        "failed", "failed", "nobody checked it", "passed",
    ]  # fmt: skip
    counted = table[table.index("shop") + 6 :][:4]
    assert counted == ["2", "1", "0", "0"], "increments, by their worst verdict, as the tiles count them"


def test_all_plots_have_one_axis_that_names_days(warehouse, tmp_path):
    days = {number: f"2026-01-{number:02}" for number in range(1, 31)}

    drawn = [
        charts.lines(
            [(3, "a", 0), (7, "a", 1_000_000)],
            "seconds",
            days=days,
            marks={0: "0", 1: "1 s", 86_400: "1 d", 9e9: "never"},
        ),
        charts.bars([(29, "b", 2)], "records", days=days),
    ]

    for svg in drawn:
        assert [day for day in days.values() if f">{day}<" in svg] == [f"2026-01-{day:02}" for day in range(1, 31, 2)]
    assert [mark for mark in ("0", "1 s", "1 d", "never") if f">{mark}<" in drawn[0]] == ["0", "1 s", "1 d"]


def tiles(page: Page) -> dict[str, str]:
    """Numbers at the top, by their names."""
    texts = [text for text in page.texts if text.strip()]
    return {name: texts[place + 1] for place, name in enumerate(texts) if name.startswith("increments ")}


def test_a_warning_is_no_failure(warehouse, tmp_path):
    few = replace(verdict(2, "false", broken=("few",)), guarantee="G12", severity="warning")
    record_verdicts(warehouse, "shop", [verdict(1, "true"), verdict(2, "true"), few])

    write_report(warehouse, ["shop"], tmp_path / "page.html")

    page = Page(tmp_path / "page.html")
    got = tiles(page)
    assert page.marks == ["warning", "nobody checked it", "passed", "passed"]
    assert [got[f"increments {name}"] for name in ("that passed", "that failed", "with a warning")] == ["1", "0", "1"]
    assert "G12 warning" in " ".join(page.texts)


def test_a_warning_that_an_earlier_version_recorded_is_no_failure_either(warehouse, tmp_path):
    """
    Its table has no column for the severity; one that is recorded now adds it.
    """
    path = warehouse.pipeline("shop").quality_results
    older = pa.schema([column for column in RESULTS_SCHEMA if column.name != "severity"])
    rows = [
        {
            "increment": number, "epoch": 0, "guarantee": name, "table": "ledger", "verdict": "failed", "broken": [],
            "observed": "{}", "witnesses": "[]", "reason": "", "recorded_at_ms": 1,
        }
        for number, name in ((1, "G12"), (2, "G3"))
    ]  # fmt: skip
    append_row(create_table(path, older), path, pa.Table.from_pylist(rows, older), app_id="quality", increment=1)

    write_report(warehouse, ["shop"], tmp_path / "page.html")
    record_verdicts(warehouse, "shop", [verdict(1, "true")])

    assert sorted(Page(tmp_path / "page.html").marks) == ["failed", "nobody checked it", "nobody checked it", "warning"]
    assert [row["severity"] for row in newest_results(warehouse, "shop")] == ["error", "warning", "error"]


def test_advice_about_another_grace_is_plotted_of_its_pipeline(warehouse, tmp_path, capsys):
    where = ["--warehouse", warehouse.root, "--pipeline", "shop"]
    asked = ["advise", "grace", "tests/dagster/shop.py:topology", *where, "--grace", "0s,21ms,1m", "--json"]
    assert main(asked) == 0
    (tmp_path / "advice.json").write_text(capsys.readouterr().out)
    said = json.loads((tmp_path / "advice.json").read_text())
    nodes = [node["node"] for node in said["nodes"]]

    page_at = str(tmp_path / "page.html")
    assert main(["report", *where, "--out", page_at, "--advice", str(tmp_path / "advice.json")]) == 0

    page = Page(tmp_path / "page.html")
    text = " ".join(page.texts)
    assert nodes
    titles = [words for words in page.texts if words.startswith("Refused with another grace: ")]
    refusing = [node["node"] for node in said["nodes"] if any(each["refused"] for each in node["what_if"])]
    assert titles == [f"Refused with another grace: {node}" for node in refusing] != []
    drawn = text.partition(titles[0])[2]
    assert [grace for grace in ("0s", "21ms", "1m") if f" {grace}" in drawn] == ["0s", "21ms", "1m"]
    assert said["nodes"][0]["reason"] in text
    other = said | {"pipeline": "another"}
    assert write_report(warehouse, ["shop"], tmp_path / "other.html", advice=other)
    assert "another grace" not in (tmp_path / "other.html").read_text()


def test_a_file_without_advice_is_an_error(replayed, tmp_path, capsys):
    (tmp_path / "advice.json").write_text("[1]")
    asked = ["report", "--warehouse", replayed.root, "--out", str(tmp_path / "page.html"), "--advice"]

    assert main([*asked, str(tmp_path / "advice.json")]) == 2
    assert "expected a file with what `replay advise grace --json` prints" in capsys.readouterr().err
    assert main([*asked, str(tmp_path / "none.json")]) == 2


def test_verdicts_on_increments_that_a_restore_withdrew_do_not_count(warehouse, tmp_path):
    record_verdicts(warehouse, "shop", [verdict(1, "true"), verdict(2, "false")])
    restore(warehouse, "shop", 1)

    write_report(warehouse, ["shop"], tmp_path / "page.html")

    page = Page(tmp_path / "page.html")
    assert page.marks == ["passed"]
    assert "G1 failed" not in " ".join(page.texts)


def test_a_promoted_branch_is_an_increment_and_one_that_was_only_begun_is_not_shown(warehouse, tmp_path):
    fork(warehouse, "shop", 1, "b")
    list(replay(warehouse, shop.topology(), pipeline="b", runner=LocalRunner()))
    promote(warehouse, "b")
    fork(warehouse, "shop", 1, "begun")
    record_verdicts(warehouse, "shop", [verdict(1, "true"), verdict(3, "false", broken=("rule",))])

    write_report(warehouse, ["shop"], tmp_path / "page.html")
    write_report(warehouse, None, tmp_path / "all.html")

    assert Page(tmp_path / "page.html").marks == ["failed", "passed"]
    assert "begun" not in " ".join(Page(tmp_path / "all.html").texts)
    assert 'pipeline="shop",sub_topology="0"} 8.0' in openmetrics(warehouse, "shop")


def test_names_and_values_stay_text(warehouse, tmp_path):
    record_verdicts(
        warehouse, "shop",
        [verdict(2, "false", reason=HOSTILE, broken=(HOSTILE,), witnesses=[{HOSTILE: HOSTILE}])],
    )  # fmt: skip

    write_report(warehouse, ["shop"], tmp_path / "page.html")

    page = Page(tmp_path / "page.html")
    assert "script" not in page.tags
    assert "".join(page.texts).count(HOSTILE) == 4
    assert page.loads == []


def test_the_page_loads_nothing_and_has_its_plots(replayed, tmp_path):
    write_report(replayed, ["shop"], tmp_path / "page.html", topology=shop.topology())

    page = Page(tmp_path / "page.html")
    text = " ".join(page.texts)
    assert page.loads == []
    assert "svg" in page.tags
    distribution = text.partition("Distribution of lateness")[2]
    assert [name for name in ("none", "1 s", "1 min", "more") if f" {name} " in distribution] == [
        "none", "1 s", "1 min", "more",
    ]  # fmt: skip
    assert "99 of 100" in text
    for words in ("Refusals by reason", "Lateness", "Stream time behind the wall clock", "Largest keys"):
        assert words in text
    assert "1 result waits in held-pages-store until stream time 1970-01-01 00:00:00.430" in text


def test_a_pipeline_that_is_not_there_is_an_error(replayed, tmp_path):
    with pytest.raises(ConfigError, match="expected one of shop, got 'shopp'"):
        write_report(replayed, ["shopp"], tmp_path / "page.html")


def test_of_a_thousand_increments_the_page_is_small_and_made_at_once(warehouse, tmp_path):
    plant_increments(warehouse, 1000)
    record_verdicts(warehouse, "shop", [verdict(number, "true") for number in range(1, 1001)])

    begun = time.process_time()
    size = write_report(warehouse, ["shop"], tmp_path / "page.html")

    assert time.process_time() - begun < 5
    assert size < 2_000_000
    assert "1,000" in " ".join(Page(tmp_path / "page.html").texts)


def test_the_commands_write_the_page_and_print_openmetrics(replayed, tmp_path, capsys):
    where = ["--warehouse", replayed.root]
    assert main(["report", *where, "--pipeline", "shop", "--out", str(tmp_path / "quality.html")]) == 0
    assert (tmp_path / "quality.html").exists()
    capsys.readouterr()

    assert main(["metrics", *where, "--pipeline", "shop"]) == 0
    assert capsys.readouterr().out == openmetrics(replayed, "shop")


def test_a_number_that_the_last_increment_does_not_have_is_left_out(warehouse, tmp_path):
    assert "replay_suppression_overtime_min{" in openmetrics(warehouse, "shop")
    shop.drop_files(tmp_path / "clicks", "1-morning", shop.MORNING)
    shop.drop_files(tmp_path / "clicks", "2-evening", shop.EVENING)
    shop.drop_files(tmp_path / "clicks", "3-night", [("ann", "home", 401)])  # closes nothing
    land_files(None, warehouse, "clicks", shop.source(tmp_path / "clicks"))
    list(replay(warehouse, shop.topology(), pipeline="shop", runner=LocalRunner()))

    assert "replay_suppression_overtime_min{" not in openmetrics(warehouse, "shop")


def test_totals_are_counters_over_all_increments_and_the_rest_is_of_the_last(replayed):
    text = openmetrics(replayed, "shop")

    lines = {line.split("{")[0]: line for line in text.splitlines() if re.search('sub_topology="[0]?"', line)}
    assert 'pipeline="shop",sub_topology="0"} 8.0' in lines["replay_process_total"]
    assert 'sub_topology="0"} 400.0' in lines["replay_stream_time_ms"]
    assert 'sub_topology="0"} 0.0' in lines["replay_record_lateness_max"]
    assert text.endswith("# EOF\n")
