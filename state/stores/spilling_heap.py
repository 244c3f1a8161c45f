"""A value heap that continues in a file when memory is full (KIP-328's proposed spillToDiskWhenFull).

Rule: at most ``records_max`` values and ``bytes_max`` bytes of them stay in memory. The others are written, batch by
batch, to one anonymous temporary file, which is deleted with the heap, and read from there through a memory map.
"""

import mmap
import tempfile
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .value_heap import ValueHeap


class SpillFile:
    """Batches of one column, appended to a temporary file."""

    def __init__(self, kind: pa.DataType) -> None:
        self._schema = pa.schema([("value", kind)])
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._map: mmap.mmap | None = None
        self.bytes = 0

    def write(self, values: pa.Array) -> tuple[int, int]:
        """Append ``values``; where they are: offset and length."""
        written = pa.record_batch([values], schema=self._schema).serialize()
        self._file.write(written)
        self._file.flush()
        # A map ends where the file ended when it was made. Arrays that were read keep the old map alive.
        self._map = None
        offset, self.bytes = self.bytes, self.bytes + written.size
        return offset, written.size

    def read(self, offset: int, length: int) -> pa.Array:
        """What is there, mapped and not copied."""
        if self._map is None:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        written = pa.py_buffer(self._map).slice(offset, length)
        return pa.ipc.read_record_batch(written, self._schema).column(0)


@dataclass(slots=True)
class _HeapSegment:
    """Values ``[base, base + length)``: ``values`` in memory, or their ``span`` in the file."""

    base: int
    length: int
    values: pa.Array | None
    span: tuple[int, int] = (0, 0)

    @property
    def bytes_in_memory(self) -> int:
        return 0 if self.values is None else int(self.values.get_total_buffer_size())


class SpillingHeap(ValueHeap):
    """As ValueHeap. ``records_max``/``bytes_max``: values and their bytes that stay in memory."""

    def __init__(self, kind: pa.DataType, *, records_max: int, bytes_max: int) -> None:
        super().__init__(kind)
        self.records_max, self.bytes_max = records_max, bytes_max
        self._parts: list[_HeapSegment] = []
        self._file: SpillFile | None = None

    @property
    def bytes_in_memory(self) -> int:
        return sum(part.bytes_in_memory for part in self._parts)

    @property
    def bytes_in_file(self) -> int:
        return 0 if self._file is None else self._file.bytes

    def append(self, values: pa.Array) -> int:
        """Add ``values``; returns the reference of the first. Values that memory has no room for go to the file."""
        base = self._size
        if len(values):
            self._parts.append(_HeapSegment(base, len(values), values))
            self._size += len(values)
            self._spill()
        return base

    def take(self, references: np.ndarray) -> pa.Array:
        """The values of ``references``; null for -1."""
        if not self._parts:
            return pa.nulls(len(references), self.kind)
        bases = np.array([part.base for part in self._parts], np.int64)
        part_of = np.searchsorted(bases, references, side="right") - 1
        pieces, indices = [pa.nulls(1, self.kind)], np.zeros(len(references), np.int64)
        size = 1
        for number in np.unique(part_of[references >= 0]).tolist():
            rows = np.flatnonzero(part_of == number)
            pieces.append(self._read(self._parts[number]).take(pa.array(references[rows] - bases[number])))
            indices[rows] = size + np.arange(len(rows))
            size += len(rows)
        return pa.concat_arrays(pieces).take(pa.array(indices))

    def keep_only(self, references: np.ndarray) -> None:
        """Forget values that ``references`` (changed in place) do not name, when it is worth it: piece by piece, so
        that memory holds one piece more than its bound.
        """
        if not self.is_wasteful:
            return
        before, old_file = self._parts, self._file
        # What stays is appended to a new file: the old one cannot shrink, and is gone when the last array on it is.
        self._parts, self._file, self._size = [], None, 0
        used = np.flatnonzero(references >= 0)
        used = used[np.argsort(references[used], kind="stable")]
        wanted = references[used].copy()
        for part in before:
            first, last = np.searchsorted(wanted, [part.base, part.base + part.length])
            if first < last:
                values = self._read(part, old_file).take(pa.array(wanted[first:last] - part.base))
                references[used[first:last]] = self.append(values) + np.arange(last - first)
            part.values = None
        self._kept = self._size

    def _spill(self) -> None:
        in_memory = [part for part in self._parts if part.values is not None]
        is_full = self.bytes_in_memory > self.bytes_max or sum(part.length for part in in_memory) > self.records_max
        if is_full:
            self._file = self._file or SpillFile(self.kind)
            for part in in_memory:
                assert part.values is not None
                part.span, part.values = self._file.write(part.values), None

    def _read(self, part: _HeapSegment, file: SpillFile | None = None) -> pa.Array:
        if part.values is not None:
            return part.values
        source = file or self._file
        assert source is not None
        return source.read(*part.span)
