"""Both sides of a comparison as numbers: of every row its place, its time, and digests of its key and its value.

Owns reading them. Rule: files are read piece by piece, and a key or a value is a digest of 64 bits from then on, so
that 10 million rows a side take less than a gigabyte. Nothing is a Python object a row. Values are compared as the
sink's serde reads them, so bytes that mean the same are equal: fields of JSON in another order, 0.0 and -0.0, and maps
whatever the order of their entries. Digests that are equal by chance would show differences of one key to another
(for 10 million keys with a chance of 1 in 100,000), and never hide one of both value and time.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import float_bits, is_valid
from ...state.errors import ConfigError
from ...state.serdes import Decoded
from ...state.serdes.confluent_head import VALUE_HEADER, with_header_ids
from ...state.tables.branch_files import landed_files, refuse_older_landing_ledger, table_files
from ...state.tables.data_files import DataFile, read_pieces
from ...state.tables.ledger import LandingLedger
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import LANDED_SCHEMA, WINDOW, Warehouse
from ...state.times import UNBOUNDED
from .compared_output import ComparedOutput

Span = tuple[int, int]
"""Record times ``[from, to)`` in ms."""

ALL_TIMES = (-UNBOUNDED, UNBOUNDED)

PLACE = (("partition", pa.int32()), ("offset", pa.int64()), ("cause_offset", pa.int64()))
"""Columns of our rows that say where each is, and which record caused it."""

_SEED = np.uint64(0x9E3779B97F4A7C15)
_PIECE = 1 << 17
"""Rows that are read at a time: what is between takes no new memory for each of them."""
_THREADS = 2
"""Files that are read at a time."""
_BLOCK = 1 << 14
"""Rows that are mixed at a time: what is between stays in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Side:
    """Rows of one side, by partition and offset; an array each, of one length.

    ``partition``, ``offset``: where the row is; ``target``: the partition in which the other side is to have it.
    ``key``, ``value``: digests, uint64; ``start``, ``end``: of the window, 0 without; ``time``: the record's, in ms;
    ``is_tombstone``, ``is_unreadable`` bool; ``cause``: offset of the record that caused it, -1 where nobody knows.
    ``identity``: digest of key and window, without windows that of the key; of time windows the start alone names one.
    """

    partition: np.ndarray
    offset: np.ndarray
    target: np.ndarray
    key: np.ndarray
    start: np.ndarray
    end: np.ndarray
    value: np.ndarray
    time: np.ndarray
    is_tombstone: np.ndarray
    is_unreadable: np.ndarray
    cause: np.ndarray
    identity: np.ndarray

    def __len__(self) -> int:
        return len(self.partition)

    @cached_property
    def whole(self) -> np.ndarray:
        """By row a digest of its key, window, value and time."""
        return combined(self.identity, self.value, self.time)


_KINDS: Mapping[str, type[np.generic]] = dict.fromkeys((field.name for field in fields(Side)), np.int64) | {
    "partition": np.int32, "target": np.int32, "key": np.uint64, "value": np.uint64, "identity": np.uint64,
    "is_tombstone": np.bool_, "is_unreadable": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class ProductionTopic:
    """What production wrote: a landed topic, its partitions and its files. ``begins``: of partitions that landed from
    Kafka the first offset of the log then; ``ends``: the next offset to land; ``is_complete``: nothing more of it
    comes.
    """

    warehouse: Warehouse
    topic: str
    partitions: int
    files: Sequence[DataFile]
    begins: Mapping[int, int]
    ends: Mapping[int, int]
    is_complete: bool

    @classmethod
    def of(cls, warehouse: Warehouse, topic: str) -> "ProductionTopic":
        """Raises ConfigError for one that was never landed."""
        ledger = LandingLedger(warehouse.landing_ledger(topic))
        last = ledger.last_done()
        refuse_older_landing_ledger(warehouse, topic, ledger, last)
        if last is None:
            expected, got = "a landed topic", f"landed topics {warehouse.topics()}"
            raise ConfigError(f"topic {topic!r}", expected, got, "land what production wrote: replay land")
        own, first = last.content, [plan.content for plan in ledger.plans(1, 1)]
        from_kafka = next((plan.cut_from for plan in first if plan.source.get("kind") == "kafka"), {})
        begins, ends = ({int(p): offset for p, offset in cut.items()} for cut in (from_kafka, own.cut_to))
        files = landed_files(warehouse, topic, last)
        return cls(warehouse, topic, own.partitions, files, begins, ends, bool(own.complete))

    @property
    def path(self) -> str:
        return self.warehouse.landed(self.topic)

    def first_offsets(self) -> dict[int, int]:
        """Of each partition the first offset of the log; where nobody knows, that of the first row, and without rows
        the next one to land.
        """
        offsets = dict(self.ends)
        for file in self.files:
            if file.min_offset is not None:
                offsets[file.partition] = min(file.min_offset, offsets[file.partition])
        return {**offsets, **self.begins}


def read_output(
    output: ComparedOutput, warehouse: Warehouse, pipeline: str, done: DoneRow, *,
    partitions: int, span: Span, ignored: Collection[str],
) -> Side:  # fmt: skip
    """Rows of the output as of the done row. ``partitions``: of what production wrote; ``span``: which times;
    ``ignored``: fields of the value that are not compared.
    """
    schema = pa.schema([*PLACE, *row_schema(output)])
    path = warehouse.pipeline(pipeline).table(output.table)
    files = table_files(warehouse, pipeline, done, output.table)

    def parts(file: DataFile) -> Iterator[Side]:
        for rows in read_pieces(path, file, schema, _PIECE):
            yield side_of(output, within(rows, "record_time_ms", span), partitions, ignored)

    fixed = _without(output)
    fixed["is_unreadable"] = 0
    if not output.moves_keys:
        fixed["target"] = "partition"
    return _in_order(files, parts, fixed)


def read_landed(output: ComparedOutput, landed: ProductionTopic, *, span: Span, ignored: Collection[str]) -> Side:
    """Rows that production wrote, read as the output's sink would write them; parameters as of ``read_output``."""
    names = ["partition", "offset", "timestamp", "key", "value"]
    if output.value_serde.codec.has_schema_id:
        names.append("headers")
    schema = pa.schema([LANDED_SCHEMA.field(name) for name in names])

    def parts(file: DataFile) -> Iterator[Side]:
        for piece in read_pieces(landed.path, file, schema, _PIECE):
            rows = within(piece, "timestamp", span)
            keys = output.key_serde.decode(_whole(rows, "key"))
            raw = _whole(rows, "value")
            if "headers" in names:
                raw = with_header_ids(raw, _whole(rows, "headers"), VALUE_HEADER)
            values = output.value_serde.decode(raw)
            plain, bounds = _without_window(keys, output)
            own = _integers(rows, "partition", np.int32)
            side = _side(
                output, own, _integers(rows, "offset"), own, plain, bounds, values.values,
                _integers(rows, "timestamp"), ignored=ignored, cause=np.full(len(rows), -1),
            )  # fmt: skip
            yield _marked(side, keys, values, raw)

    fixed = _without(output)
    fixed |= {"cause": -1, "target": "partition"}
    return _in_order(landed.files, parts, fixed)


def _without(output: ComparedOutput) -> dict[str, int | str]:
    """Of an output without windows, their bounds, and the identity, which is the key alone."""
    return {} if output.windows else {"start": 0, "end": 0, "identity": "key"}


def side_of(output: ComparedOutput, rows: pa.Table, partitions: int, ignored: Collection[str]) -> Side:
    """``rows`` of the output, with the columns of ``PLACE`` and ``row_schema``; parameters as of ``read_output``."""
    keys, own = _whole(rows, "key"), _integers(rows, "partition", np.int32)
    target = output.partitions_of(keys, partitions) if output.moves_keys else own
    bounds = [_integers(rows, name) for name in WINDOW] if output.windows else None
    return _side(
        output, own, _integers(rows, "offset"), target, keys, bounds, _whole(rows, "value"),
        _integers(rows, "record_time_ms"), ignored=ignored, cause=_integers(rows, "cause_offset"),
    )  # fmt: skip


def row_schema(output: ComparedOutput) -> pa.Schema:
    """Of what is compared of a row of ours."""
    shape = output.sink.shape
    windows = [(name, pa.int64()) for name in (WINDOW if output.windows else ())]
    ends = ("value", shape.value.arrow_type), ("record_time_ms", pa.int64())
    return pa.schema([("key", shape.key.arrow_type), *windows, *ends])


def digests_of(output: ComparedOutput, rows: pa.Table, ignored: Collection[str]) -> np.ndarray:
    """``Side.whole`` of ``rows``, which have the columns of ``row_schema``."""
    bounds = [_integers(rows, name) for name in WINDOW] if output.windows else None
    nothing, time = np.zeros(len(rows), np.int64), _integers(rows, "record_time_ms")
    return _side(
        output, nothing, nothing, nothing, _whole(rows, "key"), bounds, _whole(rows, "value"), time,
        ignored=ignored, cause=nothing,
    ).whole  # fmt: skip


def _side(
    output: ComparedOutput, partition: np.ndarray, offset: np.ndarray, target: np.ndarray, keys: pa.Array,
    bounds: Sequence[np.ndarray] | None, values: pa.Array, time: np.ndarray, *,
    ignored: Collection[str], cause: np.ndarray,
) -> Side:  # fmt: skip
    key = digests(float_bits(keys))
    if bounds is None:
        start = end = np.broadcast_to(np.int64(0), len(keys))
        identity = key
    else:
        start, end = bounds
        identity = combined(key, *((start, end) if output.has_ends else (start,)))
    return Side(
        partition=partition, offset=offset, target=target.astype(np.int32), key=key, start=start, end=end,
        value=digests(values, ignored=ignored), time=time, is_tombstone=~is_valid(values),
        is_unreadable=np.zeros(len(keys), np.bool_), cause=cause, identity=identity,
    )  # fmt: skip


def _marked(side: Side, keys: Decoded, values: Decoded, raw: pa.Array) -> Side:
    """What cannot be read is like no row of ours, and no tombstone."""
    bad = keys.bad | values.bad
    if not bad.any():
        return side
    unlike = combined(side.partition, side.offset, np.uint64(1))
    return replace(
        side, is_unreadable=bad, is_tombstone=side.is_tombstone & ~bad,
        value=np.where(values.bad, combined(digests(raw), np.uint64(2)), side.value),
        key=np.where(keys.bad, unlike, side.key), identity=np.where(keys.bad, unlike, side.identity),
    )  # fmt: skip


def _without_window(keys: Decoded, output: ComparedOutput) -> tuple[pa.Array, list[np.ndarray] | None]:
    if output.windows is None:
        return keys.values, None
    key, start, end = keys.values.flatten()
    return key, [pc.fill_null(each, 0).to_numpy(zero_copy_only=False) for each in (start, end)]


def _in_order(
    files: Sequence[DataFile], parts: Callable[[DataFile], Iterator[Side]], fixed: Mapping[str, int | str]
) -> Side:
    """All rows by partition and offset. ``parts``: of a file, in their order; ``fixed``: columns with one number in all
    rows, or that are the same as the column of that name. Files of one partition may follow one another already.

    Columns are filled part by part, and what is fixed takes no memory: new pages cost more than what is written to
    them.
    """
    begins = np.cumsum([0, *(file.records for file in files)])
    columns = {name: _empty(int(begins[-1]), kind) for name, kind in _KINDS.items() if name not in fixed}

    def fill(number: int) -> int:
        """The rows of a file, which may have more."""
        at = begins[number]
        for part in parts(files[number]):
            for name, column in columns.items():
                column[at : at + len(part)] = getattr(part, name)
            at += len(part)
        return int(at - begins[number])

    with ThreadPoolExecutor(_THREADS) as threads:
        counts = list(threads.map(fill, range(len(files))))
    if sum(counts) < begins[-1]:
        kept = np.concatenate([begin + np.arange(count) for begin, count in zip(begins, counts, strict=False)])
        columns = {name: column[kept] for name, column in columns.items()}
    partition, offset = columns["partition"], columns["offset"]
    rises = (offset[1:] > offset[:-1]) & (partition[1:] == partition[:-1]) | (partition[1:] > partition[:-1])
    if not rises.all():
        order = np.lexsort((offset, partition))
        columns = {name: column[order] for name, column in columns.items()}
    for name, value in fixed.items():
        if isinstance(value, str):
            columns[name] = columns[value]
        else:
            columns[name] = np.broadcast_to(np.array(value, _KINDS[name]), len(partition))
    return Side(**columns)


def _empty(rows: int, kind: type[np.generic]) -> np.ndarray:
    """As ``np.empty``, in small pages. NumPy asks for huge ones, and to clear room for them took as long as the reading
    on a machine whose memory was full of cached files.
    """
    size = rows * np.dtype(kind).itemsize
    return np.frombuffer(mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS), kind) if size else np.empty(0, kind)


# --- digests -------------------------------------------------------------------------------------------------


def digests(values: pa.Array, *, ignored: Collection[str] = ()) -> np.ndarray:
    """A uint64 a value, equal for values that are; null has one too. ``ignored``: fields of a struct left out. Raises
    ConfigError for a field that is not there.
    """
    kind = values.type
    if ignored:
        names = [field.name for field in kind] if pa.types.is_struct(kind) else []
        unknown = sorted(set(ignored) - set(names))
        if unknown:
            expected = f"fields of the value ({', '.join(names) or 'it has none'})"
            raise ConfigError("ignore_fields", expected, ", ".join(unknown), "name fields of the output's value")
    if not len(values):
        return np.zeros(0, np.uint64)
    listed = values.cast(_listed(kind)) if _has_map(kind) else values
    frame = pl.from_arrow(pa.table({"value": listed}))
    assert isinstance(frame, pl.DataFrame)
    # Polars' hashes may change with its version. Both sides are hashed in one process, and no hash is kept.
    digest = _canonical(pl.col("value"), kind, ignored).hash(seed=0)
    hashes: np.ndarray = frame.select(digest).to_series().to_numpy()
    return hashes


def _canonical(value: pl.Expr, kind: pa.DataType, ignored: Collection[str] = ()) -> pl.Expr:
    """``value`` without fields that are ``ignored``, and with the entries of its maps in one order."""
    if pa.types.is_struct(kind) and (ignored or any(_has_map(field.type) for field in kind)):
        kept = [field for field in kind if field.name not in ignored]
        parts = [_canonical(value.struct.field(field.name), field.type).alias(field.name) for field in kept]
        # A struct that is made of fields is never null itself: without this field a null would equal a struct of nulls.
        return pl.struct(value.is_null().alias(" null"), *parts)
    if pa.types.is_map(kind):
        return value.list.eval(pl.element().hash(seed=0)).list.sort()
    if pa.types.is_list(kind) and _has_map(kind.value_type):
        return value.list.eval(_canonical(pl.element(), kind.value_type))
    return value


def _listed(kind: pa.DataType) -> pa.DataType:
    """With lists of entries in the place of maps."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_listed(field.type)) for field in kind])
    if pa.types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", _listed(kind.item_type))])
        return pa.list_(pa.field("entries", entry, nullable=False))
    return pa.list_(_listed(kind.value_type)) if pa.types.is_list(kind) else kind


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_map(field.type) for field in kind)
    return bool(pa.types.is_map(kind) or (pa.types.is_list(kind) and _has_map(kind.value_type)))


def combined(*columns: "np.ndarray | np.uint64") -> np.ndarray:
    """A digest of several columns of integers, or of single numbers, row by row."""
    rows = max((len(column) for column in columns if isinstance(column, np.ndarray)), default=1)
    hashes = np.empty(rows, np.uint64)
    with np.errstate(over="ignore"):
        for begin in range(0, rows, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            parts = [column[block] if isinstance(column, np.ndarray) else column for column in columns]
            hashes[block] = reduce(_with, parts, np.uint64(0))  # type: ignore[arg-type]
    return hashes


def _with(digest: "np.ndarray | np.uint64", column: "np.ndarray | np.uint64") -> np.ndarray:
    """One round of a mixer of 64 bits (the finalizer of SplitMix64)."""
    number = column if isinstance(column, np.uint64) else column.astype(np.int64, copy=False).view(np.uint64)
    mixed = (digest * np.uint64(31) + number) + _SEED
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


# --- columns -------------------------------------------------------------------------------------------------


def within(rows: pa.Table, column: str, span: Span) -> pa.Table:
    """Rows whose time in ``column`` is in ``span``."""
    if span == ALL_TIMES:
        return rows
    times = rows[column]
    return rows.filter(pc.and_(pc.greater_equal(times, span[0]), pc.less(times, span[1])))


def _whole(rows: pa.Table, column: str) -> pa.Array:
    values = rows[column]
    if values.num_chunks == 1:
        return values.chunk(0)  # combine_chunks would copy it
    whole = values.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _integers(rows: pa.Table, column: str, kind: type = np.int64) -> np.ndarray:
    values = _whole(rows, column)
    known = pc.fill_null(values, -1) if values.null_count else values
    numbers: np.ndarray = known.to_numpy(zero_copy_only=False).astype(kind, copy=False)
    return numbers
