"""The rows of differences that are shown: key, window and value, read again by their places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.tables.branch_files import table_files
from ...state.tables.data_files import DataFile, read_rows
from ...state.tables.warehouse import LANDED_SCHEMA, WINDOW
from ..graph.day_windows import DayWindows
from .case import Case
from .sides import Side


@dataclass(frozen=True)
class ShownRow:
    """``value`` None: a tombstone."""

    partition: int
    offset: int
    time_ms: int
    key: Any
    window: tuple[int, int] | None
    value: Any

    def fields(self) -> dict[str, Any]:
        """All but key and window."""
        return {"partition": self.partition, "offset": self.offset, "time_ms": self.time_ms, "value": self.value}


Shown = dict[int, ShownRow]
"""By row of its side."""


def read_shown(case: Case, ours: np.ndarray, theirs: np.ndarray) -> tuple[Shown, Shown]:
    """Rows of both sides, given by number; -1 is none."""
    return _ours(case, ours[ours >= 0]), _theirs(case, theirs[theirs >= 0])


def _ours(case: Case, rows: np.ndarray) -> Shown:
    shape, output = case.output.sink.shape, case.output
    windows = [(name, pa.int64()) for name in (WINDOW if output.windows else ())]
    schema = pa.schema([
        ("partition", pa.int32()), ("offset", pa.int64()), ("key", shape.key.arrow_type), *windows,
        ("value", shape.value.arrow_type), ("record_time_ms", pa.int64()),
    ])  # fmt: skip
    path = case.warehouse.pipeline(case.pipeline).table(output.table)
    files = table_files(case.warehouse, case.pipeline, case.done, output.table)
    shown = {}
    for row, read in _read(case.ours, rows, path, files, schema):
        window = (read[WINDOW[0]].as_py(), read[WINDOW[1]].as_py()) if output.windows else None
        (key,), (value,) = shape.key.to_python(_one(read["key"])), shape.value.to_python(_one(read["value"]))
        shown[row] = _row(case.ours, row, key, window, value)
    return shown


def _theirs(case: Case, rows: np.ndarray) -> Shown:
    output = case.output
    schema = pa.schema([LANDED_SCHEMA.field(name) for name in ("partition", "offset", "key", "value")])
    shown = {}
    for row, read in _read(case.theirs, rows, case.landed.path, case.landed.files, schema):
        keys, values = (
            serde.decode(_one(read[name])) for serde, name in ((output.key_serde, "key"), (output.value_serde, "value"))
        )
        (key,), window = output.key_serde.to_python(keys.values), None
        if output.windows is not None and key is not None:
            end = key.window_end_ms if output.has_ends else _end_of(case, key.window_start_ms)
            key, window = key.key, (key.window_start_ms, end)
        (value,) = output.value_serde.to_python(values.values)
        if keys.bad[0]:
            key = read["key"].as_py()
        if values.bad[0]:
            value = read["value"].as_py()
        shown[row] = _row(case.theirs, row, key, window, value)
    return shown


def _end_of(case: Case, start_ms: int) -> int:
    """Of a window whose end is in no bytes: as ours has it; of days, whose lengths differ, as the zone's clocks do."""
    same = np.flatnonzero(case.ours.start == start_ms)
    if len(same):
        return int(case.ours.end[same[0]])
    windows = next((node.windowed_by for node in case.output.above if node.windowed_by is not None), None)
    if isinstance(windows, DayWindows):
        return int(windows.listing().bounds_at(np.array([start_ms]))[1][0])
    return start_ms + (int(case.ours.end[0] - case.ours.start[0]) if len(case.ours) else 0)


def _read(
    side: Side, rows: np.ndarray, path: str, files: Sequence[DataFile], schema: pa.Schema
) -> Iterator[tuple[int, dict[str, pa.Scalar]]]:
    """Each row of the side with its columns, as scalars."""
    for file in files:
        here = rows[side.partition[rows] == file.partition]
        here = [row for row in here.tolist() if file.may_hold("offset", int(side.offset[row]), int(side.offset[row]))]
        if not here:
            continue
        table = read_rows(path, [file], schema)
        for row in here:
            at = pc.index(table["offset"], pa.scalar(int(side.offset[row]), pa.int64())).as_py()
            if at >= 0:
                yield row, {name: table[name][at] for name in table.column_names}


def _one(scalar: pa.Scalar) -> pa.Array:
    return pa.array([scalar.as_py()], scalar.type) if not pa.types.is_map(scalar.type) else pa.repeat(scalar, 1)


def _row(side: Side, row: int, key: Any, window: tuple[int, int] | None, value: Any) -> ShownRow:
    return ShownRow(int(side.partition[row]), int(side.offset[row]), int(side.time[row]), key, window, value)
