"""Corrected code takes over an increment that the code before could not do, and shuts out whoever is still at work.

A first run that failed used to lock its pipeline: "run it to its end with that code, then change the code".
"""

import os
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay import pipeline_run
from kstreams_replay.jobs.replay.heartbeats import beating, heartbeat_of
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.replay.takeover import shut_out
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.cli.run_outcome import warnings_of
from kstreams_replay.state.errors import CodeChanged, CommitLost, LedgerConflict, LedgerGap, TaskFailed
from kstreams_replay.state.tables.ledger import DONE, PLANNED, Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.races import raced_by_turns
from tests.laws.restated import Killed, changelog, clicks, contents, kill, landed, run
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant

pytestmark = pytest.mark.sampled

OLD, NEW, OTHER = clicks(grace=10), clicks(grace=40), clicks(grace=20)
TOLD = (CodeChanged, LedgerConflict, CommitLost, LedgerGap)
"""Errors that the runner may get that is not the one that continues."""


def phases(warehouse: Warehouse, pipeline: str = "p") -> list[tuple[int, int, str]]:
    rows = Ledger(warehouse.pipeline(pipeline).ledger).rows()
    return [(row.increment, row.epoch, row.phase) for row in rows]


def fresh(warehouse: Warehouse, topology: Topology) -> dict:
    run(warehouse, "fresh", topology, max_records=30)
    return contents(warehouse, "fresh", topology)


def numbered(*, corrected: bool) -> Topology:
    """``corrected``: a filter is before the cast, so it is another topology and not only another step."""
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    stream = stream.filter("TRY_CAST(page AS BIGINT) IS NULL") if corrected else stream
    stream.map_values("TRY_CAST(page AS BIGINT)" if corrected else "CAST(page AS BIGINT)").to("numbers")
    return builder.build()


CAST, TRY_CAST = numbered(corrected=False), numbered(corrected=True)


def test_corrected_code_takes_over_the_first_run_that_failed(tmp_path):
    warehouse = landed(tmp_path)
    with pytest.raises(TaskFailed, match="conversion from `str` to `i64` failed"):
        run(warehouse, "p", CAST)

    assert run(warehouse, "p", TRY_CAST, max_records=30) == [2, 3]

    run(warehouse, "fresh", TRY_CAST, max_records=30)
    mine, want = (
        [(row["partition"], row["offset"], row["value"]) for row in changelog(warehouse, name, "numbers")]
        for name in ("p", "fresh")
    )
    assert sorted(mine) == sorted(want)
    assert phases(warehouse)[:3] == [(1, 0, PLANNED), (2, 1, PLANNED), (2, 1, DONE)]  # no plan row was changed


def test_a_later_increment_is_taken_over_too_and_the_state_stays(tmp_path):
    warehouse = landed(tmp_path)
    assert run(warehouse, "p", OLD, max_records=30, increments=1) == [1]
    kill(warehouse, "p", "computed 2", OLD)

    assert run(warehouse, "p", NEW, max_records=30) == [3]

    run(warehouse, "fresh", OLD, max_records=30, increments=1)
    assert contents(warehouse, "p", NEW) == fresh(warehouse, NEW)


def test_what_has_rows_already_is_not_taken_over_but_given_up_by_a_restore(tmp_path):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "committed dropped 1", OLD)

    with pytest.raises(CodeChanged, match=r"dropped, .* committed it already: .* --to 0 --abandon"):
        run(warehouse, "p", NEW)
    restore(warehouse, "p", 0, abandon=True)
    run(warehouse, "p", NEW, max_records=30)

    assert contents(warehouse, "p", NEW) == fresh(warehouse, NEW)


@pytest.mark.parametrize("at", ["planned 2", "computed 2", "committed outputs/counts 2"])
def test_who_takes_over_and_dies_is_run_again(tmp_path, at):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)
    kill(warehouse, "p", at, NEW)

    run(warehouse, "p", NEW, max_records=30)

    assert contents(warehouse, "p", NEW) == fresh(warehouse, NEW)


def test_a_takeover_is_said_once(tmp_path):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)

    first, second = replay(warehouse, NEW, pipeline="p", runner=LocalRunner(), max_records=30, idle="proceed")

    (said, *_) = warnings_of([first])
    assert said == f"{took_over(OLD, NEW)}; a run that is still at work on it is refused"
    assert "in the place of" not in " ".join(warnings_of([second]))


def took_over(old: Topology, new: Topology) -> str:
    return (
        "increment 2 is in the place of 1, which was planned and not finished (expected the topology that "
        f"it was planned for ({old.fingerprint}), got another one ({new.fingerprint}))"
    )


def test_a_takeover_stays_in_the_books_with_its_reason(tmp_path, capsys):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)
    run(warehouse, "p", NEW, max_records=30)

    assert main(["books", "--warehouse", warehouse.root, "--pipeline", "p"]) == 0

    said = [line for line in capsys.readouterr().out.splitlines() if "in the place of" in line]
    assert said == [took_over(OLD, NEW)]


def test_who_is_at_work_is_not_taken_over_while_its_heart_beats(tmp_path):
    """
    Its heart stops at its end; one that was killed counts as lost five minutes after its last beat.
    """
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)
    tables = warehouse.pipeline("p")

    with beating(tables, "one", "replaying 7") as heart:
        heart.beat()
        with pytest.raises(LedgerConflict) as raised:
            run(warehouse, "p", NEW)
        beat_s = heartbeat_of(tables, "one").written_at_ms // 1000
        assert phases(warehouse) == [(1, 0, PLANNED)]  # nothing was written
    assert str(raised.value) == (
        "pipeline 'p', increment 1: expected nobody at work on it, since another plan would take its place, "
        f"got run one (replaying 7), whose heartbeat is of {utc(beat_s)}; let it finish, or stop it, "
        f"and run again; if it was killed, run again after {utc(beat_s + 300)}, or delete its heartbeat "
        f"{warehouse.root}/p/_heartbeats/one"
    )

    assert run(warehouse, "p", NEW, max_records=30)[0] == 2


def test_heartbeats_that_cannot_be_read_hold_nobody_up(tmp_path):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)
    Path(warehouse.pipeline("p").heartbeats).write_text("no folder")

    assert run(warehouse, "p", NEW, max_records=30)[0] == 2


def utc(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


@pytest.mark.parametrize(("age_s", "is_lost"), [(299, False), (301, True), (-3600, True)])
def test_a_heartbeat_that_is_five_minutes_off_the_clock_holds_nobody_up(tmp_path, age_s, is_lost):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)
    path = Path(warehouse.pipeline("p").heartbeat("one"))
    path.parent.mkdir()
    path.write_text("replaying")
    os.utime(path, (time.time() - age_s,) * 2)

    if not is_lost:
        with pytest.raises(LedgerConflict, match="got run one"):
            run(warehouse, "p", NEW)
        path.unlink()

    assert run(warehouse, "p", NEW, max_records=30)[0] == 2


def test_ones_own_heart_and_that_of_another_pipeline_hold_nobody_up(tmp_path):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)

    with beating(warehouse.pipeline("p"), "mine", "replaying"), beating(warehouse.pipeline("q"), "other", "replaying"):
        reports = list(replay(warehouse, NEW, pipeline="p", runner=LocalRunner(), idle="proceed", run="mine"))

    assert reports[0].increment == 2


def test_code_that_planned_the_increment_goes_on_with_it_whoever_is_at_work(tmp_path):
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)

    with beating(warehouse.pipeline("p"), "one", "replaying"):
        assert run(warehouse, "p", OLD, max_records=30)[0] == 1


@pytest.mark.parametrize("at", ["planned 1", "computed 1"])
def test_the_runner_that_was_taken_over_is_shut_out_of_every_table(tmp_path, at):
    warehouse = landed(tmp_path)

    def taken_over(step: str) -> None:
        if step == at:
            run(warehouse, "p", NEW, max_records=30)

    with pytest.raises(TOLD[1:]):
        run(warehouse, "p", OLD, max_records=30, on_step=taken_over)

    run_on_and_compare(warehouse)


def test_what_the_old_runner_slips_in_before_it_is_shut_out_is_taken_out_again(tmp_path):
    """
    It has looked into the ledger before the new plan is there, and commits after it.
    """
    warehouse = landed(tmp_path)
    first, plan = Ledger(warehouse.pipeline("p").ledger), Ledger.plan_instead

    def planned_late(self: Ledger, *arguments, **options):
        row = plan(self, *arguments, **options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "pending", lambda self: first.rows_of(1).planned)
            with pytest.raises(LedgerGap):  # all its tables are committed; that it is done is refused
                run(warehouse, "p", OLD, max_records=60)
        return row

    kill(warehouse, "p", "computed 1", OLD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "plan_instead", planned_late)
        run(warehouse, "p", NEW, max_records=30)

    assert contents(warehouse, "p", NEW) == fresh(warehouse, NEW)


def test_who_takes_over_from_a_taker_that_died_shuts_the_first_runner_out_too(tmp_path):
    """
    The second has written its plan and shut nobody out yet; the first is still at work, under an epoch of its own.
    """
    warehouse = landed(tmp_path)

    def taken_over_twice(step: str) -> None:
        if step == "computed 1":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pipeline_run, "shut_out", dies)
                with pytest.raises(Killed):
                    run(warehouse, "p", OTHER, max_records=30)
            run(warehouse, "p", NEW, max_records=30)

    with pytest.raises(TOLD[1:]):
        run(warehouse, "p", OLD, max_records=30, on_step=taken_over_twice)

    run_on_and_compare(warehouse)
    assert phases(warehouse)[:4] == [(1, 0, PLANNED), (2, 1, PLANNED), (3, 2, PLANNED), (3, 2, DONE)]


def test_who_takes_over_and_is_taken_over_before_it_shuts_anybody_out_undoes_nothing(tmp_path, monkeypatch):
    """
    Its plan is given up, and the other is done, when it begins to make every table what it was.
    """
    warehouse = landed(tmp_path)
    kill(warehouse, "p", "computed 1", OLD)

    def late(*arguments, **options) -> None:
        monkeypatch.undo()
        run(warehouse, "p", NEW, max_records=30)
        shut_out(*arguments, **options)

    monkeypatch.setattr(pipeline_run, "shut_out", late)
    with pytest.raises(TOLD[1:]):
        run(warehouse, "p", OTHER, max_records=30)

    run_on_and_compare(warehouse)


def test_a_restore_shuts_out_who_took_over_and_from_whom(tmp_path):
    warehouse = landed(tmp_path)

    def first(step: str) -> None:
        if step == "computed 1":
            with pytest.raises(TOLD[1:]):
                run(warehouse, "p", OTHER, max_records=30, on_step=second)

    def second(step: str) -> None:
        if step == "committed state/counts-store 2":
            restore(warehouse, "p", 0, abandon=True)

    with pytest.raises(TOLD[1:]):
        run(warehouse, "p", OLD, max_records=30, on_step=first)

    run_on_and_compare(warehouse)


@pytest.mark.parametrize("seed", range(1, 21))
def test_of_two_runners_with_different_code_one_goes_on_and_the_tables_are_whole(tmp_path, seed):
    """
    The loser gets an error; nothing is of both. What neither finished a third one finishes, or gives up.
    """
    warehouse, dice = landed(tmp_path), random.Random(seed)
    want = {"old": contents_of(warehouse, OLD), "new": contents_of(warehouse, NEW)}
    if dice.random() < 0.5:
        with pytest.raises(Killed):
            run(warehouse, "p", OLD, max_records=60, on_step=die)
    works = {
        name: lambda topology=topology: run(warehouse, "p", topology, max_records=60)
        for name, topology in (("old", OLD), ("new", NEW))
    }

    ends = raced_by_turns(warehouse, list(works.values()), seed, changes=dice.choice((0.02, 0.1, 0.5)), told=TOLD)

    assert not [end for end in ends if "\n" in end], ends
    if "finished" not in ends:
        restore(warehouse, "p", 0, abandon=True)
        run(warehouse, "p", NEW, max_records=60)
    last = Ledger(warehouse.pipeline("p").ledger).last_done()
    name, topology = ("old", OLD) if last.content.topology == OLD.fingerprint else ("new", NEW)
    assert contents(warehouse, "p", topology) == want[name], (seed, ends)


def run_on_and_compare(warehouse: Warehouse) -> None:
    """As if NEW had run alone. The next increment shows what somebody else has written into the tables."""
    fresh(warehouse, NEW)
    run(warehouse, "p", NEW, max_records=30)
    plant(warehouse, "clicks", tape(2, 30), partitions=PARTITIONS)
    run(warehouse, "p", NEW, max_records=30)
    assert contents(warehouse, "p", NEW) == fresh(warehouse, NEW)


def die(step: str) -> None:
    raise Killed(step)


def dies(*arguments, **options) -> None:
    raise Killed


def contents_of(warehouse: Warehouse, topology: Topology) -> dict:
    name = f"alone-{topology.fingerprint}"
    run(warehouse, name, topology, max_records=60)
    return contents(warehouse, name, topology)
