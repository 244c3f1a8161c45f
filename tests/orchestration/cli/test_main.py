"""The command line, in process: what is printed, where, and with which exit code."""

import json
import re
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kstreams_replay.jobs.landing.landing import land_files
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration import text_tables
from kstreams_replay.orchestration.cli.main import COMMANDS, main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.dagster.duplicates import DuplicatingRunner

SHOP = f"{Path(shop.__file__)}:topology"


@pytest.fixture
def run(capsys):
    """Runs a command; returns exit code, stdout and stderr, each line without spaces at its end."""

    def run_command(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_command


def place(warehouse) -> list[str]:
    return ["--warehouse", warehouse.root, "--pipeline", "shop"]


@pytest.mark.slow
def test_land_run_check_and_show_work_one_after_the_other_without_java(run, tmp_path, clicks):
    where = ["--warehouse", tmp_path / "w", "--pipeline", "shop"]
    land = ["land", "clicks", "--warehouse", tmp_path / "w", "--files", clicks, "--timestamp", "ms", "--key", "user"]

    code, out, _ = run(*land, "--local")
    assert code == 0
    assert re.sub(r"\d+\.\d s", "0.0 s", out) == (
        "first record, of 1-morning.jsonl (jsonl):\n"
        "  key        ann\n"
        "  time       1970-01-01T00:00:00.100Z (100)\n"
        '  value      {"user": "ann", "page": "home", "ms": 100}\n'
        "  partition  0\n"
        "  order      natural order of the names of files (dump-2 before dump-10)\n"
        "  times      1970-01-01T00:00:00.100Z to 1970-01-01T00:00:00.210Z\n"
        "clicks: 6 records landed in 0.0 s (increment 1)\n"
        "partition  from  to\n"
        "---------  ----  --\n"
        "        0     0   6\n"
    )

    code, out, err = run("run", SHOP, *where, "--local", "--max-records", 4)
    assert code == 0
    lines = [line for line in re.sub(r"[\d.,]+/s", "0/s", err).splitlines() if not line.endswith("planned")]
    assert lines == [  # kernels that are compiled first take their time
        "increment 1 · 4 of 6 records · 0/s · stream time 1970-01-01 00:00:00.200",
        "increment 2 · 6 of 6 records · 0/s · stream time 1970-01-01 00:00:00.210",
        "replay: warning: 2 of 6 records that came to KSTREAM-AGGREGATE-0000000001 (33.3%) were refused; "
        f"see `replay show dropped --warehouse {tmp_path}/w --pipeline shop`",
        "replay: warning: 1 of 6 records that came to KSTREAM-AGGREGATE-0000000005 (16.7%) were refused; "
        f"see `replay show dropped --warehouse {tmp_path}/w --pipeline shop`",
    ]
    assert out.splitlines()[0].split() == [
        "increment", "read", "applied", "left_out", "dropped", "undecodable", "refused", "emitted", "late_max_ms",
        "seconds",
    ]  # fmt: skip
    assert f"tables: {tmp_path}/w/shop" in out

    code, out, _ = run("check", SHOP, *where, "--engine", "plain", "--all")
    assert code == 0
    verdict = re.compile(r"(\w+) +(G\d+) \S+, increment (\d)")
    said = [found.groups() for line in out.splitlines() if (found := verdict.match(line))]
    assert {(answer, name) for answer, name, _ in said if answer != "holds"} == {("WARNING", "G12")}  # late clicks
    assert {name: sum(one == ("holds", name, "2") for one in said) for name in ("G1", "G2", "G3")} == {
        "G1": 2, "G2": 2, "G3": 1,
    }  # fmt: skip

    code, out, _ = run("show", "sessions", *where)
    assert code == 0
    assert out == (
        "key  window_start             window_end               clicks  last_page  record_time\n"
        "---  -----------------------  -----------------------  ------  ---------  -----------------------\n"
        "ann  1970-01-01 00:00:00.100  1970-01-01 00:00:00.110       2  cart       1970-01-01 00:00:00.110\n"
        "bob  1970-01-01 00:00:00.105  1970-01-01 00:00:00.105       1  home       1970-01-01 00:00:00.105\n"
    )


def test_nothing_new_is_said_and_is_no_error(run, tmp_path, clicks):
    land = ["land", "clicks", "--warehouse", tmp_path / "w", "--files", clicks, "--timestamp", "ms", "--local"]
    replay = ["run", SHOP, "--warehouse", tmp_path / "w", "--pipeline", "shop", "--local"]
    run(*land)
    run(*replay)

    assert run(*land)[:2] == (0, "clicks: nothing new\n")
    assert run(*replay)[:2] == (0, "nothing new to replay for shop\n")
    assert run(*land, "--detailed-exit-code")[0] == 3
    assert run(*replay, "--detailed-exit-code")[0] == 3


def test_a_topology_of_nothing_has_nothing_to_replay(run, tmp_path):
    file = tmp_path / "off.py"
    file.write_text("from kstreams_replay import StreamsBuilder\ntopology = StreamsBuilder().build()\n")

    code, out, _ = run("run", f"{file}:topology", "--warehouse", tmp_path / "w", "--pipeline", "off", "--local")

    assert (code, out) == (0, "nothing to replay for off: the topology reads no landed topic\n")


@pytest.mark.slow
def test_a_run_that_can_apply_nothing_exits_with_4_and_one_that_leaves_much_out_with_5(run, tmp_path, clicks):
    """The shop reads values as JSON objects: a file of broken ones, then one that is half broken."""
    land = ["land", "clicks", "--warehouse", tmp_path / "w", "--files", tmp_path / "clicks", "--timestamp", "ms"]
    replay = ["run", SHOP, "--warehouse", tmp_path / "w", "--pipeline", "shop", "--local"]
    shows_them = f"see `replay show dead_letter --warehouse {tmp_path}/w --pipeline shop`"
    (clicks / "1-morning.jsonl").unlink()

    def drop(name: str, *pages: object) -> None:
        rows = [json.dumps({"ms": 100, "user": "ann", "page": page}) for page in pages]
        (clicks / name).write_text("\n".join(rows) + "\n")
        assert run(*land, "--key", "user", "--local")[0] == 0

    drop("1.jsonl", 7, [])
    code, _, err = run(*replay)
    assert (code, err.splitlines()[-1]) == (
        4,
        f"replay: warning: 2 of 2 records (100%) were undecodable; {shows_them}",
    )

    drop("2.jsonl", "home", {})
    code, _, err = run(*replay, "--detailed-exit-code")
    assert (code, err.splitlines()[-1]) == (
        5,
        f"replay: warning: 1 of 2 records (50%) were undecodable; {shows_them}",
    )

    drop("3.jsonl", "help", {})
    assert run(*replay)[0] == 0
    drop("4.jsonl", "home", "cart")
    assert run(*replay, "--detailed-exit-code")[0] == 0


def test_the_list_of_commands_is_shown_without_loading_one_and_every_command_has_its_help(run):
    code, out, _ = run("--help")
    names = [name for section in COMMANDS.values() for name in section]

    assert code == 0
    assert set(names) == set(re.findall(r"^  ([a-z][a-z-]+)  ", out, re.MULTILINE))
    for name in names:
        code, out, _ = run(name, "--help")
        assert (code, out.splitlines()[0].split()[:3]) == (0, ["Usage:", "replay", name])
        assert "--traceback" in out


def test_an_option_takes_several_values_at_once_or_one_after_the_other(run, tmp_path, clicks):
    land = ["--files", clicks, "--timestamp", "ms", "--local", "clicks"]

    run("land", "--warehouse", tmp_path / "a", "--value", "page", "user", *land)
    run("land", "--warehouse", tmp_path / "b", "--value", "page", "--value", "user", *land)

    values = [Warehouse(tmp_path / name).landed("clicks") for name in "ab"]
    first, second = (DeltaTable(each).to_pyarrow_table().column("value").to_pylist() for each in values)
    assert first == second
    assert set(json.loads(first[0])) == {"page", "user"}


def test_books_have_a_line_for_every_increment_and_one_for_all(run, replayed):
    code, out, _ = run("books", *place(replayed))

    lines = [line.split()[:8] for line in out.splitlines()]
    assert code == 0
    assert lines[0] == ["increment", "read", "applied", "left_out", "dropped", "undecodable", "refused", "emitted"]
    assert lines[2:5] == [
        ["1", "6", "6", "0", "0", "0", "3", "4"],
        ["2", "2", "2", "0", "0", "0", "0", "5"],
        ["all", "8", "8", "0", "0", "0", "3", "9"],
    ]
    assert lines[5:6] in ([], [[]])  # no further increment


def test_books_say_how_many_rows_were_put_aside_while_landing(run, tmp_path, clicks):
    where = ["--warehouse", tmp_path / "w"]
    (clicks / "2-broken.jsonl").write_text('{"user": "ann", "ms": "soon"}\n')
    land = ["land", "clicks", *where, "--files", clicks, "--timestamp", "ms", "--key", "user", "--local"]
    assert run(*land, "--max-bad-share", "1")[0] == 0
    assert run("run", SHOP, *where, "--pipeline", "shop", "--local")[0] == 0

    code, out, _ = run("books", *where, "--pipeline", "shop")

    assert code == 0
    assert [line.split() for line in out.splitlines()[-3::2]] == [
        ["topic", "landed", "put_aside"],
        ["clicks", "6", "1"],
    ]


def test_show_changelog_is_every_record_in_order_with_times_as_they_are(run, replayed):
    code, out, _ = run("show", "pages", *place(replayed), "--changelog", "--raw", "--limit", 2)

    assert code == 0
    columns, _, *records, rest = [line.split() for line in out.splitlines()]
    assert columns == [
        *("partition", "offset", "increment", "cause_offset", "key", "window_start_ms", "window_end_ms", "value"),
        *("record_time_ms", "stream_time_ms", "headers", "arrival"),
    ]
    assert records == [
        ["0", "3", "2", "6", "home", "210", "240", "1", "210", "300"],
        ["0", "4", "2", "7", "home", "300", "330", "1", "300", "400"],
    ]
    assert " ".join(rest) == "… 2 of 5 rows; --limit shows more"


def test_show_stops_at_the_limit_and_says_how_many_there_are(run, replayed):
    _, out, _ = run("show", "pages", *place(replayed), "--limit", 1)

    assert out.splitlines()[-1] == "… 1 of 5 rows; --limit shows more"


def test_show_as_of_an_increment_is_the_table_of_then(run, replayed):
    _, out, _ = run("show", "sessions", *place(replayed), "--increment", 1)

    assert [line.split()[0] for line in out.splitlines()[2:]] == ["ann", "bob"]


def test_long_values_are_cut_unless_the_table_is_wide(run, replayed, monkeypatch):
    monkeypatch.setattr(text_tables, "WIDTH_MAX", 4)

    narrow, wide = (
        run("show", "sessions", *place(replayed), *option)[1].splitlines()[2] for option in ([], ["--wide"])
    )

    assert narrow.split() == ["ann", "197…", "197…", "2", "cart", "197…"]
    assert "1970-01-01 00:00:00.100" in wide


@pytest.mark.parametrize(
    "table", ["dropped", "dead_letter", "state/open-sessions", "repartition/open-pages-repartition"]
)
def test_show_knows_every_table_of_the_pipeline(run, replayed, table):
    code, out, _ = run("show", table, *place(replayed))

    assert code == 0
    assert "key" in out.splitlines()[0] or "reason" in out.splitlines()[0]


def test_show_of_a_store_with_its_topology_is_what_readers_see(run, replayed):
    code, out, _ = run("show", "state/open-sessions", *place(replayed), "--topology", SHOP, "--raw")

    assert code == 0
    columns, _, *rows = [line.split() for line in out.splitlines()]
    assert columns[:6] == ["partition", "key", "window_start_ms", "window_end_ms", "clicks", "last_page"]
    assert [row[:6] for row in rows] == [["0", "bob", "400", "400", "1", "help"]]


def test_describe_prints_what_kafka_streams_would(run):
    code, out, _ = run("describe", SHOP)

    assert code == 0
    assert out == shop.topology().describe() + "\n"


@pytest.mark.parametrize(
    ("command", "expected", "sentence"),
    [
        (["show", "nope"], 2, "replay: pipeline 'shop': expected one of dead_letter, dropped, outputs/pages, "),
        (["show", "pages", "--increment", "9"], 1, "expected a done increment 9, got none; run the replay first"),
        (
            ["run", "nothing.py"],
            2,
            "replay: nothing.py: expected a module or a file, got no file nothing.py; check the path",
        ),
        (
            ["run", SHOP, "--local", "--max-records", "0"],
            2,
            "Invalid value for '--max-records': 0 is not in the range x>=1",
        ),
        (["run", SHOP, "--local", "--increments", "-1"], 2, "Invalid value for '--increments': -1 is not in the range"),
        (["run", SHOP, "--local", "--increments", "0"], 2, "Invalid value for '--increments': 0 is not in the range"),
        (
            ["show", "pages", "--increment", "9" * 30],
            2,
            f"Invalid value for '--increment': {'9' * 30} is beyond 64 bits",
        ),
        (["show", "pages", "--last", str(1 << 63)], 2, f"Invalid value for '--last': {1 << 63} is beyond 64 bits"),
        (["vacuum", "--keep-days", "nan"], 2, "Invalid value for '--keep-days': 'nan' is not a finite number"),
        (["vacuum", "--keep-days", "inf"], 2, "Invalid value for '--keep-days': 'inf' is not a finite number"),
        (["vacuum", "--keep-days", "-1"], 2, "Invalid value for '--keep-days': -1.0 is not in the range x>=0"),
        (["check", SHOP, "--refused-max", "nan"], 2, "Invalid value for '--refused-max': 'nan' is not a finite number"),
        (["show"], 2, "replay: Missing argument 'OUTPUT'; see replay show --help"),
        (["shwo"], 2, "replay: No such command 'shwo'"),
        (["show", "pages", "--limit", "x"], 2, "replay: Invalid value for '--limit': 'x' is not a valid integer"),
        (["vacuum", "--keep-days", "1", "--keep-increments", "1"], 2, "--keep-increments and --keep-days exclude"),
    ],
)
def test_an_error_is_one_sentence_on_stderr_2_for_what_was_asked_and_1_for_what_was_found(
    run, replayed, command, expected, sentence
):
    code, out, err = run(*command, *place(replayed))

    assert (code, out) == (expected, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_files_without_a_time_are_refused(run, tmp_path):
    land = ["land", "clicks", "--warehouse", tmp_path, "--local"]

    files = (
        "replay: topic 'clicks': expected the column of the record time, got none; name it with --timestamp COLUMN; "
        "if no column has a time, as of a static table, move the files into a folder since=2013-01-01, and land with "
        "--timestamp since --timestamp-unit iso [replay errors ConfigError]\n"
    )
    assert run(*land, "--files", tmp_path) == (2, "", files)


def test_warming_up_says_how_many_versions_of_kernels_are_cached(run):
    first, again = run("warm-up", SHOP), run("warm-up", SHOP)

    assert first[0] == again[0] == 0
    assert re.fullmatch(r"\d+ versions of kernels cached, 0 of them new, in \d+\.\d s\n", again[1])


def test_a_topic_that_was_never_landed_is_named(run, tmp_path):
    code, _, err = run("run", SHOP, "--warehouse", tmp_path, "--pipeline", "shop", "--local")

    assert code == 2
    want = "topic 'clicks': expected a landed topic, got landed topics []; land it before replaying"
    assert err == f"replay: {want} [replay errors ConfigError]\n"


def test_the_stack_trace_is_shown_to_those_who_ask(run, tmp_path):
    code, _, err = run("run", SHOP, "--warehouse", tmp_path, "--pipeline", "shop", "--local", "--traceback")

    assert code == 2
    assert err.startswith("replay: topic 'clicks'")
    assert "Traceback (most recent call last)" in err


def test_what_fails_because_a_signal_came_is_no_bug(run, replayed, monkeypatch):
    """Ctrl-C in the middle of a call to Spark's JVM: the answer to it is read by the next call."""

    def stopped(*_):
        try:
            raise KeyboardInterrupt
        finally:
            {}["p"]

    monkeypatch.setattr("kstreams_replay.orchestration.cli.commands.describe.done_row", stopped)
    code, _, err = run("books", "--warehouse", replayed, "--pipeline", "shop")

    assert (code, err.splitlines()[0]) == (130, "replay: stopped by Ctrl-C")


def test_a_bug_is_told_as_one(run, replayed, monkeypatch):
    monkeypatch.setattr("kstreams_replay.orchestration.cli.commands.describe.done_row", lambda *_: 1 / 0)

    code, _, err = run("books", *place(replayed))

    assert code == 1
    assert err == "replay: ZeroDivisionError: division by zero; this is a bug, --traceback shows where\n"


def test_a_broken_guarantee_is_shown_with_its_witnesses_and_exit_code_4(run, tmp_path, clicks):
    warehouse = Warehouse(tmp_path / "w")
    land_files(None, warehouse, "clicks", shop.source(clicks))
    assert list(replay(warehouse, shop.topology(), pipeline="shop", runner=DuplicatingRunner()))

    code, out, _ = run("check", SHOP, *place(warehouse), "--engine", "plain")

    assert code == 4
    assert out.startswith(
        "BROKEN  G1 outputs/sessions, increment 1: One final result per key and window. (finals 3, repeated 1)\n"
    )
    assert out.splitlines()[3].split()[:3] == ["bob", "105", "105"]


@pytest.mark.slow
def test_a_recorded_time_and_the_end_of_history_close_windows(run, tmp_path, clicks):
    where = ["--warehouse", tmp_path / "w"]
    run("land", "clicks", *where, "--files", clicks, "--timestamp", "ms", "--key", "user", "--local")

    code, out, _ = run("advance", "clicks", *where, "--to", "1970-01-01T00:00:01")
    assert (code, out) == (
        0,
        "clicks: stream time recorded; the next run of each pipeline takes it\n"
        "partition  reached\n"
        "---------  -------------------\n"
        "        0  1970-01-01 00:00:01\n",
    )
    assert run("advance", "clicks", *where, "--to", 999)[1] == (
        "clicks: no time to record that is not recorded already\n"
    )

    assert run("run", SHOP, *where, "--pipeline", "shop", "--local", "--flush-at-end")[0] == 0
    lines = [line.split()[:2] for line in run("books", *where, "--pipeline", "shop")[1].splitlines()[2:5]]
    assert lines == [["1", "6"], ["2", "0"], ["all", "6"]]
    assert run("check", SHOP, *where, "--pipeline", "shop", "--engine", "plain", "--all")[0] == 0


def test_a_tick_is_recorded_by_hand_or_after_landing(run, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1.jsonl").write_text('{"ms": 900000}\n')
    land = ["land", "clicks", "--warehouse", tmp_path / "w", "--files", tmp_path / "files", "--timestamp", "ms"]
    advance = ["advance", "clicks", "--warehouse", tmp_path / "w", "--to", "2001-01-01", "--tick"]

    _, out, _ = run(*land, "--tick", "--local")
    code, again, _ = run(*advance)
    _, later, _ = run(*[2_222_222_222_000 if each == "2001-01-01" else each for each in advance])

    assert "clicks: 1 record landed in" in out
    assert "clicks: a tick of the wall clock recorded" in out
    assert (code, again) == (0, "clicks: no time to record that is not recorded already\n")
    assert later.splitlines()[-1].split() == ["0", "2040-06-02", "03:57:02"]


def test_landing_records_the_time_of_partitions_that_lag_behind(run, tmp_path):
    (tmp_path / "files").mkdir()
    rows = [{"ms": 900_000, "p": 0}, {"ms": 100_000, "p": 1}]
    (tmp_path / "files" / "1.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    land = ["land", "clicks", "--warehouse", tmp_path / "w", "--files", tmp_path / "files", "--timestamp", "ms"]

    _, out, _ = run(*land, "--partition", "p", "--partitions", 2, "--idle-after", "5m", "--local")

    assert [line.split() for line in out.splitlines()[-2:]] == [
        ["0", "1970-01-01", "00:10:00"],
        ["1", "1970-01-01", "00:10:00"],
    ]
