"""What an increment of a processor costs depends on its records and not on how much its store holds.

Rule: our own CPU time of the same records over eight times as many stored rows is below twice as much (a look-up is a
binary search), the least of a few runs. Nobody reads a run as a whole.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.processor_api import KeyValues, KeyValueStore, Processor, Record
from kstreams_replay.jobs.operators.processor.process_node import ROWS
from kstreams_replay.jobs.topology import Serde
from kstreams_replay.state.runs.sorted_runs import SortedRun as RunOfRows
from kstreams_replay.state.runs.stored_rows import StoredRows, in_memory
from tests.growth.test_growth import RUNS, least_below, uncollected
from tests.operators.processor.process_runs import ProcessorRun
from tests.operators.processor.stored import key_of

pytestmark = pytest.mark.slow

FEW, TIMES, BOUND, RECORDS = 10_000, 8, 2, 400
STRING, TOTALS = Serde.string(), Serde.json("n long, tags array<string>")

Step = Callable[[KeyValueStore, Record], None]


def count(store: KeyValueStore, record: Record) -> None:
    """By the record's own key."""
    found = store.get(record.key)
    store.put(record.key, {"n": (found or {"n": 0})["n"] + 1, "tags": ["a"]})


def count_another(store: KeyValueStore, record: Record) -> None:
    """By a key that nobody could know before the record is processed."""
    store.put_if_absent(f"key-{int(record.value) * 7_919 % FEW}", {"n": 1})
    store.delete(f"key-{int(record.value) * 6_101 % FEW}")


STEPS = {"its own key": count, "another key": count_another}


def stored(keys: int) -> StoredRows:
    """Rows of so many keys, as one increment left them."""
    names = pa.array([f"key-{number}".encode() for number in range(keys)], pa.binary())
    values = pa.array([b'{"n":5,"tags":["a","b"]}'] * keys, pa.binary())
    columns = [pa.array(["counts"] * keys), names, values]
    return in_memory(pa.table(columns, schema=ROWS.schema), ROWS.row_key, key_of)


def processor(step: Step) -> type[Processor]:
    class Counting(Processor):
        def init(self, context: Any) -> None:
            self.store = context.store("counts")

        def process(self, record: Record) -> None:
            step(self.store, record)

    return Counting


def cpu_seconds(step: Step, rows: StoredRows) -> float:
    """Of one increment of RECORDS records: resumed, processed, and its changed rows."""
    run = ProcessorRun(processor(step), [KeyValues("counts", STRING, TOTALS)])
    keys = np.random.default_rng(1).integers(0, FEW, RECORDS)
    tape = [(f"key-{key}", str(number), number) for number, key in enumerate(keys)]
    with uncollected():
        started = time.process_time()
        run.operator.resume_with(rows, {})
        run.operator.begin()
        run.process(tape)
        changed = run.operator.changes()
        taken = time.process_time() - started
    assert RECORDS // 2 < len(changed) <= 2 * RECORDS
    return taken


@pytest.mark.parametrize("name", STEPS)
def test_an_increment_of_a_processor_costs_its_records_and_not_the_store(name):
    step, small, large = STEPS[name], stored(FEW), stored(TIMES * FEW)
    cpu_seconds(step, small)  # compiles
    few = min(cpu_seconds(step, small) for _ in range(RUNS))

    assert least_below(BOUND * few, lambda: cpu_seconds(step, large)) < BOUND * few


@pytest.mark.parametrize("name", STEPS)
def test_stored_rows_that_nobody_asks_for_are_not_read(name, monkeypatch):
    read: list[int] = []
    take = RunOfRows.take
    monkeypatch.setattr(RunOfRows, "part", lambda *_: pytest.fail("a run was read as a whole"))
    monkeypatch.setattr(RunOfRows, "take", lambda run, rows, schema: read.append(len(rows)) or take(run, rows, schema))

    cpu_seconds(STEPS[name], stored(FEW))

    assert sum(read) <= 2 * RECORDS
