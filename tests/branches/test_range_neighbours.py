"""A backfill beside others: who ran meanwhile, which one is newer, what a death left, and what was never landed."""

from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.branches import range_promotion
from kstreams_replay.jobs.branches.backfill import Backfill, backfill
from kstreams_replay.jobs.branches.branches import branches, drop
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_newest
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import ConfigError, LandingError, LedgerConflict, LedgerError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.landed_records import records
from tests.planted import LandedRecord, plant

pytestmark = pytest.mark.sampled
TEXT = Consumed(Serde.string(), Serde.string())
FROM, TO = 1_000, 2_000
"""Of the range; windows of 100 ms begin and end with it."""


def counted(*, without: str = "", by: str = "key") -> Topology:
    """Final counts in windows of 100 ms by key, or by value below a repartition. ``without``: a value left out."""
    builder = StreamsBuilder()
    visits = builder.stream("visits", TEXT).filter(f"value != '{without}'")
    grouped = visits.group_by_key() if by == "key" else visits.group_by("value", name="by-value")
    counts = grouped.windowed_by(TimeWindows.of_size(100, grace=20)).count(Materialized.as_("hundreds"))
    counts.suppress(Suppressed.until_window_closes(name="final")).to("counts")
    return builder.build()


def passed_on(*, without: str = "") -> Topology:
    """Records as they come."""
    builder = StreamsBuilder()
    builder.stream("visits", TEXT).filter(f"value != '{without}'").to("visits-out")
    return builder.build()


def visits(begin_ms: int, end_ms: int) -> list[LandedRecord]:
    """Of ann, every ten milliseconds; each second one is a bot's."""
    times = range(begin_ms, end_ms, 10)
    return [LandedRecord(0, b"ann", (b"home", b"bot")[number % 2], time_ms) for number, time_ms in enumerate(times)]


def run(warehouse: Warehouse, topology: Topology) -> None:
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=60, idle="proceed"))


def made(warehouse: Warehouse, topology: Topology, name: str = "b", **settings: Any) -> Backfill:
    given: dict[str, Any] = {"pipeline": "p", "from_ms": FROM, "to_ms": TO, "runner": LocalRunner()} | settings
    return backfill(warehouse, topology, name=name, **given)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Visits from 500 to 2,500 ms have landed."""
    found = Warehouse(str(tmp_path / "w"))
    plant(found, "visits", visits(500, 2_500), partitions=1)
    return found


def verdicts(warehouse: Warehouse, pipeline: str, topology: Topology) -> dict[str, str]:
    """The answer of each guarantee on the last increment."""
    found: list[Verdict] = check_increment(warehouse, pipeline, replay_facts(topology), engine="plain")
    return {verdict.guarantee: verdict.answer for verdict in found}


def counts(warehouse: Warehouse, pipeline: str = "p") -> dict[int, int]:
    """By the beginning of each window."""
    rows = read_newest(warehouse, pipeline, "counts").to_pylist()
    return {row["window_start_ms"]: row["value"] for row in rows}


# --- promotions ----------------------------------------------------------------------------------------------


def test_a_promotion_gives_way_to_an_increment_that_ran_while_it_looked_at_the_rows(warehouse, monkeypatch):
    run(warehouse, counted())
    made(warehouse, counted(without="bot"))
    looked = range_promotion.read_table

    def look_while_another_runs(*place: Any, **settings: Any) -> Any:
        rows = looked(*place, **settings)
        plant(warehouse, "visits", visits(2_500, 2_600), partitions=1)
        run(warehouse, counted())
        return rows

    with monkeypatch.context() as racing:
        racing.setattr(range_promotion, "read_table", look_while_another_runs)
        with pytest.raises(LedgerConflict, match="an increment that another runner planned since; promote it again"):
            promote(warehouse, "b")
    assert counts(warehouse)[2_400] == 10  # what ran meanwhile stays

    promote(warehouse, "b")
    assert (counts(warehouse)[1_500], counts(warehouse)[2_400]) == (5, 10)


def test_an_older_backfill_does_not_take_back_what_a_newer_one_has_brought(warehouse):
    run(warehouse, passed_on())
    made(warehouse, passed_on(without="bot"), "older")
    plant(warehouse, "visits", [LandedRecord(0, b"cid", b"home", 1_995)], partitions=1)  # late, and of the range
    run(warehouse, passed_on())
    with pytest.raises(ConfigError, match="which has read later records"):
        promote(warehouse, "older")
    made(warehouse, passed_on(without="bot"), "newer", to_ms=2_500)
    promote(warehouse, "newer")

    with pytest.raises(ConfigError, match=r"got some of increment \d+, which has read later records; drop this"):
        promote(warehouse, "older")


def test_a_key_without_a_row_in_the_range_is_looked_at_too(tmp_path):
    """
    The pipeline has left out what bob did in the range. His last record there came after the range had begun, and is
    of a time before it: his newest one must not become one of the range.
    """
    warehouse = Warehouse(str(tmp_path / "w"))
    late = [LandedRecord(0, b"bob", b"bot", 1_300), LandedRecord(0, b"bob", b"home", 900)]
    plant(warehouse, "visits", [*visits(500, 1_300), *late, *visits(1_310, 2_500)], partitions=1)
    run(warehouse, passed_on(without="bot"))
    made(warehouse, passed_on())

    with pytest.raises(ConfigError, match="key 'bob' with a record of 900 ms"):
        promote(warehouse, "b")


def test_a_key_whose_last_row_is_before_the_range_gets_those_of_the_range(tmp_path):
    warehouse = Warehouse(str(tmp_path / "w"))
    early, left_out = LandedRecord(0, b"bob", b"home", 895), LandedRecord(0, b"bob", b"bot", 1_305)
    plant(warehouse, "visits", [*visits(500, 900), early, *visits(900, 1_300), left_out], partitions=1)
    plant(warehouse, "visits", [LandedRecord(0, b"eve", b"home", 2_500)], partitions=1)
    run(warehouse, passed_on(without="bot"))
    made(warehouse, passed_on())

    promote(warehouse, "b")

    newest = {row["key"]: row["value"] for row in read_newest(warehouse, "p", "visits-out").to_pylist()}
    assert newest["bob"] == "bot"


# --- books, proof and causes below a repartition -------------------------------------------------------------


def test_below_a_repartition_rows_are_proved_and_name_no_cause_before_and_after_the_promotion(warehouse):
    """
    A backfill keeps nothing of a repartition table, so its offsets would be those of other records.
    """
    run(warehouse, counted(by="value"))
    found = made(warehouse, counted(by="value"))
    assert found.compared == ["counts"]
    rows = read_changelog(warehouse, "b", "counts")
    assert set(rows["cause_offset"].to_pylist()) == {-1}

    promote(warehouse, "b")

    rows = read_changelog(warehouse, "p", "counts").to_pylist()
    promoted = max(row["increment"] for row in rows)
    brought = [row["cause_offset"] for row in rows if row["increment"] == promoted]
    others = [row["cause_offset"] for row in rows if row["increment"] != promoted]
    assert brought == [-1] * 2 * len(range(FROM, TO, 100))
    assert min(others) >= 0


@pytest.mark.parametrize("by", ["key", "value"])
def test_guarantees_hold_of_a_backfill_and_of_its_promotion(warehouse, by):
    run(warehouse, counted(by=by))
    changed = counted(without="bot", by=by)
    made(warehouse, changed)

    assert {verdicts(warehouse, "b", changed)[name] for name in ("G1", "G2", "G3")} == {"true"}
    promote(warehouse, "b")
    assert {verdicts(warehouse, "p", counted(by=by))[name] for name in ("G1", "G2", "G3")} == {"true"}


# --- what a death leaves -------------------------------------------------------------------------------------


class Killed(BaseException):
    """SIGKILL: nothing is cleared up."""


def test_a_backfill_that_was_killed_says_which_command_makes_room_for_it(warehouse, monkeypatch):
    run(warehouse, counted())
    steps = list[str]()
    made(warehouse, counted(), "whole", on_step=steps.append)
    drop(warehouse, "whole")

    for number in (0, len(steps) // 2, len(steps) - 1):
        name, left = f"b{number}", list(steps[: number + 1])

        def die(step: str, left: list[str] = left) -> None:
            left.pop()
            if not left:
                raise Killed

        with monkeypatch.context() as dying:
            dying.setattr("kstreams_replay.jobs.branches.backfill._BackfillRun.drop", lambda run: None)
            with pytest.raises(Killed):
                made(warehouse, counted(), name, on_step=die)
        command = f"`replay drop {name} --warehouse {warehouse.root}`"
        with pytest.raises(ConfigError, match="a backfill that was killed, or is at work") as refused:
            made(warehouse, counted(), name)
        assert command in str(refused.value)
        with pytest.raises(LedgerError, match="a backfill that was finished, got one that was killed") as refused:
            promote(warehouse, name)
        assert command in str(refused.value)
        drop(warehouse, name)
        assert made(warehouse, counted(), name).compared == ["counts"]


def test_what_is_left_of_a_branch_that_was_dropped_half_is_told(warehouse, monkeypatch):
    run(warehouse, counted())
    made(warehouse, counted())

    def die(*place: Any) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr("kstreams_replay.jobs.branches.branches.delete_folder", die)
        with pytest.raises(Killed):
            drop(warehouse, "b")
    assert branches(warehouse) == {}

    with pytest.raises(ConfigError, match=r"what a killed command has left of a branch; if nobody .* `replay drop b"):
        made(warehouse, counted())
    drop(warehouse, "b")
    assert made(warehouse, counted()).compared == ["counts"]


# --- what was never landed, or in another order --------------------------------------------------------------


def windows_that_chain() -> Topology:
    """Sessions with a gap of 50 ms, which the visits never leave, beside counts in windows."""
    builder = StreamsBuilder()
    grouped = builder.stream("visits", TEXT).group_by_key()
    grouped.windowed_by(SessionWindows.with_inactivity_gap(50, grace=0)).count(Materialized.as_("sessions")).to("s")
    return builder.build()


@pytest.mark.parametrize(
    ("topology", "operator", "needed_ms"),
    [
        (counted(), "KSTREAM-AGGREGATE-0000000002", 990 - 100 - 20),  # size and grace
        (windows_that_chain(), "KSTREAM-AGGREGATE-0000000001", 990 - 50 - 50 - 1),  # a gap to either side
    ],
)
def test_a_landed_log_that_begins_too_late_is_refused_with_the_operator_and_the_time(
    tmp_path, topology, operator, needed_ms
):
    """
    The last visit before the range is one of 990 ms.
    """
    warehouse = Warehouse(str(tmp_path / "w"))
    plant(warehouse, "visits", visits(950, 2_500), partitions=1, first_offset=45)
    run(warehouse, topology)

    with pytest.raises(LandingError) as refused:
        made(warehouse, topology)

    assert str(refused.value).startswith(
        f"{operator}, task 0_0: expected records from {needed_ms} ms on, which matter to it at the beginning of the "
        "range, got a landed log that begins at 950 ms, since the broker had deleted what was before"
    )
    assert branches(warehouse) == {}


def test_a_landed_log_that_begins_late_and_early_enough_is_taken(tmp_path):
    warehouse = Warehouse(str(tmp_path / "w"))
    plant(warehouse, "visits", visits(500, 2_500), partitions=1, first_offset=7)
    run(warehouse, counted())

    assert made(warehouse, counted()).compared == ["counts"]


def test_a_pipeline_that_has_taken_records_by_arrival_has_no_ranges(tmp_path):
    """
    Also not after an increment by time, since its state is of records in another order.
    """
    warehouse = Warehouse(str(tmp_path / "w"))
    tape = [(0, time_ms, b"ann", b"home") for time_ms in range(500, 2_500, 10)]
    land_records(warehouse, "visits", records(*tape, arrivals=list(range(len(tape)))), partitions=1)
    some = {"order": "arrival", "max_records": 150, "increments": 1}
    list(replay(warehouse, counted(), pipeline="p", runner=LocalRunner(), **some))
    run(warehouse, counted())

    with pytest.raises(ConfigError, match="got records that it took in the order of their arrival; fork"):
        made(warehouse, counted())
    assert branches(warehouse) == {}
