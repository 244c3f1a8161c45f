"""Compares the output of a test driver with the expectation of a test, like a diff.

Rule: what an expected record does not have (a time, headers) is not compared. The error shows the records around the
first one that differs, and explains the record that was piped and that it came of.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.errors import ConfigError, ReplayError
from ..functions.expressions import Windowed
from .driver_records import OutputRecord, TestRecord
from .test_driver import TopologyTestDriver

Expected = TestRecord | OutputRecord | tuple[Any, Any] | tuple[Any, Any, int]
"""A record; or (key, value); or (key, value, timestamp_ms). A windowed key is a ``Windowed`` one."""

_AROUND = 3
"""Lines shown before and after those that differ."""


def assert_outputs(driver: TopologyTestDriver, topic: str, expected: Iterable[Expected]) -> None:
    """Read all records of the output ``topic`` that were not read yet; they must be ``expected``, in order.

    Times are compared where the expected records have them, headers where one has some; all of them have times or none.
    Raises AssertionError with a diff ("-" expected, "+" got) and, of the first record that differs, what every operator
    did with the piped record that caused it; ConfigError for expected records of which only some have times.
    Example: ``assert_outputs(driver, "counts", [("ann", 1), ("ann", 2)])``.
    """
    __tracebackhide__ = True
    wanted = [_record(one) for one in expected]
    got = driver.read_outputs(topic)
    columns = _columns(wanted)
    wanted_rows, rows = ([_row(one, columns) for one in records] for records in (wanted, map(_record, got)))
    if _are_same(wanted_rows, rows):
        return
    first = next((n for n, pair in enumerate(zip(wanted_rows, rows, strict=False)) if not _are_same(*pair)), None)
    first = min(len(wanted_rows), len(rows)) if first is None else first
    lines = [
        f"output {topic!r} differs at record {first} (from 0): {len(wanted)} expected, {len(got)} got",
        *_difference(_table(columns, wanted_rows, rows)),
    ]
    if first < len(got):
        lines += _explanation(driver, got[first].arrival)
    raise AssertionError("\n".join(lines))


def _record(given: Expected) -> TestRecord:
    if isinstance(given, TestRecord):
        return given
    if isinstance(given, OutputRecord):
        key = given.key if given.window is None else Windowed(given.key, *given.window)
        return TestRecord(key, given.value, given.timestamp_ms, given.headers)
    if isinstance(given, tuple) and len(given) in (2, 3):
        return TestRecord(*given)
    next_step = "write for example ('ann', 5), ('ann', 5, 1_000) or TestRecord('ann', 5)"
    raise ConfigError(
        "expected record", "(key, value), (key, value, timestamp_ms) or a TestRecord", repr(given), next_step
    )


def _columns(wanted: Sequence[TestRecord]) -> list[str]:
    """What is compared."""
    timed = [one for one in wanted if one.timestamp_ms is not None]
    if timed and len(timed) < len(wanted):
        got = f"{len(timed)} of {len(wanted)} with a time"
        raise ConfigError("expected records", "times in all of them or in none", got, "give the others a time, too")
    has_headers = any(one.headers for one in wanted)
    return ["key", "value", *(["timestamp_ms"] if timed else []), *(["headers"] if has_headers else [])]


def _row(record: TestRecord, columns: Sequence[str]) -> list[Any]:
    return [getattr(record, column) for column in columns]


def _are_same(one: Any, other: Any) -> bool:
    """Equal, where NaN is equal to NaN: an output that has it can be expected."""
    if isinstance(one, float) and isinstance(other, float) and one != one:
        return other != other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_same(value, other[name]) for name, value in one.items())
    for kind in (list, tuple):
        if isinstance(one, kind) and isinstance(other, kind):
            return len(one) == len(other) and all(map(_are_same, one, other))
    return bool(one == other)


def _table(columns: list[str], wanted: list[list[Any]], got: list[list[Any]]) -> tuple[str, list[str], list[str]]:
    """The head, and lines of both, with columns of one width."""
    cells = [columns, *([repr(cell) for cell in row] for row in (*wanted, *got))]
    widths = [max(len(row[column]) for row in cells) for column in range(len(columns))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return lines[0], lines[1 : 1 + len(wanted)], lines[1 + len(wanted) :]


def _difference(table: tuple[str, list[str], list[str]]) -> list[str]:
    head, wanted, got = table
    shown = [f"    {head}"]
    # In 200 lines or more, autojunk ignores a line that occurs often, and outputs repeat themselves.
    for group in SequenceMatcher(None, wanted, got, autojunk=False).get_grouped_opcodes(_AROUND):
        for kind, first, last, begin, end in group:
            if kind == "equal":
                shown += [f"    {line}" for line in wanted[first:last]]
            else:
                shown += [*(f"  - {line}" for line in wanted[first:last]), *(f"  + {line}" for line in got[begin:end])]
    return shown


def _explanation(driver: TopologyTestDriver, arrival: int) -> list[str]:
    from ..explain.records_at_hand import explain_arrival  # tables and landing, which a test that passes does without

    try:
        record, sentences = explain_arrival(driver.topology, _piped(driver), arrival)
    except ReplayError as error:
        return [f"The record that it came of is not explained: {error}"]
    return [f"The first record that differs came of {record}:", *(f"    {sentence}" for sentence in sentences)]


def _piped(driver: TopologyTestDriver) -> dict[str, list[tuple[pa.Table, np.ndarray]]]:
    """All records that were piped, by topic, with their arrivals.

    Raises ConfigError where stream time or the wall clock was advanced without a record, which can't be landed as one.
    """
    parts: dict[str, list[tuple[pa.Table, np.ndarray]]] = defaultdict(list)
    for batch in driver.batches():
        if batch.edit is not None:
            got, next_step = f"a {batch.edit.method} of the store {batch.edit.store!r}", "let records write the store"
            raise ConfigError("explanation", "records alone", got, next_step)
        if batch.recorded is not None:
            got = "advance_wall_clock_time" if batch.recorded[0] is None else "advance_stream_time"
            next_step = "land the records, and ask replay explain"
            raise ConfigError("explanation", "records alone", got, next_step)
        for topic, part in batch.landed.items():
            parts[topic].append(part)
    return parts
