"""`replay bench`: systems agree on the same rows, and a system that does not is an error, never silent."""

import json
import shutil
import subprocess

import numpy as np
import polars as pl
import psutil
import pytest

from kstreams_replay.benchmarks import bench, click_events, landed_data
from kstreams_replay.benchmarks.comparison import Line, compare, table_text
from kstreams_replay.benchmarks.measuring import ProgramFailed, run_program, summed
from kstreams_replay.benchmarks.ours import PIPELINE, written_values
from kstreams_replay.benchmarks.typed_data import prepare, typed_path, warehouse_of
from kstreams_replay.benchmarks.workloads import WORKLOADS
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError

RECORDS = 20_000


def said(system: str, *, seconds=(9.0, 1.0, 3.0, 2.0), rows=5, records=1_000, **checks) -> dict:
    """What a program printed."""
    return {
        "system": system, "configuration": "c", "records": records, "seconds": list(seconds), "rows_out": rows,
        "checks": checks,
    }  # fmt: skip


def compared(*lines: dict, exact: bool = True) -> list[Line]:
    found = [Line("W1", line["system"], line["configuration"], line) for line in lines]
    compare(found, exact=exact)
    return found


# --- the whole -----------------------------------------------------------------------------------------------


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("workload", "peers"),
    [("W1", "polars,duckdb"), ("W2", "polars,duckdb"), ("W4", "polars,duckdb"), ("W10", "polars")],
)
def test_ours_and_its_peers_make_the_same_rows_and_sums(tmp_path, capsys, workload, peers):
    arguments = ["--workloads", workload, "--records", str(RECORDS), "--peers", peers, "--runs", "1"]
    code = main(
        ["bench", *arguments, "--json", f"{tmp_path}/run.json", "--plot", f"{tmp_path}/run.png", "--folder",
         f"{tmp_path}/folder"]
    )  # fmt: skip

    run = json.loads((tmp_path / "run.json").read_text())
    table = capsys.readouterr().out
    lines = {(line["workload"], line["system"].split()[0]): line for line in run["lines"]}
    assert code == 0, table
    assert [*lines] == [(workload, system) for system in ("ours", *peers.split(","))]
    assert [line["agrees"] for line in lines.values()] == ["-", *["yes" for _ in peers.split(",")]]
    made = lines[workload, "ours"]["said"]
    if workload == "W4":
        assert made["rows_out"] == RECORDS + 4  # a left join keeps all, the closing records too
    elif workload == "W10":
        assert 0.9 * RECORDS < made["checks"]["clicks"] < RECORDS  # without those of robots
    else:
        assert made["checks"]["first"] == RECORDS
    assert all(line["said"]["rss_bytes_max"] > 0 and line["records_per_second"] > 0 for line in lines.values())
    assert "ERROR" not in table
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_another_sum_and_a_program_that_fails_are_errors_in_table_and_exit_code(tmp_path, capsys, monkeypatch):
    def program(module: str, arguments: list[str]) -> list[dict]:
        if module.endswith("duckdb_peer"):
            raise ProgramFailed("no such file")
        return [said("ours" if module.endswith("ours") else "polars", first=7 if module.endswith("ours") else 8)]

    monkeypatch.setattr(bench, "run_program", program)
    files = ["--json", f"{tmp_path}/run.json", "--plot", f"{tmp_path}/run.png", "--folder", f"{tmp_path}/folder"]
    code = main(["bench", "--workloads", "W1", "--records", "1000", "--peers", "polars,duckdb", *files])

    table = capsys.readouterr().out
    assert code == 4
    assert "ERROR W1 polars, c: first: ours 7, theirs 8" in table
    assert "ERROR W1 duckdb: no such file" in table
    assert [line["agrees"] for line in json.loads((tmp_path / "run.json").read_text())["lines"]] == ["-", "no", "-"]


def test_a_strange_workload_or_peer_is_refused(capsys, monkeypatch):
    monkeypatch.delattr(bench, "run_workload")  # nothing is run
    assert main(["bench", "--workloads", "W1,W99"]) == 2
    assert main(["bench", "--peers", "flink"]) == 2
    assert "W99" in capsys.readouterr().err


@pytest.mark.slow
def test_a_program_that_dies_says_why():
    with pytest.raises(ProgramFailed, match="--workload"):
        run_program("kstreams_replay.benchmarks.peers.polars_peer", [])


def test_a_program_does_not_outlive_who_started_it(monkeypatch):
    def interrupted(program: subprocess.Popen) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    before = psutil.Process().children()
    with pytest.raises(KeyboardInterrupt):
        run_program("http.server", ["0"])  # would run for ever

    started = [process for process in psutil.Process().children() if process not in before]
    assert psutil.wait_procs(started, timeout=30)[1] == []


# --- comparing -----------------------------------------------------------------------------------------------


def test_the_first_run_does_not_count_and_the_ratio_is_of_medians():
    ours, other = compared(said("ours"), said("other", seconds=(1.0, 8.0)))

    assert (ours.rate, other.rate, other.ratio) == (500.0, 125.0, 4.0)


@pytest.mark.parametrize("cpu_seconds", [[9.0, 3.6, 7.2, 3.6], 3.6])
def test_core_hours_for_a_billion_records_are_of_the_later_runs(cpu_seconds):
    line = compared(said("ours") | {"cpu_seconds": cpu_seconds})[0]

    assert line.core_hours == pytest.approx(1_000)  # 3.6 CPU seconds for 1,000 records: 3.6 million for 10^9
    assert line.to_dict()["core_hours_per_billion"] == line.core_hours
    assert "| 1e+03 |" in table_text([line])
    assert compared(said("ours"))[0].core_hours is None


def test_checks_of_any_columns_are_sums_bytes_and_nulls():
    rows = pl.LazyFrame({"n": [1, None, 3], "t": ["ä", "bc", None], "l": [[1, 2], [], None], "d": [0.1, None, 2.0]})

    assert summed(rows) == {
        "n": 4, "n, null": 1, "t": 4, "t, null": 1, "l": 3, "l, null": 1, "d": 2, "d, null": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("other", "agrees", "problem"),
    [
        (said("other", first=3), "yes", None),
        (said("other", rows=6, first=3), "no", "rows out: ours 5, theirs 6"),
        (said("other", first=4), "no", "first: ours 3, theirs 4"),
        (said("other", records=999, rows=6), "-", None),  # a prefix of the rows
    ],
)
def test_results_must_agree_in_rows_and_sums(other, agrees, problem):
    found = compared(said("ours", first=3), other)[1]

    assert (found.agrees, found.problem) == (agrees, problem)
    assert ("ERROR" in table_text([found])) == (agrees == "no")


def test_a_form_that_is_not_exact_is_compared_by_speed_alone():
    found = compared(said("ours", first=3), said("other", rows=6, first=4), exact=False)[1]

    assert (found.agrees, found.problem, found.ratio) == ("-", None, 1.0)


def test_a_peer_without_a_fair_form_has_an_empty_line():
    assert table_text([Line("W8", "polars")]).splitlines()[-1] == "| W8 | polars | - | - | - | - | - | - | - |"


# --- rows ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_rows_are_as_described():
    streams, tables = [*landed_data.clicks(RECORDS)], [*landed_data.users(RECORDS)]

    assert sum(len(rows.keys) for rows in streams) == RECORDS + 4
    for stream, table in zip(streams, tables, strict=True):
        keys, last = stream.keys.to_pylist(), stream.time_ms[:-1]
        set_back = np.arange(len(last)) * 4 + 30_000 - last
        assert keys[-1].startswith(b"closing-")
        assert stream.time_ms[-1] - last.max() >= 86_400_000
        assert 0.18 < (set_back > 0).mean() < 0.22
        assert 0 <= set_back.min() <= set_back.max() < 30_000
        assert set(table.keys.to_pylist()) <= set(keys)
        assert len(table.keys) == len(last) // 5
        assert set(np.diff(table.time_ms)) == {20}
        assert not set(table.time_ms) & set(stream.time_ms)


def test_events_are_the_same_in_json_and_avro():
    rows = next(iter(landed_data.clicks(1_000, keys=100)))
    every = slice(0, len(rows.keys))
    texts = click_events.json_values(rows, every)

    events = [json.loads(text) for text in texts.to_pylist()]
    used = [{name: event[name] for name in ("kind", "amount", "seconds")} for event in events]
    assert click_events.json_serde().decode(texts).values.to_pylist() == used
    assert click_events.avro_serde().decode(click_events.avro_values(rows, every)).values.to_pylist() == used
    assert [event["amount"] for event in events] == rows.values.tolist()
    assert all(len(event) == 12 for event in events)
    assert 0.02 < sum(event["kind"] == "robot" for event in events) / len(events) < 0.08
    assert events[-1]["kind"] != "robot"  # it closes the windows
    assert 400 < sum(map(len, texts.to_pylist())) / len(texts) < 450


@pytest.mark.slow
def test_sessions_of_json_and_of_avro_are_the_same(tmp_path):
    made = []
    for workload in (WORKLOADS["W10"], WORKLOADS["W11"]):
        assert prepare(tmp_path, workload.name, 2_000) == 2_004
        assert (
            sum(1 for _ in replay(warehouse_of(tmp_path), workload.build(), pipeline=PIPELINE, runner=LocalRunner()))
            == 1
        )
        made.append(written_values(warehouse_of(tmp_path), workload)[0].collect())
        shutil.rmtree(warehouse_of(tmp_path).pipeline(PIPELINE).root)

    assert made[0].equals(made[1])
    assert 1_800 < made[0]["clicks"].sum() < 2_000


@pytest.mark.slow
def test_rows_of_a_folder_are_used_again_and_not_for_another_number(tmp_path):
    assert prepare(tmp_path, "W4", 1_000) == 1_000
    made = sorted(typed_path(tmp_path, "clicks").rglob("*.parquet"))

    assert prepare(tmp_path, "W4") == 1_000
    assert sorted(typed_path(tmp_path, "clicks").rglob("*.parquet")) == made
    with pytest.raises(ConfigError, match="1000 records"):
        prepare(tmp_path, "W1u", 2_000)
