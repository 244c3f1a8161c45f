"""Rows of an output by their key and window, which record caused the newest of them, and where they may be instead.

Owns the way from a row, or from its absence, to records that ``explain`` takes. Rule: nothing is run; what no table
says is left out. A row's cause is an offset alone, so the topics of its task are tried, and those of another increment
are none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError, ReplayError
from ...state.near_names import did_you_mean
from ...state.tables.names import DROPPED
from ...state.tables.parquet_reader import show_command
from ...state.tables.warehouse import WINDOW
from ...state.times import instant_ms
from ..graph.nodes import RepartitionNode, SinkNode
from ..history.committed_tables import read_changelog, read_table
from ..history.history import History
from ..history.inspection import WAITS_UNTIL, inspect_store
from ..history.row_choice import RowChoice
from ..topology.topology import SubTopology, Topology
from .committed_answer import cause_of
from .explanation import say_place
from .key_records import KeyRecords, records_of_key, windows_beside
from .observations import Position

ROWS_MAX = 20
"""Of a key's changelog, the newest."""
STARTS_MAX = 5
"""Of a key's windows, the nearest."""


@dataclass(frozen=True)
class OutputRows:
    """``rows``: the newest records of the key and window in the output, oldest first, of ``total``. ``causes``: places
    that may have caused the newest one. ``waiting``: store → rows that wait in it under the key and window.
    ``is_final``: a suppress let the rows go, so the cause is the record that moved stream time.

    The others are of a row that is not there. ``dropped``: rows of `dropped` that windows which begin at the time
    refused, of the key where its records are known. ``records``: those with the key. ``beside``: starts (ms) of the
    windows before and after the time at which none begins. ``starts``: those (ms) of windows of the key that have rows,
    nearest first.
    """

    rows: list[dict[str, Any]]
    total: int
    causes: list[Position]
    waiting: dict[str, list[dict[str, Any]]]
    is_final: bool = False
    dropped: list[dict[str, Any]] = field(default_factory=list)
    records: KeyRecords | None = None
    beside: tuple[int, int] | None = None
    starts: list[int] = field(default_factory=list)


def find_output_rows(history: History, topology: Topology, output: str, key: str, window: str | None) -> OutputRows:
    """What is there of ``key`` (as text, a number, or JSON), and of the windows that begin at ``window`` (ISO 8601 or
    milliseconds; None: all). Raises ConfigError for an output that the topology does not have, a key or a time that is
    none, and a window of an output without windows.
    """
    sub, sink = _writer(topology, output)
    changelog = read_changelog(history.warehouse, history.pipeline, output)
    matches, total = RowChoice(key, window).of(changelog)
    waiting = _waiting(history, topology, sink, key, window)
    if total:
        rows = matches.slice(max(total - ROWS_MAX, 0)).to_pylist()
        is_final = topology.suppress_above(sink) is not None
        return OutputRows(rows, total, list(_causes(history, sub, rows[-1])), waiting, is_final)
    window_ms = None if window is None else instant_ms(window, "--window")
    records = records_of_key(history, topology, sub, sink, key, window_ms)
    beside = None if window_ms is None else windows_beside(topology, sink, window_ms)
    starts = [] if window_ms is None else _starts(changelog, key, window_ms)
    dropped = _dropped(history, window_ms, records)
    return OutputRows([], 0, [], waiting, False, dropped, records, beside, starts)


def _writer(topology: Topology, output: str) -> tuple[SubTopology, SinkNode]:
    for sub in topology.sub_topologies:
        for sink in sub.sinks:
            if sink.topic == output:
                return sub, sink
    known = [sink.topic for sink in topology.sinks()]
    next_step = did_you_mean(output, known, "name one of them")
    raise ConfigError("--output", f"one of {', '.join(known)}", repr(output), next_step)


def _causes(history: History, sub: SubTopology, row: dict[str, Any]) -> Iterator[Position]:
    """Records at the row's cause in the topics of its task that its increment has read."""
    partition, offset = row["partition"], row["cause_offset"]
    for source in sub.sources if offset >= 0 else ():
        record = source.landed_topic or source.topic, partition, offset
        try:
            if isinstance(source, RepartitionNode):
                increment, _ = cause_of(history, record)
            else:
                increment = history.reading(*record) or 0
        except ReplayError:  # there is no such record
            continue
        if increment == row["increment"]:
            yield record


def _waiting(
    history: History, topology: Topology, sink: SinkNode, key: str, window: str | None
) -> dict[str, list[dict[str, Any]]]:
    above = topology.suppress_above(sink)
    store = None if above is None else topology.graph.store_of(above)
    if store is None:
        return {}
    rows, _ = RowChoice(None, window).of(inspect_store(history.at(), store, key))
    names = [name for name in ("partition", "key", *WINDOW, WAITS_UNTIL) if name in rows.column_names]
    waiting = rows.select(names).to_pylist()
    return {store: waiting} if waiting else {}


def _starts(changelog: pa.Table, key: str, window_ms: int) -> list[int]:
    rows, _ = RowChoice(key).of(changelog)
    starts: list[int] = pc.unique(rows[WINDOW[0]]).to_pylist()
    return sorted(starts, key=lambda start: (abs(start - window_ms), start))[:STARTS_MAX]


def _dropped(history: History, window_ms: int | None, records: KeyRecords) -> list[dict[str, Any]]:
    if window_ms is None:
        return []
    rows = read_table(history.warehouse, history.pipeline, DROPPED)
    chosen: pa.Table = rows.filter(pc.equal(rows[WINDOW[0]], window_ms))
    dropped: list[dict[str, Any]] = chosen.to_pylist()
    if records.changed_by is not None:
        return dropped
    of_key = {(each.topic, *place) for each in records.topics for place in each.places}
    return [row for row in dropped if (row["topic"], row["partition"], row["offset"]) in of_key]


def dropped_record(history: History, number: int) -> tuple[str, dict[str, Any]]:
    """The record, as ``explain`` takes it, of a row of `dropped`, and the row. ``number``: 1 is the newest, which is
    the last that `replay show dropped` prints. Raises ConfigError where there are not so many.
    """
    rows = read_table(history.warehouse, history.pipeline, DROPPED)
    if not 1 <= number <= len(rows):
        expected = f"a number from 1 to {len(rows):,}" if len(rows) else "a row of dropped"
        got = str(number) if len(rows) else "none at all"
        show = show_command(DROPPED, history.warehouse.root, history.pipeline)
        raise ConfigError("--dropped", expected, got, f"see `{show}`")
    (row,) = rows.slice(len(rows) - number, 1).to_pylist()
    return say_place((row["topic"], row["partition"], row["offset"])), row
