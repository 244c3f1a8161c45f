"""Where a task's tape is cut, into chunks or into increments with a resume between, changes nothing."""

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.task.task import Result, Task
from kstreams_replay.jobs.topology import KStream, Materialized, SessionWindows, Suppressed, TimeWindows, Topology, fold
from tests.operators.cut_tapes import merged
from tests.task.task_tapes import counted, long, records, started, topology_of

LATE = [
    (0, 5, b"a", long(1)),
    (1, 3, b"b", long(2)),
    (2, 17, None, long(3)),
    (3, 12, b"a", None),
    (4, 4, b"a", long(4)),
    (5, -1, b"a", long(5)),
    (6, 30, b"b", b"bad"),
    (7, 25, b"c", long(6)),
    (8, 14, b"a", long(7)),
    (9, 26, b"a", long(8)),
    (10, 27, b"aa", long(9)),
    (11, 60, b"b", long(10)),
    (12, 31, b"a", long(11)),
    (13, 61, b"a", long(12)),
    (14, 90, b"c", long(13)),
    (15, 90, b"a", long(14)),
]


def final_hops(stream: KStream) -> None:
    windows = TimeWindows.of_size(10, grace=3).advance_by(4)
    results = stream.group_by_key().windowed_by(windows).aggregate(n=fold.count(), last=fold.last("value"))
    results.suppress(Suppressed.until_window_closes()).to("out")


def final_sessions(stream: KStream) -> None:
    grouped = stream.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(6, grace=4))
    results = grouped.aggregate(all=fold.collect("value"), materialized=Materialized.as_("sessions", retention=40))
    results.suppress(Suppressed.until_window_closes(name="final")).to("out")


def sessions_in_python(stream: KStream) -> None:
    grouped = stream.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(6, grace=4))
    grouped.reduce(lambda one, other: None if other == 7 else one + other).to("out")


def plain_counts(stream: KStream) -> None:
    stream.filter("value IS NULL OR value <> 8").group_by_key().aggregate(n=fold.count(), mean=fold.mean("value")).to(
        "out"
    )


def own_sessions(stream: KStream) -> None:
    own = fold.of({"n": 0, "most": None}, _STEP, merge=_MERGE)
    grouped = stream.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(6, grace=4))
    grouped.aggregate(own).to("out")


_STEP = {"n": "aggregate.n + 1", "most": "GREATEST(aggregate.most, value)"}
_MERGE = {"n": "aggregate.n + other.n", "most": "GREATEST(aggregate.most, other.most)"}

BUILDS = [own_sessions, final_hops, final_sessions, sessions_in_python, plain_counts, counted]


def everything(results: list[Result]) -> list[list[dict]]:
    """All tables of several chunks, one after the other."""
    outputs = [table for result in results for table in result.outputs.values()]
    tables = [outputs, [result.dropped for result in results], [result.dead_letters for result in results]]
    return [pa.concat_tables(pieces).drop_columns(["cause"]).to_pylist() for pieces in tables]  # a row of its chunk


def in_order(rows: list[dict]) -> list[str]:
    return sorted(map(repr, rows))


def stores_of(task: Task) -> dict[str, list[str]]:
    return {name: in_order(operator.rows().to_pylist()) for name, operator in task.stores.items()}


def run_in_chunks(topology: Topology, size: int) -> tuple[Task, list[Result]]:
    task = started(topology)
    return task, [task.process(records(*LATE[at : at + size])) for at in range(0, len(LATE), size)]


def assert_the_same_came_of(task: Task, got: list[Result], whole: Task, want: Result) -> None:
    """Results, stores and counters of a run in parts are those of the run in one piece."""
    outputs, dropped, dead = everything(got)
    want_outputs, want_dropped, want_dead = everything([want])
    assert outputs == want_outputs
    assert in_order(dropped) == in_order(want_dropped)
    assert dead == want_dead
    assert stores_of(task) == stores_of(whole)
    assert task.counters() == whole.counters()


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_where_the_tape_is_cut_into_chunks_changes_nothing(build, size):
    topology = topology_of(build)
    whole, (want,) = run_in_chunks(topology, len(LATE))

    task, got = run_in_chunks(topology, size)

    assert_the_same_came_of(task, got, whole, want)
    assert (task.counts, task.lateness.report()) == (whole.counts, whole.lateness.report())


def run_in_increments(topology: Topology, cuts: list[int]) -> tuple[Task, list[Result]]:
    """A new task for each part of the tape, from the durable rows and counters of the one before."""
    rows: dict[str, pa.Table] = {}
    task, results = started(topology), []
    for begin, end in zip([0, *cuts], [*cuts, len(LATE)], strict=True):
        results.append(task.process(records(*LATE[begin:end])))
        rows = {name: merged(store, rows.get(name)) for name, store in task.stores.items()}
        resumed = Task(topology, topology.sub_topologies[0])
        resumed.resume(rows, task.counters(), stream_time_ms=task.stream_time_ms, tape_time_ms=task.tape_time_ms)
        task = resumed
    return task, results


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("cuts", [[at] for at in range(17)] + [list(range(1, 16)), [3, 3, 9]], ids=str)
def test_where_the_tape_is_cut_into_increments_changes_nothing(build, cuts):
    topology = topology_of(build)
    whole, (want,) = run_in_chunks(topology, len(LATE))

    task, got = run_in_increments(topology, cuts)

    assert_the_same_came_of(task, got, whole, want)


@pytest.mark.parametrize("build", BUILDS)
def test_an_increment_without_records_changes_no_row(build):
    topology = topology_of(build)
    task, _ = run_in_increments(topology, [8])

    task.process(records())

    assert [len(store.changes()) for store in task.stores.values()] == [0] * len(task.stores)


def test_stream_time_of_an_output_is_that_of_the_operator_that_emitted_it():
    topology = topology_of(final_hops)

    _, (result,) = run_in_chunks(topology, len(LATE))

    rows = result.outputs["out"].select(["window_end_ms", "stream_time_ms"]).to_pylist()
    assert rows
    assert all(row["window_end_ms"] <= row["stream_time_ms"] - 3 for row in rows)
    assert np.all(np.diff(result.outputs["out"]["stream_time_ms"].to_numpy()) >= 0)
