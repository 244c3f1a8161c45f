"""Increments 1, 2, 3 … without a gap; of two runners one wins."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kstreams_replay.state.errors import DamagedLedger, LedgerConflict, LedgerError, LedgerGap
from kstreams_replay.state.tables.commit import append_row, create_table
from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.ledger import LandingLedger, Ledger, LedgerRow
from kstreams_replay.state.tables.ledger_rows import DoneRow, LandingDoneRow, LandingPlanRow, PlanRow
from kstreams_replay.state.tables.warehouse import LEDGER_SCHEMA

INSTEAD = PlanRow(instead_of={"increment": 1, "epoch": 0})
"""A plan in the place of another."""


@pytest.fixture
def ledger(tmp_path):
    return Ledger(str(tmp_path / "ledger"))


def run(ledger: Ledger, *increments: int, epoch: int = 0) -> None:
    for increment in increments:
        ledger.plan(increment, PlanRow(records=increment), epoch=epoch, written_at_ms=1_000 + increment)
        ledger.done(increment, DoneRow(seconds={"plan": increment}), epoch=epoch, written_at_ms=2_000 + increment)


def phases(ledger: Ledger) -> list[tuple[int, int, str]]:
    return [(row.increment, row.epoch, row.phase) for row in ledger.rows()]


def test_a_missing_ledger_is_empty(ledger):
    assert (ledger.rows(), ledger.last_done(), ledger.pending()) == ([], None, None)


def test_a_plan_is_pending_until_it_is_done(ledger):
    planned = ledger.plan(1, PlanRow(cut_to={"clicks": {"0": 7}}), written_at_ms=1_000)
    assert planned == LedgerRow(1, 0, "planned", PlanRow(cut_to={"clicks": {"0": 7}}), 1_000)
    assert (ledger.pending(), ledger.last_done()) == (planned, None)

    done = ledger.done(1, DoneRow(books={"read": 7}), written_at_ms=2_000)
    assert done == LedgerRow(1, 0, "done", DoneRow(books={"read": 7}), 2_000)
    assert (ledger.pending(), ledger.last_done()) == (None, done)


def test_a_runner_reads_each_file_of_its_ledger_once(ledger, monkeypatch):
    run(ledger, 1)
    asked = []

    def counted(path, files, schema):
        asked.extend(file.path for file in files)
        return read_rows(path, files, schema)

    monkeypatch.setattr("kstreams_replay.state.tables.ledger.read_rows", counted)
    run(ledger, 2)

    assert len(asked) == 2
    assert len(set(asked)) == 2


def test_rows_stand_by_increment_and_planned_before_done(ledger):
    run(ledger, 1, 2)
    ledger.plan(3, PlanRow(), written_at_ms=9_000)

    assert phases(ledger) == [
        (1, 0, "planned"),
        (1, 0, "done"),
        (2, 0, "planned"),
        (2, 0, "done"),
        (3, 0, "planned"),
    ]
    assert ledger.last_done().increment == 2
    assert ledger.pending().increment == 3


def test_the_first_increment_is_one(ledger):
    with pytest.raises(LedgerGap, match="expected increment 1, got increment 0"):
        ledger.plan(0, PlanRow(), written_at_ms=1)
    with pytest.raises(LedgerGap, match="expected increment 1, got increment 2"):
        ledger.plan(2, PlanRow(), written_at_ms=1)
    assert ledger.rows() == []


def test_an_increment_left_out_is_a_gap(ledger):
    run(ledger, 1)

    with pytest.raises(LedgerGap, match="expected increment 2, got increment 3; plan increment 2"):
        ledger.plan(3, PlanRow(), written_at_ms=1)


def test_nothing_is_planned_while_an_increment_is_pending(ledger):
    ledger.plan(1, PlanRow(), written_at_ms=1)

    with pytest.raises(LedgerGap, match="increment 1 planned only; run increment 1 again"):
        ledger.plan(2, PlanRow(), written_at_ms=1)


def test_what_was_never_planned_is_not_done(ledger):
    with pytest.raises(LedgerGap, match="expected a plan of increment 1, got none"):
        ledger.done(1, DoneRow(), written_at_ms=1)


def test_a_second_runner_that_comes_later_is_refused(ledger):
    run(ledger, 1)
    ledger.plan(2, PlanRow(unknown={"runner": "a"}), written_at_ms=1)
    with pytest.raises(LedgerConflict, match="expected increment 2 not planned yet"):
        ledger.plan(2, PlanRow(unknown={"runner": "b"}), written_at_ms=1)

    ledger.done(2, DoneRow(unknown={"runner": "a"}), written_at_ms=1)
    with pytest.raises(LedgerConflict, match="expected increment 2 not done yet"):
        ledger.done(2, DoneRow(unknown={"runner": "b"}), written_at_ms=1)
    assert [row.content.unknown["runner"] for row in ledger.rows() if row.increment == 2] == ["a", "a"]


class Overtaken(Ledger):
    """A runner that is overtaken by ``other`` between its look at the ledger and its write."""

    def __init__(self, path, other):
        super().__init__(path)
        self.other = other

    def _append(self, table, row, against=()):
        self.other()
        return super()._append(table, row, against)


@pytest.mark.parametrize("first", [1, 2, 3])
def test_of_two_runners_that_plan_at_once_one_wins(ledger, first):
    run(ledger, *range(1, first))
    loser = Overtaken(ledger.path, lambda: ledger.plan(first, PlanRow(unknown={"runner": "a"}), written_at_ms=1))

    with pytest.raises(LedgerConflict, match=f"increment {first} not planned yet"):
        loser.plan(first, PlanRow(unknown={"runner": "b"}), written_at_ms=1)
    assert [row.content.unknown for row in ledger.rows() if row.increment == first] == [{"runner": "a"}]


def test_of_two_runners_that_finish_at_once_one_wins(ledger):
    run(ledger, 1)
    ledger.plan(2, PlanRow(), written_at_ms=1)
    loser = Overtaken(ledger.path, lambda: ledger.done(2, DoneRow(unknown={"runner": "a"}), written_at_ms=1))

    with pytest.raises(LedgerConflict, match="increment 2 not done yet"):
        loser.done(2, DoneRow(unknown={"runner": "b"}), written_at_ms=1)
    assert [row.content.unknown for row in ledger.rows() if row.phase == "done"][-1] == {"runner": "a"}


def test_of_a_plan_in_the_place_of_another_and_its_done_row_at_once_one_wins(ledger):
    """
    Corrected code takes over increment 1 while its runner finishes it, and the other way round.
    """
    ledger.plan(1, PlanRow(), written_at_ms=1)
    pending = ledger.pending()
    late = Overtaken(ledger.path, lambda: ledger.done(1, DoneRow(), written_at_ms=1))

    with pytest.raises(LedgerConflict, match="increment 2 not planned yet"):
        late.plan_instead(pending, 2, INSTEAD, epoch=1, written_at_ms=1)

    ledger.plan(2, PlanRow(), written_at_ms=1)
    pending = ledger.pending()
    late = Overtaken(ledger.path, lambda: ledger.plan_instead(pending, 3, INSTEAD, epoch=1, written_at_ms=1))
    with pytest.raises(LedgerConflict, match="increment 2 not done yet"):
        late.done(2, DoneRow(), written_at_ms=1)
    assert phases(ledger) == [(1, 0, "planned"), (1, 0, "done"), (2, 0, "planned"), (3, 1, "planned")]


def test_a_restored_ledger_goes_on_only_under_a_higher_epoch(ledger):
    """
    RESTORE takes the rows of increment 2 away and keeps its mark, as every table of the pipeline does.
    """
    run(ledger, 1)
    version = DeltaTable(ledger.path).version()
    run(ledger, 2)
    DeltaTable(ledger.path).restore(version)
    assert ledger.last_done().increment == 1

    folder, _, name = ledger.path.removesuffix("/ledger").rpartition("/")
    command = f"`replay restore --warehouse {folder} --pipeline {name} --to 1`"
    with pytest.raises(LedgerConflict, match=f"the ledger was restored; continue under epoch 1: {command}"):
        ledger.plan(2, PlanRow(), written_at_ms=1)
    run(ledger, 2, 3, epoch=1)

    assert phases(ledger) == [
        (1, 0, "planned"),
        (1, 0, "done"),
        (2, 1, "planned"),
        (2, 1, "done"),
        (3, 1, "planned"),
        (3, 1, "done"),
    ]


def test_a_look_at_the_newest_rows_does_not_read_the_old_ones(ledger, monkeypatch):
    run(ledger, 1, 2, 3, 4, 5)
    read = []

    def spy(path, files, schema):
        read.extend(files)
        return read_rows(path, files, schema)

    monkeypatch.setattr("kstreams_replay.state.tables.ledger.read_rows", spy)

    found = Ledger(ledger.path)
    assert found.last_done().increment == 5
    assert sorted(file.bounds["increment"] for file in read) == [(4, 4), (4, 4), (5, 5), (5, 5)]

    read.clear()
    assert found.pending() is None
    assert read == []  # nothing was committed since


def test_the_rows_of_one_increment_are_found_by_its_number(ledger):
    run(ledger, 1, 2, 3)

    assert [(row.increment, row.phase) for row in ledger.rows_of(2)] == [(2, "planned"), (2, "done")]
    assert ledger.rows_of(4) == (None, None)


def test_an_epoch_is_carried_on_until_another_one_is_given(ledger):
    run(ledger, 1)
    run(ledger, 2, epoch=3)
    ledger.plan(3, PlanRow(), written_at_ms=1)
    ledger.done(3, DoneRow(), written_at_ms=1)

    assert phases(ledger)[-2:] == [(3, 3, "planned"), (3, 3, "done")]


def test_a_restatement_may_leave_numbers_out_and_the_next_increment_follows_it(ledger):
    """
    While it is pending, the last done row is more than one number away.
    """
    run(ledger, 1, 2)
    planned = ledger.plan_restatement(9, PlanRow(restates=1), epoch=1, written_at_ms=1)
    assert (ledger.pending(), ledger.last_done().increment) == (planned, 2)

    ledger.done(9, DoneRow(), written_at_ms=1)
    with pytest.raises(LedgerGap, match="expected increment 10, got increment 12"):
        ledger.plan(12, PlanRow(), epoch=1, written_at_ms=1)
    ledger.plan(10, PlanRow(), written_at_ms=1)
    assert phases(ledger)[-3:] == [(9, 1, "planned"), (9, 1, "done"), (10, 1, "planned")]


def test_a_plan_that_a_restatement_gave_up_can_never_be_done(ledger):
    run(ledger, 1)
    ledger.plan(2, PlanRow(unknown={"runner": "a"}), written_at_ms=1)
    planned = ledger.plan_restatement(3, PlanRow(restates=1), epoch=1, written_at_ms=1)

    assert ledger.pending() == planned
    with pytest.raises(LedgerGap, match="expected a plan of increment 2, got one of 3, which gave it up"):
        ledger.done(2, DoneRow(), written_at_ms=1)
    ledger.done(3, DoneRow(), written_at_ms=1)
    assert (ledger.pending(), ledger.last_done().increment) == (None, 3)
    with pytest.raises(LedgerConflict, match="increment 2 not done yet"):
        ledger.done(2, DoneRow(), written_at_ms=1)


def test_of_a_runner_and_a_restatement_that_plan_at_once_one_wins(ledger):
    run(ledger, 1)
    loser = Overtaken(ledger.path, lambda: ledger.plan(2, PlanRow(unknown={"runner": "a"}), written_at_ms=1))

    with pytest.raises(LedgerConflict, match="increment 2 not planned yet"):
        loser.plan_restatement(2, PlanRow(restates=1), epoch=1, written_at_ms=1)
    assert ledger.pending().content.unknown == {"runner": "a"}


def test_a_branchs_ledger_begins_with_what_is_done(ledger):
    ledger.begin(4, DoneRow(forked={"pipeline": "p", "increment": 4}), epoch=2, written_at_ms=1)
    assert (ledger.last_done().increment, ledger.pending()) == (4, None)
    with pytest.raises(LedgerConflict, match="expected an empty ledger, got one with rows"):
        ledger.begin(4, DoneRow(), epoch=2, written_at_ms=1)

    ledger.plan(5, PlanRow(), written_at_ms=1)
    assert phases(ledger) == [(4, 2, "done"), (5, 2, "planned")]


def test_a_number_is_never_given_twice(ledger):
    assert ledger.next_free() == 1
    run(ledger, 1, 2)
    version = DeltaTable(ledger.path).version()
    run(ledger, 3)
    ledger.plan(4, PlanRow(), written_at_ms=1)
    assert ledger.next_free() == 5

    DeltaTable(ledger.path).restore(version)
    assert (ledger.last_done().increment, ledger.next_free()) == (2, 5)


def test_what_vacuum_took_is_refused_and_comes_back_never(ledger):
    run(ledger, 1, 2, 3)
    assert ledger.oldest_kept() == 0
    ledger.keep_from(3)
    ledger.keep_from(2)

    assert ledger.oldest_kept() == 3
    ledger.refuse_vacuumed(3)
    with pytest.raises(LedgerError, match="increment 2, which was vacuumed; the oldest that can be asked for is 3"):
        ledger.refuse_vacuumed(2)
    assert [row.increment for row in ledger.done_rows(2)] == [2, 3]


# --- damage --------------------------------------------------------------------------------------------------------


def test_a_row_that_says_something_else_than_was_written_is_an_error(ledger):
    """
    As a page whose checksum was damaged with it.
    """
    run(ledger, 1)
    table = create_table(ledger.path, LEDGER_SCHEMA)
    (planned,) = [row for row in read_rows(ledger.path, read_files(ledger.path), LEDGER_SCHEMA).to_pylist()
                  if row["phase"] == "planned"]  # fmt: skip
    assert '"records": 1' in planned["content"]
    changed = {**planned, "increment": 2, "content": planned["content"].replace('"records": 1', '"records": 8')}
    append_row(table, ledger.path, pa.Table.from_pylist([changed], LEDGER_SCHEMA), app_id="ledger/planned", increment=2)

    with pytest.raises(DamagedLedger, match="increment 2 planned: expected the row as it was written, got another"):
        ledger.pending()


def test_a_row_of_before_has_no_digest_and_is_read(ledger):
    table = create_table(ledger.path, LEDGER_SCHEMA)
    row = {"increment": 1, "epoch": 0, "phase": "planned", "content": '{"records": 5}', "written_at_ms": 1}
    append_row(table, ledger.path, pa.Table.from_pylist([row], LEDGER_SCHEMA), app_id="ledger/planned", increment=1)

    assert ledger.pending().content == PlanRow(records=5)


@pytest.mark.parametrize("phase", ["planned", "done"])
def test_a_newest_row_that_its_log_does_not_name_any_more_is_an_error(ledger, phase):
    run(ledger, 1, 2)
    (entry,) = [
        entry
        for entry in Path(ledger.path, "_delta_log").glob("*.json")
        if f'"ledger/{phase}","version":2' in entry.read_text().replace(" ", "")
    ]
    entry.write_text("".join(line + "\n" for line in entry.read_text().splitlines() if '"add"' not in line))

    with pytest.raises(DamagedLedger, match=f"expected the row of increment 2 that is {phase}, got increment 1"):
        Ledger(ledger.path).last_done()


def test_a_restored_ledger_of_a_landing_is_put_back_from_a_copy(tmp_path):
    """
    A landing has no epochs that somebody could restore.
    """
    ledger = LandingLedger(str(tmp_path / "landing" / "clicks" / "ledger"))
    versions = []
    for increment in (1, 2):
        ledger.plan(increment, LandingPlanRow(), written_at_ms=1)
        ledger.done(increment, LandingDoneRow(), written_at_ms=1)
        versions.append(DeltaTable(ledger.path).version())
    DeltaTable(ledger.path).restore(versions[0])

    with pytest.raises(LedgerConflict, match="the ledger was restored; put it back from a copy of the warehouse"):
        ledger.plan(2, LandingPlanRow(), written_at_ms=1)
