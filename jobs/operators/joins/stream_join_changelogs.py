"""Records of a join of two streams out of the changelogs of its stores.

Owns which of a side's records wait for a match. Rule: both sides are window stores that retain duplicates, whose
sequence numbers order records of one key and time (WindowKeySchema). The third store, of left and outer joins, has a
list of values for each (time, side, key), which are the last records of that key and time (ListValueStore,
TimestampedKeyAndJoinSideSerializer, LeftOrRightValueSerializer).
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import big_endian_at, only_chunk
from ....state.serdes.java_bytes import JavaBytes, int_bytes, long_bytes, sized
from ....state.times import NO_TIMESTAMP_MS
from ...functions.expressions import Shape
from ..base.changelogs import Changelog, KeptStore, LeftState, window_key

_SIDES = ("left", "right")
_IS_LEFT, _HAS_LEFT = 1, (1, 0)
_SIZES_VARY = 1
"""Of a list: each value is behind its size (ListSerializer)."""
_SIDE_AT, _KEY_AT = 8, 9
"""Where the side and the key begin in a key of the third store, behind the time."""


class RestoredJoin(NamedTuple):
    """``rows``: durable ones. ``waiting_ms``: times of those that wait; ``store_times_ms``: the largest time of each
    side's store; ``records``: so many numbers are used.
    """

    rows: pa.Table
    waiting_ms: np.ndarray
    store_times_ms: list[int]
    records: int


def restored_records(left: LeftState, shapes: tuple[Shape, ...], schema: pa.Schema) -> RestoredJoin:
    """``shapes``: of both inputs; ``schema``: of the rows."""
    *sides, waiting = left.logs if len(left.logs) == len(_SIDES) + 1 else (*left.logs, None)
    pieces, times, numbers, records = [], [], dict[tuple[int, bytes, int], list[int]](), 0
    for side, (log, shape) in enumerate(zip(sides, shapes, strict=True)):
        assert log is not None
        times.append(int(log.window_keys.start_ms.max(initial=NO_TIMESTAMP_MS)))
        last = _in_order(log.last())
        keys, start_ms, _ = last.window_keys
        sequence = records + np.arange(len(last))
        records += len(last)
        for key, time_ms, number in zip(keys.to_pylist(), start_ms.tolist(), sequence.tolist(), strict=True):
            numbers.setdefault((side, key, time_ms), []).append(number)
        key, value = last.decoded(shape.key, keys), last.decoded(shape.value, last.value)
        pieces.append(_rows(_SIDES[side], side, key, start_ms, sequence, value, schema))
    waiting_ms = np.zeros(0, np.int64)
    if waiting is not None:
        unmatched, records = _waiting(waiting.last(), shapes, numbers, records, schema)
        waiting_ms = np.concatenate([rows["record_time_ms"].to_numpy() for rows in unmatched])
        pieces += unmatched
    return RestoredJoin(pa.concat_tables(pieces), waiting_ms, times, records)


def _in_order(log: Changelog) -> Changelog:
    _, start_ms, sequence = log.window_keys
    numbers = pc.cast(pc.binary_join_element_wise(b"\0\0\0\0", sequence, b""), pa.binary())
    return log.take(np.lexsort([big_endian_at(numbers, 0), start_ms]))


def _waiting(
    log: Changelog, shapes: tuple[Shape, ...], numbers: dict[tuple[int, bytes, int], list[int]], records: int,
    schema: pa.Schema,
) -> tuple[list[pa.Table], int]:  # fmt: skip
    """Of both sides, and how many numbers are used then. ``numbers``: of records by side, key and time."""
    sides = [list[tuple[bytes, int, int, bytes]](), list[tuple[bytes, int, int, bytes]]()]
    for name, listed in zip(log.key.to_pylist(), log.value.to_pylist(), strict=True):
        time_ms, side = int.from_bytes(name[:_SIDE_AT], "big"), 0 if name[_SIDE_AT] == _IS_LEFT else 1
        key, values = name[_KEY_AT:], _listed(listed)
        known = numbers.get((side, key, time_ms), [])[-len(values) :]
        missing = len(values) - len(known)  # their store has forgotten them, and they wait all the same
        known = [*range(records, records + missing), *known]
        records += missing
        sides[side] += [(key, time_ms, number, value) for number, value in zip(known, values, strict=True)]
    pieces = []
    for side, rows in enumerate(sides):
        keys, times, given, values = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
        key = log.decoded(shapes[side].key, pa.array(keys, pa.binary()))
        value = log.decoded(shapes[side].value, pa.array(values, pa.binary()))
        times_ms, sequence = np.array(times, np.int64), np.array(given, np.int64)
        pieces.append(_rows(f"unmatched-{_SIDES[side]}", side, key, times_ms, sequence, value, schema))
    return pieces, records


def _listed(data: bytes) -> list[bytes]:
    """Values of a list that ListSerializer has written: how sizes are given, their number, each behind its size. A
    value is behind a byte that says its side.
    """
    taken = JavaBytes(data)
    taken.read_byte()
    return [taken.read(taken.read_int())[1:] for _ in range(taken.read_int())]


def _rows(
    kind: str, side: int, key: pa.Array, time_ms: np.ndarray, sequence: np.ndarray, value: pa.Array, schema: pa.Schema
) -> pa.Table:
    n = len(key)
    columns = {
        "kind": pa.array([kind] * n, pa.string()), "key": key, "record_time_ms": pa.array(time_ms),
        "sequence": pa.array(sequence), _SIDES[side]: value,
    }  # fmt: skip
    arrays = [columns[field.name] if field.name in columns else pa.nulls(n, field.type) for field in schema]
    return pa.table(arrays, schema=schema)


def logged_records(rows: pa.Table, kept: KeptStore, shapes: tuple[Shape, ...]) -> tuple[Changelog, ...]:
    """The reverse of ``restored_records``: changelogs of both sides, and of what waits where the join has such."""
    rows = rows.sort_by("sequence")
    logs, waiting = [], list[tuple[int, int, bytes, bytes]]()
    for side, shape in enumerate(shapes):
        key, time_ms, value = _serialized(rows, _SIDES[side], side, shape)
        logs.append(Changelog(kept.topics[side], window_key(key, time_ms, np.arange(len(key))), value, time_ms))
        keys, times, values = _serialized(rows, f"unmatched-{_SIDES[side]}", side, shape)
        parts = zip(times.tolist(), keys.to_pylist(), values.to_pylist(), strict=True)
        waiting += [(at, side, name, data) for at, name, data in parts]
    if len(kept.topics) > len(shapes):
        listed: dict[tuple[int, int, bytes], list[bytes]] = {}
        for at, side, name, data in waiting:
            listed.setdefault((at, side, name), []).append(bytes([_HAS_LEFT[side]]) + data)
        names = [long_bytes(at) + bytes([_HAS_LEFT[side]]) + name for at, side, name in listed]
        lists = [
            bytes([_SIZES_VARY]) + int_bytes(len(values)) + b"".join(map(sized, values)) for values in listed.values()
        ]
        of_waiting = pa.array(names, pa.binary()), pa.array(lists, pa.binary())
        logs.append(Changelog(kept.topics[-1], *of_waiting, np.array([at for at, _, _ in listed], np.int64)))
    return tuple(logs)


def _serialized(rows: pa.Table, kind: str, side: int, shape: Shape) -> tuple[pa.Array, np.ndarray, pa.Array]:
    """Keys, times and values of the rows of a kind."""
    own = rows.filter(pc.equal(rows["kind"], kind))
    key, value = shape.key.encode(only_chunk(own, "key")), shape.value.encode(only_chunk(own, _SIDES[side]))
    return key.cast(pa.binary()), own["record_time_ms"].to_numpy(), value.cast(pa.binary())
