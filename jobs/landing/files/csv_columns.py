"""Columns of CSV, all rows of a chunk of lines at once, where Arrow's reader finds in them what Python's finds.

Owns when that is so. Rule: each line of the chunk is a row, and its quotes are regular. A field is quoted as a whole or
does not begin with a quote, and quotes within a quoted field are doubled. Python's reader takes all other chunks.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ..file_source import UTF_8, FileSource
from .text_lines import line_ends


def can_have_columns(source: FileSource) -> bool:
    """May files of the source be read so at all?"""
    is_plain = source.encoding == UTF_8 and len(source.delimiter.encode()) == 1
    return is_plain and not source.decimal_comma and not source.json_types


def csv_columns(source: FileSource, chunk: bytes, width: int) -> list[pa.StringArray] | None:
    """``width`` columns of the rows of ``chunk``, whole lines; None where they are to be read one by one."""
    if b"\0" in chunk or (b"\r" in chunk and chunk.count(b"\r") != chunk.count(b"\r\n")):
        return None
    starts, ends = line_ends(chunk)
    data = np.frombuffer(chunk, np.uint8)
    is_blank = (starts == ends) | (data[np.minimum(starts, len(data) - 1)] == ord("\r"))
    if is_blank.any() or not _quotes_are_regular(data, ends, ord(source.delimiter)):
        return None
    names = [f"c{number}" for number in range(width)]
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(chunk),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(chunk) + 1),
            pyarrow.csv.ParseOptions(delimiter=source.delimiter, ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[],
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowException:
        return None
    return [column.combine_chunks() for column in table.columns] if len(table) == len(starts) else None


def _quotes_are_regular(data: np.ndarray, ends: np.ndarray, delimiter: int) -> bool:
    quotes = np.flatnonzero(data == ord('"'))
    if not len(quotes):
        return True
    if (np.searchsorted(quotes, ends) % 2).any():
        return False  # a field goes on in the next line
    # A doubled quote ends one pair and begins the next, so a quote may be beside a quote.
    opening, closing = quotes[::2], quotes[1::2]
    before = data[np.maximum(opening - 1, 0)]
    behind = data[np.minimum(closing + 1, len(data) - 1)]
    opens = (opening == 0) | _is_one_of(before, (delimiter, ord("\n"), ord('"')))
    closes = (closing == len(data) - 1) | _is_one_of(behind, (delimiter, ord("\n"), ord("\r"), ord('"')))
    return bool(opens.all() and closes.all())


def _is_one_of(values: np.ndarray, wanted: Sequence[int]) -> np.ndarray:
    return np.isin(values, np.array(wanted, np.uint8))
