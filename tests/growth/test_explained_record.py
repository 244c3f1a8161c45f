"""What the explanation of one record reads depends on the increment that read it and not on how long the history is.

Rule: rows are counted of the files that are opened, each time that they are: landed records, stores, outputs. Ledgers
are left out: they are searched by halves.
"""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.topology import Materialized, StreamsBuilder, Topology
from kstreams_replay.state.tables.parquet_reader import OpenedFile
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.explain.explained import landed, run, stream
from tests.planted import plant

pytestmark = pytest.mark.slow

FEW, TIMES, BOUND, RECORDS, KEYS = 4, 10, 2, 100, 10
"""Increments of a short history, how many times as many a long one has, how many times as many rows may be read for it;
records of an increment, and keys that they have.
"""


def counts() -> Topology:
    builder = StreamsBuilder()
    stream(builder).group_by_key().count(Materialized.as_("counts")).to_stream().to("counts")
    return builder.build()


def history(folder: Path, increments: int) -> Warehouse:
    """A landing an increment, of RECORDS records of the same keys."""
    warehouse = Warehouse(folder)
    for number in range(increments):
        offsets = range(number * RECORDS, (number + 1) * RECORDS)
        plant(warehouse, "in", landed([(f"key-{offset % KEYS}", "x", offset) for offset in offsets]), partitions=1)
    run(warehouse, counts(), max_records=RECORDS)
    return warehouse


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each file that is opened for its rows."""
    found: list[int] = []
    parquet = OpenedFile.parquet

    def counted(opened: OpenedFile, **options: Any) -> pq.ParquetFile:
        if "/ledger/" not in opened.place:
            found.append(opened.metadata.num_rows)
        return parquet(opened, **options)

    monkeypatch.setattr(OpenedFile, "parquet", counted)
    return found


def explained_from(warehouse: Warehouse, increments: int, *, whole: bool, rows_read: list[int]) -> int:
    """Rows that are read for a record in the middle of a history."""
    middle = increments // 2
    offset = middle * RECORDS + RECORDS // 2
    rows_read.clear()
    explanation = explain(warehouse, "p", counts(), ("in", 0, offset), whole=whole)
    assert explanation.increment == middle + 1
    said = [sentence for step in explanation.steps for sentence in step.sentences]
    key, count = f"key-{offset % KEYS}", offset // KEYS + 1
    assert f"writes outputs/counts offset {offset}: '{key}' = {count}, time {offset}" in said
    return sum(rows_read)


@pytest.mark.parametrize("whole", [False, True])
def test_an_explanation_reads_as_much_of_a_long_history_as_of_a_short_one(tmp_path, rows_read, whole):
    short, long = history(tmp_path / "short", FEW), history(tmp_path / "long", FEW * TIMES)

    few = explained_from(short, FEW, whole=whole, rows_read=rows_read)
    many = explained_from(long, FEW * TIMES, whole=whole, rows_read=rows_read)

    assert few >= RECORDS
    assert many < BOUND * few
