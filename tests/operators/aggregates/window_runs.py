"""Running an aggregate's operator by itself over a tape that is cut anywhere, saved and resumed at every cut or not."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds.aggregation import Aggregation
from kstreams_replay.jobs.functions.folds.lists import collect
from kstreams_replay.jobs.functions.folds.python import PythonFold
from kstreams_replay.jobs.graph.windows import Windows
from kstreams_replay.jobs.operators.aggregate_parts.aggregate import Aggregate
from kstreams_replay.jobs.operators.aggregates.aggregate_nodes import AggregateNode
from kstreams_replay.jobs.operators.aggregates.build import aggregate, settings_of
from kstreams_replay.jobs.operators.base.operator import Counters, OperatorContext
from kstreams_replay.state.records.batches import Batch, Chunk, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from tests.operators.aggregates.window_models import Record, Result
from tests.operators.cut_tapes import Increments, chunk_of

KEY, VALUE = Serde.string(), Serde.long()
TEXT = Serde.string()

KEYS = st.sampled_from(["a", "b", "aa", "", None])
VALUES = st.one_of(st.none(), st.integers(0, 9))
STEPS = st.tuples(KEYS, VALUES, st.integers(-12, 9), st.sampled_from([0, 0, 0, 0, 0, 40, 200, 130_000]))
"""(key, value, step of time or back, jump): mostly out of order by a little, now and then far ahead."""


@st.composite
def tapes(draw: st.DrawFn) -> list[Record]:
    time, tape = draw(st.integers(0, 30)), []
    for key, value, step, jump in draw(st.lists(STEPS, max_size=40)):
        tape.append((key, value, max(0, time + step)))
        time += max(step, 0) // 2 + jump
    return tape


@dataclass(frozen=True)
class WindowRun:
    """An aggregate of all values of a window: compiled as a list, or in Python as text."""

    windows: Windows
    retention_ms: int
    is_persistent: bool = True
    emits_final: bool = False
    in_python: bool = False
    wants_old: bool = False
    is_viewed: bool = False

    def start(self) -> Aggregate:
        shape = Shape(KEY, VALUE)
        add = PythonFold(
            str, lambda key, value, text: f"{text}{value},", TEXT, merger=lambda key, one, other: one + other
        )
        aggregation = Aggregation({"": add} if self.in_python else {"all": collect("value")}, shape, "all")
        node = AggregateNode(
            name="all",
            inputs=("in",),
            shape=Shape(KEY, aggregation.serde(), self.windows.kind),
            store="all",
            aggregation=aggregation,
            windows=self.windows,
            retention_ms=self.retention_ms,
            is_persistent=self.is_persistent,
        )
        context = OperatorContext("all", shape, Keys(KEY), wants_old=self.wants_old, is_viewed=self.is_viewed)
        settings = settings_of(node, emits_final=self.emits_final)
        return aggregate(context, aggregation, self.windows, settings)


@dataclass
class PlayedWindows:
    """What came of a tape: results and puts as the models give them, steps of refusals, old values, the last state."""

    results: list[Result] = field(default_factory=list)
    drops: list[int] = field(default_factory=list)
    old: list[Any] = field(default_factory=list)
    puts: list[Result] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    counters: Counters = field(default_factory=dict)


def batch_of(records: Sequence[Record], keys: Keys) -> tuple[Batch, Chunk]:
    """Records (key, value, time) as a batch of a chunk of their own."""
    n = len(records)
    values = VALUE.from_python([value for _, value, _ in records])
    codes = keys.intern(KEY.encode(pa.array([key for key, _, _ in records], pa.string())))
    time_ms = np.array([time for _, _, time in records], np.int64)
    valid = np.array([value is not None for _, value, _ in records], np.bool_)
    seen = np.maximum.accumulate(time_ms)
    chunk = replace(chunk_of(n), time_ms=time_ms, stream_time_ms=seen, tape_time_ms=seen)
    return Batch(np.arange(n, dtype=np.int32), codes, keys, time_ms, valid, Values(values)), chunk


def values_of(value: Any) -> tuple | None:
    """The list of a compiled aggregate, or the text of one in Python, as the tuple of a model."""
    if value is None:
        return None
    if isinstance(value, str):
        return tuple(None if part == "None" else int(part) for part in value.split(",")[:-1])
    return tuple(value["all"])


def aggregated(
    run: WindowRun, tape: Sequence[Record], cuts: Sequence[int] = (), *, resumes: bool = False
) -> PlayedWindows:
    """``cuts``: steps before which a batch ends; with ``resumes`` an increment ends there."""
    increments, played = Increments(run.start), PlayedWindows()
    for operator, begin, end in increments.chunks(len(tape), **{"cuts" if resumes else "chunks": cuts}):
        batch, chunk = batch_of(tape[begin:end], operator.context.keys)
        out = operator.process(batch, chunk)
        played.results += results_of(out, begin)
        played.puts += [] if operator.puts is None else results_of(operator.puts, begin)
        played.drops += sorted(int(step) + begin for _, cause, _ in chunk.drops for step in cause)
        played.old += [] if out.old is None else [values_of(value) for value in out.old.all().to_pylist()]
    rows, played.counters = increments.running.rows(), increments.running.counters()
    played.rows = sorted(rows.to_pylist(), key=repr)
    return played


def results_of(out: Batch, begin: int) -> list[Result]:
    """Rows of a batch as the models give them; its first record was the tape's number ``begin``."""
    assert np.all(np.diff(out.cause) >= 0)
    keys = out.keys.typed(out.key).to_pylist()
    windows = zip(out.window_start_ms.tolist(), out.window_end_ms.tolist(), strict=True)
    values = [values_of(value) for value in out.value.all().to_pylist()]
    assert [value is not None for value in values] == out.valid.tolist()
    return list(zip((out.cause + begin).tolist(), keys, windows, values, out.time_ms.tolist(), strict=True))
