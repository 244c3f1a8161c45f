"""Keys as dictionary arrays: which files have them so, and how tables of several dictionaries become one.

Owns the choice between a dictionary and plain bytes. Rule: the keys of a table have at most one dictionary. A word may
be in it twice, and words may be in it that no row has. Whoever interns the keys gives equal words one code.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .in_place import leaf_of

_DICTIONARY_ROWS = 1 << 13
"""Keys of smaller row groups are read as they are."""
_KEY_BYTES = 8
"""Keys are read as dictionary arrays where a row group has no more bytes a key: then the file has most of them so, and
a key is read and interned once. Where its writer gave the dictionary up, which happens at 1 MiB, Arrow would make it,
at up to twice the cost of plain keys.
"""


def has_dictionaries(metadata: pq.FileMetaData, key: str | None, groups: Sequence[int] | None = None) -> bool:
    """Whether the column ``key`` of all row ``groups`` (None: of the file) has many values and is in the file as a
    dictionary.
    """
    if key is None:
        return False
    for number in range(metadata.num_row_groups) if groups is None else groups:
        group = metadata.row_group(number)
        leaf = leaf_of(group, key)
        if leaf is None or group.num_rows < _DICTIONARY_ROWS or "RLE_DICTIONARY" not in leaf.encodings:
            return False
        if leaf.total_uncompressed_size > _KEY_BYTES * group.num_rows:
            return False
    return True


def has_dictionary(table: pa.Table) -> bool:
    """Whether its keys are a dictionary array."""
    return "key" in table.column_names and bool(pa.types.is_dictionary(table.schema.field("key").type))


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of ``tables`` as one; where keys are a dictionary in some and binary in others, they become what they are in
    most rows. Of dictionary keys the table has one dictionary.
    """
    with_words = [table for table in tables if has_dictionary(table)]
    if 0 < len(with_words) < len(tables):
        are_words = 2 * sum(map(len, with_words)) > sum(map(len, tables))
        tables = [_with_keys(table, as_dictionary=are_words) for table in tables]
    whole = pa.concat_tables(tables, promote_options="default")
    return _with_one_dictionary(whole) if has_dictionary(whole) else whole


def without_idle_words(table: pa.Table) -> pa.Table:
    """``table``, with plain keys where a dictionary has more words than the table has rows: of a large row group, a
    slice may have few.
    """
    words = max((len(chunk.dictionary) for chunk in table["key"].chunks), default=0) if has_dictionary(table) else 0
    return _with_keys(table, as_dictionary=False) if words > len(table) else table


def _with_keys(table: pa.Table, *, as_dictionary: bool) -> pa.Table:
    if has_dictionary(table) == as_dictionary or "key" not in table.column_names:
        return table
    keys = table["key"].dictionary_encode() if as_dictionary else table["key"].cast(pa.binary())
    return table.set_column(table.column_names.index("key"), "key", keys)


def _with_one_dictionary(table: pa.Table) -> pa.Table:
    """``table`` with keys of one dictionary. Arrow would look for words that are twice, which costs what dictionaries
    save.
    """
    dictionaries: list[pa.Array] = []
    indices: list[pa.Array] = []
    first = 0
    for chunk in table["key"].chunks:
        words = chunk.dictionary
        if dictionaries and _begins_with(words, dictionaries[-1]):
            dictionaries[-1] = words  # of one row group, and Arrow appends what it reads
        elif not (dictionaries and _begins_with(dictionaries[-1], words)):
            first += len(dictionaries[-1]) if dictionaries else 0
            dictionaries.append(words)
        indices.append(pc.add(chunk.indices.cast(pa.int32()), pa.scalar(first, pa.int32())))
    if len(indices) < 2:
        return table
    keys = pa.DictionaryArray.from_arrays(pa.concat_arrays(indices), pa.concat_arrays(dictionaries), safe=False)
    return table.set_column(table.column_names.index("key"), "key", keys)


def _begins_with(words: pa.Array, others: pa.Array) -> bool:
    return len(others) <= len(words) and bool(words.slice(0, len(others)).equals(others))
