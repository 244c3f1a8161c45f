"""The readers of all formats, by their names.

Owns the choice.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ..file_formats import FORMATS, FormatName
from ..file_source import FileSource
from ..lake.lake_rows import LakeMapping, LakeReader
from .avro_files import AvroReader
from .csv_files import CsvReader
from .format_reader import FormatReader
from .json_lines import JsonLinesReader
from .parquet_files import ParquetReader
from .separated_lines import SeparatedLinesReader

_READERS: Mapping[FormatName, FormatReader] = MappingProxyType(
    {
        "jsonl": JsonLinesReader(),
        "parquet": ParquetReader(),
        "csv": CsvReader(),
        "avro": AvroReader(),
        "lines": SeparatedLinesReader(),
    }
)
_LAKE = LakeReader()
assert tuple(_READERS) == tuple(FORMATS), "a format has no reader"


def reader_of(source: FileSource) -> FormatReader:
    """Of the format of ``source``, which is known, or of its table."""
    assert source.format is not None
    if isinstance(source, LakeMapping):
        return _LAKE
    return _READERS[FORMATS[source.format].name]
