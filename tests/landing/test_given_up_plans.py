"""A plan whose files are not what they were is given up, and another is made; never is a row lost or landed twice."""

import os

import pytest

from kstreams_replay.jobs.landing import file_writing, from_files, given_up_plans, planned_writing
from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files import kept_records, records
from kstreams_replay.jobs.landing.from_files import FileLander
from kstreams_replay.jobs.landing.landing import FileSource, land_records
from kstreams_replay.state.errors import CommitLost, LandingError, LedgerConflict, LedgerGap
from kstreams_replay.state.tables.data_files import read_files
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.file_folders import dies, land, write
from tests.landing.landed_records import records as records_of
from tests.landing.landed_rows import KilledError, landed

ONE, TWO, THREE = '{"t":1}\n', '{"t":2}\n', '{"t":3}\n'


def times(warehouse) -> list[tuple[int, int, int]]:
    return landed(warehouse, "t", "offset", "timestamp", "increment")


def grow(path) -> None:
    path.write_text(path.read_text() + THREE)


@pytest.mark.parametrize("with_landed", [False, True])
def test_a_file_that_grew_after_a_landing_died_is_planned_anew(warehouse, tmp_path, monkeypatch, with_landed):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    if with_landed:
        land(warehouse, directory)
    write(directory, {"b.jsonl": TWO})
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, directory)
    grow(directory / "b.jsonl")

    report = land(warehouse, directory)
    second = land(warehouse, directory)

    first = 1 if with_landed else None
    want = [(0, 1, first or 2), (1, 2, 2 if first is None else 3), (2, 3, 2 if first is None else 3)]
    assert times(warehouse) == want
    plan, grown = f"the plan of increment {1 if first is None else 2}", "(b.jsonl has 16 bytes instead of 8)"
    assert f"t: {plan} was given up {grown}; nothing of it had landed" in report.warnings
    assert second.increments == ()


def test_a_planned_file_that_is_gone_is_not_waited_for(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE, "b.jsonl": TWO})
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, directory)
    (directory / "a.jsonl").unlink()

    report = land(warehouse, directory)

    assert times(warehouse) == [(0, 2, 2)]
    assert "(a.jsonl is gone)" in report.warnings[0]


def test_a_planned_file_that_became_another_of_the_same_size_is_planned_anew(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, directory)
    write(directory, {"a.jsonl": TWO})
    os.utime(directory / "a.jsonl", (5, 5))

    land(warehouse, directory)

    assert times(warehouse) == [(0, 2, 2)]


def test_a_file_that_grows_while_it_is_counted_is_read_again(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    _grow_once_while(monkeypatch, directory / "a.jsonl", call=1)

    land(warehouse, directory)

    assert times(warehouse) == [(0, 1, 1), (1, 3, 1)]
    assert LandingLedger(warehouse.landing_ledger("t")).last_done().increment == 1


def test_a_file_that_grows_while_it_is_written_is_planned_anew(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    monkeypatch.setattr(kept_records, "KEPT_BYTES", 0)
    _grow_once_while(monkeypatch, directory / "a.jsonl", call=2)

    land(warehouse, directory)

    assert times(warehouse) == [(0, 1, 2), (1, 3, 2)]


def _grow_once_while(monkeypatch, path, *, call: int) -> None:
    """The file grows after it was read for the ``call``th time: 1 counts, 2 writes."""
    reads, read = [], file_writing.read_slice

    def reading(slice_reading):
        yield from read(slice_reading)
        reads.append(1)
        if len(reads) == call:
            grow(path)

    monkeypatch.setattr("kstreams_replay.jobs.landing.files.counting.read_slice", reading)
    monkeypatch.setattr(file_writing, "read_slice", reading)
    assert records.read_slice is read


def test_a_file_that_never_stays_as_it_is_is_refused_and_leaves_no_plan(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    read = file_writing.read_slice

    def reading(slice_reading):
        yield from read(slice_reading)
        grow(directory / "a.jsonl")

    monkeypatch.setattr("kstreams_replay.jobs.landing.files.counting.read_slice", reading)

    with pytest.raises(LandingError, match=r"expected files that are whole, got files that changed while .* 3 times"):
        land(warehouse, directory)

    assert LandingLedger(warehouse.landing_ledger("t")).rows() == []


def test_dead_letters_of_a_plan_that_was_given_up_are_none(warehouse, tmp_path, monkeypatch):
    half = {"max_bad_share": 0.5}
    directory = write(tmp_path / "in", {"a.jsonl": ONE + '{"t":"soon"}\n'})
    with dies(monkeypatch, in_="before_the_commit"):  # of the landed table: the dead letters are committed
        land(warehouse, directory, rules=half)
    assert len(read_files(warehouse.landed_dead_letter("t"))) == 1
    grow(directory / "a.jsonl")

    land(warehouse, directory, rules=half)

    rows = landed_dead_letters(warehouse, "t").to_pylist()
    assert [(row["increment"], row["line"]) for row in rows] == [(2, 2)]
    assert len(read_files(warehouse.landed_dead_letter("t"))) == 1


# As asked


def test_a_plan_is_abandoned_when_that_is_asked_for(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, directory, key="t")

    report = land(warehouse, directory, rules={"abandon": True})  # by another mapping, too

    assert landed(warehouse, "t", "key", "increment") == [(None, 2)]
    assert report.warnings[0] == "t: the plan of increment 1 was given up (as asked); nothing of it had landed"


def test_what_is_committed_is_finished_and_not_abandoned(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    with dies(monkeypatch, in_="between_commit_and_ledger"):
        land(warehouse, directory)

    report = land(warehouse, directory, rules={"abandon": True})

    assert times(warehouse) == [(0, 1, 1)]
    assert report.warnings[0] == "t: increment 1 was committed already, so it is finished, not given up"


def test_that_there_was_nothing_to_give_up_is_said(warehouse, tmp_path):
    report = land(warehouse, write(tmp_path / "in", {"a.jsonl": ONE}), rules={"abandon": True})

    assert times(warehouse) == [(0, 1, 1)]
    assert report.warnings[0] == "t: no increment is planned and unfinished, so nothing was given up"


def test_records_of_another_landing_are_abandoned(warehouse, monkeypatch):
    ones, twos = records_of((0, 1, b"k", b"1")), records_of((0, 2, b"k", b"2"))
    with monkeypatch.context() as patch:
        patch.setattr("kstreams_replay.jobs.landing.from_records.commit_files", None)
        with pytest.raises(TypeError):
            land_records(warehouse, "t", ones)

    land_records(warehouse, "t", twos, abandon=True)

    assert landed(warehouse, "t", "offset", "value", "increment") == [(0, b"2", 2)]


# Two at work


def test_who_is_still_at_work_with_a_plan_that_was_given_up_cannot_commit_it(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    write_rows = from_files.FileLander.write

    def write_slowly(self, row, app_id):
        with monkeypatch.context() as patch:
            patch.setattr(from_files.FileLander, "write", write_rows)
            land(warehouse, directory, rules={"abandon": True})  # the other runner
        return write_rows(self, row, app_id)

    with monkeypatch.context() as patch:
        patch.setattr(from_files.FileLander, "write", write_slowly)
        with pytest.raises(Exception, match=r"increment 2|given up") as raised:
            land(warehouse, directory)

    assert isinstance(raised.value, LedgerConflict | LedgerGap | CommitLost)
    assert times(warehouse) == [(0, 1, 2)]
    assert land(warehouse, directory).increments == ()


def test_nor_before_the_new_plan_is_committed(warehouse, tmp_path, monkeypatch):
    """
    Only the mark of the plan that was given up shows it, since nothing later is in the table.
    """
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    write_rows = from_files.FileLander.write

    def write_slowly(self, row, app_id):
        with monkeypatch.context() as patch:
            patch.setattr(from_files.FileLander, "write", write_rows)
            with dies(monkeypatch, in_="before_the_commit"):
                land(warehouse, directory, rules={"abandon": True})  # the other runner dies
        return write_rows(self, row, app_id)

    with monkeypatch.context() as patch:
        patch.setattr(from_files.FileLander, "write", write_slowly)
        with pytest.raises(LedgerConflict, match="got one that another runner has given up"):
            land(warehouse, directory)

    assert times(warehouse) == []
    land(warehouse, directory)
    assert times(warehouse) == [(0, 1, 2)]


@pytest.mark.parametrize("dies_after", ["the_mark", "the_new_plan"])
def test_a_landing_that_dies_while_it_gives_up_goes_on_from_there(warehouse, tmp_path, monkeypatch, dies_after):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, directory)
    grow(directory / "a.jsonl")

    def die(*_, **__):
        raise KilledError

    with monkeypatch.context() as patch:
        if dies_after == "the_mark":
            patch.setattr(LandingLedger, "plan_restatement", die)
        else:
            patch.setattr(planned_writing, "commit_files", die)
        with pytest.raises(KilledError):
            land(warehouse, directory)

    land(warehouse, directory)

    assert times(warehouse) == [(0, 1, 2), (1, 3, 2)]


def test_a_commit_that_comes_just_before_is_not_given_up(warehouse, tmp_path, monkeypatch):
    """
    Between the look at the table and the mark another runner commits: the mark is refused, nothing is lost.
    """
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, directory)
    mark = given_up_plans.write_mark

    def commit_between(*arguments, **keywords):
        (unfinished,) = LandingLedger(warehouse.landing_ledger("t")).plans()
        source = FileSource(str(directory), timestamp="t")
        FileLander(None, warehouse, "t", source).write(unfinished, "landing/t/0")
        mark(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(given_up_plans, "write_mark", commit_between)
        with pytest.raises(LedgerConflict, match="got one that another runner commits"):
            land(warehouse, directory, rules={"abandon": True})
    land(warehouse, directory)

    assert times(warehouse) == [(0, 1, 1)]
