"""From a row of an output, from its absence, from a refusal, and from all records together, to what became of them."""

import json
import shutil
from dataclasses import replace

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.ledger_rows import DoneRow
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.landed_records import records
from tests.orchestration.cli.test_main import SHOP


@pytest.fixture
def ask(command, replayed):
    """What a command prints about the shop, times as milliseconds."""

    def asked(*words: object, want: int = 0) -> str:
        code, out, err = command(*words, "--warehouse", replayed.root, "--pipeline", "shop", "--topology", SHOP)
        assert code == want, err
        return out if want == 0 else err

    return asked


def test_a_row_is_shown_with_the_record_that_caused_it(ask):
    """Ann's session [100, 110] is final when cid's click of 200 has closed it."""
    lines = ask("explain", "--output", "sessions", "--key", "ann", "--window", 100, "--raw").splitlines()

    assert lines[0] == "sessions, key ann, window from 100: 1 row of the changelog"
    assert lines[1].split()[:6] == ["partition", "offset", "increment", "key", "window_start_ms", "window_end_ms"]
    assert lines[3].split()[2:8] == ["1", "ann", "100", "110", "2", "cart"]
    assert lines[5:7] == ["the newest row was closed by", "clicks:0:3 was read by increment 1"]


def test_a_final_row_below_a_repartition_is_closed_by_a_repartitioned_record(ask):
    out = ask("explain", "--output", "pages", "--key", "home", "--window", 90, "--raw")

    assert "the newest row was closed by\nopen-pages-repartition:0:3 was read by increment 1\n" in out


def test_a_result_that_waits_is_found_where_it_waits(ask):
    lines = ask("explain", "--output", "sessions", "--key", "bob", "--window", 400, "--raw").splitlines()

    assert lines[0] == "sessions, key bob, window from 400: no row"
    assert lines[2] == "waits in held-sessions-store:"
    names, row = lines[3].split(), lines[5].split()
    assert dict(zip(names, row, strict=True))["waits_until_ms"] == "435"  # its end 400, gap 20, grace 15


def test_a_row_that_is_missing_names_what_its_windows_refused(ask):
    """Bob's click of 101 was late for the session [101, 101]."""
    lines = ask("explain", "--output", "sessions", "--key", "bob", "--window", 101, "--raw").splitlines()

    assert lines[0] == "sessions, key bob, window from 101: no row"
    assert lines[2] == "windows of this key that have rows begin at 105"
    assert lines[4].startswith("refused by windows that begin then, of this key;")
    assert lines[7].split() == [
        "KSTREAM-AGGREGATE-0000000001",
        "expired-window",
        "clicks",
        "0",
        "4",
        "101",
        "200",
        "165",
    ]


def test_a_refusal_is_explained_with_its_key_value_and_landed_record(ask):
    """Sub-topology 0 refused the click without a key and the late one, sub-topology 1 the late one, below."""
    found = [ask("explain", "--dropped", number, "--raw") for number in (1, 2, 3)]

    heads = sorted(out.splitlines()[:2] for out in found)
    late = "clicks:0:4: 'bob' = {'page': 'cart', 'ms': 101}, time 101"
    assert heads == [
        ["increment 1, KSTREAM-AGGREGATE-0000000001: expired-window", late],
        ["increment 1, KSTREAM-AGGREGATE-0000000001: null-key",
         "clicks:0:5: None = {'page': 'home', 'ms': 210}, time 210"],
        ["increment 1, KSTREAM-AGGREGATE-0000000005: expired-window", late],
    ]  # fmt: skip
    (below,) = [out for out in found if "0000000005: expired" in out.splitlines()[0]]
    assert "open-pages-repartition:0:4 was read by increment 1" in below


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["--dropped", 4], "--dropped: expected a number from 1 to 3, got 4; see `replay show dropped --warehouse "),
        (["--output", "page", "--key", "a"], "--output: expected one of sessions, pages, got 'page'; did you"),
        (["--output", "pages"], "--output, --key and --window belong together"),
        (["--record", "clicks:0:0", "--window", 5], "--output, --key and --window belong together"),
        ([], "give one of --record, --output, --dropped"),
    ],
)  # fmt: skip
def test_what_cannot_be_explained_is_refused(ask, words, want):
    assert want in ask("explain", *words, want=2)


# --- account -----------------------------------------------------------------------------------------------------


def test_every_record_on_its_way_to_an_output_is_accounted_for(ask):
    """
    8 clicks, each sent to its page; one came late for its window. Of its 5 rows none was replaced; help's waits.
    """
    found = json.loads(ask("account", "pages", "--json"))

    assert found["balance"]
    assert [(each["sub_topology"], each["reads"], each["came"], each["applied"], each["dropped"]) for each in
            found["stages"]] == [
        (0, ["clicks"], 8, 8, {}), (1, ["open-pages-repartition"], 8, 7, {"expired-window": 1}),
    ]  # fmt: skip
    assert found["operators"] == [
        {"operator": "KSTREAM-AGGREGATE-0000000005", "came": 8, "refused": {"expired-window": 1},
         "unmatched": None, "duplicates": None},
    ]  # fmt: skip
    assert [found[name] for name in ("written", "rows", "updates", "tombstones", "waiting")] == [5, 5, 0, 0, 1]


def test_what_one_branch_refused_is_listed_although_another_took_it(ask):
    lines = ask("account", "sessions").splitlines()

    assert [" ".join(line.split()) for line in lines[2:]] == [
        "sub-topology 0, of clicks came 8", "applied 8", "KSTREAM-AGGREGATE-0000000001 came 8",
        "refused: expired-window 1", "refused: null-key 1", "outputs/sessions written 4", "rows now 4",
        "results that wait 1", "2 increments: all is accounted for",
    ]  # fmt: skip


def test_rows_that_were_replaced_or_deleted_are_counted(command, warehouse, tmp_path):
    topology = tmp_path / "users.py"
    topology.write_text(
        "from kstreams_replay import Consumed, Serde, StreamsBuilder\nbuilder = StreamsBuilder()\n"
        "text = Consumed(Serde.string(), Serde.string())\n"
        "builder.stream('users', text).filter(\"value IS NULL OR value <> 'no'\").to('known')\n"
        "topology = builder.build()\n"
    )
    rows = ((0, 1, b"a", b"x"), (0, 2, b"a", b"y"), (0, 3, b"b", b"x"), (0, 4, b"b", None), (0, 5, b"c", b"no"))
    land_records(warehouse, "users", records(*rows))
    where = ["--warehouse", warehouse.root, "--pipeline", "p"]
    assert command("run", topology, *where, "--local")[0] == 0

    code, out, _ = command("account", "known", "--topology", topology, *where, "--json")

    found = json.loads(out)
    assert code == 0
    assert (found["stages"][0]["came"], found["stages"][0]["applied"], found["stages"][0]["left_out"]) == (5, 4, 1)
    assert [found[name] for name in ("written", "rows", "updates", "tombstones")] == [4, 1, 2, 1]


def test_books_that_do_not_balance_are_named(command, replayed, tmp_path, monkeypatch):
    books = DoneRow.from_json

    def one_lost(content):
        row = books(content)
        for each in (row.books or {}).get("by_sub_topology", {}).values():
            each["applied"] -= 1
        return row

    warehouse = Warehouse(shutil.copytree(replayed.root, tmp_path / "w"))
    monkeypatch.setattr(DoneRow, "from_json", one_lost)
    where = ["--warehouse", warehouse.root, "--pipeline", "shop", "--topology", SHOP]

    code, out, _ = command("account", "sessions", *where)

    assert code == 4
    assert out.endswith("NOT BALANCED\n")


def test_records_that_the_changelog_lacks_are_missing(command, replayed, tmp_path, monkeypatch):
    rows = DoneRow.from_json

    def one_more(content):
        row = rows(content)
        return row if row.outputs is None else replace(row, outputs={**row.outputs, "pages": row.outputs["pages"] + 1})

    warehouse = Warehouse(shutil.copytree(replayed.root, tmp_path / "w"))
    monkeypatch.setattr(DoneRow, "from_json", one_more)
    where = ["--warehouse", warehouse.root, "--pipeline", "shop", "--topology", SHOP]

    code, out, _ = command("account", "pages", *where)

    assert code == 4
    assert "missing, as the ledger says 2" in " ".join(out.split())
    assert out.endswith("NOT BALANCED\n")
    assert command("account", "sessions", *where)[0] == 0


def test_an_output_that_is_not_there_is_refused(ask):
    assert "account: expected one of sessions, pages, got 'nope'; name one of them" in ask("account", "nope", want=2)


def test_only_increments_in_force_count(command, warehouse):
    """Two increments, of which the second is taken back and run again."""
    from kstreams_replay.jobs.branches.restatement import restore
    from tests.dagster import shop

    topology = shop.topology()
    value = b'{"page": "home", "ms": 1}'
    for time in (100, 200):
        land_records(warehouse, "clicks", records((0, time, b"ann", value)))
        assert len(list(replay(warehouse, topology, pipeline="shop", runner=LocalRunner()))) == 1
    restore(warehouse, "shop", 1)
    assert len(list(replay(warehouse, topology, pipeline="shop", runner=LocalRunner()))) == 1

    where = ["--warehouse", warehouse.root, "--pipeline", "shop", "--topology", SHOP]
    found = json.loads(command("account", "sessions", *where, "--json")[1])

    assert found["stages"][0]["came"] == 2
