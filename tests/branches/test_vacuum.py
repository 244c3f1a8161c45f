"""Vacuum takes what nobody can ask for, and nothing else; at any time."""

import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kstreams_replay.jobs.branches import vacuum as maintenance
from kstreams_replay.jobs.branches.branches import drop, fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.branches.vacuum import DAY_MS, LOG, NOT_RETAINED, UNCOMMITTED, vacuum
from kstreams_replay.jobs.history.committed_tables import done_row, read_changelog
from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.recorded_time import record_time, recorded_times
from kstreams_replay.state.errors import ConfigError, LedgerError, StorageError
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.ledger_rows import LandingPlanRow
from kstreams_replay.state.tables.log_cleanup import trim_log
from kstreams_replay.state.tables.names import TableName
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.warehouse import LANDED_DEAD_LETTER_SCHEMA, Warehouse
from kstreams_replay.state.wall_clock import now_ms
from tests.laws.restated import CHANGED, OUTPUTS, Killed, contents, copy_of, forked, run
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant

pytestmark = pytest.mark.sampled


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """Pipeline p: six increments; branch b from 3, promoted as 7, so files of 4 to 6 are not live any more."""
    folder = tmp_path_factory.mktemp("begun")
    promote(forked(folder), "b")
    return folder


@pytest.fixture
def warehouse(begun, tmp_path) -> Warehouse:
    return copy_of(begun, tmp_path)


def files(warehouse: Warehouse) -> set[str]:
    root = Path(warehouse.root)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def data(warehouse: Warehouse) -> set[str]:
    """Without the log, in which vacuum leaves its mark."""
    return {path for path in files(warehouse) if "_delta_log" not in path}


def names(warehouse: Warehouse, waste) -> set[str]:
    return {each.path.removeprefix(f"{warehouse.root}/") for each in waste}


def live_at(warehouse: Warehouse, table: str, increments) -> set[str]:
    """Files of p's table at the versions of these increments, by Delta's own account."""
    found = set()
    for increment in increments:
        version = done_row(warehouse, "p", increment).content.versions[table]
        uris = DeltaTable(warehouse.pipeline("p").table(table), version=version).file_uris()
        found |= {uri.removeprefix(f"{warehouse.root}/") for uri in uris}
    return found


def litter(warehouse: Warehouse, path: str, *, days_old: float = 0) -> str:
    file = Path(warehouse.root, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"never committed")
    then = now_ms() / 1000 - days_old * 86_400
    os.utime(file, (then, then))
    return path


def test_nothing_goes_by_default_but_what_was_never_committed(warehouse):
    want = {
        litter(warehouse, "p/outputs/counts/partition=0/00000002-0_0-dead.parquet"),
        litter(warehouse, "p/state/counts-store/partition=1/00000007-0_1-dead.parquet"),
        litter(warehouse, "p/ledger/00000003-dead.parquet"),
        litter(warehouse, "p/_exchange/00000005/x-0.arrow"),
        litter(warehouse, "p/_exchange/00000005/progress-dead/0_1.json"),
        litter(warehouse, "landed/clicks/partition=0/00000001-dead.parquet"),
        litter(warehouse, "landing/clicks/ledger/00000001-dead.parquet"),
        litter(warehouse, "p/dropped/_delta_log/_commit_dead.json.tmp", days_old=2),
    }

    found = vacuum(warehouse, "p")

    assert names(warehouse, found.waste) == want
    assert {each.reason for each in found.waste} == {UNCOMMITTED}
    assert (found.oldest, found.is_deleted) == (0, False)


def test_nothing_is_deleted_unless_asked_for(warehouse):
    litter(warehouse, "p/outputs/counts/partition=0/00000002-0_0-dead.parquet")
    before = files(warehouse)

    dry = vacuum(warehouse, "p", keep_increments=1)
    assert files(warehouse) == before

    done = vacuum(warehouse, "p", keep_increments=1, delete=True)
    assert names(warehouse, done.waste) == names(warehouse, dry.waste)
    assert before - files(warehouse) == names(warehouse, dry.waste)


def test_what_a_running_increment_has_written_stays(warehouse):
    """
    The last done increment is 7, so whatever begins with 8 may be at work; a log's temporary file is young.
    """
    litter(warehouse, "p/outputs/counts/partition=0/00000008-0_0-running.parquet")
    litter(warehouse, "p/ledger/00000008-running.parquet")
    litter(warehouse, "p/_exchange/00000008/x-0.arrow")
    litter(warehouse, "landed/clicks/partition=0/00000002-running.parquet")
    litter(warehouse, "landed/clicks/partition=0/part-00000-spark.snappy.parquet")
    litter(warehouse, "p/dropped/_delta_log/_commit_running.json.tmp")

    assert vacuum(warehouse, "p").waste == []


def put_aside(warehouse: Warehouse) -> None:
    """Landing increment 2 of `clicks` has a dead letter, 3 a recorded time."""
    path = warehouse.landed_dead_letter("clicks")
    letter = [{"partition": 0, "increment": 2, "file": "a.jsonl", "line": 7, "bytes": b"{", "reason": "no object"}]
    rows = pa.Table.from_pylist(letter, schema=LANDED_DEAD_LETTER_SCHEMA)
    file = write_task_file(path, rows, partition=0, name="00000002-00000")
    commit_files(path, LANDED_DEAD_LETTER_SCHEMA, [file], app_id="landing/clicks/0", increment=2)
    ledger = LandingLedger(warehouse.landing_ledger("clicks"))
    ledger.plan(2, LandingPlanRow(), written_at_ms=1)
    ledger.done(2, replace(ledger.last_done().content, dead_letters=1), written_at_ms=1)
    record_time(warehouse, "clicks", 10_000_000)


def test_dead_letters_and_recorded_times_of_a_landing_stay_and_what_was_never_committed_of_them_goes(warehouse):
    put_aside(warehouse)
    want = {
        litter(warehouse, "landed_dead_letter/clicks/partition=0/00000002-dead.parquet"),
        litter(warehouse, "landing/clicks/recorded_time/partition=0/00000003-dead.parquet"),
    }
    litter(warehouse, "landed_dead_letter/clicks/partition=0/00000004-running.parquet")
    litter(warehouse, "landing/clicks/verified_files.json", days_old=1000)

    found = vacuum(warehouse, "p", delete=True)

    assert names(warehouse, found.waste) == want
    assert {each.table for each in found.waste} == {"landed_dead_letter/clicks", "landing/clicks/recorded_time"}
    (letter,) = landed_dead_letters(warehouse, "clicks").to_pylist()
    assert (letter["line"], letter["bytes"]) == (7, b"{")
    times = recorded_times(warehouse, "clicks", increment=3)
    assert {time.time_ms for partition in times.values() for time in partition} == {10_000_000}


def test_a_landing_that_died_before_its_first_dead_letter_was_committed_leaves_nothing_behind(warehouse):
    path = litter(warehouse, "landed_dead_letter/clicks/partition=0/00000001-dead.parquet")

    assert names(warehouse, vacuum(warehouse, "p", delete=True).waste) == {path}


def test_the_heartbeat_of_a_lost_run_goes_when_no_schedule_goes_by_it_any_more(warehouse):
    """
    A schedule that ticks once a week learns from an old one that its last run was lost.
    """
    gone = litter(warehouse, "p/_heartbeats/lost-long-ago", days_old=31)
    litter(warehouse, "p/_heartbeats/lost-last-week", days_old=8)
    litter(warehouse, "p/_heartbeats/at-work")

    found = vacuum(warehouse, "p", delete=True)

    assert [(each.table, each.reason) for each in found.waste] == [("_heartbeats", "of a run that was lost")]
    assert gone not in files(warehouse)
    assert sorted(os.listdir(Path(warehouse.root, "p", "_heartbeats"))) == ["at-work", "lost-last-week"]


def test_sparks_files_say_no_increment_and_go_by_their_age(warehouse):
    old = litter(warehouse, "landed/clicks/partition=0/part-00000-spark.snappy.parquet", days_old=2)
    ledger = LandingLedger(warehouse.landing_ledger("clicks"))
    assert names(warehouse, vacuum(warehouse, "p").waste) == set()  # tests land at wall clock 0

    ledger.plan(2, LandingPlanRow(), written_at_ms=now_ms())
    ledger.done(2, ledger.last_done().content, written_at_ms=now_ms())

    assert names(warehouse, vacuum(warehouse, "p").waste) == {old}


def test_an_increment_that_is_retained_can_be_read_and_one_that_is_not_is_refused_by_name(warehouse):
    drop(warehouse, "b")
    before = {n: contents(warehouse, "p", CHANGED, increment=n) for n in (5, 6, 7)}

    done = vacuum(warehouse, "p", keep_increments=3, delete=True)

    assert done.oldest == 5
    assert {n: contents(warehouse, "p", CHANGED, increment=n) for n in (5, 6, 7)} == before
    with pytest.raises(LedgerError, match=r"increment 4, which was vacuumed; the oldest that can be asked for is 5"):
        read_changelog(warehouse, "p", "counts", increment=4)
    with pytest.raises(LedgerError, match="which was vacuumed"):
        fork(warehouse, "p", 4, "c")
    with pytest.raises(LedgerError, match="which was vacuumed"):
        restore(warehouse, "p", 4)


def test_files_of_increments_that_are_not_retained_go(warehouse):
    drop(warehouse, "b")
    tables = ("outputs/counts", "outputs/pages", "state/counts-store", "state/pages-store", "dropped")
    gone = set().union(*(live_at(warehouse, t, range(1, 7)) - live_at(warehouse, t, [7]) for t in tables))
    assert len(gone) > 10

    waste = vacuum(warehouse, "p", keep_increments=1, delete=True).waste

    assert gone <= names(warehouse, waste)
    assert {each.reason for each in waste if "_delta_log" not in each.path} == {NOT_RETAINED}
    assert data(warehouse) & gone == set()


def test_what_a_branch_reads_stays_whatever_is_retained(warehouse):
    restore(warehouse, "p", 1)
    run(warehouse, "p", increments=2)
    before = contents(warehouse, "b", CHANGED, increment=3)
    vacuum(warehouse, "p", keep_increments=1, delete=True)

    assert contents(warehouse, "b", CHANGED, increment=3) == before
    drop(warehouse, "b")
    assert vacuum(warehouse, "p", keep_increments=1, delete=True).waste != []


def test_a_branch_can_be_promoted_after_its_fork_was_vacuumed(warehouse):
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "b", CHANGED)
    vacuum(warehouse, "p", keep_increments=1, delete=True)
    vacuum(warehouse, "b", keep_increments=1, delete=True)

    promote(warehouse, "b")

    assert contents(warehouse, "p", CHANGED) == contents(warehouse, "b", CHANGED)


@pytest.mark.parametrize("last_step", ["planned 8", "committed state/counts-store 8", "committed outputs/counts 8"])
def test_a_restore_that_died_can_be_finished_after_a_vacuum(warehouse, last_step):
    def die(step: str) -> None:
        if step == last_step:
            raise Killed(step)

    want = contents(warehouse, "p", increment=4)
    with pytest.raises(Killed):
        restore(warehouse, "p", 4, on_step=die)
    vacuum(warehouse, "p", keep_increments=1, delete=True)

    restore(warehouse, "p", 4)

    assert contents(warehouse, "p") == want


def test_a_vacuum_at_every_step_of_a_run_changes_nothing(warehouse):
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    alone = Warehouse(shutil.copytree(warehouse.root, f"{warehouse.root}-alone"))
    taken = []

    def clean(step: str) -> None:
        taken.extend(vacuum(warehouse, "p", keep_increments=1, delete=True).waste)

    run(warehouse, "p", CHANGED, on_step=clean)
    run(alone, "p", CHANGED)

    assert contents(warehouse, "p", CHANGED) == contents(alone, "p", CHANGED)
    assert taken != []


def test_a_run_goes_on_after_everything_but_the_last_increment_is_gone(warehouse):
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    vacuum(warehouse, "p", keep_increments=1, delete=True)
    run(warehouse, "p", CHANGED)

    run(warehouse, "b", CHANGED)
    assert contents(warehouse, "p", CHANGED) == contents(warehouse, "b", CHANGED)


def test_the_log_of_versions_that_nobody_asks_for_goes_up_to_a_checkpoint(warehouse):
    """
    Delta writes a checkpoint every tenth version; before a reader could still be at the one before, nothing goes.
    """
    drop(warehouse, "b")
    plant(warehouse, "clicks", tape(3, 60), partitions=PARTITIONS)
    run(warehouse, "p", CHANGED, max_records=2)
    table = warehouse.pipeline("p").output("counts")
    last = done_row(warehouse, "p").increment
    oldest = done_row(warehouse, "p", last - 2).content.versions["outputs/counts"]
    assert oldest > 20
    want = [contents(warehouse, "p", CHANGED, increment=n) for n in (last - 2, last - 1, last)]

    young = vacuum(warehouse, "p", keep_increments=3)
    assert [each for each in young.waste if each.reason == LOG] == []
    vacuum(warehouse, "p", keep_increments=3, delete=True, clock_ms=lambda: now_ms() + 2 * DAY_MS)

    logs = sorted(int(path.name[:20]) for path in Path(table, "_delta_log").glob("*.json"))
    assert logs[0] == (oldest - 9) // 10 * 10 + 9  # checkpoints are 9, 19, 29
    assert [contents(warehouse, "p", CHANGED, increment=n) for n in (last - 2, last - 1, last)] == want
    plant(warehouse, "clicks", tape(4, 10), partitions=PARTITIONS)
    assert run(warehouse, "p", CHANGED) == [last + 1]


@pytest.mark.parametrize(("step", "below"), [("files_below", "/_delta_log"), ("added_files", "")])
def test_a_ledgers_log_may_be_trimmed_while_a_vacuum_reads_it(warehouse, monkeypatch, step, below):
    """
    As a merge does (Ledger.compact), between two steps of the vacuum; what it found in the log is gone then.
    """
    want, log = names(warehouse, vacuum(warehouse, "p").waste), f"{warehouse.pipeline('p').ledger}/_delta_log"
    done, trimmed = getattr(maintenance, step), list[str]()

    def trim_behind(path, *others):
        found = done(path, *others)
        if path == f"{warehouse.pipeline('p').ledger}{below}" and not trimmed:
            before = set(os.listdir(log))
            trim_log(warehouse.pipeline("p").ledger, DeltaTable(warehouse.pipeline("p").ledger).version())
            trimmed.extend(before - set(os.listdir(log)))
        return found

    monkeypatch.setattr(maintenance, step, trim_behind)

    assert names(warehouse, vacuum(warehouse, "p").waste) == want
    assert trimmed


@pytest.mark.parametrize("files_left", [0, 1, 20])
def test_a_vacuum_that_died_is_finished_by_the_next(warehouse, monkeypatch, files_left):
    drop(warehouse, "b")
    want = contents(warehouse, "p", CHANGED)
    due = names(warehouse, vacuum(warehouse, "p", keep_increments=1).waste)
    deleted = maintenance.delete_files

    def die(waste):
        deleted(waste[files_left:])
        raise Killed

    monkeypatch.setattr("kstreams_replay.jobs.branches.vacuum.delete_files", die)
    with pytest.raises(Killed):
        vacuum(warehouse, "p", keep_increments=1, delete=True)
    monkeypatch.undo()
    assert len(due & files(warehouse)) == files_left

    vacuum(warehouse, "p", keep_increments=1, delete=True)

    assert due & files(warehouse) == set()
    assert contents(warehouse, "p", CHANGED) == want


def test_days_are_counted_from_the_done_rows(warehouse):
    at_ms = done_row(warehouse, "p", 5).written_at_ms

    found = vacuum(warehouse, "p", keep_days=1, clock_ms=lambda: at_ms + DAY_MS)

    assert found.oldest == 5
    assert vacuum(warehouse, "p", keep_days=0, clock_ms=lambda: now_ms() + DAY_MS).oldest == 7  # the last always


def test_what_was_given_up_does_not_come_back(warehouse):
    vacuum(warehouse, "p", keep_increments=2, delete=True)

    assert vacuum(warehouse, "p", keep_increments=5, delete=True).oldest == 6
    assert vacuum(warehouse, "p").oldest == 6


def test_an_unknown_pipeline_and_a_number_out_of_bounds_are_refused(warehouse):
    with pytest.raises(ConfigError, match="pipeline 'q': expected a pipeline that was run"):
        vacuum(warehouse, "q")
    with pytest.raises(ConfigError, match="keep_increments: expected 1 or more"):
        vacuum(warehouse, "p", keep_increments=0)
    for days in (-1, math.nan, math.inf):
        with pytest.raises(ConfigError, match="keep_days: expected 0 or more"):
            vacuum(warehouse, "p", keep_days=days)
    assert {output: len(read_changelog(warehouse, "p", output, increment=2)) > 0 for output in OUTPUTS} == {
        "counts": True, "pages": True,
    }  # fmt: skip


def test_nothing_behind_a_symbolic_link_is_deleted(warehouse, tmp_path):
    """
    The link leads to another table, in a folder whose files look as if they had never been committed.
    """
    mine = tmp_path / "mine"
    mine.mkdir()
    kept = [mine / "00000001-a.parquet", mine / "00000002-b.parquet"]
    for file in kept:
        file.touch()
    link = Path(warehouse.pipeline("p").output(OUTPUTS[0])) / "partition=9"
    link.symlink_to(mine)

    with pytest.raises(StorageError, match=f"the symbolic link {link}"):
        vacuum(warehouse, "p", delete=True)
    assert all(file.exists() for file in kept)


def test_a_folder_that_becomes_a_link_before_its_files_are_deleted_is_not_followed(warehouse, tmp_path):
    place = litter(warehouse, f"p/{TableName.output(OUTPUTS[0])}/partition=9/00000001-a.parquet")
    found = vacuum(warehouse, "p")
    folder = (Path(warehouse.root) / place).parent
    shutil.move(folder, tmp_path / "mine")
    folder.symlink_to(tmp_path / "mine")

    with pytest.raises(StorageError, match="behind the symbolic link"):
        maintenance.delete_files(found.waste)
    assert (tmp_path / "mine" / "00000001-a.parquet").exists()
