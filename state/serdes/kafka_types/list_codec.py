"""Lists as Kafka's ListSerializer writes them, of any serde.

Rule: a byte is the form of the entries. 0: of entries of one size (short, int, long, float, double, UUID), the number
of nulls and their places (int32), the number of entries, and the entries that are not null. 1: of others, the number of
entries, and each with its length before it, -1 for null. Bytes after the last entry are ignored, as in Kafka's
deserializer. A list that is cut off is bad, also where Kafka's would fill its last entry with zeros. An empty last
entry is read, which Kafka's refuses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...buffers import binary_array, binary_view, is_valid
from ...compilation.kernel_compilation import kernel
from ..codec import Codec, Decoded, LeftToColumns, Read, Write, refuse_value
from ..fixed_width import FixedWidth
from ..gathering import gather
from .uuid_codec import UuidCodec

if TYPE_CHECKING:
    from ..serde import Serde

_SIZES = {"short": 2, "int": 4, "long": 8, "float": 4, "double": 8}
_BAD = -1
_NULL_ENTRY = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class ListCodec(Codec):
    """``inner``: the serde of an entry."""

    inner: "Serde"

    @property
    def name(self) -> str:
        return f"list({self.inner})"

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.list_(self.inner.arrow_type)

    @property
    def _entry_size(self) -> int:
        """Bytes of every entry, or -1 where they differ."""
        if isinstance(self.inner.codec, UuidCodec):
            return 36
        return _SIZES[self.inner.codec.kind] if isinstance(self.inner.codec, FixedWidth) else -1

    @property
    def is_own(self) -> bool:
        return self.inner.codec.is_own

    @property
    def is_canonical(self) -> bool:
        return False

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        view, valid = binary_view(binary), is_valid(binary)
        counts = np.zeros(len(binary), np.int64)
        _count_entries(view.data, view.offsets, valid, self._entry_size, counts)
        bad = counts == _BAD
        offsets = np.concatenate([[0], np.cumsum(np.maximum(counts, 0))])
        begins, lengths = np.zeros((2, offsets[-1]), np.int64)
        _find_entries(view.data, view.offsets, valid & ~bad, self._entry_size, offsets, begins, lengths, bad)
        entries = self.inner.decode(gather(view.data, begins, lengths))
        reasons = {int(row): "expected a list, got one that is cut off" for row in np.flatnonzero(bad)}
        for entry in np.flatnonzero(entries.bad):
            row = int(np.searchsorted(offsets, entry, side="right")) - 1
            if not bad[row]:
                bad[row] = True
                reasons[row] = f"entry {entry - offsets[row]}: {entries.reasons[int(entry)]}"
        mask, starts = pa.array(bad | ~valid), pa.array(offsets.astype(np.int32))
        values = pa.ListArray.from_arrays(starts, entries.values, self.arrow_type, mask=mask)
        return Decoded(values, bad, dict(sorted(reasons.items())))

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        valid, size = is_valid(values), self._entry_size
        counts = np.asarray(pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False), np.int64)
        firsts = np.concatenate([[0], np.cumsum(counts)])
        entries = self.inner.encode(values.flatten())
        view, there = binary_view(entries), is_valid(entries)
        lengths = np.where(there, np.diff(view.offsets), 0)
        each = lengths + np.where(there, 0, 4) if size > 0 else lengths + 4
        totals = np.concatenate([[0], np.cumsum(each)])
        sizes = (totals[firsts[1:]] - totals[firsts[:-1]] + (9 if size > 0 else 5)) * valid
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        data = np.zeros(int(offsets[-1]), np.uint8)
        _write_lists(data, offsets, valid, size, firsts, view.data, view.offsets, there)
        return binary_array(data, offsets, valid)

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.diff(binary_view(self.encode(values)).offsets)

    def to_python(self, values: pa.Array) -> list[Any]:
        entries, counts = self.inner.to_python(values.flatten()), pc.list_value_length(values).to_pylist()
        lists, at = [], 0
        for count in counts:
            lists.append(None if count is None else entries[at : at + count])
            at += count or 0
        return lists

    def from_python(self, values: list[Any]) -> pa.Array:
        for row, value in enumerate(values):
            if value is not None and not isinstance(value, list | tuple):
                refuse_value(f"Serde.{self.name}, row {row}", "a list", value)
        entries = self.inner.from_python([one for value in values if value is not None for one in value])
        offsets = np.concatenate([[0], np.cumsum([0 if value is None else len(value) for value in values])])
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), entries, self.arrow_type, mask=mask)

    def value_writer(self) -> Write | None:
        write_entry, size = self.inner.codec.value_writer(), self._entry_size
        if write_entry is None:
            return None

        def write(value: Any) -> bytes:
            if type(value) is not list and type(value) is not tuple:
                raise LeftToColumns
            entries = [None if one is None else write_entry(one) for one in value]
            count = len(entries).to_bytes(4, "big")
            if size < 0:
                sized = (_NULL_ENTRY if one is None else len(one).to_bytes(4, "big") + one for one in entries)
                return b"\1" + count + b"".join(sized)
            nulls = [index.to_bytes(4, "big") for index, one in enumerate(entries) if one is None]
            there = (one for one in entries if one is not None)
            return b"".join((b"\0", len(nulls).to_bytes(4, "big"), *nulls, count, *there))

        return write

    def value_reader(self) -> Read | None:
        read_entry, size = self.inner.codec.value_reader(), self._entry_size
        if read_entry is None:
            return None

        def read(data: bytes) -> list[Any]:
            spans = _spans_with_sizes(data) if size < 0 else _spans_of_size(data, size)
            return [None if end < 0 else read_entry(data[begin:end]) for begin, end in spans]

        return read

    def taking(self) -> Callable[[Any], Any]:
        take_one = self.inner.codec.taking()
        return lambda value: [take_one(one) for one in value] if type(value) is list else self._through_a_column(value)

    def keeping(self) -> Callable[[Any], Any]:
        take, keep_one = self.taking(), self.inner.codec.keeping()
        return lambda value: None if value is None else [keep_one(one) for one in take(value)]


def _spans_with_sizes(data: bytes) -> list[tuple[int, int]]:
    """Where each entry begins and ends, (0, -1) for null, of bytes that the codec has written."""
    count = int.from_bytes(data[1:5], "big")
    if data[0] != 1 or len(data) < 5 + 4 * count:
        raise LeftToColumns
    at, spans = 5, []
    for _ in range(count):
        written = data[at : at + 4]
        at += 4
        if written == _NULL_ENTRY:
            spans.append((0, -1))
        else:
            size = int.from_bytes(written, "big")
            spans.append((at, at + size))
            at += size
    if at != len(data):
        raise LeftToColumns
    return spans


def _spans_of_size(data: bytes, size: int) -> list[tuple[int, int]]:
    """As ``_spans_with_sizes``, of entries of ``size`` bytes."""
    count_at = 5 + 4 * int.from_bytes(data[1:5], "big")
    count = int.from_bytes(data[count_at : count_at + 4], "big")
    if data[0] != 0 or len(data) < count_at + 4 or count > len(data):
        raise LeftToColumns
    nulls = [int.from_bytes(data[at : at + 4], "big") for at in range(5, count_at, 4)]
    at, spans, is_null = count_at + 4, [], set(nulls)
    for index in range(count):
        if index in is_null:
            spans.append((0, -1))
        else:
            spans.append((at, at + size))
            at += size
    if at != len(data) or len(is_null) != len(nulls) or any(index >= len(spans) for index in nulls):
        raise LeftToColumns
    return spans


@kernel
def _count_entries(data, offsets, wanted, entry_size, counts):  # type: ignore[no-untyped-def]
    """Entries of each row; -1 for one that cannot be a list of so many."""
    for row in range(wanted.shape[0]):
        if not wanted[row]:
            continue
        at, end = offsets[row], offsets[row + 1]
        nulls = np.int64(0)
        fits = end - at >= 5 and (data[at] == 1 or (data[at] == 0 and entry_size > 0 and end - at >= 9))
        if fits and data[at] == 0:
            for i in range(1, 5):
                nulls = (nulls << 8) | np.int64(data[at + i])
            fits = nulls * 4 <= end - at - 9
            at += 4 + 4 * nulls
        if not fits:
            counts[row] = -1
            continue
        count = np.int64(0)
        for i in range(1, 5):
            count = (count << 8) | np.int64(data[at + i])
        # The caller allocates room for so many entries: four damaged bytes must not ask for 2**32 of them.
        room = (end - at - 5) // 4 if data[offsets[row]] == 1 else nulls + (end - at - 5) // entry_size
        counts[row] = count if count <= room else -1


@kernel
def _find_entries(data, offsets, wanted, entry_size, firsts, begins, lengths, bad):  # type: ignore[no-untyped-def]
    """The offset of each entry and its length, -1 for null; ``bad`` is set for a row that ends before its entries."""
    for row in range(wanted.shape[0]):
        if not wanted[row]:
            continue
        at, end = offsets[row], offsets[row + 1]
        first, last = firsts[row], firsts[row + 1]
        has_sizes = data[at] == 1
        if not has_sizes:
            nulls = np.int64(0)
            for i in range(1, 5):
                nulls = (nulls << 8) | np.int64(data[at + i])
            at += 5
            for _ in range(nulls):
                index = np.int64(0)
                for i in range(4):
                    index = (index << 8) | np.int64(data[at + i])
                # ListDeserializer asks only whether an entry's index is among the nulls. An index behind the last
                # entry, or one that is there twice, changes nothing.
                if index < last - first:
                    lengths[first + index] = -1
                at += 4
            at += 4
        else:
            at += 5
        for entry in range(first, last):
            length = np.int64(entry_size)
            if has_sizes:
                length = np.int64(0)
                if at + 4 > end:
                    bad[row] = True
                    break
                for i in range(4):
                    length = (length << 8) | np.int64(data[at + i])
                at += 4
                if length == 0xFFFFFFFF:
                    length = np.int64(-1)
            elif lengths[entry] == -1:
                length = np.int64(-1)
            if at + max(length, 0) > end:
                bad[row] = True
                break
            begins[entry], lengths[entry] = at, length
            at += max(length, 0)
        if bad[row]:
            for entry in range(first, last):
                lengths[entry] = -1


@kernel
def _write_lists(data, offsets, wanted, entry_size, firsts, entries, entry_offsets, there):  # type: ignore[no-untyped-def]
    for row in range(wanted.shape[0]):
        if not wanted[row]:
            continue
        at, first, last = offsets[row], firsts[row], firsts[row + 1]
        has_sizes = entry_size < 0
        data[at] = 1 if has_sizes else 0
        at += 1
        if not has_sizes:
            nulls = np.int64(0)
            for entry in range(first, last):
                nulls += 0 if there[entry] else 1
            for i in range(4):
                data[at + i] = (nulls >> (8 * (3 - i))) & 0xFF
            at += 4
            for entry in range(first, last):
                if not there[entry]:
                    for i in range(4):
                        data[at + i] = ((entry - first) >> (8 * (3 - i))) & 0xFF
                    at += 4
        for i in range(4):
            data[at + i] = ((last - first) >> (8 * (3 - i))) & 0xFF
        at += 4
        for entry in range(first, last):
            length = entry_offsets[entry + 1] - entry_offsets[entry] if there[entry] else np.int64(-1)
            if has_sizes:
                for i in range(4):
                    data[at + i] = (length >> (8 * (3 - i))) & 0xFF
                at += 4
            for i in range(max(length, 0)):
                data[at + i] = entries[entry_offsets[entry] + i]
            at += max(length, 0)
