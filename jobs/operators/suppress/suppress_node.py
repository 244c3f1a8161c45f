"""The node of a suppressed table: how it is configured, what waits in it, and what it says of itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....state.errors import TopologyError
from ....state.promises import Buffered, Deletions, Promise, SuppressPromise
from ....state.tables.names import TableName
from ....state.tables.warehouse import HEADERS, WINDOW
from ...functions.expressions import Shape
from ...graph.graph import Graph, Node
from ...graph.kafka_traits import KafkaTrait
from ...graph.observations import Observation, Wait, bounds_of, name_of
from ...graph.reach import Reach
from ...graph.store_rows import StoreRowSchema
from ...graph.table_traits import send_old
from ...graph.windows import SessionWindows, SlidingWindows, Windows
from ...graph.wording import Wording
from ..base.promised_tables import outputs_of


@dataclass(frozen=True, eq=False, kw_only=True)
class SuppressNode(Node):
    """``until``: "window-closes" (``windows``: of the aggregate above; ``wait_ms``: from a window's end to its close)
    or "time-limit" (``wait_ms``: how long a key's changes wait).

    ``when_full``: "emit-early", "shut-down" or "spill".
    """

    store: str
    until: str
    wait_ms: int
    windows: Windows | None
    max_records: int | None
    max_bytes: int | None
    when_full: str

    operator = ".suppress:build"
    view = "..tables.table_views:suppress_view"
    shows_inputs = True
    holds_back = True
    reads_values_late = True
    metric_prefix = "buffer"

    @property
    def is_final(self) -> bool:
        """It forwards final results of windows alone."""
        return self.until == "window-closes"

    @property
    def waits_for_close(self) -> bool:
        return self.is_final

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        """Its buffer is in memory, and of no kind that a setting chooses."""
        return (KafkaTrait.SUPPRESS, KafkaTrait.TASK_STATE)

    @property
    def windows_of_rows(self) -> Windows | None:
        return self.windows

    def below_windows(self, graph: Graph) -> "SuppressNode":
        if not self.is_final:
            return self
        windows, wait_ms = windows_and_wait(graph, graph.parent(self))
        return self if wait_ms == self.wait_ms else replace(self, windows=windows, wait_ms=wait_ms)

    def stores_shown(self, graph: Graph) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.store, *super().stores_shown(graph))))

    def reach(self, graph: Graph) -> Reach:
        """What a full buffer emits early depends on all that ever was in it."""
        has_limit = self.max_records is not None or self.max_bytes is not None
        return Reach(self.wait_ms, is_unbounded=has_limit and self.when_full == "emit-early")

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        return StoreRowSchema(suppressed_schema(self.shape))

    def can_send_old(self, graph: Graph, *, force: bool) -> bool:
        return send_old(graph, self.inputs[0], force=force)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        """Windows wait here or leave; final results are never taken back; a bounded buffer is within its bounds."""
        yield from super().promises(graph)
        table, above = TableName.state(self.store), graph.parent(self)
        if self.when_full != "spill" and (self.max_records, self.max_bytes) != (None, None):
            yield Buffered(table, self.max_records, self.max_bytes, is_windowed=self.shape.window is not None)
        if not self.is_final:
            return
        outputs = outputs_of(graph, self, unchanged=True)
        for output in outputs:
            yield Deletions(output, never=True)
        aggregate = graph.store_of(above)
        if aggregate is not None and above.windowed_by is not None:
            yield SuppressPromise(
                table,
                TableName.state(aggregate),
                outputs,
                self.wait_ms,
                self.shape.window == "session",
                above.results_may_be_null or above.waits_for_close,
            )
        else:
            yield SuppressPromise(table, "", (), self.wait_ms, self.shape.window == "session", may_be_absent=False)

    def wants_old(self, *, counts_bytes: bool) -> bool:
        return counts_bytes or self.max_bytes is not None

    def waits_until(self, rows: pa.Table) -> pa.Array | None:
        return pc.add(rows["buffer_time_ms"], self.wait_ms)

    def waits(self, seen: Observation) -> list[Wait]:
        came = {row.named for row in seen.rows}
        return [
            self.wait(entry["key"], entry["buffer_time_ms"] + self.wait_ms, window=bounds_of(entry))
            for entry in seen.shows
            if self.is_held(entry) and name_of(entry) in came
        ]

    def is_held(self, entry: Mapping[str, Any]) -> bool:
        """A deletion before its window closed leaves in silence."""
        return not self.is_final or entry["value"] is not None

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        window, said, here = self.shape.window, [], {row.named for row in seen.rows}
        now = say.time(seen.counters.get("stream_time_ms", -1))
        waited = {name_of(entry): entry for entry in seen.shown}
        waits = {(wait.key, wait.window): wait for wait in self.waits(seen)}
        for row in seen.rows:
            name = f"{row.key!r}{'' if row.window is None else ' ' + say.window(row.window, window)}"
            wait = waits.get(row.named)
            if wait is not None:
                before = waited.get(row.named)
                instead = "" if before is None else f", in place of {before['value']!r}"
                until = f"{say.time(wait.until_ms)} (now {now})"
                said.append(f"{name} = {row.value!r} waits until stream time {until}{instead}{say.outcome(seen, wait)}")
            elif row.value is None and row.named not in {out.named for out in seen.forwarded}:
                said.append(f"{name} is deleted before it was final, so nothing of it is forwarded")
        for out in seen.forwarded:
            due = out.window[1] if out.window is not None and self.is_final else None
            at = "" if due is None else f" has reached {say.time(due + self.wait_ms)}"
            verb = "forwards at once" if out.named in here else "lets go"
            said.append(f"{verb}: {say.row(out, window)}; stream time {now}{at}")
        return said


def suppressed_schema(shape: Shape) -> pa.Schema:
    """Entries of the buffer by key, or by key and window: the latest change, the value before the first, its size."""
    bounds = [(name, pa.int64()) for name in WINDOW] if shape.window is not None else []
    times = [(name, pa.int64()) for name in ("record_time_ms", "buffer_time_ms", "stream_time_ms", "bytes")]
    values = [(name, shape.value.arrow_type) for name in ("value", "old", "prior")]
    context = [("headers", HEADERS), ("context_topic", pa.string()), ("context_offset", pa.int64())]
    return pa.schema([("key", shape.key.arrow_type), *bounds, *values, *context, *times])


def windows_and_wait(graph: Graph, above: Node) -> tuple[Windows, int]:
    """Windows of the aggregate above a suppress, ``above`` itself or higher; the longest wait of all
    (GraphGraceSearchUtil).

    The aggregates take records of sessions and sliding windows, whose ends are inclusive, up to ``end + wait``, at
    which Kafka's suppress lets them go: with semantics "kip" it waits until they are past. Raises TopologyError where
    there are no windows.
    """
    above_windows = [] if above.shape.window is None else _windows_above(graph, above)
    if not above_windows:
        raise TopologyError(
            above.name,
            "a windowed table (window close time is only defined for windowed computations)",
            "a table without windows",
            "use windowed_by() before the aggregation",
        )
    is_kip, inclusive = graph.semantics == "kip", SessionWindows | SlidingWindows
    return above_windows[0], max(
        windows.wait_ms + (is_kip and isinstance(windows, inclusive)) for windows in above_windows
    )


def _windows_above(graph: Graph, node: Node) -> list[Windows]:
    """Windows of the nearest windowed aggregates on every way up."""
    if node.windowed_by is not None:
        return [node.windowed_by]
    return [windows for name in node.inputs for windows in _windows_above(graph, graph.nodes[name])]
