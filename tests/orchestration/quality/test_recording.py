"""Verdicts and numbers of increments come into the quality tables once, and can be asked for."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kstreams_replay.expectations.quality_tables import VERDICTS, newest_results, record_verdicts
from kstreams_replay.expectations.verdicts import Verdict, check_increment, is_in_order
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.history import History
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import SessionWindows, StreamsBuilder, TimeWindows
from kstreams_replay.orchestration.cli.commands import check
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.orchestration.quality import judge
from kstreams_replay.orchestration.quality.metrics import increments_in_force
from kstreams_replay.orchestration.quality.openmetrics import openmetrics
from kstreams_replay.orchestration.quality.recording import record_quality
from kstreams_replay.orchestration.quality.report import write_report
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.expectations.pipelines import TEXTS, tape
from tests.planted import plant
from tests.source_tree import ROOT

# By hand from tests/dagster/shop.py, of three guarantees. Rows checked: final results; records that both sub-topologies
# read.
WANTED = [
    (1, "G1", "outputs/pages", "passed", 2),
    (1, "G1", "outputs/sessions", "passed", 2),
    (1, "G2", "outputs/pages", "passed", 2),
    (1, "G2", "outputs/sessions", "passed", 2),
    (1, "G3", "ledger", "passed", 12),
    (2, "G1", "outputs/pages", "passed", 3),
    (2, "G1", "outputs/sessions", "passed", 2),
    (2, "G2", "outputs/pages", "passed", 3),
    (2, "G2", "outputs/sessions", "passed", 2),
    (2, "G3", "ledger", "passed", 4),
]

SESSIONS, PAGES = "KSTREAM-AGGREGATE-0000000001", "KSTREAM-AGGREGATE-0000000005"
NUMBERS = {
    ("dropped-records-total", 0, SESSIONS, "expired-window", 1.0),
    ("dropped-records-total", 0, SESSIONS, "null-key", 1.0),
    ("dropped-records-total", 1, PAGES, "expired-window", 1.0),
    ("process-total", 0, None, None, 6.0),
    ("process-total", 1, None, None, 6.0),
    ("record-lateness-avg", 0, None, None, 16.5),
    ("record-lateness-avg", 1, None, None, 16.5),
    ("record-lateness-max", 0, None, None, 99.0),
    ("record-lateness-max", 1, None, None, 99.0),
    ("record-lateness-p50", 0, None, None, 0.0),  # of five that are not late and one that is
    ("record-lateness-p50", 1, None, None, 0.0),
    ("record-lateness-p90", 0, None, None, 99.0),
    ("record-lateness-p90", 1, None, None, 99.0),
    ("record-lateness-p99", 0, None, None, 99.0),
    ("record-lateness-p99", 1, None, None, 99.0),
    ("records-applied-total", 0, None, None, 6.0),
    ("records-applied-total", 1, None, None, 5.0),
    ("records-dropped-total", 0, None, None, 0.0),
    ("records-dropped-total", 1, None, None, 1.0),
    ("records-emitted-total", None, None, "pages", 2.0),
    ("records-emitted-total", None, None, "sessions", 2.0),
    ("records-left-out-total", 0, None, None, 0.0),
    ("records-left-out-total", 1, None, None, 0.0),
    ("records-undecodable-total", 0, None, None, 0.0),
    ("records-undecodable-total", 1, None, None, 0.0),
    ("records-waiting", None, None, None, 0.0),
    ("stream-time-ms", 0, None, None, 210.0),
    ("stream-time-ms", 1, None, None, 210.0),
    ("suppression-buffer-count-current", None, "held-pages", None, 2.0),
    ("suppression-buffer-count-current", None, "held-sessions", None, 1.0),
    ("suppression-emit-total", None, "held-pages", None, 2.0),
    ("suppression-emit-total", None, "held-sessions", None, 2.0),
    ("windows-refused-total", 0, None, None, 0.0),
    ("windows-refused-total", 1, None, None, 0.0),
}
"""Of the morning."""
OTHERS = ("seconds", "memory-bytes-max", "stream-time-lag-ms", "suppression-buffer-count-avg",
          "suppression-buffer-count-max", "suppression-overtime-avg", "suppression-overtime-min")  # fmt: skip
"""Numbers of the machine, and those that tests/operators/suppress knows better."""


@pytest.fixture
def warehouse(replayed: Warehouse, tmp_path: Path) -> Warehouse:
    """The shop's two increments, to be written to."""
    shutil.copytree(replayed.root, tmp_path / "warehouse")
    return Warehouse(str(tmp_path / "warehouse"))


def verdicts_on(warehouse: Warehouse, *increments: int) -> list[Verdict]:
    facts = replay_facts(shop.topology())
    return [one for each in increments for one in check_increment(warehouse, "shop", facts, each, engine="plain")]


def asked(warehouse: Warehouse, query: str) -> list[tuple]:
    return History(warehouse, "shop").at().sql(query).rows()


def test_a_verdict_is_recorded_once_with_what_it_rests_on(warehouse):
    first = record_quality(warehouse, "shop", verdicts_on(warehouse, 1, 2))
    again = record_quality(warehouse, "shop", verdicts_on(warehouse, 2, 1))

    assert first > 6
    assert again == 0
    rows = asked(warehouse, 'SELECT increment, guarantee, "table", verdict, rows_checked FROM quality_results')
    assert sorted(row for row in rows if row[1] in ("G1", "G2", "G3")) == WANTED


def test_a_verdict_that_has_changed_is_a_row_more_and_the_newest_counts(warehouse):
    verdicts = verdicts_on(warehouse, 2)
    record_quality(warehouse, "shop", verdicts)
    output = next((Path(warehouse.root) / "shop" / "outputs").rglob("*.parquet"))
    output.write_bytes(output.read_bytes()[:-20])

    changed = verdicts_on(warehouse, 2)
    record_quality(warehouse, "shop", changed)

    newest = {(row["guarantee"], row["table"]): row["verdict"] for row in newest_results(warehouse, "shop")}
    assert all(is_in_order(each) for each in verdicts)
    assert "unknown" in [each.answer for each in changed]
    assert newest == {(each.guarantee, each.table): VERDICTS[each.answer] for each in changed}


def test_of_two_clocks_the_later_verdict_counts(warehouse, monkeypatch):
    (first, *_) = verdicts_on(warehouse, 2)
    record_quality(warehouse, "shop", [first])
    monkeypatch.setattr("kstreams_replay.expectations.quality_tables.now_ms", lambda: 1000)
    later = replace(first, answer="false", broken=("rule",))

    assert [record_verdicts(warehouse, "shop", [later]) for _ in range(2)] == [1, 0]
    assert [row["verdict"] for row in newest_results(warehouse, "shop")] == ["failed"]


def test_numbers_have_the_names_of_kafkas_metrics(warehouse):
    record_quality(warehouse, "shop", [])

    rows = asked(
        warehouse, "SELECT metric, sub_topology, operator, label, value FROM quality_metrics WHERE increment = 1"
    )
    assert {row for row in rows if row[0] not in OTHERS} == NUMBERS
    assert {row[0] for row in rows} == {*OTHERS, *(row[0] for row in NUMBERS)}


def test_increments_that_a_restore_withdrew_keep_their_epoch(warehouse):
    record_quality(warehouse, "shop", verdicts_on(warehouse, 1, 2))
    restore(warehouse, "shop", 1)

    gained = record_quality(warehouse, "shop", [])

    epochs = asked(warehouse, "SELECT DISTINCT increment, epoch FROM quality_results ORDER BY increment")
    assert gained == 0
    assert epochs == [(1, 0), (2, 0)]
    assert [done.increment for _, done in increments_in_force(warehouse, "shop")] == [1]


def test_the_command_records_what_it_judged(warehouse, capsys):
    arguments = ["--warehouse", warehouse.root, "--pipeline", "shop"]
    code = main(["check", "tests/dagster/shop.py:topology", *arguments, "--all", "--engine", "plain"])

    assert code == 0
    capsys.readouterr()
    main(["sql", "SELECT verdict, count(*) AS n FROM quality_results GROUP BY verdict", *arguments])
    assert "passed" in capsys.readouterr().out


class Said(list[str]):
    """Progress of a command: what it says that it does."""

    doing = list.append

    def close(self) -> None:
        """Nothing is drawn."""


def test_a_check_of_all_that_is_stopped_says_how_far_it_came_and_has_that_recorded(warehouse, monkeypatch, capsys):
    """Ctrl-C comes with the second of two parts of one increment each."""
    said, check_increments = Said(), judge.check_increments

    def stopped(place, pipeline, facts, part, **more):
        if part == [2]:
            raise KeyboardInterrupt
        return check_increments(place, pipeline, facts, part, **more)

    monkeypatch.setattr(check, "TOGETHER", 1)
    monkeypatch.setattr(judge, "check_increments", stopped)
    monkeypatch.setattr(check, "progress_on", lambda stream: said)
    monkeypatch.setattr("kstreams_replay.orchestration.cli.main._ignore_interrupts", lambda: None)
    place = ["--warehouse", warehouse.root, "--pipeline", "shop"]
    command = ["check", "tests/dagster/shop.py:topology", *place, "--all", "--engine", "plain"]
    recorded = 'SELECT increment, guarantee, "table", verdict, rows_checked FROM quality_results'

    def of_three() -> list[tuple]:
        return sorted(row for row in asked(warehouse, recorded) if row[1] in ("G1", "G2", "G3"))

    assert main(command) == 130
    assert said == ["judging increments 1 to 1, 0 of 2 are judged", "judging increments 2 to 2, 1 of 2 are judged"]
    assert "replay: verdicts on increments up to 1 are recorded; the same command" in capsys.readouterr().err
    assert of_three() == [row for row in WANTED if row[0] == 1]

    monkeypatch.setattr(judge, "check_increments", check_increments)
    assert main(command) == 0
    assert of_three() == WANTED


def test_a_check_that_cannot_be_recorded_says_so_and_stands(warehouse, monkeypatch: pytest.MonkeyPatch, capsys):
    def fail(*_: object) -> Callable[..., int]:
        raise OSError("Read-only file system")

    monkeypatch.setattr("kstreams_replay.orchestration.quality.recording.record_quality", fail)
    arguments = ["--warehouse", warehouse.root, "--pipeline", "shop", "--engine", "plain"]

    assert main(["check", "tests/dagster/shop.py:topology", *arguments]) == 0
    assert "were not recorded in quality_results of shop: Read-only file system" in capsys.readouterr().err


def test_open_windows_are_counted_by_increment_and_operator(tmp_path):
    """
    Windows of 10 with a grace of 5. After the first increment stream time is 14: a's and b's [0, 10) are open, and c's
    [10, 20). After the second it is 25: what ends at 20 has closed, b's [20, 30) is open. Sessions with a gap of 3 and
    a grace of 5: a's [3, 3] has closed at 11, b's [9, 9] and c's [14, 14] are open; then b's [25, 25] alone.
    """
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", TEXTS).group_by_key()
    grouped.windowed_by(TimeWindows.of_size(10, grace=5)).count(name="tens").to_stream().to("tens")
    grouped.windowed_by(SessionWindows.with_inactivity_gap(3, grace=5)).count(name="visits").to_stream().to("visits")
    topology, warehouse = builder.build(), Warehouse(str(tmp_path))
    rows = tape(("a", "1", 3), ("b", "1", 9), ("c", "1", 14), ("a", "1", 12), ("b", "1", 25))
    plant(warehouse, "clicks", rows, partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=3))

    record_quality(warehouse, "p", [], replay_facts(topology))

    wanted = "SELECT increment, operator, value FROM quality_metrics WHERE metric = 'open-windows'"
    assert sorted(History(warehouse, "p").at().sql(wanted).rows()) == [
        (1, "tens", 3.0), (1, "visits", 2.0), (2, "tens", 1.0), (2, "visits", 1.0),
    ]  # fmt: skip
    shown = re.findall(r'replay_open_windows\{.*operator="(\w+)".*\} (.*)', openmetrics(warehouse, "p"))
    assert shown == [("tens", "1.0"), ("visits", "1.0")]
    write_report(warehouse, None, tmp_path / "page.html")
    (chart,) = re.findall("<b>Open windows</b>.*?</figure>", (tmp_path / "page.html").read_text(), re.DOTALL)
    assert [name for name in ("tens", "visits") if f">{name}<" in chart] == ["tens", "visits"]


def test_the_command_records_open_windows(warehouse):
    asked_for = ["check", "tests/dagster/shop.py:topology", "--warehouse", warehouse.root, "--pipeline", "shop"]
    assert main([*asked_for, "--engine", "plain"]) == 0

    found = asked(warehouse, "SELECT DISTINCT operator FROM quality_metrics WHERE metric = 'open-windows'")
    assert {SESSIONS, PAGES} <= {operator for (operator,) in found}


def samples(warehouse: Warehouse) -> dict[str, dict[tuple[str, ...], float]]:
    """Of each metric the values by their labels, in the order of the labels' names, as a scraper reads them."""
    return {
        sample.name: {tuple(label for _, label in sorted(each.labels.items())): each.value for each in family.samples}
        for family in text_string_to_metric_families(openmetrics(warehouse, "shop"))
        for sample in family.samples
    }


def test_metrics_have_the_newest_verdict_of_each_guarantee_and_none_of_what_was_not_checked(warehouse):
    assert not {"replay_guarantee_holds", "replay_checked_increment"} & samples(warehouse).keys()

    verdicts = [each for each in verdicts_on(warehouse, 1, 2) if each.guarantee in ("G1", "G3")]
    broken = replace(verdicts[-1], answer="false", broken=("repeated",))
    unknown = replace(verdicts[-2], answer="unknown")
    assert (broken.increment, broken.guarantee, unknown.guarantee) == (2, "G3", "G1")
    record_quality(warehouse, "shop", [*verdicts[:-2], unknown, broken])

    found = samples(warehouse)
    (left,) = {"outputs/pages", "outputs/sessions"} - {unknown.table}
    assert found["replay_guarantee_holds"] == {
        ("G1", "shop", "error", left): 1, ("G3", "shop", "error", "ledger"): 0,
    }  # fmt: skip
    assert found["replay_checked_increment"] == {("shop",): 2}


def test_every_query_of_the_dashboard_asks_for_a_metric_and_labels_that_are_printed(warehouse):
    record_quality(warehouse, "shop", verdicts_on(warehouse, 2))
    families = text_string_to_metric_families(openmetrics(warehouse, "shop"))
    labels = {each.name: set(each.labels) for family in families for each in family.samples}
    dashboard = json.loads((ROOT / "docs" / "grafana" / "kafka-streams-replay.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    assert len(queries) > 10
    for query in queries:
        named = re.findall(r"replay_\w+", query)
        used = re.findall(r"(\w+)=~?\"|by \(([\w, ]+)\)|on \(([\w, ]+)\)", query)
        wanted = {label for groups in used for group in groups for label in re.findall(r"\w+", group)}
        assert named
        assert set(named) <= labels.keys(), query
        assert all(wanted <= labels[name] for name in named), query
