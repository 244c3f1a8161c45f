"""Never a second final result of a window: what ``is_strict_final`` adds to suppress.

KIP-328 promises exactly one result of every window. Suppress lets a result go when stream time reaches ``end + wait``,
at which very millisecond the aggregations of sessions and sliding windows (whose end is inclusive) still take records,
so that Kafka may emit such a window again. Rule: a window that was emitted at ``end + wait`` is remembered as long as
stream time stands there, and a later result of it is refused; once stream time is past, the aggregation refuses its
records.

What it does not do: a session whose result has left may still be merged into a longer one while the aggregation's store
keeps it. That is a window of its own, with one result; its records are counted in both. A store of the windows' own
retention (gap + grace) has forgotten the session by then.
"""

import numpy as np
import pyarrow as pa

from jobs.operators.operator import Place, marked


class FinalOnce:
    """Remembers windows as (key code, start, end), and which of them the durable table has."""

    def __init__(self, place: Place, wait_ms: int) -> None:
        self.place, self.wait_ms = place, wait_ms
        self._windows = np.zeros((0, 3), np.int64)
        self._stored = np.zeros((0, 3), np.int64)

    def first(
        self, key: np.ndarray, start: np.ndarray, end: np.ndarray, stream_time_ms: np.ndarray, now_ms: int
    ) -> np.ndarray:
        """Which results, in order, are the first of their windows. ``stream_time_ms``: at which each leaves;
        ``now_ms``: stream time after all of them.
        """
        windows = np.stack([key.astype(np.int64), start, end], axis=1)
        at_the_edge = np.flatnonzero(end + self.wait_ms == stream_time_ms)
        known = np.concatenate([self._windows, windows[at_the_edge]])
        _, firsts = np.unique(_identity(known), return_index=True)
        is_first = np.zeros(len(known), np.bool_)
        is_first[firsts] = True
        self._windows = known[is_first & (known[:, 2] + self.wait_ms == now_ms)]
        passes = np.ones(len(key), np.bool_)
        passes[at_the_edge] = is_first[len(known) - len(at_the_edge) :]
        return passes

    # --- state -----------------------------------------------------------------------------------------------

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Rows of the buffer and, ``is_emitted``, of the windows that are remembered."""
        return schema.append(pa.field("is_emitted", pa.bool_()))

    def load(self, rows: pa.Table) -> pa.Table:
        """Take the remembered windows out of ``rows``; the others are the buffer's."""
        is_emitted = rows["is_emitted"].combine_chunks()
        ours = rows.filter(is_emitted)
        key = self.place.keys.intern(self.place.shape.key.encode(pa.array(ours["key"].to_pylist(), ours["key"].type)))
        bounds = (ours[name].to_numpy() for name in ("window_start_ms", "window_end_ms"))
        self._windows = self._stored = np.stack([key.astype(np.int64), *bounds], axis=1)
        return rows.filter(pa.compute.invert(is_emitted)).drop_columns("is_emitted")

    def with_remembered(self, rows: pa.Table) -> pa.Table:
        return pa.concat_tables([_flagged(rows, False), self._table(self._windows, rows.schema)])

    def marked(self, alive: pa.Table, gone: pa.Table) -> pa.Table:
        """Changed rows: those of the buffer, and what was remembered or forgotten since ``load``. A window that left
        the buffer and is remembered keeps its row.
        """
        new = self._windows[~_is_in(self._windows, self._stored)]
        forgotten = self._stored[~_is_in(self._stored, self._windows)]
        codes = self.place.keys.intern(self.place.shape.key.encode(gone["key"].combine_chunks()))
        bounds = (gone[name].to_numpy() for name in ("window_start_ms", "window_end_ms"))
        left = np.stack([codes.astype(np.int64), *bounds], axis=1)
        gone = gone.filter(pa.array(~_is_in(left, self._windows)))
        schema = alive.schema
        return marked(
            pa.concat_tables([_flagged(alive, False), self._table(new, schema)]),
            pa.concat_tables([_flagged(gone, False), self._table(forgotten, schema)]),
        )

    def _table(self, windows: np.ndarray, schema: pa.Schema) -> pa.Table:
        known = {
            "key": self.place.keys.typed(windows[:, 0].astype(np.int32)),
            "window_start_ms": pa.array(windows[:, 1]),
            "window_end_ms": pa.array(windows[:, 2]),
        }
        columns = [known.get(field.name, pa.nulls(len(windows), field.type)) for field in schema]
        return _flagged(pa.table(columns, schema=schema), True)


def _flagged(rows: pa.Table, is_emitted: bool) -> pa.Table:
    return rows.append_column("is_emitted", pa.array(np.full(len(rows), is_emitted)))


def _identity(windows: np.ndarray) -> np.ndarray:
    """(key, start, end) as one comparable value each."""
    return np.ascontiguousarray(windows).view("V24").ravel()


def _is_in(windows: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.isin(_identity(windows), _identity(others))
