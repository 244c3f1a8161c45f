"""Record times that can hardly be meant: seconds taken for milliseconds land as 1970, microseconds in the far future.

Owns the search among the records of one landing increment. Rule: files whose bounds are plausible are not opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...state.errors import DamagedFile
from ...state.tables.data_files import DataFile, read_rows
from ...state.tables.warehouse import LANDED_SCHEMA
from ...state.times import NO_TIMESTAMP_MS, UNBOUNDED
from .files.columns import time_text

_COLUMNS = pa.schema([LANDED_SCHEMA.field("offset"), LANDED_SCHEMA.field("timestamp")])


@dataclass(frozen=True, slots=True)
class Implausible:
    """``records`` of an increment before the plausible span or after it, and the first of them."""

    records: int
    partition: int
    offset: int
    time_ms: int

    def sentence(self, topic: str, of: int, *, of_files: bool) -> str:
        """The message to a user; ``of``: records of the landing; ``of_files``: their times come of a column."""
        share = f"{self.records:,} of {of:,} records ({self.records / max(1, of):.1%})"
        return (
            f"{topic}: {share} have times that can hardly be meant, the first at offset {self.offset} of partition "
            f"{self.partition}: {time_text(self.time_ms)}; is the unit of the times right"
            f"{' (--timestamp-unit)' if of_files else ''}?"
        )


def find_implausible(
    path: str, files: Sequence[DataFile], earliest_ms: int, latest_ms: int, began: Mapping[int, int]
) -> Implausible | None:
    """Records of ``files`` with times outside ``[earliest_ms, latest_ms]``; records without a time are none. ``began``:
    by partition an offset; records below it are not looked at.
    """
    count, first = 0, None
    for file in files:
        begin, bounds = began.get(file.partition, 0), file.bounds.get("timestamp")
        # No bounds: whoever registered the file did not read its times, and the footer does not have them.
        if bounds is not None and earliest_ms <= bounds[0] and bounds[1] <= latest_ms:
            continue
        if not file.may_hold("offset", begin, UNBOUNDED):
            continue
        try:
            rows = read_rows(path, [file], _COLUMNS)
        except DamagedFile:
            # Its owner has written the rows to other files since, which the next landing registers.
            # An error behind the commit would come again in every landing.
            if file.in_place is None:
                raise
            continue
        times, offsets = rows["timestamp"].to_numpy(), rows["offset"].to_numpy()
        outside = np.flatnonzero(((times < earliest_ms) & (times != NO_TIMESTAMP_MS)) | (times > latest_ms))
        outside = outside[offsets[outside] >= begin]
        count += len(outside)
        if first is None and len(outside):
            row = int(outside[0])
            first = Implausible(0, file.partition, int(offsets[row]), int(times[row]))
    return None if first is None else Implausible(count, first.partition, first.offset, first.time_ms)
