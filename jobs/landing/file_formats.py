"""Formats of files: everything about a format that is known before a file is opened.

Owns their names and traits. Rule: nothing else compares names of formats. How one is read is its ``FormatReader``
(files/formats.py), which has the same name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

FormatName = Literal["jsonl", "parquet", "csv", "avro", "lines"]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """``name``: in declarations, plans and words of the command. ``extensions``: by which files are known, in lower
    case, without a dot. ``unit``: what a person counts in such a file, ``line`` or ``row``, from 1. ``has_text_cells``:
    cells are text, whose types, names and words for null are declared. ``has_json_lines``: a row
    is a line of JSON, which may be in an envelope. ``has_header``: names of columns
    are in the file, if none are declared. ``has_arrow_types``: columns have types of
    their own. ``delimiter``: between cells of text, if none is declared. ``kind``: what
    Dagster draws.
    """

    name: FormatName
    extensions: tuple[str, ...]
    unit: str
    kind: str
    has_text_cells: bool = False
    has_json_lines: bool = False
    has_header: bool = True
    has_arrow_types: bool = False
    delimiter: str = ","


_ALL = (
    FileFormat("jsonl", ("jsonl", "ndjson", "json"), unit="line", kind="json", has_json_lines=True),
    FileFormat("parquet", ("parquet", "pq"), unit="row", kind="parquet", has_arrow_types=True),
    FileFormat("csv", ("csv",), unit="line", kind="csv", has_text_cells=True),
    FileFormat("avro", ("avro",), unit="row", kind="avro", has_arrow_types=True),
    FileFormat("lines", (), unit="line", kind="text", has_text_cells=True, has_header=False, delimiter="\t"),
)
FORMATS: Mapping[str, FileFormat] = MappingProxyType({each.name: each for each in _ALL})
"""By name."""
assert tuple(FORMATS) == get_args(FormatName), "a format has no name, or another one"

EXTENSIONS: Mapping[str, FileFormat] = MappingProxyType(
    {extension: each for each in _ALL for extension in each.extensions}
)
"""What a file's extension says about its format, that of a compression taken off before."""
