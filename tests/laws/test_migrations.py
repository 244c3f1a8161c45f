"""Law 3 for migrations: a store that a function rewrites continues as if it had always been the new one, and a run that
is killed in between leaves nothing of itself.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kstreams_replay.jobs.code_changes.state_migration import MigrationOptions
from kstreams_replay.jobs.execution import task_stores
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_state
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)
from kstreams_replay.state.errors import CodeChanged, ConfigError, TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.changed import PAGES, STRING, Killed, click, land, run, stored, totals
from tests.planted import Rows, plant, tables_of

pytestmark = pytest.mark.sampled


def windows(size: int) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(STRING, PAGES))
    windowed = clicks.group_by_key().windowed_by(TimeWindows.of_size(size, grace=1000))
    windowed.count(Materialized.as_("windows")).to_stream().to("windows")
    clicks.group_by_key().count(Materialized.as_("all")).to_stream().to("all")
    return builder.build()


def coarser(rows: pa.Table) -> pa.Table:
    """
    Windows of 20 out of windows of 10: both counts together, at the later time.
    """
    start = pc.multiply(pc.divide(rows["window_start_ms"], 20), 20)
    rows = rows.set_column(rows.column_names.index("window_start_ms"), "window_start_ms", start)
    grouped = rows.group_by(["partition", "key", "window_start_ms"])
    table = grouped.aggregate([("aggregate", "sum"), ("record_time_ms", "max")])
    table = table.rename_columns(["partition", "key", "window_start_ms", "aggregate", "record_time_ms"])
    return table.append_column("window_end_ms", pc.add(table["window_start_ms"], 20))


COARSER = MigrationOptions(migrate={"windows": coarser})


def values_of(rows: Rows) -> list[tuple[object, ...]]:
    return sorted((row["key"], row["window_start_ms"], row["value"], row["record_time_ms"]) for row in rows)


@pytest.mark.parametrize(("seed", "max_records"), [(1, 11), (2, 20)])
def test_a_store_that_a_function_rewrites_goes_on_as_if_it_had_always_been_the_new_one(tmp_path, seed, max_records):
    warehouse = Warehouse(tmp_path)
    land(warehouse, seed, 50)

    run(warehouse, windows(20), "new")
    run(warehouse, windows(10), "cut", max_records=max_records, increments=2)
    run(warehouse, windows(20), "cut", wanted=COARSER)

    new, cut = (tables_of(warehouse, pipeline, windows(20)) for pipeline in ("new", "cut"))
    assert values_of(cut["state/windows"]) == values_of(new["state/windows"])
    assert cut["state/all"] == new["state/all"]
    assert cut["outputs/all"] == new["outputs/all"]
    since = [row for row in read_changelog(warehouse, "cut", "windows").to_pylist() if row.pop("increment") > 3]
    assert since
    assert [row for row in since if row not in new["outputs/windows"]] == []


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """A warehouse with one increment of windows of ten."""
    folder = tmp_path_factory.mktemp("begun")
    warehouse = Warehouse(folder)
    land(warehouse, 4, 30)
    run(warehouse, windows(10), max_records=20, increments=1)
    return folder


@pytest.fixture(scope="module")
def migrated(begun, tmp_path_factory) -> tuple[list[str], dict[str, Rows]]:
    """Steps of a migration that nobody kills, and the tables of the replay."""
    warehouse = Warehouse(shutil.copytree(begun, tmp_path_factory.mktemp("migrated") / "w"))
    steps: list[str] = []
    run(warehouse, windows(20), wanted=COARSER, on_step=steps.append)
    return steps, tables_of(warehouse, "p", windows(20))


STEPS = [
    "planned",
    "computed",
    "committed state/windows",
    "committed state/all",
    "committed dropped",
    "committed dead_letter",
    "committed outputs/windows",
    "committed outputs/all",
    "done",
]


def test_the_steps_of_a_migration_are_those_of_any_increment(migrated):
    assert migrated[0][: len(STEPS)] == [f"{step} 2" for step in STEPS]


@pytest.mark.parametrize("last_step", STEPS)
def test_a_migration_killed_at_a_step_and_run_again_leaves_the_tables_of_one_that_was_not(
    begun, migrated, tmp_path, last_step
):
    warehouse = Warehouse(shutil.copytree(begun, tmp_path / "w"))

    def die(step: str) -> None:
        if step == f"{last_step} 2":
            raise Killed(step)

    with pytest.raises(Killed):
        run(warehouse, windows(20), wanted=COARSER, on_step=die)
    run(warehouse, windows(20), wanted=COARSER)

    assert tables_of(warehouse, "p", windows(20)) == migrated[1]


def test_a_migration_that_was_planned_is_not_run_without_its_function(begun, tmp_path):
    warehouse = Warehouse(shutil.copytree(begun, tmp_path / "w"))

    def die(step: str) -> None:
        if step == "committed state/windows 2":
            raise Killed(step)

    with pytest.raises(Killed):
        run(warehouse, windows(20), wanted=COARSER, on_step=die)

    with pytest.raises(CodeChanged, match="size_ms was 10, is 20"):
        run(warehouse, windows(20))
    with pytest.raises(CodeChanged, match=r"the migration that was planned, .*committed it already: run it to its end"):
        run(warehouse, windows(20), wanted=MigrationOptions(migrate={"windows": lambda rows: coarser(rows)}))
    with pytest.raises(CodeChanged, match="run it to its end with that code"):
        run(warehouse, windows(10))


def test_history_before_a_migration_stays_as_it_was(begun, tmp_path):
    warehouse = Warehouse(shutil.copytree(begun, tmp_path / "w"))
    before = read_state(warehouse, "p", "windows").to_pylist()

    run(warehouse, windows(20), wanted=COARSER)

    assert read_state(warehouse, "p", "windows", increment=1).to_pylist() == before
    after = read_state(warehouse, "p", "windows").to_pylist()
    assert {row["window_end_ms"] - row["window_start_ms"] for row in after} == {20}


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (lambda rows: rows.drop_columns(["key"]), ConfigError, "key"),
        (lambda rows: rows.append_column("more", rows["key"]), ConfigError, "more"),
        (lambda rows: pa.concat_tables([rows, rows]), ConfigError, "one row for each"),
        (lambda rows: rows.set_column(1, "key", pa.nulls(len(rows), pa.binary())), ConfigError, "one row for each"),
        (lambda rows: None, ConfigError, "a pyarrow Table"),
        (lambda rows: rows["nothing"], TaskFailed, "KeyError"),
    ],
)
def test_a_function_that_gives_what_the_store_cannot_take_is_refused_and_nothing_is_committed(
    begun, tmp_path, function: Callable[[pa.Table], pa.Table], error: type[Exception], said: str
):
    warehouse = Warehouse(shutil.copytree(begun, tmp_path / "w"))
    before = read_state(warehouse, "p", "windows").to_pylist()

    with pytest.raises(error, match=said):
        run(warehouse, windows(20), wanted=MigrationOptions(migrate={"windows": function}))

    assert read_state(warehouse, "p", "windows").to_pylist() == before


def test_a_function_gets_the_newest_row_of_every_key_and_window(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", [click(b"a", 1, 3), click(b"a", 1, 4), click(b"a", 1, 15)], partitions=1)
    run(warehouse, windows(10), max_records=1)
    plant(warehouse, "clicks", [click(b"a", 1, 16)], partitions=1)

    run(warehouse, windows(20), wanted=COARSER)

    assert values_of(read_store(warehouse, "p", windows(20), "windows").to_pylist()) == [("a", 0, 4, 16)]


def test_a_store_that_was_rewritten_has_forgotten_the_field_that_it_lost_so_that_it_may_come_back(tmp_path):
    warehouse, both, one = Warehouse(tmp_path), totals(n=fold.count(), ms=fold.sum("ms")), totals(n=fold.count())
    plant(warehouse, "in", [click(b"a", 5, 1), click(b"b", 5, 1)], partitions=1)
    run(warehouse, both)
    run(warehouse, one, wanted=MigrationOptions(migrate={"totals": lambda rows: rows}))
    plant(warehouse, "in", [click(b"a", 6, 2)], partitions=1)

    run(warehouse, both)

    assert stored(warehouse, both, "totals") == {"a": {"n": 2, "ms": 6}, "b": {"n": 1, "ms": None}}


def test_a_row_that_a_function_makes_due_at_once_leaves_with_the_next_record_of_any_key(tmp_path, monkeypatch):
    """
    Of windows of 20 none had closed at 12; of windows of 10 the first has.
    """
    for limit in ("ALL_BELOW_ROWS", "ALL_BELOW_SHARE"):
        monkeypatch.setattr(task_stores, limit, 0)  # rows are looked up by the keys of the tape, and by due time

    def finals(size: int) -> Topology:
        builder = StreamsBuilder()
        clicks = builder.stream("in", Consumed(STRING, PAGES))
        counts = clicks.group_by_key().windowed_by(TimeWindows.of_size(size)).count(Materialized.as_("counts"))
        counts.suppress(Suppressed.until_window_closes(name="held")).to("finals")
        return builder.build()

    def finer(rows: pa.Table) -> pa.Table:
        start = pc.multiply(pc.divide(rows["record_time_ms"], 10), 10)
        end = pc.add(start, 10)
        columns = {"window_start_ms": start, "window_end_ms": end, "buffer_time_ms": end}
        return pa.table({name: columns.get(name, rows[name]) for name in rows.column_names})

    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(b"a", 1, 3), click(b"b", 1, 12)], partitions=1)
    run(warehouse, finals(20))
    plant(warehouse, "in", [click(b"c", 1, 13)], partitions=1)

    run(warehouse, finals(10), wanted=MigrationOptions(migrate={"counts": finer, "held-store": finer}))

    rows = read_changelog(warehouse, "p", "finals").select(["key", "window_end_ms", "value"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("a", 10, 1)]
