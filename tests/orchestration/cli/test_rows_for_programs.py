"""Rows as programs take them: `--json` of every command that prints tables, choices of `show`, files of `export`."""

import csv
import json
from decimal import Decimal
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.orchestration.cli.commands import export
from kstreams_replay.orchestration.cli.main import COMMANDS, _replay
from kstreams_replay.orchestration.text_tables import json_value
from tests.dagster import shop

SHOP = f"{Path(shop.__file__)}:topology"
WITHOUT_TABLES = {
    "exclude", "warm-up", "explain", "describe", "errors", "report", "metrics", "check-topology", "fork", "promote",
    "drop", "restore", "take-back", "export", "init", "current",
    "lineage",
}  # fmt: skip


def test_every_command_that_prints_a_table_has_json():
    context = click.Context(_replay)
    names = [name for section in COMMANDS.values() for name in section]
    found = {name: _replay.get_command(context, name) for name in names}

    without = {name for name, each in found.items() if each and not any("--json" in p.opts for p in each.params)}
    assert without == WITHOUT_TABLES


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (b"ann", "ann"), (b"\xff\x00", "0xff00"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"),
        (float("inf"), "Infinity"), (Decimal("1.50"), "1.50"), ([("a", 1)], [["a", 1]]),
        ({"a": {"b": [None, True, 2.5]}}, {"a": {"b": [None, True, 2.5]}}),
    ],
)  # fmt: skip
def test_a_value_in_json_is_whole(value, want):
    assert json_value(value) == want
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == want


@pytest.fixture
def asked(command, replayed):
    """The JSON that a command prints about the shop."""

    def ask(*words: object) -> dict[str, object]:
        code, out, err = command(*words, "--warehouse", replayed.root, "--pipeline", "shop", "--json")
        assert (code, err, out.count("\n")) == (0, "", 1)
        return json.loads(out)

    return ask


def test_books_have_a_row_an_increment_and_what_was_refused(asked):
    books = asked("books")

    assert [(each["increment"], each["read"]) for each in books["increments"]] == [(1, 6), (2, 2)]
    assert {(each["reason"], each["records"]) for each in books["refused"]} == {("null-key", 1), ("expired-window", 1)}
    assert (books["pipeline"], books["takeovers"], books["put_aside"], books["excluded"]) == ("shop", [], [], [])


def test_rows_are_shown_with_their_numbers(asked):
    got = asked("show", "sessions", "--key", "ann")

    assert (got["table"], got["total"]) == ("outputs/sessions", 2)
    assert [row["window_start_ms"] for row in got["rows"]] == [100, 300]
    assert got["rows"][0]["value"] == {"clicks": 2, "last_page": "cart"}


def test_a_query_and_positions_are_printed_with_their_numbers(asked):
    assert asked("sql", "SELECT key, count(*) AS n FROM sessions GROUP BY key ORDER BY key", "--limit", 1) == {
        "rows": [{"key": "ann", "n": 2}], "total": 3,
    }  # fmt: skip
    got = asked("inspect")
    assert got["offsets"] == [{"topic": "clicks", "partition": 0, "read": 8, "landed": 8, "waiting": 0}]
    store = asked("inspect", "open-sessions", "--topology", SHOP)
    assert [(row["key"], row["value"]["clicks"]) for row in store["rows"]] == [("bob", 1)]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["pages", "--key", "home"], [90, 210, 300]),
        (["pages", "--window", 300], [300]),
        (["pages", "--window", "1970-01-01T00:00:00.300Z", "--key", "cart"], []),
        (["pages", "--last", 1], [300]),
        (["pages", "--changelog", "--key", "help"], [180]),
    ],
)
def test_rows_are_chosen_by_key_by_window_and_by_when_they_were_written(asked, words, want):
    assert [row["window_start_ms"] for row in asked("show", *words)["rows"]] == want


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["dropped", "--key", "ann"], "--key: expected a table with the column key, got columns partition, "),
        (["sessions", "--window", "soon"], "--window: expected "),
    ],
)
def test_what_cannot_be_chosen_is_refused(command, replayed, words, want):
    code, out, err = command("show", *words, "--warehouse", replayed.root, "--pipeline", "shop")

    assert (code, out) == (2, "")
    assert err.startswith(f"replay: {want}")


def exported(command, replayed, path: Path, *words: str) -> Path:
    where = ["--warehouse", replayed.root, "--pipeline", "shop"]
    code, out, _ = command("export", "sessions", "--out", path, *where, *words)
    assert code == 0
    assert out.endswith(f" in {path}, {path.stat().st_size:,} bytes\n")
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    return path


def test_a_file_has_the_rows_of_the_table(command, replayed, tmp_path):
    """Sessions by hand: ann [100, 110], bob [105, 105], cid [200, 200], ann [300, 300]."""
    keys, starts = ["ann", "ann", "bob", "cid"], [100, 300, 105, 200]
    for ending in ("parquet", "csv", "jsonl"):
        (tmp_path / ending).mkdir()

    parquet = pq.read_table(exported(command, replayed, tmp_path / "parquet" / "s.parquet"))
    lines = exported(command, replayed, tmp_path / "jsonl" / "s.jsonl").read_text().splitlines()
    table = exported(command, replayed, tmp_path / "csv" / "s.csv").read_text().splitlines()

    assert (parquet["key"].to_pylist(), parquet["window_start_ms"].to_pylist()) == (keys, starts)
    assert [(row["key"], row["window_start_ms"]) for row in map(json.loads, lines)] == [*zip(keys, starts, strict=True)]
    rows = list(csv.DictReader(table))
    assert [(row["key"], int(row["window_start_ms"])) for row in rows] == [*zip(keys, starts, strict=True)]
    assert [(row["clicks"], row["last_page"]) for row in rows] == [("2", "cart"), ("1", "home"), ("1", "home"),
                                                                   ("1", "help")]  # fmt: skip


def test_a_file_may_have_one_key_of_the_changelog_as_of_an_increment(command, replayed, tmp_path):
    path = exported(command, replayed, tmp_path / "s.jsonl", "--changelog", "--increment", "1", "--key", "bob")

    (row,) = map(json.loads, path.read_text().splitlines())
    assert (row["increment"], row["key"], row["headers"]) == (1, "bob", None)


def test_nulls_empty_texts_bytes_and_lists_differ_in_csv(tmp_path):
    rows = pa.table({"key": ["", None], "value": [{"key": b"\xff", "tags": ["a", "b"]}, None]})

    export._WRITERS[".csv"](rows, tmp_path / "t.csv")

    assert (tmp_path / "t.csv").read_text() == '"key","value.key","tags"\n"","0xff","[""a"", ""b""]"\n,,\n'


@pytest.mark.parametrize("out", ["sessions.xlsx", "s3://lake/sessions.csv", "sessions"])
def test_a_file_of_no_known_kind_is_refused(command, replayed, out):
    code, _, err = command("export", "sessions", "--out", out, "--warehouse", replayed.root, "--pipeline", "shop")

    assert code == 2
    assert "expected a path on this machine that ends in .parquet, .csv, .jsonl" in err


def test_what_was_there_stays_when_a_file_cannot_be_written(command, replayed, tmp_path, monkeypatch):
    def fails(rows: pa.Table, path: Path) -> None:
        path.write_text("half")
        raise OSError("no space left")

    monkeypatch.setitem(export._WRITERS, ".csv", fails)
    (tmp_path / "s.csv").write_text("before")

    code, _, _ = command(
        "export", "sessions", "--out", tmp_path / "s.csv", "--warehouse", replayed.root, "--pipeline", "shop"
    )

    assert code == 1
    assert (tmp_path / "s.csv").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1
