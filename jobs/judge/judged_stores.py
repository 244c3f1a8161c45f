"""Stores of a pipeline beside those of Kafka's tasks, which their changelogs have.

Owns the bytes of changelogs. Rule: a key-value store has the same rows on both sides. A store that forgets by time has
all of our rows on Kafka's side; Kafka's has more, since its rows leave by whole segments and not by the changelog.

A changelog's key of a window is the key, the window's start and a number int32 (WindowKeySchema). That of a session is
the key, its end and its start (SessionKeySchema). A version has the key alone, and its record's time (KIP-889).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import big_endian_at, float_bits, is_valid
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse
from ..compare.sides import digests
from ..history.store_reader import inner_stores_of, store_of
from ..operators.base.operator import StoreContents
from ..topology.topology import Topology
from .kafka_tasks import KafkaRun

CHANGELOG = "-changelog"
_ROW = ["partition", "key", "time", "end"]
"""``time``: of a window its start, of a version from when it is valid; ``end``: of a session."""
_STORES, _NUMBER = re.compile(r"stores: \[([^]]*)]"), re.compile(r"\d{10}")


@dataclass(frozen=True)
class JudgedStore:
    """A store beside its changelog. ``rows``: of ours and of Kafka's; ``missing``: of Kafka's rows that ours lacks
    (of key-value stores alone); ``extra``: of ours that Kafka's lacks; ``other``: with another value.
    """

    store: str
    rows: tuple[int, int]
    missing: int
    extra: int
    other: int

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.extra or self.other)


def judge_stores(
    warehouse: Warehouse, topology: Topology, pipeline: str, done: DoneRow, run: KafkaRun
) -> tuple[list[JudgedStore], list[str]]:
    """Stores whose rows have a key and a value and of which Kafka's tasks keep a changelog, and the names of the
    others: buffers, and tables that Kafka does not materialize.
    """
    judged, others = [], []
    names = _kafkas_names(topology.describe(), run.describe)
    for name, contents in _contents(warehouse, topology, pipeline, done):
        written = run.internal.get(f"{names.get(name, name)}{CHANGELOG}")
        if contents is None or written is None:
            others.append(name)
            continue
        judged.append(judged_store(name, contents, written))
    return judged, others


def judged_store(name: str, contents: StoreContents, written: pa.Table) -> JudgedStore:
    """A store of ours beside what Kafka's tasks have ``written`` to its changelog."""
    ours, theirs = _ours(contents), _theirs(contents, written)
    both = ours.join(theirs, on=_ROW, how="inner", suffix="_kafka")
    forgets = not {"window_start_ms", "valid_from_ms"}.isdisjoint(contents.rows.column_names)
    other = int(both.select((pl.col("value") != pl.col("value_kafka")).sum()).item())
    missing = 0 if forgets else len(theirs) - len(both)
    return JudgedStore(name, (len(ours), len(theirs)), missing, len(ours) - len(both), other)


def _contents(
    warehouse: Warehouse, topology: Topology, pipeline: str, done: DoneRow
) -> Iterator[tuple[str, StoreContents | None]]:
    """By name; None for what has no values by key."""
    for name, node in topology.stores().items():
        inner = inner_stores_of(warehouse, pipeline, topology, name, done)
        yield from inner.items()
        if inner:
            continue
        rows = store_of(warehouse, pipeline, topology, name, done)
        has_values = {"key", "value"} <= {*rows.column_names} and not node.holds_back
        yield name, StoreContents(node.shape.key, node.shape.value, rows, node.shape.window) if has_values else None


def _kafkas_names(ours: str, theirs: str) -> dict[str, str]:
    """Kafka's name of each store, where both sides have stores of the same kinds in the same order: the numbers in
    generated names differ as soon as one side has a node more.
    """
    sides = [[name for part in _STORES.findall(text) for name in part.split(", ") if name] for text in (ours, theirs)]
    plain = [[_NUMBER.sub("", name) for name in names] for names in sides]
    return dict(zip(*sides, strict=True)) if plain[0] == plain[1] else {}


def _ours(contents: StoreContents) -> pl.DataFrame:
    rows = contents.rows
    kept = rows.filter(pc.is_valid(rows["value"].combine_chunks()))
    if "is_mark" in kept.column_names:
        kept = kept.filter(pc.invert(kept["is_mark"]))
    at = next((kept[name] for name in ("valid_from_ms", "window_start_ms") if name in kept.column_names), None)
    time = np.zeros(len(kept), np.int64) if at is None else at.to_numpy()
    # Kafka names a session by both bounds, and only a session.
    end = kept["window_end_ms"].to_numpy() if contents.window == "session" else np.zeros(len(kept), np.int64)
    return _frame(kept["partition"].to_numpy(), kept["key"].combine_chunks(), time, end, kept["value"].combine_chunks())


def _theirs(contents: StoreContents, written: pa.Table) -> pl.DataFrame:
    """The last value of every row; by the columns of ours what the keys are."""
    keys, time = written["key"].combine_chunks(), np.zeros(len(written), np.int64)
    end = np.zeros(len(written), np.int64)
    if "valid_from_ms" in contents.rows.column_names:
        time = written["timestamp"].to_numpy()
    elif contents.window == "session":
        keys, time, end = pc.binary_slice(keys, 0, -16), big_endian_at(keys, -8), big_endian_at(keys, -16)
    elif "window_start_ms" in contents.rows.column_names:
        keys, time = pc.binary_slice(keys, 0, -12), big_endian_at(keys, -12)
    values = written["value"].combine_chunks()
    frame = pl.DataFrame({
        "partition": written["partition"].to_numpy(), "key": pl.from_arrow(keys), "time": time, "end": end,
        "is_there": is_valid(values),
    })  # fmt: skip
    last = frame.with_row_index("row").group_by(_ROW).agg(pl.col("row", "is_there").last()).filter("is_there")
    at = np.sort(last["row"].to_numpy())
    key, value = contents.key.decode(keys.take(pa.array(at))), contents.value.decode(values.take(pa.array(at)))
    return _frame(written["partition"].to_numpy()[at], key.values, time[at], end[at], value.values)


def _frame(partition: np.ndarray, key: pa.Array, time: np.ndarray, end: np.ndarray, value: pa.Array) -> pl.DataFrame:
    return pl.DataFrame({
        "partition": partition.astype(np.int64), "key": digests(float_bits(key)), "time": time.astype(np.int64),
        "end": end.astype(np.int64), "value": digests(value),
    })  # fmt: skip
