"""Rows that are not in the order of their offsets: dense and sparse ones, beyond 2**53, and offsets that come twice."""

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.state.tables.offset_order import in_offset_order
from kstreams_replay.state.tables.parquet_reader import DataFile

FAR = 2**62


def file_of(folder: Path, name: str, offsets: Sequence[int]) -> DataFile:
    """Of rows that have in `value` their number in the file."""
    numbers = pa.array([f"{name} {row}".encode() for row in range(len(offsets))])
    pq.write_table(pa.table({"offset": pa.array(offsets, pa.int64()), "value": numbers}), folder / name)
    size = (folder / name).stat().st_size
    return DataFile(name, size, len(offsets), 0, min(offsets), max(offsets))


def shuffled(offsets: Sequence[int]) -> list[int]:
    return random.Random(0).sample(offsets, len(offsets))


@pytest.mark.parametrize(
    "offsets",
    [
        shuffled(range(1000)),
        shuffled(range(0, 2000, 2)),  # every second one, as after a transaction of each record
        shuffled(range(0, 9000, 9)),
        shuffled([0, *range(FAR, FAR + 500)]),
        shuffled([*range(500), *range(100, 200)]),  # some come twice
        [5, 5, 5, 4],
        [1, 0],
    ],
    ids=["dense", "half", "sparse", "far", "twice", "thrice", "two"],
)
def test_rows_rise_by_offset_and_none_is_lost(tmp_path, offsets):
    half = len(offsets) // 2
    files = [file_of(tmp_path, "a", offsets[:half]), file_of(tmp_path, "b", offsets[half:])]
    want = sorted(
        [(offset, f"a {row}".encode()) for row, offset in enumerate(offsets[:half])]
        + [(offset, f"b {row}".encode()) for row, offset in enumerate(offsets[half:])],
        key=lambda each: each[0],
    )

    batches = list(in_offset_order(str(tmp_path), files, ["offset", "value"], (0, 2**63 - 1), 100))

    rows = pa.Table.from_batches(batches)
    got = list(zip(rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True))
    assert [offset for offset, _ in got] == [offset for offset, _ in want]
    assert sorted(got) == sorted(want)
    assert max(map(len, batches)) <= 100
