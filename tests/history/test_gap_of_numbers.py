"""Numbers of done increments have a gap where a plan was given up: questions about records and increments see past it.

Increment 3 is planned, a record that it reads is taken out of play, and 4 comes in its place, by the same code.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_replay.expectations.audits import open_scope
from kstreams_replay.expectations.facts import ReplayFacts
from kstreams_replay.expectations.operators.stream_time_rises import audit_stream_time_rises
from kstreams_replay.jobs.branches.vacuum import vacuum
from kstreams_replay.jobs.branches.verification import verifiable, verify
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.history.exclusions import exclude_records
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.history.history import History
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import LedgerError
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.restated import clicks, kill, landed, run
from tests.laws.test_explanation_law import rows_of, written

pytestmark = pytest.mark.sampled

DONE = [1, 2, 4, 5, 6, 7]


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    warehouse = landed(tmp_path)
    assert run(warehouse, "p", increments=2) == [1, 2]
    kill(warehouse, "p", "computed 3")
    (plan,) = Ledger(warehouse.pipeline("p").ledger).plans(3, 3)
    begins = plan.content.cut_from["clicks"]
    partition = next(p for p, end in plan.content.cut_to["clicks"].items() if end > begins[p])
    exclude_records(warehouse, "clicks", [(int(partition), begins[partition])], "a test")
    assert run(warehouse, "p") == DONE[2:]
    return warehouse


def read(warehouse: Warehouse) -> Iterator[tuple[tuple[str, int, int], int]]:
    """Every record that the pipeline has come past, and the increment that its plan says, of those that are done."""
    for plan in Ledger(warehouse.pipeline("p").ledger).plans():
        for topic, ends in plan.content.cut_to.items() if plan.increment in DONE else ():
            for partition, end in ends.items():
                for offset in range(plan.content.cut_from[topic][partition], end):
                    yield (topic, int(partition), offset), plan.increment


def test_fsck_names_the_last_done_increment_before_a_damaged_one(warehouse):
    store = next(Path(warehouse.root, "p", "state").glob("*/partition=*/00000004-*.parquet"))
    store.unlink()

    (repair,) = {each.repair for each in fsck(warehouse).findings if str(store) in each.place}

    assert f"go back with `replay restore --warehouse {warehouse.root} --pipeline p --to 2` and run" in repair
    vacuum(warehouse, "p", keep_increments=4, delete=True)
    (repair,) = {each.repair for each in fsck(warehouse).findings if str(store) in each.place}
    assert "restore" not in repair


def test_every_record_was_read_by_the_increment_whose_plan_has_it(warehouse):
    history, want = History(warehouse, "p", clicks()), dict(read(warehouse))

    assert {record: history.reading(*record) for record in want} == want
    assert set(want.values()) == set(DONE)


def test_a_stream_time_means_the_last_done_increment_that_had_not_gone_past_it(warehouse):
    history = History(warehouse, "p", clicks())
    for row in history.increments():
        time_ms = row.content.stream_time_ms
        want = [each.increment for each in history.increments() if each.content.stream_time_ms <= time_ms]
        assert history.at(stream_time_ms=time_ms).increment == want[-1]


@pytest.mark.parametrize("increments", [DONE[:2], DONE[2:4], DONE[4:]], ids=["before", "behind", "later"])
def test_every_row_is_explained_by_its_record(warehouse, increments):
    topology = clicks()
    excluded = Ledger(warehouse.pipeline("p").ledger).last_done().content.excluded["clicks"]
    records = [
        (topic, p, offset)
        for (topic, p, offset), increment in read(warehouse)
        if increment in increments and offset not in excluded.get(str(p), ())
    ]

    explained = [explain(warehouse, "p", topology, record) for record in records]

    assert {each.increment for each in explained} == set(increments)
    assert [each.difference for each in explained if each.difference is not None] == []
    assert rows_of(explained) == [row for row in written(warehouse, topology) if row[3] in increments]


@pytest.mark.parametrize(("since", "begins"), [(1, 1), (3, 4), (4, 4)])
def test_a_range_with_a_number_that_was_given_up_is_verified(warehouse, since, begins):
    found = verify(warehouse, clicks(), pipeline="p", runner=LocalRunner(), since=since, increments=(1, 3))

    assert found.holds
    assert (found.since, found.until) == (begins, DONE[-1])
    assert verifiable(warehouse, clicks(), "p") == [range(1, DONE[-1] + 1)]


def test_the_first_number_may_be_given_up_too(tmp_path):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1")
    exclude_records(warehouse, "clicks", [(1, 0)], "a test")  # its plan reads it
    assert run(warehouse, "p", max_records=30) == [2, 3, 4]  # 2 as much as 1 was to read

    assert verify(warehouse, clicks(), pipeline="p", runner=LocalRunner(), increments=(2,)).holds
    assert History(warehouse, "p").reading("clicks", 1, 1) == 2


def test_stream_times_are_compared_with_the_last_done_increment(warehouse):
    audit = audit_stream_time_rises(open_scope(warehouse, "p", ReplayFacts(()), 4))

    assert audit.rows > 0
    assert audit.frame["stream_back"].to_list() == [0]


def test_a_number_that_was_given_up_is_refused_with_the_last_done_one_before_it(warehouse):
    with pytest.raises(LedgerError, match=r"a done increment 3, got none; .* the last done before it is 2"):
        History(warehouse, "p").at(3)


def test_the_row_before_is_the_last_done_one_below(warehouse):
    ledger = Ledger(warehouse.pipeline("p").ledger)
    before = [ledger.done_before(number) for number in range(9)]

    assert [None if row is None else row.increment for row in before] == [None, None, 1, 2, 2, 4, 5, 6, 7]
    assert ledger.done_before(4, 3) is None


@pytest.mark.parametrize("last", [1, 4, 5, 6, 20])
def test_the_books_of_the_last_are_of_as_many_as_there_are(warehouse, capsys, last):
    assert main(["books", "--warehouse", warehouse.root, "--pipeline", "p", "--last", str(last), "--json"]) == 0

    lines = json.loads(capsys.readouterr().out)["increments"]
    assert [line["increment"] for line in lines] == DONE[-last:]


def test_the_sum_of_the_books_is_of_all_only_where_no_increment_is_left_out(warehouse, capsys):
    for last, said in ((5, "these"), (6, "all")):
        assert main(["books", "--warehouse", warehouse.root, "--pipeline", "p", "--last", str(last)]) == 0
        assert re.search(rf"\n *{said} ", capsys.readouterr().out)
