"""Entries of a suppress buffer out of its changelog (InMemoryTimeOrderedKeyValueChangeBuffer, BufferValue).

Owns the bytes of an entry. First is the record's context: time, offset, topic, partition, headers. Then come the values
prior, old and new, each behind its length, and the buffer time. A length of -1 is null, and -2 of the old value says
that it equals the prior one. The changelog's record has the version of this format as a header. With
dsl.store.format=HEADERS, from 4.4 on, others have headers and time of a value: a varint of 0 where it has no headers.
"""

from typing import Any

import pyarrow as pa

from ....state.buffers import only_chunk
from ....state.serdes.java_bytes import JavaBytes, int_bytes, long_bytes, sized
from ....state.tables.warehouse import HEADERS
from ..base.changelogs import Changelog, KeptStore, LeftState, unknown_changelog

_VERSION, _OF_VALUE = "v", b"\x03"
_OF_VALUES, _NO_HEADERS = ("vh.prior", "vh.old", "vh.new"), b"\0"
_NULL, _AS_PRIOR = -1, -2
_VALUES = ("prior", "old", "value")
_CONTEXT = ("record_time_ms", "context_offset", "context_topic", "headers", "buffer_time_ms")


def restored_entries(left: LeftState, schema: pa.Schema) -> pa.Table:
    """Rows of ``schema``. Raises ConfigError for entries that another version of Kafka Streams has written."""
    last = left.log.last()
    versions = _headers(last.headers, len(last))
    if not all({_VERSION: _OF_VALUE}.items() <= headers.items() for headers in versions):
        raise unknown_changelog(left.store, "entries in a format that is older than Kafka Streams 2.4")
    if any(not headers.get(name, _NO_HEADERS).startswith(_NO_HEADERS) for headers in versions for name in _OF_VALUES):
        raise unknown_changelog(left.store, "entries whose values have headers of their own (dsl.store.format=HEADERS)")
    entries = [_entry(value) for value in last.value.to_pylist()]
    columns: dict[str, Any] = {
        name: pa.array([entry[name] for entry in entries], schema.field(name).type)
        for name in schema.names
        if name not in ("key", "window_start_ms", "window_end_ms", *_VALUES)
    }
    for name in _VALUES:
        columns[name] = last.decoded(left.shape.value, pa.array([entry[name] for entry in entries], pa.binary()))
    columns |= left.table_keys(last)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _headers(column: pa.Array | None, rows: int) -> list[dict[str, bytes]]:
    all_headers = [None] * rows if column is None else column.to_pylist()
    return [{one["key"]: one["value"] for one in headers or ()} for headers in all_headers]


def _entry(data: bytes) -> dict[str, Any]:
    """By column of the buffer's rows; its values are still serialized."""
    taken = JavaBytes(data)
    time_ms, offset = taken.read_long(), taken.read_long()
    topic = taken.read(taken.read_int()).decode()
    taken.read_int()  # its partition, which is the task's
    headers = []
    for _ in range(taken.read_int()):
        name = taken.read(taken.read_int()).decode()
        length = taken.read_int()
        headers.append({"key": name, "value": None if length == _NULL else taken.read(length)})
    entry: dict[str, Any] = {}
    for name in _VALUES:
        length = taken.read_int()
        entry[name] = entry["prior"] if length == _AS_PRIOR else None if length == _NULL else taken.read(length)
    return entry | {
        "headers": headers or None, "context_topic": topic, "context_offset": offset, "record_time_ms": time_ms,
        "buffer_time_ms": taken.read_long(), "stream_time_ms": time_ms, "bytes": 0,
    }  # fmt: skip


def logged_entries(rows: pa.Table, kept: KeptStore) -> Changelog:
    """The reverse of ``restored_entries``. An entry whose change will leave in silence has no context."""
    values = {name: kept.shape.value.encode(only_chunk(rows, name)).to_pylist() for name in _VALUES}
    columns = {name: rows[name].to_pylist() for name in _CONTEXT}
    entries = []
    for number in range(len(rows)):
        context = {name: column[number] for name, column in columns.items()}
        prior, old, new = (values[name][number] for name in _VALUES)
        headers = context["headers"] or ()
        parts = [
            long_bytes(context["record_time_ms"]), long_bytes(_given(context["context_offset"], -1)),
            sized(_given(context["context_topic"], "").encode()), int_bytes(kept.partition), int_bytes(len(headers)),
            *(sized(one["key"].encode()) + sized(one["value"]) for one in headers), sized(prior),
            int_bytes(_AS_PRIOR) if old is not None and old == prior else sized(old), sized(new),
            long_bytes(context["buffer_time_ms"]),
        ]  # fmt: skip
        entries.append(b"".join(parts))
    versions = pa.array([[{"key": _VERSION, "value": _OF_VALUE}]] * len(rows), HEADERS)
    data, times = pa.array(entries, pa.binary()), rows["record_time_ms"].to_numpy()
    return Changelog(kept.topic, kept.serialized_table_keys(rows), data, times, versions)


def _given(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value
