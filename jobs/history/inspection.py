"""What a pipeline holds as of an increment: a store's keys, what waits in its buffers and until when, and how far
everything has come.

Owns no rule of a store: rows are what the operators themselves show (jobs/history/store_reader.py). Rule of waiting: a
row goes as soon as the stream time of its operator reaches ``waits_until_ms``, inclusive.
"""

import json
import re
from base64 import b64encode
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError
from ...state.serdes import Serde
from ...state.tables.names import TaskId
from ...state.tables.task_entry import TaskEntry
from ..tape.landed_topic import Landed
from .history import AsOf

WAITS_UNTIL = "waits_until_ms"

_UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def inspect_store(as_of: AsOf, store: str, key: str | None = None) -> pa.Table:
    """Rows of ``store`` as its operator shows them, of every key or of the one that the text ``key`` means; of a store
    in which rows wait, with ``waits_until_ms``.

    Windows, sessions and versions are a row each. Raises ConfigError without a topology, for a store that it does not
    have, and for a key that is none.
    """
    topology = as_of.history.topology
    if topology is None:
        raise ConfigError(
            f"store {store!r}", "the topology, whose operator shows it", "none", "name it with --topology"
        )
    rows = as_of.state(store)
    if key is not None:
        name = "key" if "key" in rows.column_names else "id"
        wanted = parse_key(rows.schema.field(name).type, key)
        rows = rows.filter(equals_key(rows[name], wanted))
    until = topology.stores()[store].waits_until(rows)
    return rows if until is None else rows.append_column(WAITS_UNTIL, until)


def counters_of(as_of: AsOf, store: str) -> list[dict[str, Any]]:
    """The counters of ``store``'s operator, a row a task."""
    return [{"task": task, **entry.counters[store]} for task, entry in _tasks(as_of) if store in entry.counters]


def parse_key(kind: pa.DataType, text: str) -> pa.Scalar:
    """The key that ``text`` means: itself, a number, true or false, or JSON for a key of fields, whose times and bytes
    are as `replay inspect` shows them. Raises ConfigError.
    """
    serde = Serde.of_type(kind)
    expected = f"a key of type {kind}"
    try:
        value: Any = text
        if serde == Serde.variant():
            value = int(text) if text.lstrip("-").isdigit() else text
        elif pa.types.is_boolean(kind):
            value = {"true": True, "false": False}[text]
        elif pa.types.is_integer(kind):
            value = int(text)
        elif pa.types.is_floating(kind):
            value = float(text)
        elif pa.types.is_binary(kind):
            value = text.encode()
        elif not pa.types.is_string(kind):
            return _parsed(serde, kind, text)
        return serde.from_python([value])[0]
    except (ValueError, KeyError) as error:
        raise ConfigError("key", expected, repr(text), "write it as `replay inspect STORE` shows keys") from error


def _parsed(serde: Serde, kind: pa.DataType, text: str) -> pa.Scalar:
    """A decimal, a date or a time as it is shown, fields, a list or a map as JSON. Raises ValueError."""
    spelled = text
    if not pa.types.is_decimal(kind):
        spelled = json.dumps(_as_written(kind, text if pa.types.is_temporal(kind) else json.loads(text)))
    decoded = serde.decode(pa.array([spelled.encode()], pa.binary()))
    if decoded.bad[0]:
        raise ValueError(decoded.reasons[0])
    return decoded.values[0]


def _as_written(kind: pa.DataType, shown: Any) -> Any:
    """What ``shown`` is in JSON as serdes write it. Raises ValueError for a field that is none."""
    if pa.types.is_struct(kind) and isinstance(shown, dict):
        types = {field.name: field.type for field in kind}
        if unknown := sorted(set(shown) - set(types)):
            raise ValueError(f"no field {unknown[0]}")
        return {name: _as_written(types[name], value) for name, value in shown.items()}
    if pa.types.is_list(kind) and isinstance(shown, list):
        return [_as_written(kind.value_type, value) for value in shown]
    if pa.types.is_timestamp(kind) and isinstance(shown, str):
        return shown.replace(" ", "T", 1)
    if pa.types.is_binary(kind) and isinstance(shown, str):
        return b64encode(shown.encode()).decode()
    return shown


def equals_key(column: pa.ChunkedArray, wanted: pa.Scalar) -> pa.Array:
    """Of each row of a column of keys whether it is ``wanted``, as ``parse_key`` gives it. A UUID is one key in lower
    and in upper case, and NaN is one key.
    """
    # Arrow compares no structs, lists or maps with `equal`: of such keys the bytes are compared, as Kafka's stores do.
    if not pa.types.is_nested(column.type):
        value = wanted.as_py()
        if isinstance(value, float) and isnan(value):
            return pc.is_nan(column)
        if isinstance(value, str | bytes) and _UUID.fullmatch(value.encode() if isinstance(value, str) else value):
            return pc.is_in(column, pa.array([value, value.lower(), value.upper()], column.type))
        return pc.equal(column, wanted)
    serde = Serde.of_type(column.type)
    codes = serde.encode(column.combine_chunks().cast(serde.arrow_type))
    return pc.equal(codes, serde.encode(pa.array([wanted.as_py()], serde.arrow_type))[0])


def read_positions(as_of: AsOf) -> list[dict[str, Any]]:
    """How far every partition of every landed topic has been read: topic, partition, read (the next offset), landed
    (the next offset of landing, now) and waiting (the difference, of offsets).
    """
    cut = as_of.row.content.cut_to
    rows = []
    for topic, ends in sorted(cut.items()):
        landed = Landed.of(as_of.history.warehouse, topic).ends
        for partition, end in sorted(ends.items(), key=lambda item: int(item[0])):
            now = landed.get(partition, end)
            rows.append({"topic": topic, "partition": int(partition), "read": end, "landed": now, "waiting": now - end})
    return rows


def task_positions(as_of: AsOf) -> list[dict[str, Any]]:
    """The position of every task: task, stream_time_ms, and the next offset of every table that it writes."""
    return [
        {"task": task, "stream_time_ms": entry.stream_time_ms, **dict(sorted(entry.next_offsets.items()))}
        for task, entry in _tasks(as_of)
    ]


def all_counters(as_of: AsOf) -> list[dict[str, Any]]:
    """The numbers that live with every store: task, store, clock, value."""
    return [
        {"task": task, "store": store, "clock": clock, "value": value}
        for task, entry in _tasks(as_of)
        for store, counters in sorted(entry.counters.items())
        for clock, value in sorted(counters.items())
    ]


def _tasks(as_of: AsOf) -> list[tuple[str, TaskEntry]]:
    tasks = as_of.row.content.tasks
    return [(name, tasks[name]) for name in sorted(tasks, key=TaskId.of)]
