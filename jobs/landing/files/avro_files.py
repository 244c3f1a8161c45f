"""Avro object containers: rows are records, and each file says their schema.

Owns the way from containers to blocks. Rule: a record that cannot be read is a bad row; a block that is damaged stops
the landing, since nobody knows where the records in it end.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from ....state.errors import ConfigError, LandingError
from ..bad_rows import BadRow
from ..file_source import FileSource
from .avro_container import Container, ContainerError
from .avro_records import AvroColumns, AvroRow, AvroSchema
from .blocks import BLOCK_BYTES, BLOCK_ROWS, Block, check_columns
from .cells import row_json
from .format_reader import FormatReader
from .paths import column_at, root_of
from .streams import FileSlice, opened

if TYPE_CHECKING:
    from .reading import SliceReading


class AvroReader(FormatReader):
    """A file is one slice; the location of a row is its number from 1."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        source, name = reading.source, reading.piece.name
        with opened(source, name, reading.digests, reading.content) as stream, in_sentences(source, name):
            container = Container(stream)
            schema = AvroSchema(container.schema)
            whole = schema.names if source.value is None else []
            named = [each for each in source.named_columns(name) if root_of(each, schema.names) in schema.names]
            roots = [root_of(each, schema.names) for each in named]
            wanted = list(dict.fromkeys([*whole, *roots]))
            columns_of = schema.reader(wanted)
            check_columns(source, name, schema.names, columns_of.arrow_type)
            reading.seen.update([*schema.names, *named])
            reading.columns = schema.names
            for locations, rows, bad in _read(container, columns_of):
                reading.rows += len(locations) + len(bad)
                expected = "a record of the file's schema"
                reading.refuse([BadRow(location, expected, row.reason, row.data) for location, row in bad])
                if locations:
                    columns = {name: rows.field(name) for name in wanted}
                    columns |= {name: column_at(columns, name) for name in named}
                    yield Block(columns, locations, whole=whole)

    def slices(self, source: FileSource, whole: FileSlice) -> list[FileSlice]:
        return [whole]

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        raw = {row.location: row.raw for row in bad if row.raw is not None}
        wanted = {row.location for row in bad} - set(raw)
        if wanted:
            with opened(source, piece.name) as stream, in_sentences(source, piece.name):
                container = Container(stream)
                schema = AvroSchema(container.schema)
                names = schema.readable()
                for locations, rows, _ in _read(container, schema.reader(names)):
                    for number, location in enumerate(locations):
                        if location in wanted:
                            raw[location] = row_json(names, rows.flatten(), number)
                    if wanted <= set(raw):
                        break
        return [(row.location, raw[row.location]) for row in bad]


def _read(
    container: Container, reader: AvroColumns
) -> Iterator[tuple[list[int], pa.StructArray, list[tuple[int, AvroRow]]]]:
    """Locations of rows, the rows, and (location, row) of bad ones, of some of the container's blocks each time."""
    first, locations = 1, list[int]()
    held: list[pa.StructArray] = []
    bad: list[tuple[int, AvroRow]] = []
    size = 0
    for block in container.blocks():
        try:
            rows, unread = reader.read(block)
        except ValueError as error:
            raise ContainerError(block.begin, "a block of whole records", str(error)) from error
        numbers = {row.number for row in unread}
        locations += [first + number for number in range(block.records) if number not in numbers]
        held.append(rows)
        bad += [(first + row.number, row) for row in unread]
        first += block.records
        size += len(block.data)
        if len(locations) >= BLOCK_ROWS or size >= BLOCK_BYTES:
            yield from _cut(locations, pa.concat_arrays(held), bad)
            locations, held, bad, size = [], [], [], 0
    if held:
        yield from _cut(locations, pa.concat_arrays(held), bad)


def _cut(
    locations: list[int], rows: pa.StructArray, bad: list[tuple[int, AvroRow]]
) -> Iterator[tuple[list[int], pa.StructArray, list[tuple[int, AvroRow]]]]:
    """At most BLOCK_ROWS at a time."""
    for begin in range(0, max(1, len(locations)), BLOCK_ROWS):
        part = slice(begin, begin + BLOCK_ROWS)
        yield locations[part], rows[part], [] if begin else bad


@contextmanager
def in_sentences(source: FileSource, name: str) -> Iterator[None]:
    """LandingError for a file that is no container, is damaged, or has a schema without columns."""
    try:
        yield
    except ContainerError as error:
        place = f"{source.path}/{name}, byte {error.place:,}"
        raise LandingError(place, error.expected, error.got, "put a whole file there, then land again") from error
    except ConfigError as error:
        place, next_step = f"{source.path}/{name}, {error.place}", "choose columns that have values (--value)"
        raise LandingError(place, error.expected, error.got, next_step) from error
