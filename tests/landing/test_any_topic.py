"""Any topic, in files of every format, compression and layout, lands as it was written.

The writers are in written_tables.py, and nothing of the project's code is in them.
"""

import itertools
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.landing import file_writing
from kstreams_replay.jobs.landing.files import blocks, kept_records, streams, text_lines
from kstreams_replay.jobs.landing.landing import LandingReport
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing import written_tables
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed
from tests.landing.written_tables import AVRO_CODECS, PACKED, Column, Columns, rows_in
from tests.sampling import is_nightly

TYPES = {"NoTimestampType": (-1, "unknown"), "CreateTime": (0, "create"), "LogAppendTime": (1, "logappend")}
"""Words of Kafka, its numbers, kcat's words."""
FIRST_TIME, LAST_TIME = -(2**63), 2**53 - 1
LAST_OFFSET = 2**63 - 2
NULL = "\\N"
"""In cells of text."""
PARTITIONS = 3

Value = Any
"""Bytes, or the pairs of a JSON object with the digits of its numbers."""


@dataclass(frozen=True)
class Record:
    """What is to land. ``key`` and ``body``: as they are in files."""

    partition: int
    offset: int
    time_ms: int
    kind: str
    headers: tuple[tuple[str, bytes | None], ...]
    key: Any
    body: Any


@dataclass(frozen=True)
class Form:
    """How keys and values of a file are written and named. ``fields``: of the JSON object that is the value.

    ``format``: of the landing, or ``table`` for one of a lake, whose timestamps are all of microseconds.
    """

    format: str
    key: str
    body: str
    fields: tuple[str, ...] = ()

    @property
    def is_binary(self) -> bool:
        return self.format in ("parquet", "avro", "table")

    def key_bytes(self, key: Any) -> bytes | None:
        if key is None or isinstance(key, bytes):
            return key
        return key.to_bytes(8, "big", signed=True) if self.key == "long" else str(key).encode()

    def value(self, body: Any) -> Value:
        if body is None or isinstance(body, bytes):
            return body
        if isinstance(body, Decimal):
            return f"{body:f}".encode()
        return [
            [name, ["number", f"{each:f}"] if isinstance(each, Decimal) and not self.is_binary else _number(each)]
            for name, each in zip(self.fields, body, strict=True)
        ]

    def read(self, value: bytes | None) -> Value:
        """A landed value, as ``value`` has it."""
        if value is None or self.body not in ("fields", "row"):
            return value
        number = {"parse_float": lambda text: ["number", text], "parse_int": lambda text: ["number", text]}
        return json.loads(value, object_pairs_hook=lambda pairs: [list(pair) for pair in pairs], **number)


def _number(each: Any) -> Any:
    if isinstance(each, Decimal):
        return f"{each:f}"
    return ["number", str(each)] if isinstance(each, int) and not isinstance(each, bool) else each


# --- any topic -----------------------------------------------------------------------------------------------------

INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1])
MONEY = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda unscaled: Decimal(f"{unscaled}e-18"))
TIMES = (
    st.integers(0, 2**41)
    | st.integers(-(2**53), LAST_TIME)
    | st.sampled_from([-1, 0, 1, LAST_TIME - 1, LAST_TIME, -(2**53)])
)
"""That fit into 64 bits as microseconds."""
LONG_TIMES = st.integers(FIRST_TIME, LAST_TIME) | st.sampled_from([FIRST_TIME, FIRST_TIME + 1, -(2**53) - 1, LAST_TIME])
CALENDAR = st.integers(-62_135_596_800_000, 253_402_300_799_999)
"""Of the years 1 to 9999."""


def texts(form: str) -> st.SearchStrategy[str]:
    """Unicode that a file of the format can hold."""
    without = "\n\r\t" if form == "lines" else ""
    alphabet = st.characters(exclude_categories=("Cs",), exclude_characters=without)
    likely = st.sampled_from(["", "null", "é", "😀", '"', "a,b", "\\", "\u2028", "1e400", "\ufeff", "true"])
    return st.text(alphabet, max_size=6) | likely


def forms(draw: Any, formats: Sequence[str], bodies: Sequence[str] = ("bytes", "money", "fields", "row")) -> Form:
    format = draw(st.sampled_from(formats))
    may_be = [body for body in bodies if body != "row" or format not in ("csv", "lines")]
    names = ("name", "n", "money", "ok") if format in ("avro", "table") else ("name", "n", "mo.ney", 'ö "k')
    return Form(format, draw(st.sampled_from(["bytes", "long", "id"])), draw(st.sampled_from(may_be)), names)


def topics(draw: Any, form: Form, *, times: st.SearchStrategy[int], dense: bool = False) -> list[Record]:
    """Records by partition and offset. ``dense``: with few gaps."""
    blob = st.binary(max_size=8) | texts("").map(str.encode) if form.is_binary else texts(form.format).map(str.encode)
    of_files = blob.filter(lambda value: value != NULL.encode())
    text = texts(form.format).filter(lambda value: value != NULL)
    bodies = {
        "bytes": st.none() | of_files,
        "money": st.none() | MONEY,
        "fields": st.tuples(st.none() | text, st.none() | INT64, st.none() | MONEY, st.none() | st.booleans()),
    }
    bodies["row"] = st.none() | bodies["fields"]
    keys = {"bytes": of_files, "long": INT64, "id": st.integers(-(10**38) + 1, 10**38 - 1)}
    headers = st.lists(st.tuples(text, st.none() | blob), max_size=3).map(tuple)
    steps = st.integers(1, 2 if dense else 5) if dense else st.integers(1, 5) | st.just(2**40)
    records = []
    for partition in range(PARTITIONS):
        offset = draw(st.sampled_from([0, 0, 7, 2**53 + 1, LAST_OFFSET - 2**44]))
        for _ in range(draw(st.integers(0, 6))):
            records.append(
                Record(
                    partition,
                    offset,
                    draw(times),
                    draw(st.sampled_from(list(TYPES))),
                    draw(headers),
                    draw(st.none() | keys[form.key]),
                    draw(bodies[form.body]),
                )
            )
            offset += draw(steps)
    return records


# --- files of it ---------------------------------------------------------------------------------------------------


@dataclass
class Written:
    """A topic in files: columns of all records, in their order, and the mapping. ``envelope``: of a row of JSON, and
    ``ends``: in turn, what is behind rows of it. ``beside``: "keys" and "headers" of all records that are in files of
    their own. ``record``: the name of Avro's.
    """

    form: Form
    columns: dict[str, Column]
    mapping: dict[str, Any] = field(default_factory=dict)
    envelope: Callable[[str], str] = str
    ends: tuple[str, ...] = ("\n",)
    beside: dict[str, Column] = field(default_factory=dict)
    record: str = "R"


def written(draw: Any, form: Form, records: Sequence[Record], coordinates: Sequence[str]) -> Written:
    """With columns for ``coordinates`` (``partition``, ``offset``), which may lie in another column."""
    kinds = ["long", "text", "id"]
    columns = {"t": draw_times(draw, form, records)}
    mapping: dict[str, Any] = {"partitions": PARTITIONS, "timestamp": "t", "timestamp_unit": unit_of(columns["t"])}
    for name in coordinates:
        numbers = [getattr(record, name) for record in records]
        kind = draw(st.sampled_from(kinds))
        columns[name] = Column(kind, [str(n) if kind == "text" else n for n in numbers])
    columns["kind"] = draw_kinds(draw, records)
    columns["h"] = Column(draw_headers(draw, form), [record.headers or draw_none(draw) for record in records])
    mapping |= {"timestamp_type": "kind", "headers": "h"} | {name: name for name in coordinates}
    if form.format in ("jsonl", "parquet", "avro", "table") and draw(st.booleans()):
        columns = {"meta": Column("row", [True] * len(records), columns)}
        mapping |= {of: f"meta.{mapping[of]}" for of in ("timestamp", "timestamp_type", "headers", *coordinates)}
    return with_keys_and_values(Written(form, columns, mapping), records)


def draw_none(draw: Any) -> tuple[()] | None:
    return draw(st.sampled_from([None, ()]))


def draw_times(draw: Any, form: Form, records: Sequence[Record]) -> Column:
    times = [record.time_ms for record in records]
    kinds = ["long", "text", *(["ms"] if form.is_binary and form.format != "table" else [])]
    if all(each >= FIRST_TIME // 1_000 + 1 for each in times):
        kinds.append("us")
    if all(-62_135_596_800_000 <= each <= 253_402_300_799_999 for each in times):
        kinds.append("iso")
    kind = draw(st.sampled_from(kinds))
    if kind == "iso":
        instants = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=each) for each in times]
        return Column("text", [instant.isoformat() for instant in instants])
    return Column(kind, [str(each) if kind == "text" else each for each in times])


def unit_of(times: Column) -> str:
    if times.kind == "text" and any("T" in each for each in times.values):
        return "iso"
    return "us" if times.kind == "us" else "ms"


def draw_kinds(draw: Any, records: Sequence[Record]) -> Column:
    way = draw(st.sampled_from(["numbers", "words", "kcat"]))
    if way == "words":
        return Column("text", [record.kind for record in records])
    of = 0 if way == "numbers" else 1
    return Column("long" if way == "numbers" else "text", [TYPES[record.kind][of] for record in records])


def draw_headers(draw: Any, form: Form) -> str:
    return draw(st.sampled_from(["list", "map"] if form.is_binary else ["list", "turn"]))


def with_keys_and_values(made: Written, records: Sequence[Record]) -> Written:
    form = made.form
    made.columns["key"] = _single({"bytes": "bytes", "long": "long", "id": "id"}[form.key], form, records, "key")
    made.mapping |= {"key": "key", "key_type": "long" if form.key == "long" else None}
    if form.body in ("bytes", "money"):
        made.columns["v"] = _single(form.body, form, records, "body")
        made.mapping["value"] = "v"
        return made
    parts = [record.body or [None] * 4 for record in records]
    of = {
        name: Column(kind, [part[place] for part in parts])
        for place, (name, kind) in enumerate(zip(form.fields, ("text", "long", "money", "bool"), strict=True))
    }
    if form.body == "row":
        made.columns["v"] = Column("row", [None if record.body is None else True for record in records], of)
        made.mapping["value"] = "v"
        return made
    made.columns |= of
    made.mapping["value"] = form.fields
    if form.format in ("csv", "lines"):
        made.mapping["types"] = dict(zip(form.fields, ("string", "long", "json", "boolean"), strict=True))
    return made


def _single(kind: str, form: Form, records: Sequence[Record], of: str) -> Column:
    values = [getattr(record, of) for record in records]
    if kind != "bytes" or form.is_binary:
        return Column(kind, values)
    return Column("text", [None if value is None else value.decode() for value in values])


def file_of(draw: Any, made: Written, columns: Columns, name: str) -> dict[str, bytes]:
    """One file, its extension added to ``name``; text may be packed, with or without an extension that says so."""
    form = made.form
    if form.format == "parquet":
        packing = draw(st.sampled_from(["none", "snappy", "gzip", "zstd", "brotli", "lz4"]))
        rows = draw(st.sampled_from([1, 2, 1_000]))
        options = {"is_large": draw(st.booleans()), "compression": packing, "row_group_size": rows}
        return {f"{name}.parquet": written_tables.parquet(columns, **options)}
    if form.format == "avro":
        codec, rows = draw(st.sampled_from(list(AVRO_CODECS))), draw(st.sampled_from([1, 2, 1_000]))
        return {f"{name}.avro": written_tables.avro(columns, codec, rows, made.record)}
    if form.format == "jsonl":
        lines = [made.envelope(written_tables.json_row(columns, row)) for row in range(rows_in(columns))]
        joined = "".join(f"{line}{end}" for line, end in zip(lines, itertools.cycle(made.ends), strict=False))
        content = joined.rstrip(" \t").encode()
    elif form.format == "csv":
        content = written_tables.csv_lines(columns, NULL)
    else:
        content = written_tables.separated_lines(columns, NULL, "\t")
    packing = draw(st.sampled_from(list(PACKED)))
    bom = b"\xef\xbb\xbf" if form.format in ("jsonl", "csv") and draw(st.booleans()) else b""
    extension = {"jsonl": "jsonl", "csv": "csv", "lines": "txt"}[form.format]
    shown = f".{packing}" if packing and draw(st.booleans()) else ""
    return {f"{name}.{extension}{shown}": PACKED[packing](bom + content)}


def files_beside(draw: Any, made: Written, rows: Sequence[int], name: str) -> dict[str, bytes]:
    """Those of the file ``name`` of these rows, each in a format that can hold what is in it."""
    found: dict[str, bytes] = {}
    for kind, column in made.beside.items():
        of, record = ("key", "RecordKey") if kind == "keys" else ("headers", "RecordHeaders")
        part = column.take(rows)
        format = draw(st.sampled_from(["parquet", "avro"] if made.form.is_binary else ["jsonl", "parquet", "avro"]))
        if format == "jsonl":
            cells = [written_tables.json_cell(part, row) for row in range(len(rows))]
            if kind == "headers" and draw(st.booleans()):
                cells = [f'{{"headers":{cell}}}' for cell in cells]
            packed = PACKED[draw(st.sampled_from(list(PACKED)))]
            found[f"{name}.{kind}.jsonl"] = packed("".join(f"{cell}\n" for cell in cells).encode())
        else:
            own = Written(replace(made.form, format=format), {}, record=record)
            found |= file_of(draw, own, {of: part}, f"{name}.{kind}")
    return found


def heaps(draw: Any, made: Written, batches: Sequence[Sequence[int]], folder: Callable[[int], str]) -> list[dict]:
    """Files of each batch of rows, shuffled and dealt among files of any names, in the folder that a row is in."""
    found = []
    for number, rows in enumerate(batches):
        dice = random.Random(draw(st.integers(0, 2**32)))
        of: dict[str, list[int]] = {}
        for row in dice.sample(list(rows), len(rows)):
            of.setdefault(f"{folder(row)}{dice.choice('xyz')}/{number}-{dice.choice('cab')}", []).append(row)
        files: dict[str, bytes] = {}
        for name, chosen in of.items():
            files |= file_of(draw, made, written_tables.take(made.columns, chosen), name)
            files |= files_beside(draw, made, chosen, name)
        found.append(files)
    return found


def batches_of(draw: Any, records: Sequence[Record]) -> list[list[int]]:
    """Rows of one landing or of two, of which the second is behind the first in each partition; some come again."""
    cuts = [draw(st.sampled_from([-1, 2**62, 2**53 + 3, 9])) for _ in range(PARTITIONS)]
    early = [row for row, record in enumerate(records) if record.offset < cuts[record.partition]]
    late = [row for row in range(len(records)) if row not in set(early)]
    known: list[int] = []
    found = []
    for batch in (early, late):
        known += batch
        again = draw(st.lists(st.sampled_from(known), max_size=4)) if known else []
        found.append([*batch, *again])
    return found


# --- the test ------------------------------------------------------------------------------------------------------


def check(
    draw: Any,
    made: Written,
    records: Sequence[Record],
    landings: Sequence[dict[str, bytes]],
    *,
    late: int = 0,
    rules: Any = None,
    **mapping: Any,
) -> None:
    """Land the files of each landing, in a small room or a large one, and compare."""
    form, room = made.form, draw(st.sampled_from([200, 1_000, 1 << 27]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "SLICE_BYTES", room)
        patch.setattr(file_writing, "FILE_BYTES", room)
        patch.setattr(kept_records, "KEPT_BYTES", draw(st.sampled_from([0, 500, 1 << 28])))
        patch.setattr(blocks, "BLOCK_ROWS", 4)
        patch.setattr(text_lines, "CHUNK_BYTES", draw(st.sampled_from([100, 1 << 20])))
        warehouse = Warehouse(folder)
        given = {"columns": list(made.columns)} if form.format == "lines" else {}
        if form.format in ("csv", "lines"):
            given["nulls"] = (NULL,)
        reports: list[LandingReport] = []
        for files in landings:
            if write(Path(folder) / "in", files).exists():
                mapping = {"format": form.format, **given, **made.mapping, **mapping}
                reports.append(
                    land(warehouse, Path(folder) / "in", rules={"max_bad_share": 1, **(rules or {})}, **mapping)
                )
        rows = landed(warehouse, "t", *LANDED) if warehouse.topics() else []

    assert [(*row[:-1], form.read(row[-1])) for row in rows] == as_landed(form, records)
    assert sum(report.dead_letters for report in reports) == late


LANDED = ("partition", "offset", "timestamp", "timestamp_type", "headers", "key", "value")


def as_landed(form: Form, records: Sequence[Record]) -> list[tuple[Any, ...]]:
    """Columns ``LANDED`` of ``records``, their values as of ``Form.value``."""
    return [
        (
            record.partition,
            record.offset,
            record.time_ms,
            record.kind,
            [{"key": name, "value": value} for name, value in record.headers],
            form.key_bytes(record.key),
            form.value(record.body),
        )
        for record in records
    ]


FORMATS = ["parquet", "jsonl", "csv", "avro", "lines"]


ANY_TIMES = st.sampled_from([TIMES, CALENDAR, LONG_TIMES])


def columns_of_files(draw: Any) -> None:
    """Coordinates are columns; rows are in files of any order, some of them in several."""
    form = forms(draw, FORMATS)
    records = topics(draw, form, times=draw(ANY_TIMES))
    made = written(draw, form, records, ("partition", "offset"))
    check(draw, made, records, heaps(draw, made, batches_of(draw, records), lambda row: ""))


def several_topics(draw: Any) -> None:
    """Files have rows of other topics, at the same offsets."""
    form = forms(draw, FORMATS)
    records = topics(draw, form, times=draw(ANY_TIMES))
    made = written(draw, form, [*records, *records], ("partition", "offset"))
    names = ["t"] * len(records) + ["other"] * len(records)
    made.columns = {"of": Column("text", names), **made.columns}
    landings = [[*batch, *(row + len(records) for row in batch)] for batch in batches_of(draw, records)]
    check(draw, made, records, heaps(draw, made, landings, lambda row: ""), topic_column="of")


def too_late(draw: Any) -> None:
    """Rows beyond the latest time become dead letters, and all others land."""
    form = forms(draw, FORMATS)
    records = topics(draw, form, times=TIMES | st.sampled_from([LAST_TIME + 1, 2**62 // 1_000]))
    made = written(draw, form, records, ("partition", "offset"))
    good = [record for record in records if record.time_ms <= LAST_TIME]
    check(draw, made, good, heaps(draw, made, [range(len(records))], lambda row: ""), late=len(records) - len(good))


def hive_folders(draw: Any) -> None:
    """The partition is a folder."""
    form = forms(draw, FORMATS)
    records = topics(draw, form, times=draw(ANY_TIMES))
    made = written(draw, form, records, ("offset",))
    day = draw(st.sampled_from(["", "dt=2026-01-01/hour=10/", "name=M%C3%BCnchen/", "n=__HIVE_DEFAULT_PARTITION__/"]))
    files = heaps(draw, made, batches_of(draw, records), lambda row: f"{day}part={records[row].partition}/")
    check(draw, made, records, files, partition="part")


PATHS = {
    "confluent": "topics/t/partition={p}/t+{p}+{first:010}",
    "aiven": "t-{p}-{first}",
    "lenses": "t/{p}/{last:012}",
    r"p(?P<partition>\d+)-from(?P<offset>\d+)": "any/p{p}-from{first}",
}


def paths(draw: Any) -> None:
    """Paths have partitions and offsets of a run of records, whose files may overlap."""
    form, pattern = forms(draw, FORMATS), draw(st.sampled_from(list(PATHS)))
    records = topics(draw, form, times=draw(ANY_TIMES), dense=True)
    made = written(draw, form, records, ())
    files: dict[str, bytes] = {}
    for run in runs(records):
        first = draw(st.integers(0, len(run) - 1))
        for rows in {tuple(run[first:]), tuple(run[:first]), tuple(run[draw(st.integers(0, first)) :])} - {()}:
            place = {
                "p": records[rows[0]].partition,
                "first": records[rows[0]].offset,
                "last": records[rows[-1]].offset,
            }
            files |= file_of(draw, made, written_tables.take(made.columns, rows), PATHS[pattern].format(**place))
    check(draw, made, records, [files], path_pattern=pattern)


def runs(records: Sequence[Record]) -> list[list[int]]:
    """Rows whose offsets follow one another."""
    found: list[list[int]] = []
    for row, record in enumerate(records):
        before = records[row - 1]
        if row and (before.partition, before.offset + 1) == (record.partition, record.offset):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def numbered(records: Sequence[Record]) -> list[Record]:
    """At the offsets that a landing gives."""
    following = [0] * PARTITIONS
    found = []
    for record in records:
        found.append(replace(record, offset=following[record.partition]))
        following[record.partition] += 1
    return found


def in_order(records: Sequence[Record]) -> list[Record]:
    """As a landed table has them."""
    return sorted(records, key=lambda record: (record.partition, record.offset))


def dumps(draw: Any) -> None:
    """No offsets: files in natural order of their names, in one landing or two."""
    form = forms(draw, FORMATS)
    records = draw(st.permutations(topics(draw, form, times=draw(ANY_TIMES))))
    made = written(draw, form, records, ("partition",))
    cuts = sorted(draw(st.lists(st.integers(0, len(records)), max_size=11)))
    files = [
        file_of(draw, made, written_tables.take(made.columns, range(first, end)), f"dump-{number}")
        for number, (first, end) in enumerate(zip([0, *cuts], [*cuts, len(records)], strict=True))
        if first < end
    ]
    split = draw(st.integers(0, len(files)))
    landings = [{name: each[name] for each in part for name in each} for part in (files[:split], files[split:])]
    check(draw, made, in_order(numbered(records)), landings, rules={"allow_same_content": True})


def ordered(draw: Any) -> None:
    """No offsets: a column of theirs orders the rows of any files."""
    form = forms(draw, FORMATS)
    records = draw(st.permutations(topics(draw, form, times=draw(ANY_TIMES))))
    made = written(draw, form, records, ("partition", "offset"))
    order = made.mapping.pop("offset")
    want = in_order(numbered(sorted(records, key=lambda record: record.offset)))
    files = heaps(draw, made, [range(len(records))], lambda row: "")
    check(draw, made, want, files, order_by=(order,), rules={"allow_same_content": True})


def kcat(draw: Any) -> None:
    """Lines of kcat -J."""
    form = replace(forms(draw, ["jsonl"], ["bytes", "money", "row"]), key="bytes")
    records = topics(draw, form, times=draw(ANY_TIMES))
    columns = {
        "topic": Column("text", ["t"] * len(records)),
        "partition": Column("long", [record.partition for record in records]),
        "offset": Column("long", [record.offset for record in records]),
        "tstype": Column("text", [TYPES[record.kind][1] for record in records]),
        "ts": Column("long", [record.time_ms for record in records]),
        "broker": Column("long", [1] * len(records)),
        "headers": Column("turn", [record.headers or None for record in records]),
    }
    names = {name: name for name in ("partition", "offset", "headers")}
    made = Written(form, columns, names | {"timestamp": "ts", "timestamp_type": "tstype", "partitions": PARTITIONS})
    made = with_keys_and_values(made, records)
    made.columns["payload"] = made.columns.pop("v")
    made.mapping |= {"value": "payload", "topic_column": "topic"}
    check(draw, made, records, heaps(draw, made, batches_of(draw, records), lambda row: ""))


def connect(draw: Any) -> None:
    """JSON of Kafka Connect's converter, beside its schema."""
    form = forms(draw, ["jsonl"])
    records = topics(draw, form, times=draw(ANY_TIMES))
    made = written(draw, form, records, ("partition", "offset"))
    made.envelope = lambda row: f'{{"schema":{{"type":"struct","fields":[]}},"payload":{row}}}'
    check(draw, made, records, heaps(draw, made, batches_of(draw, records), lambda row: ""), envelope="connect")


def debezium(draw: Any) -> None:
    """Changes of Debezium, in which the coordinates are of the source: the value is the row after it, or null."""
    form = replace(forms(draw, ["jsonl"], ["row"]), key="id")
    form = replace(form, fields=("id", *form.fields))
    records = [
        replace(record, key=record.key or 0)
        for record in topics(draw, replace(form, fields=form.fields[1:]), times=draw(ANY_TIMES))
    ]
    kinds = ("id", "text", "long", "money", "bool")
    rows = {
        name: Column(kind, [[record.key, *(record.body or [None] * 4)][place] for record in records])
        for place, (name, kind) in enumerate(zip(form.fields, kinds, strict=True))
    }
    nothing, there = [None] * len(records), [None if record.body is None else True for record in records]
    old = [None if each else True for each in there]
    source = {
        "part": Column("long", [record.partition for record in records]),
        "pos": Column("long", [record.offset for record in records]),
        "kind": Column("text", [record.kind for record in records]),
        "h": Column(draw_headers(draw, form), [record.headers or draw_none(draw) for record in records]),
    }
    columns = {
        "before": Column("row", old, rows),
        "after": Column("row", there, rows),
        "source": Column("row", [True] * len(records), source),
        "op": Column("text", ["c" if each else "d" for each in there]),
        "ts_ms": Column("long", [record.time_ms for record in records]),
        "transaction": Column("text", nothing),
    }
    mapping = {"timestamp": "__ts_ms", "key": "id", "partition": "__source.part", "offset": "__source.pos"}
    mapping |= {"timestamp_type": "__source.kind", "headers": "__source.h", "envelope": "debezium"}
    made = Written(form, columns, {**mapping, "partitions": PARTITIONS})
    if draw(st.booleans()):
        made.envelope = lambda row: f'{{"schema":null,"payload":{row}}}'
    want = [
        replace(record, body=None if record.body is None else (record.key, *record.body), key=record.key)
        for record in records
    ]
    check(draw, made, want, heaps(draw, made, batches_of(draw, records), lambda row: ""))


def beside(draw: Any) -> None:
    """Keys, headers or both are in files of their own beside those of the values."""
    form = forms(draw, FORMATS)
    records = topics(draw, form, times=draw(ANY_TIMES))
    made = written(draw, form, records, ("partition", "offset"))
    kinds = draw(st.sampled_from([["keys"], ["headers"], ["keys", "headers"]]))
    if "keys" in kinds:
        del made.mapping["key"]
        made.beside["keys"] = made.columns.pop("key")
    if "headers" in kinds:
        del made.mapping["headers"]
        made.beside["headers"] = Column("list", [record.headers or draw_none(draw) for record in records])
    check(draw, made, records, heaps(draw, made, batches_of(draw, records), lambda row: ""), beside=kinds)


def concatenated(draw: Any) -> None:
    """JSON objects one behind the other, some of them with a line end between them."""
    as_lines(draw, ends=tuple(draw(st.lists(st.sampled_from(["", "", " ", "\t", "\n"]), min_size=1, max_size=4))))


def whole_lines(draw: Any) -> None:
    """The value is the line, byte for byte."""
    as_lines(draw, ends=("\n",))


def as_lines(draw: Any, *, ends: tuple[str, ...]) -> None:
    """The value is the object itself, byte for byte."""
    form = forms(draw, ["jsonl"], ["fields"])
    records = topics(draw, form, times=draw(ANY_TIMES))
    made = written(draw, form, records, ("partition", "offset"))
    made.ends = ends
    lines = [written_tables.json_row(made.columns, row).encode() for row in range(len(records))]
    made.form = replace(form, body="line")
    want = [replace(record, body=line) for record, line in zip(records, lines, strict=True)]
    check(draw, made, want, heaps(draw, made, [range(len(records))], lambda row: ""), value=None)


LAYOUTS = {
    layout.__name__: layout
    for layout in (
        columns_of_files, several_topics, too_late, hive_folders, paths, dumps, ordered, beside, kcat, connect,
        debezium, whole_lines, concatenated,
    )
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.every_run
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=100 if is_nightly() else 4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_lands_is_what_was_written(layout, data):
    LAYOUTS[layout](data.draw)
