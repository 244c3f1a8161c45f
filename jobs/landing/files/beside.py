"""Files of keys and of headers beside files of values, as Kafka Connect's sinks for object stores write them.

Owns their names and what a row of them is. Rule: row n of such a file belongs to row n of the file of values, so each
has as many rows as the others. Names: ``t+0+0000000000.json`` has ``t+0+0000000000.keys.json`` beside it; the formats
may differ.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ....state.errors import LandingError
from ..file_formats import EXTENSIONS
from ..file_source import HEADERS_BESIDE, KEYS_BESIDE, FileSource
from .avro_container import Container
from .avro_files import in_sentences
from .avro_records import AvroSchema
from .blocks import BLOCK_ROWS, Block
from .columns import BadValuesError, json_objects, json_with_headers, listed
from .compression import plain_name
from .streams import FileBeside, FileSlice, FoundFile, PartDigests, opened, parquet_file
from .text_lines import line_blocks

if TYPE_CHECKING:
    from .reading import SliceReading

_NAME = re.compile(r"(?P<stem>.+)\.(?P<kind>keys|headers)\.[^/]+")
_COLUMN = {"keys": "key", "headers": "headers"}
"""In which the sink puts what is no record of its own in Parquet and Avro."""
_ENVELOPES = ("RecordKey", "RecordHeaders")
"""Names of Avro records that the sink makes for that column."""
_IN_BLOCK = {"keys": KEYS_BESIDE, "headers": HEADERS_BESIDE}


def with_files_beside(source: FileSource, files: Sequence[FoundFile], every: Sequence[FoundFile]) -> list[FoundFile]:
    """The files of values among ``files``, each with those beside it among ``every``. Raises LandingError where one is
    missing, and where some are there of which the source says nothing.
    """
    named = {file.name: _NAME.fullmatch(file.name) for file in every}
    values = {stem: file.name for file in every if named[file.name] is None for stem in _stems(file.name)}
    chosen = {file.name for file in files}
    beside: dict[tuple[str, str], list[FoundFile]] = {}
    for file in every:
        match = named[file.name]
        # Where nothing is declared, such a name is refused only beside its
        # file of values, if both would land; alone it is a file as others are.
        if match is None or not (source.beside or {file.name, values.get(match["stem"])} <= chosen):
            continue
        if not source.beside:
            next_step = "take them (--beside keys headers), or leave them out (--pattern '*[0-9].json')"
            expected, got = "files of records", f"{match['kind']} of the records in {values[match['stem']]}"
            raise LandingError(f"{source.path}/{file.name}", expected, got, next_step)
        if match["kind"] in source.beside and match["stem"] not in values:
            expected, next_step = "the file of values that it is beside", "put it back, or take this one out"
            raise LandingError(f"{source.path}/{file.name}", expected, "none", next_step)
        beside.setdefault((match["kind"], values.get(match["stem"], "")), []).append(file)
    others = {file.name for each in beside.values() for file in each}

    def placed(file: FoundFile) -> FoundFile:
        mine = [_one(source, kind, file.name, beside.get((kind, file.name), [])) for kind in source.beside]
        return replace(file, beside=tuple(mine))

    return [placed(file) for file in files if file.name not in others]


def _stems(name: str) -> list[str]:
    """What a file beside may have before its kind."""
    return [name[: at.start()] for at in re.finditer(r"\.(?=[^/]*$)", name)]


def _one(source: FileSource, kind: str, name: str, candidates: Sequence[FoundFile]) -> FileBeside:
    if len(candidates) != 1:
        got = "none" if not candidates else ", ".join(file.name for file in candidates)
        next_step = "put it back, or leave the file of values out (--pattern)"
        raise LandingError(f"{source.path}/{name}", f"one file of its {kind} beside it (….{kind}.…)", got, next_step)
    return FileBeside(kind, candidates[0].name, candidates[0].bytes, candidates[0].mtime_ns)


def with_rows_beside(reading: "SliceReading", blocks: Iterator[Block]) -> Iterator[Block]:
    """``blocks`` of a whole file with the rows of the files beside it as columns KEYS_BESIDE and HEADERS_BESIDE. Raises
    LandingError where these have more or fewer rows, or a row is none.
    """
    piece = reading.piece
    rows = {_IN_BLOCK[each.kind]: _RowsBeside(reading, each) for each in piece.beside}
    counted = 0
    for block in blocks:
        counted += len(block.locations)
        _refuse_uncounted(reading, counted)
        yield replace(block, columns={**block.columns, **{n: of.take(len(block.locations)) for n, of in rows.items()}})
    # Bad rows behind the last block are in none.
    _refuse_uncounted(reading, counted)
    for of in rows.values():
        of.end()


def _refuse_uncounted(reading: "SliceReading", counted: int) -> None:
    """Rows that the reader of the format could not read are in no block, so those behind them cannot be counted."""
    if reading.rows != counted:
        expected, next_step = "a record in each row, since keys or headers are beside it", "correct the file"
        got = f"{reading.rows - counted:,} rows that are none"
        raise LandingError(f"{reading.source.path}/{reading.piece.name}", expected, got, next_step)


class _RowsBeside:
    """Rows of a file beside the file of values that ``reading`` reads, some at a time."""

    def __init__(self, reading: "SliceReading", file: FileBeside) -> None:
        self._place, self._kind, self._values = f"{reading.source.path}/{file.name}", file.kind, reading.piece.name
        rows = _rows(reading.source, file, reading.beside.get(file.kind))
        self._read, self._held, self._taken = rows, list[Any](), 0

    def take(self, count: int) -> list[Any]:
        """The next ones. Raises LandingError where there are fewer."""
        while len(self._held) < count:
            more = next(self._read, None)
            if more is None:
                raise self._error(f"{self._taken + len(self._held):,}")
            self._held += more
        taken, self._held = self._held[:count], self._held[count:]
        self._taken += count
        return taken

    def end(self) -> None:
        """Raises LandingError where there are more."""
        if self._held or any(self._read):
            raise self._error(f"more than {self._taken:,}")

    def _error(self, rows: str) -> LandingError:
        expected = f"as many {self._kind} as {self._values} has rows"
        return LandingError(self._place, expected, rows, "put both files there as they were written")


def _rows(source: FileSource, file: FileBeside, digests: PartDigests | None) -> Iterator[list[Any]]:
    format = EXTENSIONS.get(plain_name(file.name).rpartition(".")[2].lower())
    read = None if format is None else _READERS.get(format.name)
    if read is None:
        expected, got = f"{file.kind} as JSON lines, Avro or Parquet, by the extension", file.name.rpartition(".")[2]
        raise LandingError(f"{source.path}/{file.name}", expected, repr(got), "write them in one of these formats")
    try:
        yield from read(source, file, digests)
    except BadValuesError as bad:
        place, value = f"{source.path}/{file.name}", bad.values[0]
        raise LandingError(place, value.expected, value.got_of_column, "correct the file") from bad


def _json_rows(source: FileSource, file: FileBeside, digests: PartDigests | None) -> Iterator[list[Any]]:
    column, number = _COLUMN[file.kind], 0
    with opened(source, file.name, digests) as stream:
        for _, lines in line_blocks(stream, FileSlice(file.name, 0, None, file.bytes, file.bytes, file.mtime_ns)):
            values = []
            for line in lines:
                number += 1
                try:
                    row = json_with_headers(line)
                except (ValueError, RecursionError) as error:
                    place, got = f"{source.path}/{file.name}, row {number}", f"{line[:80]!r} ({error})"
                    raise LandingError(place, "JSON", got, "put the file there as it was written") from error
                is_enveloped = file.kind == "headers" and isinstance(row, dict) and list(row) == [column]
                values.append(row[column] if is_enveloped else row)
            yield values


def _parquet_rows(source: FileSource, file: FileBeside, digests: PartDigests | None) -> Iterator[list[Any]]:
    with parquet_file(source, file.name, digests) as parquet:
        for batch in parquet.iter_batches(BLOCK_ROWS):
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            yield _values(source, file, columns, is_enveloped=list(columns) == [_COLUMN[file.kind]])


def _avro_rows(source: FileSource, file: FileBeside, digests: PartDigests | None) -> Iterator[list[Any]]:
    with opened(source, file.name, digests) as stream, in_sentences(source, file.name):
        container = Container(stream)
        text, is_enveloped = _as_record(container.schema, _COLUMN[file.kind])
        schema = AvroSchema(text)
        reader = schema.reader(schema.names)
        for block in container.blocks():
            rows, bad = reader.read(block)
            if bad:
                place, expected = f"{source.path}/{file.name}, byte {block.begin:,}", "records of the file's schema"
                raise LandingError(place, expected, bad[0].reason, "put the file there as it was written")
            columns = {name: rows.field(name) for name in schema.names}
            yield _values(source, file, columns, is_enveloped=is_enveloped)


def _as_record(text: str, column: str) -> tuple[str, bool]:
    """A schema of records, and whether its one column is the value. What is no record has the bytes of a record of one
    field.
    """
    schema: Any = None
    with suppress(ValueError):
        schema = json.loads(text)
    if isinstance(schema, dict) and schema.get("type") == "record":
        fields = [each.get("name") for each in schema.get("fields", ())]
        return text, schema.get("name") in _ENVELOPES and fields == [column]
    field = {"name": column, "type": schema}
    return json.dumps({"type": "record", "name": "Row", "fields": [field]}), True


def _values(source: FileSource, file: FileBeside, columns: dict[str, pa.Array], *, is_enveloped: bool) -> list[Any]:
    if is_enveloped:
        return list(listed(columns[_COLUMN[file.kind]]))
    if file.kind == "headers":
        got = f"columns {', '.join(columns)}"
        raise LandingError(f"{source.path}/{file.name}", "a column headers", got, "put the sink's file there")
    objects: list[Any] = json_objects(list(columns), [listed(column) for column in columns.values()]).to_pylist()
    return objects


_READERS = {"jsonl": _json_rows, "avro": _avro_rows, "parquet": _parquet_rows}
