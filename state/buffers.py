"""Arrow arrays as NumPy views, and back, without a copy where Arrow's layout allows it.

Owns nothing. Rule: every function takes any slice (``array.offset`` may be anything), zero rows and all nulls; what
is in a null row of a view is undefined, except that binary views never reach outside their data.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class BinaryView(NamedTuple):
    """Bytes of row i are ``data[offsets[i]:offsets[i + 1]]``; ``data`` uint8, read-only, ``offsets`` int64, n + 1."""

    data: np.ndarray
    offsets: np.ndarray


def binary_view(array: pa.Array) -> BinaryView:
    """View of a (large) binary or string array; offsets are widened to int64 so that kernels compile once."""
    is_large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    assert is_large or pa.types.is_binary(array.type) or pa.types.is_string(array.type), array.type
    rows = len(array)
    _, offset_buffer, data_buffer = array.buffers()
    if rows == 0 or offset_buffer is None:
        offsets = np.zeros(rows + 1, np.int64)
    else:
        stored = np.frombuffer(offset_buffer, np.int64 if is_large else np.int32)
        offsets = stored[array.offset : array.offset + rows + 1].astype(np.int64)
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    data.flags.writeable = False  # Numba compiles read-only and writable arrays apart
    return BinaryView(data, offsets)


def fixed_view(array: pa.Array) -> np.ndarray:
    """Values of an int, long or double array, read-only."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]


def is_valid(array: pa.Array) -> np.ndarray:
    """True where ``array`` is not null, as a NumPy bool array."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def is_list(kind: pa.DataType) -> bool:
    """Whether it is one of Arrow's lists, of any length, long, or of a fixed length."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def masked(array: pa.Array, valid: np.ndarray) -> pa.Array:
    """``array``, null where not ``valid``."""
    return array if valid.all() else pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))


def only_chunk(table: pa.Table, name: str) -> pa.Array:
    """A column as one array; that of no chunks is empty."""
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.array([], column.type), *column.chunks])


def by_bits(rows: pa.Table) -> pa.Table:
    """``rows`` as ``float_bits`` of every column."""
    columns = [
        pa.chunked_array([float_bits(chunk) for chunk in column.chunks], _of_bits(column.type))
        for column in rows.columns
    ]
    return pa.table(columns, rows.column_names)


def float_bits(values: pa.Array) -> pa.Array:
    """``values`` with floats, also inside structs, lists and maps, as integers of the same bits.

    Polars takes 0.0 and -0.0 for equal. Their bytes differ, so they are two keys in Kafka.
    """
    kind = _of_bits(values.type)
    return values if kind.equals(values.type) else values.view(kind)


def _of_bits(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        return _WHOLE[kind.bit_width]
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_of_bits(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_of_bits(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_of_bits(kind.value_type)))
    return kind


_WHOLE = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def fixed_array(values: np.ndarray, valid: np.ndarray, arrow_type: pa.DataType) -> pa.Array:
    """Array of ``values``, null where not ``valid``; takes ``values`` over without a copy."""
    buffers = [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(arrow_type, len(values), buffers)


def binary_array(data: np.ndarray, offsets: np.ndarray, valid: np.ndarray | None = None) -> pa.BinaryArray:
    """Binary array of rows ``data[offsets[i]:offsets[i + 1]]``; at most 2 GiB - 1 bytes."""
    assert offsets[-1] < 2**31, f"a binary array holds less than 2 GiB, got {offsets[-1]} bytes"
    bitmap = None if valid is None else _bitmap(valid)
    buffers = [bitmap, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def big_endian_at(texts: pa.BinaryArray, offset: int) -> np.ndarray:
    """The numbers of eight bytes that begin at ``offset`` of each of ``texts``; below 0 it is counted from the end."""
    view = binary_view(texts)
    begins = (view.offsets[1:] if offset < 0 else view.offsets[:-1]) + offset
    return view.data[begins[:, None] + np.arange(8)].view(">i8").ravel().astype(np.int64)


def big_endian(numbers: np.ndarray) -> pa.BinaryArray:
    """Eight bytes of every number."""
    data = pa.py_buffer(np.ascontiguousarray(numbers.astype(">i8")))
    return pa.Array.from_buffers(pa.binary(8), len(numbers), [None, data]).cast(pa.binary())


def _bitmap(valid: np.ndarray) -> pa.Buffer | None:
    if valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
