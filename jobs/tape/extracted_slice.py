"""A landed slice whose records have the times that an extractor gives them (Consumed.with_timestamp_extractor).

Owns nothing but the substitution: whoever reads such a slice finds the extracted time as ``timestamp``, negative for a
record that is to be dropped or cannot be read, and what was landed as ``landed_timestamp``. Rule: the partition time
continues from chunk to chunk and from part to part; every other question is answered from where the chunks have got to,
and moves nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from ...state.times import known_times
from .landed_slice import Slice, known

_PIECE_ROWS = 1 << 16


class Extraction(Protocol):
    """The extractor at work on one partition. ``partition_time_ms``: the largest time so far; kept up."""

    partition_time_ms: int

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Rows with their extracted times."""
        ...

    def fork(self) -> "Extraction":
        """Another one that has got as far."""
        ...


@dataclass(frozen=True, slots=True)
class ExtractedSlice(Slice):
    """``extraction``: where the chunks have got to."""

    extraction: Extraction = field(kw_only=True)

    def part(self, begin: int, end: int) -> "ExtractedSlice":
        """What of it is in ``[begin, end)``; parts are read one after the other."""
        return extracted(Slice.part(self, begin, end), self.extraction)

    def chunks(self, records: int, *, dictionary_keys: bool = False) -> Iterator[pa.Table]:
        """As of a slice."""
        for piece in Slice.chunks(self, records, dictionary_keys=dictionary_keys):
            yield self.extraction(piece.combine_chunks())

    def _pieces(self) -> Iterator[pa.Table]:
        extraction = self.extraction.fork()
        for piece in Slice.chunks(self, _PIECE_ROWS, dictionary_keys=True):
            yield extraction(piece.combine_chunks())

    def times(self, *, arrival: bool = False) -> pa.Table:
        """As of a slice."""
        columns = ["offset", "timestamp", *(["arrival"] if arrival else [])]
        nothing = pa.table({name: pa.array([], pa.int64()) for name in columns})
        pieces = (piece.select([name for name in columns if name in piece.column_names]) for piece in self._pieces())
        return known(pa.concat_tables([nothing, *pieces], promote_options="default").combine_chunks())

    def offsets_and(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """As of a slice."""
        if name != "timestamp":
            return Slice.offsets_and(self, name)
        times = self.times()
        return times["offset"].to_numpy().copy(), times["timestamp"].to_numpy().copy()

    def first(self, least: int = 0) -> tuple[int, int] | None:
        """Offset and time of the first record from offset ``least`` on that has a time; None when there is none."""
        for piece in self._pieces():
            offset, time_ms = piece["offset"].to_numpy(), known_times(piece["timestamp"].to_numpy())
            rows = np.flatnonzero((offset >= least) & (time_ms >= 0))
            if len(rows):
                return int(offset[rows[0]]), int(time_ms[rows[0]])
        return None

    def keys_and_times(self) -> Iterator[tuple[pa.Array, np.ndarray]]:
        """As of a slice."""
        for piece in self._pieces():
            yield piece["key"].chunk(0), known_times(piece["timestamp"].to_numpy())

    def latest_ms(self) -> int:
        """As of a slice; every record is read."""
        return int(self.times()["timestamp"].to_numpy().max(initial=-1))


def extracted(slice_: Slice, extraction: Extraction) -> ExtractedSlice:
    """``slice_`` with the times that ``extraction`` gives its records."""
    return ExtractedSlice(slice_.path, slice_.files, slice_.begin, slice_.end, slice_.excluded, extraction=extraction)
