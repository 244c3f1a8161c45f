"""The commands that ask history, in process: what they print, and with which exit code."""

from kstreams_replay.state.tables.names import given_names
from tests.orchestration.cli.test_main import SHOP, place, run
from tests.source_tree import text_of

__all__ = ["run"]


def test_sql_answers_as_of_an_increment(run, replayed):
    code, out, _ = run("sql", "SELECT key, value.clicks AS clicks FROM sessions ORDER BY key", *place(replayed),
                       "--increment", 1)  # fmt: skip

    assert code == 0
    assert out == "key  clicks\n---  ------\nann       2\nbob       1\n"


def test_sql_says_what_it_left_out_and_the_names_of_the_tables(run, replayed):
    code, out, _ = run("sql", 'SELECT "offset" FROM "outputs/sessions"', *place(replayed), "--limit", 1)
    assert (code, out.splitlines()[-1]) == (0, "1 of 4 rows; --limit shows more")

    code, _, err = run("sql", "SELECT * FROM nope", *place(replayed))
    assert code == 2
    assert "got relation 'nope' was not found; tables are dead_letter, dropped, " in err


def test_inspect_shows_the_windows_of_a_key_and_the_clocks(run, replayed):
    code, out, _ = run("inspect", "open-pages", "--key", "help", *place(replayed), "--topology", SHOP, "--raw")

    assert code == 0
    assert out == (
        "partition  key   window_start_ms  window_end_ms  value  record_time_ms\n"
        "---------  ----  ---------------  -------------  -----  --------------\n"
        "        0  help              390            420      1             400\n"
        "\n"
        "clocks after increment 2\n"
        "task  store_time_ms  stream_time_ms\n"
        "----  -------------  --------------\n"
        "1_0             390             400\n"
    )


def test_inspect_of_a_buffer_says_what_waits_and_until_when(run, replayed):
    code, out, _ = run("inspect", "held-pages-store", *place(replayed), "--topology", SHOP, "--raw")

    names, _, row = (line.split() for line in out.splitlines()[:3])
    assert code == 0
    assert dict(zip(names, row, strict=True))["waits_until_ms"] == "430"  # [390, 420), grace 10


def test_inspect_without_a_store_shows_positions(run, replayed):
    code, out, _ = run("inspect", *place(replayed), "--raw")

    assert code == 0
    assert out.split("\n\n")[0] == (
        "offsets of the topics after increment 2\n"
        "topic   partition  read  landed  waiting\n"
        "------  ---------  ----  ------  -------\n"
        "clicks          0     8       8        0"
    )


ANSWER = """\
open-pages-repartition:0:4 was read by increment 1

task 1_0 takes open-pages-repartition:0:4
  KSTREAM-AGGREGATE-0000000005  refused (expired-window) by the window from 90 to 120: its window has closed; stream
                                time is 200, the limit 10 ms before it is 190, the record is 99 ms late

--all says what every operator did
"""


def test_explain_answers_what_became_of_a_repartitioned_record_without_a_run(run, replayed, monkeypatch):
    monkeypatch.setattr("kstreams_replay.jobs.explain.explanation.rerun", None)  # a call would fail

    record = "open-pages-repartition:0:4"
    code, out, _ = run("explain", "--record", record, *place(replayed), "--topology", SHOP, "--raw")

    assert (code, out) == (0, ANSWER)


def test_the_document_shows_the_answer():
    shown = text_of("docs/asking.md")

    assert "\n".join(f"    {line}".rstrip() for line in ANSWER.splitlines()) in shown


def test_explain_refuses_a_repartitioned_record_that_is_not_there(run, replayed):
    record = "open-pages-repartition:0:99"
    code, out, err = run("explain", "--record", record, *place(replayed), "--topology", SHOP)

    assert (code, out) == (2, "")
    assert err.startswith(f"replay: record {record}: expected a record of repartition/open-pages-repartition, got none")


def test_explain_prints_a_line_a_sentence_beside_the_nodes_of_each_task(run, replayed):
    code, out, _ = run("explain", "--record", "clicks:0:4", *place(replayed), "--topology", SHOP, "--raw", "--all")

    assert code == 0
    assert (
        out
        == """\
clicks:0:4 was read by increment 1

task 0_0 takes clicks:0:4
  KSTREAM-SOURCE-0000000000           read: 'bob' = {'page': 'cart', 'ms': 101}, time 101, 99 ms behind stream time 200
  KSTREAM-AGGREGATE-0000000001        refused (expired-window) by the window from 101 to 101: its window has closed;
                                      stream time is 200, the limit 35 ms before it is 165, the record is 99 ms late
  KSTREAM-KEY-SELECT-0000000004       becomes 'cart' = {'page': 'cart', 'ms': 101}
  repartition/open-pages-repartition  sent on under 'cart', to partition 0

task 1_0 takes open-pages-repartition:0:4
  open-pages-repartition-source       read: 'cart' = {'page': 'cart', 'ms': 101}, time 101, 99 ms behind stream time 200
  KSTREAM-AGGREGATE-0000000005        refused (expired-window) by the window from 90 to 120: its window has closed;
                                      stream time is 200, the limit 10 ms before it is 190, the record is 99 ms late
"""
    )


def test_explain_refuses_a_record_that_is_not_there(run, replayed):
    code, out, err = run("explain", "--record", "clicks:0:99", *place(replayed), "--topology", SHOP)

    assert (code, out) == (2, "")
    assert err.startswith("replay: record clicks:0:99: expected an offset below 8, the next one to land, got 99;")


def test_sql_asks_a_landed_topic_with_a_pipeline_with_none_and_with_one_that_never_ran(run, replayed):
    query = 'SELECT value.page AS page, count(*) AS n FROM "landed/clicks" GROUP BY page ORDER BY n DESC LIMIT 1'
    warehouse = ("--warehouse", replayed.root)

    answers = {run("sql", query, *warehouse, *more) for more in ((), ("--pipeline", "shop"), ("--pipeline", "new"))}

    assert len(answers) == 1
    ((code, out, err),) = answers
    assert (code, err) == (0, "")
    assert out.startswith("page  n\n----  -\nhome  ")


def test_sql_warns_of_a_cast_that_gives_times_of_1970(run, replayed):
    code, _, err = run("sql", "SELECT CAST(record_time_ms AS DATETIME) AS at FROM sessions", *place(replayed))

    assert code == 0
    assert err == (
        "replay: warning: record_time_ms is in milliseconds, and a cast to a datetime takes microseconds, so its times "
        "are in 1970; write CAST(record_time_ms * 1000 AS DATETIME)\n"
    )


def test_a_landed_topic_has_no_windows(run, replayed):
    code, _, err = run("show", "landed/clicks", "--window", "100", "--warehouse", replayed.root)

    assert code == 2
    assert """`replay sql 'SELECT * FROM "landed/clicks" WHERE record_time_ms >= …'`""" in err


def test_a_key_that_no_row_has_is_answered_with_those_that_differ_in_case_and_spaces(run, replayed):
    code, out, _ = run("show", "sessions", "--key", " Ann", *place(replayed))
    assert code == 0
    assert out.splitlines()[-1] == "no row has the key ' Ann'; did you mean 'ann'?"

    assert run("show", "sessions", "--key", "zzz", *place(replayed))[1].splitlines()[-1] == "no row has the key 'zzz'"
    landed = run("show", "landed/clicks", "--key", "ANN", "--warehouse", replayed.root)[1]
    assert landed.splitlines()[-1] == "no row has the key 'ANN'; did you mean 'ann'?"
    assert "no row" not in run("show", "sessions", "--key", "ann", *place(replayed))[1]


def test_a_window_off_the_grid_is_answered_with_the_nearest_that_begin(run, replayed):
    """Pages have windows of 30: of home they begin at 90, 210 and 300."""
    shown = ("show", "pages", "--key", "home", "--raw", *place(replayed), "--window")

    assert run(*shown, "211")[1].splitlines()[-1] == (
        "no window of these rows begins at 211; the nearest begin at 210 and 300"
    )
    assert run(*shown, "0")[1].splitlines()[-1] == "no window of these rows begins at 0; the nearest begin at 90"
    assert "no window" not in run(*shown, "210")[1]


def test_an_unknown_output_is_answered_without_the_stores_that_nobody_named():
    tables = ["dropped", "outputs/a", "state/KSTREAM-AGGREGATE-STATE-STORE-0000000002", "state/open",
              "repartition/KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition"]  # fmt: skip

    assert given_names(tables) == ["dropped", "outputs/a", "state/open"]
