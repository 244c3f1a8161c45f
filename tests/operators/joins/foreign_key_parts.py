"""Parts of a foreign-key join on their own: places, batches and a table that they can look into."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.graph.foreign_key_messages import response_shape, subscription_shape
from kstreams_replay.jobs.operators.base.operator import Found, TableView
from kstreams_replay.state.buffers import is_valid
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde

STRING = Serde.string()
SUBSCRIPTION = subscription_shape(STRING, STRING)
RESPONSE = response_shape(STRING, STRING)

Row = dict[str, Any]


class PutsByCause(TableView):
    """Puts by cause; a row that asks sees those of smaller causes."""

    wants = frozenset()

    def __init__(self, keys: Keys) -> None:
        self.keys, self.puts, self.now = keys, [], {}

    def put(self, cause: int, key: str, value: str | None, time_ms: int) -> None:
        self.puts.append((cause, int(self.keys.intern(STRING.encode(pa.array([key])))[0]), value, time_ms))

    def feed(self, seen: Mapping[tuple[str, str], Batch]) -> None:
        raise AssertionError("puts are given by put()")

    def get(self, asking: Batch, keys: np.ndarray, as_of_ms: np.ndarray | None = None) -> Found:
        values, times = [], []
        for cause, key in zip(asking.cause.tolist(), keys.tolist(), strict=True):
            while self.puts and self.puts[0][0] < cause:
                _, put, value, time_ms = self.puts.pop(0)
                self.now[put] = (value, time_ms)
            value, time_ms = self.now.get(key, (None, -1))
            values.append(value)
            times.append(-1 if value is None else time_ms)
        array = pa.array(values, pa.string())
        return Found(array, is_valid(array), np.array(times, np.int64))

    def settle(self) -> None:
        for _, put, value, time_ms in self.puts:
            self.now[put] = (value, time_ms)
        self.puts.clear()

    def resume(self, stores: Mapping[str, pa.Table]) -> None:
        raise AssertionError("puts are given by put()")


def batch_of(
    keys: Keys, rows: Iterable[Row], value: Serde = STRING, *, with_old: bool = False, latest: bool = False
) -> Batch:
    """Rows of cause, key, value, time, and perhaps old and latest."""
    rows = list(rows)
    values = value.from_python([row["value"] for row in rows])
    old = value.from_python([row["old"] for row in rows]) if with_old else None
    return Batch(
        cause=np.array([row["cause"] for row in rows], np.int32),
        key=keys.intern(keys.serde.encode(keys.serde.from_python([row["key"] for row in rows]))),
        keys=keys,
        time_ms=np.array([row["time"] for row in rows], np.int64),
        valid=is_valid(values),
        value=Values(values),
        old=None if old is None else Values(old),
        old_valid=None if old is None else is_valid(old),
        latest=np.array([row["latest"] for row in rows], np.bool_) if latest else None,
    )


def rows_of(batch: Batch, value: Serde) -> list[Row]:
    """Cause, key, value and time of every record."""
    keys = batch.keys.serde.to_python(batch.keys.typed(batch.key))
    columns = (batch.cause.tolist(), keys, value.to_python(batch.value.all()), batch.time_ms.tolist())
    names = ("cause", "key", "value", "time")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
