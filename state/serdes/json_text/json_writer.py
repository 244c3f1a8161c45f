"""Columns into JSON texts, column by column.

Rule: compact, keys in the order of the schema, null fields written as ``null``. Strings are escaped as Jackson does
(quote, backslash, control characters), all else is plain UTF-8. A double has the shortest digits that restore it, a
whole one ``.0``; NaN and infinities are NaN, Infinity, -Infinity. Types without a JSON form are written as
spelled_types says.
"""

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...buffers import is_valid
from ...errors import ConfigError
from .spelled_types import spelled

_NEEDS_ESCAPE = r'[\x00-\x1f"\\]'
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_texts(values: pa.Array) -> pa.StringArray:
    """JSON text of each row; ``null`` for null, so that no row is null."""
    if pa.types.is_struct(values.type):
        return _objects(values)
    if pa.types.is_list(values.type):
        return _arrays(values)
    if pa.types.is_string(values.type):
        return _or_null(pc.binary_join_element_wise('"', _escaped(values), '"', ""))
    if pa.types.is_floating(values.type):
        return _or_null(_doubles(values))
    if pa.types.is_map(values.type):
        return _maps(values)
    inner = spelled(values, "Serde.json")
    return _or_null(values.cast(pa.string()) if inner is None else pc.binary_join_element_wise('"', inner, '"', ""))


def _objects(values: pa.StructArray) -> pa.StringArray:
    pieces: list[pa.Array | str] = []
    for index, field in enumerate(values.type):
        pieces += [("{" if index == 0 else ",") + json.dumps(field.name, ensure_ascii=False) + ":"]
        pieces += [json_texts(values.field(index))]
    texts = pc.binary_join_element_wise(*pieces, "}", "")
    return texts if values.null_count == 0 else pc.if_else(values.is_valid(), texts, "null")


def _arrays(values: pa.ListArray) -> pa.StringArray:
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    elements = json_texts(values.flatten())
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), elements), ",")
    texts = pc.binary_join_element_wise("[", joined, "]", "")
    return texts if values.null_count == 0 else pc.if_else(values.is_valid(), texts, "null")


def _maps(values: pa.MapArray) -> pa.StringArray:
    """Entries in their order. ConfigError where a key occurs twice, which no reader takes."""
    # ``keys`` and ``items`` of a slice are those of the whole array; only ``offsets`` are the slice's own.
    offsets, first = np.asarray(values.offsets), values.offsets[0].as_py() if len(values) else 0
    keys = values.keys.slice(first, int(offsets[-1]) - first) if len(values) else values.keys.slice(0, 0)
    items = values.items.slice(first, len(keys))
    rows = np.repeat(np.arange(len(values)), np.diff(offsets)) if len(values) else np.zeros(0, np.int64)
    if len(pl.DataFrame({"row": rows, "key": pl.Series(keys)}).unique()) < len(rows):
        raise ConfigError("Serde.json", "each key of a map once", "one twice", "correct the value")
    names = pc.binary_join_element_wise('"', _escaped(keys), '":', "")
    entries = pc.binary_join_element_wise(names, json_texts(items), "")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array((offsets - first).astype(np.int32)), entries), ",")
    texts = pc.binary_join_element_wise("{", joined, "}", "")
    return texts if values.null_count == 0 else pc.if_else(values.is_valid(), texts, "null")


def _escaped(strings: pa.StringArray) -> pa.StringArray:
    needs = pc.fill_null(pc.match_substring_regex(strings, _NEEDS_ESCAPE), False)
    if not pc.any(needs).as_py():
        return strings
    written = [json.dumps(one, ensure_ascii=False)[1:-1] for one in strings.filter(needs).to_pylist()]
    return pc.replace_with_mask(strings, needs, pa.array(written, pa.string()))


def _doubles(numbers: pa.Array) -> pa.StringArray:
    texts = numbers.cast(pa.string())
    is_bare = pc.invert(pc.match_substring_regex(texts, "[.en]"))  # neither point, exponent, nan nor inf
    texts = pc.if_else(is_bare, pc.binary_join_element_wise(texts, ".0", ""), texts)
    if pc.all(pc.is_finite(numbers), min_count=0).as_py():
        return texts
    for arrow, ours in _NOT_FINITE.items():
        texts = pc.if_else(pc.equal(texts, arrow), ours, texts)
    return texts


def _or_null(texts: pa.StringArray) -> pa.StringArray:
    return texts if texts.null_count == 0 else pc.fill_null(texts, "null")


def encode_json(values: pa.Array) -> pa.BinaryArray:
    """JSON text of each row as bytes; null stays null."""
    texts = json_texts(values).cast(pa.binary())
    if values.null_count == 0:
        return texts
    return pc.if_else(pa.array(is_valid(values)), texts, pa.scalar(None, pa.binary()))
