"""Python aggregators over long batches: what a model says, each function called once a record, and memory that does not
grow with records. Rows are decided many at once until an aggregate becomes None
(jobs/operators/aggregate_parts/speculative_batches.py).
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds.aggregation import Aggregation
from kstreams_replay.jobs.functions.folds.python import PythonFold, PythonState
from kstreams_replay.jobs.graph.windows import SessionWindows, SlidingWindows, TimeWindows, Windows
from kstreams_replay.jobs.operators.aggregate_parts import aggregate as aggregate_module
from kstreams_replay.jobs.operators.aggregate_parts.aggregate import Aggregate
from kstreams_replay.jobs.operators.aggregates import session_windows_kernel
from kstreams_replay.jobs.operators.aggregates.aggregate_nodes import AggregateNode
from kstreams_replay.jobs.operators.aggregates.build import aggregate, settings_of
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.records.batches import Batch
from kstreams_replay.state.records.keys import Keys
from tests.operators.aggregates.window_models import Record
from tests.operators.aggregates.window_runs import KEY, TEXT, VALUE, batch_of

GAP, GRACE, SIZE = 5, 100_000, 20
SESSIONS, WINDOWS = SessionWindows(GAP, GRACE), TimeWindows(SIZE, SIZE, GRACE)


def started(windows: Windows | None, fold: PythonFold, retention_ms: int = GRACE + SIZE) -> Aggregate:
    shape = Shape(KEY, VALUE)
    aggregation = Aggregation({"": fold}, shape, "all")
    node = AggregateNode(
        name="all",
        inputs=("in",),
        shape=Shape(KEY, aggregation.serde(), None if windows is None else windows.kind),
        store="all",
        aggregation=aggregation,
        windows=windows,
        retention_ms=retention_ms,
        is_persistent=False,
    )
    operator = aggregate(OperatorContext("all", shape, Keys(KEY)), aggregation, windows, settings_of(node))
    operator.resume(operator.rows_schema().empty_table(), {})
    return operator


def noting(called: list[Any], is_null: Callable[[int, int], bool]) -> PythonFold:
    """All values as text; None where ``is_null`` of (records before of all keys, value)."""

    def add(key: str, value: int, text: str) -> str | None:
        called.append((key, value))
        return None if is_null(len(called) - 1, value) else f"{text}{value},"

    return PythonFold(str, add, TEXT, merger=lambda key, one, other: one + other)


def seen(out: Batch) -> list[Any]:
    bounds = [(0, 0)] * len(out)
    if out.window_start_ms is not None and out.window_end_ms is not None:
        bounds = list(zip(out.window_start_ms.tolist(), out.window_end_ms.tolist(), strict=True))
    keys = out.keys.typed(out.key).to_pylist()
    return list(zip(out.cause.tolist(), keys, bounds, out.value.all().to_pylist(), strict=True))


def tape_of(rng: random.Random, records: int) -> list[Record]:
    return [(rng.choice("abcde"), number, number + rng.randrange(12)) for number in range(records)]


def without_windows(tape: list[Record], is_null: Callable[[int, int], bool], size: int = 0) -> Iterator[Any]:
    """``size``: of tumbling windows, if there are any."""
    texts: dict[Any, str] = {}
    for number, (key, value, time) in enumerate(tape):
        start = time // size * size if size else 0
        text = None if is_null(number, value) else f"{texts.get((key, start), '')}{value},"
        texts.pop((key, start), None)
        if text is not None:
            texts[key, start] = text
        yield number, key, (start, start + size), text


def in_sessions(tape: list[Record], is_null: Callable[[int, int], bool]) -> Iterator[Any]:
    stored: dict[str, list[tuple[int, int, str]]] = {key: [] for key, _, _ in tape}
    for number, (key, value, time) in enumerate(tape):
        met = sorted(s for s in stored[key] if s[1] >= time - GAP and s[0] <= time + GAP)
        start, end = min([time, *(s[0] for s in met)]), max([time, *(s[1] for s in met)])
        if (start, end) != (time, time):
            for one in met:
                yield number, key, one[:2], None
        stored[key] = [s for s in stored[key] if s not in met]
        text = None if is_null(number, value) else "".join(s[2] for s in met) + f"{value},"
        if text is not None:
            stored[key].append((start, end, text))
        yield number, key, (start, end), text


EVERY: dict[str, Callable[[int, int], bool]] = {
    "never": lambda number, value: False,
    "once": lambda number, value: number == 1_234,
    "at the last": lambda number, value: number == 2_999,
    "at times": lambda number, value: number % 701 == 3 or number in (704, 1_500, 1_501),
    "often": lambda number, value: number % 7 == 3,
    "always": lambda number, value: True,
}


@pytest.mark.slow
@pytest.mark.parametrize("when", EVERY)
@pytest.mark.parametrize("kind", ["plain", "windows", "sessions"])
def test_what_a_none_changes_is_met_by_the_next_record(kind, when):
    tape, called = tape_of(random.Random(7), 3_000), []
    operator = started({"plain": None, "windows": WINDOWS, "sessions": SESSIONS}[kind], noting(called, EVERY[when]))

    out = operator.process(*batch_of(tape, operator.context.keys))

    want = {
        "plain": lambda: without_windows(tape, EVERY[when]),
        "windows": lambda: without_windows(tape, EVERY[when], SIZE),
        "sessions": lambda: in_sessions(tape, EVERY[when]),
    }[kind]()
    assert seen(out) == list(want)
    assert called == [(key, value) for key, value, _ in tape]


@pytest.mark.parametrize("fails", ["initializer", "aggregator", "merger"])
def test_a_failure_among_rows_decided_together_names_its_own_key(fails):
    tape = [(f"k{number}", number, 0) for number in range(300)]
    tape += [("late", 300, 7), ("late", 301, 9), ("later", 302, 9)]
    called: list[str] = []

    def begin() -> str:
        called.append("")
        if fails == "initializer" and len(called) == 301:
            raise ValueError("no")
        return ""

    def add(key: str, value: int, text: str) -> str:
        if fails == "aggregator" and value == 300:
            raise ValueError("no")
        return text

    def merge(key: str, one: str, other: str) -> str:
        raise ValueError("no")

    operator = started(SESSIONS, PythonFold(begin, add, TEXT, merger=merge))

    with pytest.raises(TaskFailed, match="all: expected an aggregate, got ValueError: no on key 'late'"):
        operator.process(*batch_of(tape, operator.context.keys))


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("when", ["never", "often"])
@pytest.mark.parametrize("windows", [SessionWindows(GAP, 10), TimeWindows(SIZE, SIZE, 10), SlidingWindows(SIZE, 10)])
def test_memory_does_not_grow_with_records(windows, when, monkeypatch):
    """
    Forty batches of one size, with rising times: slots stay as many, and only live ones have a value.
    """
    monkeypatch.setattr(aggregate_module, "_KEPT_SLOTS", 500)
    operator = started(windows, noting([], EVERY[when]), retention_ms=60)
    state, slots, per_batch = operator.folds.only, [], 1_000
    assert isinstance(state, PythonState)
    for number in range(40):
        tape = [(key, value, time + number * per_batch) for key, value, time in tape_of(random.Random(3), per_batch)]
        operator.process(*batch_of(tape, operator.context.keys))
        slots.append((operator.slots.capacity, len(state.state)))
        assert sum(value is not None for value in state.state) == len(operator.slots.live())
        assert state.emitted() == ([], [])

    assert set(slots[10:]) == {slots[10]}


@pytest.mark.parametrize("when", ["never", "at times", "often", "always"])
def test_room_for_results_is_linear_in_the_records(when, monkeypatch):
    """
    The kernel's room must do for all live sessions: it is not made again for every record.
    """
    made: list[int] = []
    allocate = session_windows_kernel.allocate

    def counted(records: int, sessions: int) -> tuple[tuple[np.ndarray, ...], ...]:
        made.append(records + sessions)
        return allocate(records, sessions)

    monkeypatch.setattr(session_windows_kernel, "allocate", counted)
    operator = started(SESSIONS, noting([], EVERY[when]))
    operator.process(*batch_of([("a", 0, 100 * number) for number in range(3_000)], operator.context.keys))
    made.clear()

    operator.process(*batch_of([("b", 0, 100 * number) for number in range(3_000)], operator.context.keys))

    assert sum(made) < 20 * 6_000
